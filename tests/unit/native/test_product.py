"""Our own matrix products against NumPy: every edge of a tile, a panel and a packed block, transposes, leading dimensions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gradopt.lowering.native import product, routines
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import Argument, KernelSource, Program, Result, Run

RNG = np.random.default_rng(7)
DTYPES = {"f32": np.float32, "f64": np.float64}
TOLERANCE = {"f32": 3e-4, "f64": 1e-11}


def caller(element: str, height: int, sizes: tuple[int, int, int], transposed: tuple[bool, bool], pad: int = 0) -> Executable:
    """C = A B where A, B and C are the first columns of arrays with `pad` columns more."""
    (m, n, k), size = sizes, np.dtype(DTYPES[element]).itemsize
    a_shape = (k, m + pad) if transposed[0] else (m, k + pad)
    b_shape = (n, k + pad) if transposed[1] else (k, n + pad)
    source = f"""def kernel(lo, hi, context):
    a = pointer_{element}(context, 0)
    b = pointer_{element}(context, 1)
    c = pointer_{element}(context, 2)
    s = scratch_{element}(context, 0, 0)
    for i in range(0, {m * (n + pad)}):
        store(c, i, {element}(7.0))
    {'s' if element == 'f32' else 'd'}product{height}(context, {int(transposed[0])}, {int(transposed[1])}, {m}, {n}, {k}, a, {a_shape[1]}, b, {b_shape[1]}, c, {n + pad}, s)
    return 0
"""
    buffers = [Argument(element, a_shape), Argument(element, b_shape), Result(element, (m, n + pad))]
    scratch = product.scratch_elements(size) * size
    return Executable(Program("product", [KernelSource("product", source)], [], buffers, [Run(0, 1, 1, (0, 1, 2))], 0, scratch))


def check(element: str, height: int, sizes: tuple[int, int, int], transposed: tuple[bool, bool], pad: int = 0) -> None:
    """Values, and that nothing beside C was written."""
    m, n, k = sizes
    run = caller(element, height, sizes, transposed, pad)
    shapes = [buffer.shape for buffer in run.program.buffers]
    a, b = (RNG.standard_normal(shape).astype(DTYPES[element]) for shape in shapes[:2])
    found = run(a, b)
    left = a[:, :m].T if transposed[0] else a[:, :k]
    right = b[:, :k].T if transposed[1] else b[:, :n]
    np.testing.assert_allclose(found[:, :n], left.astype(np.float64) @ right, rtol=TOLERANCE[element], atol=TOLERANCE[element])
    assert (found[:, n:] == 7).all()


@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_edges(element: str, transposed: tuple[bool, bool]) -> None:
    size = np.dtype(DTYPES[element]).itemsize
    high, width = product.highest(size), product.panel_width(size)
    rows = product.MOST_TILES * high
    panels = product.PANELS * width
    for sizes in [(1, 1, 1), (high, width, product.DEPTH), (high - 1, width - 1, 17), (rows + 3, 5, 7), (5, panels + 3, 7),
                  (2 * high + 1, width // 2, 2 * product.DEPTH + 1), (rows, panels + width // 2 + 1, product.DEPTH + 1), (3, 70, 0)]:
        check(element, high, sizes, transposed, pad=3)


@pytest.mark.parametrize("height", [4, 5, 6, 8, 11, 13])
def test_every_height_is_right(height: int) -> None:
    if height <= product.highest(4):
        check("f32", height, (3 * height + 2, 40, 50), (False, True))


def test_nan_and_infinity_stay_in_their_rows_and_columns() -> None:
    """What pads the tiles never meets them."""
    run = caller("f32", product.highest(4), (20, 40, 30), (False, False))
    a, b = np.ones((20, 30), np.float32), np.ones((30, 40), np.float32)
    a[3, 4], b[6, 39] = np.nan, np.inf
    found = run(a, b)
    assert np.isnan(found[3]).all() and np.isinf(np.delete(found[:, 39], 3)).all()
    assert (np.delete(np.delete(found, 3, 0), 39, 1) == 30).all()


def test_height_wastes_little() -> None:
    """Of the rows that are computed, at most an eighth does not exist from 32 rows on."""
    for rows in range(32, 300):
        height = product.height(rows, 4)
        assert -(-rows // height) * height <= 1.125 * rows
    assert product.height(None, 4) == product.highest(4)


def test_routines_are_compiled_when_they_are_called() -> None:
    name = f"sproduct{product.highest(4)}"
    assert product.calls([KernelSource("k", f"    {name}(context)\n    {name}(context)\n")]) == [name]
    caller("f32", product.highest(4), (20, 40, 30), (False, False))
    assert routines.address_of(name) != 0
