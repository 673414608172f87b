"""The few operations with a form of their own: modules, functions, returns, calls, constants, yields."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gradopt.ir.attributes import (
    ArrayAttr,
    Attribute,
    DenseElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    symbol_text,
)
from gradopt.ir.operation import Operation
from gradopt.ir.printer import dictionary_text, pretty_dictionary_text
from gradopt.ir.types import FunctionType, NoneType

if TYPE_CHECKING:
    from gradopt.ir.printer import Printer

__all__ = ["CUSTOM"]


def _module(printer: Printer, op: Operation, head: str, indent: int, tail: str) -> None:
    if not op.regions[0].blocks:
        printer._generic(op, head, indent, tail)  # broken: as it is
        return
    name = op.properties.get("sym_name")
    named = isinstance(name, StringAttr) and name.value != ""
    text = head + "module" + (f" {symbol_text(name.value)}" if named and isinstance(name, StringAttr) else "")
    rest = {key: value for key, value in {**op.properties, **op.attributes}.items() if key != "sym_name" or not named}
    if rest:
        text += f" attributes {dictionary_text(rest)}"
    printer.out.append(text + " ")
    region = op.regions[0]
    plain = len(region.blocks) == 1 and not region.blocks[0].arguments
    printer.work += reversed([*printer.region_pieces(region, indent, entry=not plain), tail])


def _function(printer: Printer, op: Operation, head: str, indent: int, tail: str) -> None:
    name, held = op.properties.get("sym_name"), op.properties.get("function_type")
    region, type = op.regions[0], held.type if isinstance(held, TypeAttr) else None
    if not isinstance(name, StringAttr) or not name.value or not isinstance(type, FunctionType):
        printer._generic(op, head, indent, tail)  # broken: as it is
        return
    arguments = _attribute_list(op.properties.get("arg_attrs"), len(type.inputs))
    results = _attribute_list(op.properties.get("res_attrs"), len(type.results))
    contradicts = region.blocks and [argument.type for argument in region.blocks[0].arguments] != list(type.inputs)
    visibility = op.properties.get("sym_visibility")
    word = "" if visibility is None else visibility.value + " " if isinstance(visibility, StringAttr) else " "
    if arguments is None or results is None or contradicts or word not in ("", "private ", "public ", "nested "):
        printer._generic(op, head, indent, tail)
        return
    text = f"{head}func.func {word}{symbol_text(name.value)}"
    if region.blocks:
        text += "(" + ", ".join(f"{printer.value(a)}: {a.type.text}{extra}{printer.location(a.location, alias=False)}"
                                for a, extra in zip(region.blocks[0].arguments, arguments)) + ")"
    else:
        text += "(" + ", ".join(t.text + extra for t, extra in zip(type.inputs, arguments)) + ")"
    if type.results:
        joined = ", ".join(t.text + extra for t, extra in zip(type.results, results))
        single = len(type.results) == 1 and not results[0] and not isinstance(type.results[0], FunctionType)
        text += " -> " + (joined if single else f"({joined})")
    shown = {"sym_name", "function_type", "arg_attrs", "res_attrs", "sym_visibility"}
    rest = {key: value for key, value in {**op.properties, **op.attributes}.items() if key not in shown}
    if rest:
        text += f" attributes {dictionary_text(rest)}"
    if not region.blocks:
        printer.out.append(text + tail)
        return
    printer.out.append(text + " ")
    plain = not type.inputs and (region.blocks[0].first is None or _is_target(op))
    printer.work += reversed([*printer.region_pieces(region, indent, entry=plain), tail])


def _is_target(op: Operation) -> bool:
    """True if a branch goes to the first block of the body, which then needs its name."""
    region = op.regions[0]
    return any(region.blocks[0] in block.last.successors for block in region.blocks if block.last is not None)


def _attribute_list(attribute: Attribute | None, count: int) -> list[str] | None:
    """What is written behind each type; None if the attribute is not one dictionary for each of them."""
    if attribute is None:
        return [""] * count
    if not isinstance(attribute, ArrayAttr) or len(attribute.elements) != count:
        return None
    entries = [element for element in attribute.elements if isinstance(element, DictionaryAttr)]
    return [f" {element.text}" if element.entries else "" for element in entries] if len(entries) == count else None


def _return(printer: Printer, op: Operation, head: str, indent: int, tail: str) -> None:
    text = head + "return"
    shown = {**op.properties, **op.attributes}
    if shown:
        text += f" {dictionary_text(shown)}"
    if op._operands:
        text += f" {printer.operand_list(op)} : " + ", ".join(operand.type.text for operand in op._operands)
    printer.out.append(text + tail)


def _yield(printer: Printer, op: Operation, head: str, indent: int, tail: str) -> None:
    text = head + op.name
    if op._operands:
        text += " " + printer.operand_list(op)
    shown = {**op.properties, **op.attributes}
    if shown:
        text += f" {pretty_dictionary_text(shown)}"
    if op._operands:
        text += " : " + ", ".join(operand.type.text for operand in op._operands)
    printer.out.append(text + tail)


def _constant(printer: Printer, op: Operation, head: str, indent: int, tail: str) -> None:
    value = op.properties.get("value")
    fits = (isinstance(value, (DenseElementsAttr, DenseResourceAttr)) and not op._operands and len(op.results) == 1
            and op.results[0].type is value.type and not isinstance(value.type, NoneType))
    if not fits or value is None:
        printer._pretty(op, head, indent, tail)
        return
    rest = {key: value for key, value in {**op.properties, **op.attributes}.items() if key != "value"}
    printer.out.append(head + op.name + (f" {dictionary_text(rest)}" if rest else "") + f" {value.text}" + tail)


def _call(printer: Printer, op: Operation, head: str, indent: int, tail: str) -> None:
    callee = op.properties.get("callee")
    if not isinstance(callee, SymbolRefAttr) or callee.nested:
        printer._pretty(op, head, indent, tail)
        return
    rest = {key: value for key, value in {**op.properties, **op.attributes}.items() if key != "callee"}
    printer.out.append(f"{head}call {callee.text}({printer.operand_list(op)})" + (f" {dictionary_text(rest)}" if rest else "")
                       + f" : {printer.function_types(op)}" + tail)


class Form(NamedTuple):
    """How an operation is written, and what it has to be made of to be written so (any other is broken and prints generically)."""

    write: Callable[[Printer, Operation, str, int, str], None]
    operands: bool
    results: bool
    regions: int = 0

    def fits(self, op: Operation) -> bool:
        """True if the form has a place for all parts of the operation."""
        return (len(op.regions) == self.regions and not op.successors and (self.operands or not op._operands)
                and (self.results or not op.results))


_YIELD = Form(_yield, operands=True, results=False)
_VALUE = Form(_constant, operands=True, results=True)
CUSTOM: dict[str, Form] = {
    "builtin.module": Form(_module, operands=False, results=False, regions=1),
    "func.func": Form(_function, operands=False, results=False, regions=1),
    "func.return": Form(_return, operands=True, results=False),
    "func.call": Form(_call, operands=True, results=True),
    "hl.constant": _VALUE, "prim.constant": _VALUE, "hl.yield": _YIELD, "prim.yield": _YIELD, "kernel.yield": _YIELD}
