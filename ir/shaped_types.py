"""The builtin shaped types that our dialects do not compute with: unranked tensors, vectors, memrefs. They are read, kept and printed."""

from __future__ import annotations

from gradopt.ir.attributes import Attribute, IntegerAttr
from gradopt.ir.types import I64, RankedType, Type

__all__ = ["MemRefType", "UnrankedMemRefType", "UnrankedTensorType", "VectorType"]


class UnrankedTensorType(Type):
    """`tensor<*xf32>`."""

    __slots__ = ("element",)

    def __init__(self, element: Type) -> None:
        self.element = element
        self._set(element)

    def spell(self) -> str:
        return f"tensor<*x{self.element.text}>"


class VectorType(RankedType):
    """`vector<4x[8]xf32>`; `scalable` marks the bracketed dimensions."""

    __slots__ = ("scalable",)

    def __init__(self, shape: tuple[int, ...], element: Type, scalable: tuple[bool, ...] = ()) -> None:
        self.shape, self.element = shape, element
        self.scalable = scalable or (False,) * len(shape)
        self._set(shape, element, self.scalable)

    def spell(self) -> str:
        dims = "".join((f"[{size}]" if flag else str(size)) + "x" for size, flag in zip(self.shape, self.scalable))
        return f"vector<{dims}{self.element.text}>"


class MemRefType(RankedType):
    """`memref<4x?xf32, layout, space>`."""

    __slots__ = ("layout", "space")

    def __init__(self, shape: tuple[int | None, ...], element: Type, layout: Attribute | None = None,
                 space: Attribute | None = None) -> None:
        self.shape, self.element, self.layout, self.space = shape, element, layout, space
        self._set(shape, element, layout, space)

    def spell(self) -> str:
        dims = "".join(("?" if size is None else str(size)) + "x" for size in self.shape)
        rest = "".join(f", {part_text(part)}" for part in (self.layout, self.space) if part is not None)
        return f"memref<{dims}{self.element.text}{rest}>"


def part_text(attribute: Attribute) -> str:
    """A memory space or layout inside a type: an i64 prints without its type."""
    if isinstance(attribute, IntegerAttr) and attribute.type is I64:
        return str(attribute.value)
    return attribute.text


class UnrankedMemRefType(Type):
    """`memref<*xf32, space>`."""

    __slots__ = ("element", "space")

    def __init__(self, element: Type, space: Attribute | None = None) -> None:
        self.element, self.space = element, space
        self._set(element, space)

    def spell(self) -> str:
        space = f", {part_text(self.space)}" if self.space is not None else ""
        return f"memref<*x{self.element.text}{space}>"
