"""Decompositions of fake quantisation and dropout.

fake_quantize has a straight-through derivative at every level, so its decomposition is q + (f - stop_gradient(f)) with
the quantised value q behind a stop_gradient and a function f whose derivative is the straight-through factor; f - f is
exactly 0."""

from __future__ import annotations

import math
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.types import UI32
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import cast_to, expand_axes, full_like, size_operands, tanh_slope
from gradopt.lowering.decompose.neural import (
    compare,
    constant_times,
    product_of,
    select_constant,
    wide,
    zero_where,
)
from gradopt.lowering.decompose.registry import decomposition


def step_of(b: Builder, op: Any, x: Value) -> Value:
    """The quantisation step in the shape of x, a constant for derivatives."""
    rank = tensor_type(x).rank
    others = [axis for axis in range(rank) if op.axis is None or axis != op.axis % rank]
    if op.scale is None:
        largest = b.prim.reduce(b.prim.abs(x), kind="max", axes=others)
        # an empty reduction gives -inf; there is nothing to quantise then
        step = b.prim.div(largest, full_like(b, largest, op.largest))
    else:
        step = wide(b, op.scale)
    step = select_constant(b, compare(b, step, "eq", 0), 1, step)
    return expand_axes(b, b.prim.stop_gradient(step), x, others)


def limited(b: Builder, x: Value, bound: float) -> Value:
    """x in [-bound, bound]; NaN stays."""
    return b.prim.max(b.prim.min(x, full_like(b, x, bound)), full_like(b, x, -bound))


@decomposition("hl.fake_quantize")
def fake_quantize(b: Builder, op: Any) -> Value:
    """clamp(round(x / s), -qmax, qmax) * s, with a carrier of the straight-through derivative."""
    x = wide(b, op.x)
    step = step_of(b, op, x)
    level = b.prim.round(b.prim.div(x, step))
    value = b.prim.stop_gradient(b.prim.mul(limited(b, level, op.largest), step))
    infinite = compare(b, b.prim.abs(x), "eq", math.inf)  # inf - inf is not 0; NaN stays NaN anyway
    carrier = select_constant(b, infinite, 0, straight_through(b, op, x, step, level))
    carried = b.prim.sub(carrier, b.prim.stop_gradient(carrier))
    return cast_to(b, b.prim.add(value, carried), tensor_type(op.x).element)


def straight_through(b: Builder, op: Any, x: Value, step: Value, level: Value) -> Value:
    """A function of x whose derivative is the factor that `ste` names."""
    if op.ste == "clipped":
        return zero_where(b, compare(b, b.prim.abs(level), "le", op.largest), x)
    if op.ste == "tanh":
        return b.prim.mul(step, b.prim.tanh(b.prim.div(x, step)))
    if op.ste == "hard_tanh":  # x - x |x| / (2 bound) has the derivative 1 - |x| / bound
        bound = constant_times(b, step, op.largest)
        bend = b.prim.div(b.prim.mul(x, b.prim.abs(x)), constant_times(b, bound, 2))
        return zero_where(b, compare(b, b.prim.abs(x), "lt", bound), b.prim.sub(x, bend))
    return x


@decomposition("bwd.fake_quantize")
def fake_quantize_backward(b: Builder, op: Any) -> Value:
    """dy times the straight-through factor."""
    if op.ste == "identity":
        return op.dy
    x, dy = wide(b, op.x), wide(b, op.dy)
    step, element = step_of(b, op, x), tensor_type(op.x).element
    if op.ste == "clipped":
        level = b.prim.round(b.prim.div(x, step))
        return cast_to(b, zero_where(b, compare(b, b.prim.abs(level), "le", op.largest), dy), element)
    one = full_like(b, x, 1)
    if op.ste == "tanh":
        factor = tanh_slope(b, b.prim.div(x, step))
    else:
        factor = b.prim.sub(one, b.prim.div(b.prim.abs(x), constant_times(b, step, op.largest)))
        factor = select_constant(b, compare(b, factor, "le", 0), 0, factor)
    return cast_to(b, product_of(b, op.masked)(dy, factor), element)


@decomposition("hl.dropout")
def dropout(b: Builder, op: Any) -> Value:
    """x / (1 - rate) where the element's random word is at least rate * 2^32, else 0."""
    x = wide(b, op.x)
    bits = b.create("prim.random_bits", [op.key, *size_operands(b, x)], [tensor_type(x).with_element(UI32)]).results[0]
    kept = compare(b, bits, "ge", op.threshold)
    return cast_to(b, zero_where(b, kept, constant_times(b, x, 1.0 / (1.0 - op.rate))), tensor_type(op.x).element)
