"""`prim` ops that make or mark data: constants, counters, random bits, sizes, and markers that are the identity at run time."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.arrays import Array, numpy_dtype, to_array
from gradopt.dialects.constraints import ANY_TENSOR, BOOL_TENSOR, SCALAR_I64, Constraint, check_axis, tensor_type
from gradopt.dialects.prim.elementwise import check_same_shape_as_operand
from gradopt.ir.attribute_kinds import ELEMENTS, INTEGER, STRING
from gradopt.ir.declare import (
    CONSTANT,
    PURE,
    InvalidOperation,
    attribute,
    operand,
    result,
    variadic,
    variadic_result,
)
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import UNKNOWN
from gradopt.ir.types import I64, UI32, FloatType, IntegerType, TensorType, Type, tensor

KEY = Constraint("tensor<2xui32>", lambda type: isinstance(type, TensorType) and type.shape == (2,) and type.element is UI32)


def result_shape(op: Operation, sizes: Sequence[Array]) -> tuple[int, ...]:
    """The result's shape at run time: static sizes, and the `sizes…` operands for the rest, in order.

    Named sizes that no operand gives are not known here, so such an op is bound before it is interpreted."""
    given = iter(sizes)
    type = tensor_type(op.results[0])
    return tuple(size if isinstance(size, int) else int(next(given)) for size in type.dims)


def check_sizes(op: Operation, count: int) -> None:
    """Raises InvalidOperation unless there is one `sizes` operand for each `"_"` of the result type."""
    unknown = sum(1 for size in tensor_type(op.results[0]).dims if size is UNKNOWN)
    if count != unknown:
        raise InvalidOperation(f"has {count} size operands, expected {unknown}: one for each unknown size of "
                               f"{op.results[0].type.text}")


class ConstantOp(Operation):
    """The elements of `value`."""

    __slots__ = ()
    name = "prim.constant"
    value = attribute(ELEMENTS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE, CONSTANT})

    def infer(self) -> list[Type]:
        return [self.value.type]

    def evaluate(self) -> Array:
        return to_array(self.value)


class IotaOp(Operation):
    """Each element is its own index along `axis`, in the element type of the result."""

    __slots__ = ()
    name = "prim.iota"
    sizes = variadic(SCALAR_I64)
    axis = attribute(INTEGER)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        type = tensor_type(self.results[0])
        check_axis(self.axis, type.rank)
        check_sizes(self, len(self._operands))
        if not isinstance(type.element, (IntegerType, FloatType)):
            raise InvalidOperation(f"counts in {type.element.text}, expected an integer or float type")

    def evaluate(self, *sizes: Array) -> Array:
        import numpy as np

        shape = result_shape(self, sizes)
        counter = np.arange(shape[self.axis]).astype(numpy_dtype(tensor_type(self.results[0]).element))
        spread = [1] * len(shape)
        spread[self.axis] = shape[self.axis]
        return np.broadcast_to(counter.reshape(spread), shape)


class RandomBitsOp(Operation):
    """Random bits from a key by Threefry-2x32 with 20 rounds (Salmon et al. 2011), ui32 or ui64.

    Element i (in row-major order) of a ui64 result is the block of counter (low, high) = (i, i >> 32), first word in the
    low half; a ui32 result takes the words of block i // 2 in turn. The same numbers on every machine, whatever the thread count.
    """

    __slots__ = ()
    name = "prim.random_bits"
    key = operand(KEY)
    sizes = variadic(SCALAR_I64)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        element = tensor_type(self.results[0]).element
        if element.text not in ("ui32", "ui64"):
            raise InvalidOperation(f"gives {element.text}, expected ui32 or ui64")
        check_sizes(self, len(self._operands) - 1)

    def evaluate(self, key: Array, *sizes: Array) -> Array:
        import numpy as np

        shape = result_shape(self, sizes)
        wide = tensor_type(self.results[0]).element.text == "ui64"
        count = int(np.prod(shape, dtype=np.int64))
        blocks = np.arange(count if wide else (count + 1) // 2, dtype=np.uint64)
        first, second = threefry2x32(key, blocks.astype(np.uint32), (blocks >> np.uint64(32)).astype(np.uint32))
        if wide:
            bits = first.astype(np.uint64) | second.astype(np.uint64) << np.uint64(32)
        else:
            bits = np.stack([first, second], axis=1).reshape(-1)[:count]
        return bits.reshape(shape)


THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry2x32(key: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Threefry-2x32, 20 rounds, of ui32 counter words."""
    import numpy as np

    keys = (np.uint32(key[0]), np.uint32(key[1]), np.uint32(key[0]) ^ np.uint32(key[1]) ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        first, second = first + keys[0], second + keys[1]
        for group in range(5):
            for rotation in THREEFRY_ROTATIONS[group % 2]:
                first = first + second
                second = (second << np.uint32(rotation) | second >> np.uint32(32 - rotation)) ^ first
            first = first + keys[(group + 1) % 3]
            second = second + keys[(group + 2) % 3] + np.uint32(group + 1)
    return first, second


class DimOp(Operation):
    """The size of `x` along `axis`, as tensor<i64>."""

    __slots__ = ()
    name = "prim.dim"
    x = operand(ANY_TENSOR)
    axis = attribute(INTEGER)
    result = result(SCALAR_I64)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        check_axis(self.axis, tensor_type(self.x).rank)
        return [tensor((), I64)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.asarray(x.shape[self.axis], dtype=np.int64)


class ShapeCastOp(Operation):
    """`x` with the sizes of the result type, which are checked at run time where they are not provable."""

    __slots__ = ()
    name = "prim.shape_cast"
    x = operand(ANY_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        check_same_shape_as_operand(self, self.x.type, self.results[0].type)

    def evaluate(self, x: Array) -> Array:
        for axis, size in enumerate(tensor_type(self.results[0]).shape):
            if size is not None and x.shape[axis] != size:
                raise ValueError(f"'{self.name}' op: size {x.shape[axis]} of dimension {axis}, expected {size}")
        return x


class IdentityOp(Operation):
    """Base of the markers: the value of the operand."""

    __slots__ = ()
    x = operand(ANY_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        return [self.x.type]

    def evaluate(self, x: Array) -> Array:
        return x


class StopGradientOp(IdentityOp):
    """`x`, through which no derivative passes."""

    __slots__ = ()
    name = "prim.stop_gradient"


class ContiguousOp(IdentityOp):
    """`x`, stored row-major in a buffer of its own."""

    __slots__ = ()
    name = "prim.contiguous"


class CopyOp(IdentityOp):
    """`x` on the device of that name (one machine has one memory, so it is a copy)."""

    __slots__ = ()
    name = "prim.copy"
    device = attribute(STRING, optional=True)


class BarrierOp(Operation):
    """Its operands, across which nothing is fused, merged or moved."""

    __slots__ = ()
    name = "prim.barrier"
    values = variadic(ANY_TENSOR)
    outputs = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        return [value.type for value in self._operands]

    def evaluate(self, *values: Array) -> tuple[Array, ...]:
        return values


class CheckOp(Operation):
    """A run-time error with `message` where any element of `cond` is false; `values` are shown with it."""

    __slots__ = ()
    name = "prim.check"
    cond = operand(BOOL_TENSOR)
    values = variadic(ANY_TENSOR)
    message = attribute(STRING)

    def evaluate(self, cond: Array, *values: Array) -> tuple[Array, ...]:
        if not cond.all():
            raise ValueError(self.message + "".join(f", {value}" for value in values))
        return ()
