"""Where an operation came from. Locations are attributes, except that a place in a source file finds its line only when asked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from gradopt.ir.attributes import Attribute
from gradopt.ir.text import escape_string

__all__ = ["UNKNOWN_LOCATION", "CallSiteLocation", "FileLocation", "FusedLocation", "Location", "LocationAttr", "NameLocation", "Source",
           "SourceLocation", "UnknownLocation", "file_position"]


class Location(Attribute):
    """Base of all locations; `text` is what stands inside `loc(…)`."""

    __slots__ = ()


class UnknownLocation(Location):
    """`loc(unknown)`."""

    __slots__ = ()

    def __init__(self) -> None:
        self._set()

    def spell(self) -> str:
        return "unknown"


UNKNOWN_LOCATION = UnknownLocation()


class FileLocation(Location):
    """`"file":line:column`, optionally `to line:column`."""

    __slots__ = ("column", "end", "file", "line")

    def __init__(self, file: str, line: int, column: int, end: tuple[int, int] | None = None) -> None:
        file = file or ("-" if end is None else "")  # so does MLIR
        self.file, self.line, self.column, self.end = file, line, column, end
        self._set(file, line, column, end)

    def spell(self) -> str:
        place = f"{escape_string(self.file)}:{self.line}:{self.column}"
        if self.end is None:
            return place
        line, column = self.end
        return f"{place} to :{column}" if line == self.line else f"{place} to {line}:{column}"


class NameLocation(Location):
    """`"name"(child)`."""

    __slots__ = ("child", "name")

    def __init__(self, name: str, child: Location = UNKNOWN_LOCATION) -> None:
        self.name, self.child = name, child
        self._set(name, child)

    def spell(self) -> str:
        child = "" if self.child is UNKNOWN_LOCATION else f"({self.child.text})"
        return escape_string(self.name) + child


class CallSiteLocation(Location):
    """`callsite(callee at caller)`."""

    __slots__ = ("callee", "caller")

    def __init__(self, callee: Location, caller: Location) -> None:
        self.callee, self.caller = callee, caller
        self._set(callee, caller)

    def spell(self) -> str:
        return f"callsite({self.callee.text} at {self.caller.text})"


class FusedLocation(Location):
    """`fused<metadata>[…]`."""

    __slots__ = ("locations", "metadata")

    def __init__(self, locations: tuple[Location, ...], metadata: Attribute | None = None) -> None:
        self.locations, self.metadata = locations, metadata
        self._set(locations, metadata)

    def spell(self) -> str:
        metadata = f"<{self.metadata.text}>" if self.metadata is not None else ""
        return f"fused{metadata}[{', '.join(location.text for location in self.locations)}]"


class LocationAttr(Attribute):
    """A location as the value of an attribute: `loc(…)`."""

    __slots__ = ("location",)

    def __init__(self, location: Location) -> None:
        self.location = location
        self._set(location)

    def spell(self) -> str:
        return f"loc({self.location.text})"


class Source:
    """A text with a name; turns offsets into lines and columns (both counted from 1)."""

    __slots__ = ("_starts", "first_line", "name", "text")

    def __init__(self, name: str, text: str, first_line: int = 1) -> None:
        self.name, self.text, self.first_line = name, text, first_line
        self._starts: list[int] | None = None

    def position(self, offset: int) -> tuple[int, int]:
        """(line, column) of a character offset."""
        if self._starts is None:
            starts, found = [0], self.text.find("\n")
            while found >= 0:
                starts.append(found + 1)
                found = self.text.find("\n", found + 1)
            self._starts = starts
        row = bisect_right(self._starts, offset) - 1
        return row + self.first_line, offset - self._starts[row] + 1

    def line(self, number: int) -> str:
        """The text of a line (without its newline), by its number."""
        self.position(0)
        assert self._starts is not None
        row = number - self.first_line
        if not 0 <= row < len(self._starts):
            return ""
        end = self.text.find("\n", self._starts[row])
        return self.text[self._starts[row]: end if end >= 0 else len(self.text)].rstrip("\r")


class SourceLocation:
    """A character offset in a Source: made once an op while parsing, spelt only when it is printed or reported."""

    __slots__ = ("offset", "source")

    def __init__(self, source: Source, offset: int) -> None:
        self.source, self.offset = source, offset

    @property
    def text(self) -> str:
        """`"file":line:column`."""
        return self.resolve().text

    def resolve(self) -> Location:
        """The FileLocation of this place."""
        return FileLocation(self.source.name, *self.source.position(self.offset))


AnyLocation = Location | SourceLocation


def file_position(location: AnyLocation) -> FileLocation | None:
    """The file, line and column behind a location: of a fused one the first that has any, of a call site the callee's."""
    pending: list[AnyLocation] = [location]
    while pending:
        place = pending.pop()
        if isinstance(place, SourceLocation):
            place = place.resolve()
        if isinstance(place, FileLocation):
            return place
        if isinstance(place, NameLocation):
            pending.append(place.child)
        elif isinstance(place, CallSiteLocation):
            pending += [place.caller, place.callee]
        elif isinstance(place, FusedLocation):
            pending += reversed(place.locations)
    return None


def fuse_all(locations: Iterable[AnyLocation], pass_name: str) -> Location:
    """The location of an op that `pass_name` made from the ops at `locations` (each place counts once)."""
    from gradopt.ir.attributes import StringAttr

    places = dict.fromkeys(place.resolve() if isinstance(place, SourceLocation) else place for place in locations)
    places.pop(UNKNOWN_LOCATION, None)
    return FusedLocation(tuple(places), StringAttr(pass_name)) if places else UNKNOWN_LOCATION


def fuse(location: AnyLocation, pass_name: str, op_name: str = "") -> Location:
    """The location of an op that `pass_name` made from the op at `location` (called `op_name`, where that is worth keeping)."""
    if isinstance(location, SourceLocation):
        location = location.resolve()
    from gradopt.ir.attributes import StringAttr

    tag = StringAttr(pass_name)
    if isinstance(location, FusedLocation) and location.metadata is tag:
        return location
    return FusedLocation((NameLocation(op_name, location) if op_name else location,), tag)
