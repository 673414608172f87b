"""Batching of products and convolutions."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.prim.linear import dot_axes
from gradopt.ir.sizes import UNKNOWN, Size, floordiv, multiply
from gradopt.ir.types import I64, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import scalar, size_operands, size_value
from gradopt.lowering.batch.engine import BatchContext
from gradopt.lowering.batch.registry import Batched, batch_rule
from gradopt.lowering.batch.rules.shape import merge


@batch_rule("prim.dot")
def dot(context: BatchContext, op: Any, lhs: Batched, rhs: Batched) -> Value:
    """Both: one more batch axis; one: its batch is a free axis, moved to the front."""
    b = context.builder
    lhs_batch, rhs_batch, lhs_contract, rhs_contract, lhs_free, _ = dot_axes(op, tensor_type(op.a), tensor_type(op.b))

    def moved(axes: list[int], batched: bool) -> list[int]:
        return [axis + batched for axis in axes]

    both = lhs.batched and rhs.batched
    result = b.prim.dot(lhs.value, rhs.value, lhs_batch=[*([0] if both else []), *moved(lhs_batch, lhs.batched)],
                        rhs_batch=[*([0] if both else []), *moved(rhs_batch, rhs.batched)],
                        lhs_contract=moved(lhs_contract, lhs.batched), rhs_contract=moved(rhs_contract, rhs.batched))
    if both:
        return result
    return context.front(result, len(lhs_batch) if lhs.batched else len(lhs_batch) + len(lhs_free))


@batch_rule("prim.conv")
def conv(context: BatchContext, op: Any, x: Batched, w: Batched) -> Value:
    """x: batch and N as one axis; w: batch and O as one axis, group by group; both: a group for each example."""
    b = context.builder
    if not w.batched:
        result = b.create("prim.conv", [merge(context, x.value), w.value], **op.properties).results[0]
        return unmerge(context, result, op.results[0].type.dims[0], x.value)
    groups = op.groups
    if not x.batched:
        weight = split_groups(context, w.value, groups)  # [groups * batch * O / groups, …]
        result = b.create("prim.conv", [x.value, weight], **op.properties).results[0]
        return join_groups(context, result, groups)
    count = context.static_size(op)
    image = merge_channels(context, x.value)
    properties = {name: value for name, value in op.properties.items() if name != "groups"}
    result = b.create("prim.conv", [image, merge(context, w.value)], **properties, groups=groups * count).results[0]
    return join_groups(context, result, 1)


def unmerge(context: BatchContext, x: Value, size: Size, source: Value) -> Value:
    """[batch * n, …] as [batch, n, …]; `source` has n along axis 1."""
    b, type = context.builder, tensor_type(x)
    sizes = list(context.size_operand())
    if size is UNKNOWN:
        sizes.append(size_value(b, source, 1))
    sizes += size_operands(b, x, range(1, type.rank))
    return b.prim.reshape(x, *sizes, result_types=[tensor([context.size, size, *type.dims[1:]], type.element)])


def merge_channels(context: BatchContext, x: Value) -> Value:
    """[batch, N, C, …] as [N, batch * C, …]."""
    b = context.builder
    rank = tensor_type(x).rank
    moved = b.prim.permute(x, axes=[1, 0, *range(2, rank)])
    dims = tensor_type(moved).dims
    target = tensor([dims[0], multiply(dims[1], dims[2]), *dims[3:]], tensor_type(x).element)
    product = [b.prim.mul(size_value(b, moved, 1), size_value(b, moved, 2))] if target.dims[1] is UNKNOWN else []
    sizes = [*size_operands(b, moved, [0]), *product, *size_operands(b, moved, range(3, rank))]
    return b.prim.reshape(moved, *sizes, result_types=[target])


def split_groups(context: BatchContext, w: Value, groups: int) -> Value:
    """[batch, O, …] as [O * batch, …], group by group."""
    if groups == 1:
        return merge(context, w)
    b = context.builder
    dims, rank, element = tensor_type(w).dims, tensor_type(w).rank, tensor_type(w).element
    per_group = floordiv(dims[1], groups)
    quotient = [b.prim.div(size_value(b, w, 1), scalar(b, groups, I64))] if per_group is UNKNOWN else []
    rest = size_operands(b, w, range(2, rank))
    parts = b.prim.reshape(w, *context.size_operand(), *quotient, *rest,
                           result_types=[tensor([dims[0], groups, per_group, *dims[2:]], element)])
    moved = b.prim.permute(parts, axes=[1, 0, 2, *range(3, rank + 1)])
    joined = multiply(dims[0], dims[1])
    whole = [b.prim.mul(size_value(b, w, 0), size_value(b, w, 1))] if joined is UNKNOWN else []
    return b.prim.reshape(moved, *whole, *rest, result_types=[tensor([joined, *dims[2:]], element)])


def join_groups(context: BatchContext, y: Value, groups: int) -> Value:
    """[N, groups * batch * O', …] as [batch, N, groups * O', …]."""
    b = context.builder
    count = context.size
    dims, rank, element = tensor_type(y).dims, tensor_type(y).rank, tensor_type(y).element
    inner = floordiv(floordiv(dims[1], count), groups) if count is not UNKNOWN and count != 0 else UNKNOWN
    if count == 0:
        inner = 0
    rest = size_operands(b, y, range(2, rank))
    first = size_operands(b, y, [0])
    part = []
    if inner is UNKNOWN:
        part = [b.prim.div(size_value(b, y, 1), b.prim.mul(size_value(b, context.witness, 0), scalar(b, groups, I64)))]
    split = b.prim.reshape(y, *first, *context.size_operand(), *part, *rest,
                           result_types=[tensor([dims[0], groups, count, inner, *dims[2:]], element)])
    moved = b.prim.permute(split, axes=[2, 0, 1, 3, *range(4, rank + 2)])
    whole = [b.prim.mul(part[0], scalar(b, groups, I64))] if part else []
    return b.prim.reshape(moved, *context.size_operand(), *first, *whole, *rest,
                          result_types=[tensor([count, dims[0], multiply(groups, inner), *dims[2:]], element)])
