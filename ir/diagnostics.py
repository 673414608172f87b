"""Diagnostics: errors, warnings, remarks and notes as values with a location, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gradopt.ir.locations import UNKNOWN_LOCATION, AnyLocation, Source, SourceLocation, file_position
from gradopt.ir.shown import excerpt, shown

__all__ = ["ArgumentTypeError", "ArgumentValueError", "Diagnostic", "DiagnosticEngine", "GradoptError", "PlainError", "check_type",
           "render"]


@dataclass
class Diagnostic:
    """A message of a severity ("error", "warning", "remark", "note") at a place, with notes."""

    location: AnyLocation
    message: str
    severity: str = "error"
    notes: list[Diagnostic] = field(default_factory=list)

    def note(self, location: AnyLocation, message: str) -> Diagnostic:
        """Adds a note and returns the diagnostic itself."""
        self.notes.append(Diagnostic(location, message, "note"))
        return self


class GradoptError(Exception):
    """One or more error diagnostics, and the base of whatever else a user can mend. `str()` shows them with their source lines
    where those are known."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        self.diagnostics = [diagnostics] if isinstance(diagnostics, Diagnostic) else list(diagnostics)
        super().__init__(self.diagnostics)  # what pickle makes the error from again

    @classmethod
    def at(cls, location: AnyLocation, message: str, notes: Iterable[tuple[AnyLocation, str]] = ()) -> GradoptError:
        """An error with one message."""
        diagnostic = Diagnostic(location, message)
        for place, text in notes:
            diagnostic.note(place, text)
        return cls(diagnostic)

    def __str__(self) -> str:
        return "\n".join(render(diagnostic) for diagnostic in self.diagnostics)


class PlainError(GradoptError):
    """An error whose only diagnostic has no place: `str()` is the message alone."""

    def __init__(self, message: str) -> None:
        super().__init__(Diagnostic(UNKNOWN_LOCATION, message))
        self.args = (message,)

    def __str__(self) -> str:
        return self.diagnostics[0].message


class ArgumentTypeError(PlainError, TypeError):
    """A wrong number of arguments of a Python call, or an argument of a wrong kind or element type."""


class ArgumentValueError(PlainError, ValueError):
    """An argument of a Python call whose kind is right and whose value or shape is not."""


def check_type(call: str, argument: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raises ArgumentTypeError unless `value` is one of `kinds`."""
    if not isinstance(value, kinds):
        found = "None" if value is None else type(value).__name__
        raise ArgumentTypeError(f"{call}: argument '{argument}': expected {expected}, found {found}")


class DiagnosticEngine:
    """Collects diagnostics; `handler` sees each as it is emitted."""

    def __init__(self, handler: Callable[[Diagnostic], None] | None = None) -> None:
        self.handler = handler
        self.diagnostics: list[Diagnostic] = []

    def emit(self, diagnostic: Diagnostic) -> Diagnostic:
        """Adds a diagnostic."""
        self.diagnostics.append(diagnostic)
        if self.handler is not None:
            self.handler(diagnostic)
        return diagnostic


_COLORS = {"error": "\x1b[1;31m", "warning": "\x1b[1;35m", "remark": "\x1b[1;34m", "note": "\x1b[1;36m"}


def render(diagnostic: Diagnostic, sources: Iterable[Source] = (), color: bool = False) -> str:
    """`file:line:column: error: message`, the source line and a caret, then the notes alike."""
    known = {source.name: source for source in sources}
    lines: list[str] = []
    for entry in (diagnostic, *diagnostic.notes):
        lines += _render_one(entry, known, color)
    return "\n".join(lines)


def _render_one(entry: Diagnostic, known: dict[str, Source], color: bool) -> list[str]:
    position = file_position(entry.location)
    severity = f"{_COLORS[entry.severity]}{entry.severity}:\x1b[0m" if color else f"{entry.severity}:"
    message = shown(entry.message, kept="\t\n")
    if position is None:
        prefix = "" if entry.location is UNKNOWN_LOCATION else f"{shown(entry.location.text)}: "
        return [f"{prefix}{severity} {message}"]
    lines = [f"{shown(position.file)}:{position.line}:{position.column}: {severity} {message}"]
    source = entry.location.source if isinstance(entry.location, SourceLocation) else known.get(position.file)
    if source is not None:
        text = source.line(position.line)
        if text:
            line, indent = excerpt(text, position.column)
            lines += [line, indent + "^"]
    return lines
