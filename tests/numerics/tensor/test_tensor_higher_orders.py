"""Second and third derivatives where a decomposition changes its branch: at 0, and where operands are equal.

A function that is smooth there has to stay smooth at every order, however it is written with selects, |x| or a maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from tensor_support import STATIC, Sample, given, module_of, op, run

Function = Callable[..., Any]
POINTS = [0.0, 0.3, -0.3, 0.8, -0.8]
CUBIC = mpmath.mpf("0.044715")

SMOOTH: dict[str, tuple[Function, dict[str, Any]]] = {
    "sin": (mpmath.sin, {}),
    "cos": (mpmath.cos, {}),
    "tan": (mpmath.tan, {}),
    "asin": (mpmath.asin, {}),
    "acos": (mpmath.acos, {}),
    "atan": (mpmath.atan, {}),
    "sinh": (mpmath.sinh, {}),
    "cosh": (mpmath.cosh, {}),
    "tanh": (mpmath.tanh, {}),
    "asinh": (mpmath.asinh, {}),
    "atanh": (mpmath.atanh, {}),
    "sinc": (lambda x: mpmath.sinc(mpmath.pi * x), {}),
    "erf": (mpmath.erf, {}),
    "erfc": (mpmath.erfc, {}),
    "erfinv": (mpmath.erfinv, {}),
    "exp": (mpmath.exp, {}),
    "exp2": (lambda x: mpmath.mpf(2) ** x, {}),
    "expm1": (mpmath.expm1, {}),
    "log1p": (mpmath.log1p, {}),
    "square": (lambda x: x * x, {}),
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), {}),
    "log_sigmoid": (lambda x: -mpmath.log1p(mpmath.exp(-x)), {}),
    "softplus": (lambda x: mpmath.log1p(mpmath.exp(2 * x)) / 2, {"beta": 2.0}),
    "silu": (lambda x: x / (1 + mpmath.exp(-x)), {}),
    "mish": (lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))), {}),
    "gelu": (lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2, {}),
    "gelu tanh": (lambda x: x / (1 + mpmath.exp(-2 * mpmath.sqrt(2 / mpmath.pi) * (x + CUBIC * x**3))), {"approximate": "tanh"}),
}
ROUTES = ("", "decompose,")


def along(sample: Sample, points: list[Any], directions: list[Any], order: int, first: str) -> Any:
    """The derivative of an order along directions of the operands, by forward mode of forward mode."""
    passes = ",".join(f"autodiff{{func=f{'_jvp' * times} mode=jvp}}" for times in range(order))
    operands = [*points, *directions]
    for _ in range(1, order):
        operands += [*directions, *[np.zeros_like(each) for each in operands[len(directions) :]]]
    return run(module_of(sample, STATIC, "f64", f"{first}{passes},decompose"), operands, "f" + "_jvp" * order)[-1]


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("label", SMOOTH)
def test_functions_of_one_operand(label: str, order: int) -> None:
    function, attributes = SMOOTH[label]
    points = np.array(POINTS)
    sample = op(label.split()[0], str(points.size), data={0: given(points)}, **attributes)
    with mpmath.workdps(60):
        expected = [float(mpmath.diff(function, mpmath.mpf(point), order, h=mpmath.mpf(10) ** -12)) for point in POINTS]
    for first in ROUTES:
        found = along(sample, [points], [np.ones_like(points)], order, first)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=f"{label}: {first}")


def root_of_squares(x: Any) -> Any:
    return mpmath.sqrt(sum(each * each for each in x))


# op, attributes, function of a list of numbers: symmetric points are where maxima tie and differences vanish
TIES: dict[str, tuple[dict[str, Any], Function]] = {
    "logsumexp": ({}, lambda x: mpmath.log(sum(map(mpmath.exp, x)))),
    "logcumsumexp": ({"axis": 0}, lambda x: mpmath.log(sum(map(mpmath.exp, x)))),
    "softmax": ({}, lambda x: mpmath.exp(x[-1]) / sum(map(mpmath.exp, x))),
    "log_softmax": ({}, lambda x: x[-1] - mpmath.log(sum(map(mpmath.exp, x)))),
    "variance": ({}, lambda x: sum((each - sum(x) / len(x)) ** 2 for each in x) / len(x)),
    "prod": ({}, lambda x: x[0] * x[1] * x[2]),
    "cumprod": ({}, lambda x: x[0] * x[1] * x[2]),
    "norm": ({}, root_of_squares),
}


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", TIES)
def test_functions_of_equal_numbers(name: str, order: int) -> None:
    attributes, function = TIES[name]
    point, direction = np.full(3, 0.5), np.array([1.0, -0.5, 0.25])
    with mpmath.workdps(60):
        moved = lambda t: function([mpmath.mpf(p) + t * mpmath.mpf(d) for p, d in zip(point, direction)])  # noqa: E731
        expected = float(mpmath.diff(moved, 0, order, h=mpmath.mpf(10) ** -12))
    for first in ROUTES:
        found = along(op(name, "3", data={0: given(point)}, **attributes), [point], [direction], order, first)
        np.testing.assert_allclose(found.reshape(-1)[-1], expected, rtol=1e-9, atol=1e-12, err_msg=f"{name}: {first}")


@pytest.mark.parametrize("order", [2, 3])
def test_logaddexp_of_equal_numbers(order: int) -> None:
    points, directions = [np.array([0.5, 0.5, -2.0])] * 2, [np.array([1.0, 1.0, 0.5]), np.array([0.25, 1.0, -1.0])]
    with mpmath.workdps(60):
        expected = [
            float(mpmath.diff(lambda t: mpmath.log(mpmath.exp(p + t * u) + mpmath.exp(p + t * v)), 0, order, h=mpmath.mpf(10) ** -12))
            for p, u, v in zip(points[0], *directions)
        ]
    for first in ROUTES:
        found = along(op("logaddexp", "3", "3", data={0: given(points[0]), 1: given(points[1])}), points, directions, order, first)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=first)
