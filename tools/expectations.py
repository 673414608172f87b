"""`--verify-diagnostics`: the diagnostics that a text says it expects, compared with those that came.

    // expected-error@+1 {{operand types differ}}
    // expected-note-re {{size {{[0-9]+}}}}

Kinds: error, warning, remark, note. Places: none (this line), `@+N`, `@-N`, `@above`, `@below` (the next line up or down that
holds no expectation), `@unknown` (no place in the text).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from gradopt.ir.diagnostics import Diagnostic
from gradopt.ir.locations import Source, SourceLocation, file_position

__all__ = ["Expectation", "find_expectations", "unmet"]

_START = re.compile(r"expected-(error|warning|remark|note)(-re)?[ \t]*(?:@([+-]\d+|above|below|unknown))?[ \t]*\{\{")


class Expectation(NamedTuple):
    """A diagnostic that is expected: its severity, line (None: nowhere), text, and where the expectation stands."""

    severity: str
    line: int | None
    text: str
    is_pattern: bool
    offset: int

    def matches(self, severity: str, line: int | None, message: str) -> bool:
        """True if a diagnostic is the expected one."""
        if severity != self.severity or line != self.line:
            return False
        return bool(re.search(pattern_of(self.text), message)) if self.is_pattern else self.text in message


def pattern_of(text: str) -> str:
    """A regular expression: what stands in {{…}} is one, the rest is literal."""
    pieces = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(piece if index % 2 else re.escape(piece) for index, piece in enumerate(pieces))


def find_expectations(source: Source) -> tuple[list[Expectation], list[Diagnostic]]:
    """The expectations in a text, and errors for malformed ones."""
    found: list[Expectation] = []
    errors: list[Diagnostic] = []
    lines = source.text.split("\n")
    holding = [_START.search(line) is not None for line in lines]
    offset = 0
    for row, line in enumerate(lines):
        position = 0
        while (match := _START.search(line, position)) is not None:
            end = _closing(line, match.end())
            place = SourceLocation(source, offset + match.start())
            if end is None:
                errors.append(Diagnostic(place, f"expected-{match[1]} has no closing '}}}}'"))
                break
            text, position = line[match.end(): end], end + 2
            if match[2]:
                try:
                    re.compile(pattern_of(text))
                except re.error as error:
                    errors.append(Diagnostic(place, f"'{text}' is no regular expression: {error}"))
                    continue
            target = _target_row(match[3], row, holding)
            found.append(Expectation(match[1], None if target is None else target + source.first_line, text, bool(match[2]),
                                     offset + match.start()))
        offset += len(line) + 1
    return found, errors


def _closing(line: str, start: int) -> int | None:
    """Where the braces that were opened before `start` close."""
    depth, position = 1, start
    while position < len(line):
        pair = line[position: position + 2]
        if pair == "{{":
            depth, position = depth + 1, position + 2
        elif pair == "}}" and not (depth == 1 and line[position: position + 3] == "}}}"):
            depth -= 1
            if not depth:
                return position
            position += 2
        else:
            position += 1
    return None


def _target_row(place: str | None, row: int, holding: list[bool]) -> int | None:
    if place is None:
        return row
    if place == "unknown":
        return None
    if place in ("above", "below"):
        step = -1 if place == "above" else 1
        row += step
        while 0 <= row < len(holding) and holding[row]:
            row += step
        return row
    return row + int(place)


def unmet(source: Source, diagnostics: Iterable[Diagnostic], only_expected: bool = False) -> list[Diagnostic]:
    """Errors for what was expected and did not come, and (unless `only_expected`) for what came and was not expected."""
    waiting, errors = find_expectations(source)
    for diagnostic in diagnostics:
        for entry in (diagnostic, *diagnostic.notes):
            position = file_position(entry.location)
            line = position.line if position is not None and position.file == source.name else None
            match = next((item for item in waiting if item.matches(entry.severity, line, entry.message)), None)
            if match is not None:
                waiting.remove(match)
            elif not only_expected:
                errors.append(Diagnostic(entry.location, f"unexpected {entry.severity}: {entry.message}"))
    for item in waiting:
        errors.append(Diagnostic(SourceLocation(source, item.offset), f'expected {item.severity} "{item.text}" was not produced'))
    return errors
