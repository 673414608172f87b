"""Small whole programs: rows, products, dynamic sizes, scratch memory, status records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradopt.lowering.native.errors import GradoptRuntimeError
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import (
    Argument,
    Computed,
    Constant,
    Copy,
    Dimension,
    KernelSource,
    Program,
    Result,
    Run,
    SizeRef,
    Static,
    Temporary,
)

SOFTMAX = """
def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    y = pointer_f32(context, 1)
    n = parameter(context, 0)
    for row in range(lo, hi):
        base = row * n
        top = f32(-INFINITY)
        for i in range(n):
            top = accumulate_maximum(top, load(x, base + i))
        total = f32(0.0)
        for i in range(n):
            e = exp(subtract(load(x, base + i), top))
            store(y, base + i, e)
            total = accumulate_add(total, e)
        for i in range(n):
            store(y, base + i, divide(load(y, base + i), total))
    return 0
"""


SCALE_ADD = """
def kernel(lo, hi, context):
    a = pointer_f64(context, 0)
    b = pointer_f64(context, 1)
    out = pointer_f64(context, 2)
    for i in range(lo, hi):
        store(out, i, load(a, i) * f64(2.0) + load(b, i))
    return 0
"""


def softmax_program() -> Program:
    """Rows of any number and length."""
    rows, columns = SizeRef(0), SizeRef(1)
    return Program(
        "softmax",
        [KernelSource("softmax", SOFTMAX)],
        [Dimension(0, 0), Dimension(0, 1)],
        [Argument("f32", (rows, columns), "x"), Result("f32", (rows, columns))],
        [Run(0, rows, 4, (0, 1), (columns,))],
    )


def test_row_kernel_with_dynamic_sizes() -> None:
    softmax = Executable(softmax_program())
    for shape in ((5, 7), (1, 1), (33, 129), (0, 4), (4, 0), (100, 1000)):
        x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        found = softmax(x)
        assert found.shape == shape and found.dtype == np.float32
        if x.size:
            e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
            np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=3e-6)


def test_nan_and_infinity_survive() -> None:
    x = np.zeros((3, 40), np.float32)
    x[0, 13], x[1, 7], x[2, 39] = np.nan, np.inf, -np.inf
    found = Executable(softmax_program())(x)
    assert np.isnan(found[0]).all() and np.isnan(found[1, 7])
    np.testing.assert_allclose(found[2], [1 / 39] * 39 + [0], rtol=1e-6)


GEMM = """
def kernel(lo, hi, context):
    a = pointer_{e}(context, 0)
    b = pointer_{e}(context, 1)
    c = pointer_{e}(context, 2)
    n = parameter(context, 0)
    k = parameter(context, 1)
    {r}(context, 0, 1, hi - lo, n, k, {e}(1.0), offset(a, lo * k), k, b, k, {e}(0.0), offset(c, lo * n), n)
    return 0
"""


@pytest.mark.parametrize(("element", "routine", "dtype"), [("f32", "sgemm", "float32"), ("f64", "dgemm", "float64")])
def test_products_in_row_blocks(element: str, routine: str, dtype: str) -> None:
    """a @ b.T, the transposed operand read in place."""
    m, n, k = 37, 21, 50
    program = Program(
        "product", [KernelSource("product", GEMM.format(e=element, r=routine))], [],
        [Argument(element, (m, k)), Argument(element, (n, k)), Result(element, (m, n))],
        [Run(0, m, 8, (0, 1, 2), (n, k))],
    )  # fmt: skip
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(n, k)).astype(dtype)
    np.testing.assert_allclose(Executable(program)(a, b), a @ b.T, rtol=1e-4 if dtype == "float32" else 1e-12)


CHOLESKY = """
def kernel(lo, hi, context):
    a = pointer_f64(context, 0)
    l = pointer_f64(context, 1)
    n = parameter(context, 0)
    for i in range(n * n):
        store(l, i, load(a, i))
    info = dpotrf(context, 1, n, l, n)
    if ne(info, 0):
        return report(context, 9, i64(info), 0)
    return 0
