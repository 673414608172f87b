"""Decompositions of the adjoints of elementwise, running and indexing ops (`bwd`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.meanings import GELU_CUBIC, GELU_SLOPE, SELU_ALPHA, SELU_SCALE
from gradopt.dialects.hl.neural.common import invert
from gradopt.ir.builder import Builder
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import Context
from gradopt.lowering.autodiff.cumulative_product import cumulative_product_cotangent
from gradopt.lowering.building import (
    broadcast_all,
    broadcast_to,
    cast_to,
    expand_axes,
    full_like,
    logistic_slope,
    reduce_sum,
    reshape_to,
    result_extents,
    scalar,
    tanh_slope,
)
from gradopt.lowering.decompose.extents import extents_of, permute
from gradopt.lowering.decompose.neural import compare, constant_times, product_of, select_constant, wide
from gradopt.lowering.decompose.registry import decomposition
from gradopt.lowering.decompose.rules.tensor_elementwise import (
    bounded,
    gated,
    gelu_argument,
    mish_gate,
    plus,
    sigmoid_of,
)
from gradopt.lowering.decompose.rules.tensor_indexing import flattened, grid_vectors, index_vectors, with_axis

Slope = Callable[[Builder, Value, Any], Value]


@decomposition("bwd.relu")
def relu(b: Builder, op: Any) -> Value:
    """select(x <= 0, 0, dy)."""
    zero = full_like(b, op.x, 0)
    return b.prim.select(b.prim.cmp(op.x, zero, predicate="le"), zero, op.dy)


def gelu_slope(b: Builder, x: Value, op: Any) -> Value:
    """Phi(x) + x phi(x)."""
    below = constant_times(b, b.prim.erfc(constant_times(b, x, -math.sqrt(0.5))), 0.5)
    density = constant_times(b, b.prim.exp(constant_times(b, b.prim.mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return b.prim.add(below, gated(b, x, density))


def gelu_tanh_slope(b: Builder, x: Value, op: Any) -> Value:
    """s + x s (1 - s) u' with s = sigmoid(u)."""
    inner = gelu_argument(b, x)
    limited = bounded(b, x, full_like(b, x, -100), full_like(b, x, 100))
    rate = plus(b, constant_times(b, b.prim.mul(limited, limited), 3 * GELU_CUBIC), 1)
    slope = b.prim.mul(logistic_slope(b, inner), constant_times(b, rate, 2 * GELU_SLOPE))
    return b.prim.add(sigmoid_of(b, inner), gated(b, x, slope))


def silu_slope(b: Builder, x: Value, op: Any) -> Value:
    """s + x s (1 - s) with s = sigmoid(x)."""
    return b.prim.add(sigmoid_of(b, x), gated(b, x, logistic_slope(b, x)))


def mish_slope(b: Builder, x: Value, op: Any) -> Value:
    """g + x (1 - g**2) sigmoid(x) with g = tanh(softplus(x))."""
    gate = mish_gate(b, x)
    rest = b.prim.sub(full_like(b, x, 1), b.prim.mul(gate, gate))
    return b.prim.add(gate, gated(b, x, b.prim.mul(rest, sigmoid_of(b, x))))


def softplus_slope(b: Builder, x: Value, op: Any) -> Value:
    """sigmoid(beta x); 1 above the threshold."""
    scaled = constant_times(b, x, op.beta)
    return select_constant(b, compare(b, scaled, "gt", op.threshold), 1, sigmoid_of(b, scaled))


def exponential_slope(b: Builder, x: Value, factor: float, width: float) -> Value:
    """factor e**(x / width) where x <= 0, 1 above."""
    below = compare(b, x, "le", 0)
    low = b.prim.select(below, x, full_like(b, x, 0))
    curve = b.prim.exp(low if width == 1 else b.prim.div(low, full_like(b, x, width)))
    return b.prim.select(below, constant_times(b, curve, factor), full_like(b, x, 1))


def inside(b: Builder, x: Value, low: float, high: float, slope: float = 1.0) -> Value:
    """slope strictly between two bounds, 0 elsewhere."""
    outside = b.prim.or_(compare(b, x, "le", low), compare(b, x, "ge", high))
    return select_constant(b, outside, 0, full_like(b, x, slope))


def hard_swish_slope(b: Builder, x: Value, op: Any) -> Value:
    """x / 3 + 1/2 between -3 and 3, 0 below, 1 above."""
    line = plus(b, b.prim.div(x, full_like(b, x, 3)), 0.5)
    line = select_constant(b, compare(b, x, "le", -3), 0, line)
    return select_constant(b, compare(b, x, "ge", 3), 1, line)


SLOPES: dict[str, Slope] = {
    "sigmoid": lambda b, x, op: logistic_slope(b, x),
    "log_sigmoid": lambda b, x, op: sigmoid_of(b, b.prim.neg(x)),
    "tanh": lambda b, x, op: tanh_slope(b, x),
    "gelu": gelu_slope,
    "gelu_tanh": gelu_tanh_slope,
    "silu": silu_slope,
    "mish": mish_slope,
    "softplus": softplus_slope,
    "elu": lambda b, x, op: exponential_slope(b, x, op.alpha, 1),
    "celu": lambda b, x, op: exponential_slope(b, x, 1, op.alpha),
    "selu": lambda b, x, op: constant_times(b, exponential_slope(b, x, SELU_ALPHA, 1), SELU_SCALE),
    "leaky_relu": lambda b, x, op: b.prim.select(compare(b, x, "le", 0), full_like(b, x, op.alpha), full_like(b, x, 1)),
    "relu6": lambda b, x, op: inside(b, x, 0, 6),
    "hard_sigmoid": lambda b, x, op: inside(b, x, -3, 3, 1 / 6),
    "hard_tanh": lambda b, x, op: inside(b, x, op.min, op.max),
    "hard_swish": hard_swish_slope,
}


