"""`hl` ops that change a shape or put tensors together. Axes may be negative."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.arrays import Array
from gradopt.dialects.constraints import (
    ANY_TENSOR,
    NUMBER_TENSOR,
    SCALAR_I64,
    check_axes,
    check_axis,
    merge_size,
    shape_text,
    tensor_type,
)
from gradopt.dialects.hl.neural.common import run_time_shape
from gradopt.dialects.prim.data import check_sizes
from gradopt.dialects.prim.shape import ReshapeOp as PrimReshapeOp
from gradopt.dialects.prim.shape import concat_type, same_elements
from gradopt.ir.attribute_kinds import INTEGER, INTEGERS
from gradopt.ir.declare import (
    PURE,
    InvalidOperation,
    attribute,
    operand,
    result,
    variadic,
    variadic_result,
)
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, floordiv, multiply, product, provably_different, shapes_differ
from gradopt.ir.types import TensorType, Type, tensor


class ReshapeOp(PrimReshapeOp):
    """The elements of `x` in row-major order with the shape of the result type. A reshape never transposes."""

    __slots__ = ()
    name = "hl.reshape"

    def evaluate(self, x: Array, *sizes: Array) -> Array:
        return x.reshape(run_time_shape(self, tensor_type(self.results[0]), (x,), sizes))


class FlattenOp(Operation):
    """The elements of `x` in row-major order in one dimension."""

    __slots__ = ()
    name = "hl.flatten"
    x = operand(ANY_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        return [tensor([product(type.dims)], type.element)]

    def evaluate(self, x: Array) -> Array:
        return x.reshape(-1)


class ExpandDimsOp(Operation):
    """`x` with a new dimension of size 1 at each of `axes`, which count in the result."""

    __slots__ = ()
    name = "hl.expand_dims"
    x = operand(ANY_TENSOR)
    axes = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def normal_axes(self) -> list[int]:
        """The new axes, sorted and not negative. Raises InvalidOperation."""
        return sorted(check_axes(self.axes, tensor_type(self.x).rank + len(self.axes)))

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        dims: list[Size] = list(type.dims)
        for axis in self.normal_axes:
            dims.insert(axis, 1)
        return [tensor(dims, type.element)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.expand_dims(x, tuple(self.axes))


class SqueezeOp(Operation):
    """`x` without `axes`, which have size 1; without all axes of static size 1 where that is absent."""

    __slots__ = ()
    name = "hl.squeeze"
    x = operand(ANY_TENSOR)
    axes = attribute(INTEGERS, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def normal_axes(self) -> list[int]:
        """The axes that vanish, sorted and not negative. Raises InvalidOperation."""
        type = tensor_type(self.x)
        if self.axes is None:
            return [axis for axis, size in enumerate(type.dims) if size == 1]
        return sorted(check_axes(self.axes, type.rank))

    def infer(self) -> list[Type]:
        type, axes = tensor_type(self.x), self.normal_axes
        for axis in axes:
            if provably_different(type.dims[axis], 1):
                raise InvalidOperation(f"removes axis {axis} of {type.text}, which has size {type.dims[axis]}, expected 1")
        return [tensor([size for axis, size in enumerate(type.dims) if axis not in axes], type.element)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.squeeze(x, tuple(self.normal_axes))


class PermuteDimsOp(Operation):
    """Axis i of the result is axis `axes[i]` of `x`; the order is reversed where that is absent."""

    __slots__ = ()
    name = "hl.permute_dims"
    x = operand(ANY_TENSOR)
    axes = attribute(INTEGERS, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def normal_axes(self) -> list[int]:
        """The permutation, without negative axes. Raises InvalidOperation."""
        rank = tensor_type(self.x).rank
        if self.axes is None:
            return list(reversed(range(rank)))
        if len(self.axes) != rank:
            raise InvalidOperation(f"attribute 'axes' has {len(self.axes)} entries, expected {rank}")
        return check_axes(self.axes, rank)

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        return [tensor([type.dims[axis] for axis in self.normal_axes], type.element)]

    def evaluate(self, x: Array) -> Array:
        return x.transpose(self.normal_axes)


def check_broadcast(small: TensorType, large: TensorType, what: str) -> None:
    """Raises InvalidOperation unless the shape of `small` broadcasts to that of `large`."""
    offset = large.rank - small.rank
    if offset < 0 or any(size != 1 and provably_different(size, large.dims[offset + axis])
                         for axis, size in enumerate(small.dims)):
        raise InvalidOperation(f"{what}: shape {shape_text(small)} does not broadcast to {shape_text(large)}")


class BroadcastToOp(Operation):
    """`x` repeated to the shape of the result type, to which it broadcasts as in NumPy."""

    __slots__ = ()
    name = "hl.broadcast_to"
    x = operand(ANY_TENSOR)
    sizes = variadic(SCALAR_I64)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        source, target = tensor_type(self.x), tensor_type(self.results[0])
        check_sizes(self, len(self.sizes))
        same_elements(source.element, target.element)
        check_broadcast(source, target, "cannot broadcast")

    def evaluate(self, x: Array, *sizes: Array) -> Array:
        import numpy as np

        return np.broadcast_to(x, run_time_shape(self, tensor_type(self.results[0]), (x,), sizes))


class CollapseSumToOp(Operation):
    """`x` summed to the shape of the result type, which broadcasts to x's: the adjoint of `broadcast_to`."""

    __slots__ = ()
    name = "hl.collapse_sum_to"
    x = operand(NUMBER_TENSOR)
    sizes = variadic(SCALAR_I64)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        source, target = tensor_type(self.x), tensor_type(self.results[0])
        check_sizes(self, len(self.sizes))
        same_elements(source.element, target.element)
        check_broadcast(target, source, "cannot sum back")

    def evaluate(self, x: Array, *sizes: Array) -> Array:
        import numpy as np
        from gradopt.dialects.arrays import sum_dtype, widen

        shape = run_time_shape(self, tensor_type(self.results[0]), (x,), sizes)
        offset = x.ndim - len(shape)
        axes = tuple(axis for axis in range(x.ndim) if axis < offset or (shape[axis - offset] == 1 and x.shape[axis] != 1))
        wide = widen(x)
        return np.sum(wide, axis=axes, dtype=sum_dtype(wide.dtype)).reshape(shape).astype(x.dtype)


