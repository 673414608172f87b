"""Every routine of the table against NumPy, the library's private thread count, and products after a fork."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from gradopt.lowering.native import blas, context, routines
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import Argument, Fill, KernelSource, Program, Result, Run, Temporary

TYPES = [("f32", "s", np.float32, 2e-4), ("f64", "d", np.float64, 1e-11)]


def run_routine(element: str, body: str, arrays: list[Any], results: list[Any], pivots: int = 0) -> Any:
    """Run `body` with the arrays as pointers a, b, … and the results, which start as copies of `results`, as x, y, …."""
    buffers: list[Any] = [Argument(element, array.shape) for array in (*arrays, *results)]
    names = "abc"[: len(arrays)] + "ijk"[: len(results)] + "xyz"[: len(results)]
    buffers += [Result(element, array.shape) for array in results]
    lines = [f"{name} = pointer_{element}(context, {slot})" for slot, name in enumerate(names)]
    if pivots:
        buffers.append(Temporary("i32", 4 * pivots, 0))
        lines.append(f"p = pointer_i32(context, {len(buffers) - 1})")
    for source, target, array in zip("ijk", "xyz", results, strict=False):
        lines += [f"for t in range({array.size}):", f"    store({target}, t, load({source}, t))"]
    source_text = "def kernel(lo, hi, context):\n" + "".join(f"    {line}\n" for line in [*lines, *body.strip().splitlines()])
    program = Program(
        "routine", [KernelSource("routine", source_text + "    return 0\n")], [], buffers,
        [Run(0, 1, 1, tuple(range(len(buffers))))], arena_bytes=4 * pivots,
    )  # fmt: skip
    return Executable(program)(*arrays, *results)


@pytest.mark.parametrize(("element", "letter", "dtype", "tolerance"), TYPES)
def test_blas_routines(element: str, letter: str, dtype: type, tolerance: float) -> None:
    rng = np.random.default_rng(0)
    m, n, k = 5, 4, 3
    a, b, c = (rng.normal(size=shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
    one, two = f"{element}(1.0)", f"{element}(2.0)"
    close = {"rtol": tolerance, "atol": tolerance}
    for trans_a in (0, 1):
        for trans_b in (0, 1):
            left, right = (np.ascontiguousarray(a.T) if trans_a else a), (np.ascontiguousarray(b.T) if trans_b else b)
            body = (f"{letter}gemm(context, {trans_a}, {trans_b}, {m}, {n}, {k}, {two}, a, {left.shape[1]}, b, "
                    f"{right.shape[1]}, {one}, x, {n})")  # fmt: skip
            np.testing.assert_allclose(run_routine(element, body, [left, right], [c]), 2 * a @ b + c, **close)
    v, w = rng.normal(size=k).astype(dtype), rng.normal(size=m).astype(dtype)
    body = f"{letter}gemv(context, 0, {m}, {k}, {two}, a, {k}, b, 1, {one}, x, 1)"
    np.testing.assert_allclose(run_routine(element, body, [a, v], [w]), 2 * a @ v + w, **close)
    square = np.zeros((m, m), dtype)
    body = f"{letter}syrk(context, 1, 0, {m}, {k}, {one}, a, {k}, {one}, x, {m})"
    np.testing.assert_allclose(run_routine(element, body, [a], [square]), np.tril(a @ a.T), **close)
    lower = (np.tril(rng.normal(size=(m, m))) + 3 * np.eye(m)).astype(dtype)
    body = f"{letter}trsm(context, 0, 1, 0, 0, {m}, {n}, {one}, a, {m}, x, {n})"
    np.testing.assert_allclose(lower @ run_routine(element, body, [lower], [c]), c, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize(("element", "letter", "dtype", "tolerance"), TYPES)
def test_lapack_routines(element: str, letter: str, dtype: type, tolerance: float) -> None:
    """Column-major: a row-major matrix is its transpose."""
    rng = np.random.default_rng(1)
    n = 6
    matrix = (rng.normal(size=(n, n)) + 4 * np.eye(n)).astype(dtype)
    right = rng.normal(size=(2, n)).astype(dtype)
    body = f"""
{letter}getrf(context, {n}, {n}, x, {n}, p)
{letter}getrs(context, 1, {n}, 2, x, {n}, p, y, {n})
"""
    _, solution = run_routine(element, body, [], [matrix, right], pivots=n)
    np.testing.assert_allclose(matrix @ solution.T, right.T, rtol=20 * tolerance, atol=20 * tolerance)
    body = f"""
{letter}getrf(context, {n}, {n}, x, {n}, p)
{letter}getri(context, {n}, x, {n}, p, y, {n * n})
"""
    inverse, _ = run_routine(element, body, [], [matrix, np.zeros((n, n), dtype)], pivots=n)
    np.testing.assert_allclose(matrix @ inverse, np.eye(n), atol=20 * tolerance)
    positive = (matrix @ matrix.T).astype(dtype)
    factor = np.triu(run_routine(element, f"{letter}potrf(context, 1, {n}, x, {n})", [], [positive]))
    np.testing.assert_allclose(factor.T @ factor, positive, rtol=20 * tolerance, atol=20 * tolerance)


def test_the_library_is_private_and_single_threaded() -> None:
    blas.load()
    assert blas._LIBRARIES[0].scipy_openblas_get_num_threads() == 1
    assert all(map(routines.address_of, context.BLAS_NAMES + context.LAPACK_NAMES))
    assert not blas.needed_by([KernelSource("k", "def kernel(lo, hi, context):\n    return 0\n")])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_products_after_a_fork() -> None:
    source = """
def kernel(lo, hi, context):
    a = pointer_f32(context, 0)
    c = pointer_f32(context, 1)
    sgemm(context, 0, 0, hi - lo, 64, 64, f32(1.0), offset(a, lo * 64), 64, a, 64, f32(1.0), offset(c, lo * 64), 64)
    return 0
"""
    program = Program("p", [KernelSource("k", source)], [], [Argument("f32", (64, 64)), Result("f32", (64, 64))],
                      [Fill(1, 0, 4 * 64 * 64), Run(0, 64, 8, (0, 1))])  # fmt: skip
    run = Executable(program)
    x = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    expected = run(x).tobytes()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = int(run(x).tobytes() != expected)
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
