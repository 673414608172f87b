"""Derivatives of the `prim` ops that move elements: each is linear, so its tangent is the op itself and its cotangent the
transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.prim.shape import END
from gradopt.ir.builder import Builder
from gradopt.ir.sizes import Size, add, provably_equal
from gradopt.ir.types import I1, I64, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import ForwardContext, ReverseContext
from gradopt.lowering.autodiff.helpers import expand_like, full_like, reduce_sum, scalar, size_operands, size_value, zeros_like
from gradopt.lowering.autodiff.registry import Gradients, Tangents, forward_rule, reverse_rule


@forward_rule("prim.reshape", "prim.expand", "prim.permute", "prim.flip", "prim.shape_cast", "prim.contiguous", "prim.copy",
              "prim.dynamic_slice", "prim.slice", "prim.unfold", "prim.fold")
def linear(context: ForwardContext, op: Any, t: Value, *_: None) -> Value:
    """The same op of the tangent."""
    return apply_again(context.builder, op, [t, *op.operands[1:]])


def apply_again(b: Builder, op: Any, operands: Sequence[Value]) -> Value:
    """The op on other operands of the same types."""
    return b.insert(type(op)(operands, op.result_types, dict(op.properties), {}, (), (), b.location)).results[0]


@reverse_rule("prim.reshape")
def reshape(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """g in the operand's shape."""
    return reshape_like(context.builder, g, op.operands[0])


def reshape_like(b: Builder, x: Value, like: Value) -> Value:
    """`x` in row-major order in the shape of `like`."""
    type = tensor_type(like)
    if tensor_type(x).dims == type.dims and type.is_static:
        return x
    return b.prim.reshape(x, *size_operands(b, like), result_types=[type.with_element(tensor_type(x).element)])


