"""Random programs of `hl` ops, compiled, against the meaning of their ops and against central differences.

GRADOPT_FUZZ_SEEDS=1000:2000 tries other seeds than the ones that are always tried.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from gradopt.dialects.arrays import numpy_dtype
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import lookup_symbol
from gradopt.lowering.interpreter import run_function
from random_programs import program

import gradopt

Array = Any
VJP = "autodiff{func=f mode=vjp}"
TOLERANCE = {"f64": 1e-9, "f32": 3e-4}
FIRST, BEHIND = (int(text) for text in os.environ.get("GRADOPT_FUZZ_SEEDS", "0:12").split(":"))

# What random programs have found.
FOUND: dict[str, str] = {
    "slices of different sizes of one padded array": """
func.func @f(%x: tensor<4xf64>) -> (tensor<2xf64>, tensor<6xf64>, tensor<4xf64>, tensor<0xf64>) {
  %z = prim.constant dense<0.0> : tensor<f64>
  %p = prim.pad %x, %z {high = [4], interior = [0], low = [0]} : (tensor<4xf64>, tensor<f64>) -> tensor<8xf64>
  %a = prim.slice %p {begin = [1], end = [3], strides = [1]} : (tensor<8xf64>) -> tensor<2xf64>
  %b = prim.slice %p {begin = [1], end = [7], strides = [1]} : (tensor<8xf64>) -> tensor<6xf64>
  %c = prim.slice %p {begin = [4], end = [8], strides = [1]} : (tensor<8xf64>) -> tensor<4xf64>
  %d = prim.slice %p {begin = [1], end = [1], strides = [1]} : (tensor<8xf64>) -> tensor<0xf64>
  return %a, %b, %c, %d : tensor<2xf64>, tensor<6xf64>, tensor<4xf64>, tensor<0xf64>
}""",
    "an empty piece of every second element": """func.func @f(%x: tensor<3x1xf64>) -> (tensor<2x1xf64>, tensor<2x0xf64>) {
  %s = hl.strided_slice %x {begin = [0, 0], end = [3, 1], strides = [2, 2]} : (tensor<3x1xf64>) -> tensor<2x1xf64>
  %a:2 = hl.split %s {axis = 1, sizes = [1, 0]} : (tensor<2x1xf64>) -> (tensor<2x1xf64>, tensor<2x0xf64>)
  %b = hl.sin %a#1 : tensor<2x0xf64>
  return %a#0, %b : tensor<2x1xf64>, tensor<2x0xf64>
}""",
    "reshape between arrays without elements": """func.func @f(%x: tensor<5x0x3xf64>) -> tensor<2x0x3xf64> {
  %a = hl.sin %x : tensor<5x0x3xf64>
  %b = hl.reshape %a : (tensor<5x0x3xf64>) -> tensor<2x0x3xf64>
  %y = hl.cos %b : tensor<2x0x3xf64>
  return %y : tensor<2x0x3xf64>
}""",
    "product over an axis of size 0": """func.func @f(%x: tensor<1x0x2xf64>, %w: tensor<1x0x4xf64>) -> tensor<1x2x4xf64> {
  %y = hl.matmul %x, %w {transpose_a = true} : (tensor<1x0x2xf64>, tensor<1x0x4xf64>) -> tensor<1x2x4xf64>
  return %y : tensor<1x2x4xf64>
}""",
    "running maximum of no elements, whose adjoint scatters": """func.func @f(%x: tensor<0x1xf32>) -> tensor<0x1xf32> {
  %a = hl.sin %x : tensor<0x1xf32>
  %y = hl.cummax %a {axis = 0} : tensor<0x1xf32>
  return %y : tensor<0x1xf32>
}""",
    "adjoint of a reflection, whose quotients are negative": """func.func @f(%x: tensor<7xf64>, %z: tensor<1xf64>) -> tensor<28xf64> {
  %t = hl.tile %x {repeats = [2]} : (tensor<7xf64>) -> tensor<14xf64>
  %c = hl.concat %z, %t, %t {axis = -1} : (tensor<1xf64>, tensor<14xf64>, tensor<14xf64>) -> tensor<29xf64>
  %s:2 = hl.split %c {axis = -1, sizes = [26, 3]} : (tensor<29xf64>) -> (tensor<26xf64>, tensor<3xf64>)
  %y = hl.pad %s#0 {high = [2], low = [0], mode = "reflect"} : (tensor<26xf64>) -> tensor<28xf64>
  return %y : tensor<28xf64>
}""",
    "adjoint of a slice with negative strides below a running sum": """
