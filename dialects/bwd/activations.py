"""Derivatives of the activation functions: the kinds of `bwd.activation` and their NumPy meanings (`np` is numpy)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradopt.dialects.arrays import Array
from gradopt.dialects.hl.meanings import GELU_CUBIC, GELU_SLOPE, SELU_ALPHA, SELU_SCALE, gated, logistic_slope, sigmoid, tanh_slope

Slope = Callable[..., Array]  # (numpy, x, the op with its attributes) -> the derivative at x


def gelu_slope(np: Any, x: Array, op: Any) -> Array:
    """Phi(x) + x phi(x)."""
    from gradopt.dialects.prim.elementwise import UNARY

    below = UNARY["erfc"][2](np, x * x.dtype.type(-math.sqrt(0.5))) * x.dtype.type(0.5)
    return below + gated(np, x, np.exp(-x * x / 2) * x.dtype.type(1 / math.sqrt(2 * math.pi)))


def gelu_tanh_slope(np: Any, x: Array, op: Any) -> Array:
    """s + x s (1 - s) u' with s = sigmoid(u), u = 2 sqrt(2/pi) (x + 0.044715 x**3)."""
    near = np.clip(x, -100, 100)
    inner = 2 * GELU_SLOPE * (near + GELU_CUBIC * near ** 3)
    slope = 2 * GELU_SLOPE * (1 + 3 * GELU_CUBIC * near ** 2)
    return sigmoid(np, inner) + gated(np, x, logistic_slope(np, inner) * slope)


def silu_slope(np: Any, x: Array, op: Any) -> Array:
    """s + x s (1 - s) with s = sigmoid(x)."""
    return sigmoid(np, x) + gated(np, x, logistic_slope(np, x))


def mish_slope(np: Any, x: Array, op: Any) -> Array:
    """g + x g' with g = tanh(softplus(x)), g' = (1 - g**2) sigmoid(x)."""
    gate = np.tanh(np.logaddexp(np.zeros_like(x), x))
    return gate + gated(np, x, (1 - gate * gate) * sigmoid(np, x))


def softplus_slope(np: Any, x: Array, op: Any) -> Array:
    """sigmoid(beta x), and 1 where beta x > threshold."""
    scaled = x * x.dtype.type(op.beta)
    return np.where(scaled > op.threshold, x.dtype.type(1), sigmoid(np, scaled))


def exponential_slope(np: Any, x: Array, factor: float, width: float) -> Array:
    """1 above 0, factor e**(x / width) elsewhere."""
    return np.where(x > 0, x.dtype.type(1), x.dtype.type(factor) * np.exp(np.minimum(x, 0) / x.dtype.type(width)))


def inside(np: Any, x: Array, low: float, high: float, slope: float = 1.0) -> Array:
    """slope strictly between two bounds, 0 elsewhere; for NaN too it is slope."""
    return np.where((x <= low) | (x >= high), x.dtype.type(0), x.dtype.type(slope))


def hard_swish_slope(np: Any, x: Array, op: Any) -> Array:
    """x / 3 + 1/2 between -3 and 3, 0 below, 1 above."""
    return np.where(x >= 3, x.dtype.type(1), np.where(x <= -3, x.dtype.type(0), x / 3 + x.dtype.type(0.5)))


# kind -> derivative
SLOPES: dict[str, Slope] = {
    "sigmoid": lambda np, x, op: logistic_slope(np, x),
    "log_sigmoid": lambda np, x, op: sigmoid(np, -x),
    "tanh": lambda np, x, op: tanh_slope(np, x),
    "gelu": gelu_slope,
    "gelu_tanh": gelu_tanh_slope,
    "silu": silu_slope,
    "mish": mish_slope,
    "softplus": softplus_slope,
    "elu": lambda np, x, op: exponential_slope(np, x, op.alpha, 1),
    "celu": lambda np, x, op: exponential_slope(np, x, 1, op.alpha),
    "selu": lambda np, x, op: SELU_SCALE * exponential_slope(np, x, SELU_ALPHA, 1),
    "leaky_relu": lambda np, x, op: np.where(x > 0, x.dtype.type(1), x.dtype.type(op.alpha)),
    "relu6": lambda np, x, op: inside(np, x, 0, 6),
    "hard_sigmoid": lambda np, x, op: inside(np, x, -3, 3, 1 / 6),
    "hard_tanh": lambda np, x, op: inside(np, x, op.min, op.max),
    "hard_swish": hard_swish_slope,
}
CUTS = ("relu6", "hard_sigmoid", "hard_tanh", "hard_swish")  # the kinds whose derivative is 0 on whole ranges
