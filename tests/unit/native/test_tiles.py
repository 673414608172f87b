"""The register tile and the transpose against NumPy, by both front ends."""

from __future__ import annotations

import numpy as np
import pytest
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import Argument, KernelSource, Program, Result, Run

RNG = np.random.default_rng(1)
DTYPES = {"f32": np.float32, "f64": np.float64}


def program(source: str, element: str, *sizes: int) -> Program:
    """A program of one kernel whose last operand is its result."""
    *given, made = sizes
    buffers = [*(Argument(element, (size,)) for size in given), Result(element, (made,))]
    return Program("tile", [KernelSource("tile", source)], [], buffers, [Run(0, 1, 1, tuple(range(len(buffers))))])


@pytest.mark.parametrize("front_end", ["direct", "numba"])
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("accumulate", [0, 1])
def test_tile(front_end: str, element: str, accumulate: int) -> None:
    """Two rows by three, two vectors of four, sums over 2 x 1 x 3 x 5 steps with strides that overlap."""
    calls = f"tile_{element}(2, 3, 2, 4, {{}}, 2, 1, 3, 5, a, 40, 0, 7, 1, 3, 2, b, 90, 0, 30, 6, 5, c, 30, 9, 4)"
    first = calls.format(0)
    again = calls.format(accumulate)
    source = f"""def kernel(lo, hi, context):
    a = pointer_{element}(context, 0)
    b = pointer_{element}(context, 1)
    c = pointer_{element}(context, 2)
    for i in range(0, 70):
        store(c, i, {element}(-1.0))
    {first}
    {again}
    return 0
"""
    a, b = (RNG.standard_normal(size).astype(DTYPES[element]) for size in (100, 300))
    found = Executable(program(source, element, 100, 300, 70), front_end=front_end)(a, b)
    expected = np.full(70, -1.0)
    for m1 in range(2):
        for m2 in range(3):
            for v in range(2):
                for lane in range(4):
                    total = sum(a[i0 * 40 + i2 * 7 + i3 + m1 * 3 + m2 * 2] * b[i0 * 90 + i2 * 30 + i3 * 6 + v * 5 + lane]
                                for i0 in range(2) for i2 in range(3) for i3 in range(5))
                    expected[m1 * 30 + m2 * 9 + v * 4 + lane] = total * (1 + accumulate)
    np.testing.assert_allclose(found, expected, rtol=1e-4 if element == "f32" else 1e-12, atol=1e-5)


@pytest.mark.parametrize("front_end", ["direct", "numba"])
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 16), (5, 3), (8, 8), (14, 16), (16, 16), (16, 9)])
def test_transpose(front_end: str, element: str, rows: int, columns: int) -> None:
    """Only the block is read and written."""
    source = f"""def kernel(lo, hi, context):
    a = pointer_{element}(context, 0)
    c = pointer_{element}(context, 1)
    for i in range(0, 320):
        store(c, i, {element}(0.0))
    transpose_{element}({rows}, {columns}, a, 17, c, 20)
    return 0
"""
    a = RNG.standard_normal((rows, 17)).astype(DTYPES[element])
    found = Executable(program(source, element, rows * 17, 320), front_end=front_end)(a.reshape(-1)).reshape(16, 20)
    expected = np.zeros((16, 20), DTYPES[element])
    expected[:columns, :rows] = a[:, :columns].T
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("front_end", ["direct", "numba"])
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 16), (3, 14), (2, 8), (4, 5)])
def test_move_increase_and_clear(front_end: str, element: str, rows: int, columns: int) -> None:
    """Only the block is written: once moved, twice added; and a block beside it is cleared."""
    source = f"""def kernel(lo, hi, context):
    a = pointer_{element}(context, 0)
    c = pointer_{element}(context, 1)
    for i in range(0, 80):
        store(c, i, {element}(0.0))
    for i in range(80, 160):
        store(c, i, {element}(7.0))
    move_{element}({rows}, {columns}, a, 17, c, 20)
    increase_{element}({rows}, {columns}, a, 17, c, 20)
    increase_{element}({rows}, {columns}, a, 17, c, 20)
    clear_{element}({rows}, {columns}, offset(c, 80), 20)
    return 0
"""
    a = RNG.standard_normal((rows, 17)).astype(DTYPES[element])
    found = Executable(program(source, element, rows * 17, 160), front_end=front_end)(a.reshape(-1)).reshape(2, 4, 20)
    block = a[:, :columns]
    expected = np.stack([np.zeros((4, 20)), np.full((4, 20), 7.0)]).astype(DTYPES[element])
    expected[0, :rows, :columns] = block + block + block
    expected[1, :rows, :columns] = 0
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("call", ["transpose_f32(17, 1, a, 1, a, 1)", "transpose_f32(lo, 1, a, 1, a, 1)",
                                  "tile_f32(lo, 1, 1, 4, 0, 1, 1, 1, 1, a, 0, 0, 0, 0, 0, 0, a, 0, 0, 0, 0, 0, a, 0, 0, 0)"])
def test_shapes_are_written_as_integers(call: str) -> None:
    """The block's shape is part of the code."""
    source = f"def kernel(lo, hi, context):\n    a = pointer_f32(context, 0)\n    {call}\n    return 0\n"
    with pytest.raises(KernelError, match="integer"):
        Executable(program(source, "f32", 4), front_end="direct")
