"""Text to syntax: lark's LALR parser with callbacks that make attributes and light tuples, no parse tree.

Operations become `OpSyntax`; names are resolved and the IR is built by `builder.py` in one iterative pass.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple

from gradopt.ir import attributes as A
from gradopt.ir.locations import UNKNOWN_LOCATION, CallSiteLocation, FileLocation, FusedLocation, Location, NameLocation
from gradopt.ir.types import F64, I1, I64, FloatType, FunctionType, Type
from gradopt.parser.literals import LiteralError, dense_elements, float_bits, integer_value, unescape
from gradopt.parser.types import TypeReader, TypeSyntaxError

__all__ = ["OpSyntax", "Place", "SyntaxFault", "SyntaxReader"]


class SyntaxFault(Exception):
    """A message at an offset of the text."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message, self.offset = message, offset


class Place(NamedTuple):
    """A location whose aliases are looked up when the whole text is known."""

    kind: str
    parts: tuple[Any, ...]


class BlockSyntax(NamedTuple):
    """`^name(%a: type):` and its operations."""

    offset: int
    name: str | None
    arguments: list[tuple[Any, Type, Place | None]]
    operations: list[Any]


class OpSyntax(NamedTuple):
    """One operation as it was written. `types`: (operand types, result types), a list of types, or None."""

    offset: int
    form: str  # "generic", "pretty", "func" or "module"
    name: str
    results: list[tuple[Any, int]] | None
    operands: list[Any]
    successors: list[Any]
    properties: dict[str, Any] | None
    attributes: dict[str, Any] | None
    regions: list[list[BlockSyntax]]
    types: Any
    callee: Any
    location: Place | None


