"""Decompositions of the `hl` ops along one axis."""

from __future__ import annotations

import math
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.prim.shape import END
from gradopt.ir.builder import Builder
from gradopt.ir.values import Value
from gradopt.lowering.building import cast_to, expand_axes, iota_like, reduce_sum, reshape_to, scalar
from gradopt.lowering.decompose.extents import Extent, expand, extents_of
from gradopt.lowering.decompose.neural import compare, select_constant, wide, zero_where
from gradopt.lowering.decompose.registry import decomposition
from gradopt.lowering.decompose.rules.tensor_elementwise import log_add


def flattened(b: Builder, x: Value) -> Value:
    """All elements in a row."""
    count = Extent(b, 1)
    for extent in extents_of(b, x):
        count = count * extent
    return reshape_to(b, x, [count])


@decomposition("hl.cumsum", "hl.cumprod")
def running(b: Builder, op: Any) -> Value:
    """prim.cumulative."""
    x = flattened(b, op.x) if op.axis is None else op.x
    axis = 0 if op.axis is None else op.axis % tensor_type(x).rank
    kind = op.name.removeprefix("hl.cum")
    return b.prim.cumulative(x, kind=kind, axis=axis, exclusive=op.exclusive, reverse=op.reverse)


@decomposition("hl.cummax", "hl.cummin")
def running_extreme(b: Builder, op: Any) -> Value:
    """prim.cumulative."""
    return b.prim.cumulative(op.x, kind=op.name.removeprefix("hl.cum"), axis=op.normal_axis)


def shifted(b: Builder, x: Value, axis: int) -> Value:
    """x minus its maximum along an axis where that is finite; the maximum counts as a constant."""
    largest = b.prim.reduce(x, kind="max", axes=[axis])
    finite = zero_where(b, compare(b, b.prim.abs(largest), "lt", math.inf), largest)
    return b.prim.sub(x, expand_axes(b, b.prim.stop_gradient(finite), x, [axis]))


@decomposition("hl.softmax")
def softmax(b: Builder, op: Any) -> Value:
    """e**(x - max) over its sum."""
    axis = op.normal_axis
    exponentials = b.prim.exp(shifted(b, wide(b, op.x), axis))
    total = expand_axes(b, reduce_sum(b, exponentials, [axis]), op.x, [axis])
    return cast_to(b, b.prim.div(exponentials, total), tensor_type(op.x).element)


@decomposition("hl.log_softmax")
def log_softmax(b: Builder, op: Any) -> Value:
    """(x - max) - log(sum(e**(x - max)))."""
    axis = op.normal_axis
    offset = shifted(b, wide(b, op.x), axis)
    total = b.prim.log(reduce_sum(b, b.prim.exp(offset), [axis]))
    return cast_to(b, b.prim.sub(offset, expand_axes(b, total, op.x, [axis])), tensor_type(op.x).element)


@decomposition("hl.sort")
def sort(b: Builder, op: Any) -> Value:
    """prim.sort."""
    return b.prim.sort(op.x, axis=op.normal_axis, descending=op.descending)


@decomposition("hl.argsort")
def argsort(b: Builder, op: Any) -> Value:
    """The counter along the axis, sorted with the key."""
    counter = iota_like(b, op.x, op.normal_axis)
    return b.prim.sort(op.x, counter, axis=op.normal_axis, descending=op.descending)[1]


@decomposition("hl.topk")
def topk(b: Builder, op: Any) -> list[Value]:
    """The first k of the sorted elements and of the counter sorted with them."""
    rank = tensor_type(op.x).rank
    axis = op.axis % rank
    ordered = b.prim.sort(op.x, iota_like(b, op.x, axis), axis=axis, descending=True)
    end = [op.k if place == axis else END for place in range(rank)]
    return [b.prim.slice(value, begin=[0] * rank, end=end, strides=[1] * rank) for value in ordered]


@decomposition("hl.logcumsumexp")
def logcumsumexp(b: Builder, op: Any) -> Value:
    """By doubling: after step d each element holds the 2d before it. Along a dynamic axis all pairs are compared instead
    (n**2 memory)."""
    x, axis = wide(b, op.x), op.normal_axis
    size = tensor_type(x).dims[axis]
    found = doubled(b, x, axis, size) if isinstance(size, int) else all_pairs(b, x, axis)
    return cast_to(b, found, tensor_type(op.x).element)


def doubled(b: Builder, x: Value, axis: int, size: int) -> Value:
    """y[i] = log_add(y[i], y[i - d]) for d = 1, 2, 4 …"""
    rank, distance = tensor_type(x).rank, 1
    lowest = scalar(b, -math.inf, tensor_type(x).element)
    while distance < size:
        def at(value: int, distance: int = distance) -> list[int]:
            return [value * distance if place == axis else 0 for place in range(rank)]
        earlier = b.prim.pad(x, lowest, low=at(1), high=at(-1), interior=[0] * rank)
        x = log_add(b, x, earlier)
        distance *= 2
    return select_constant(b, compare(b, x, "eq", -math.inf), -math.inf, x)  # with derivative 0


def all_pairs(b: Builder, x: Value, axis: int) -> Value:
    """log(sum over j <= i of e**x[j]) with the running maximum taken off."""
    extents = extents_of(b, x)
    square = [*extents[:axis + 1], extents[axis], *extents[axis + 1:]]  # axis: i, axis + 1: j
    top = b.prim.cumulative(x, kind="max", axis=axis)
    finite = b.prim.stop_gradient(zero_where(b, compare(b, b.prim.abs(top), "lt", math.inf), top))
    rows = expand(b, x, square, [axis])
    kept = b.prim.cmp(iota_like(b, rows, axis + 1), iota_like(b, rows, axis), predicate="le")
    offset = b.prim.sub(rows, expand(b, finite, square, [axis + 1]))
    total = reduce_sum(b, zero_where(b, kept, b.prim.exp(select_constant(b, b.prim.not_(kept), 0, offset))), [axis + 1])
    empty = compare(b, total, "eq", 0)
    return select_constant(b, empty, -math.inf, b.prim.add(b.prim.log(select_constant(b, empty, 1, total)), finite))
