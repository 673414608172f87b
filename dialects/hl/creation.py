"""`hl` ops that make tensors, and those that change an element type or read a size."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.arrays import Array, numpy_dtype, to_array
from gradopt.dialects.constraints import ANY_TENSOR, INTEGER_TENSOR, SCALAR_I64, check_axis, shape_text, tensor_type
from gradopt.dialects.prim.data import KEY, check_sizes, result_shape, threefry2x32
from gradopt.dialects.prim.data import DimOp as PrimDimOp
from gradopt.dialects.prim.data import ShapeCastOp as PrimShapeCastOp
from gradopt.dialects.prim.elementwise import BitcastOp as PrimBitcastOp
from gradopt.dialects.prim.elementwise import CastOp as PrimCastOp
from gradopt.ir.attribute_kinds import ELEMENTS, INTEGER
from gradopt.ir.declare import (
    CONSTANT,
    PURE,
    InvalidOperation,
    attribute,
    operand,
    result,
    variadic,
)
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, shapes_differ
from gradopt.ir.types import F16, FloatType, IntegerType, Type, tensor


class ConstantOp(Operation):
    """The elements of `value`."""

    __slots__ = ()
    name = "hl.constant"
    value = attribute(ELEMENTS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE, CONSTANT})

    def infer(self) -> list[Type]:
        return [self.value.type]

    def evaluate(self) -> Array:
        return to_array(self.value)


class Creation(Operation):
    """Base: the shape and element type come from the result type, `sizes` gives its unknown sizes."""

    __slots__ = ()
    sizes = variadic(SCALAR_I64)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        check_sizes(self, len(self.sizes))
        element = tensor_type(self.results[0]).element
        if not isinstance(element, (FloatType, IntegerType)):
            raise InvalidOperation(f"has result element type {element.text}, expected an integer or float type")

    def shape_of(self, sizes: tuple[Array, ...]) -> tuple[tuple[int, ...], Any]:
        """(shape, dtype) at run time."""
        return result_shape(self, sizes), numpy_dtype(tensor_type(self.results[0]).element)


class ZerosOp(Creation):
    """0 everywhere."""

    __slots__ = ()
    name = "hl.zeros"

    def evaluate(self, *sizes: Array) -> Array:
        import numpy as np

        return np.zeros(*self.shape_of(sizes))


class OnesOp(Creation):
    """1 everywhere."""

    __slots__ = ()
    name = "hl.ones"

    def evaluate(self, *sizes: Array) -> Array:
        import numpy as np

        return np.ones(*self.shape_of(sizes))


def check_scalar(op: Operation, value: Any) -> None:
    """Raises InvalidOperation unless a fill value is a rank-0 tensor of the result's element type."""
    type, target = tensor_type(value), tensor_type(op.results[0])
    if type.rank or type.element is not target.element:
        raise InvalidOperation(f"fills {target.text} with {type.text}, expected {tensor((), target.element).text}")


class FullOp(Operation):
    """`value` everywhere. Its derivative is the sum of the cotangent."""

    __slots__ = ()
    name = "hl.full"
    value = operand(ANY_TENSOR)
    sizes = variadic(SCALAR_I64)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        check_sizes(self, len(self.sizes))
        check_scalar(self, self.value)

    def evaluate(self, value: Array, *sizes: Array) -> Array:
        import numpy as np

        return np.full(result_shape(self, sizes), value, value.dtype)


class Like(Operation):
    """Base: the result has the type of `x`."""

    __slots__ = ()
    x = operand(ANY_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})
    fill = 0

    def infer(self) -> list[Type]:
        return [self.x.type]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.full(x.shape, self.fill, x.dtype)


class ZerosLikeOp(Like):
    """0 everywhere in the shape and element type of `x`."""

    __slots__ = ()
    name = "hl.zeros_like"


class OnesLikeOp(Like):
    """1 everywhere in the shape and element type of `x`."""

    __slots__ = ()
    name = "hl.ones_like"
    fill = 1


