"""Run-time checks: the kernel of `prim.check`, and the error that a failing check becomes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradopt.ir.diagnostics import Diagnostic
from gradopt.ir.locations import AnyLocation
from gradopt.ir.types import FloatType
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library.source import Source, blocks, dims_of, element_of, volume

if TYPE_CHECKING:
    from gradopt.lowering.native.errors import GradoptRuntimeError
    from gradopt.lowering.plan.program import ProgramMaker

__all__ = ["RuntimeCheck", "check", "explained"]


@dataclass(frozen=True)
class RuntimeCheck:
    """What a failing check says: its place, its message, and what the two numbers of the status record are.

    `shows_value`: the record's value belongs to the message. `position`: "" (nothing), "index" (where `cond` is false), or
    "i64" or "f64" (a second value, by its bits)."""

    location: AnyLocation
    message: str
    shows_value: bool = False
    position: str = ""

    def diagnostic(self, value: int | float, position: int) -> Diagnostic:
        """What the numbers of a status record mean."""
        text = self.message + (f", {value}" if self.shows_value else "")
        if self.position == "index":
            text += f" (at element {position})"
        elif self.position == "f64":
            text += f", {struct.unpack('=d', struct.pack('=q', position))[0]}"
        elif self.position == "i64":
            text += f", {position}"
        return Diagnostic(self.location, text)


def explained(error: GradoptRuntimeError, checks: Sequence[RuntimeCheck]) -> GradoptRuntimeError:
    """The error with the message and place of the check that failed."""
    if not 0 <= error.check < len(checks):
        return error
    return type(error)(error.check, error.value, error.position, checks[error.check].diagnostic(error.value, error.position))


def check(maker: ProgramMaker, op: Any) -> None:
    """`prim.check`: the first false element of `cond` stops the program.

    The status record holds two numbers: the element's position and the first value there, or for a scalar `cond` two values. Any
    further values are not shown."""
    scalar = not dims_of(op.cond)
    shown = [value for value in op.values if not dims_of(value) or dims_of(value) == dims_of(op.cond)]
    source = Source()
    cond, count = source.pointer(op.cond), volume(dims_of(op.cond))
    pointers = [source.pointer(value) for value in shown[:2]]
    value = _number(pointers[0], shown[0], "value") if shown else "0"
    position, meaning = ("0", "") if scalar else ("i", "index")
    if scalar and len(shown) > 1:
        meaning = "f64" if isinstance(element_of(shown[1]), FloatType) else "i64"
        position = _number(pointers[1], shown[1], "bits")
    number = maker.check(op, op.message, bool(shown), meaning)
    source.line("number = parameter(context, 0)")  # not a constant, so that checks share their kernel
    source.parameters.append(number)
    with source.loop("i", "hi", "lo"), source.block(f"if not load({cond}, i)"):
        source.line(f"return report(context, number, {value}, {position})")
    launch = source.launch(count, blocks(count, 16, 1 << 16))
    maker.launch_sizes(op, launch, [maker.sizes.like(size) for size in launch.parameters])


def _number(pointer: str, value: Value, form: str) -> str:
    """The element of a value that belongs to element i of the condition, as f64 or i64 (`bits`: as i64 by its bits)."""
    text = f"load({pointer}, {'i' if dims_of(value) else '0'})"
    element = element_of(value)
    if isinstance(element, FloatType):
        wide = text if element.text == "f64" else f"f64({text})"
        return f"bitcast_i64({wide})" if form == "bits" else wide
    if element.text == "i1":
        return f"select({text}, 1, 0)"
    return text if element.text == "i64" else f"i64({text})"
