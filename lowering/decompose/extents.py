"""Sizes that decompositions compute with: what the type says, and the run-time value where it is needed.

    batch, channels, height, width = extents_of(b, x)
    flat = reshape(b, x, [batch * channels, height, width])     # prim.reshape with a `sizes` operand for each unknown
    size
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.sizes import UNKNOWN, Size, add, floordiv, multiply
from gradopt.ir.types import I64, Type, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import scalar

__all__ = ["Extent", "expand", "extents_of", "iota", "permute", "reshape", "result_extents", "static"]


class Extent:
    """One size: `size` as a type says it, and `value` as tensor<i64>, built when first asked for."""

    def __init__(self, b: Builder, size: Size, build: Callable[[], Value] | None = None) -> None:
        self.b, self.size, self._build = b, size, build
        self._value: Value | None = None

    @property
    def value(self) -> Value:
        """The size at run time."""
        if self._value is None:
            if isinstance(self.size, int):
                self._value = scalar(self.b, self.size, I64)
            else:
                assert self._build is not None
                self._value = self._build()
        return self._value

    def combine(self, other: Extent | int, rule: Callable[[Size, Size], Size], op: str) -> Extent:
        """The extent `rule(self, other)`, at run time `prim.<op>`."""
        right = other if isinstance(other, Extent) else Extent(self.b, other)
        return Extent(self.b, rule(self.size, right.size),
                      lambda: self.b.create(f"prim.{op}", [self.value, right.value]).results[0])

    def __add__(self, other: Extent | int) -> Extent:
        return self.combine(other, add, "add")

    def __mul__(self, other: Extent | int) -> Extent:
        return self.combine(other, multiply, "mul")

    def __floordiv__(self, other: Extent | int) -> Extent:
        return self.combine(other, floordiv, "div")  # sizes are not negative, so rounding towards zero is the same

    def least(self, other: Extent) -> Extent:
        """The smaller of both."""
        def rule(a: Size, b: Size) -> Size:
            return min(a, b) if isinstance(a, int) and isinstance(b, int) else UNKNOWN
        return self.combine(other, rule, "min")

    def typed(self, size: Size) -> Extent:
        """The same extent with what a type says of it."""
        return Extent(self.b, size, lambda: self.value)


def static(b: Builder, *sizes: int) -> list[Extent]:
    """Known sizes."""
    return [Extent(b, size) for size in sizes]


def extents_of(b: Builder, x: Value) -> list[Extent]:
    """The sizes of a value."""
    def read(axis: int) -> Callable[[], Value]:
        return lambda: b.create("prim.dim", [x], axis=axis).results[0]
    return [Extent(b, size, read(axis)) for axis, size in enumerate(tensor_type(x).dims)]


def result_extents(b: Builder, op: Any) -> list[Extent]:
    """The sizes of an op's first result from its type and its `sizes` operands."""
    given = iter(op.sizes)

    def known(value: Value) -> Callable[[], Value]:
        return lambda: value
    return [Extent(b, size, known(next(given)) if size is UNKNOWN else None) for size in tensor_type(op.results[0]).dims]


def target(extents: Sequence[Extent], element: Type) -> tuple[list[Value], list[Type]]:
    """(the `sizes` operands, [the result type]) for a shape."""
    return [e.value for e in extents if e.size is UNKNOWN], [tensor([e.size for e in extents], element)]


def reshape(b: Builder, x: Value, extents: Sequence[Extent]) -> Value:
    """`x` in row-major order with another shape."""
    sizes, types = target(extents, tensor_type(x).element)
    return x if types[0] is x.type and not sizes else b.create("prim.reshape", [x, *sizes], types).results[0]


def expand(b: Builder, x: Value, extents: Sequence[Extent], axes: Sequence[int]) -> Value:
    """`x` with the shape `extents`, repeated along the axes that it lacks or where it has size 1."""
    if not axes:
        return x
    sizes, types = target(extents, tensor_type(x).element)
    return b.create("prim.expand", [x, *sizes], types, axes=sorted(axes)).results[0]


def along(b: Builder, vector: Value, extents: Sequence[Extent], axis: int) -> Value:
    """A vector repeated so that it lies along one axis of a shape."""
    return expand(b, vector, extents, [other for other in range(len(extents)) if other != axis])


def iota(b: Builder, extents: Sequence[Extent], axis: int, element: Type = I64) -> Value:
    """Each element's index along an axis of a shape."""
    sizes, types = target(extents, element)
    return b.create("prim.iota", sizes, types, axis=axis).results[0]


def permute(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """`x` with its axes in another order; `x` itself where it is the same."""
    return x if list(axes) == list(range(len(axes))) else b.create("prim.permute", [x], axes=list(axes)).results[0]
