"""Decompositions of the `hl` ops that change a shape or put tensors together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.prim.shape import END
from gradopt.ir.builder import Builder
from gradopt.ir.types import I64, tensor
from gradopt.ir.values import Value
from gradopt.lowering.building import broadcast_to, reshape_to, result_extents, scalar, size_value, unbroadcast
from gradopt.lowering.decompose.extents import Extent, expand, extents_of, iota, permute
from gradopt.lowering.decompose.registry import decomposition


def cut(b: Builder, x: Value, axis: int, begin: int, end: int) -> Value:
    """Elements begin … end of one axis (bounds as in prim.slice)."""
    rank = tensor_type(x).rank
    return b.prim.slice(x, begin=[begin if place == axis else 0 for place in range(rank)],
                        end=[end if place == axis else END for place in range(rank)], strides=[1] * rank)


def join(b: Builder, parts: Sequence[Value], axis: int) -> Value:
    """A concatenation; the part itself where there is one."""
    return parts[0] if len(parts) == 1 else b.prim.concat(*parts, axis=axis)


@decomposition("hl.reshape")
def reshape(b: Builder, op: Any) -> Value:
    """prim.reshape."""
    return b.create("prim.reshape", op.operands, [op.results[0].type]).results[0]


@decomposition("hl.flatten")
def flatten(b: Builder, op: Any) -> Value:
    """prim.reshape to one dimension."""
    count = Extent(b, 1)
    for extent in extents_of(b, op.x):
        count = count * extent
    return reshape_to(b, op.x, [count])


@decomposition("hl.expand_dims")
def expand_dims(b: Builder, op: Any) -> Value:
    """prim.reshape."""
    extents = extents_of(b, op.x)
    for axis in op.normal_axes:
        extents.insert(axis, Extent(b, 1))
    return reshape_to(b, op.x, extents)


@decomposition("hl.squeeze")
def squeeze(b: Builder, op: Any) -> Value:
    """prim.reshape; what has a dynamic size is checked to be 1."""
    type, gone = tensor_type(op.x), op.normal_axes
    x = b.prim.shape_cast(op.x, result_types=[tensor([1 if axis in gone else size for axis, size in enumerate(type.dims)],
                                                     type.element)])
    return reshape_to(b, x, [extent for axis, extent in enumerate(extents_of(b, x)) if axis not in gone])


@decomposition("hl.permute_dims")
def permute_dims(b: Builder, op: Any) -> Value:
    """prim.permute."""
    return permute(b, op.x, op.normal_axes)


@decomposition("hl.broadcast_to")
def broadcast(b: Builder, op: Any) -> Value:
    """prim.expand."""
    return broadcast_to(b, op.x, result_extents(b, op))


@decomposition("hl.collapse_sum_to")
def collapse_sum_to(b: Builder, op: Any) -> Value:
    """prim.reduce."""
    return unbroadcast(b, op.x, result_extents(b, op))


@decomposition("hl.concat")
def concat(b: Builder, op: Any) -> Value:
    """prim.concat."""
    return join(b, op.operands, op.axis % tensor_type(op.results[0]).rank)


@decomposition("hl.stack")
def stack(b: Builder, op: Any) -> Value:
    """prim.concat of reshaped operands."""
    axis = op.axis % tensor_type(op.results[0]).rank
    parts = []
    for value in op.operands:
        extents = extents_of(b, value)
        extents.insert(axis, Extent(b, 1))
        parts.append(reshape_to(b, value, extents))
    return join(b, parts, axis)


@decomposition("hl.split")
def split(b: Builder, op: Any) -> list[Value]:
    """Slices; equal parts of a dynamic dimension are gathered, after a check that it divides."""
    type = tensor_type(op.x)
    axis, sizes = op.axis % type.rank, op.part_sizes()
    if sizes and not isinstance(type.dims[axis], int):
        return split_dynamic(b, op, axis, sizes[0])
    parts, start = [], 0
    for size in sizes:
        parts.append(cut(b, op.x, axis, start, start + size))
        start += size
    return parts


def split_dynamic(b: Builder, op: Any, axis: int, part: Any) -> list[Value]:
    """The parts of a dimension whose size only run time knows."""
    whole = size_value(b, op.x, axis)
    expected = scalar(b, sum(op.sizes) if op.sizes is not None else op.sections, I64)
    measured = whole if op.sizes is not None else b.prim.rem(whole, expected)
    wanted = expected if op.sizes is not None else scalar(b, 0, I64)
    b.create("prim.check", [b.prim.cmp(measured, wanted, predicate="eq"), whole],
             message=f"'hl.split' op: dimension {axis} has not the size that its parts need")
    if op.sizes is not None:
        starts = [sum(op.sizes[:index]) for index in range(len(op.sizes))]
        return [cut(b, op.x, axis, start, start + size) for start, size in zip(starts, op.sizes)]
    length = Extent(b, part, lambda: b.prim.div(whole, expected))
    rows = []
    for index in range(op.sections):
        counter = iota(b, [length], 0)
        start = b.prim.mul(length.value, scalar(b, index, I64))
        rows.append(b.prim.gather(op.x, b.prim.add(counter, expand(b, start, [length], [0])), axis=axis, mode="fast"))
    return rows


@decomposition("hl.flip")
def flip(b: Builder, op: Any) -> Value:
    """prim.flip."""
    axes = op.normal_axes
    return b.prim.flip(op.x, axes=sorted(axes)) if axes else op.x


@decomposition("hl.roll")
def roll(b: Builder, op: Any) -> Value:
    """Two slices in the other order; along a dynamic axis a gather at the wrapped indices."""
    x, rank = op.x, tensor_type(op.x).rank
    for axis, shift in zip(op.axes, op.shifts):
        x = roll_one(b, x, axis % rank, shift)
    return x


def roll_one(b: Builder, x: Value, axis: int, shift: int) -> Value:
    """x shifted along one axis."""
    size = tensor_type(x).dims[axis]
    if isinstance(size, int):
        point = -shift % size if size else 0
        return join(b, [cut(b, x, axis, point, size), cut(b, x, axis, 0, point)], axis) if point else x
    extent = extents_of(b, x)[axis]
    counter = iota(b, [extent], 0)
    moved = b.prim.sub(counter, expand(b, scalar(b, shift, I64), [extent], [0]))
    count = expand(b, size_value(b, x, axis), [extent], [0])
    rest = b.prim.rem(moved, count)  # in (-size, size); a negative index counts from the end
    return b.prim.gather(x, rest, axis=axis, mode="fast")


@decomposition("hl.tile")
def tile(b: Builder, op: Any) -> Value:
    """[d0, d1, …] as [1, d0, 1, d1, …], expanded to [r0, d0, r1, d1, …], as [r0 d0, r1 d1, …]."""
    _, repeats = op.spread()
    own = extents_of(b, op.x)
    own = [Extent(b, 1)] * (len(repeats) - len(own)) + own
    narrow = [each for extent in own for each in (Extent(b, 1), extent)]
    wide = [each for extent, count in zip(own, repeats) for each in (Extent(b, count), extent)]
    spread = [2 * axis for axis, count in enumerate(repeats) if count != 1]
    x = expand(b, reshape_to(b, op.x, narrow), wide, spread)
    return reshape_to(b, x, [extent * count for extent, count in zip(own, repeats)])