class FullLikeOp(Like):
    """`value`, a rank-0 tensor, everywhere in the shape of `x`."""

    __slots__ = ()
    name = "hl.full_like"
    value = operand(ANY_TENSOR)

    def verify(self) -> None:
        check_scalar(self, self.value)

    def evaluate(self, x: Array, value: Array) -> Array:  # type: ignore[override]
        import numpy as np

        return np.full(x.shape, value, x.dtype)


class IotaOp(Creation):
    """Each element is its own index along `axis`."""

    __slots__ = ()
    name = "hl.iota"
    axis = attribute(INTEGER)

    def verify(self) -> None:
        super().verify()
        check_axis(self.axis, tensor_type(self.results[0]).rank)

    def evaluate(self, *sizes: Array) -> Array:
        import numpy as np

        shape, dtype = self.shape_of(sizes)
        return np.indices(shape)[self.axis].astype(dtype)


class EyeOp(Creation):
    """1 on the diagonal of the last two axes, 0 elsewhere."""

    __slots__ = ()
    name = "hl.eye"

    def verify(self) -> None:
        super().verify()
        if tensor_type(self.results[0]).rank < 2:
            raise InvalidOperation(f"gives {self.results[0].type.text}, expected a rank of at least 2")

    def evaluate(self, *sizes: Array) -> Array:
        import numpy as np

        shape, dtype = self.shape_of(sizes)
        return np.broadcast_to(np.eye(*shape[-2:], dtype=dtype), shape)


class Triangle(Operation):
    """Base of tril and triu."""

    __slots__ = ()
    x = operand(ANY_TENSOR)
    k = attribute(INTEGER, default=0)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        if tensor_type(self.x).rank < 2:
            raise InvalidOperation(f"takes matrices in the last two axes, found {self.x.type.text}")
        return [self.x.type]


class TrilOp(Triangle):
    """`x` with zeros above diagonal `k` of the last two axes (0 is the main one, 1 the one above it)."""

    __slots__ = ()
    name = "hl.tril"

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.tril(x, self.k)


class TriuOp(Triangle):
    """`x` with zeros below diagonal `k` of the last two axes (0 is the main one, 1 the one above it)."""

    __slots__ = ()
    name = "hl.triu"

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.triu(x, self.k)


class OneHotOp(Operation):
    """1 where the index along the new axis `axis` is the element of `indices`, 0 elsewhere; all 0 for an index outside [0,
    depth)."""

    __slots__ = ()
    name = "hl.one_hot"
    indices = operand(INTEGER_TENSOR)
    depth = attribute(INTEGER)
    axis = attribute(INTEGER, default=-1)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def normal_axis(self) -> int:
        """The place of the new axis in the result. Raises InvalidOperation."""
        return check_axis(self.axis, tensor_type(self.indices).rank + 1)

    def known_dims(self) -> list[Size]:
        """The sizes of the result, whose element type is free. Raises InvalidOperation."""
        dims = list(tensor_type(self.indices).dims)
        if self.depth < 0:
            raise InvalidOperation(f"attribute 'depth' is {self.depth}, expected no negative value")
        dims.insert(self.normal_axis, self.depth)
        return dims

    def verify(self) -> None:
        dims = self.known_dims()
        target = tensor_type(self.results[0])
        if shapes_differ(target.dims, dims):
            raise InvalidOperation(f"has result shape {shape_text(target)}, expected {shape_text(tensor(dims, target.element))}")

    def evaluate(self, indices: Array) -> Array:
        import numpy as np

        axis = self.normal_axis
        counter = np.arange(self.depth).reshape([-1 if place == axis else 1 for place in range(indices.ndim + 1)])
        return (np.expand_dims(indices, axis) == counter).astype(numpy_dtype(tensor_type(self.results[0]).element))


# element type -> random bits that a uniform number in [0, 1) uses: as many as its fraction holds
UNIFORM_BITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


