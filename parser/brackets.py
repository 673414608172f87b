"""Brackets inside tokens: where one closes, what stands between commas, comments. The bodies of dialects are raw text with balanced
brackets; in what is builtin there are comments, comparisons and such bodies."""

from __future__ import annotations

import re

__all__ = ["STRING", "SyntaxFault", "balanced_end", "blank_comments", "split_commas"]

STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
_DIALECT_HEAD = r"[!\#][A-Za-z_](?:[\w$.]|-(?!>))*<"  # what opens a body that is raw text
_BODY = re.compile(rf'->|{STRING}|[<>()\[\]{{}}"]')
_BUILTIN_BODY = re.compile(rf'->|[<>]=|//[^\n]*|{STRING}|{_DIALECT_HEAD}|[<>()\[\]{{}}"]', re.ASCII)
_PARTS = re.compile(rf"->|[<>]=|{STRING}|{_DIALECT_HEAD}|[<>()\[\]{{}},]", re.ASCII)
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}
_COMMENT = re.compile(rf"{STRING}|({_DIALECT_HEAD})|(//[^\n]*)", re.ASCII)


class SyntaxFault(Exception):
    """A message at an offset of the text."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message, self.offset = message, offset


def balanced_end(text: str, start: int, end: int, builtin: bool = False) -> int:
    """The offset behind the bracket that closes the one at `start`. Strings and arrows are opaque, and so are comments, comparisons and
    the bodies of dialects where a builtin type or attribute is read. Raises SyntaxFault."""
    pattern = _BUILTIN_BODY if builtin else _BODY
    open_brackets = [(text[start], start)]
    position = start + 1
    while True:
        match = pattern.search(text, position, end)
        if match is None:
            character, where = open_brackets[-1]
            raise SyntaxFault(f"unbalanced '{character}': expected '{_CLOSING[character]}'", where)
        found, position = match.group(), match.end()
        if found in ("<=", ">=") and open_brackets[-1][0] != "(":  # a comparison stands in parentheses
            found, position = found[0], position - 1
        if found in _CLOSING:
            open_brackets.append((found, match.start()))
        elif found in (">", ")", "]", "}"):
            character, where = open_brackets.pop()
            if _CLOSING[character] != found:
                raise SyntaxFault(f"unbalanced '{character}': expected '{_CLOSING[character]}', found '{found}'", match.start())
            if not open_brackets:
                return position
        elif found == '"':
            raise SyntaxFault("expected '\"' in string literal", match.start())
        elif found[0] in "!#":
            position = balanced_end(text, position - 1, end)


def blank_comments(text: str) -> str:
    """The text with spaces for comments, so that offsets stay."""
    pieces, position = [], 0
    match = _COMMENT.search(text)
    while match is not None:
        end = match.end()
        if match[1]:
            end = balanced_end(text, end - 1, len(text))
        elif match[2]:
            pieces.append(text[position:match.start()] + " " * len(match[2]))
            position = end
        match = _COMMENT.search(text, end)
    return "".join(pieces) + text[position:]


def split_commas(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The ranges between commas outside brackets and strings; none for blank text."""
    if not text[start:end].strip():
        return []
    parts: list[tuple[int, int]] = []
    open_brackets: list[str] = []
    begin = position = start
    while (match := _PARTS.search(text, position, end)) is not None:
        found, position = match.group(), match.end()
        if found in ("<=", ">=") and open_brackets[-1:] != ["("]:  # a comparison stands in parentheses
            found, position = found[0], position - 1
        if found in _CLOSING:
            open_brackets.append(found)
        elif found in (">", ")", "]", "}"):
            del open_brackets[-1:]
        elif found == "," and not open_brackets:
            parts.append((begin, match.start()))
            begin = position
        elif found[0] in "!#":
            position = balanced_end(text, position - 1, end)
    parts.append((begin, end))
    return parts
