"""Diagnostics: errors, warnings, remarks and notes as values with a location, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gradopt.ir.locations import UNKNOWN_LOCATION, AnyLocation, Source, SourceLocation, file_position

__all__ = ["Diagnostic", "DiagnosticEngine", "GradoptError", "render"]


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
    """One or more error diagnostics. `str()` shows them with their source lines where those are known."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        self.diagnostics = [diagnostics] if isinstance(diagnostics, Diagnostic) else list(diagnostics)
        super().__init__()

    @classmethod
    def at(cls, location: AnyLocation, message: str, notes: Iterable[tuple[AnyLocation, str]] = ()) -> GradoptError:
        """An error with one message."""
        diagnostic = Diagnostic(location, message)
        for place, text in notes:
            diagnostic.note(place, text)
        return cls(diagnostic)

    def __str__(self) -> str:
        return "\n".join(render(diagnostic) for diagnostic in self.diagnostics)


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

    @property
    def error_count(self) -> int:
        """How many errors were emitted."""
        return sum(1 for diagnostic in self.diagnostics if diagnostic.severity == "error")


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
    if position is None:
        text = entry.location.text
        prefix = "" if entry.location is UNKNOWN_LOCATION else f"{text}: "
        return [f"{prefix}{severity} {entry.message}"]
    lines = [f"{position.file}:{position.line}:{position.column}: {severity} {entry.message}"]
    source = entry.location.source if isinstance(entry.location, SourceLocation) else known.get(position.file)
    if source is not None:
        text = source.line(position.line)
        if text:
            indent = "".join("\t" if character == "\t" else " " for character in text[: position.column - 1])
            lines += [text, indent + "^"]
    return lines
