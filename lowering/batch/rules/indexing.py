"""Batching of gather and scatter: with indices of its own each example gets one more coordinate, its number in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.types import I64, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import size_operands
from gradopt.lowering.batch.engine import BatchContext
from gradopt.lowering.batch.registry import Batched, batch_rule


def with_example(context: BatchContext, indices: Value, vectors: bool) -> Value:
    """Index vectors (example, index…): from plain indices [batch, …], or from vectors [batch, …, k]."""
    b, type = context.builder, tensor_type(indices)
    dims = type.dims[:-1] if vectors else type.dims
    column = tensor([*dims, 1], type.element)
    sizes = size_operands(b, indices, range(len(dims)))
    if not vectors:
        indices = b.create("prim.expand", [indices, *sizes], [column], axes=[len(dims)]).results[0]
    wide = indices if type.element is I64 else b.prim.cast(indices, result_types=[tensor_type(indices).with_element(I64)])
    number = b.create("prim.iota", sizes, [column.with_element(I64)], axis=0).results[0]
    return b.prim.concat(number, wide, axis=len(dims))


def permute(context: BatchContext, x: Value, axes: Sequence[int]) -> Value:
    """A permutation, if it is one."""
    return x if list(axes) == list(range(len(axes))) else context.builder.prim.permute(x, axes=axes)


def inverse(axes: Sequence[int]) -> list[int]:
    """The inverse permutation."""
    return [list(axes).index(axis) for axis in range(len(axes))]


@batch_rule("prim.gather")
def gather(context: BatchContext, op: Any, x: Batched, indices: Batched) -> Value:
    """x alone: one axis further back; indices alone: they are just more indices; both: gather_nd."""
    b = context.builder
    if not indices.batched:
        return b.prim.gather(x.value, indices.value, axis=op.axis + 1, mode=op.mode)
    if not x.batched:
        return context.front(b.prim.gather(x.value, indices.value, axis=op.axis, mode=op.mode), op.axis)
    rank, count = tensor_type(x.value).rank, tensor_type(indices.value).rank - 1
    axis = op.axis + 1
    moved = permute(context, x.value, [0, axis, *(a for a in range(1, rank) if a != axis)])
    read = b.prim.gather_nd(moved, with_example(context, indices.value, False), mode=op.mode)
    # now: batch, indices, then the axes before and behind the gathered one
    return permute(context, read, update_order(op.axis, count, tensor_type(read).rank))


def update_order(axis: int, count: int, rank: int) -> list[int]:
    """The permutation that puts `count` index axes, which stand behind the batch, behind the `axis` axes that come first."""
    before = [1 + count + i for i in range(axis)]
    behind = [1 + count + axis + i for i in range(rank - 1 - count - axis)]
    return [0, *before, *range(1, 1 + count), *behind]


@batch_rule("prim.scatter")
def scatter(context: BatchContext, op: Any, x: Batched, indices: Batched, update: Batched) -> Value:
    """Indices alike: one axis further back; else scatter_nd."""
    b = context.builder
    target, part = context.spread(x), context.spread(update)
    if not indices.batched:
        return b.prim.scatter(target, indices.value, part, axis=op.axis + 1, kind=op.kind, mode=op.mode)
    rank, count = tensor_type(target).rank, tensor_type(indices.value).rank - 1
    axis = op.axis + 1
    order = [0, axis, *(a for a in range(1, rank) if a != axis)]
    moved = permute(context, target, order)
    rows = permute(context, part, inverse(update_order(op.axis, count, tensor_type(part).rank)))
    written = b.prim.scatter_nd(moved, with_example(context, indices.value, False), rows, kind=op.kind, mode=op.mode)
    return permute(context, written, inverse(order))


@batch_rule("prim.gather_nd")
def gather_nd(context: BatchContext, op: Any, x: Batched, indices: Batched) -> Value:
    """Indices alone: just more indices; with x: one more coordinate; x alone: the batch behind the indexed axes."""
    b = context.builder
    if indices.batched and not x.batched:
        return b.prim.gather_nd(x.value, indices.value, mode=op.mode)
    if indices.batched:
        return b.prim.gather_nd(x.value, with_example(context, indices.value, True), mode=op.mode)
    depth = tensor_type(indices.value).dims[-1]
    assert isinstance(depth, int)
    read = b.prim.gather_nd(context.back(x.value, depth), indices.value, mode=op.mode)
    return context.front(read, tensor_type(indices.value).rank - 1)


@batch_rule("prim.scatter_nd")
def scatter_nd(context: BatchContext, op: Any, x: Batched, indices: Batched, update: Batched) -> Value:
    """Indices alike: the batch behind the indexed axes; else one more coordinate."""
    b = context.builder
    target, part = context.spread(x), context.spread(update)
    if indices.batched:
        return b.prim.scatter_nd(target, with_example(context, indices.value, True), part, kind=op.kind, mode=op.mode)
    depth, count = tensor_type(indices.value).dims[-1], tensor_type(indices.value).rank - 1
    assert isinstance(depth, int)
    written = b.prim.scatter_nd(context.back(target, depth), indices.value, context.back(part, count), kind=op.kind, mode=op.mode)
    return context.front(written, depth)


