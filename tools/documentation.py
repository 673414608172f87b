"""What is known of an operation, a dialect or a pass, as text for people: made from the declarations, so never out of date."""

from __future__ import annotations

import dataclasses
import textwrap

from gradopt.dialects.attribute_notes import attribute_note
from gradopt.dialects.origins import origins_of
from gradopt.ir.declare import (
    AttributeField,
    OperandField,
    OptionalOperandField,
    ResultField,
    VariadicField,
    VariadicResultField,
)
from gradopt.ir.dialect import Dialect
from gradopt.ir.operation import Operation
from gradopt.lowering.autodiff.rules.prim_elementwise import LOCAL
from gradopt.lowering.decompose.registry import find_decomposition
from gradopt.lowering.passes import Pass
from gradopt.lowering.passes.options import option_text, pass_options

__all__ = ["dialect_text", "operation_signature", "operation_text", "pass_text"]

_WIDTH = 120
_MARKS = {OperandField: "", OptionalOperandField: "?", VariadicField: "…", ResultField: "", VariadicResultField: "…"}


def operation_signature(cls: type[Operation]) -> str:
    """`hl.take(x, indices) {axis?, mode = "clip"} -> result`."""
    definition = cls.definition
    operands = ", ".join(field.name + _MARKS[type(field)] for field in definition.operands)
    results = ", ".join(field.name + _MARKS[type(field)] for field in definition.results)
    attributes = ", ".join(map(_attribute_summary, definition.attributes.values()))
    regions = ", ".join(field.name + ("…" if field.variadic else "") for field in definition.regions)
    return (f"{cls.name}({operands})" + (f" {{{attributes}}}" if attributes else "") + (f" ({{{regions}}})" if regions else "")
            + (f" -> {results}" if results else ""))


def _attribute_summary(field: AttributeField[object]) -> str:
    if field.default is not None:
        return f"{field.name} = {_default_text(field)}"
    return field.name + ("?" if field.optional else "")


def _default_text(field: AttributeField[object]) -> str:
    assert field.default is not None
    text = field.default.text
    for suffix in (" : i64", " : f64"):
        text = text.removesuffix(suffix)
    return text


def operation_text(cls: type[Operation]) -> str:
    """The signature, the docstring, each operand, attribute, region and result, what it is in simpler operations, and what it is called
    elsewhere."""
    definition = cls.definition
    documentation = definition.documentation or "(no description)"
    lines = [operation_signature(cls), ""]
    lines += [textwrap.fill(line, _WIDTH) if len(line) > 140 else line for line in documentation.split("\n")]
    for title, fields in (("Operands", definition.operands), ("Results", definition.results)):
        if fields:
            lines += ["", f"{title}:"]
            lines += [f"  {field.name + _MARKS[type(field)]:<16} {field.constraint.name}" for field in fields]
    if definition.attributes:
        lines += ["", "Attributes:"]
        for field in definition.attributes.values():
            tail = f" (default {_default_text(field)})" if field.default is not None else " (optional)" if field.optional else ""
            note = attribute_note(field, cls.name.split(".")[0])
            about = f": {note}" if note else ""
            lines.append(textwrap.fill(f"  {field.name:<16} {field.kind.name}{tail}{about}", _WIDTH, subsequent_indent=" " * 19))
    if definition.regions:
        lines += ["", "Regions: " + ", ".join(field.name for field in definition.regions)]
    if definition.traits:
        lines += ["", "Traits: " + ", ".join(sorted(definition.traits))]
    return "\n".join([*lines, *_relations(cls.name)]) + "\n"


def _relations(name: str) -> list[str]:
    """Lines about an operation's decomposition, its derivative, and its names elsewhere."""
    rule, local, names = find_decomposition(name), LOCAL.get(f"prim.{name.split('.')[1]}"), origins_of(name)
    found = []
    if rule is not None and rule.__doc__:
        found.append("Decomposition: " + " ".join(rule.__doc__.split()))
    if local is not None and local.__doc__:
        found.append("Derivative: " + " ".join(local.__doc__.split()))
    if names:
        found.append("Elsewhere: " + ", ".join(names))
    return ["", *found] if found else []


def dialect_text(dialect: Dialect) -> str:
    """The dialect's description and the signature of each of its operations."""
    return "\n".join([f"{dialect.name}: {dialect.documentation}".rstrip(), "",
                      *(f"  {operation_signature(cls)}" for cls in dialect.operations.values())]) + "\n"


def pass_text(cls: type[Pass]) -> str:
    """The pass's docstring and its options with their defaults."""
    lines = [cls.name, "", cls.documentation()]
    options = pass_options(cls)
    if options:
        lines += ["", "Options:"]
    for option in options:
        default = ""
        if option.default not in (None, (), dataclasses.MISSING):
            default = f" (default {option_text(option, option.default).split('=', 1)[1]})"
        choices = f" ({' | '.join(option.choices)})" if option.choices else ""
        lines += [f"  {option.name:<20} {option.kind.description}{choices}{default}", f"  {'':<20} {option.help}"]
    return "\n".join(lines) + "\n"