class ConcatOp(Operation):
    """The operands one behind the other along `axis`."""

    __slots__ = ()
    name = "hl.concat"
    x = variadic(ANY_TENSOR)
    axis = attribute(INTEGER)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        return [concat_type(self._operands, self.axis)]

    def evaluate(self, *inputs: Array) -> Array:
        import numpy as np

        return np.concatenate(inputs, axis=self.axis)


class SplitOp(Operation):
    """`x` cut along `axis` into parts of the given `sizes`, or into `sections` equal ones: one result a part."""

    __slots__ = ()
    name = "hl.split"
    x = operand(ANY_TENSOR)
    axis = attribute(INTEGER)
    sizes = attribute(INTEGERS, optional=True)
    sections = attribute(INTEGER, optional=True)
    parts = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE})

    def part_sizes(self) -> list[Size]:
        """The size of each part along the axis. Raises InvalidOperation."""
        type = tensor_type(self.x)
        whole = type.dims[check_axis(self.axis, type.rank)]
        if (self.sizes is None) == (self.sections is None):
            raise InvalidOperation("takes exactly one of the attributes 'sizes' and 'sections'")
        if self.sizes is not None:
            if any(size < 0 for size in self.sizes) or provably_different(sum(self.sizes), whole):
                raise InvalidOperation(f"attribute 'sizes' is {list(self.sizes)}, expected values >= 0 that sum to {whole}")
            return list(self.sizes)
        count = self.sections
        if count < 1 or (isinstance(whole, int) and whole % count):
            raise InvalidOperation(f"cuts a dimension of size {whole} into {count} equal parts")
        return [floordiv(whole, count)] * count

    def infer(self) -> list[Type]:
        type, sizes = tensor_type(self.x), self.part_sizes()
        axis = check_axis(self.axis, type.rank)
        return [tensor([*type.dims[:axis], size, *type.dims[axis + 1:]], type.element) for size in sizes]

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        import numpy as np

        whole = x.shape[self.axis]
        if self.sizes is not None:
            if sum(self.sizes) != whole:
                raise ValueError(f"'{self.name}' op cuts a dimension of size {whole} into parts of sizes {list(self.sizes)}")
            return tuple(np.split(x, np.cumsum(self.sizes)[:-1], axis=self.axis)) if self.sizes else ()
        if whole % self.sections:
            raise ValueError(f"'{self.name}' op cuts a dimension of size {whole} into {self.sections} equal parts")
        return tuple(np.split(x, self.sections, axis=self.axis))


