"""Runs of flat lines to operations: the fast path for long straight programs. What it builds is what the grammar would build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradopt.ir.attributes import Attribute
from gradopt.ir.locations import SourceLocation
from gradopt.ir.operation import Block, Operation, UnregisteredOp
from gradopt.ir.values import Value
from gradopt.parser.lexer import Token
from gradopt.parser.scope import NameFault, Scope

if TYPE_CHECKING:
    from gradopt.parser.builder import IRBuilder

__all__ = ["build_flat_lines"]


def build_flat_lines(builder: IRBuilder, token: Token, scope: Scope, block: Block) -> None:
    """Appends the operations of a run to a block. Raises GradoptError."""
    source, classes, flat_attributes = builder.source, builder.classes, builder.flat_attributes
    values, append = scope.values, block.append
    for match, (signature, place), own, loose in token.lines:
        result, pretty, generic, operand_text, _, own_text, loose_text, _ = match.groups()
        name = pretty or generic
        offset = match.start(1)
        cls = classes.get(name)
        if cls is None and name not in classes:
            cls = builder.operation_class(name, "pretty" if pretty else "generic", offset)
        names = operand_text.split(", ") if operand_text else []
        inputs, outputs = signature
        if inputs is None:
            inputs = outputs * len(names)
        operands: list[Any] = [values.get(operand) for operand in names]
        if None in operands or [operand.type for operand in operands] != list(inputs):
            operands = _operands(builder, match, inputs, scope)
        key = (name, own_text, loose_text)
        found = flat_attributes.get(key)
        if found is None:
            found = flat_attributes[key] = builder.attributes(own, loose, cls, offset)
        properties, attributes = found
        location = SourceLocation(source, offset) if place is None else builder.location(place, offset)
        op = _make(cls, name, operands, outputs, properties, attributes, location)
        results = op.results
        if len(results) != 1:
            raise builder.fail(offset, f"operation defines {len(results)} results but was provided 1 to bind")
        value = results[0]
        if not result[1:].isdigit():
            value.name = result[1:]
        builder.define(scope, result, value, offset)
        append(op)


def _make(cls: type[Operation] | None, name: str, operands: list[Any], outputs: Any, properties: dict[str, Attribute],
          attributes: dict[str, Attribute], location: Any) -> Operation:
    if cls is None:
        return UnregisteredOp(name, operands, outputs, dict(properties), dict(attributes), (), (), location)
    return cls(operands, outputs, dict(properties), dict(attributes), (), (), location)


def _operands(builder: IRBuilder, match: Any, inputs: Any, scope: Scope) -> list[Value]:
    """The operands of a line the slow way: names of outer regions, names that are defined later, blanks, and all errors."""
    text, start = match[4], match.start(4)
    places: list[tuple[str, int]] = []
    position = 0
    for part in text.split(",") if text else []:
        places.append((part.strip(), start + position + len(part) - len(part.lstrip())))
        position += len(part) + 1
    if len(places) != len(inputs):
        raise builder.fail(match.start(1), f"expected {len(places)} operand types but had {len(inputs)}")
    operands = []
    for (name, offset), type in zip(places, inputs):
        try:
            operands.append(scope.use(name, type, offset))
        except NameFault as fault:
            raise builder.name_fault(fault, offset) from None
    return operands
