"""How deep and how large attributes, types and locations may become: aliases could nest without end, or double at each step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradopt.parser.brackets import SyntaxFault

__all__ = ["MOST_DEPTH", "Limits"]

MOST_DEPTH = 100
MOST_PARTS = 1 << 22  # in one attribute, those that are shared counted each time
MOST_LOCATION = 1 << 20  # characters of one location


class Limits:
    """Depth and size of what was made of other attributes."""

    def __init__(self) -> None:
        self.known: dict[Any, tuple[int, int]] = {}

    def note(self, made: Any, parts: Iterable[Any], offset: int) -> Any:
        """Returns `made`, which begins at an offset and holds `parts`. Raises SyntaxFault where it is too deep or too large."""
        known, depth, size = self.known, 0, 1
        for part in parts:
            below = known.get(part)
            if below is None:
                size += 1
            else:
                size += below[1]
                if below[0] >= depth:
                    depth = below[0] + 1
        if depth > MOST_DEPTH:
            raise SyntaxFault(f"types and attributes are nested more than {MOST_DEPTH} deep", offset)
        if depth and size > MOST_PARTS:
            raise SyntaxFault(f"an attribute has more than {MOST_PARTS} parts", offset)
        known[made] = (depth, size)
        return made

    def carry(self, made: Any, part: Any, offset: int) -> Any:
        """Returns `made`, which holds one part that may be deep."""
        return self.note(made, (part,), offset) if part in self.known else made

    def location(self, made: Any, parts: Iterable[Any], offset: int) -> Any:
        """Returns a location, which holds `parts`. Its text is made of theirs now: later that could be a deep recursion."""
        depth = 1 + max((self.known[part][0] for part in parts if part in self.known), default=0)
        if depth > 2 * MOST_DEPTH:
            raise SyntaxFault(f"locations are nested more than {2 * MOST_DEPTH} deep", offset)
        if len(made.text) > MOST_LOCATION:
            raise SyntaxFault(f"a location has more than {MOST_LOCATION} characters", offset)
        self.known[made] = (depth, 1)
        return made