class StackOp(Operation):
    """Operands of one shape along a new dimension `axis`, which counts in the result."""

    __slots__ = ()
    name = "hl.stack"
    x = variadic(ANY_TENSOR)
    axis = attribute(INTEGER)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        if not self._operands:
            raise InvalidOperation("has no operand, expected at least 1")
        types = [tensor_type(value) for value in self._operands]
        dims, element = list(types[0].dims), types[0].element
        for number, type in enumerate(types[1:], 1):
            same_elements(element, type.element)
            if shapes_differ(dims, type.dims):
                raise InvalidOperation(f"operand {number} has shape {shape_text(type)}, expected {shape_text(types[0])}")
            dims = [merge_size(a, b) for a, b in zip(dims, type.dims)]
        dims.insert(check_axis(self.axis, len(dims) + 1), len(types))
        return [tensor(dims, element)]

    def evaluate(self, *inputs: Array) -> Array:
        import numpy as np

        return np.stack(inputs, axis=self.axis)


class FlipOp(Operation):
    """`x` backwards along `axes`; along all of them where that is absent."""

    __slots__ = ()
    name = "hl.flip"
    x = operand(ANY_TENSOR)
    axes = attribute(INTEGERS, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def normal_axes(self) -> list[int]:
        """The axes, not negative. Raises InvalidOperation."""
        return check_axes(self.axes, tensor_type(self.x).rank)

    def infer(self) -> list[Type]:
        self.normal_axes  # noqa: B018
        return [self.x.type]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.flip(x, tuple(self.normal_axes))


class RollOp(Operation):
    """`x` shifted by `shifts[i]` along `axes[i]`; what leaves at one end comes in at the other."""

    __slots__ = ()
    name = "hl.roll"
    x = operand(ANY_TENSOR)
    shifts = attribute(INTEGERS)
    axes = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        check_axes(self.axes, tensor_type(self.x).rank)
        if len(self.shifts) != len(self.axes):
            raise InvalidOperation(f"has {len(self.shifts)} shifts for {len(self.axes)} axes")
        return [self.x.type]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.roll(x, tuple(self.shifts), tuple(self.axes)) if self.axes else x


class TileOp(Operation):
    """`x` put side by side `repeats[i]` times along axis i. Fewer repeats than axes count from the last axis, more add
    leading axes."""

    __slots__ = ()
    name = "hl.tile"
    x = operand(ANY_TENSOR)
    repeats = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def spread(self) -> tuple[list[Size], list[int]]:
        """(x's sizes, repeats), both of the result's rank."""
        dims: Sequence[Size] = tensor_type(self.x).dims
        rank = max(len(dims), len(self.repeats))
        return [*[1] * (rank - len(dims)), *dims], [*[1] * (rank - len(self.repeats)), *self.repeats]

    def infer(self) -> list[Type]:
        if any(count < 0 for count in self.repeats):
            raise InvalidOperation(f"attribute 'repeats' is {list(self.repeats)}, expected no negative value")
        dims, repeats = self.spread()
        return [tensor([multiply(size, count) for size, count in zip(dims, repeats)], tensor_type(self.x).element)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.tile(x, tuple(self.repeats))
