"""Batching of ops that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.prim.shape import END
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.types import I1, I64, literal, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import expand_axes, expand_like, full_like, iota_like, scalar, size_operands, size_value
from gradopt.lowering.batch.engine import BatchContext
from gradopt.lowering.batch.registry import Batched, batch_rule
from gradopt.lowering.batch.rules.elementwise import again, shifted


def plain_sizes(op: Any, sizes: Sequence[Batched]) -> list[Value]:
    """The `sizes…` operands. Raises GradoptError where examples would differ in shape."""
    if any(size.batched for size in sizes):
        raise GradoptError.at(op.location, f"'{op.name}' op cannot be batched: the examples differ in a size")
    return [size.value for size in sizes]


@batch_rule("prim.reshape")
def reshape(context: BatchContext, op: Any, x: Batched, *sizes: Batched) -> Sequence[Value]:
    """The batch stays in front."""
    return again(context, op, [context.spread(x), *context.size_operand(), *plain_sizes(op, sizes)])


@batch_rule("prim.expand")
def expand(context: BatchContext, op: Any, x: Batched, *sizes: Batched) -> Sequence[Value]:
    """The axes one further back."""
    return again(context, op, [context.spread(x), *context.size_operand(), *plain_sizes(op, sizes)], axes=shifted(op.axes))


@batch_rule("prim.fold")
def fold(context: BatchContext, op: Any, y: Batched, *sizes: Batched) -> Value:
    """Batch and N as one axis."""
    b, target = context.builder, tensor_type(op.results[0])
    rows = merge(context, y.value)
    whole = context.type_of(target)
    merged = tensor(merged_dims(whole), target.element)
    given = plain_sizes(op, sizes)
    named = merged_size(context, op, whole, given)
    from gradopt.ir.sizes import UNKNOWN

    own = given[1:] if target.dims[0] is UNKNOWN else given
    image = b.create("prim.fold", [rows, *named, *own], [merged], **op.properties).results[0]
    return b.prim.reshape(image, *context.size_operand(), *given, result_types=[whole])


def merged_dims(type: Any) -> list[Any]:
    """The sizes with the first two axes made one."""
    from gradopt.ir.sizes import multiply

    return [multiply(type.dims[0], type.dims[1]), *type.dims[2:]]


def merged_size(context: BatchContext, op: Any, whole: Any, given: Sequence[Value]) -> list[Value]:
    """The `sizes` operand for batch * N, where that is not named."""
    from gradopt.ir.sizes import UNKNOWN, multiply

    if multiply(whole.dims[0], whole.dims[1]) is not UNKNOWN:
        return []
    b = context.builder
    batch = size_value(b, context.witness, 0)
    count = whole.dims[1]
    first = given[0] if count is UNKNOWN else scalar(b, count, I64) if isinstance(count, int) else None
    if first is None:
        raise GradoptError.at(op.location, f"'{op.name}' op cannot be batched with a batch of unknown size and images of "
                              "named size")
    return [b.prim.mul(batch, first)]


def merge(context: BatchContext, x: Value) -> Value:
    """The first two axes as one."""
    from gradopt.ir.sizes import UNKNOWN, multiply

    b, type = context.builder, tensor_type(x)
    count = multiply(type.dims[0], type.dims[1])
    sizes = [b.prim.mul(size_value(b, x, 0), size_value(b, x, 1))] if count is UNKNOWN else []
    return b.prim.reshape(x, *sizes, *size_operands(b, x, range(2, type.rank)),
                          result_types=[tensor([count, *type.dims[2:]], type.element)])


@batch_rule("prim.unfold")
def unfold(context: BatchContext, op: Any, x: Batched) -> Value:
    """Batch and N as one axis."""
    b = context.builder
    rows = b.create("prim.unfold", [merge(context, x.value)], **op.properties).results[0]
    return split_rows(context, rows, op)


def split_rows(context: BatchContext, rows: Value, op: Any) -> Value:
    """[batch * rows, columns] as [batch, rows, columns]."""
    from gradopt.ir.sizes import UNKNOWN

    b, type = context.builder, tensor_type(op.results[0])
    sizes = list(context.size_operand())
    if type.dims[0] is UNKNOWN:
        sizes.append(b.prim.div(size_value(b, rows, 0), size_value(b, context.witness, 0)))
    if type.dims[1] is UNKNOWN:
        sizes.append(size_value(b, rows, 1))
    return b.prim.reshape(rows, *sizes, result_types=[context.type_of(type)])


@batch_rule("prim.permute")
def permute(context: BatchContext, op: Any, x: Batched) -> Sequence[Value]:
    """The batch stays in front."""
    return again(context, op, [x.value], axes=literal([0, *(axis + 1 for axis in op.axes)]))


@batch_rule("prim.flip")
def flip(context: BatchContext, op: Any, x: Batched) -> Sequence[Value]:
    """The axes one further back."""
    return again(context, op, [x.value], axes=shifted(op.axes))


@batch_rule("prim.pad")
def pad(context: BatchContext, op: Any, x: Batched, value: Batched) -> Value:
    """The batch is not padded; where each example has its own value, selected by a mask."""
    b = context.builder
    amounts = {"low": [0, *op.low], "high": [0, *op.high], "interior": [0, *op.interior]}
    spread = context.spread(x)
    if not value.batched:
        return b.prim.pad(spread, value.value, **amounts)
    padded = b.prim.pad(spread, scalar(b, 0, tensor_type(spread).element), **amounts)
    outside = b.prim.pad(full_like(b, spread, 0, I1), scalar(b, 1, I1), **amounts)
    rest = list(range(1, tensor_type(padded).rank))
    return b.prim.select(outside, expand_axes(b, value.value, padded, rest), padded)


@batch_rule("prim.slice")
def slice_(context: BatchContext, op: Any, x: Batched) -> Value:
    """The whole batch."""
    return context.builder.prim.slice(x.value, begin=[0, *op.begin], end=[END, *op.end], strides=[1, *op.strides])


@batch_rule("prim.concat")
def concat(context: BatchContext, op: Any, *inputs: Batched) -> Value:
    """The axis one further back."""
    return context.builder.prim.concat(*[context.spread(x) for x in inputs], axis=op.axis + 1)


# --- blocks at run-time positions


def clamped(context: BatchContext, start: Batched, x: Value, axis: int, taken: Value) -> Value:
    """A start as i64, clamped so that the block lies inside: [batch] or rank 0."""
    b = context.builder
    value = start.value
    type = tensor_type(value)
    if type.element is not I64:
        value = b.prim.cast(value, result_types=[type.with_element(I64)])
    room = b.prim.sub(size_value(b, x, axis), taken)
    low, high = scalar(b, 0, I64), b.prim.max(room, scalar(b, 0, I64))
    if start.batched:
        low, high = expand_like(b, low, value), expand_like(b, high, value)
    return b.prim.min(b.prim.max(value, low), high)


def block_vectors(context: BatchContext, like: Value, starts: Sequence[Value]) -> Value:
    """[batch, block…, 1 + rank]: the coordinates of every element of a batch of blocks of the shape of `like`."""
    b = context.builder
    type = tensor_type(like).with_element(I64)
    columns = [iota_like(b, like, 0)]
    for axis, start in enumerate(starts, 1):
        rest = [a for a in range(type.rank) if tensor_type(start).rank == 0 or a != 0]
        columns.append(b.prim.add(iota_like(b, like, axis), expand_axes(b, start, like, rest)))
    target = tensor([*type.dims, 1], I64)
    parts = [b.create("prim.expand", [column, *size_operands(b, like)], [target], axes=[type.rank]).results[0]
             for column in columns]
    return b.prim.concat(*parts, axis=type.rank)


@batch_rule("prim.dynamic_slice")
def dynamic_slice(context: BatchContext, op: Any, x: Batched, *starts: Batched) -> Value:
    """The same op where all examples start alike, else gather_nd."""
    b = context.builder
    if not any(start.batched for start in starts):
        if isinstance(context.size, int):
            return b.prim.dynamic_slice(x.value, scalar(b, 0, tensor_type(starts[0].value).element) if starts else
                                        scalar(b, 0, I64), *[start.value for start in starts], sizes=[context.size, *op.sizes])
        result = x.value
        for axis, start in enumerate(starts, 1):
            taken = scalar(b, op.sizes[axis - 1], I64)
            first = clamped(context, start, result, axis, taken)
            row = b.create("prim.iota", [], [tensor([op.sizes[axis - 1]], I64)], axis=0).results[0]
            result = b.prim.gather(result, b.prim.add(row, expand_like(b, first, row)), axis=axis, mode="fast")
        return result
    whole = context.spread(x)
    firsts = [clamped(context, start, whole, axis, scalar(b, op.sizes[axis - 1], I64)) for axis, start in enumerate(starts, 1)]
    shape = context.type_of(op.results[0].type)
    like = b.create("prim.expand", [scalar(b, 0, I64), *context.size_operand()], [shape.with_element(I64)],
                    axes=list(range(shape.rank))).results[0]
    return b.prim.gather_nd(whole, block_vectors(context, like, firsts), mode="fast")


@batch_rule("prim.dynamic_update_slice")
def dynamic_update_slice(context: BatchContext, op: Any, x: Batched, update: Batched, *starts: Batched) -> Value:
    """The same op where all examples start alike, else scatter_nd."""
    b = context.builder
    whole, part = context.spread(x), context.spread(update)
    if not any(start.batched for start in starts):
        return b.prim.dynamic_update_slice(whole, part, scalar(b, 0, I64), *[start.value for start in starts])
    firsts = [clamped(context, start, whole, axis, size_value(b, part, axis)) for axis, start in enumerate(starts, 1)]
    return b.prim.scatter_nd(whole, block_vectors(context, part, firsts), part, kind="set", mode="fast")


