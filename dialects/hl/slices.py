"""`hl` ops that cut out, replace or surround blocks of a tensor."""

from __future__ import annotations

from gradopt.dialects.arrays import Array
from gradopt.dialects.constraints import ANY_TENSOR, check_dims, check_length, same_element, tensor_type
from gradopt.dialects.prim.shape import END
from gradopt.dialects.prim.shape import DynamicSliceOp as PrimDynamicSliceOp
from gradopt.dialects.prim.shape import DynamicUpdateSliceOp as PrimDynamicUpdateSliceOp
from gradopt.ir.attribute_kinds import FLOAT, INTEGERS, enumeration
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, add, ceildiv, subtract
from gradopt.ir.types import FloatType, IntegerType, TensorType, Type, tensor

FAR = -(1 << 31)  # along a dynamic axis an `end` below this, with a negative stride, includes the first element


def slice_range(size: Size, begin: int, end: int, stride: int) -> tuple[int, int]:
    """(low, high) in the terms of prim.slice of the elements that a NumPy slice begin:end:stride picks from, whatever its
    direction.

    On a static axis the bounds are clamped. On a dynamic one a negative bound counts from the end and END is the end."""
    if isinstance(size, int):
        positions = range(size)[begin:end:stride]
        if not len(positions):
            return 0, 0
        first, last = positions[0], positions[-1]
        return (first, last + 1) if stride > 0 else (last, first + 1)
    if stride > 0:
        return begin, end
    low = 0 if end <= FAR else end + 1 if end != -1 else END
    high = END if begin in (-1, END) else begin + 1
    return low, high


def slice_count(size: Size, begin: int, end: int, stride: int) -> Size:
    """How many elements a NumPy slice picks."""
    low, high = slice_range(size, begin, end, stride)
    if isinstance(size, int):
        return -(-(high - low) // abs(stride))
    bottom = size if low == END else add(size, low) if low < 0 else low
    top = size if high == END else add(size, high) if high < 0 else high
    return ceildiv(subtract(top, bottom), abs(stride))


class Slicing(Operation):
    """Base: begin, end and stride an axis, as in NumPy.

    Negative bounds count from the end, bounds outside are clamped, strides may be negative; an `end` of 9223372036854775807
    is the end, and with a negative stride -9223372036854775808 includes the first element. Along a dynamic axis the bounds
    must lie inside.
    """

    __slots__ = ()
    x = operand(ANY_TENSOR)
    begin = attribute(INTEGERS)
    end = attribute(INTEGERS)
    strides = attribute(INTEGERS, optional=True, documentation="all 1 where absent")
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def steps(self) -> tuple[int, ...]:
        """The strides."""
        return self.strides if self.strides is not None else (1,) * tensor_type(self.x).rank

    def sliced_dims(self) -> list[Size]:
        """The sizes of the slice. Raises InvalidOperation."""
        type = tensor_type(self.x)
        for name, values in (("begin", self.begin), ("end", self.end), ("strides", self.steps)):
            check_length(values, type.rank, name)
        if 0 in self.steps:
            raise InvalidOperation(f"attribute 'strides' is {list(self.steps)}, expected no 0")
        return [slice_count(*each) for each in zip(type.dims, self.begin, self.end, self.steps)]

    def slices(self) -> tuple[slice, ...]:
        """The NumPy index."""
        return tuple(slice(*each) for each in zip(self.begin, self.end, self.steps))


class StridedSliceOp(Slicing):
    __doc__ = "The elements begin, begin + stride, … before end of each axis.\n" + (Slicing.__doc__ or "").split("\n", 1)[1]
    __slots__ = ()
    name = "hl.strided_slice"

    def infer(self) -> list[Type]:
        return [tensor(self.sliced_dims(), tensor_type(self.x).element)]

    def evaluate(self, x: Array) -> Array:
        return x[self.slices()]


class SetSliceOp(Slicing):
    """`x` with the elements that `strided_slice` of the same attributes gives replaced by `update`."""

    __slots__ = ()
    name = "hl.set_slice"
    update = operand(ANY_TENSOR)

    def infer(self) -> list[Type]:
        same_element(x=self.x, update=self.update)
        check_dims("update", self.update, self.sliced_dims())
        return [self.x.type]

    def evaluate(self, x: Array, update: Array) -> Array:
        out = x.copy()
        out[self.slices()] = update
        return out


class DynamicSliceOp(PrimDynamicSliceOp):
    """The block of `sizes` elements that begins at `starts`, which are clamped so that it lies inside `x`."""

    __slots__ = ()
    name = "hl.dynamic_slice"


class DynamicUpdateSliceOp(PrimDynamicUpdateSliceOp):
    """`x` with the block that begins at the (clamped) `starts` replaced by `update`."""

    __slots__ = ()
    name = "hl.dynamic_update_slice"


class PadOp(Operation):
    """`x` with `low[i]` elements before and `high[i]` behind axis i: copies of `value`, of the elements beside the edge in
    reverse order ("reflect"), or of the edge ("edge"). With "constant" a negative number cuts off."""

    __slots__ = ()
    name = "hl.pad"
    x = operand(ANY_TENSOR)
    low = attribute(INTEGERS)
    high = attribute(INTEGERS)
    mode = attribute(enumeration("constant", "reflect", "edge"), default="constant")
    value = attribute(FLOAT, default=0.0)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        for name in ("low", "high"):
            check_length(getattr(self, name), type.rank, name)
        for axis in range(type.rank):
            self.check_axis(type, axis)
        if isinstance(type.element, IntegerType) and not self.value.is_integer():
            raise InvalidOperation(f"pads {type.text} with {self.value}, expected a whole number")
        if not isinstance(type.element, (IntegerType, FloatType)):
            raise InvalidOperation(f"pads {type.text}, expected an integer or float element type")
        return [tensor([add(size, low + high) for size, low, high in zip(type.dims, self.low, self.high)], type.element)]

    def check_axis(self, type: TensorType, axis: int) -> None:
        """Raises InvalidOperation where the axis has not enough elements for what is asked of it."""
        size, low, high = type.dims[axis], self.low[axis], self.high[axis]
        if self.mode == "constant":
            if isinstance(size, int) and size + low + high < 0:
                raise InvalidOperation(f"cuts {-low - high} off axis {axis}, which has size {size}")
            return
        if low < 0 or high < 0:
            raise InvalidOperation(f'pads axis {axis} by {low} and {high} with mode "{self.mode}", expected no negative number')
        needed = (max(low, high) + 1 if self.mode == "reflect" else 1) if low or high else 0
        if isinstance(size, int) and size < needed:
            raise InvalidOperation(f'pads axis {axis} of size {size} by {low} and {high} with mode "{self.mode}", expected a size of at '
                                   f"least {needed}")

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        if not x.ndim:  # numpy.pad takes no rank-0 array
            return x
        cut = tuple(slice(max(-low, 0), size - max(-high, 0)) for low, high, size in zip(self.low, self.high, x.shape))
        width = [(max(low, 0), max(high, 0)) for low, high in zip(self.low, self.high)]
        if self.mode == "constant":
            return np.pad(x[cut], width, constant_values=x.dtype.type(self.value))
        return np.pad(x, width, mode=self.mode)  # type: ignore[call-overload]
