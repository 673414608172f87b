"""Decompositions of `hl` indexing: everything becomes `prim.gather`, `prim.scatter` and their forms over index vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import check_axis, tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.sizes import multiply
from gradopt.ir.types import I64, UI64
from gradopt.ir.values import Value
from gradopt.lowering.building import (
    Extent,
    broadcast_all,
    broadcast_to,
    cast_to,
    expand_like,
    extents_of,
    full_like,
    iota_like,
    reshape_to,
    size_value,
)
from gradopt.lowering.decompose.registry import decomposition


def flattened(b: Builder, x: Value) -> Value:
    """All elements along one axis."""
    extents = extents_of(b, x)
    total = Extent(b, 1)
    for extent in extents:
        total = total.combine(extent, multiply, "mul")
    return reshape_to(b, x, [total])


def with_axis(b: Builder, x: Value, axis: int) -> Value:
    """A new axis of size 1."""
    extents = extents_of(b, x)
    return reshape_to(b, x, [*extents[:axis], Extent(b, 1), *extents[axis:]])


def signed(b: Builder, indices: Value) -> Value:
    """Indices as i64; what only ui64 holds becomes the largest i64, which is outside of every tensor too."""
    if tensor_type(indices).element is UI64:
        indices = b.prim.min(indices, full_like(b, indices, (1 << 63) - 1))
    return cast_to(b, indices, I64)


def index_vectors(b: Builder, parts: Sequence[Value]) -> Value:
    """Index tensors of one shape, stacked along a new last axis."""
    rank = tensor_type(parts[0]).rank
    columns = [with_axis(b, signed(b, part), rank) for part in parts]
    return columns[0] if len(columns) == 1 else b.prim.concat(*columns, axis=rank)


def grid_vectors(b: Builder, indices: Value, axis: int) -> Value:
    """The index vectors of `take_along_axis`: each element's own position, with `indices` in place of the axis."""
    rank = tensor_type(indices).rank
    return index_vectors(b, [indices if position == axis else iota_like(b, indices, position, I64) for position in range(rank)])


@decomposition("hl.take")
def take(b: Builder, op: Any) -> Value:
    """prim.gather; of the flattened operand where there is no axis."""
    if op.axis is None:
        return b.prim.gather(flattened(b, op.x), op.indices, axis=0, mode=op.mode)
    axis = check_axis(op.axis, tensor_type(op.x).rank)
    return b.prim.gather(op.x, op.indices, axis=axis, mode=op.mode)


@decomposition("hl.take_along_axis")
def take_along_axis(b: Builder, op: Any) -> Value:
    """gather_nd at the element's own position, the index in place of the axis."""
    axis = check_axis(op.axis, tensor_type(op.x).rank)
    return b.prim.gather_nd(op.x, grid_vectors(b, op.indices, axis), mode=op.mode)


@decomposition("hl.put_along_axis")
def put_along_axis(b: Builder, op: Any) -> Value:
    """scatter_nd at the same vectors."""
    axis = check_axis(op.axis, tensor_type(op.x).rank)
    return b.prim.scatter_nd(op.x, grid_vectors(b, op.indices, axis), op.update, kind=op.kind, mode=op.mode)


@decomposition("hl.indexing_one_hot")
def indexing_one_hot(b: Builder, op: Any) -> Value:
    """take_along_axis with the axis put back."""
    axis = check_axis(op.axis, tensor_type(op.x).rank)
    return b.prim.gather_nd(op.x, grid_vectors(b, with_axis(b, op.index, axis), axis))


@decomposition("hl.set_one_hot")
def set_one_hot(b: Builder, op: Any) -> Value:
    """put_along_axis with the axis put back."""
    axis = check_axis(op.axis, tensor_type(op.x).rank)
    return b.prim.scatter_nd(op.x, grid_vectors(b, with_axis(b, op.index, axis), axis), op.update)


def multi_order(op: Any) -> tuple[list[int], list[int], int]:
    """(indexed axes, the other axes, how many of the others stand before the first indexed one)."""
    type = tensor_type(op.x)
    axes = [check_axis(axis, type.rank) for axis in op.axes]
    rest = [axis for axis in range(type.rank) if axis not in axes]
    return axes, rest, sum(1 for axis in rest if axis < axes[0])


@decomposition("hl.take_multi")
def take_multi(b: Builder, op: Any) -> Value:
    """The indexed axes to the front, gather_nd, and the index axes to their place."""
    axes, rest, place = multi_order(op)
    indices = broadcast_all(b, *op.indices)
    count = tensor_type(indices[0]).rank
    moved = permuted(b, op.x, axes + rest)
    taken = b.prim.gather_nd(moved, index_vectors(b, indices), mode=op.mode)
    total = count + len(rest)
    return permuted(b, taken, [*range(count, count + place), *range(count), *range(count + place, total)])


@decomposition("hl.set_multi", "hl.add_multi")
def set_multi(b: Builder, op: Any) -> Value:
    """The adjoint's form: scatter_nd on the moved operand, moved back."""
    axes, rest, place = multi_order(op)
    indices = broadcast_all(b, *op.indices)
    count = tensor_type(indices[0]).rank
    total = count + len(rest)
    update = permuted(b, op.update, [*range(place, place + count), *range(place), *range(place + count, total)])
    written = b.prim.scatter_nd(permuted(b, op.x, axes + rest), index_vectors(b, indices), update, kind=op.kind, mode=op.mode)
    order = axes + rest
    return permuted(b, written, [order.index(axis) for axis in range(len(order))])


def permuted(b: Builder, x: Value, order: list[int]) -> Value:
    """prim.permute, or `x` itself."""
    return x if order == sorted(order) else b.prim.permute(x, axes=order)


@decomposition("hl.gather_nd")
def gather_nd(b: Builder, op: Any) -> Value:
    """prim.gather_nd."""
    return b.prim.gather_nd(op.x, op.indices, mode=op.mode)


@decomposition("hl.scatter_nd")
def scatter_nd(b: Builder, op: Any) -> Value:
    """prim.scatter_nd."""
    return b.prim.scatter_nd(op.x, op.indices, op.update, kind=op.kind, mode=op.mode)


@decomposition("hl.embedding")
def embedding(b: Builder, op: Any) -> Value:
    """gather; rows of the padding index are cut off from the derivative."""
    rows = b.prim.gather(op.table, op.indices, axis=0)
    if op.padding_idx is None or not tensor_type(op.table).element.is_float:
        return rows
    indices = signed(b, op.indices)
    count = size_value(b, op.table, 0)
    extent = expand_like(b, count, indices)
    zero = full_like(b, indices, 0)
    resolved = b.prim.select(b.prim.cmp(indices, zero, predicate="lt"), b.prim.add(indices, extent), indices)
    resolved = b.prim.min(b.prim.max(resolved, zero), b.prim.sub(extent, full_like(b, indices, 1)))
    padding = full_like(b, indices, op.padding_idx)
    if op.padding_idx < 0:
        padding = b.prim.add(padding, extent)
    is_padding = b.prim.cmp(resolved, padding, predicate="eq")
    result_type = tensor_type(rows)
    count_index = tensor_type(indices).rank
    mask = is_padding
    for _ in range(result_type.rank - count_index):
        mask = with_axis(b, mask, tensor_type(mask).rank)
    mask = broadcast_to(b, mask, extents_of(b, rows))
    return b.prim.select(mask, b.prim.stop_gradient(rows), rows)
