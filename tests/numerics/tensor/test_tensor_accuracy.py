"""Elementwise ops and their derivatives against many digits, over wide ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from tensor_slopes import ROUTES, slopes, unary
from tensor_support import STATIC, module_of, run

import gradopt

Exact = Callable[[Any], Any]
WIDE = [*np.linspace(-6, 6, 41).tolist(), -709.0, -88.0, -37.5, -19.5, 19.5, 37.5, 88.0, 700.0, 1e-8, -1e-8, 1e-300, 1e5, -1e5, 1e19, -1e19]
POSITIVE = [1e-300, 1e-9, 0.1, 0.5, 0.999999, 1.000001, 1.5, 3.0, 40.0, 1e9, 1e300]
INSIDE = [-1 + 1e-12, -0.9, -0.5, -1e-9, 1e-300, 1e-3, 0.25, 0.7, 0.99999999]


def gelu_tanh(x: Any) -> Any:
    return x / (1 + mpmath.exp(-2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(0.044715) * x**3)))


# name -> (function in many digits, points, attributes)
ACCURATE: dict[str, tuple[Exact, list[float], dict[str, Any]]] = {
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), WIDE, {}),
    "log_sigmoid": (lambda x: -mpmath.log1p(mpmath.exp(-x)), WIDE, {}),
    "softplus": (lambda x: mpmath.log1p(mpmath.exp(x)) if x <= 20 else x, WIDE, {}),
    "silu": (lambda x: x / (1 + mpmath.exp(-x)), WIDE, {}),
    "gelu": (lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2, WIDE, {}),
    "gelu tanh": (gelu_tanh, WIDE, {"approximate": "tanh"}),
    "mish": (lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))), WIDE, {}),
    "elu": (lambda x: x if x > 0 else mpmath.expm1(x), WIDE, {}),
    "celu": (lambda x: x if x > 0 else 2 * mpmath.expm1(x / 2), WIDE, {"alpha": 2.0}),
    "tanh": (mpmath.tanh, WIDE, {}),
    "expm1": (mpmath.expm1, WIDE, {}),
    "exp": (mpmath.exp, WIDE[:-8], {}),
    "atan": (mpmath.atan, WIDE, {}),
    "asinh": (mpmath.asinh, WIDE, {}),
    "erf": (mpmath.erf, WIDE, {}),
    "erfc": (mpmath.erfc, WIDE, {}),
    "sinc": (lambda x: mpmath.sinc(mpmath.pi * x), WIDE[:-4], {}),
    "log1p": (mpmath.log1p, POSITIVE, {}),
    "log": (mpmath.log, POSITIVE, {}),
    "log2": (lambda x: mpmath.log(x, 2), POSITIVE, {}),
    "sqrt": (mpmath.sqrt, POSITIVE, {}),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), POSITIVE, {}),
    "asin": (mpmath.asin, INSIDE, {}),
    "acos": (mpmath.acos, INSIDE, {}),
    "atanh": (mpmath.atanh, INSIDE, {}),
    "erfinv": (mpmath.erfinv, INSIDE, {}),
}


@pytest.mark.parametrize("label", ACCURATE)
def test_values_and_slopes_keep_their_tails(label: str) -> None:
    """Relative to the right number at each point: the value, its derivative by each route, down to what f64 can hold."""
    function, points, attributes = ACCURATE[label]
    name = label.split()[0]
    x = np.array(points)
    with mpmath.workdps(450):
        exact = [mpmath.mpf(point) for point in points]
        values = np.array([float(function(point)) for point in exact])
        steps = [mpmath.mpf(10) ** -60 * (p if points is POSITIVE else 1) for p in exact]
        derivatives = np.array([float((function(p + h) - function(p - h)) / (2 * h)) for p, h in zip(exact, steps)])
    sample = unary(name, points, **attributes)
    for passes in ("", "decompose"):
        (found,) = run(module_of(sample, STATIC, "f64", passes), [x])
        rtol = 2e-13 if name == "gelu" else 4e-15  # an error of half a unit in x grows by x**2 in the tail of gelu
        np.testing.assert_allclose(found, values, rtol=rtol, atol=1e-307, err_msg=f"{label} {passes}")
    for passes, (found,) in zip(ROUTES, slopes(sample), strict=True):
        atol = 1e-300
        np.testing.assert_allclose(found, derivatives, rtol=2e-12, atol=atol, err_msg=f"{label}: {passes}")


# functions that are several primitive ones, in units in the last place of f32 and f64 (the primitive ones: test_math_accuracy.py)
LIMITS: dict[str, tuple[Exact, tuple[float, float]]] = {
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), (2, 2)),
    "log_sigmoid": (lambda x: -mpmath.log1p(mpmath.exp(-x)), (2, 2)),
    "softplus": (lambda x: mpmath.log1p(mpmath.exp(x)), (2, 2)),
    "sinc": (lambda x: mpmath.sinpi(x) / (mpmath.pi * x) if x else mpmath.mpf(1), (2.5, 2.5)),
    "elu": (lambda x: x if x > 0 else mpmath.expm1(x), (1, 1)),
    "celu": (lambda x: x if x > 0 else 2 * mpmath.expm1(x / 2), (1.1, 1.1)),
    "exp2": (lambda x: mpmath.mpf(2) ** x, (1, 1)),
    "tanh": (mpmath.tanh, (2, 1)),
}


def many_points(element: str) -> np.ndarray:
    """Values of all sizes, uniform ones, whole and half numbers, and the ends of the range."""
    random, limit = np.random.default_rng(0), 60 if element == "f32" else 500
    sizes = np.ldexp(random.uniform(1, 2, 120), random.integers(-limit, limit, 120)) * random.choice([-1, 1], 120)
    info = np.finfo(np.float32 if element == "f32" else np.float64)
    ends = [0.0, -0.0, info.max, -info.max, info.tiny, -info.tiny, info.smallest_subnormal, 1e8, 123457.0]
    return np.concatenate([sizes, random.uniform(-80, 80, 120), random.uniform(-2, 2, 120), np.arange(-8, 8, 0.5), ends]).astype(info.dtype)


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_compiled_functions_are_within_the_limits(element: str) -> None:
    """Over the whole range of finite numbers; an overflow is one of the exact value too."""
    x, double = many_points(element), element == "f64"
    attributes = {"softplus": {"threshold": 1e9}, "celu": {"alpha": 2.0}}
    samples = [unary(name, x.tolist(), **attributes.get(name, {})) for name in LIMITS]
    found = gradopt.compile(module_of(samples, STATIC, element), "f")(*[x] * len(samples))
    digits, lowest, highest = (52, -1022, 1024) if double else (23, -126, 128)
    for (name, (function, limits)), values in zip(LIMITS.items(), found, strict=True):
        for point, value in zip(x.tolist(), values.tolist(), strict=True):
            with mpmath.workprec(300):
                exact = function(mpmath.mpf(point)) if abs(point) < 1e5 or name == "sinc" else mpmath.mpf(value)
                if abs(exact) >= mpmath.mpf(2) ** highest:
                    assert value == np.inf
                    continue
                exponent = max(int(mpmath.floor(mpmath.log(abs(exact), 2))) if exact else lowest, lowest)
                error = float(abs(mpmath.mpf(value) - exact) * mpmath.mpf(2) ** (digits - exponent))
            assert error <= limits[double], f"{name} of {point!r} in {element}: {value!r}, {error:.2f} ulp"
