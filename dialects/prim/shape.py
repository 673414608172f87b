"""`prim` ops that move elements: views, pads, slices, concatenation."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.arrays import Array
from gradopt.dialects.constraints import (
    ANY_TENSOR,
    INTEGER_TENSOR,
    SCALAR_I64,
    check_axes,
    check_axis,
    check_length,
    merge_size,
    same_element,
    shape_text,
    tensor_type,
)
from gradopt.dialects.prim.data import check_sizes
from gradopt.ir.attribute_kinds import INTEGER, INTEGERS
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result, variadic
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import UNKNOWN, Size, add, ceildiv, multiply, product, provably_different, shapes_differ, subtract
from gradopt.ir.types import Type, tensor

END = (1 << 63) - 1  # an `end` that means: to the end of a dynamic axis


class ReshapeOp(Operation):
    """The elements of `x` in row-major order with the shape of the result type."""

    __slots__ = ()
    name = "prim.reshape"
    x = operand(ANY_TENSOR)
    sizes = variadic(SCALAR_I64)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        source, target = tensor_type(self.x), tensor_type(self.results[0])
        check_sizes(self, len(self._operands) - 1)
        same_elements(source.element, target.element)
        if provably_different(product(source.dims), product(target.dims)):
            raise InvalidOperation(f"reshapes {product(source.dims)} elements of {source.text} to {product(target.dims)} of "
                                   f"{target.text}")

    def evaluate(self, x: Array, *sizes: Array) -> Array:
        return x.reshape(named_shape(self, x, sizes))


def same_elements(source: Type, target: Type) -> None:
    """Raises InvalidOperation where a move of elements would change their type."""
    if source is not target:
        raise InvalidOperation(f"has element type {source.text} and result element type {target.text}, expected the same")


def named_shape(op: Operation, x: Array, sizes: Sequence[Array]) -> tuple[int, ...]:
    """The result's shape at run time; a named size is read from the operand's type, and at most one may be left to the element count."""
    type, source = tensor_type(op.results[0]), tensor_type(op.operands[0])
    known = {str(size): actual for size, actual in zip(source.dims, x.shape) if not isinstance(size, int)}
    given = iter(sizes)
    shape = []
    for size in type.dims:
        if isinstance(size, int):
            shape.append(size)
        elif size is UNKNOWN:
            shape.append(int(next(given)))
        else:
            shape.append(known.get(str(size), -1))
    return tuple(shape)


class ExpandOp(Operation):
    """`x` repeated along `axes` of the result: each of them is a new axis, or one where `x` has size 1."""

    __slots__ = ()
    name = "prim.expand"
    x = operand(ANY_TENSOR)
    sizes = variadic(SCALAR_I64)
    axes = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        source, target = tensor_type(self.x), tensor_type(self.results[0])
        check_sizes(self, len(self._operands) - 1)
        same_elements(source.element, target.element)
        spread = set(check_axes(self.axes, target.rank))
        kept = [size for axis, size in enumerate(target.dims) if axis not in spread and size != 1]
        own = [size for size in source.dims if size != 1]
        if shapes_differ(kept, own) or source.rank > target.rank:
            raise InvalidOperation(f"cannot expand shape {shape_text(source)} to {shape_text(target)} along axes {list(self.axes)}")

    def evaluate(self, x: Array, *sizes: Array) -> Array:
        import numpy as np

        spread = set(self.axes)
        own = iter([size for size in x.shape if size != 1])
        type, given = tensor_type(self.results[0]), iter(sizes)
        inner: list[int] = []
        outer: list[int] = []
        for axis, size in enumerate(type.dims):
            if axis in spread:
                inner.append(1)
                outer.append(size if isinstance(size, int) else int(next(given)) if size is UNKNOWN else -1)
                continue
            if size is UNKNOWN:
                next(given)
            inner.append(1 if size == 1 else next(own, 1))
            outer.append(inner[-1])
        return np.broadcast_to(x.reshape(inner), outer)


class PermuteOp(Operation):
    """Axis i of the result is axis `axes[i]` of `x`."""

    __slots__ = ()
    name = "prim.permute"
    x = operand(ANY_TENSOR)
    axes = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        check_length(self.axes, type.rank, "axes")
        return [tensor([type.dims[axis] for axis in check_axes(self.axes, type.rank)], type.element)]

    def evaluate(self, x: Array) -> Array:
        return x.transpose(self.axes)


class FlipOp(Operation):
    """`x` backwards along `axes`."""

    __slots__ = ()
    name = "prim.flip"
    x = operand(ANY_TENSOR)
    axes = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        check_axes(self.axes, tensor_type(self.x).rank)
        return [self.x.type]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.flip(x, tuple(self.axes))


class PadOp(Operation):
    """`x` with `low` and `high` copies of the scalar `value` before and behind each axis and `interior` between its elements; a negative
    `low` or `high` cuts off."""

    __slots__ = ()
    name = "prim.pad"
    x = operand(ANY_TENSOR)
    value = operand(ANY_TENSOR)
    low = attribute(INTEGERS)
    high = attribute(INTEGERS)
    interior = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        same_element(x=self.x, value=self.value)
        if tensor_type(self.value).rank:
            raise InvalidOperation(f"pads with {self.value.type.text}, expected a rank-0 tensor")
        dims: list[Size] = []
        for name in ("low", "high", "interior"):
            check_length(getattr(self, name), type.rank, name)
        for size, low, high, interior in zip(type.dims, self.low, self.high, self.interior):
            if interior < 0:
                raise InvalidOperation(f"attribute 'interior' has {interior}, expected no negative value")
            spread = size if interior == 0 else 0 if size == 0 else add(multiply(size, interior + 1), -interior)
            total = add(spread, low + high)
            if isinstance(total, int) and total < 0:
                raise InvalidOperation(f"cuts {-low - high} off a dimension of size {spread}")
            dims.append(total)
        return [tensor(dims, type.element)]

    def evaluate(self, x: Array, value: Array) -> Array:
        import numpy as np

        if not x.ndim:  # numpy.pad takes no rank-0 array
            return x
        spread = [size + max(size - 1, 0) * interior for size, interior in zip(x.shape, self.interior)]
        wide = np.full(spread, value, x.dtype)
        wide[tuple(slice(None, None, interior + 1) for interior in self.interior)] = x
        if not x.ndim:
            return x
        cut = tuple(slice(max(-low, 0), size - max(-high, 0)) for low, high, size in zip(self.low, self.high, spread))
        return np.pad(wide[cut], [(max(low, 0), max(high, 0)) for low, high in zip(self.low, self.high)],
                      constant_values=value)


class SliceOp(Operation):
    """Elements `begin`, `begin + stride`, … below `end` of each axis; strides are positive.

    On a static axis 0 <= begin <= end <= size. On a dynamic axis a negative bound counts from the end, and an `end` of
    9223372036854775807 is the end.
    """

    __slots__ = ()
    name = "prim.slice"
    x = operand(ANY_TENSOR)
    begin = attribute(INTEGERS)
    end = attribute(INTEGERS)
    strides = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        dims: list[Size] = []
        for name in ("begin", "end", "strides"):
            check_length(getattr(self, name), type.rank, name)
        for axis, (size, begin, end, stride) in enumerate(zip(type.dims, self.begin, self.end, self.strides)):
            if stride < 1:
                raise InvalidOperation(f"has stride {stride} on axis {axis}, expected a positive one")
            if isinstance(size, int):
                end = size if end == END else end
                if not 0 <= begin <= end <= size:
                    raise InvalidOperation(f"takes [{begin}, {end}) of axis {axis}, which has size {size}")
                dims.append(-(-(end - begin) // stride))
            else:
                low = add(size, begin) if begin < 0 else begin
                high = size if end == END else add(size, end) if end < 0 else end
                dims.append(ceildiv(subtract(high, low), stride))
        return [tensor(dims, type.element)]

    def evaluate(self, x: Array) -> Array:
        return x[tuple(slice(begin, None if end == END else end, stride)
                       for begin, end, stride in zip(self.begin, self.end, self.strides))]


class ConcatOp(Operation):
    """The operands one behind the other along `axis`."""

    __slots__ = ()
    name = "prim.concat"
    x = variadic(ANY_TENSOR)
    axis = attribute(INTEGER)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        return [concat_type(self._operands, self.axis)]

    def evaluate(self, *inputs: Array) -> Array:
        import numpy as np

        return np.concatenate(inputs, axis=self.axis)


def concat_type(inputs: Sequence[object], axis: int) -> Type:
    """The type of a concatenation. Raises InvalidOperation."""
    if not inputs:
        raise InvalidOperation("has no operand, expected at least 1")
    types = [tensor_type(value) for value in inputs]  # type: ignore[arg-type]
    first = types[0]
    axis = check_axis(axis, first.rank)
    dims = list(first.dims)
    for number, type in enumerate(types[1:], 1):
        same_elements(first.element, type.element)
        if type.rank != first.rank:
            raise InvalidOperation(f"operand {number} has rank {type.rank}, expected {first.rank}")
        for position, size in enumerate(type.dims):
            if position == axis:
                dims[axis] = add(dims[axis], size)
            elif provably_different(dims[position], size):
                raise InvalidOperation(f"operand {number} has size {size} in dimension {position}, expected {dims[position]}")
            else:
                dims[position] = merge_size(dims[position], size)
    return tensor(dims, first.element)


def check_starts(starts: Sequence[object], rank: int) -> None:
    """Raises InvalidOperation unless there is one rank-0 start an axis."""
    if len(starts) != rank or any(tensor_type(start).rank for start in starts):  # type: ignore[arg-type]
        raise InvalidOperation(f"has {len(starts)} start indices, expected {rank} of rank 0")


class DynamicSliceOp(Operation):
    """The block of `sizes` elements that begins at `starts`, which are clamped so that it lies inside `x`."""

    __slots__ = ()
    name = "prim.dynamic_slice"
    x = operand(ANY_TENSOR)
    starts = variadic(INTEGER_TENSOR)
    sizes = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        check_starts(self.starts, type.rank)
        check_length(self.sizes, type.rank, "sizes")
        for size, taken in zip(type.dims, self.sizes):
            if taken < 0 or (isinstance(size, int) and taken > size):
                raise InvalidOperation(f"takes {taken} elements of a dimension of size {size}")
        return [tensor(self.sizes, type.element)]

    def evaluate(self, x: Array, *starts: Array) -> Array:
        return x[clamped_block(x.shape, starts, self.sizes)]


def clamped_block(shape: Sequence[int], starts: Sequence[Array], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The slices of a block whose starts are clamped to [0, size - block size]."""
    block = []
    for size, start, taken in zip(shape, starts, sizes):
        low = min(max(int(start), 0), size - taken)
        block.append(slice(low, low + taken))
    return tuple(block)


class DynamicUpdateSliceOp(Operation):
    """`x` with the block that begins at the (clamped) `starts` replaced by `update`."""

    __slots__ = ()
    name = "prim.dynamic_update_slice"
    x = operand(ANY_TENSOR)
    update = operand(ANY_TENSOR)
    starts = variadic(INTEGER_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type, update = tensor_type(self.x), tensor_type(self.update)
        same_element(x=self.x, update=self.update)
        check_starts(self.starts, type.rank)
        if update.rank != type.rank:
            raise InvalidOperation(f"operand 'update' has rank {update.rank}, expected {type.rank}")
        for size, taken in zip(type.dims, update.dims):
            if isinstance(size, int) and isinstance(taken, int) and taken > size:
                raise InvalidOperation(f"writes {taken} elements to a dimension of size {size}")
        return [type]

    def evaluate(self, x: Array, update: Array, *starts: Array) -> Array:
        out = x.copy()
        out[clamped_block(x.shape, starts, update.shape)] = update
        return out
