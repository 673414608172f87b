"""Calls: what is accepted, what is refused and how, who owns memory."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gradopt.ir.diagnostics import ArgumentTypeError, ArgumentValueError
from gradopt.lowering.native import driver
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import Argument, Dimension, KernelSource, Program, Result, Run, SizeRef

Maker = Callable[..., Program]


@pytest.fixture
def add(map_program: Maker) -> Executable:
    return Executable(map_program("v = a + b", ["f32", "f32"], "f32", 6))


def test_fast_and_slow_way_agree(add: Executable) -> None:
    a, b = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    assert add._native is not None and add._native(a, b) is not NotImplemented, "these arrays take the fast way"
    expected = a + b
    strided = np.repeat(a, 2)[::2]
    unaligned = np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float32)
    read_only = a.copy()
    read_only.flags.writeable = False
    subclass = a.view(type("Sub", (np.ndarray,), {}))
    for argument in (a, strided, unaligned, read_only, subclass, a[::-1][::-1], list(a), np.ma.array(a)):
        found = add(argument, b)
        assert type(found) is np.ndarray and found.flags.c_contiguous and found.flags.writeable
        np.testing.assert_array_equal(found, expected)
    assert add._native(strided, b) is NotImplemented
    np.testing.assert_array_equal(add(a, a), a + a)


def test_fortran_order_is_copied() -> None:
    source = """
def kernel(lo, hi, context):
    x = pointer_f64(context, 0)
    out = pointer_f64(context, 1)
    for i in range(lo, hi):
        store(out, i, load(x, i))
    return 0
"""
    program = Program(
        "copy", [KernelSource("copy", source)], [], [Argument("f64", (3, 4)), Result("f64", (3, 4))], [Run(0, 12, 12, (0, 1))]
    )
    x = np.arange(12.0).reshape(4, 3).T
    np.testing.assert_array_equal(Executable(program)(x), x)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones(6, "f4"),), ArgumentTypeError, r"map takes 2 arguments, found 1"),
        ((np.ones(6, "f4"),) * 3, ArgumentTypeError, r"map takes 2 arguments, found 3"),
        ((np.ones(6, "f4"), np.ones(6)), ArgumentTypeError, r"argument 1 \(b\): expected f32 \(float32\), found float64"),
        ((np.ones(6, ">f4"), np.ones(6, "f4")), ArgumentTypeError, r"0 \(a\): expected f32.*>f4, not in this machine's byte"),
        ((np.ones(5, "f4"), np.ones(6, "f4")), ArgumentValueError, r"argument 0 \(a\): expected shape \(6,\), found \(5,\)"),
        ((np.ones((6, 1), "f4"), np.ones(6, "f4")), ArgumentValueError, r"shape \(6,\) of rank 1, found \(6, 1\) of rank 2"),
        ((None, np.ones(6, "f4")), ArgumentTypeError, r"argument 0 \(a\): expected an array of f32, found None"),
        (("text", np.ones(6, "f4")), ArgumentTypeError, r"argument 0 \(a\): expected f32"),
        (([[1], [1, 2]], np.ones(6, "f4")), ArgumentTypeError, r"argument 0 \(a\): expected an array of f32, found list"),
    ],
)  # fmt: skip
def test_wrong_arguments(add: Executable, arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        add(*arguments)


def dynamic_program() -> Program:
    source = """
def kernel(lo, hi, context):
    a = pointer_f32(context, 0)
    b = pointer_f32(context, 1)
    out = pointer_f32(context, 2)
    n = parameter(context, 0)
    for i in range(lo, hi):
        store(out, i, load(a, i) + load(b, index_modulo(i, n)))
    return 0
