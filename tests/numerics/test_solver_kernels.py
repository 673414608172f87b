"""Kernels of solve, inverse and det against numpy.linalg: orders from 0 up, batches, dynamic sizes, singular matrices, 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradopt

TOLERANCE = {"f64": 1e-10, "f32": 1e-3, "f16": 3e-2, "bf16": 2e-1}
TEXT = """func.func @f(%a: AAA, %b: BBB, %v: VVV) -> (BBB, VVV, AAA, SSS) {
  %x = hl.solve %a, %b : (AAA, BBB) -> BBB
  %y = hl.solve %a, %v : (AAA, VVV) -> VVV
  %i = hl.inverse %a : AAA
  %d = hl.det %a : (AAA) -> SSS
  return %x, %y, %i, %d : BBB, VVV, AAA, SSS
}"""


def program(batch: str, order: str, columns: int, element: str) -> Any:
    lead = f"{batch}x" if batch else ""
    types = {"AAA": f"{lead}{order}x{order}x", "BBB": f"{lead}{order}x{columns}x", "VVV": f"{lead}{order}x", "SSS": lead}
    text = TEXT
    for name, shape in types.items():
        text = text.replace(name, f"tensor<{shape}{element}>")
    return gradopt.compile(text, "f")


def expected(a: Any, b: Any, v: Any) -> list[Any]:
    a, b, v = (x.astype(np.float64) for x in (a, b, v))
    return [np.linalg.solve(a, b), np.linalg.solve(a, v[..., None])[..., 0], np.linalg.inv(a), np.linalg.det(a)]


@pytest.mark.parametrize("batch, order, columns, element", [
    ("", "4", 3, "f64"), ("5", "7", 2, "f32"), ("?", "3", 1, "f64"), ("2", "?", 2, "f64"), ("", "1", 1, "f32"), ("", "0", 2, "f64"),
    ("3", "4", 0, "f64"), ("0", "3", 2, "f64"), ("6", "3", 2, "f16"), ("2", "3", 2, "bf16"), ("40", "2", 2, "f64"), ("", "33", 5, "f64"),
])
def test_against_numpy(batch: str, order: str, columns: int, element: str) -> None:
    from gradopt.dialects.arrays import numpy_dtype
    from gradopt.ir.types import FloatType

    random, dtype = np.random.default_rng(3), numpy_dtype(FloatType(element))
    lead = () if not batch else (4,) if batch == "?" else (int(batch),)
    n = 5 if order == "?" else int(order)
    a = (random.standard_normal((*lead, n, n)) + 3 * np.eye(n))[..., ::-1].astype(dtype)  # rows have to be swapped
    b, v = random.standard_normal((*lead, n, columns)).astype(dtype), random.standard_normal((*lead, n)).astype(dtype)
    for found, right in zip(program(batch, order, columns, element)(a, b, v), expected(a, b, v)):
        assert found.shape == right.shape and found.dtype == dtype
        assert np.abs(found.astype(np.float64) - right).max(initial=0) <= TOLERANCE[element] * (1 + np.abs(right).max(initial=0))


def test_singular_matrices_give_nan_and_a_determinant_of_zero() -> None:
    a = np.stack([np.ones((3, 3)), np.eye(3)])
    x, y, inverse, det = program("2", "3", 2, "f64")(a, np.ones((2, 3, 2)), np.ones((2, 3)))
    for found in (x, y, inverse):
        assert np.isnan(found[0]).all() and np.isfinite(found[1]).all()
    np.testing.assert_array_equal(det, [0, 1])


def test_gradients_against_the_interpreter_of_the_decomposed_op() -> None:
    from gradopt.lowering.interpreter import run_function

    text = """func.func @f(%a: tensor<2x3x3xf64>, %b: tensor<2x3x2xf64>) -> (tensor<2x3x2xf64>, tensor<2x3x3xf64>, tensor<2xf64>) {
  %x = hl.solve %a, %b : (tensor<2x3x3xf64>, tensor<2x3x2xf64>) -> tensor<2x3x2xf64>
  %i = hl.inverse %a : tensor<2x3x3xf64>
  %d = hl.det %a : (tensor<2x3x3xf64>) -> tensor<2xf64>
  return %x, %i, %d : tensor<2x3x2xf64>, tensor<2x3x3xf64>, tensor<2xf64>
}"""
    random = np.random.default_rng(4)
    shapes = [(2, 3, 3), (2, 3, 2), (2, 3, 2), (2, 3, 3), (2,)]
    arrays = [random.standard_normal(shape) for shape in shapes]
    module = gradopt.run_passes(gradopt.parse(text), "decompose,autodiff{func=f mode=vjp}")
    for found, right in zip(gradopt.compile(text, "f_vjp")(*arrays), run_function(module, "f_vjp", arrays)):
        np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-9)
