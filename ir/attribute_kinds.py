"""What an attribute field of a declaration may hold: its name in messages, how it is read from the IR, how it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from gradopt.ir.attributes import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
)
from gradopt.ir.types import Type, literal

__all__ = ["ANY_ATTRIBUTE", "BOOLEAN", "ELEMENTS", "FLOAT", "INTEGER", "INTEGERS", "PAIRS", "STRING", "STRINGS", "SYMBOL_REFERENCE",
           "TYPE", "UNIT", "AttributeKind", "enumeration"]

T = TypeVar("T")


class AttributeKind(Generic[T]):
    """What an attribute field holds: a name for messages, `read` from the IR (None where it does not fit) and `make` back."""

    def __init__(self, name: str, read: Callable[[Attribute], T | None], make: Callable[[Any], Attribute] = literal,
                 values: Sequence[str] = ()) -> None:
        self.name, self.read, self.make, self.values = name, read, make, tuple(values)


def _integer(attribute: Attribute) -> int | None:
    return attribute.value if isinstance(attribute, IntegerAttr) and attribute.type.text != "i1" else None


def _float(attribute: Attribute) -> float | None:
    return attribute.value if isinstance(attribute, FloatAttr) else None


def _boolean(attribute: Attribute) -> bool | None:
    return bool(attribute.value) if isinstance(attribute, IntegerAttr) and attribute.type.text == "i1" else None


def _string(attribute: Attribute) -> str | None:
    return attribute.value if isinstance(attribute, StringAttr) else None


def _integers(attribute: Attribute) -> tuple[int, ...] | None:
    if isinstance(attribute, DenseArrayAttr) and attribute.element.is_integer:
        return attribute.values
    return _list_of(_integer)(attribute)


def _list_of(read: Callable[[Attribute], T | None]) -> Callable[[Attribute], tuple[T, ...] | None]:
    def read_all(attribute: Attribute) -> tuple[T, ...] | None:
        if not isinstance(attribute, ArrayAttr):
            return None
        items = [read(element) for element in attribute.elements]
        return None if any(item is None for item in items) else tuple(items)  # type: ignore[arg-type]
    return read_all


def _self(kind: type[T]) -> Callable[[Attribute], T | None]:
    return lambda attribute: attribute if isinstance(attribute, kind) else None


INTEGER: AttributeKind[int] = AttributeKind("an integer", _integer)
FLOAT: AttributeKind[float] = AttributeKind("a float", _float, lambda value: literal(float(value)))
BOOLEAN: AttributeKind[bool] = AttributeKind("true or false", _boolean, lambda value: literal(bool(value)))
STRING: AttributeKind[str] = AttributeKind("a string", _string)
INTEGERS: AttributeKind[tuple[int, ...]] = AttributeKind("a list of integers", _integers)
STRINGS: AttributeKind[tuple[str, ...]] = AttributeKind("a list of strings", _list_of(_string))
PAIRS: AttributeKind[tuple[tuple[int, ...], ...]] = AttributeKind(
    "a list of lists of integers", _list_of(_integers))
SYMBOL_REFERENCE: AttributeKind[SymbolRefAttr] = AttributeKind(
    "a symbol", _self(SymbolRefAttr), lambda value: SymbolRefAttr(value) if isinstance(value, str) else value)
ELEMENTS: AttributeKind[DenseElementsAttr] = AttributeKind("dense elements", _self(DenseElementsAttr))
TYPE: AttributeKind[Type] = AttributeKind("a type", lambda a: a.type if isinstance(a, TypeAttr) else None)
UNIT: AttributeKind[bool] = AttributeKind(
    "a unit attribute", lambda a: True if isinstance(a, UnitAttr) else None, lambda value: UnitAttr())
ANY_ATTRIBUTE: AttributeKind[Attribute] = AttributeKind("an attribute", lambda attribute: attribute)


def enumeration(*values: str) -> AttributeKind[str]:
    """One of the given strings."""
    name = "one of " + ", ".join(f'"{value}"' for value in values)
    return AttributeKind(name, lambda a: a.value if isinstance(a, StringAttr) and a.value in values else None,
                         values=values)
