"""Activation functions and their derivatives far out and near zero, against mpmath: nothing overflows and no tail is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.lowering.compile import compile_function
from gradopt.lowering.interpreter import run_function

import gradopt

POINTS = [-1000.0, -700.0, -100.0, -37.5, -12.0, -1.0, -1e-9, 1e-9, 0.5, 2.0, 19.0, 37.5, 100.0, 700.0, 1000.0]
mpmath.mp.dps = 500  # sigmoid'(1000) is e**-1000


def normal(x: Any) -> Any:
    """The normal distribution function."""
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def gelu_tanh(x: Any) -> Any:
    return x * logistic(2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x ** 3))


REFERENCES: dict[str, Callable[[Any], Any]] = {
    "sigmoid": logistic,
    "log_sigmoid": lambda x: -mpmath.log1p(mpmath.exp(-x)),
    "softplus {threshold = 1.0e9}": lambda x: mpmath.log1p(mpmath.exp(x)),
    "silu": lambda x: x * logistic(x),
    "mish": lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
    "gelu": lambda x: x * normal(x),
    'gelu {approximate = "tanh"}': gelu_tanh,
    "elu": lambda x: x if x > 0 else mpmath.expm1(x),
    "celu {alpha = 2.0}": lambda x: x if x > 0 else 2 * mpmath.expm1(x / 2),
    "tanh": mpmath.tanh,
    "sinc": lambda x: mpmath.sinpi(x) / (mpmath.pi * x),
}
SMALLEST = {"f64": 2.3e-308, "f32": 1.2e-38}


def module_of(operation: str, element: str) -> gradopt.Operation:
    type = f"tensor<{len(POINTS)}x{element}>"
    name, _, attributes = operation.partition(" ")
    return gradopt.parse(f"func.func @f(%x: {type}) -> {type} {{\n  %y = hl.{name} %x {attributes} : {type}\n  return %y : {type}\n}}")


def derivative(reference: Callable[[Any], Any], x: float) -> Any:
    """By a central difference in 500 digits."""
    step = mpmath.mpf(10) ** -18 * max(abs(x), 1e-6)
    point = mpmath.mpf(x)
    return (reference(point + step) - reference(point - step)) / (2 * step)


def interpreted(module: gradopt.Operation) -> Callable[..., Any]:
    derived = module.clone()
    gradopt.run_passes(derived, "autodiff{func=f mode=vjp},decompose")
    return lambda *arrays: run_function(derived, "f_vjp", arrays)


def by_forward_mode(module: gradopt.Operation) -> Callable[..., Any]:
    """The same through the decomposition of the op itself, which has no rule in forward mode."""
    derived = module.clone()
    gradopt.run_passes(derived, "autodiff{func=f mode=jvp},decompose")
    return lambda *arrays: run_function(derived, "f_jvp", arrays)


def compiled(module: gradopt.Operation) -> Callable[..., Any]:
    function: Callable[..., Any] = compile_function(module, "f_vjp")
    return function


@pytest.mark.parametrize("element", ["f64", "f32"])
@pytest.mark.parametrize("operation", REFERENCES)
@pytest.mark.parametrize("route", [interpreted, by_forward_mode, compiled])
def test_values_and_derivatives(route: Callable[..., Any], operation: str, element: str) -> None:
    dtype = np.float64 if element == "f64" else np.float32
    points = np.array(POINTS, dtype)
    value, slope = route(module_of(operation, element))(points, np.ones_like(points))
    exact = [REFERENCES[operation](mpmath.mpf(float(x))) for x in points]
    exact_slope = [derivative(REFERENCES[operation], float(x)) for x in points]
    unit = float(np.finfo(dtype).eps)
    for index, x in enumerate(points):
        scale = conditioning(operation, float(x))
        flat = 1 / abs(x) if operation == "sinc" else 0  # its slope is a difference of what is as large
        for found, right, size in ((value[index], exact[index], 0), (slope[index], exact_slope[index], flat)):
            assert abs(mpmath.mpf(float(found)) - right) <= 16 * unit * scale * max(abs(right), size) + 4 * SMALLEST[element], \
                f"{operation} at {x}: {found}, expected {mpmath.nstr(right, 17)}"


def conditioning(operation: str, x: float) -> float:
    """How much an error of the rounded argument of an exponential grows."""
    if operation == "sinc":
        return 1
    squared = x * x if operation.startswith("gelu") else 0
    return 1 + abs(x) + squared + (0.1 * abs(x) ** 3 if "tanh" in operation else 0)


INFINITE: dict[str, tuple[float, float, float, float]] = {  # value and derivative at -inf and at inf
    "sigmoid": (0, 0, 1, 0), "log_sigmoid": (-np.inf, 1, 0, 0), "softplus": (0, 0, np.inf, 1), "silu": (0, 0, np.inf, 1),
    "mish": (0, 0, np.inf, 1), "gelu": (0, 0, np.inf, 1), 'gelu {approximate = "tanh"}': (0, 0, np.inf, 1), "elu": (-1, 0, np.inf, 1),
    "relu": (0, 0, np.inf, 1), "relu6": (0, 0, 6, 0), "hard_sigmoid": (0, 0, 1, 0), "hard_swish": (0, 0, np.inf, 1),
    "hard_tanh": (-1, 0, 1, 0), "tanh": (-1, 0, 1, 0)}


@pytest.mark.parametrize("operation", INFINITE)
@pytest.mark.parametrize("route", [interpreted, compiled])
def test_at_infinity(route: Callable[..., Any], operation: str) -> None:
    points = np.array([-np.inf, np.inf] + [np.nan] * (len(POINTS) - 2))
    value, slope = route(module_of(operation, "f64"))(points, np.ones_like(points))
    np.testing.assert_array_equal([value[0], slope[0], value[1], slope[1]], INFINITE[operation])
    assert np.isnan(value[2:]).all(), "NaN stays"


# name, attributes, points, derivatives there: the one of least norm
KINKS = [("relu", "", [0.0], [0.0]), ("abs", "", [0.0], [0.0]), ("sign", "", [0.0], [0.0]), ("relu6", "", [0.0, 6.0], [0.0, 0.0]),
         ("clip", "{max = 2.0, min = -1.0}", [-1.0, 2.0], [0.0, 0.0]), ("hard_tanh", "", [-1.0, 1.0], [0.0, 0.0]),
         ("hard_sigmoid", "", [-3.0, 3.0], [0.0, 0.0]), ("hard_swish", "", [-3.0, 3.0], [0.0, 1.0]), ("leaky_relu", "", [0.0], [0.01]),
         ("elu", "{alpha = 0.5}", [0.0], [0.5]), ("sigmoid", "", [0.0], [0.25]), ("log_sigmoid", "", [0.0], [0.5]),
         ("softplus", "", [0.0], [0.5]), ("silu", "", [0.0], [0.5]), ("mish", "", [0.0], [0.6]), ("gelu", "", [0.0], [0.5]),
         ("sinc", "", [0.0], [0.0]), ("round", "{ste = true}", [0.5, 1.2], [1.0, 1.0]), ("round", "", [0.5, 1.2], [0.0, 0.0])]


@pytest.mark.parametrize(("name", "attributes", "points", "slopes"), KINKS)
@pytest.mark.parametrize("mode", ["vjp", "jvp"])
def test_kinks(mode: str, name: str, attributes: str, points: list[float], slopes: list[float]) -> None:
    type = f"tensor<{len(points)}xf64>"
    module = gradopt.parse(f"func.func @f(%x: {type}) -> {type} {{\n  %y = hl.{name} %x {attributes} : {type}\n  return %y : {type}\n}}")
    gradopt.run_passes(module, f"autodiff{{func=f mode={mode}}},decompose")
    found = run_function(module, f"f_{mode}", [np.array(points), np.ones(len(points))])[-1]
    np.testing.assert_allclose(found, slopes, rtol=1e-15, atol=0)


def test_elimination_needs_a_static_number_of_rows() -> None:
    type = 'tensor<?x?xf64, #ir.dims<["n", "n"]>>'
    module = gradopt.parse(f"func.func @f(%a: {type}) -> {type} {{\n  %y = hl.inverse %a : {type}\n  return %y : {type}\n}}")
    with pytest.raises(GradoptError, match="elimination needs a static number of rows"):
        gradopt.run_passes(module, "decompose")