class Random(Operation):
    """Base of the random numbers: counter-based (Threefry-2x32, as prim.random_bits), the same bits on every machine."""

    __slots__ = ()
    key = operand(KEY)
    sizes = variadic(SCALAR_I64)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        check_sizes(self, len(self.sizes))
        element = tensor_type(self.results[0]).element
        if element.text not in UNIFORM_BITS:
            raise InvalidOperation(f"gives {element.text}, expected one of {', '.join(UNIFORM_BITS)}")

    def whole_numbers(self, key: Array, sizes: tuple[Array, ...], bits: int) -> Array:
        """Random integers in [0, 2**bits): the upper bits of ui64 for f64, of ui32 for the others."""
        import numpy as np

        shape, wide = result_shape(self, sizes), tensor_type(self.results[0]).element.text == "f64"
        count = int(np.prod(shape, dtype=np.int64))
        blocks = np.arange(count if wide else (count + 1) // 2, dtype=np.uint64)
        first, second = threefry2x32(key, blocks.astype(np.uint32), (blocks >> np.uint64(32)).astype(np.uint32))
        if wide:
            return ((first.astype(np.uint64) | second.astype(np.uint64) << np.uint64(32)) >> np.uint64(64 - bits)).reshape(shape)
        return (np.stack([first, second], axis=1).reshape(-1)[:count] >> np.uint32(32 - bits)).reshape(shape)


class RandomUniformOp(Random):
    """Uniform numbers in [0, 1): the upper bits of a random word, as many as the type's fraction holds, over their number."""

    __slots__ = ()
    name = "hl.random_uniform"

    def evaluate(self, key: Array, *sizes: Array) -> Array:
        import numpy as np

        element = tensor_type(self.results[0]).element
        bits = UNIFORM_BITS[element.text]
        wide = np.float64(self.whole_numbers(key, sizes, bits)) * 2.0 ** -bits
        return np.asarray(wide.astype(np.float32) if element is not F16 and bits == 8 else wide).astype(numpy_dtype(element))


class RandomNormalOp(Random):
    """Normal numbers of mean 0 and variance 1: sqrt(2) erfinv(v) of the uniform numbers v = (2 k + 1) / 2**b - 1, k < 2**b,
    which never reach -1 or 1 (b is 52 for f64, else 23)."""

    __slots__ = ()
    name = "hl.random_normal"

    def evaluate(self, key: Array, *sizes: Array) -> Array:
        import numpy as np
        from gradopt.dialects.prim.elementwise import UNARY

        element = tensor_type(self.results[0]).element
        bits = NORMAL_BITS[element.text]
        work = np.float64 if element.text == "f64" else np.float32
        centred = ((2 * np.float64(self.whole_numbers(key, sizes, bits)) + 1) * 2.0 ** -bits - 1).astype(work)
        return (UNARY["erfinv"][2](np, centred) * work(np.sqrt(2))).astype(numpy_dtype(element))


NORMAL_BITS = {"f16": 23, "bf16": 23, "f32": 23, "f64": 52}


class CastOp(PrimCastOp):
    """`x` converted to the element type of the result: float to integer truncates towards zero and saturates, NaN gives 0;
    to i1 it is `x != 0`; integers wrap; floats round to nearest even. A cast to or from integers stops the derivative."""

    __slots__ = ()
    name = "hl.cast"


class BitcastOp(PrimBitcastOp):
    """The bits of `x` read as the element type of the result, which has the same width. It has no derivative."""

    __slots__ = ()
    name = "hl.bitcast"


class ShapeCastOp(PrimShapeCastOp):
    """`x` with the sizes of the result type, which are checked at run time where they are not provable."""

    __slots__ = ()
    name = "hl.shape_cast"


class DimOp(PrimDimOp):
    """The size of `x` along `axis`, as tensor<i64>."""

    __slots__ = ()
    name = "hl.dim"
