"""What a pass is. A pass is a frozen dataclass: its fields are its options, its docstring is its documentation.

    @dataclass(frozen=True)
    class BindPass(Pass):
        '''Gives named sizes a value.

        Needs: nothing. Guarantees: the bound names occur in no type.

        Before (`bind{batch=2}`):

            func.func @f(…) …

        After:

            func.func @f(…) …
        '''

        name: ClassVar[str] = "bind"
        limit: int = option(4096, "what the option means")

        def run(self, op: Operation, context: PassContext) -> None: ...

A test runs each example of each docstring. A pass changes `op` in place, reports what a user did wrong as GradoptError with
located diagnostics, and counts what it did with `context.count`.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TextIO

from gradopt.ir.diagnostics import Diagnostic, DiagnosticEngine
from gradopt.ir.locations import AnyLocation
from gradopt.ir.operation import Operation

__all__ = ["DebugCounter", "InternalError", "Pass", "PassContext", "option"]


class InternalError(Exception):
    """A mistake of gradopt's own: a pass that raised something unexpected or left invalid IR behind."""

    def __init__(self, message: str, pass_name: str = "") -> None:
        super().__init__(message)
        self.pass_name = pass_name


def option(default: Any, help: str, *, choices: Sequence[str] = (), count: bool = False) -> Any:
    """Declares an option of a pass: its default, one line of help, and the strings that it may be (any by default). `count`: an integer
    that counts something, so it is in [0, 2^63)."""
    return dataclasses.field(default=default, metadata={"help": help, "choices": tuple(choices), "count": count})


class DebugCounter:
    """Lets through actions number `skip`, …, `skip + count - 1` of a kind; used to find the one rewrite that breaks something."""

    def __init__(self, skip: int = 0, count: int | None = None) -> None:
        self.skip, self.count = skip, count
        self.seen = 0

    def allows(self) -> bool:
        """Counts one action and says whether it may happen."""
        position, self.seen = self.seen, self.seen + 1
        return position >= self.skip and (self.count is None or position < self.skip + self.count)


class PassContext:
    """What a pass may use besides the IR: statistics, warnings, debug counters, and a stream for reports."""

    def __init__(self, *, diagnostics: DiagnosticEngine | None = None, counters: Mapping[str, DebugCounter] | None = None,
                 stream: TextIO | None = None) -> None:
        self.diagnostics = diagnostics or DiagnosticEngine()
        self.counters = dict(counters or {})
        self.statistics: dict[tuple[str, str], int] = {}
        self.pass_name = ""
        self._stream = stream

    @property
    def stream(self) -> TextIO:
        """Where passes that report something write (standard error by default)."""
        return self._stream or sys.stderr

    def count(self, what: str, number: int = 1) -> None:
        """Adds to the running pass's statistic `what`."""
        key = (self.pass_name, what)
        self.statistics[key] = self.statistics.get(key, 0) + number

    def allows(self, counter: str) -> bool:
        """False where a debug counter of that name says to leave this action out."""
        found = self.counters.get(counter)
        return found is None or found.allows()

    def warn(self, location: AnyLocation, message: str) -> Diagnostic:
        """Emits a warning."""
        return self.diagnostics.emit(Diagnostic(location, message, "warning"))

    def remark(self, location: AnyLocation, message: str) -> Diagnostic:
        """Emits a remark."""
        return self.diagnostics.emit(Diagnostic(location, message, "remark"))


@dataclasses.dataclass(frozen=True)
class Pass:
    """Base of all passes."""

    name: ClassVar[str]
    anchor: ClassVar[str | None] = None  # the only op that the pass runs on; any for None
    collects: ClassVar[str | None] = None  # the field that takes options which are not fields, as (name, integer) pairs

    def run(self, op: Operation, context: PassContext) -> None:
        """Changes `op` (usually a module) in place. Raises GradoptError."""
        raise NotImplementedError

    @classmethod
    def documentation(cls) -> str:
        """The docstring, unindented."""
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def summary(cls) -> str:
        """The first sentence of the docstring."""
        return cls.documentation().split("\n\n")[0].replace("\n", " ")
