"""IR to text: MLIR's generic form, and the uniform pretty form. Iterative, so depth and length do not matter.

Generic: values are numbered as MLIR numbers them, every declared attribute prints as a property. Pretty: values keep their names
(made unique by a suffix), an attribute equal to its default is left out, one type stands for all where they agree.
"""

from __future__ import annotations

from collections.abc import Callable

from gradopt.ir.attributes import (
    ArrayAttr,
    Attribute,
    DictionaryAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    element_text,
    entry_text,
    key_text,
    symbol_text,
)
from gradopt.ir.declare import ISOLATED
from gradopt.ir.locations import AnyLocation
from gradopt.ir.operation import Block, Operation, Region, UnregisteredOp
from gradopt.ir.types import FunctionType
from gradopt.ir.values import Value

__all__ = ["Printer", "print_operation"]


def print_operation(op: Operation, *, generic: bool = False, debug_info: bool = False) -> str:
    """The text of an operation and all inside it, with a newline at the end of a module."""
    printer = Printer(generic=generic, debug_info=debug_info)
    printer.print(op)
    return "".join(printer.out)


class Printer:
    """Writes operations into `out`, a list of pieces."""

    def __init__(self, *, generic: bool = False, debug_info: bool = False) -> None:
        self.generic, self.debug_info = generic, debug_info
        self.out: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.blocks: dict[Block, str] = {}
        self.next_value = self.next_argument = self.next_block = 0
        self.saved: list[tuple[int, int, int]] = []

    def print(self, root: Operation) -> None:
        """Prints one operation."""
        # the work list holds pieces of text, operations to print, and scopes to leave; its last entry is next
        self.work: list[object] = [(root, 0)]
        while self.work:
            item = self.work.pop()
            if isinstance(item, (_Enter, _BlockHeader)):
                item.call()
            elif isinstance(item, str):
                self.out.append(item)
            elif isinstance(item, tuple):
                op, indent = item
                if op.next is not None and op is not root:
                    self.work.append((op.next, indent))
                self._operation(op, indent)
            elif item is None:
                self.next_value, self.next_argument, self.next_block = self.saved.pop()

    # --- names

    def _name(self, value: Value, argument: bool) -> str:
        hint = value.name
        if self.generic or hint is None:
            if argument and self.generic:
                name = f"%arg{self.next_argument}"
                self.next_argument += 1
            elif argument and hint is None:
                name = self._unique("arg", self.next_argument)
                self.next_argument += 1
            else:
                name = f"%{self.next_value}"
                self.next_value += 1
        else:
            name, suffix = "%" + hint, 0
            while name in self.taken:
                suffix += 1
                name = f"%{hint}_{suffix}"
            self.taken.add(name)
        self.names[value] = name
        return name

    def _unique(self, stem: str, number: int) -> str:
        name = f"%{stem}{number}"
        while name in self.taken:
            name += "_1"
        self.taken.add(name)
        return name

    def value(self, value: Value) -> str:
        """The name of a value (`<<unknown>>` for one that is not in the printed text)."""
        return self.names.get(value, "<<unknown>>")

    def _results(self, op: Operation) -> str:
        results = op.results
        if not results:
            return ""
        if len(results) == 1:
            return self._name(results[0], False) + " = "
        if not self.generic and any(result.name for result in results):
            return ", ".join(self._name(result, False) for result in results) + " = "
        pack = f"%{self.next_value}"
        self.next_value += 1
        for index, result in enumerate(results):
            self.names[result] = f"{pack}#{index}"
        return f"{pack}:{len(results)} = "

    # --- operations

    def _operation(self, op: Operation, indent: int) -> None:
        out = self.out
        out.append("  " * indent)
        results = self._results(op)
        if results:
            out.append(results)
        tail = self._location(op.location) + "\n"
        if self.generic or isinstance(op, UnregisteredOp):
            self._generic(op, indent, tail)
            return
        custom = CUSTOM.get(op.name)
        if custom is not None:
            custom(self, op, indent, tail)
        else:
            self._pretty(op, indent, tail)

    def _location(self, location: AnyLocation) -> str:
        return f" loc({location.text})" if self.debug_info else ""

    def _operand_list(self, op: Operation) -> str:
        names = self.names
        return ", ".join([names.get(operand, "<<unknown>>") for operand in op._operands])

    def _generic(self, op: Operation, indent: int, tail: str) -> None:
        text = f'"{op.name}"({self._operand_list(op)})'
        if op.successors:
            text += "[" + ", ".join(self._block_name(block) for block in op.successors) + "]"
        if op.properties:
            text += f" <{dictionary_text(op.properties)}>"
        end = f" {dictionary_text(op.attributes)}" if op.attributes else ""
        types = ", ".join([operand.type.text for operand in op._operands])
        end += f" : ({types}) -> {result_types_text(op)}"
        if not op.regions:
            self.out.append(text + end + tail)
            return
        self.out.append(text + " (")
        self._regions(op, indent, ")" + end + tail)

    def _pretty(self, op: Operation, indent: int, tail: str) -> None:
        text = op.name
        callee = op.properties.get("callee")
        if isinstance(callee, SymbolRefAttr):
            text += f" {callee.text}({self._operand_list(op)})"
        elif op._operands:
            text += " " + self._operand_list(op)
        if op.successors:
            text += "[" + ", ".join(self._block_name(block) for block in op.successors) + "]"
        defaults = op.definition.defaults
        shown = {name: value for name, value in op.properties.items()
                 if defaults.get(name) is not value and not (name == "callee" and isinstance(callee, SymbolRefAttr))}
        shown.update(op.attributes)
        if shown:
            text += f" {pretty_dictionary_text(shown)}"
        end = pretty_types(op)
        if not op.regions:
            self.out.append(text + end + tail)
            return
        self.out.append(text + " (")
        self._regions(op, indent, ")" + end + tail)

    # --- regions and blocks

    def _regions(self, op: Operation, indent: int, after: str) -> None:
        """Queues all regions of an op, separated by commas, and the text behind them."""
        pieces: list[object] = []
        for index, region in enumerate(op.regions):
            if index:
                pieces.append(", ")
            pieces += self._region_pieces(region, indent, op)
        pieces.append(after)
        self.work += reversed(pieces)

    def _region_pieces(self, region: Region, indent: int, op: Operation, entry_header: bool = True) -> list[object]:
        pieces: list[object] = ["{\n", _Enter(self, region, op)]
        for index, block in enumerate(region.blocks):
            pieces.append(_BlockHeader(self, block, indent, index, len(region.blocks), entry_header))
            if block.first is not None:
                pieces.append((block.first, indent + 1))
        pieces += [None, "  " * indent + "}"]
        return pieces

    def enter(self, region: Region, op: Operation) -> None:
        """Starts the scope of a region: an isolated one numbers from 0."""
        self.saved.append((self.next_value, self.next_argument, self.next_block))
        if op.has_trait(ISOLATED) and op.name.startswith(("func.", "builtin.")):
            self.next_value = self.next_argument = 0
            if op.name == "func.func":
                self.taken = set()
        self.next_block = 0
        for block in region.blocks:
            self.blocks[block] = f"^bb{self.next_block}"
            self.next_block += 1

    def _block_name(self, block: Block) -> str:
        return self.blocks.get(block, "^unknown")

    def block_header(self, block: Block, indent: int, index: int, count: int, entry_header: bool) -> str:
        """`^bb0(%x: type):`, left out for an entry block without arguments."""
        arguments = [f"{self.names.get(a) or self._name(a, True)}: {a.type.text}{self._location(a.location)}" for a in block.arguments]
        if index == 0 and (not entry_header or not (arguments or (block.first is None and count == 1))):
            return ""
        inside = f"({', '.join(arguments)})" if arguments else ""
        predecessors = block.predecessors if index else []
        note = ""
        if index:
            note = "  // no predecessors" if not predecessors else (
                f"  // pred: {self._block_name(predecessors[0])}" if len(predecessors) == 1 else
                f"  // {len(predecessors)} preds: " + ", ".join(self._block_name(p) for p in predecessors))
        return f"{'  ' * indent}{self._block_name(block)}{inside}:{note}\n"


