"""bwd.scan as a prim.scan that runs the other way round.

Its carries are the cotangents of the carries and the sums of the constants' cotangents; it reads the xs, the trajectory and the
cotangents of the ys row by row, and stacks the cotangents of the xs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.ir.builder import Builder
from gradopt.ir.cloning import inline_block
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import match_type, zeros_like
from gradopt.lowering.autodiff.loops import build_scan

__all__ = ["lower_scan_adjoint"]


def lower_scan_adjoint(b: Builder, op: Any) -> list[Value]:
    """The results of a bwd.scan or bwd.scan_xs, in prim."""
    if op.checkpoints:
        from gradopt.lowering.autodiff.checkpointing import lower_checkpointed

        return lower_checkpointed(b, op)
    init, consts, xs, trajectory, dcarry, dys = op.groups(op.operands)
    wanted_init, wanted_consts, wanted_xs = op.wanted
    sums = [zeros_like(b, consts[index]) for index in wanted_consts]
    if op.length == 0:
        first = [dcarry[op.active_carries.index(index)] for index in wanted_init]
        return [*first, *sums, *(zeros_like(b, xs[index]) for index in wanted_xs)]
    kept = op.kept_carries

    def body(inner: Builder, carry: Sequence[Value], fixed: Sequence[Value],
             rows: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        x_rows, states, dy_rows = rows[:len(xs)], rows[len(xs): len(xs) + len(kept)], rows[len(xs) + len(kept):]
        state_of = dict(zip(kept, states))
        # a carry without a trajectory is not read by body_vjp, so its first value never comes to stand inside the body
        states = [state_of.get(index, value) for index, value in enumerate(init)]
        found = inline_block(op.body_vjp.block, [*states, *fixed, *x_rows, *carry[:len(dcarry)], *dy_rows], inner)
        totals = [inner.prim.add(total, part) for total, part in zip(carry[len(dcarry):], found[len(dcarry):])]
        new = [match_type(inner, value, old.type) for value, old in zip(found, carry[:len(dcarry)])]
        return [*new, *totals], found[len(dcarry) + len(sums):]

    scan = build_scan(b, op.length, [*dcarry, *sums], consts, [*xs, *trajectory, *dys], body, reverse=not op.reverse)
    results = scan.results
    first = [results[op.active_carries.index(index)] for index in wanted_init]
    return [*first, *results[len(dcarry):]]