class Callbacks:
    """What each rule of the grammar makes of its parts (called as the parser reduces)."""

    def __init__(self) -> None:
        self.reader = TypeReader(self.inner_attribute)
        self.attribute_aliases: dict[str, A.Attribute] = {}
        self.location_aliases: dict[str, Place] = {}
        self.metadata_token: Any = None

    # --- small things

    def inner_attribute(self, text: str) -> A.Attribute:
        """An attribute inside a type: an encoding, a layout, a memory space."""
        if text.startswith("#") and ("<" in text or "." in text):
            return A.DialectAttr(text[1:])
        if text.startswith("#"):
            if text[1:] not in self.attribute_aliases:
                raise TypeSyntaxError(f"undefined symbol alias id '{text[1:]}'")
            return self.attribute_aliases[text[1:]]
        if text.startswith(("affine_map", "strided")):
            from gradopt.parser.builtin_attributes import read_builtin

            try:
                return read_builtin(text, self.reader.read)
            except LiteralError as error:
                raise TypeSyntaxError(str(error)) from None
        if text.startswith('"'):
            return A.StringAttr(unescape(text))
        number, _, type = text.partition(":")
        try:
            return integer_value(number.strip(), self.reader.read(type.strip()) if type else I64)
        except (LiteralError, ValueError):
            raise TypeSyntaxError(f"expected an attribute, found '{text}'") from None

    def read_type(self, token: Any) -> Type:
        """A type token."""
        try:
            return self.reader.read(str(token))
        except TypeSyntaxError as error:
            raise SyntaxFault(error.message, token.start_pos) from None

    def plain_type(self, c: list[Any]) -> Type:
        return self.read_type(c[0])

    alias_type = plain_type

    def function_type(self, c: list[Any]) -> Type:
        return FunctionType(tuple(type for type, _ in c[0] or ()), tuple(type for type, _ in c[1]))

    def types(self, c: list[Any]) -> list[Any]:
        return list(c)

    def typed(self, c: list[Any]) -> tuple[Type, Any]:
        return c[0], c[1]

    def one_type(self, c: list[Any]) -> list[Any]:
        return [(c[0], None)]

    def many_types(self, c: list[Any]) -> list[Any]:
        return c[0] or []

    def pretty_types(self, c: list[Any]) -> list[Type]:
        return list(c)

    # --- attributes

    def key(self, c: list[Any]) -> str:
        return unescape(c[0]) if c[0].startswith('"') else str(c[0])

    def key_word(self, c: list[Any]) -> str:
        return str(c[0])

    def entry(self, c: list[Any]) -> tuple[str, Any]:
        return c[0], (A.UnitAttr() if c[1] is None else c[1])

    def dictionary(self, c: list[Any]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for item in c:
            if item is None:
                continue
            name, value = item
            if name in entries:
                raise SyntaxFault(f"duplicate key '{name}' in dictionary attribute", -1)
            entries[name] = value
        return entries

    def dictionary_attribute(self, c: list[Any]) -> A.Attribute:
        return A.DictionaryAttr(tuple(c[0].items()))

    def array(self, c: list[Any]) -> A.Attribute:
        return A.ArrayAttr(tuple(item for item in c if item is not None))

    def string(self, c: list[Any]) -> A.Attribute:
        return A.StringAttr(self._text(c[0]), c[1])

    def _text(self, token: Any) -> str:
        try:
            return unescape(token)
        except LiteralError as error:
            raise SyntaxFault(str(error), token.start_pos) from None

    def symbol(self, c: list[Any]) -> A.Attribute:
        names = [symbol_value(token) for token in c]
        return A.SymbolRefAttr(names[0], tuple(names[1:]))

    def unit(self, c: list[Any]) -> A.Attribute:
        return A.UnitAttr()

    def true(self, c: list[Any]) -> A.Attribute:
        return A.IntegerAttr(1, I1)

    def false(self, c: list[Any]) -> A.Attribute:
        return A.IntegerAttr(0, I1)

    def integer(self, c: list[Any]) -> A.Attribute:
        token, type = c[0], c[1] or I64
        try:
            if isinstance(type, FloatType):
                raise LiteralError("expected floating point literal: it needs a dot")
            return integer_value(token, type)
        except LiteralError as error:
            raise SyntaxFault(str(error), token.start_pos) from None

    def hexadecimal(self, c: list[Any]) -> A.Attribute:
        token, type = c[0], c[1] or I64
        try:
            if isinstance(type, FloatType):
                return A.FloatAttr(float_bits(token, type), type)
            return integer_value(token, type)
        except LiteralError as error:
            raise SyntaxFault(str(error), token.start_pos) from None

    def float(self, c: list[Any]) -> A.Attribute:
        token, type = c[0], c[1] or F64
        if not isinstance(type, FloatType):
            raise SyntaxFault("floating point value not valid for specified type", token.start_pos)
        return A.FloatAttr(float_bits(token, type), type)

    def dense(self, c: list[Any]) -> A.Attribute:
        token, type = c
        head, _, body = str(token)[:-1].partition("<")
        try:
            if head.strip() == "dense":
                return dense_elements(body, type)
            if head.strip() == "dense_resource":
                key = body.strip()
                return A.DenseResourceAttr(unescape(key) if key.startswith('"') else key, type)
            return self._sparse(body, type)
        except LiteralError as error:
            raise SyntaxFault(str(error), token.start_pos) from None

    def _sparse(self, body: str, type: Type) -> A.Attribute:
        from gradopt.ir.types import TensorType
        from gradopt.parser.types import _split

        parts = _split(body)
        if not parts:
            return A.SparseElementsAttr(None, None, type)
        if len(parts) != 2:
            raise LiteralError("expected indices and values in sparse<…>")
        rank = len(type.shape)  # type: ignore[attr-defined]
        rows = parts[1].count(",") + 1 if "[" in parts[1] else 1
        indices = dense_elements(parts[0], TensorType((rows, rank), I64))
        values = dense_elements(parts[1], TensorType((rows,), type.element))  # type: ignore[attr-defined]
        return A.SparseElementsAttr(indices, values, type)

    def dialect_attribute(self, c: list[Any]) -> A.Attribute:
        if str(c[0])[1:].split("<")[0].split(".")[0] == "builtin":
            raise SyntaxFault("a builtin attribute is written without its dialect", c[0].start_pos)
        return A.DialectAttr(str(c[0])[1:], c[1])

    def alias_attribute(self, c: list[Any]) -> Any:
        name = str(c[0])[1:]
        if name in self.attribute_aliases:
            return self.attribute_aliases[name]
        if name.startswith("loc"):
            return Place("alias", (name, c[0].start_pos))
        raise SyntaxFault(f"undefined symbol alias id '{name}'", c[0].start_pos)

    def builtin_attribute(self, c: list[Any]) -> A.Attribute:
        from gradopt.parser.builtin_attributes import read_builtin

        try:
            return read_builtin(str(c[0]), self.reader.read)
        except (LiteralError, TypeSyntaxError) as error:
            raise SyntaxFault(str(error), c[0].start_pos) from None

    def type_attribute(self, c: list[Any]) -> A.Attribute:
        return A.TypeAttr(c[0])

    def attribute_alias(self, c: list[Any]) -> None:
        name = str(c[0])[1:]
        if isinstance(c[1], Place):
            self.location_aliases[name] = c[1]
        elif name in self.attribute_aliases:
            raise SyntaxFault(f"redefinition of attribute alias id '{name}'", c[0].start_pos)
        else:
            self.attribute_aliases[name] = c[1]

    def type_alias(self, c: list[Any]) -> None:
        name = str(c[0])[1:]
        if name in self.reader.aliases:
            raise SyntaxFault(f"redefinition of type alias id '{name}'", c[0].start_pos)
        self.reader.aliases[name] = c[1]

    # --- locations

    def location(self, c: list[Any]) -> Place:
        place: Place = c[1]
        return place

    def unknown_place(self, c: list[Any]) -> Place:
        return Place("unknown", ())

    def file_place(self, c: list[Any]) -> Place:
        return Place("file", (self._text(c[0]), *(None if item is None else int(item) for item in c[1:])))

    def name_place(self, c: list[Any]) -> Place:
        return Place("name", (self._text(c[0]), c[1]))

    def callsite_place(self, c: list[Any]) -> Place:
        return Place("callsite", tuple(c))

    def fused_place(self, c: list[Any]) -> Place:
        return Place("fused", (c[0], tuple(item for item in c[1:] if item is not None)))

    def alias_place(self, c: list[Any]) -> Place:
        return Place("alias", (str(c[0])[1:], c[0].start_pos))

    # --- operations

    def start(self, c: list[Any]) -> list[Any]:
        return [item for item in c if item is not None]

    def flat_op(self, c: list[Any]) -> Any:
        return c[0]

    def op(self, c: list[Any]) -> OpSyntax:
        results, body, location = c
        offset = results[0][0].start_pos if results else body.offset
        return body._replace(results=results, location=location, offset=body.offset if not results else offset)  # type: ignore[no-any-return]

    def results(self, c: list[Any]) -> list[Any]:
        return list(c)

    def result(self, c: list[Any]) -> tuple[Any, int]:
        return c[0], 1 if c[1] is None else int(c[1])

    def operands(self, c: list[Any]) -> list[Any]:
        return list(c)

    def successors(self, c: list[Any]) -> list[Any]:
        return list(c)

    def successor(self, c: list[Any]) -> Any:
        return (c[0], c[1] or [], [item for item in c[2:] if item is not None])

    def properties(self, c: list[Any]) -> dict[str, Any]:
        found: dict[str, Any] = c[0]
        return found

    def regions(self, c: list[Any]) -> list[Any]:
        return list(c)

    def region(self, c: list[Any]) -> list[BlockSyntax]:
        blocks: list[BlockSyntax] = []
        entry: list[Any] = []
        for item in c:
            if isinstance(item, BlockSyntax):
                blocks.append(item)
            elif item is not None:
                entry.append(item)
        if entry or not blocks:
            blocks.insert(0, BlockSyntax(-1, None, [], entry))
        return blocks

    def block(self, c: list[Any]) -> BlockSyntax:
        return BlockSyntax(c[0].start_pos, str(c[0]), c[1] or [], [item for item in c[2:] if item is not None])

    def block_arguments(self, c: list[Any]) -> list[Any]:
        return [item for item in c if item is not None]

    def block_argument(self, c: list[Any]) -> Any:
        return tuple(c)

    def generic_op(self, c: list[Any]) -> OpSyntax:
        name, operands, successors, properties, regions, attributes, type = c
        text = self._text(name)
        if not text:
            raise SyntaxFault("empty operation name is invalid", name.start_pos)
        return OpSyntax(name.start_pos, "generic", text, None, operands or [], successors or [], properties, attributes,
                        regions or [], (list(type.inputs), list(type.results)), None, None)

    def module_op(self, c: list[Any]) -> OpSyntax:
        keyword, symbol, attributes, region = c
        callee = None if symbol is None else symbol_value(symbol)
        return OpSyntax(keyword.start_pos, "module", "builtin.module", None, [], [], None, attributes, [region], None, callee, None)

    def func_op(self, c: list[Any]) -> OpSyntax:
        keyword, visibility, symbol, parameters, results, attributes, region = c
        properties = {"visibility": None if visibility is None else str(visibility), "parameters": parameters or [],
                      "results": results or []}
        return OpSyntax(keyword.start_pos, "func", "func.func", None, [], [], properties, attributes,
                        [] if region is None else [region], None, symbol_value(symbol), None)

    def parameters(self, c: list[Any]) -> list[Any]:
        return list(c)

    def named_parameter(self, c: list[Any]) -> tuple[Any, Type, Any, Any]:
        return c[0], c[1], c[2], c[3]

    def typed_parameter(self, c: list[Any]) -> tuple[Any, Type, Any, Any]:
        return None, c[0], c[1], None

    def pretty_op(self, c: list[Any]) -> OpSyntax:
        name, operands, successors, properties, attributes, literal, regions, types = c
        callee, values = (None, []) if operands is None else operands
        if literal is not None:
            attributes = {**(attributes or {}), "value": literal}
        return OpSyntax(name.start_pos, "pretty", str(name), None, values, successors or [], properties, attributes,
                        regions or [], types, callee, None)

    def pretty_operands(self, c: list[Any]) -> tuple[Any, list[Any]]:
        return None, c[0]

    def callee_operands(self, c: list[Any]) -> tuple[Any, list[Any]]:
        return symbol_value(c[0]), c[1] or []

    def literal(self, c: list[Any]) -> A.Attribute:
        return self.dense(c)

    def metadata(self, c: list[Any]) -> None:
        self.metadata_token = c[0]


def symbol_value(token: Any) -> str:
    """The name of `@name` or `@"name"`."""
    text = str(token)[1:]
    return unescape(text) if text.startswith('"') else text


class Dispatcher:
    """What lark binds its callbacks to: it passes each call to the callbacks of the parse that is running."""

    current: Callbacks = Callbacks()

    def __getattr__(self, rule: str) -> Any:
        if rule.startswith("_") or not hasattr(Callbacks, rule):
            raise AttributeError(rule)
        return lambda children: getattr(Dispatcher.current, rule)(children)


class SyntaxReader:
    """Parses texts with one grammar, whose tables are made or loaded when they are first needed."""

    _lark: Any = None
    _lock = threading.Lock()

    @classmethod
    def read(cls, text: str, start: str, callbacks: Callbacks) -> Any:
        """What the callbacks make of a text. Raises SyntaxFault and lark's own errors."""
        with cls._lock:
            if cls._lark is None:
                from gradopt.parser.tables import load_parser

                cls._lark = load_parser(Path(__file__).with_name("grammar.lark"), Dispatcher())
            Dispatcher.current = callbacks
            return cls._lark.parse(text, start=start)


def resolve_place(place: Place | None, aliases: dict[str, Place], depth: int = 0) -> Location:
    """The location of a place. Raises SyntaxFault for an unknown alias."""
    if place is None:
        return UNKNOWN_LOCATION
    if depth > 200:
        raise SyntaxFault("locations are nested too deep", -1)
    kind, parts = place
    if kind == "alias":
        name, offset = parts
        if name not in aliases:
            raise SyntaxFault(f"undefined symbol alias id '{name}'", offset)
        return resolve_place(aliases[name], aliases, depth + 1)
    if kind == "file":
        file, line, column, end_line, end_column = parts
        end = None if end_column is None else (end_line if end_line is not None else line, end_column)
        return FileLocation(file, line, column, end)
    if kind == "name":
        return NameLocation(parts[0], resolve_place(parts[1], aliases, depth + 1))
    if kind == "callsite":
        return CallSiteLocation(*(resolve_place(part, aliases, depth + 1) for part in parts))
    if kind == "fused":
        metadata, places = parts
        inner = tuple(dict.fromkeys(location for location in (resolve_place(p, aliases, depth + 1) for p in places)
                                    if location is not UNKNOWN_LOCATION))
        if metadata is None and len(inner) <= 1:
            return inner[0] if inner else UNKNOWN_LOCATION
        return FusedLocation(inner or (UNKNOWN_LOCATION,), metadata)
    return UNKNOWN_LOCATION