class _Enter:
    """A queued call that starts a scope."""

    def __init__(self, printer: Printer, region: Region, op: Operation) -> None:
        self.call: Callable[[], None] = lambda: printer.enter(region, op)


class _BlockHeader:
    """A queued block header: its text is made when it is reached."""

    def __init__(self, printer: Printer, block: Block, indent: int, index: int, count: int, entry_header: bool) -> None:
        self.call: Callable[[], None] = lambda: printer.out.append(printer.block_header(block, indent, index, count, entry_header))


def dictionary_text(entries: dict[str, Attribute]) -> str:
    """`{a = 1, b}` sorted by name."""
    return "{" + ", ".join([entry_text(name, entries[name]) for name in sorted(entries)]) + "}"


def pretty_dictionary_text(entries: dict[str, Attribute]) -> str:
    """Like `dictionary_text`, but an i64 or f64 leaves its type out, as it does in a list."""
    return "{" + ", ".join([
        key_text(name) if isinstance(entries[name], UnitAttr) else f"{key_text(name)} = {element_text(entries[name])}"
        for name in sorted(entries)]) + "}"


def result_types_text(op: Operation) -> str:
    """The types behind the arrow."""
    types = op.results
    if len(types) == 1 and not isinstance(types[0].type, FunctionType):
        return types[0].type.text
    return "(" + ", ".join([result.type.text for result in types]) + ")"


def pretty_types(op: Operation) -> str:
    """` : type` where all types agree, else ` : (types) -> types`; nothing without operands and results."""
    values = [*op._operands, *op.results]
    if not values:
        return ""
    first = values[0].type
    if op.results and all(value.type is first for value in values) and not isinstance(first, FunctionType):
        return f" : {first.text}"
    if not op.results and len(op._operands) >= 1 and all(value.type is first for value in values) and not isinstance(first, FunctionType):
        return f" : {first.text}"
    types = ", ".join([operand.type.text for operand in op._operands])
    return f" : ({types}) -> {result_types_text(op)}"


