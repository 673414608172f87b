"""Printing as the options of `gradopt` ask for it: users behind each operation, regions left out, names from locations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gradopt.ir.attributes import Attribute, DenseElementsAttr
from gradopt.ir.locations import AnyLocation, FusedLocation, NameLocation
from gradopt.ir.naming import pretty_names
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.printer import Piece, Printer, print_operation
from gradopt.ir.text import element_texts
from gradopt.ir.values import BlockArgument, OperationResult, Value

__all__ = ["OptionPrinter", "print_hex_larger", "print_with"]

SPECIAL = ("print_value_users", "print_skip_regions", "use_nameloc_as_prefix")


def print_with(options: Mapping[str, Any], op: Operation) -> str:
    """The text of an operation under the options."""
    generic, debug_info = options["print_op_generic"], options["print_debuginfo"]
    if not any(options[name] for name in SPECIAL):
        return print_operation(op, generic=generic, debug_info=debug_info, local_scope=options["print_local_scope"])
    printer = OptionPrinter(options, generic=generic, debug_info=debug_info)
    printer.print(op)
    return printer.text()


class OptionPrinter(Printer):
    """The printer with what the special options add."""

    def __init__(self, options: Mapping[str, Any], *, generic: bool, debug_info: bool) -> None:
        super().__init__(generic=generic, debug_info=debug_info, local_scope=options["print_local_scope"])
        self.users, self.skip_regions, self.by_location = (options[name] for name in SPECIAL)
        self.noted: list[Operation] = []
        self.current: Operation | None = None

    def text(self) -> str:
        """All that was printed; users are filled in now that every value has its name."""
        return re.sub(r"\0(\d+)\0", lambda match: self._users_of(self.noted[int(match[1])]), "".join(self.out))

    def _users_of(self, op: Operation) -> str:
        users = [user for result in op.results for user in result.users]
        names = [self.names[user.results[0]] if user.results and user.results[0] in self.names else f"({user.name})"
                 for user in dict.fromkeys(users)]
        label = "unused" if not names else "user: " if len(names) == 1 else "users: "
        return f"  // {label}{', '.join(names)}"

    def operation(self, op: Operation, indent: int, generic: bool) -> None:
        """Prints one operation."""
        self.current = op
        super().operation(op, indent, generic or (self.skip_regions and op.name == "func.func"))
        self.current = None

    def location(self, location: AnyLocation, alias: bool = True) -> str:
        """The location of the current operation, and a mark for its users."""
        text: str = super().location(location, alias)
        op, self.current = self.current, None  # only the first location that is asked for is the operation's own
        if self.users and op is not None and op.results and not op.regions:
            self.noted.append(op)
            text += f"\0{len(self.noted) - 1}\0"
        return text

    def region_pieces(self, region: Region, indent: int, entry: bool = True) -> list[Piece]:
        """A region, or dots for it."""
        return ["{...}"] if self.skip_regions else super().region_pieces(region, indent, entry)

    def name_all(self, root: Operation) -> tuple[dict[Value, str], dict[Block, str]]:
        """The names of all values and blocks, from their locations where that is asked for."""
        if not self.by_location:
            return super().name_all(root)
        return pretty_names(root, lambda value: _location_name(value) or (None if self.generic else value.name))


def _location_name(value: Value) -> str | None:
    """The name in the location of a value, made fit for a value's name."""
    location: AnyLocation | None = None
    if isinstance(value, OperationResult):
        location = value.owner.location
    elif isinstance(value, BlockArgument):
        location = value.location
    while isinstance(location, FusedLocation) and location.locations:
        location = location.locations[0]
    if not isinstance(location, NameLocation):
        return None
    name = re.sub(r"[^\w$.-]", "_", location.name)
    return None if not name or name[0].isdigit() else name


class SpelledElements(Attribute):
    """Dense elements in a given spelling, for printing only."""

    __slots__ = ("spelling",)

    def __init__(self, spelling: str) -> None:
        self.spelling = spelling
        self._set(spelling)

    def spell(self) -> str:
        return self.spelling


def print_hex_larger(root: Operation, limit: int) -> None:
    """Spells dense elements of more than `limit` elements in hex, others as lists (-1: all as lists). The module is good for nothing
    but printing after that."""
    for op in root.walk():
        op.properties = {name: _spelled(value, limit) for name, value in op.properties.items()}
        op.attributes = {name: _spelled(value, limit) for name, value in op.attributes.items()}


def _spelled(value: Attribute, limit: int) -> Attribute:
    if not isinstance(value, DenseElementsAttr) or value.is_splat or not value.data or value.type.element.text == "i1":
        return value
    type = value.type
    if 0 <= limit < type.element_count:
        return SpelledElements(f'dense<"0x{value.data.hex().upper()}"> : {type.text}')
    texts = element_texts(type.element, value.data)
    for size in reversed(type.shape):
        texts = [f"[{', '.join(texts[start:start + size])}]" for start in range(0, len(texts), size)]
    return SpelledElements(f"dense<{texts[0]}> : {type.text}")
