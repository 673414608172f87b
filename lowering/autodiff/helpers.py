"""Small builders that the derivative rules of `prim` share. Everything works for dynamic sizes too."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.builder import Builder
from gradopt.ir.sizes import UNKNOWN, Size
from gradopt.ir.types import BF16, F16, F32, I64, FloatType, IntegerType, TensorType, Type, tensor
from gradopt.ir.values import Value

__all__ = ["accumulation_element", "cast_to", "element_bytes", "expand_axes", "expand_like", "full_like", "full_of", "iota_like",
           "match_type", "not_a_number", "reduce_sum", "scalar", "size_operands", "size_value", "zeros_like"]


def element_bytes(value: float | int, element: Type) -> bytes:
    """One element of a constant as little-endian bytes."""
    if isinstance(element, FloatType):
        return element.encode(float(value)).to_bytes(element.storage_bytes, "little")
    assert isinstance(element, IntegerType)
    mask = (1 << (8 * element.storage_bytes)) - 1
    return (int(value) & mask).to_bytes(element.storage_bytes, "little")


def scalar(b: Builder, value: float | int, element: Type) -> Value:
    """A rank-0 constant."""
    return constant(b, value, tensor((), element))


def constant(b: Builder, value: float | int, type: TensorType) -> Value:
    """A constant of a static type whose elements are all `value`."""
    bare = TensorType(type.shape, type.element)
    return b.create("prim.constant", value=DenseElementsAttr(bare, element_bytes(value, type.element), True)).results[0]


def size_value(b: Builder, value: Value, axis: int) -> Value:
    """The size of a value along an axis as tensor<i64>: a constant where it is static."""
    size = tensor_type(value).dims[axis]
    return scalar(b, size, I64) if isinstance(size, int) else b.create("prim.dim", [value], axis=axis).results[0]


def size_operands(b: Builder, like: Value, axes: Sequence[int] | None = None) -> list[Value]:
    """The `sizes…` operands of an op whose result has the sizes of `like` (along `axes`): one for each that only run time
    knows."""
    dims = tensor_type(like).dims
    chosen = range(len(dims)) if axes is None else axes
    return [b.create("prim.dim", [like], axis=axis).results[0] for axis in chosen if dims[axis] is UNKNOWN]


def full_like(b: Builder, like: Value, value: float | int, element: Type | None = None) -> Value:
    """`value` everywhere in the shape of `like` (in its element type unless another is given)."""
    type = tensor_type(like)
    target = type if element is None else type.with_element(element)
    if type.is_static:
        return constant(b, value, target)
    return expand_like(b, scalar(b, value, target.element), like)


def full_of(b: Builder, value: float | int, dims: Sequence[Size], sizes: Sequence[Value], element: Type) -> Value:
    """`value` everywhere in a shape; `sizes` holds one operand for each UNKNOWN of `dims`."""
    target = tensor(dims, element)
    if target.is_static:
        return constant(b, value, target)
    return b.create("prim.expand", [scalar(b, value, element), *sizes], [target], axes=list(range(len(dims)))).results[0]


def zeros_like(b: Builder, like: Value) -> Value:
    """Zeros of the type of `like`."""
    return full_like(b, like, 0)


def expand_like(b: Builder, x: Value, like: Value) -> Value:
    """A rank-0 value repeated in the shape of `like`."""
    type = tensor_type(like)
    if not type.rank:
        return x
    target = type.with_element(tensor_type(x).element)
    return b.create("prim.expand", [x, *size_operands(b, like)], [target], axes=list(range(type.rank))).results[0]


def expand_axes(b: Builder, x: Value, like: Value, axes: Sequence[int]) -> Value:
    """`x` with the shape of `like`, of which it lacks `axes` (what `reduce` over `axes` took away)."""
    if not axes:
        return x
    target = tensor_type(like).with_element(tensor_type(x).element)
    return b.create("prim.expand", [x, *size_operands(b, like)], [target], axes=sorted(axes)).results[0]


def reduce_sum(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """The sum over axes; `x` itself for none."""
    return b.create("prim.reduce", [x], kind="sum", axes=sorted(axes)).results[0] if axes else x


def cast_to(b: Builder, x: Value, element: Type) -> Value:
    """`x` in another element type."""
    type = tensor_type(x)
    return x if type.element is element else b.create("prim.cast", [x], [type.with_element(element)]).results[0]


def iota_like(b: Builder, like: Value, axis: int, element: Type = I64) -> Value:
    """Each element's index along `axis`, in the shape of `like`."""
    target = tensor_type(like).with_element(element)
    return b.create("prim.iota", size_operands(b, like), [target], axis=axis).results[0]


def not_a_number(b: Builder, x: Value) -> Value:
    """i1: where a float is NaN."""
    return b.create("prim.cmp", [x, x], predicate="ne").results[0]


def logistic_slope(b: Builder, x: Value) -> Value:
    """The derivative of the logistic function: e / (1 + e)**2 with e = e**-|x|, which keeps both tails.

    -|x| is a select, so that the derivatives at 0 are those of a smooth function."""
    below = b.create("prim.cmp", [x, zeros_like(b, x)], predicate="le").results[0]
    small = b.prim.exp(b.prim.select(below, x, b.prim.neg(x)))
    total = b.prim.add(small, full_like(b, x, 1))
    return b.prim.div(small, b.prim.mul(total, total))


def tanh_slope(b: Builder, x: Value) -> Value:
    """The derivative 1 - tanh(x)**2 of tanh as 4 times the logistic function's at 2 x: the difference loses its tails."""
    return b.prim.mul(logistic_slope(b, b.prim.add(x, x)), full_like(b, x, 4))


def accumulation_element(element: Type) -> Type:
    """f32 for 16-bit floats, the element type itself otherwise."""
    return F32 if element is F16 or element is BF16 else element


def match_type(b: Builder, x: Value, type: Type) -> Value:
    """`x` with exactly this type: a shape_cast where only the names or what is known of the sizes differ."""
    return x if x.type is type else b.create("prim.shape_cast", [x], [type]).results[0]
