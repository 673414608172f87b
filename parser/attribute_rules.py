"""What the grammar's rules for types, attributes and locations make of their parts."""

from __future__ import annotations

from typing import Any

from gradopt.ir import attributes as A
from gradopt.ir.locations import LocationAttr
from gradopt.ir.rare_attributes import DistinctAttr
from gradopt.ir.types import F64, I1, I64, NONE, FloatType, FunctionType, Type
from gradopt.parser.brackets import SyntaxFault
from gradopt.parser.builtin_attributes import read_builtin
from gradopt.parser.lexer import Token
from gradopt.parser.limits import Limits
from gradopt.parser.literals import LiteralError, dense_literal, float_bits, integer_value, read_integer, unescape
from gradopt.parser.places import Place, PlaceResolver
from gradopt.parser.types import TypeReader, canonical_body

__all__ = ["AttributeRules", "symbol_value"]

UNIT, TRUE, FALSE = A.UnitAttr(), A.IntegerAttr(1, I1), A.IntegerAttr(0, I1)


class AttributeRules:
    """Types, attributes, locations and aliases of one text."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.reader = TypeReader(self.nested_attribute, self.limits)
        self.attribute_aliases: dict[str, A.Attribute] = {}
        self.location_aliases: dict[str, Place] = {}
        self.places = PlaceResolver(self.location_aliases, self.limits)
        self.distinct_values: dict[int, A.Attribute | None] = {}
        self.resources: dict[str, bytes] = {}
        self.brace = 0  # where the dictionary that was read last opens
        self.early: AttributeRules | None = None  # knows every alias of the text, where one is used before its definition

    def use_early(self, early: AttributeRules) -> None:
        """Finds aliases there that are not defined yet."""
        self.early = early
        self.limits.known.update(early.limits.known)
        self.reader.early_aliases = early.reader.aliases
        self.places.early = early.places

    def nested_attribute(self, text: str, start: int, end: int) -> A.Attribute:
        """The attribute in `text[start:end]`, which stands inside a type or a location. Set by the reader."""
        raise NotImplementedError

    # --- types

    def plain_type(self, c: list[Any]) -> Type:
        token = c[0]
        return self.reader.located(token.text, token.start_pos)

    def function_type(self, c: list[Any]) -> Type:
        inputs, results = tuple(c[1] or ()), tuple(c[3])
        made: Type = self.limits.note(FunctionType(inputs, results), (*inputs, *results), c[0].start_pos)
        return made

    def types(self, c: list[Any]) -> list[Type]:
        return list(c)

    def one_type(self, c: list[Any]) -> list[Type]:
        return list(c)

    def many_types(self, c: list[Any]) -> list[Type]:
        return c[0] or []

    # --- attributes

    def key(self, c: list[Any]) -> Token:
        return c[0]  # type: ignore[no-any-return]

    def entry(self, c: list[Any]) -> tuple[Token, Any]:
        return c[0], (UNIT if c[1] is None else c[1])

    def dictionary(self, c: list[Any]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for item in c[1:]:
            if item is None:
                continue
            token, value = item
            name = self.text(token) if token.type == "STRING" else token.text
            if not name:
                raise SyntaxFault("expected valid attribute name", token.start_pos)
            if name in entries:
                raise SyntaxFault(f"duplicate key '{name}' in dictionary attribute", token.start_pos)
            entries[name] = value
        self.brace = c[0].start_pos
        return entries

    def dictionary_attribute(self, c: list[Any]) -> A.Attribute:
        made: A.Attribute = self.limits.note(A.DictionaryAttr(tuple(c[0].items())), c[0].values(), self.brace)
        return made

    def array(self, c: list[Any]) -> A.Attribute:
        elements = tuple([item for item in c[1:] if item is not None])
        made: A.Attribute = self.limits.note(A.ArrayAttr(elements), elements, c[0].start_pos)
        return made

    def text(self, token: Token) -> str:
        """The value of a string token. Raises SyntaxFault."""
        try:
            return unescape(token.text)
        except LiteralError as error:
            raise SyntaxFault(error.message, token.start_pos + error.offset) from None

    def string(self, c: list[Any]) -> A.Attribute:
        made: A.Attribute = self.limits.carry(A.StringAttr(self.text(c[0]), told(c[1])), c[1], c[0].start_pos)
        return made

    def symbol(self, c: list[Any]) -> A.Attribute:
        names = [symbol_value(token) for token in c if token.type == "SYMBOL"]
        return A.SymbolRefAttr(names[0], tuple(names[1:]))

    def unit(self, c: list[Any]) -> A.Attribute:
        return UNIT

    def true(self, c: list[Any]) -> A.Attribute:
        return TRUE

    def false(self, c: list[Any]) -> A.Attribute:
        return FALSE

    def integer(self, c: list[Any]) -> A.Attribute:
        token, type = c[0], c[1] or I64
        try:
            if isinstance(type, FloatType):
                raise LiteralError("unexpected decimal integer literal for a floating point value: it needs a dot")
            return integer_value(token.text, type)
        except LiteralError as error:
            raise SyntaxFault(error.message, token.start_pos) from None

    def hexadecimal(self, c: list[Any]) -> A.Attribute:
        token, type = c[0], c[1] or I64
        try:
            if isinstance(type, FloatType):
                return A.FloatAttr(float_bits(token.text, type), type)
            return integer_value(token.text, type)
        except LiteralError as error:
            raise SyntaxFault(error.message, token.start_pos) from None

    def float(self, c: list[Any]) -> A.Attribute:
        token, type = c[0], c[1] or F64
        if not isinstance(type, FloatType):
            raise SyntaxFault(f"floating point value not valid for specified type '{type.text}'", token.start_pos)
        return A.FloatAttr(float_bits(token.text, type), type)

    def dense(self, c: list[Any]) -> A.Attribute:
        token, type = c
        try:
            made: A.Attribute = self.limits.carry(dense_literal(token.text, type, self.resources), type, token.start_pos)
            return made
        except LiteralError as error:
            raise SyntaxFault(error.message, token.start_pos + error.offset) from None

    def dialect_attribute(self, c: list[Any]) -> A.Attribute:
        token = c[0]
        if token.text[1:].split("<")[0].split(".")[0] == "builtin":
            raise SyntaxFault("dialect 'builtin' provides no attribute parsing hook: its attributes are written without a dialect",
                              token.start_pos)
        made: A.Attribute = self.limits.carry(A.DialectAttr(canonical_body(token.text[1:]), told(c[1])), c[1], token.start_pos)
        return made

    def alias_attribute(self, c: list[Any]) -> A.Attribute:
        token = c[0]
        name = token.text[1:]
        found = self.attribute_aliases.get(name)
        if found is None and self.early is not None:
            found = self.early.attribute_aliases.get(name)
        if found is not None:
            return found
        return self._location_attribute(Place("alias", (name,), 0, token.start_pos))

    def _location_attribute(self, place: Place) -> A.Attribute:
        location = self.places.resolve(place)
        made: A.Attribute = self.limits.carry(LocationAttr(location), location, place.offset)
        return made

    def builtin_attribute(self, c: list[Any]) -> A.Attribute:
        token = c[0]
        try:
            return read_builtin(token.text, self.reader)
        except LiteralError as error:
            raise SyntaxFault(error.message, token.start_pos + error.offset) from None
        except SyntaxFault as fault:
            fault.offset += token.start_pos
            raise

    def distinct(self, c: list[Any]) -> A.Attribute:
        """The number tells two apart; the generic form prints new ones, as MLIR does."""
        token = c[0]
        number = token.text.partition("[")[2].partition("]")[0].strip()
        if len(number) > 18:
            raise SyntaxFault("expected a distinct number of at most 18 digits", token.start_pos)
        index = read_integer(number)
        start = token.text.index("<") + 1
        empty = not token.text[start:-1].strip()
        value = None if empty else self.nested_attribute(token.text, start, len(token.text) - 1)
        if value is UNIT:  # which is what MLIR means by no value
            value = None
        known = self.distinct_values.setdefault(index, value)
        if known is not value:
            raise SyntaxFault("referenced attribute does not match previous definition: "
                              + ("no value" if known is None else known.text), token.start_pos)
        made: A.Attribute = self.limits.note(DistinctAttr(index, value), (value,), token.start_pos)
        return made

    def location_attribute(self, c: list[Any]) -> A.Attribute:
        return self._location_attribute(c[0])

    def type_attribute(self, c: list[Any]) -> A.Attribute:
        made: A.Attribute = A.TypeAttr(c[0])
        if c[0] in self.limits.known:  # it is as deep as the type
            self.limits.known[made] = self.limits.known[c[0]]
        return made

    # --- aliases

    def _new_alias(self, token: Token) -> str:
        name = token.text[1:]
        if name in self.attribute_aliases or name in self.location_aliases:
            raise SyntaxFault(f"redefinition of attribute alias id '{name}'", token.start_pos)
        return name

    def attribute_alias(self, c: list[Any]) -> None:
        name, value = self._new_alias(c[0]), c[1]
        self.attribute_aliases[name] = value
        if isinstance(value, LocationAttr):
            self.places.known[name] = value.location

    def location_alias(self, c: list[Any]) -> None:
        self.location_aliases[self._new_alias(c[0])] = c[1]

    def type_alias(self, c: list[Any]) -> None:
        name = c[0].text[1:]
        if name in self.reader.aliases:
            raise SyntaxFault(f"redefinition of type alias id '{name}'", c[0].start_pos)
        self.reader.aliases[name] = c[1]

    # --- locations

    def location(self, c: list[Any]) -> Place:
        place: Place = c[1]
        return place

    def unknown_place(self, c: list[Any]) -> Place:
        return Place("unknown", (), 0, c[0].start_pos)

    def file_place(self, c: list[Any]) -> Place:
        name, line, column, _, end_line, end_column = c
        numbers = [None if item is None else self._position(item) for item in (line, column, end_line, end_column)]
        return Place("file", (self.text(name), numbers[0], numbers[1] or 0, *numbers[2:]), 0, name.start_pos)

    def _position(self, token: Token) -> int:
        text = token.text
        value = -1 if text.startswith("-") or len(text) > 24 else read_integer(text)
        if not 0 <= value < 1 << 32:
            raise SyntaxFault("expected a line or column number below 4294967296", token.start_pos)
        return value

    def name_place(self, c: list[Any]) -> Place:
        return Place.of("name", (self.text(c[0]), c[1]), c[0].start_pos)

    def callsite_place(self, c: list[Any]) -> Place:
        return Place.of("callsite", (c[1], c[3]), c[0].start_pos)

    def fused_place(self, c: list[Any]) -> Place:
        return Place.of("fused", (c[1], *(item for item in c[2:] if item is not None)), c[0].start_pos)

    def alias_place(self, c: list[Any]) -> Place:
        return Place("alias", (c[0].text[1:],), 0, c[0].start_pos)


def told(type: Type | None) -> Type | None:
    """The type behind a string or a dialect's attribute; `none` is the same as no type."""
    return None if type is NONE else type


def symbol_value(token: Token) -> str:
    """The name of `@name` or `@"name"`. Raises SyntaxFault."""
    text = token.text[1:]
    if not text.startswith('"'):
        return text
    try:
        name = unescape(text)
    except LiteralError as error:
        raise SyntaxFault(error.message, token.start_pos + 1 + error.offset) from None
    if not name:
        raise SyntaxFault("expected a symbol name", token.start_pos)
    return name
