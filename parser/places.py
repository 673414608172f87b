"""Locations while a text is read: their aliases may be defined after they are used, so a location is a `Place` until it is asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradopt.ir.locations import UNKNOWN_LOCATION, CallSiteLocation, FileLocation, FusedLocation, Location, NameLocation
from gradopt.parser.brackets import SyntaxFault
from gradopt.parser.limits import MOST_DEPTH, Limits

__all__ = ["Place", "PlaceResolver", "UnknownAlias"]

MOST_STEPS = 6 * MOST_DEPTH + 50  # calls in one another: one for a nested location, two more for an alias


class UnknownAlias(SyntaxFault):
    """An alias that is not defined (so far)."""

    def __init__(self, name: str, offset: int) -> None:
        super().__init__(f"undefined symbol alias id '{name[1:]}'", offset)
        self.name = name


class Place(NamedTuple):
    """A location as it is written; `depth` counts how deep others are nested in it."""

    kind: str
    parts: tuple[Any, ...]
    depth: int
    offset: int

    @classmethod
    def of(cls, kind: str, parts: tuple[Any, ...], offset: int) -> Place:
        """A place of a kind. Raises SyntaxFault where it is too deep."""
        depth = 0
        for part in parts:
            if isinstance(part, Place) and part.depth >= depth:
                depth = part.depth + 1
        if depth > MOST_DEPTH:
            raise SyntaxFault(f"locations are nested more than {MOST_DEPTH} deep", offset)
        return cls(kind, parts, depth, offset)


class PlaceResolver:
    """Turns places into locations; each alias is resolved once."""

    def __init__(self, aliases: dict[str, Place], limits: Limits) -> None:
        self.aliases, self.limits = aliases, limits
        self.known: dict[str, Location] = {}
        self.early: PlaceResolver | None = None

    def resolve(self, place: Place, depth: int = 0) -> Location:
        """The location of a place. Raises UnknownAlias, and SyntaxFault where aliases nest too deep or in a circle."""
        kind, parts = place.kind, place.parts
        if kind == "alias":
            found = self.known.get(parts[0])
            return self._alias(parts[0], place.offset, depth) if found is None else found
        if depth > MOST_STEPS:
            raise SyntaxFault("locations are nested too deep", place.offset)
        if kind == "file":
            file, line, column, end_line, end_column = parts
            end = None if end_column is None else (line if end_line is None else end_line, end_column)
            return FileLocation(file, line, column, None if end == (line, column) else end)
        if kind == "name":
            child = UNKNOWN_LOCATION if parts[1] is None else self.resolve(parts[1], depth + 1)
            return self._made(NameLocation(parts[0], child), (child,), place.offset)
        if kind == "callsite":
            sides = self.resolve(parts[0], depth + 1), self.resolve(parts[1], depth + 1)
            return self._made(CallSiteLocation(*sides), sides, place.offset)
        if kind == "fused":
            return self._fused(parts[0], parts[1:], depth, place.offset)
        return UNKNOWN_LOCATION

    def _alias(self, name: str, offset: int, depth: int) -> Location:
        place = self.aliases.get(name)
        if place is None:
            if self.early is None:
                raise UnknownAlias("#" + name, offset)
            return self.early.resolve(Place("alias", (name,), 0, offset), depth)
        if depth > MOST_STEPS:
            raise SyntaxFault(f"location alias '#{name}' is defined by itself or nested too deep", offset)
        found = self.known[name] = self.resolve(place, depth + 2)
        return found

    def _made(self, location: Location, parts: tuple[Any, ...], offset: int) -> Location:
        checked: Location = self.limits.location(location, parts, offset)
        return checked

    def _fused(self, metadata: Any, places: tuple[Place, ...], depth: int, offset: int) -> Location:
        """MLIR's simplification: nested fused locations are spread, equal and (without metadata) unknown ones dropped."""
        inner: dict[Location, None] = {}
        for place in places:
            location = self.resolve(place, depth + 1)
            if isinstance(location, FusedLocation) and location.metadata is metadata:
                inner.update(dict.fromkeys(location.locations))
            elif location is not UNKNOWN_LOCATION:
                inner[location] = None
        if metadata is None and len(inner) <= 1:
            return next(iter(inner), UNKNOWN_LOCATION)
        locations = tuple(inner) or (UNKNOWN_LOCATION,)
        return self._made(FusedLocation(locations, metadata), (*locations, metadata), offset)
