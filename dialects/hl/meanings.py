"""NumPy meanings of elementwise `hl` ops that are more than one NumPy call. `np` is numpy; arrays come in their accumulation
dtype.

They are written for accuracy in every range, and apart from the decompositions, which are tested against them.
"""

from __future__ import annotations

import math
from typing import Any

from gradopt.dialects.arrays import Array

SELU_ALPHA = 1.6732632423543772848170429916717  # Klambauer et al. 2017
SELU_SCALE = 1.0507009873554804934193349852946
GELU_CUBIC = 0.044715  # Hendrycks and Gimpel 2016
GELU_SLOPE = math.sqrt(2 / math.pi)


def sigmoid(np: Any, x: Array) -> Array:
    """1 / (1 + e**-x), without overflow and with its tail."""
    small = np.exp(-np.abs(x))
    return np.where(x <= 0, small, np.ones_like(x)) / (1 + small)


def logistic_slope(np: Any, x: Array) -> Array:
    """The derivative of sigmoid, e**-|x| / (1 + e**-|x|)**2, which keeps both tails."""
    small = np.exp(-np.abs(x))
    return small / (1 + small) ** 2


def tanh_slope(np: Any, x: Array) -> Array:
    """The derivative of tanh, 1 - tanh(x)**2, with its tails: 4 times that of sigmoid at 2 x."""
    return 4 * logistic_slope(np, x + x)


def log_sigmoid(np: Any, x: Array) -> Array:
    """log(sigmoid(x))."""
    return -np.logaddexp(np.zeros_like(x), -x)


def softplus(np: Any, x: Array, beta: float, threshold: float) -> Array:
    """log(1 + e**(beta x)) / beta, and x where beta x > threshold."""
    scaled = x * x.dtype.type(beta)
    return np.where(scaled > threshold, x, np.logaddexp(np.zeros_like(x), scaled) / x.dtype.type(beta))


def elu(np: Any, x: Array, alpha: float) -> Array:
    """x above 0, alpha (e**x - 1) below."""
    return np.where(x > 0, x, x.dtype.type(alpha) * np.expm1(np.minimum(x, 0)))


def selu(np: Any, x: Array) -> Array:
    """elu with the alpha and scale of self-normalising networks."""
    return x.dtype.type(SELU_SCALE) * elu(np, x, SELU_ALPHA)


def celu(np: Any, x: Array, alpha: float) -> Array:
    """x above 0, alpha (e**(x / alpha) - 1) below."""
    a = x.dtype.type(alpha)
    return np.where(x > 0, x, a * np.expm1(np.where(x > 0, 0, x) / a))


def gated(np: Any, x: Array, gate: Array) -> Array:
    """x * gate, where a gate of 0 wins over an infinite x."""
    return np.where(gate == 0, x.dtype.type(0), x * gate)


def gelu(np: Any, x: Array, approximate: str) -> Array:
    """x Phi(x) with the normal distribution Phi, or with its approximation by tanh."""
    if approximate == "none":
        from gradopt.dialects.prim.elementwise import UNARY

        return gated(np, x, UNARY["erfc"][2](np, x * x.dtype.type(-math.sqrt(0.5))) * x.dtype.type(0.5))
    inner = x.dtype.type(GELU_SLOPE) * (x + x.dtype.type(GELU_CUBIC) * x * x * x)
    return gated(np, x, sigmoid(np, 2 * inner))


def silu(np: Any, x: Array) -> Array:
    """x sigmoid(x)."""
    return gated(np, x, sigmoid(np, x))


def mish(np: Any, x: Array) -> Array:
    """x tanh(softplus(x))."""
    return gated(np, x, np.tanh(np.logaddexp(np.zeros_like(x), x)))


def relu(np: Any, x: Array) -> Array:
    """max(x, 0); NaN stays."""
    return np.maximum(x, 0)


def hard_sigmoid(np: Any, x: Array) -> Array:
    """min(max(x / 6 + 1/2, 0), 1)."""
    return np.clip(x / 6 + x.dtype.type(0.5), 0, 1).astype(x.dtype)


def hard_swish(np: Any, x: Array) -> Array:
    """x hard_sigmoid(x)."""
    return gated(np, x, hard_sigmoid(np, x))


def bounded(np: Any, x: Array, low: float, high: float) -> Array:
    """min(max(x, low), high); NaN stays."""
    return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))


def sinc(np: Any, x: Array) -> Array:
    """sin(pi x) / (pi x); far out the sine is that of the distance from the nearest whole number, which is exact."""
    whole = np.round(x)
    sine = np.sin(np.pi * (x - whole)) * (1 - 2 * np.abs(np.fmod(whole, 2)))
    return np.where(whole == 0, np.sinc(x), sine / np.where(whole == 0, 1, np.pi * x)).astype(x.dtype)


def xlogy(np: Any, x: Array, y: Array) -> Array:
    """x log y; 0 where x is 0, unless y is NaN."""
    return np.where((x == 0) & ~np.isnan(y), x.dtype.type(0), x * np.log(y))


def xlog1py(np: Any, x: Array, y: Array) -> Array:
    """x log(1 + y); 0 where x is 0, unless y is NaN."""
    return np.where((x == 0) & ~np.isnan(y), x.dtype.type(0), x * np.log1p(y))


def floor_divide(np: Any, x: Array, y: Array) -> Array:
    """x / y rounded down; integers: 0 where y is 0, INT_MIN // -1 = INT_MIN."""
    return np.floor_divide(x, y)


def modulo(np: Any, x: Array, y: Array) -> Array:
    """x - y floor(x / y), with the sign of y; integers: 0 where y is 0."""
    return np.remainder(x, y)