"""
    batch, columns, total = SizeRef(0), SizeRef(1), SizeRef(2)
    from gradopt.lowering.native.program import Computed

    return Program(
        "bias",
        [KernelSource("bias", source)],
        [Dimension(0, 0), Dimension(0, 1), Computed("mul", 0, 1)],
        [Argument("f32", (batch, columns), "x"), Argument("f32", (columns,), "b"), Result("f32", (batch, columns))],
        [Run(0, total, 1000, (0, 1, 2), (columns,))],
    )


def test_dynamic_sizes_bind_once() -> None:
    run = Executable(dynamic_program())
    x, b = np.ones((3, 4), np.float32), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(run(x, b), x + b)
    with pytest.raises(
        ArgumentValueError,
        match=r"bias: argument 1 \(b\): expected shape \(\?,\) with 4 at axis 0 \(axis 1 of argument 0 \(x\)\), found \(5,\)",
    ):
        run(x, np.ones(5, np.float32))
    assert run(np.ones((0, 4), np.float32), b).shape == (0, 4)


def test_rank_zero(map_program: Maker) -> None:
    def scalar(body: str, element: str, result: str) -> Executable:
        program = map_program(body, [element], result, 1)
        program.buffers = [Argument(element, (), "a"), Result(result, ())]
        return Executable(program)

    double = scalar("v = a + a", "f64", "f64")
    for value in (1.5, np.float64(1.5), np.array(1.5)):
        found = double(value)
        assert type(found) is np.ndarray and found.shape == () and found == 3.0
    assert double(2) == 4.0
    with pytest.raises(ArgumentTypeError, match="Python bool"):
        double(True)
    whole = scalar("v = add(a, a)", "i8", "i8")
    assert whole(7) == 14
    for wrong in (200, 1.0, True):
        with pytest.raises(ArgumentTypeError, match="expected i8, found the Python"):
            whole(wrong)
    flag = scalar("v = not a", "i1", "i1")
    assert flag(True) == False  # noqa: E712
    with pytest.raises(ArgumentTypeError, match="expected i1"):
        flag(1)
    half = scalar("v = a", "bf16", "bf16")
    assert half(ml_dtypes.bfloat16(2.5)) == 2.5 and half(2.5) == 2.5
    assert half(np.array(2.5, ml_dtypes.bfloat16).view(np.uint16)) == 2.5, "the bits as uint16"


def test_results_do_not_alias(add: Executable) -> None:
    """Memory comes back only when the array and every view of it are gone."""
    a = np.arange(6, dtype=np.float32)
    b = np.zeros(6, np.float32)
    kept = add(a, b)
    view, address = kept[2:4], kept.ctypes.data
    del kept
    gc.collect()
    others = [add(a + k, b) for k in range(20)]
    np.testing.assert_array_equal(view, [2, 3])
    assert all(other.ctypes.data != address for other in others)
    assert len({other.ctypes.data for other in others}) == 20
    del view
    again = [add(a, b) for _ in range(20)]
    assert address in {array.ctypes.data for array in again}, "the memory is used again"
    for k, other in enumerate(others):
        np.testing.assert_array_equal(other, a + k)


def test_results_are_ordinary_arrays(add: Executable) -> None:
    a = np.arange(6, dtype=np.float32)
    found = add(a, a)
    assert found.ctypes.data % 64 == 0 and found.flags.writeable and found.flags.aligned and not found.flags.owndata
    found += 1
    np.testing.assert_array_equal(found, 2 * a + 1)
    assert sys.getrefcount(found) == 2
    reference = sys.getrefcount(a.dtype)
    for _ in range(1000):
        add(a, a)
    assert abs(sys.getrefcount(a.dtype) - reference) < 10, "no reference to the type is lost or leaked"


def test_memory_does_not_grow(add: Executable) -> None:
    a = np.arange(6, dtype=np.float32)
    add(a, a)
    before = driver.idle_bytes()
    for _ in range(2000):
        add(a, a)
    assert driver.idle_bytes() == before


def test_idle_memory_is_capped(map_program: Maker) -> None:
    run = Executable(map_program("v = a", ["f32"], "f32", 1 << 18))
    x = np.ones(1 << 18, np.float32)
    try:
        driver.set_idle_limit(3 << 20)
        arrays = [run(x) for _ in range(8)]
        del arrays
        assert 0 < driver.idle_bytes() <= 3 << 20
        driver.set_idle_limit(0)
        assert driver.idle_bytes() == 0
        np.testing.assert_array_equal(run(x), x)
        assert driver.idle_bytes() == 0
    finally:
        driver.set_idle_limit(driver.DEFAULT_IDLE_BYTES)
    with pytest.raises(ValueError, match="idle limit -1"):
        driver.set_idle_limit(-1)


def test_inputs_are_never_written(add: Executable) -> None:
    a, b = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    a.flags.writeable = b.flags.writeable = False
    add(a, b)
    np.testing.assert_array_equal(a, np.arange(6))


def test_several_results_and_none() -> None:
    source = """
def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    s = pointer_f32(context, 1)
    d = pointer_i32(context, 2)
    for i in range(lo, hi):
        store(s, i, load(x, i) * load(x, i))
        store(d, i, i32(load(x, i)))
    return 0
"""
    kernel = KernelSource("two", source)
    buffers = [Argument("f32", (4,)), Result("f32", (4,)), Result("i32", (2, 2))]
    x = np.arange(4, dtype=np.float32)
    square, whole = Executable(Program("two", [kernel], [], buffers, [Run(0, 4, 4, (0, 1, 2))]))(x)
    np.testing.assert_array_equal(square, x * x)
    np.testing.assert_array_equal(whole, x.astype(np.int32).reshape(2, 2))
    assert Executable(Program("none", [], [], [Argument("f32", (4,))], []))(x) == ()
    single = Program("one", [], [], [Result("f32", (0,))], [], single=False)
    assert [array.shape for array in Executable(single)()] == [(0,)]


def test_without_knowledge_of_the_layout(add: Executable, map_program: Maker) -> None:
    """The way for interpreters whose objects lie elsewhere: same results, same errors."""
    a, b = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    add._native = None
    np.testing.assert_array_equal(add(a, b), a + b)
    with pytest.raises(ArgumentValueError):
        add(a, b[:3])
    run = Executable(dynamic_program())
    run._native = None
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(run(x, np.arange(4, dtype=np.float32)), x + np.arange(4))


def test_sixteen_threads_one_executable(map_program: Maker) -> None:
    """16 threads, 1,000 calls each: every result has the bits of a call made alone."""
    program = map_program("v = exp(a) * tanh(b)", ["f32", "f32"], "f32", 3000, 1024)
    run = Executable(program)
    rng = np.random.default_rng(0)
    inputs = [(rng.normal(size=3000).astype(np.float32), rng.normal(size=3000).astype(np.float32)) for _ in range(16)]
    expected = [run(*pair).copy() for pair in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        kept = []
        for turn in range(1000):
            found = run(*inputs[number])
            if not np.array_equal(found, expected[number]):
                wrong.append(number)
            if turn % 100 == 0:
                kept.append(found)
        wrong.extend(number for array in kept if not np.array_equal(array, expected[number]))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