# --- custom forms


def _module(printer: Printer, op: Operation, indent: int, tail: str) -> None:
    name = op.properties.get("sym_name")
    text = "module" + (f" {symbol_text(name.value)}" if isinstance(name, StringAttr) else "")
    rest = {key: value for key, value in {**op.properties, **op.attributes}.items() if key != "sym_name"}
    if rest:
        text += f" attributes {dictionary_text(rest)}"
    printer.out.append(text + " ")
    printer.work += reversed([*printer._region_pieces(op.regions[0], indent, op, entry_header=False), tail])


def _function(printer: Printer, op: Operation, indent: int, tail: str) -> None:
    name, type = op.properties["sym_name"], op.properties["function_type"].type  # type: ignore[attr-defined]
    assert isinstance(name, StringAttr)
    visibility = op.properties.get("sym_visibility")
    text = "func.func " + (f"{visibility.value} " if isinstance(visibility, StringAttr) else "") + symbol_text(name.value)
    arguments = _attribute_list(op.properties.get("arg_attrs"), len(type.inputs))
    results = _attribute_list(op.properties.get("res_attrs"), len(type.results))
    region = op.regions[0]
    if region.blocks:
        printer.saved.append((printer.next_value, printer.next_argument, printer.next_block))
        printer.next_value = printer.next_argument = 0
        printer.taken = set()
        names = [printer._name(argument, True) for argument in region.blocks[0].arguments]
        text += "(" + ", ".join(f"{n}: {a.type.text}{extra}{printer._location(a.location)}" for n, a, extra in
                                zip(names, region.blocks[0].arguments, arguments)) + ")"
    else:
        text += "(" + ", ".join(t.text + extra for t, extra in zip(type.inputs, arguments)) + ")"
    if type.results:
        joined = ", ".join(t.text + extra for t, extra in zip(type.results, results))
        single = len(type.results) == 1 and not results[0] and not isinstance(type.results[0], FunctionType)
        text += " -> " + (joined if single else f"({joined})")
    shown = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")
    rest = {key: value for key, value in {**op.properties, **op.attributes}.items() if key not in shown}
    if rest:
        text += f" attributes {dictionary_text(rest)}"
    if not region.blocks:
        printer.out.append(text + tail)
        return
    printer.out.append(text + " {\n")
    pieces: list[object] = []
    for index, block in enumerate(region.blocks):
        printer.blocks[block] = f"^bb{index}"
    for index, block in enumerate(region.blocks):
        if index:
            pieces.append(_BlockHeader(printer, block, indent, index, len(region.blocks), True))
        if block.first is not None:
            pieces.append((block.first, indent + 1))
    printer.work += reversed([*pieces, None, "  " * indent + "}" + tail])


def _attribute_list(attribute: Attribute | None, count: int) -> list[str]:
    if not isinstance(attribute, ArrayAttr):
        return [""] * count
    return [f" {element.text}" if isinstance(element, DictionaryAttr) and element.entries else "" for element in attribute.elements]


def _return(printer: Printer, op: Operation, indent: int, tail: str) -> None:
    text = "return"
    if op.attributes:
        text += f" {dictionary_text(op.attributes)}"
    if op._operands:
        text += f" {printer._operand_list(op)} : " + ", ".join(operand.type.text for operand in op._operands)
    printer.out.append(text + tail)


def _yield(printer: Printer, op: Operation, indent: int, tail: str) -> None:
    text = op.name
    if op._operands:
        text += " " + printer._operand_list(op)
    shown = {**op.properties, **op.attributes}
    if shown:
        text += f" {pretty_dictionary_text(shown)}"
    if op._operands:
        text += " : " + ", ".join(operand.type.text for operand in op._operands)
    printer.out.append(text + tail)


def _constant(printer: Printer, op: Operation, indent: int, tail: str) -> None:
    rest = {key: value for key, value in {**op.properties, **op.attributes}.items() if key != "value"}
    text = op.name + (f" {dictionary_text(rest)}" if rest else "") + f" {op.properties['value'].text}"
    printer.out.append(text + tail)


def _call(printer: Printer, op: Operation, indent: int, tail: str) -> None:
    callee = op.properties["callee"]
    rest = {key: value for key, value in {**op.properties, **op.attributes}.items() if key != "callee"}
    types = ", ".join(operand.type.text for operand in op._operands)
    printer.out.append(f"call {callee.text}({printer._operand_list(op)})" + (f" {dictionary_text(rest)}" if rest else "")
                       + f" : ({types}) -> {result_types_text(op)}" + tail)


CUSTOM = {"builtin.module": _module, "func.func": _function, "func.return": _return, "func.call": _call,
          "hl.constant": _constant, "prim.constant": _constant, "hl.yield": _yield, "prim.yield": _yield, "kernel.yield": _yield}
