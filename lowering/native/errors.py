"""Errors that a compiled program raises, and those that the back end raises while it prepares one."""

from __future__ import annotations


class GradoptRuntimeError(RuntimeError):
    """A check inside a running program failed.

    `check` is the number that the program gave to the check, `value` the offending value and `position` where it was
    found (a flat index, or 0).  The holder of the program maps the number to a location and a message.
    """

    def __init__(self, check: int, value: int | float, position: int, message: str | None = None) -> None:
        super().__init__(message or f"check {check} failed: value {value} at position {position}")
        self.check = check
        self.value = value
        self.position = position


class ArgumentTypeError(TypeError):
    """A wrong number of arguments, or an argument of a wrong kind or element type."""


class ArgumentValueError(ValueError):
    """An argument of a wrong shape."""


class ProgramError(ValueError):
    """A native program that is not well formed (an error of the compiler, not of its user)."""


class KernelError(ValueError):
    """Kernel source that lies outside the language of kernels, with the line that was rejected."""