func.func @f(%x: tensor<5x4x5x5xf64>) -> tensor<2x2x3x5xf64> {
  %s = hl.strided_slice %x {begin = [0, 0, -1, 0], end = [5, 4, -9223372036854775808, 5], strides = [3, 3, -2, 1]} :
       (tensor<5x4x5x5xf64>) -> tensor<2x2x3x5xf64>
  %t = hl.triu %s {k = 1} : tensor<2x2x3x5xf64>
  %y = hl.cumsum %t {axis = -3, reverse = true} : tensor<2x2x3x5xf64>
  return %y : tensor<2x2x3x5xf64>
}""",
}


def arrays_of(module: Operation, name: str, seed: int) -> list[Array]:
    """Normal arrays for the arguments of a function."""
    function = lookup_symbol(module, name)
    assert function is not None
    random = np.random.default_rng(seed)
    return [np.asarray(random.standard_normal(argument.type.shape)).astype(numpy_dtype(argument.type.element))  # type: ignore[attr-defined]
            for argument in function.regions[0].block.arguments]


def listed(found: Any) -> list[Array]:
    """The results of a compiled function as a list."""
    return list(found) if isinstance(found, tuple) else [found]


def check_close(found: list[Array], expected: list[Array], label: str) -> None:
    """Equal shapes, types and (nearly) numbers; NaN and infinities where they are expected."""
    assert len(found) == len(expected)
    for index, (actual, wanted) in enumerate(zip(found, expected)):
        assert (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype), f"{label}, result {index}"
        tolerance = TOLERANCE["f32" if wanted.dtype == np.float32 else "f64"]
        finite = np.abs(wanted[np.isfinite(wanted)])
        scale = max(1.0, float(finite.max(initial=0.0)))
        np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance * scale, err_msg=f"{label}, result {index}")


def check_program(module: Operation, seed: int) -> tuple[list[Array], list[Array], list[Array]]:
    """Compiled values and adjoints are those of the NumPy meanings. Gives (arguments, cotangents, gradients)."""
    assert str(gradopt.parse(str(module))) == str(module)
    arrays = arrays_of(module, "f", seed)
    check_close(listed(gradopt.compile(module, "f")(*arrays)), run_function(module, "f", arrays), "values")
    derived = module.clone()
    gradopt.run_passes(derived, VJP)
    both = [*arrays, *arrays_of(derived, "f_vjp", seed + 1)[len(arrays):]]
    expected = run_function(derived, "f_vjp", both)
    check_close(listed(gradopt.compile(module, "f_vjp")(*both)), expected, "adjoints")
    return arrays, both[len(arrays):], expected[len(expected) - len(arrays):]


def check_differences(module: Operation, seed: int, arrays: list[Array], cotangents: list[Array], gradients: list[Array]) -> None:
    """<gradients, direction> is the central difference of <cotangents, f> along a random direction."""
    random = np.random.default_rng(seed + 2)
    directions = [np.asarray(random.standard_normal(array.shape)) for array in arrays]

    def along(step: float) -> float:
        results = run_function(module, "f", [array + step * direction for array, direction in zip(arrays, directions)])
        return float(sum((result * cotangent).sum() for result, cotangent in zip(results, cotangents)))

    h = 1e-4
    numeric = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)  # error of order h^4
    products = [gradient * direction for gradient, direction in zip(gradients, directions)]
    analytic = float(sum(each.sum() for each in products))
    scale = 1 + float(sum(np.abs(each).sum() for each in products))
    assert abs(numeric - analytic) <= 1e-6 * scale, f"central difference {numeric}, gradient {analytic}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(FIRST, BEHIND))
def test_compiled_is_the_meaning(seed: int) -> None:
    """Any steps, f32 for every third seed."""
    check_program(program(2 * seed, "f32" if seed % 3 == 0 else "f64"), seed)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(FIRST, BEHIND))
def test_gradients_are_central_differences(seed: int) -> None:
    """Smooth steps only."""
    module = program(2 * seed + 1, smooth=True)
    check_differences(module, seed, *check_program(module, seed))


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    """What random programs have found stays right."""
    check_program(gradopt.parse(FOUND[name]), 0)


def test_programs_differ_and_repeat() -> None:
    """A seed is a program, and the steps cover the ops that they are to cover."""
    assert str(program(3)) == str(program(3))
    names = {op.name for seed in range(120) for op in program(seed).walk()}
    wanted = ["matmul", "softmax", "layer_norm", "conv2d", "max_pool2d", "avg_pool2d", "attention", "take", "scatter_nd", "scan", "if",
              "for", "strided_slice", "set_slice", "pad", "concat", "stack", "split", "sort", "cumsum", "einsum", "where", "sum",
              "reshape", "permute_dims", "broadcast_to"]
    assert not [name for name in wanted if f"hl.{name}" not in names]
