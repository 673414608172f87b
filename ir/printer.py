"""IR to text: MLIR's generic form, and the uniform pretty form. Iterative, so depth and length do not matter.

Generic: values are numbered as MLIR numbers them, every declared attribute prints as a property. Pretty: values keep their names
(made unique by a suffix), an attribute equal to its default is left out, one type stands for all where they agree.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple, TypeAlias

from gradopt.ir.aliases import AliasTable, attributes_with_aliases
from gradopt.ir.attributes import Attribute, SymbolRefAttr, UnitAttr, element_text, entry_text, key_bytes, key_text
from gradopt.ir.locations import AnyLocation, SourceLocation
from gradopt.ir.naming import generic_names, pretty_names
from gradopt.ir.operation import Block, Operation, Region, UnregisteredOp
from gradopt.ir.resources import metadata_text
from gradopt.ir.types import FunctionType, Type
from gradopt.ir.values import Value

__all__ = ["Piece", "Printer", "print_operation"]


def print_operation(op: Operation, *, generic: bool = False, debug_info: bool = False, local_scope: bool = False) -> str:
    """The text of an operation and all inside it, with a newline at the end. `debug_info` adds locations; `local_scope` writes
    everything in place, without aliases."""
    printer = Printer(generic=generic, debug_info=debug_info, local_scope=local_scope)
    printer.print(op)
    return "".join(printer.out)


class Printer:
    """Writes operations into `out`, a list of pieces."""

    def __init__(self, *, generic: bool = False, debug_info: bool = False, local_scope: bool = False) -> None:
        self.generic, self.debug_info, self.local_scope = generic, debug_info, local_scope
        self.out: list[str] = []
        self.names: dict[Value, str] = {}
        self.blocks: dict[Block, str] = {}
        self.aliases: AliasTable | None = None
        self.attribute_texts: dict[tuple[object, ...], tuple[str, str]] = {}
        self.type_texts: dict[tuple[object, ...], str] = {}
        self.plain = False  # True where no operation needs more than its names, attributes and types
        self.custom: Container[str] = ()
        # what is still to print, the next at the end: pieces of text, block headers, (operation, indentation)
        self.work: list[Piece] = []

    def print(self, root: Operation) -> None:
        """Prints one operation."""
        self.names, self.blocks = self.name_all(root)
        if self.debug_info or (self.generic and attributes_with_aliases()):
            self.aliases = AliasTable(root, self.debug_info, self.generic)
            if self.local_scope:
                self.aliases.names.clear()
            else:
                self.out.append(self.aliases.definitions(deferred=False))
        from gradopt.ir.custom_forms import CUSTOM

        self.custom = CUSTOM
        self.plain = self.aliases is None and type(self) is Printer
        self.work = [(root, 0)]
        while self.work:
            item = self.work.pop()
            if isinstance(item, str):
                self.out.append(item)
            elif isinstance(item, BlockHeader):
                self.out.append(self._block_header(item))
            elif isinstance(item, End):
                self.out.append(self._end(item))
            else:
                op, indent = item
                self._operations(op, indent, root)
        if self.aliases is not None and not self.local_scope:
            self.out.append(self.aliases.definitions(deferred=True))
        self.out.append(metadata_text(root))

    def name_all(self, root: Operation) -> tuple[dict[Value, str], dict[Block, str]]:
        """The names of all values and blocks."""
        return generic_names(root) if self.generic else pretty_names(root)

    def _operations(self, first: Operation, indent: int, root: Operation) -> None:
        """Prints an operation and those behind it, up to one with regions, whose inside comes next."""
        op: Operation | None = first
        generic, single = self.generic, first is root
        plain = self.plain and not single
        while op is not None:
            if not op.regions:
                if plain and (generic or op.name not in self.custom):
                    self._plain_operation(op, indent)
                else:
                    self.operation(op, indent, generic)
            else:
                if not single and op.next is not None:
                    self.work.append((op.next, indent))
                self.operation(op, indent, generic)
                return
            op = None if single else op.next

    def _plain_operation(self, op: Operation, indent: int) -> None:
        """Prints an operation without regions, of no special form, as `operation` does where neither locations nor aliases are asked for.
        Texts of attributes and types that came before are used again."""
        names = self.names
        generic = self.generic or isinstance(op, UnregisteredOp)
        results, operands = op.results, op._operands
        inside = ", ".join([names.get(operand, "<<unknown>>") for operand in operands])
        key: tuple[object, ...] = (generic, type(op), *op.properties.items(), None, *op.attributes.items())
        texts = self.attribute_texts.get(key)
        if texts is None:
            texts = self.attribute_texts[key] = self._generic_attributes(op) if generic else self._pretty_attributes(op)
        types = (generic, len(operands), *[operand.type for operand in operands], *[result.type for result in results])
        tail = self.type_texts.get(types)
        if tail is None:
            tail = self.type_texts[types] = " : " + self.function_types(op) if generic else pretty_types(op)
        head = f"{'  ' * indent}{names[results[0]]} = " if len(results) == 1 else "  " * indent + self._results(op)
        successors = self._successors(op) if op.successors else ""
        own, loose = texts
        if generic:
            self.out.append(f"{head}{_quoted(op.name)}({inside}){successors}{own}{loose}{tail}\n")
        elif own:  # a callee
            self.out.append(f"{head}{op.name}{own}({inside}){successors}{loose}{tail}\n")
        else:
            self.out.append(f"{head}{op.name}{' ' if operands else ''}{inside}{successors}{loose}{tail}\n")

    def _generic_attributes(self, op: Operation) -> tuple[str, str]:
        """(properties, attributes) of the generic form."""
        return self._own(op), self._loose(op)

    def _own(self, op: Operation) -> str:
        return f" <{self.properties(op.properties)}>" if op.properties else ""

    def _loose(self, op: Operation) -> str:
        return f" {self.dictionary(op.attributes)}" if op.attributes else ""

    def _pretty_attributes(self, op: Operation) -> tuple[str, str]:
        """(the callee, all attributes that are not their defaults) of the pretty form."""
        callee = op.properties.get("callee")
        symbol = callee.text if isinstance(callee, SymbolRefAttr) and not callee.nested else ""
        defaults = op.definition.defaults
        shown = {name: value for name, value in op.properties.items()
                 if defaults.get(name) is not value and not (name == "callee" and symbol)}
        shown.update(op.attributes)
        return f" {symbol}" if symbol else "", f" {pretty_dictionary_text(shown)}" if shown else ""

    def operation(self, op: Operation, indent: int, generic: bool) -> None:
        """Prints one operation; what stands in its regions and behind them is queued."""
        tail = self.location(op.location) + "\n"
        head = "  " * indent + self._results(op)
        if generic or isinstance(op, UnregisteredOp):
            self._generic(op, head, indent, tail)
            return
        from gradopt.ir.custom_forms import CUSTOM

        form = CUSTOM.get(op.name)
        if form is None:
            self._pretty(op, head, indent, tail)
        elif form.fits(op):
            form.write(self, op, head, indent, tail)
        else:
            self._generic(op, head, indent, tail)

    # --- parts of operations

    def value(self, value: Value) -> str:
        """The name of a value (`<<unknown>>` for one that is not in the printed text)."""
        return self.names.get(value, "<<unknown>>")

    def _results(self, op: Operation) -> str:
        results, names = op.results, self.names
        if not results:
            return ""
        if len(results) == 1:
            return names[results[0]] + " = "
        first = names[results[0]]
        if first.endswith("#0"):
            return f"{first[:-2]}:{len(results)} = "
        return ", ".join([names[result] for result in results]) + " = "

    def location(self, location: AnyLocation, alias: bool = True) -> str:
        """` loc(…)` where locations are printed; a block argument's without its own alias."""
        if not self.debug_info or self.aliases is None:
            return ""
        place = location.resolve() if isinstance(location, SourceLocation) else location
        return self.aliases.location(place) if alias else f" loc({self.aliases.spell(place)})"

    def type_text(self, type: Type) -> str:
        """A type, with aliases where they are used."""
        return type.text if self.aliases is None else self.aliases.text(type)

    def properties(self, entries: dict[str, Attribute]) -> str:
        """A dictionary, or the only attribute of properties that are none."""
        whole = entries.get("")
        if whole is None:
            return self.dictionary(entries)
        return whole.text if self.aliases is None else self.aliases.text(whole)

    def dictionary(self, entries: dict[str, Attribute]) -> str:
        """`{a = 1, b}` sorted by name."""
        return dictionary_text(entries) if self.aliases is None else self.aliases.dictionary(entries)

    def operand_list(self, op: Operation) -> str:
        """The names of the operands."""
        names = self.names
        return ", ".join([names.get(operand, "<<unknown>>") for operand in op._operands])

    def function_types(self, op: Operation) -> str:
        """`(operand types) -> result types`."""
        if self.aliases is None:
            return f"({', '.join([operand.type.text for operand in op._operands])}) -> {result_types_text(op)}"
        inputs = ", ".join([self.aliases.text(operand.type) for operand in op._operands])
        results = [self.aliases.text(result.type) for result in op.results]
        single = len(results) == 1 and not isinstance(op.results[0].type, FunctionType)
        return f"({inputs}) -> {results[0] if single else '(' + ', '.join(results) + ')'}"

    def _successors(self, op: Operation) -> str:
        return "[" + ", ".join([self.block_name(block) for block in op.successors]) + "]" if op.successors else ""

    def _generic(self, op: Operation, head: str, indent: int, tail: str) -> None:
        text = f"{head}{_quoted(op.name)}({self.operand_list(op)}){self._successors(op)}{self._own(op)}"
        if not op.regions:
            self.out.append(f"{text}{self._loose(op)} : {self.function_types(op)}{tail}")
            return
        self.out.append(text + " (")
        self._regions(op, indent, End(op, tail))

    def _end(self, end: End) -> str:
        """What the generic form says behind regions. It is spelt after them: distinct attributes are numbered as they print."""
        op = end.op
        return f"){self._loose(op)} : {self.function_types(op)}{end.tail}"

    def _pretty(self, op: Operation, head: str, indent: int, tail: str) -> None:
        callee, attributes = self._pretty_attributes(op)
        text = head + op.name
        if callee:
            text += f"{callee}({self.operand_list(op)})"
        elif op._operands:
            text += " " + self.operand_list(op)
        text += self._successors(op) + attributes
        end = pretty_types(op) + tail
        if not op.regions:
            self.out.append(text + end)
            return
        self.out.append(text + " (")
        self._regions(op, indent, ")" + end)

    # --- regions and blocks

    def _regions(self, op: Operation, indent: int, after: Piece) -> None:
        """Queues all regions of an op, separated by commas, and what comes behind them."""
        pieces: list[Piece] = []
        for index, region in enumerate(op.regions):
            if index:
                pieces.append(", ")
            pieces += self.region_pieces(region, indent)
        pieces.append(after)
        self.work += reversed(pieces)

    def region_pieces(self, region: Region, indent: int, entry: bool = True) -> list[Piece]:
        """A region in braces. `entry`: the header of its first block is printed where MLIR prints it."""
        pieces: list[Piece] = ["{\n"]
        blocks = region.blocks
        predecessors = _predecessors(region)
        for index, block in enumerate(blocks):
            before = predecessors.get(block, [])
            if index or (entry and (block.arguments or (block.first is None and len(blocks) == 1) or before)):
                pieces.append(BlockHeader(block, indent, index, before))
            if block.first is not None:
                pieces.append((block.first, indent + 1))
        pieces.append("  " * indent + "}")
        return pieces

    def block_name(self, block: Block) -> str:
        """`^bb0`."""
        return self.blocks.get(block, "^unknown")

    def _block_header(self, header: BlockHeader) -> str:
        """`^bb0(%x: type):  // pred: ^bb1`."""
        block = header.block
        arguments = [f"{self.value(a)}: {self.type_text(a.type)}{self.location(a.location, alias=False)}" for a in block.arguments]
        inside = f"({', '.join(arguments)})" if arguments else ""
        note = ""
        if header.index:
            names = [self.block_name(p) for p in header.predecessors]
            note = "  // no predecessors" if not names else (
                f"  // pred: {names[0]}" if len(names) == 1 else f"  // {len(names)} preds: {', '.join(names)}")
        return f"{'  ' * header.indent}{self.block_name(block)}{inside}:{note}\n"


