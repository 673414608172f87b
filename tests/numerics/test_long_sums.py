"""Sums over very many elements, compiled: the error does not grow with their number, whatever the loops are."""

from __future__ import annotations

import numpy as np
import pytest
from gradopt.lowering.interpreter import run_function

import gradopt

# shape, axes, the sizes that the dynamic variant does not know
CASES = [
    ((600_000,), [0], [0]),
    ((300_000, 3), [0], [0]),
    ((300_000, 3), [0, 1], [0, 1]),
    ((2, 200_000), [1], [1]),
    ((2, 3, 100_000), [0, 2], [2]),
    ((4, 100_000, 2), [1], [1]),
    ((4, 100_000, 2), [0, 2], [0]),
    ((100_000, 2, 5), [0, 2], [0]),
    ((2049, 3), [0], [0]),
    ((5, 2049), [1], [0, 1]),
    ((257, 300, 20), [0, 1], [0]),
]


def text(shape: tuple[int, ...], axes: list[int], unknown: list[int], element: str) -> str:
    """A function that gives the sum, the sum of halves and the maximum along axes."""
    sizes = ["?" if axis in unknown else str(size) for axis, size in enumerate(shape)]
    x = f"tensor<{'x'.join(sizes)}x{element}>"
    y = f"tensor<{'x'.join([*(size for axis, size in enumerate(sizes) if axis not in axes), element])}>"
    lines = [
        f"func.func @f(%x: {x}) -> ({y}, {y}, {y}) {{",
        f"  %h = prim.mul %x, %x : {x}",
        f'  %s = prim.reduce %x {{axes = {axes}, kind = "sum"}} : ({x}) -> {y}',
        f'  %t = prim.reduce %h {{axes = {axes}, kind = "sum"}} : ({x}) -> {y}',
        f'  %m = prim.reduce %x {{axes = {axes}, kind = "max"}} : ({x}) -> {y}',
        f"  return %s, %t, %m : {y}, {y}, {y}",
        "}",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("shape", "axes", "unknown"), CASES, ids=str)
def test_sums_of_equal_numbers(shape: tuple[int, ...], axes: list[int], unknown: list[int], dynamic: bool) -> None:
    """Adding one after the other loses 0.05 of a million times 0.1 in f32, and ends at 32 in f16."""
    count = int(np.prod([shape[axis] for axis in axes]))
    for element, dtype, value, tolerance in (("f32", np.float32, 0.1, 4e-6), ("f64", np.float64, 0.1, 1e-11), ("f16", np.float16, 2e-3, 1e-3)):
        source = text(shape, axes, unknown if dynamic else [], element)
        x = np.full(shape, value, dtype)
        number, square = float(x.flat[0]), float((x.flat[0].astype(np.float32) ** 2).astype(dtype) if dtype is np.float16 else x.flat[0] ** 2)
        total, squares, largest = gradopt.compile(source, "f")(x)
        np.testing.assert_allclose(total.astype(np.float64), number * count, rtol=tolerance)
        np.testing.assert_allclose(squares.astype(np.float64), square * count, rtol=2e-2 if dtype is np.float16 else tolerance)
        np.testing.assert_array_equal(largest, x.flat[0])


def test_the_interpreter_is_as_exact() -> None:
    x = np.full((1_000_000, 2), 0.1, np.float32)
    total, _, _ = run_function(gradopt.parse(text(x.shape, [0], [], "f32")), "f", [x])
    np.testing.assert_allclose(total, 0.1 * 1_000_000, rtol=1e-7)


@pytest.mark.parametrize("shape, axes", [((5000,), [0]), ((5000, 3), [0]), ((3, 5000), [1]), ((3, 5000, 2), [1])])
def test_infinities_and_nan_stay(shape: tuple[int, ...], axes: list[int]) -> None:
    f = gradopt.compile(text(shape, axes, [], "f32"), "f")
    for special, expected in (([np.inf], np.inf), ([-np.inf], -np.inf), ([np.inf, -np.inf], np.nan), ([np.nan], np.nan)):
        x = np.ones(shape, np.float32)
        moved = np.moveaxis(x, axes[0], 0)
        for place, value in enumerate(special):
            moved[4000 - 100 * place] = value
        np.testing.assert_array_equal(f(x)[0], np.full_like(f(x)[0], expected))