@decomposition("bwd.activation")
def activation(b: Builder, op: Any) -> Value:
    """dy times the derivative at x."""
    x = wide(b, op.x)
    return cast_to(b, product_of(b, op.masked)(wide(b, op.dy), SLOPES[op.kind](b, x, op)), tensor_type(op.x).element)


@decomposition("bwd.softmax")
def softmax(b: Builder, op: Any) -> Value:
    """dy y - y sum(dy y)."""
    y, axis = wide(b, op.y), op.normal_axis
    times = product_of(b, op.masked)
    weighted = times(wide(b, op.dy), y)
    total = expand_axes(b, reduce_sum(b, weighted, [axis]), y, [axis])
    return cast_to(b, b.prim.sub(weighted, times(y, total)), tensor_type(op.y).element)


@decomposition("bwd.log_softmax")
def log_softmax(b: Builder, op: Any) -> Value:
    """dy - e**y sum(dy)."""
    y, dy, axis = wide(b, op.y), wide(b, op.dy), op.normal_axis
    total = expand_axes(b, reduce_sum(b, dy, [axis]), y, [axis])
    return cast_to(b, b.prim.sub(dy, product_of(b, op.masked)(total, b.prim.exp(y))), tensor_type(op.y).element)


@decomposition("bwd.cumsum")
def cumsum(b: Builder, op: Any) -> Value:
    """prim.cumulative from the other end."""
    target = tensor_type(op.results[0])
    axis = 0 if op.axis is None else op.axis % target.rank
    total = b.prim.cumulative(op.dy, kind="sum", axis=axis, exclusive=op.exclusive, reverse=not op.reverse)
    return reshape_to(b, total, result_extents(b, op)) if op.axis is None else total


@decomposition("bwd.cumprod")
def cumprod(b: Builder, op: Any) -> Value:
    """The derivative of prim.cumulative, without a division."""
    x, dy = wide(b, op.x), wide(b, op.dy)
    x = flattened(b, x) if op.axis is None else x
    axis = 0 if op.axis is None else op.axis % tensor_type(x).rank
    forward = b.create("prim.cumulative", [x], kind="prod", axis=axis, exclusive=op.exclusive, reverse=op.reverse)
    context = Context(b)
    context.masked = True if op.masked else None
    found = cast_to(b, cumulative_product_cotangent(context, forward, dy), tensor_type(op.x).element)
    return reshape_to(b, found, extents_of(b, op.x)) if op.axis is None else found


def zeros(b: Builder, op: Any) -> Value:
    """Zeros of the result's type."""
    type = tensor_type(op.results[0])
    return broadcast_to(b, scalar(b, 0, type.element), result_extents(b, op))


@decomposition("bwd.take", "bwd.gather")
def take(b: Builder, op: Any) -> Value:
    """prim.scatter."""
    out = zeros(b, op)
    if op.axis is None:
        found = b.prim.scatter(flattened(b, out), op.indices, op.dy, axis=0, kind="add", mode=op.mode)
        return reshape_to(b, found, result_extents(b, op))
    return b.prim.scatter(out, op.indices, op.dy, axis=op.axis % tensor_type(out).rank, kind="add", mode=op.mode)


@decomposition("bwd.put_along_axis")
def put_along_axis(b: Builder, op: Any) -> Value:
    """prim.scatter_nd."""
    out = zeros(b, op)
    places = grid_vectors(b, op.indices, op.axis % tensor_type(out).rank)
    return b.prim.scatter_nd(out, places, op.dy, kind="add", mode=op.mode)


@decomposition("bwd.indexing_one_hot")
def indexing_one_hot(b: Builder, op: Any) -> Value:
    """prim.scatter_nd with one index a row."""
    out = zeros(b, op)
    axis = op.axis % tensor_type(out).rank
    return b.prim.scatter_nd(out, grid_vectors(b, with_axis(b, op.index, axis), axis), op.dy, kind="add")


@decomposition("bwd.take_multi")
def take_multi(b: Builder, op: Any) -> Value:
    """The indexed axes and I in front, prim.scatter_nd, and back."""
    out = zeros(b, op)
    rank = tensor_type(out).rank
    axes = [axis % rank for axis in op.axes]
    rest = [axis for axis in range(rank) if axis not in axes]
    indices = broadcast_all(b, *op.indices)
    depth, place = tensor_type(indices[0]).rank, sum(axis < axes[0] for axis in rest)
    rows = permute(b, op.dy, [*range(place, place + depth), *range(place), *range(place + depth, depth + len(rest))])
    found = b.prim.scatter_nd(permute(b, out, [*axes, *rest]), index_vectors(b, indices), rows, kind="add", mode=op.mode)
    return permute(b, found, invert([*axes, *rest]))
