"""What a step of a recurrent network costs: how many kernels the loops run, and that two threads share a large enough step."""

from __future__ import annotations

from pathlib import Path

from gradopt.ir.operation import Operation

import gradopt

PROGRAM = Path(__file__).parents[3] / "benchmarks" / "programs" / "rnn_100x32x128.ir"


def loops() -> list[list[Operation]]:
    """The kernels in each scan of the value and the gradient of the weights."""
    compiled = gradopt.compile(gradopt.parse(PROGRAM.read_text(encoding="utf-8")), "f_value_and_grad", wrt=["wx", "wh", "b"])
    function = compiled.module.regions[0].block.first
    while function.properties["sym_name"].value != "f_value_and_grad":
        function = function.next
    scans = [op for op in function.regions[0].block.operations if op.name == "prim.scan"]
    return [[op for op in scan.body.block.operations if op.name == "kernel.nest"] for scan in scans]


def has_product(kernel: Operation) -> bool:
    return any(op.name == "kernel.gemm" for op in kernel.walk())


def test_one_product_a_step() -> None:
    forward, backward = loops()
    assert [sum(map(has_product, kernels)) for kernels in (forward, backward)] == [1, 1]
    assert len(forward) <= 2  # the product with all that follows it, and the copy of the carry
    assert len(backward) <= 3  # the cotangent of the sum and its column sums, their total, the product


def test_two_threads_share_a_step() -> None:
    for kernels in loops():
        for kernel in kernels:
            if has_product(kernel):
                assert (kernel.outer, kernel.grain) == ((32,), (16,))


def test_few_chunks_are_of_one_size() -> None:
    _, backward = loops()
    uneven = [kernel for kernel in backward if kernel.grain[0] < kernel.outer[0] and kernel.outer[0] % kernel.grain[0]]
    assert not uneven