class BlockHeader:
    """A block whose header comes next."""

    __slots__ = ("block", "indent", "index", "predecessors")

    def __init__(self, block: Block, indent: int, index: int, predecessors: list[Block]) -> None:
        self.block, self.indent, self.index, self.predecessors = block, indent, index, predecessors


class End(NamedTuple):
    """The end of an operation with regions, in the generic form."""

    op: Operation
    tail: str


# what is still to print: text, an operation (and those behind it) with its indentation, a block's header, an operation's end
Piece: TypeAlias = "str | tuple[Operation, int] | BlockHeader | End"


def _predecessors(region: Region) -> dict[Block, list[Block]]:
    """The blocks whose last op names a block as a successor, in order, as often as it does."""
    found: dict[Block, list[Block]] = {}
    for block in region.blocks:
        if block.last is not None and block.last.successors:
            for successor in block.last.successors:
                found.setdefault(successor, []).append(block)
    return found


def _quoted(name: str) -> str:
    if name.isascii() and name.isprintable() and '"' not in name and "\\" not in name:
        return f'"{name}"'
    from gradopt.ir.text import escape_string

    return escape_string(name)


def dictionary_text(entries: dict[str, Attribute]) -> str:
    """`{a = 1, b}` sorted by name."""
    return "{" + ", ".join([entry_text(name, entries[name]) for name in sorted(entries, key=key_bytes)]) + "}"


def pretty_dictionary_text(entries: dict[str, Attribute]) -> str:
    """Like `dictionary_text`, but an i64 or f64 leaves its type out, as it does in a list."""
    return "{" + ", ".join([
        key_text(name) if isinstance(entries[name], UnitAttr) else f"{key_text(name)} = {element_text(entries[name])}"
        for name in sorted(entries, key=key_bytes)]) + "}"


def result_types_text(op: Operation) -> str:
    """The types behind the arrow."""
    types = op.results
    if len(types) == 1 and not isinstance(types[0].type, FunctionType):
        return types[0].type.text
    return "(" + ", ".join([result.type.text for result in types]) + ")"


def pretty_types(op: Operation) -> str:
    """` : type` where all types agree, else ` : (types) -> types`; nothing where there can be none."""
    values = [*op._operands, *op.results]
    if not values:
        return " : () -> ()" if op.definition.results else ""
    first = values[0].type
    told = op.results or not op.definition.results  # (an op that may have results and has none says so)
    if told and not isinstance(first, FunctionType) and all([value.type is first for value in values]):
        return f" : {first.text}"
    types = ", ".join([operand.type.text for operand in op._operands])
    return f" : ({types}) -> {result_types_text(op)}"
