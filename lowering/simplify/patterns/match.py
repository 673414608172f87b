"""What patterns ask of values and ops."""

from __future__ import annotations

import struct

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.declare import CONSTANT
from gradopt.ir.operation import Operation
from gradopt.ir.types import FloatType, IntegerType, TensorType, Type
from gradopt.ir.values import OperationResult, Value

__all__ = ["defined_by", "element_of", "is_float", "is_integer", "is_static", "uniform"]

COPIES = frozenset({"prim.expand", "prim.reshape", "prim.permute", "prim.flip", "hl.broadcast_to", "hl.reshape"})
LIMIT = 8  # how many views are looked through


def defined_by(value: Value, *names: str) -> Operation | None:
    """The op that defines the value if it has one of these names."""
    if isinstance(value, OperationResult) and value.owner.name in names:
        return value.owner
    return None


def element_of(value: Value) -> Type:
    """The element type of a tensor value."""
    return tensor_type(value).element


def is_float(value: Value) -> bool:
    """True for a tensor of floats."""
    return isinstance(value.type, TensorType) and isinstance(value.type.element, FloatType)


def is_integer(value: Value) -> bool:
    """True for a tensor of integers (i1 included)."""
    return isinstance(value.type, TensorType) and isinstance(value.type.element, IntegerType)


def is_static(*values: Value) -> bool:
    """True if all sizes of all values are known."""
    return all(isinstance(value.type, TensorType) and value.type.is_static for value in values)


def uniform(value: Value) -> int | float | None:
    """The number that all elements are, where a constant says so (also through a few views); None otherwise."""
    for _ in range(LIMIT):
        if not isinstance(value, OperationResult):
            return None
        op = value.owner
        if CONSTANT in op.definition.traits:
            elements = op.properties.get("value")
            return splat_number(elements) if isinstance(elements, DenseElementsAttr) else None
        if op.name not in COPIES:
            return None
        value = op._operands[0]
    return None


def splat_number(elements: DenseElementsAttr) -> int | float | None:
    """The number of a splat; None for other elements, for none at all, and for element types that are not numbers."""
    if not elements.is_splat or not elements.data:
        return None
    element = elements.type.element
    if isinstance(element, IntegerType):
        return element.wrap(int.from_bytes(elements.data, "little"))
    if isinstance(element, FloatType):
        return element.decode(int.from_bytes(elements.data, "little"))
    return None


def is_positive_zero(number: int | float | None) -> bool:
    """True for 0 and +0.0."""
    return number is not None and number == 0 and struct.pack("<d", number) == bytes(8)


def is_negative_zero(number: int | float | None) -> bool:
    """True for -0.0."""
    return number is not None and number == 0 and not is_positive_zero(number)
