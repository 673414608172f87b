"""Which loops LLVM may write out.

It counts what a turn costs, but not what a loop inside becomes once it is vectorised and written out itself: the sum of sixteen planes
of 28 x 28 became 26 KB of code, which took a second to make and was not faster.
"""

from __future__ import annotations

import math

from llvmlite import ir

__all__ = ["MOST_UNROLLED", "not_unrolled", "number_of_turns"]

MOST_UNROLLED = 64
"""Turns of a loop over loops, counted in the innermost one, up to which it may be written out."""


def number_of_turns(start: ir.Value, stop: ir.Value, step: int) -> float:
    """How many turns a loop makes, infinity where that is computed."""
    if isinstance(start, ir.Constant) and isinstance(stop, ir.Constant):
        return float(max(-((start.constant - stop.constant) // step), 1))
    return math.inf


def not_unrolled(module: ir.Module) -> ir.MDValue:
    """The mark of one loop that says so. It names itself, so that no other loop has the same."""
    mark = ir.MDValue(module, [module.add_metadata(["llvm.loop.unroll.disable"])], name=str(len(module.metadata)))
    mark.operands = (mark, *mark.operands)
    return mark