@reverse_rule("prim.expand")
def expand(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """The sum over the axes that were new or stretched."""
    return reshape_like(context.builder, reduce_sum(context.builder, g, op.axes), op.operands[0])


@reverse_rule("prim.permute")
def permute(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """The inverse permutation."""
    return context.builder.prim.permute(g, axes=[op.axes.index(axis) for axis in range(len(op.axes))])


@reverse_rule("prim.flip")
def flip(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """The same flip."""
    return context.builder.prim.flip(g, axes=op.axes)


@reverse_rule("prim.shape_cast")
def shape_cast(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """g with the operand's sizes."""
    return context.builder.prim.shape_cast(g, result_types=[op.operands[0].type])


@reverse_rule("prim.contiguous", "prim.copy")
def identity(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """g."""
    return g


@reverse_rule("prim.barrier")
def barrier(context: ReverseContext, op: Any, *cotangents: Value | None) -> Gradients:
    """Each result's cotangent."""
    return cotangents


@forward_rule("prim.barrier")
def barrier_tangents(context: ForwardContext, op: Any, *tangents: Value | None) -> Tangents:
    """The tangents, behind a barrier of their own."""
    moving = [t for t in tangents if t is not None]
    passed = iter(context.builder.create("prim.barrier", moving).results)
    return [None if t is None else next(passed) for t in tangents]


# --- pad and slice


@reverse_rule("prim.pad")
def pad(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """x: what is left of g where x was put (0 where it was cut off); value: the sum of g everywhere else."""
    b, x = context.builder, op.operands[0]

    def padding() -> Value:
        """Selected by a mask, not subtracted from the whole sum, so that nothing cancels."""
        outside = b.prim.pad(full_like(b, x, 0, I1), scalar(b, 1, I1), low=op.low, high=op.high, interior=op.interior)
        return reduce_sum(b, b.prim.select(outside, g, zeros_like(b, g)), range(tensor_type(g).rank))

    def kept() -> Any:
        value = unpad(b, g, x, op.low, op.high, op.interior)
        return context.cut(value) if any(amount < 0 for amount in (*op.low, *op.high)) else value
    return kept, padding


def unpad(b: Builder, g: Value, x: Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Value:
    """The elements of `g` at which pad put those of `x`; zeros for those that negative padding cut off."""
    if any(value < 0 for value in (*low, *high)):
        g = b.prim.pad(g, scalar(b, 0, tensor_type(g).element), low=[max(-value, 0) for value in low],
                       high=[max(-value, 0) for value in high], interior=[0] * len(low))
    dims, source = tensor_type(g).dims, tensor_type(x)
    begin, end = [], []
    for size, own, before, after in zip(dims, source.dims, low, high):
        first = max(before, 0)
        if isinstance(size, int):
            # an empty x leaves nothing, wherever its padding would begin
            begin.append(first if own != 0 else 0)
            end.append(size - max(after, 0) if own != 0 else 0)
        else:
            begin.append(first)
            end.append(-after if after > 0 else END)
    result = b.prim.slice(g, begin=begin, end=end, strides=[value + 1 for value in interior])
    return result if result.type is x.type else b.prim.shape_cast(result, result_types=[x.type])


@forward_rule("prim.pad")
def pad_tangent(context: ForwardContext, op: Any, t: Value | None, dv: Value | None) -> Tangents:
    """The tangents padded alike."""
    b, (x, value) = context.builder, op.operands
    operands = zeros_like(b, x) if t is None else t, zeros_like(b, value) if dv is None else dv
    result = b.prim.pad(*operands, low=op.low, high=op.high, interior=op.interior)
    return context.cut(result) if t is None or dv is None else result


@reverse_rule("prim.slice", masks=True)
def slice_(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """g padded with zeros to the operand's shape; along a dynamic axis whose padding is not a constant, scattered."""
    b, x = context.builder, op.operands[0]
    dims, rank = tensor_type(x).dims, tensor_type(x).rank
    low, high, interior, later = [0] * rank, [0] * rank, [0] * rank, []
    for axis, (size, begin, end, stride) in enumerate(zip(dims, op.begin, op.end, op.strides)):
        if isinstance(size, int):
            count = tensor_type(g).dims[axis]
            assert isinstance(count, int)
            if count == 0:
                high[axis] = size
                continue
            low[axis], interior[axis] = begin, stride - 1
            high[axis] = size - begin - (count - 1) * stride - 1
        elif stride == 1 and begin >= 0 and (end == END or end < 0):
            low[axis], high[axis] = begin, 0 if end == END else -end
        elif begin or end != END or stride != 1:
            later.append(axis)
    if any((*low, *high, *interior)):
        g = b.prim.pad(g, scalar(b, 0, tensor_type(g).element), low=low, high=high, interior=interior)
    for axis in later:
        g = scatter_slice(b, g, x, axis, op.begin[axis], op.strides[axis])
    return g if g.type is x.type else b.prim.shape_cast(g, result_types=[x.type])


def scatter_slice(b: Builder, g: Value, x: Value, axis: int, begin: int, stride: int) -> Value:
    """`g` at begin, begin + stride, … along an axis as long as in `x`, zeros elsewhere."""
    dims = list(tensor_type(g).dims)
    dims[axis] = tensor_type(x).dims[axis]
    target = tensor(dims, tensor_type(g).element)
    sizes = [size_value(b, x if place == axis else g, place) for place, size in enumerate(dims) if not hasattr(size, "terms")
             and not isinstance(size, int)]
    zeros = b.create("prim.expand", [scalar(b, 0, target.element), *sizes], [target], axes=list(range(len(dims)))).results[0]
    return b.prim.scatter(zeros, strided_positions(b, g, axis, begin, stride), g, axis=axis, kind="add", mode="fast")


def strided_positions(b: Builder, g: Value, axis: int, begin: int, stride: int) -> Value:
    """begin, begin + stride, … : as many as `g` is long along an axis."""
    size = tensor_type(g).dims[axis]
    count = b.create("prim.iota", size_operands(b, g, [axis]), [tensor([size], I64)], axis=0).results[0]
    step, first = full_like(b, count, stride, I64), full_like(b, count, begin, I64)
    return b.prim.add(b.prim.mul(count, step), first)


@reverse_rule("prim.concat")
def concat(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """Each operand's part of g."""
    return concat_parts(context, op.operands, op.axis, g)


def concat_parts(context: ReverseContext, parts: Sequence[Value], axis: int, g: Value) -> Gradients:
    """The slices of g along an axis that belong to the operands of a concatenation."""
    sizes: list[Size] = [tensor_type(x).dims[axis] for x in parts]

    def part(index: int) -> Callable[[], Value]:
        return lambda: take_part(context.builder, g, parts, sizes, axis, index)
    return [part(index) for index in range(len(sizes))]


def take_part(b: Builder, g: Value, parts: Sequence[Value], sizes: Sequence[Size], axis: int, index: int) -> Value:
    """The slice of `g` that belongs to part `index`, by constant bounds where possible, else by gathering."""
    like = parts[index]
    rank = tensor_type(g).rank
    before, behind = total_size(sizes[:index]), total_size(sizes[index + 1:])
    begin, end = [0] * rank, [END] * rank
    if isinstance(before, int) and isinstance(sizes[index], int):
        begin[axis], end[axis] = before, before + sizes[index]  # type: ignore[operator]
    elif isinstance(before, int) and isinstance(behind, int):
        begin[axis], end[axis] = before, -behind if behind else END
    elif isinstance(own := sizes[index], int) and isinstance(behind, int) and behind + own:
        begin[axis], end[axis] = -behind - own, -behind if behind else END
    else:
        offset = scalar(b, 0, I64)
        for part in parts[:index]:
            offset = b.prim.add(offset, size_value(b, part, axis))
        positions = strided_positions(b, like, axis, 0, 1)
        result = b.prim.gather(g, b.prim.add(positions, expand_like(b, offset, positions)), axis=axis, mode="fast")
        return result if result.type is like.type else b.prim.shape_cast(result, result_types=[like.type])
    if all(first == 0 and (last == END or provably_equal(last, size))
           for first, last, size in zip(begin, end, tensor_type(g).dims)):
        return g
    result = b.prim.slice(g, begin=begin, end=end, strides=[1] * rank)
    return result if result.type is like.type else b.prim.shape_cast(result, result_types=[like.type])


def total_size(sizes: Sequence[Size]) -> Size:
    """The sum of sizes."""
    total: Size = 0
    for size in sizes:
        total = add(total, size)
    return total


@forward_rule("prim.concat")
def concat_tangent(context: ForwardContext, op: Any, *tangents: Value | None) -> Tangents:
    """The tangents one behind the other, zeros for those that are structurally zero."""
    b = context.builder
    value = b.prim.concat(*[zeros_like(b, x) if t is None else t for x, t in zip(op.operands, tangents)], axis=op.axis)
    return context.cut(value) if any(t is None for t in tangents) else value


# --- blocks at run-time positions


@reverse_rule("prim.dynamic_slice", masks=True)
def dynamic_slice(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """g written into zeros at the same place."""
    b = context.builder
    return b.prim.dynamic_update_slice(zeros_like(b, op.operands[0]), g, *op.operands[1:])


@reverse_rule("prim.dynamic_update_slice", masks=True)
def dynamic_update_slice(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """x: g with zeros where it was overwritten; update: that block of g."""
    b, update, starts = context.builder, op.operands[1], op.operands[2:]

    def block() -> Any:
        return context.keep(read_block(b, g, update, starts))
    return lambda: b.prim.dynamic_update_slice(g, zeros_like(b, update), *starts), block


def read_block(b: Builder, x: Value, like: Value, starts: Sequence[Value]) -> Value:
    """The block of `x` of the shape of `like` at (clamped) starts; gathered along axes whose block size is dynamic."""
    dims, sizes = tensor_type(x).dims, tensor_type(like).dims
    whole = [size if isinstance(size, int) else 0 for size in sizes]
    if all(isinstance(size, int) for size in sizes):
        return b.prim.dynamic_slice(x, *starts, sizes=whole)
    for axis, start in enumerate(starts):
        if provably_equal(sizes[axis], dims[axis]):
            continue
        wide = start if tensor_type(start).element is I64 else b.prim.cast(start, result_types=[tensor((), I64)])
        room = b.prim.sub(size_value(b, x, axis), size_value(b, like, axis))
        first = b.prim.min(b.prim.max(wide, scalar(b, 0, I64)), room)
        positions = strided_positions(b, like, axis, 0, 1)
        x = b.prim.gather(x, b.prim.add(positions, expand_like(b, first, positions)), axis=axis, mode="fast")
    return x if x.type is like.type else b.prim.shape_cast(x, result_types=[like.type])


@forward_rule("prim.dynamic_update_slice")
def dynamic_update_slice_tangent(context: ForwardContext, op: Any, dx: Value | None, du: Value | None, *_: None) -> Tangents:
    """The tangent of the update written into that of x."""
    b, (x, update) = context.builder, op.operands[:2]
    value = b.prim.dynamic_update_slice(zeros_like(b, x) if dx is None else dx, zeros_like(b, update) if du is None else du,
                                        *op.operands[2:])
    return context.cut(value) if dx is None or du is None else value

