"""The aliases that MLIR prints: `#map`, `#set` and `#distinct` before the program, `#loc` behind it.

Which attributes get one, and in which order they are numbered, follows MLIR's printer (found by asking `mlir-opt`): an operation's
location, its regions, its types, then its attributes in the order of their names are visited; properties of operations that MLIR does not
know are not. Aliases are ordered by how deep they nest, then by name, then by first visit.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradopt.ir.attributes import (
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    DenseElementsAttr,
    DialectAttr,
    DictionaryAttr,
    IntegerSetAttr,
    SparseElementsAttr,
    StringAttr,
    TypeAttr,
    UnitAttr,
    element_text,
    key_bytes,
    key_text,
)
from gradopt.ir.locations import CallSiteLocation, FusedLocation, Location, LocationAttr, NameLocation, SourceLocation
from gradopt.ir.operation import Operation
from gradopt.ir.rare_attributes import DenseStringAttr, DistinctAttr
from gradopt.ir.shaped_types import MemRefType
from gradopt.ir.text import escape_string
from gradopt.ir.types import FunctionType, TensorType, TupleType
from gradopt.ir.values import BlockArgument

__all__ = ["AliasTable", "attributes_with_aliases"]

NAMES: dict[type[Attribute], str] = {AffineMapAttr: "map", IntegerSetAttr: "set", DistinctAttr: "distinct"}


def attributes_with_aliases() -> bool:
    """True if any attribute was ever made that would get an alias."""
    return bool(AffineMapAttr._pool or IntegerSetAttr._pool or DistinctAttr._pool or LocationAttr._pool)


def parts(attribute: Attribute) -> tuple[Attribute, ...]:
    """The attributes and types inside one, in the order in which they print."""
    if isinstance(attribute, (ArrayAttr, TupleType)):
        return attribute.elements
    if isinstance(attribute, DictionaryAttr):
        return tuple(value for _, value in attribute.entries)
    if isinstance(attribute, FunctionType):
        return (*attribute.inputs, *attribute.results)
    if isinstance(attribute, MemRefType):
        return tuple(part for part in (attribute.element, attribute.layout, attribute.space) if part is not None)
    if isinstance(attribute, TensorType):
        return (attribute.element,) if attribute.encoding is None else (attribute.element, attribute.encoding)
    if isinstance(attribute, DistinctAttr):
        return () if attribute.value is None else (attribute.value,)
    if isinstance(attribute, LocationAttr):
        return (attribute.location,)
    if isinstance(attribute, NameLocation):
        return (attribute.child,) if attribute.child.text != "unknown" else ()
    if isinstance(attribute, CallSiteLocation):
        return (attribute.callee, attribute.caller)
    if isinstance(attribute, FusedLocation):
        return attribute.locations if attribute.metadata is None else (attribute.metadata, *attribute.locations)
    if isinstance(attribute, (TypeAttr, StringAttr, DialectAttr, DenseElementsAttr, DenseStringAttr, SparseElementsAttr)):
        return () if attribute.type is None else (attribute.type,)
    return ()


class AliasTable:
    """The aliases of one printed text."""

    def __init__(self, root: Operation, locations: bool, attributes: bool = True) -> None:
        self.depths: dict[Attribute, int] = {}  # of those that get an alias, in the order of their first visit
        self.deferred: dict[Attribute, bool] = {}  # of all that were visited: true where only locations behind operations hold them
        self.names: dict[Attribute, str] = {}
        self.texts: dict[Attribute, str] = {}
        self.distinct_numbers: dict[Attribute, int] = {}
        self.plain: dict[Attribute, int] = {}  # of those that get none
        for attribute, deferrable in _visits(root, locations, attributes):
            self._visit(attribute, deferrable)
        counts: dict[str, int] = {}
        for attribute in sorted(self.depths, key=lambda a: (self.depths[a], _name(a))):
            stem = _name(attribute)
            number = counts.get(stem, 0)
            counts[stem] = number + 1
            self.names[attribute] = f"#{stem}{number or ''}"

    def _visit(self, attribute: Attribute, deferrable: bool) -> int:
        """Notes an attribute and all inside it; returns how deep aliases nest in it (itself counted, if there are any)."""
        if attribute in self.deferred:
            if not deferrable and self.deferred[attribute]:
                self.deferred[attribute] = False
                for part in parts(attribute):
                    self._visit(part, False)
            return self.plain[attribute] if attribute in self.plain else self.depths[attribute] + 1
        self.deferred[attribute] = deferrable
        named = _name(attribute) != ""
        if named:
            self.depths[attribute] = 0  # those come first that are visited first
        depth = max([self._visit(part, deferrable) for part in parts(attribute)], default=0)
        if not named:
            if depth and not isinstance(attribute, LocationAttr):  # which MLIR does not tell from its location
                depth += 1
            self.plain[attribute] = depth
            return depth
        self.depths[attribute] = depth
        return depth + 1

    def definitions(self, deferred: bool) -> str:
        """The lines that define the aliases before (or, deferred, behind) the program."""
        lines = []
        for attribute, name in self.names.items():
            if self.deferred[attribute] is deferred:
                text = self.spell(attribute)
                lines.append(f"{name} = loc({text})\n" if isinstance(attribute, Location) else f"{name} = {text}\n")
        return "".join(lines)

    def location(self, location: Location) -> str:
        """` loc(#loc1)`."""
        return f" loc({self.text(location)})"

    def text(self, attribute: Attribute) -> str:
        """An attribute or type with aliases in it, or its alias."""
        name = self.names.get(attribute)
        if name is not None:
            return name
        found = self.texts.get(attribute)
        if found is None:
            found = self.texts[attribute] = self.spell(attribute)
        return found

    def element(self, attribute: Attribute) -> str:
        """An attribute inside a list."""
        text = attribute.text
        spelt = self.text(attribute)
        return element_text(attribute) if spelt == text else spelt

    def entry(self, name: str, value: Attribute) -> str:
        """`name = value`."""
        return key_text(name) if isinstance(value, UnitAttr) else f"{key_text(name)} = {self.text(value)}"

    def dictionary(self, entries: dict[str, Attribute]) -> str:
        """`{a = 1, b}` sorted by name."""
        return "{" + ", ".join([self.entry(name, entries[name]) for name in sorted(entries, key=key_bytes)]) + "}"

    def spell(self, attribute: Attribute) -> str:
        """An attribute with aliases for what is inside it."""
        inner = parts(attribute)
        if isinstance(attribute, DistinctAttr):  # numbered in the order in which they print
            number = self.distinct_numbers.setdefault(attribute, len(self.distinct_numbers))
            return f"distinct[{number}]<{'' if attribute.value is None else self.text(attribute.value)}>"
        if all(self.text(part) == part.text for part in inner):
            return attribute.text
        if isinstance(attribute, ArrayAttr):
            return "[" + ", ".join(self.element(part) for part in inner) + "]"
        if isinstance(attribute, DictionaryAttr):
            return "{" + ", ".join(self.entry(name, value) for name, value in attribute.entries) + "}"
        if isinstance(attribute, LocationAttr):
            return self.text(attribute.location) if attribute.location in self.names else f"loc({self.text(attribute.location)})"
        if isinstance(attribute, NameLocation):
            return f"{escape_string(attribute.name)}({self.text(attribute.child)})"
        if isinstance(attribute, CallSiteLocation):
            return f"callsite({self.text(attribute.callee)} at {self.text(attribute.caller)})"
        if isinstance(attribute, FusedLocation):
            metadata = "" if attribute.metadata is None else f"<{self.text(attribute.metadata)}>"
            return f"fused{metadata}[{', '.join(self.text(part) for part in attribute.locations)}]"
        if isinstance(attribute, TypeAttr):
            return self.text(attribute.type)
        return self._spell_type(attribute)

    def _spell_type(self, attribute: Attribute) -> str:
        if isinstance(attribute, TupleType):
            return f"tuple<{', '.join(self.text(part) for part in attribute.elements)}>"
        if isinstance(attribute, FunctionType):
            results = ", ".join(self.text(part) for part in attribute.results)
            single = len(attribute.results) == 1 and not isinstance(attribute.results[0], FunctionType)
            return f"({', '.join(self.text(part) for part in attribute.inputs)}) -> {results if single else f'({results})'}"
        # what is left ends in the text of its last part that has an alias (an encoding, a layout, a type): put it in from the right
        text = attribute.text
        for part in reversed(parts(attribute)):
            spelt = self.text(part)
            if spelt != part.text:
                before, _, behind = text.rpartition(part.text)
                text = before + spelt + behind
        return text


def _name(attribute: Attribute) -> str:
    if isinstance(attribute, Location):
        return "loc"
    return "" if isinstance(attribute, DistinctAttr) and attribute.value is None else NAMES.get(type(attribute), "")


def _visits(root: Operation, locations: bool, attributes: bool) -> Iterator[tuple[Attribute, bool]]:
    """Each attribute and type that MLIR's printer looks at, and whether it may be defined behind the program. Iterative."""
    work: list[tuple[Operation | BlockArgument, bool]] = [(root, False)]
    while work:
        item, done = work.pop()
        if isinstance(item, BlockArgument):
            if attributes:
                yield item.type, False
            if locations:
                yield _resolved(item.location), False
        elif not done:
            if locations:
                yield _resolved(item.location), True
            work.append((item, True))
            for region in reversed(item.regions):
                for block in reversed(region.blocks):
                    work += [(inner, False) for inner in reversed(list(block.operations))]
                    work += [(argument, False) for argument in reversed(block.arguments)]
        elif attributes:
            for value in (*item._operands, *item.results):
                yield value.type, False
            entries = {**item.properties, **item.attributes} if item.name.startswith(("builtin.", "func.")) else item.attributes
            for name in sorted(entries, key=key_bytes):
                yield entries[name], False


def _resolved(location: Location | SourceLocation) -> Location:
    return location.resolve() if isinstance(location, SourceLocation) else location
