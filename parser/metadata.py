"""The `{-# … #-}` section at the end of a file: blobs that `dense_resource` names, and resources of tools outside."""

from __future__ import annotations

import re
from typing import NamedTuple

from gradopt.parser.brackets import STRING, SyntaxFault, blank_comments
from gradopt.parser.literals import LiteralError, unescape

__all__ = ["Metadata", "read_metadata"]

_TOKEN = re.compile(rf"\s*(?:({STRING})|([A-Za-z_][\w$.\-]*)|([{{}}:,]))", re.ASCII)
External = dict[str, dict[str, "str | bool"]]


class Metadata(NamedTuple):
    """What the section holds: blobs by key, entries of external resources by group, and its offset (-1: there is none)."""

    resources: dict[str, bytes]
    external: External
    offset: int


def read_metadata(text: str) -> Metadata:
    """The section at the end of a text. Raises SyntaxFault."""
    offset = text.rfind("{-#")
    if offset < 0 or not blank_comments(text[offset:]).rstrip().endswith("#-}"):
        return Metadata({}, {}, -1)
    reader = _Reader(blank_comments(text[offset:]).rstrip()[:-3], offset)
    resources: dict[str, bytes] = {}
    external: External = {}
    for key, place in reader.entries(None):
        reader.expect("{")
        if key == "dialect_resources":
            for dialect, dialect_place in reader.entries("}"):
                reader.expect("{")
                if dialect != "builtin":
                    raise SyntaxFault(f"dialect '{dialect}' is unknown or has no resources", dialect_place)
                for name, _ in reader.entries("}", quoted=True):
                    resources[name] = reader.blob(name)
        elif key == "external_resources":
            for group, _ in reader.entries("}"):
                reader.expect("{")
                entries = external.setdefault(group, {})
                for name, _ in reader.entries("}", quoted=True):
                    entries[name] = reader.value(name)
        else:
            raise SyntaxFault(f"unknown key '{key}' in file metadata dictionary", place)
    return Metadata(resources, external, offset)


class _Reader:
    """The tokens of the section."""

    def __init__(self, text: str, offset: int) -> None:
        self.tokens: list[tuple[str, int]] = []
        position = 3
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                blank = len(text[position:]) - len(text[position:].lstrip())
                raise SyntaxFault(f"unexpected character {text[position + blank]!r} in file metadata", offset + position + blank)
            self.tokens.append((match[match.lastindex or 0], offset + match.start(match.lastindex or 0)))
            position = match.end()
        self.tokens.append(("", offset + len(text)))
        self.index = 0

    def expect(self, mark: str) -> None:
        """Passes a mark."""
        text, place = self.tokens[self.index]
        if text != mark:
            raise SyntaxFault(f"expected '{mark}' in file metadata", place)
        self.index += 1

    def entries(self, closing: str | None, quoted: bool = False):  # type: ignore[no-untyped-def]
        """Each (key, offset) of `key: …, key: …` up to a closing brace (None: the end); the caller reads the value."""
        first = True
        while self.tokens[self.index][0] != (closing or ""):
            if not first:
                self.expect(",")
            first = False
            text, place = self.tokens[self.index]
            if not text or text in "{}:," or (text.startswith('"') and not quoted):
                raise SyntaxFault("expected identifier key for 'resource' entry", place)
            self.index += 1
            self.expect(":")
            yield (self._string(text, place) if text.startswith('"') else text), place
        if closing is not None:
            self.index += 1

    def _string(self, text: str, place: int) -> str:
        try:
            return unescape(text)
        except LiteralError as error:
            raise SyntaxFault(error.message, place + error.offset) from None

    def value(self, key: str) -> str | bool:
        """A string (also one that holds a blob) or a truth value."""
        text, place = self.tokens[self.index]
        self.index += 1
        if text in ("true", "false"):
            return text == "true"
        if not text.startswith('"'):
            raise SyntaxFault(f"expected string value for key '{key}'", place)
        value = self._string(text, place)
        if value.startswith("0x"):
            _blob(value, key, place)
        return value

    def blob(self, key: str) -> bytes:
        """A blob with its alignment."""
        text, place = self.tokens[self.index]
        self.index += 1
        if not text.startswith('"'):
            raise SyntaxFault(f"expected hex string blob for key '{key}'", place)
        return _blob(self._string(text, place), key, place)


def _blob(value: str, key: str, place: int) -> bytes:
    if not re.fullmatch(r"0x(?:[0-9A-Fa-f]{2})*", value):
        raise SyntaxFault(f"expected hex string blob for key '{key}'", place)
    data = bytes.fromhex(value[2:])
    alignment = int.from_bytes(data[:4], "little")
    if len(data) < 4 or (alignment and alignment & (alignment - 1)):
        raise SyntaxFault(f"expected hex string blob for key '{key}' to encode alignment in first 4 bytes", place)
    return data
