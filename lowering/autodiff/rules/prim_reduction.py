"""Derivatives of the `prim` ops that combine or order elements along axes."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.types import I32, I64
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import Context, ForwardContext, ReverseContext, is_float_tensor
from gradopt.lowering.autodiff.cumulative_product import cumulative_product_cotangent, cumulative_product_tangent
from gradopt.lowering.autodiff.gathering import put_along_axis, take_along_axis
from gradopt.lowering.autodiff.helpers import (
    accumulation_element,
    cast_to,
    expand_axes,
    full_like,
    iota_like,
    not_a_number,
    reduce_sum,
    zeros_like,
)
from gradopt.lowering.autodiff.registry import Gradients, Tangents, forward_rule, reverse_rule


@reverse_rule("prim.reduce", masks=True)
def reduce(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """sum: g repeated; max, min: g shared evenly by the elements that give the result; prod: g times the product of the
    others."""
    if op.kind == "sum":
        return context.keep(expand_axes(context.builder, g, op.operands[0], op.axes))
    if op.kind == "prod":
        return context.keep(product_cotangent(context, op.operands[0], list(op.axes), g))
    hit, share = extremum_shares(context, op)
    b, x = context.builder, op.operands[0]
    wide = accumulation_element(tensor_type(x).element)
    part = b.prim.div(cast_to(b, g, wide), share)
    spread = expand_axes(b, cast_to(b, part, tensor_type(x).element), x, op.axes)
    return b.prim.select(hit, spread, zeros_like(b, x))


@forward_rule("prim.reduce", masks=True)
def reduce_tangent(context: ForwardContext, op: Any, t: Value) -> Tangents:
    """sum: the sum of the tangents; max, min: the mean tangent of the elements that give the result; prod: by the product
    rule."""
    b, x, axes = context.builder, op.operands[0], list(op.axes)
    if op.kind == "sum":
        return context.keep(reduce_sum(b, t, axes))
    if op.kind == "prod":
        for axis in sorted(axes, reverse=True):
            t = reduce_sum(b, context.scale(t, product_of_others(b, x, axis)), [axis])
            x = b.prim.reduce(x, kind="prod", axes=[axis])
        return context.keep(t)
    hit, share = extremum_shares(context, op)
    kept = cast_to(b, b.prim.select(hit, t, zeros_like(b, t)), accumulation_element(tensor_type(x).element))
    return cast_to(b, b.prim.div(reduce_sum(b, kept, axes), share), tensor_type(x).element)


def extremum_shares(context: Context, op: Any) -> tuple[Value, Value]:
    """(which elements give the result, how many they are, 1 for none): a NaN result is given by the NaN elements. The count is
    summed in i32 and kept in f32 (f64), never in a 16-bit type."""
    b, x = context.builder, op.operands[0]
    hit = b.prim.or_(b.prim.cmp(x, expand_axes(b, op.results[0], x, op.axes), predicate="eq"),
                     not_a_number(b, x))
    count = reduce_sum(b, cast_to(b, hit, I32), op.axes)
    sizes = [tensor_type(x).dims[axis] for axis in op.axes]
    if not all(isinstance(size, int) and size for size in sizes):
        count = b.prim.max(count, full_like(b, count, 1))  # over no elements the derivative is 0
    return hit, cast_to(b, count, accumulation_element(tensor_type(x).element))


def product_of_others(b: Builder, x: Value, axis: int) -> Value:
    """For each element the product of all others along an axis: exclusive prefix times exclusive suffix, without a division."""
    return b.prim.mul(b.prim.cumulative(x, kind="prod", axis=axis, exclusive=True),
                      b.prim.cumulative(x, kind="prod", axis=axis, exclusive=True, reverse=True))


def product_cotangent(context: ReverseContext, x: Value, axes: list[int], g: Value) -> Value:
    """Over several axes: one after the other, last axis first, so that each step is along one axis."""
    b = context.builder
    order = sorted(axes, reverse=True)
    inputs = [x]
    for axis in order[:-1]:
        inputs.append(b.prim.reduce(inputs[-1], kind="prod", axes=[axis]))
    for axis, value in zip(reversed(order), reversed(inputs)):
        g = context.scale(expand_axes(b, g, value, [axis]), product_of_others(b, value, axis))
    return g


@reverse_rule("prim.cumulative", masks=True)
def cumulative(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """sum: the running sum from the other end; prod: see cumulative_product.py; max, min: g added to the first extremum."""
    b, x = context.builder, op.operands[0]
    mark = context.cut if op.exclusive else context.keep  # nothing reads the last element of an exclusive op
    if op.kind == "sum":
        return mark(b.prim.cumulative(g, kind="sum", axis=op.axis, reverse=not op.reverse, exclusive=op.exclusive))
    if op.kind == "prod":
        return mark(cumulative_product_cotangent(context, op, g))
    found, position = first_extremum(b, op)
    return put_along_axis(b, zeros_like(b, x), position, b.prim.select(found, g, zeros_like(b, g)), op.axis)


@forward_rule("prim.cumulative", masks=True)
def cumulative_tangent(context: ForwardContext, op: Any, t: Value) -> Tangents:
    """sum: the running sum of the tangents; prod: see cumulative_product.py; max, min: the tangent of the first extremum."""
    b = context.builder
    mark = context.cut if op.exclusive else context.keep
    if op.kind == "sum":
        return mark(b.prim.cumulative(t, kind="sum", axis=op.axis, reverse=op.reverse, exclusive=op.exclusive))
    if op.kind == "prod":
        return mark(cumulative_product_tangent(context, op, t))
    found, position = first_extremum(b, op)
    return b.prim.select(found, take_along_axis(b, t, position, op.axis), zeros_like(b, t))


def first_extremum(b: Builder, op: Any) -> tuple[Value, Value]:
    """(where the result is an element of the operand, that element's index): of equal ones the first, in the direction of the
    op; the first NaN stays. The start of an exclusive op belongs to no element."""
    x, kind, axis = op.operands[0], op.kind, op.axis
    reverse, exclusive = op.reverse, op.exclusive
    before = b.prim.cumulative(x, kind=kind, axis=axis, reverse=reverse, exclusive=True)
    fresh = b.prim.cmp(x, before, predicate="gt" if kind == "max" else "lt")
    # beaten only if the running value is not NaN already; a NaN element is fresh where it is the first one
    lost = b.prim.and_(not_a_number(b, x), b.prim.cmp(before, before, predicate="eq"))
    index = iota_like(b, x, axis)
    start = b.prim.cmp(index, edge_index(b, x, axis, reverse), predicate="eq")
    fresh = b.prim.or_(start, b.prim.or_(fresh, lost))
    # indices of fresh elements grow in the direction of the op, so the latest is their running maximum (minimum)
    none = full_like(b, x, (1 << 62) if reverse else -1, I64)
    position = b.prim.cumulative(b.prim.select(fresh, index, none), kind="min" if reverse else "max", axis=axis, reverse=reverse,
                                 exclusive=exclusive)
    found = b.prim.cmp(position, full_like(b, x, 0, I64), predicate="ge")
    if reverse:
        found = b.prim.cmp(position, full_like(b, x, 1 << 62, I64), predicate="lt")
    return found, b.prim.select(found, position, full_like(b, x, 0, I64))


def edge_index(b: Builder, x: Value, axis: int, reverse: bool) -> Value:
    """The index at which a running op starts, in the shape of `x`."""
    from gradopt.lowering.autodiff.helpers import expand_like, scalar, size_value

    if not reverse:
        return full_like(b, x, 0, I64)
    return expand_like(b, b.prim.sub(size_value(b, x, axis), scalar(b, 1, I64)), x)


@reverse_rule("prim.sort", masks=True)
def sort(context: ReverseContext, op: Any, *cotangents: Value | None) -> Gradients:
    """The forward sort carries a counter along, which becomes the permutation; sorting by it brings every cotangent home."""
    key, axis = op.operands[0], op.axis
    forward = context.forward_builder
    wider = forward.create("prim.sort", [*op.operands, iota_like(forward, key, axis)], axis=axis,
                           descending=op.descending)
    context.replace_forward(wider.results[:-1])
    seeded = [index for index, g in enumerate(cotangents) if g is not None and context.wants(index)]
    values = [g for index, g in enumerate(cotangents) if index in seeded]
    home = context.builder.create("prim.sort", [wider.results[-1], *values], axis=axis).results[1:]  # type: ignore[list-item]
    gradients: list[Value | None] = [None] * len(cotangents)
    for index, value in zip(seeded, home):
        gradients[index] = value
    return gradients


@forward_rule("prim.sort")
def sort_tangents(context: ForwardContext, op: Any, *tangents: Value | None) -> Tangents:
    """The tangents are further payloads of the same sort."""
    moving = [index for index, t in enumerate(tangents) if t is not None and is_float_tensor(op.operands[index].type)]
    payload = [tangents[index] for index in moving]
    wider = context.forward_builder.create("prim.sort", [*op.operands, *payload], axis=op.axis,  # type: ignore[list-item]
                                           descending=op.descending)
    count = len(op.results)
    context.replace_forward(wider.results[:count])
    result: list[Value | None] = [None] * count
    for index, value in zip(moving, wider.results[count:]):
        result[index] = value
    return result


