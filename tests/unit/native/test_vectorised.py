"""Hot loops become vector code: the assembly is counted, not timed."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest
from gradopt.lowering.native import codegen, kernels
from gradopt.lowering.native.intrinsics_arithmetic import FIRST_LLVM_WITH_MAXIMUM
from gradopt.lowering.native.program import KernelSource

X86 = codegen.host().triple.startswith("x86_64")
FEATURES = codegen.host().features
pytestmark = pytest.mark.skipif(not X86 or "+avx2" not in FEATURES or "+fma" not in FEATURES, reason="counts AVX2 instructions")

ROW = """
def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    y = pointer_f32(context, 1)
    out = pointer_f32(context, 2)
    n = parameter(context, 0)
    for r in range(lo, hi):
        acc = f32({identity})
        for i in range(n):
            acc = {step}
        store(out, r, acc)
    return 0
"""
MAP = """
def kernel(lo, hi, context):
    x = pointer_{element}(context, 0)
    y = pointer_{element}(context, 1)
    out = pointer_{element}(context, 2)
    for i in range(lo, hi):
        store(out, i, {body})
    return 0
"""


def assembly(source: str, front_end: str) -> str:
    return codegen.assembly(kernels.FRONT_ENDS[front_end](KernelSource("k", source)))


def vector_registers(text: str, instruction: str) -> set[str]:
    """The vector registers that such an instruction writes (the last operand in this syntax)."""
    return set(re.findall(rf"\b{instruction}\S*\s.*%([yz]mm\d+)$", text, re.MULTILINE))


@pytest.fixture(params=["direct", "numba"])
def front_end(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("identity", "step", "instruction"),
    [
        ("0.0", "accumulate_add(acc, load(x, r * n + i))", "vaddps"),
        ("0.0", "accumulate_add(acc, multiply(load(x, r * n + i), load(y, i)))", "vfmadd"),
        ("1.0", "accumulate_multiply(acc, load(x, r * n + i))", "vmulps"),
        ("-INFINITY", "accumulate_maximum(acc, load(x, r * n + i))", "vmaxps"),
        ("INFINITY", "accumulate_minimum(acc, load(x, r * n + i))", "vminps"),
    ],
)
def test_reductions_use_several_vector_accumulators(front_end: str, identity: str, step: str, instruction: str) -> None:
    if instruction in ("vmaxps", "vminps") and llvm.llvm_version_info[0] < FIRST_LLVM_WITH_MAXIMUM:
        pytest.skip("this LLVM does not know a maximum that keeps NaN as a reduction")
    text = assembly(ROW.format(identity=identity, step=step), front_end)
    assert len(vector_registers(text, instruction)) >= 4


@pytest.mark.parametrize(
    ("element", "body", "instruction"),
    [
        ("f32", "add(multiply(load(x, i), load(y, i)), load(x, i))", "vfmadd"),
        ("f64", "load(x, i) / load(y, i)", "vdivpd"),
        ("f32", "absolute(subtract(load(x, i), load(y, i)))", "vsubps"),
        ("f32", "exp(load(x, i))", "vfmadd"),
        ("f32", "tanh(load(x, i))", "vfmadd"),
        ("i32", "multiply(load(x, i), load(y, i))", "vpmulld"),
        ("f16", "add(load(x, i), load(y, i))", "vcvtph2ps"),
        ("bf16", "add(load(x, i), load(y, i))", "vaddps"),
    ],
)
def test_maps_are_vectorised_without_checks_for_aliasing(front_end: str, element: str, body: str, instruction: str) -> None:
    source = MAP.format(element=element, body=body)
    text = assembly(source, front_end)
    assert vector_registers(text, instruction), text
    module = codegen.optimised(kernels.FRONT_ENDS[front_end](KernelSource("k", source)))
    assert "memcheck" not in str(module), "operands are known to be apart, so nothing is checked at run time"


def test_operands_in_one_buffer_are_not_taken_to_be_apart() -> None:
    """`same_as` puts two slots into one group: the loop that reads ahead of its stores must be checked or kept scalar."""
    source = """
def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    out = pointer_f32(context, 1{same})
    for i in range(lo, hi):
        store(out, i, load(x, i) + load(x, i + 1))
    return 0
"""
    apart, shared = (
        str(codegen.optimised(kernels.direct_module(KernelSource("k", source.format(same=same))))) for same in ("", ", 0")
    )
    assert "memcheck" not in apart and "x float>" in apart
    assert "memcheck" in shared


def test_only_reductions_are_reassociated() -> None:
    text = kernels.direct_module(KernelSource("k", MAP.format(element="f32", body="add(load(x, i), load(y, i))")))
    assert "fadd contract float" in text and "reassoc" not in text
    text = kernels.direct_module(KernelSource("k", MAP.format(element="f32", body="load(x, i) + load(y, i)")))
    assert "fadd float" in text
    text = kernels.direct_module(KernelSource("k", ROW.format(identity="0.0", step="accumulate_add(acc, load(x, i))")))
    assert "reassoc" in text and "nnan" not in text and "ninf" not in text and " fast " not in text


SHORT_ROW = """
def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    out = pointer_f32(context, 1)
    {directive}
    for r in range(lo, hi):
        acc = f32(0.0)
        for i in range(0, 32):
            acc = accumulate_add(acc, load(x, r * 32 + i))
        store(out, r, acc)
    return 0
"""


def test_short_loops_that_are_kept_are_vectorised(front_end: str) -> None:
    """LLVM unrolls a loop of 32 turns before its vectoriser sees it: 32 scalar additions instead of a few of vectors."""
    kept, unrolled = (assembly(SHORT_ROW.format(directive=directive), front_end) for directive in ("keep_loops()", "pass"))
    assert "vaddps" in kept
    assert kept.count("vaddss") < 4 < unrolled.count("vaddss")
