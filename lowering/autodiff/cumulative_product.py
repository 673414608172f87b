"""Derivatives of the running product without a division, so that any number of zeros is right at any order.

With y_i = x_0 … x_i: the cotangent is dx_j = P_j R_j, P_j = x_0 … x_(j-1), R_j = g_j + x_(j+1) R_(j+1); the tangent follows
dy_i = x_i dy_(i-1) + t_i y_(i-1). Along an axis of static size both are a scan. Along a dynamic one, whose length a scan cannot
have, they are sums over the table C[j, i] = x_(j+1) … x_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.sizes import UNKNOWN
from gradopt.ir.types import I64, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import Context
from gradopt.lowering.autodiff.helpers import full_like, iota_like, reduce_sum, scalar, zeros_like
from gradopt.lowering.autodiff.loops import build_scan

__all__ = ["cumulative_product_cotangent", "cumulative_product_tangent"]


def cumulative_product_cotangent(context: Context, op: Any, g: Value) -> Value:
    """The cotangent of x in y = cumulative(x){kind = "prod"}."""
    b, x, axis = context.builder, op.operands[0], op.axis
    if tensor_type(x).dims[axis] == 0:
        return zeros_like(b, x)
    if op.reverse:
        x, g = b.prim.flip(x, axes=[axis]), b.prim.flip(g, axes=[axis])
    if op.exclusive:
        g = shift(b, g, axis, -1)
    prefix = b.prim.cumulative(x, kind="prod", axis=axis, exclusive=True)
    result = context.scale(suffix_recurrence(context, x, g, axis), prefix)
    return b.prim.flip(result, axes=[axis]) if op.reverse else result


def cumulative_product_tangent(context: Context, op: Any, t: Value) -> Value:
    """The tangent of y = cumulative(x){kind = "prod"}."""
    b, x, axis = context.builder, op.operands[0], op.axis
    if tensor_type(x).dims[axis] == 0:
        return t
    if op.reverse:
        x, t = b.prim.flip(x, axes=[axis]), b.prim.flip(t, axes=[axis])
    result = prefix_recurrence(context, x, t, axis)
    if op.exclusive:
        result = shift(b, result, axis, 1)
    return b.prim.flip(result, axes=[axis]) if op.reverse else result


def shift(b: Builder, x: Value, axis: int, distance: int) -> Value:
    """`x` moved along an axis, zeros behind it."""
    rank = tensor_type(x).rank
    low = [distance if position == axis else 0 for position in range(rank)]
    return b.prim.pad(x, scalar(b, 0, tensor_type(x).element), low=low, high=[-value for value in low], interior=[0] * rank)


def to_front(b: Builder, x: Value, axis: int) -> Value:
    """`x` with an axis moved to the front."""
    rank = tensor_type(x).rank
    return x if axis == 0 else b.prim.permute(x, axes=[axis, *(a for a in range(rank) if a != axis)])


def from_front(b: Builder, x: Value, axis: int) -> Value:
    """The inverse of `to_front`."""
    rank = tensor_type(x).rank
    return x if axis == 0 else b.prim.permute(x, axes=[*range(1, axis + 1), 0, *range(axis + 1, rank)])


def row_of(b: Builder, x: Value, value: float) -> Value:
    """One row's shape of `x` (first axis taken away) full of `value`."""
    from gradopt.lowering.autodiff.helpers import full_of, size_operands

    type = tensor_type(x)
    return full_of(b, value, type.dims[1:], size_operands(b, x, range(1, type.rank)), type.element)


def suffix_recurrence(context: Context, x: Value, g: Value, axis: int) -> Value:
    """R_j = g_j + x_(j+1) R_(j+1) along an axis."""
    b = context.builder
    length = tensor_type(x).dims[axis]
    if not isinstance(length, int):
        spread, later = product_table(b, x, axis)
        terms = context.scale(along(b, g, axis, axis), spread)
        return reduce_sum(b, b.prim.select(later, terms, zeros_like(b, spread)), [axis + 1])
    rows = [to_front(b, x, axis), to_front(b, g, axis)]

    def body(inner: Builder, carry: Sequence[Value], _: Sequence[Value], row: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        r = inner.prim.add(row[1], carry[0])
        scale = inner.prim.mul_zero if context.masked else inner.prim.mul
        return [scale(r, row[0])], [r]

    scan = build_scan(b, length, [row_of(b, rows[0], 0)], [], rows, body, reverse=True)
    return from_front(b, scan.results[1], axis)


def prefix_recurrence(context: Context, x: Value, t: Value, axis: int) -> Value:
    """dy_i = x_i dy_(i-1) + t_i y_(i-1) along an axis."""
    b = context.builder
    length = tensor_type(x).dims[axis]
    if not isinstance(length, int):
        spread, later = product_table(b, x, axis)
        start = context.scale(t, b.prim.cumulative(x, kind="prod", axis=axis, exclusive=True))
        terms = context.scale(along(b, start, axis, axis + 1), spread)
        return reduce_sum(b, b.prim.select(later, terms, zeros_like(b, spread)), [axis])
    rows = [to_front(b, x, axis), to_front(b, t, axis)]

    def body(inner: Builder, carry: Sequence[Value], _: Sequence[Value], row: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        scale = inner.prim.mul_zero if context.masked else inner.prim.mul
        tangent = inner.prim.add(scale(carry[1], row[0]), scale(row[1], carry[0]))
        return [inner.prim.mul(carry[0], row[0]), tangent], [tangent]

    scan = build_scan(b, length, [row_of(b, rows[0], 1), row_of(b, rows[0], 0)], [], rows, body)
    return from_front(b, scan.results[2], axis)


def along(b: Builder, x: Value, axis: int, new_axis: int) -> Value:
    """`x` repeated along a new axis as long as `axis`: the table's rows (new_axis = axis) or columns (axis + 1)."""
    type = tensor_type(x)
    dims = [*type.dims[:axis], type.dims[axis], *type.dims[axis:]]
    places = [*range(axis), axis, *range(axis, type.rank)]
    sizes = [b.prim.dim(x, axis=place) for size, place in zip(dims, places) if size is UNKNOWN]
    return b.create("prim.expand", [x, *sizes], [tensor(dims, type.element)], axes=[new_axis]).results[0]


def product_table(b: Builder, x: Value, axis: int) -> tuple[Value, Value]:
    """(C, later) over two axes j, i in the place of `axis`: C[j, i] = x_(j+1) … x_i, and where i >= j."""
    spread = along(b, x, axis, axis)
    j, i = iota_like(b, spread, axis, I64), iota_like(b, spread, axis + 1, I64)
    factors = b.prim.select(b.prim.cmp(i, j, predicate="gt"), spread, full_like(b, spread, 1))
    return b.prim.cumulative(factors, kind="prod", axis=axis + 1), b.prim.cmp(i, j, predicate="ge")


