"""A module in float64: every float type becomes f64, so that central differences have digits to spare."""

from __future__ import annotations

from gradopt.ir.attributes import ArrayAttr, Attribute, DenseElementsAttr, DictionaryAttr, FloatAttr, TypeAttr
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.ir.types import F64, FloatType, FunctionType, RankedType, TensorType, TupleType, Type

__all__ = ["double_type", "to_double"]


def to_double(module: Operation) -> Operation:
    """A copy of the module in which every float is an f64.

    Raises GradoptError for a bitcast, which would read other bits."""
    copy = module.clone()
    known: dict[Attribute, Attribute] = {}
    for op in copy.walk():
        if op.name.endswith(".bitcast"):
            raise GradoptError.at(op.location, f"'{op.name}' op has no counterpart in float64")
        for result in op.results:
            result.type = double_type(result.type)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    argument.type = double_type(argument.type)
        op.properties = {name: _attribute(value, known) for name, value in op.properties.items()}
        op.attributes = {name: _attribute(value, known) for name, value in op.attributes.items()}
    return copy


def double_type(type: Type) -> Type:
    """The type with f64 for every float."""
    if isinstance(type, FloatType):
        return F64
    if isinstance(type, TensorType):
        return type.with_element(double_type(type.element))
    if isinstance(type, FunctionType):
        return FunctionType(tuple(map(double_type, type.inputs)), tuple(map(double_type, type.results)))
    if isinstance(type, TupleType):
        return TupleType(tuple(map(double_type, type.elements)))
    return type


def _attribute(attribute: Attribute, known: dict[Attribute, Attribute]) -> Attribute:
    found = known.get(attribute)
    if found is None:
        found = known[attribute] = _convert(attribute, known)
    return found


def _convert(attribute: Attribute, known: dict[Attribute, Attribute]) -> Attribute:
    made: Attribute = attribute
    if isinstance(attribute, Type):
        made = double_type(attribute)
    elif isinstance(attribute, TypeAttr):
        made = TypeAttr(double_type(attribute.type))
    elif isinstance(attribute, FloatAttr):
        made = FloatAttr.of(attribute.value, F64)
    elif isinstance(attribute, DenseElementsAttr) and isinstance(attribute.type, RankedType):
        made = _elements(attribute)
    elif isinstance(attribute, ArrayAttr):
        made = ArrayAttr(tuple(_attribute(element, known) for element in attribute.elements))
    elif isinstance(attribute, DictionaryAttr):
        made = DictionaryAttr(tuple((name, _attribute(value, known)) for name, value in attribute.entries))
    return made


def _elements(attribute: DenseElementsAttr) -> DenseElementsAttr:
    """The same numbers as f64."""
    import struct

    element = attribute.type.element
    if not isinstance(element, FloatType) or not isinstance(attribute.type, TensorType):
        return attribute
    width = element.storage_bytes
    numbers = [element.decode(int.from_bytes(attribute.data[start:start + width], "little"))
               for start in range(0, len(attribute.data), width)]
    return DenseElementsAttr(double_type(attribute.type), struct.pack(f"<{len(numbers)}d", *numbers), attribute.is_splat)
