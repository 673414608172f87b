"""Decompositions of the `hl` ops that cut out, replace or surround blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.slices import slice_range
from gradopt.dialects.prim.shape import END
from gradopt.ir.builder import Builder
from gradopt.ir.types import I1, I64, tensor
from gradopt.ir.values import Value
from gradopt.lowering.building import full_like, match_type, scalar, size_value
from gradopt.lowering.decompose.extents import Extent, expand, extents_of, iota
from gradopt.lowering.decompose.registry import decomposition
from gradopt.lowering.decompose.rules.tensor_shape import cut, join


def ranges_of(op: Any) -> list[tuple[int, int, int]]:
    """(low, high, stride) of each axis, in the terms of prim.slice; the stride keeps its sign."""
    return [(*slice_range(*each), each[3]) for each in zip(tensor_type(op.x).dims, op.begin, op.end, op.steps)]


@decomposition("hl.strided_slice")
def strided_slice(b: Builder, op: Any) -> Value:
    """prim.slice; along an axis with a negative stride the range, backwards, with the stride's size."""
    ranges, x, rank = ranges_of(op), op.x, tensor_type(op.x).rank
    backwards = [axis for axis, (_, _, stride) in enumerate(ranges) if stride < 0]
    x = b.prim.slice(x, begin=[low for low, _, _ in ranges], end=[high for _, high, _ in ranges],
                     strides=[max(stride, 1) for _, _, stride in ranges])
    if not backwards:
        return x
    x = b.prim.flip(x, axes=backwards)
    if all(ranges[axis][2] == -1 for axis in backwards):
        return x
    return b.prim.slice(x, begin=[0] * rank, end=[END] * rank,
                        strides=[max(-stride, 1) for _, _, stride in ranges])


@decomposition("hl.set_slice")
def set_slice(b: Builder, op: Any) -> Value:
    """One block is a dynamic_update_slice; else the update spread over x's shape is selected where it lies."""
    return replace_slice(b, op.x, op.update, ranges_of(op))


def replace_slice(b: Builder, x: Value, update: Value, ranges: Sequence[tuple[int, int, int]]) -> Value:
    """x with the elements of ranges replaced."""
    dims = tensor_type(x).dims
    backwards = [axis for axis, (_, _, stride) in enumerate(ranges) if stride < 0]
    for axis, (low, high, stride) in enumerate(ranges):
        if not isinstance(dims[axis], int) and not (low == 0 and high == END and abs(stride) == 1):
            return replace_rows(b, x, update, ranges, axis)
    if backwards:
        update = b.prim.flip(update, axes=backwards)
    if 0 in tensor_type(update).dims:
        return x
    if all(abs(stride) == 1 for _, _, stride in ranges):
        return b.prim.dynamic_update_slice(x, update, *[scalar(b, low, I64) for low, _, _ in ranges])
    before: list[int] = []
    behind: list[int] = []
    interior: list[int] = []
    for axis, (start, end, stride) in enumerate(ranges):
        size, count = dims[axis], tensor_type(update).dims[axis]
        step = abs(stride)
        interior.append(step - 1)
        if isinstance(size, int) and isinstance(count, int):
            first = start if stride > 0 else end - 1 - (count - 1) * step
            before.append(first)
            behind.append(size - first - (count - 1) * step - 1)
        else:
            before.append(0)
            behind.append(0)
    where = {"low": before, "high": behind, "interior": interior}
    zero = scalar(b, 0, tensor_type(x).element)
    inside = b.prim.pad(full_like(b, update, 1, I1), scalar(b, 0, I1), **where)
    return b.prim.select(inside, b.prim.pad(update, zero, **where), x)


def replace_rows(b: Builder, x: Value, update: Value, ranges: Sequence[tuple[int, int, int]], axis: int) -> Value:
    """As replace_slice, with the rows along a dynamic axis taken out, changed along the other axes and put back."""
    low, high, stride = ranges[axis]
    extent = extents_of(b, update)[axis]
    counter = iota(b, [extent], 0)
    first = low if stride > 0 else -1 if high == END else high - 1
    start = scalar(b, first, I64)
    if first < 0:
        start = b.prim.add(start, size_value(b, x, axis))
    index = b.prim.add(b.prim.mul(counter, full_like(b, counter, stride)), expand(b, start, [extent], [0]))
    rows = b.prim.gather(x, index, axis=axis, mode="fast")
    rest = [(0, END, 1) if place == axis else each for place, each in enumerate(ranges)]
    return b.prim.scatter(x, index, replace_slice(b, rows, update, rest), axis=axis, kind="set", mode="fast")


@decomposition("hl.dynamic_slice")
def dynamic_slice(b: Builder, op: Any) -> Value:
    """prim.dynamic_slice."""
    return b.prim.dynamic_slice(*op.operands, sizes=op.sizes)


@decomposition("hl.dynamic_update_slice")
def dynamic_update_slice(b: Builder, op: Any) -> Value:
    """prim.dynamic_update_slice."""
    return b.prim.dynamic_update_slice(*op.operands)


@decomposition("hl.pad")
def pad(b: Builder, op: Any) -> Value:
    """prim.pad; the other modes put the edge or the reversed neighbours in front and behind, one axis after the other."""
    x = op.x
    if op.mode == "constant":
        fill = scalar(b, op.value if tensor_type(x).element.is_float else int(op.value), tensor_type(x).element)
        return b.prim.pad(x, fill, low=op.low, high=op.high, interior=[0] * len(op.low))
    for axis, (low, high) in enumerate(zip(op.low, op.high)):
        parts = [x]
        if low:
            parts.insert(0, border(b, x, axis, low, 0, op.mode))
        if high:
            parts.append(border(b, x, axis, high, 1, op.mode))
        x = join(b, parts, axis)
    return x


def border(b: Builder, x: Value, axis: int, count: int, side: int, mode: str) -> Value:
    """The `count` elements that stand before (side 0) or behind (side 1) an axis."""
    size = tensor_type(x).dims[axis]
    end = size if isinstance(size, int) else 0  # along a dynamic axis a bound that counts from the end is negative
    if mode == "reflect":
        low, high = (1, 1 + count) if side == 0 else (end - 1 - count, end - 1)
        return b.prim.flip(cut(b, x, axis, low, high), axes=[axis])
    edge = cut(b, x, axis, *((0, 1) if side == 0 else (end - 1, end if end else END)))
    type = tensor_type(x)
    edge = match_type(b, edge, tensor([1 if place == axis else known for place, known in enumerate(type.dims)], type.element))
    extents = [Extent(b, count) if place == axis else extent for place, extent in enumerate(extents_of(b, x))]
    return expand(b, edge, extents, [axis] if count != 1 else [])
