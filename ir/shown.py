"""Text as a terminal may show it: what is invisible or would command the terminal is spelt out, and columns are counted as seen."""

from __future__ import annotations

import unicodedata

__all__ = ["character_name", "columns", "excerpt", "shown"]

LONGEST_LINE = 1000  # of a line of source under a message; more is cut on both sides of the caret
_INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}


def shown(text: str, kept: str = "\t") -> str:
    """The text with `<U+200B>` for an invisible character and `<FF>` for a byte that is no UTF-8 (`kept` ones stay)."""
    if text.isprintable():
        return text
    return "".join(character if character in kept or unicodedata.category(character) not in _INVISIBLE else f"<{_code(character)}>"
                   for character in text)


def character_name(character: str) -> str:
    """How a message names a character: by itself, and by its number and name where it cannot be seen or be told from others."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"byte 0x{code - 0xDC00:02X}, which is no UTF-8"
    if " " < character <= "~":
        return f"character '{character}'"
    name = unicodedata.name(character, "")
    return f"character U+{code:04X}" + (f" ({name.lower()})" if name else "")


def _code(character: str) -> str:
    code = ord(character)
    return f"{code - 0xDC00:02X}" if 0xDC80 <= code <= 0xDCFF else f"U+{code:04X}"


def columns(text: str) -> int:
    """How many columns a terminal takes for a text that is shown."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def excerpt(line: str, column: int) -> tuple[str, str]:
    """(a line of source as it is shown, what stands before a caret under its `column`, which counts from 1)."""
    start = max(column - LONGEST_LINE // 2, 0) if len(line) > LONGEST_LINE else 0
    head, tail = line[start: column - 1], line[column - 1: start + LONGEST_LINE]
    head = ("…" if start else "") + shown(head)
    tail = shown(tail) + ("…" if start + LONGEST_LINE < len(line) else "")
    return head + tail, "".join("\t" if character == "\t" else " " * columns(character) for character in head)
