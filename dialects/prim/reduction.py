"""`prim` ops that combine or order elements along axes."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.arrays import Array, accumulation_dtype, sum_dtype
from gradopt.dialects.constraints import ANY_TENSOR, check_axes, check_axis, same_shape, tensor_type
from gradopt.ir.attribute_kinds import BOOLEAN, INTEGER, INTEGERS, enumeration
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
from gradopt.ir.sizes import Size
from gradopt.ir.types import I1, I64, FloatType, IntegerType, Type, tensor

KINDS = ("sum", "prod", "max", "min", "and", "or")


def identity_of(kind: str, element: Type) -> int | float:
    """The value that leaves the other operand of a reduction unchanged; for max and min the far end of the type."""
    if kind in ("sum", "or"):
        return 0
    if kind == "prod":
        return 1
    if isinstance(element, FloatType):
        return float("-inf") if kind == "max" else float("inf")
    assert isinstance(element, IntegerType)
    if element is I1:
        return int(kind in ("and", "min"))
    if kind == "and":
        return element.wrap(-1)
    low, high = (0, (1 << element.width) - 1) if element.is_unsigned else (-(1 << (element.width - 1)), (1 << (element.width - 1)) - 1)
    return low if kind == "max" else high


def check_kind(kind: str, element: Type) -> None:
    """Raises InvalidOperation where the element type has no such reduction."""
    logical = kind in ("and", "or")
    if (logical and not isinstance(element, IntegerType)) or (not logical and element is I1):
        raise InvalidOperation(f'cannot reduce {element.text} with kind "{kind}"')


class ReduceOp(Operation):
    """The elements along `axes` combined; those axes vanish. Over no elements it is the identity (0, 1, -inf or the least integer …).

    max and min give NaN where any element is NaN. Sums of 16-bit floats accumulate in f32, and long sums of f32
    so that the error does not grow with their length. The order of the additions is fixed by the shape alone.
    """

    __slots__ = ()
    name = "prim.reduce"
    x = operand(ANY_TENSOR)
    kind = attribute(enumeration(*KINDS))
    axes = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        check_kind(self.kind, type.element)
        gone = set(check_axes(self.axes, type.rank))
        return [tensor([size for axis, size in enumerate(type.dims) if axis not in gone], type.element)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        kind, axes = self.kind, tuple(self.axes)
        initial = identity_of(kind, tensor_type(self.x).element)
        function: Any
        if kind in ("and", "or"):
            function = np.bitwise_and if kind == "and" else np.bitwise_or
            return np.asarray(function.reduce(x, axis=axes, initial=x.dtype.type(initial)), dtype=x.dtype)
        wide = x.astype(accumulation_dtype(x.dtype), copy=False)
        if kind in ("sum", "prod"):
            function = np.add if kind == "sum" else np.multiply
            dtype = sum_dtype(wide.dtype) if kind == "sum" else wide.dtype
            return np.asarray(function.reduce(wide, axis=axes, dtype=dtype)).astype(x.dtype)
        function = np.maximum if kind == "max" else np.minimum
        return np.asarray(function.reduce(wide, axis=axes, initial=wide.dtype.type(initial))).astype(x.dtype)


class ArgReduceOp(Operation):
    """The index (i64) of the first largest or smallest element along `axis`, which vanishes and is not empty; the first NaN wins."""

    __slots__ = ()
    name = "prim.arg_reduce"
    x = operand(ANY_TENSOR)
    kind = attribute(enumeration("max", "min"))
    axis = attribute(INTEGER)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        axis = check_axis(self.axis, type.rank)
        if type.dims[axis] == 0:
            raise InvalidOperation(f"has no element along axis {axis} of {type.text}")
        return [tensor([size for position, size in enumerate(type.dims) if position != axis], I64)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        shape = x.shape[: self.axis] + x.shape[self.axis + 1:]
        if 0 in shape:
            return np.zeros(shape, np.int64)
        return np.asarray((np.argmax if self.kind == "max" else np.argmin)(x, axis=self.axis), dtype=np.int64)


class CumulativeOp(Operation):
    """Running sum, product, maximum or minimum along `axis`, from the front or (`reverse`) from the back.

    Element i combines elements 0…i, or with `exclusive` 0…i-1 (the identity first).
    """

    __slots__ = ()
    name = "prim.cumulative"
    x = operand(ANY_TENSOR)
    kind = attribute(enumeration("sum", "prod", "max", "min"))
    axis = attribute(INTEGER)
    reverse = attribute(BOOLEAN, default=False)
    exclusive = attribute(BOOLEAN, default=False)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        check_axis(self.axis, type.rank)
        check_kind(self.kind, type.element)
        return [type]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        function = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[self.kind]
        wide = np.moveaxis(x.astype(accumulation_dtype(x.dtype), copy=False), self.axis, 0)
        wide = wide[::-1] if self.reverse else wide
        if self.exclusive and wide.shape[0]:
            first = np.full_like(wide[:1], identity_of(self.kind, tensor_type(self.x).element))
            wide = np.concatenate([first, wide[:-1]])
        total = function.accumulate(wide, axis=0, dtype=wide.dtype) if wide.shape[0] else wide
        total = total[::-1] if self.reverse else total
        return np.moveaxis(total, 0, self.axis).astype(x.dtype)


class SortOp(Operation):
    """`key` sorted along `axis` (stably, NaN last also when `descending`), and each payload in the same order."""

    __slots__ = ()
    name = "prim.sort"
    key = operand(ANY_TENSOR)
    payload = variadic(ANY_TENSOR)
    axis = attribute(INTEGER)
    descending = attribute(BOOLEAN, default=False)
    outputs = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        check_axis(self.axis, tensor_type(self.key).rank)
        for value in self.payload:
            same_shape(key=self.key, payload=value)
        return [value.type for value in self._operands]

    def evaluate(self, key: Array, *payload: Array) -> tuple[Array, ...]:
        import numpy as np

        order = stable_order(key, self.axis, self.descending)
        return tuple(np.take_along_axis(value, order, self.axis) for value in (key, *payload))


def stable_order(key: Array, axis: int, descending: bool) -> Array:
    """The indices that sort `key` stably along an axis, NaN last."""
    import numpy as np

    if not descending:
        return np.argsort(key.astype(accumulation_dtype(key.dtype), copy=False), axis=axis, kind="stable")
    # descending and stable: sort the reversed key ascending, then reverse; NaN moves to the end by its own key
    wide = key.astype(accumulation_dtype(key.dtype), copy=False)
    backwards = np.flip(wide, axis)
    order = key.shape[axis] - 1 - np.flip(np.argsort(backwards, axis=axis, kind="stable"), axis)
    if wide.dtype.kind == "f":
        lost = np.take_along_axis(np.isnan(wide), order, axis)
        order = np.take_along_axis(order, np.argsort(lost, axis=axis, kind="stable"), axis)
        # NaNs keep their original order: they were listed first, in order, by the two flips
    return order


def without(dims: tuple[Size, ...], axis: int) -> list[Size]:
    """The sizes without one axis."""
    return [size for position, size in enumerate(dims) if position != axis]