"""


def test_lapack_and_its_failure() -> None:
    program = Program(
        "cholesky", [KernelSource("cholesky", CHOLESKY)], [], [Argument("f64", (4, 4)), Result("f64", (4, 4))],
        [Run(0, 1, 1, (0, 1), (4,))],
    )  # fmt: skip
    root = np.tril(np.random.default_rng(0).normal(size=(4, 4))) + 4 * np.eye(4)
    cholesky = Executable(program)
    np.testing.assert_allclose(np.triu(cholesky(root @ root.T)).T, root, rtol=1e-12)
    with pytest.raises(GradoptRuntimeError) as caught:
        cholesky(-np.eye(4))
    assert (caught.value.check, caught.value.value) == (9, 1)


def test_dynamic_temporaries_and_constants() -> None:
    """tmp = 2x + c, out = 2 tmp + c, the arena sized by the argument."""
    n, nbytes, arena = SizeRef(0), SizeRef(2), SizeRef(4)
    constant = np.arange(1000, dtype=np.float64)
    program = Program(
        "dynamic",
        [KernelSource("scale", SCALE_ADD)],
        [Dimension(0, 0), Static(8), Computed("mul", 0, 1), Static(64), Computed("add", 2, 3)],
        [Argument("f64", (n,)), Constant("f64", constant.tobytes()), Temporary("f64", nbytes, 64), Result("f64", (n,))],
        [Run(0, n, 64, (0, 1, 2)), Run(0, n, 64, (2, 1, 3))],
        arena_bytes=arena,
    )
    run = Executable(program)
    for size in (1, 64, 65, 1000):
        x = np.linspace(0, 1, size)
        np.testing.assert_array_equal(run(x), 2 * (2 * x + constant[:size]) + constant[:size])
    assert run.peak_bytes(np.zeros(100)) == 800 + 64 + 800


REPORT = """
def kernel(lo, hi, context):
    x = pointer_f64(context, 0)
    out = pointer_f64(context, 1)
    status = i32(0)
    for i in range(lo, hi):
        v = load(x, i)
        if v < f64(0.0):
            status = report(context, 7, v, i)
        store(out, i, v)
    return status
"""


def test_the_lowest_failing_chunk_is_reported(threads: Any) -> None:
    n = 1000
    program = Program(
        "report", [KernelSource("report", REPORT)], [], [Argument("f64", (n,)), Result("f64", (n,))], [Run(0, n, 10, (0, 1))]
    )
    run = Executable(program)
    for count in (1, 2, 3):
        threads(count)
        for _ in range(50):
            x = np.ones(n)
            x[[617, 618, 999, 623]] = [-1.5, -2.5, -3.5, -4.5]
            with pytest.raises(GradoptRuntimeError) as caught:
                run(x)
            assert (caught.value.check, caught.value.value, caught.value.position) == (7, -1.5, 617)
        np.testing.assert_array_equal(run(np.ones(n)), np.ones(n))


def test_a_status_without_a_report() -> None:
    source = "def kernel(lo, hi, context):\n    return 3\n"
    run = Executable(Program("bare", [KernelSource("bare", source)], [], [], [Run(0, 1, 1, ())]))
    with pytest.raises(GradoptRuntimeError) as caught:
        run()
    assert caught.value.check == 0


def test_scratch_memory(threads: Any) -> None:
    """Each thread sorts its row through scratch memory of its own."""
    source = """
def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    out = pointer_f32(context, 1)
    n = parameter(context, 0)
    row = scratch_f32(context, 64, 0)
    for r in range(lo, hi):
        for i in range(n):
            store(row, i, load(x, r * n + i))
        for i in range(n):
            store(out, r * n + i, load(row, n - 1 - i))
    return select(scratch_size(context) < 64 + 4 * n, i32(1), i32(0))
"""
    m, n = 200, 1000
    program = Program(
        "scratch", [KernelSource("reverse", source)], [], [Argument("f32", (m, n)), Result("f32", (m, n))],
        [Run(0, m, 1, (0, 1), (n,))], scratch_bytes=64 + 4 * n,
    )  # fmt: skip
    x = np.random.default_rng(0).normal(size=(m, n)).astype(np.float32)
    run = Executable(program)
    for count in (1, 3):
        threads(count)
        for _ in range(10):
            np.testing.assert_array_equal(run(x), x[:, ::-1])


def test_in_place_kernel() -> None:
    source = """
def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    out = pointer_f32(context, 1, 0)
    for i in range(lo, hi):
        store(out, i, load(x, i) + load(x, i))
    return 0
"""
    program = Program(
        "in_place", [KernelSource("double", source)], [],
        [Argument("f32", (100,)), Temporary("f32", 400, 0), Result("f32", (100,))],
        [Copy(1, 0, 400), Run(0, 100, 100, (1, 1)), Run(0, 100, 100, (1, 1)), Copy(2, 1, 400)], arena_bytes=400,
    )  # fmt: skip
    x = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(Executable(program)(x), 4 * x)
    np.testing.assert_array_equal(x, np.arange(100))
