"""Errors that a compiled program raises, and those that the back end raises while it prepares one."""

from __future__ import annotations

from gradopt.ir.diagnostics import Diagnostic, PlainError, render


class GradoptRuntimeError(PlainError, RuntimeError):
    """A check inside a running program failed.

    `check` is the number that the program gave to the check, `value` the offending value and `position` where it was
    found (a flat index, or 0).  The holder of the program maps the number to a diagnostic with a place and a message.
    """

    def __init__(self, check: int, value: int | float, position: int, diagnostic: Diagnostic | None = None) -> None:
        super().__init__(f"check {check} failed: value {value} at position {position}")
        if diagnostic is not None:
            self.diagnostics = [diagnostic]
        self.check = check
        self.value = value
        self.position = position
        self.args = (check, value, position, diagnostic)

    def __str__(self) -> str:
        return super().__str__() if self.args[3] is None else render(self.diagnostics[0])


class ProgramError(ValueError):
    """A native program that is not well formed (an error of the compiler, not of its user)."""


class KernelError(ValueError):
    """Kernel source that lies outside the language of kernels, with the line that was rejected."""
