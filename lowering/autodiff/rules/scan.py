"""Derivatives of `scan`. Reverse: the forward scan also stacks the carries that the adjoint reads, and one reverse loop
follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation, Region
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import ForwardContext, ReverseContext
from gradopt.lowering.autodiff.engine import Derivative
from gradopt.lowering.autodiff.helpers import zeros_like
from gradopt.lowering.autodiff.loop_activity import active_carries, varied_arguments
from gradopt.lowering.autodiff.regions import RegionDerivative, copy_region, finish_region, forward_region, reverse_region, value_or_zeros
from gradopt.lowering.autodiff.registry import forward_rule, reverse_rule
from gradopt.lowering.decompose.scan_adjoint import lower_scan_adjoint
from gradopt.lowering.tasks import Task


@reverse_rule("hl.scan", "prim.scan")
def scan(context: ReverseContext, op: Any, *cotangents: Value | None) -> Task[list[Derivative | None]]:
    """bwd.scan over body_vjp; for prim.scan what bwd.scan decomposes to, a prim.scan the other way round."""
    count, num_carry = len(op.operands), op.num_carry
    context.state.deferred.settle(op)
    if op.length == 0:
        return [*context.flags[:num_carry], *[None] * (count - num_carry)]
    wanted = [index for index in range(count) if context.wants(index)]
    seeded = [index for index, g in enumerate(cotangents) if g is not None]
    active = active_carries(op.body.block, wanted, seeded, num_carry)
    sources = sorted({*active, *(index for index in wanted if index >= num_carry)})
    vjp, masked = yield body_vjp(context, op, active, sources)
    found = dict(zip(sources, vjp.derivatives))
    builder = Builder(before=vjp.terminator, location=context.builder.location)
    arguments = vjp.block.arguments
    moving = [index for index in sources if index >= num_carry and found[index] is not None]
    returned = [*active, *moving]
    finish_region(context.state, vjp, builder, [sources.index(index) for index in returned], [arguments[index] for index in returned])
    if op.checkpoints:
        kept: list[int] = list(range(num_carry))
    else:
        kept = [index for index in range(num_carry) if arguments[index].users]
    trajectory = keep_trajectory(context, op, kept)
    wrt = [index for index in active if index in wanted] + moving
    adjoint = build_adjoint(context, op, vjp.region, trajectory, cotangents, active, kept, wrt)
    gradients: list[Derivative | None] = [None] * count
    for index, value in zip(wrt, adjoint):
        gradients[index] = Derivative(value, masked or (index >= num_carry and bool(found[index] and found[index].masked)))
    return gradients


def body_vjp(context: ReverseContext, op: Any, active: Sequence[int],
             sources: Sequence[int]) -> Task[tuple[RegionDerivative, bool]]:
    """The vjp of one step. Whether a carry's cotangent may hold masked lanes is a fixpoint over the steps: what goes in is what
    came out of the step behind, so if that cuts off lanes, the step is derived again for masked ones (deep inside loops at once).
    Zeros that stand for a carry without a cotangent cut off all its lanes."""
    state = context.state
    flags = [None if flag is None else flag.masked for flag in context.flags]
    seeds = [flag if index >= op.num_carry else (flag is not False if index in active else None) for index, flag in enumerate(flags)]
    while True:
        if state.loop_depth > 0:
            seeds = [None if seed is None else True for seed in seeds]
        state.loop_depth += 1
        vjp = yield reverse_region(state, op.body, sources, seeds)
        state.loop_depth -= 1
        out = [d is None or d.masked for d in vjp.derivatives[:len(active)]]
        grown = any(masked and not seeds[index] for index, masked in zip(active, out))
        if not grown:
            return vjp, any(out) or any(seeds[index] for index in active)
        seeds = [True if index in active else seed for index, seed in enumerate(seeds)]


def keep_trajectory(context: ReverseContext, op: Any, kept: Sequence[int]) -> Sequence[Value]:
    """Replaces the forward scan by one that also stacks the carries `kept`; returns those stacks."""
    if not kept:
        return []
    if op.checkpoints:
        from gradopt.lowering.autodiff.checkpointing import keep_checkpoints

        return keep_checkpoints(context, op)
    body = copy_region(op.body)
    last = body.block.last
    assert last is not None
    last.operands = (*last.operands, *(body.block.arguments[index] for index in kept))
    forward = context.forward_builder.create(op.name, op.operands, regions=[body], length=op.length, num_carry=op.num_carry,
                                             num_xs=op.num_xs, reverse=op.reverse)
    count = len(op.results)
    context.replace_forward(forward.results[:count])
    return forward.results[count:]


def build_adjoint(context: ReverseContext, op: Any, vjp: Region, trajectory: Sequence[Value], cotangents: Sequence[Value | None],
                  active: Sequence[int], kept: Sequence[int], wrt: Sequence[int]) -> Sequence[Value]:
    """The bwd.scan; already lowered where the scan itself is prim."""
    b, num_carry = context.builder, op.num_carry
    dcarry = [zeros_like(b, op.results[index]) if cotangents[index] is None else cotangents[index] for index in active]
    seeded = [index - num_carry for index in range(num_carry, len(cotangents)) if cotangents[index] is not None]
    dys = [cotangents[num_carry + index] for index in seeded]
    adjoint = b.create("bwd.scan", [*op.operands, *trajectory, *dcarry, *dys],  # type: ignore[list-item]
                       regions=[copy_region(op.body), vjp], length=op.length, num_carry=num_carry, num_xs=op.num_xs,
                       num_ys=op.num_ys, reverse=op.reverse, checkpoints=op.checkpoints, wrt=list(wrt), kept=list(kept),
                       active=list(active), seeded=seeded, masked=context.masked)
    if op.name.startswith("hl."):
        return adjoint.results
    values = lower_scan_adjoint(b, adjoint)
    adjoint.erase()
    return values


@forward_rule("prim.scan")
def scan_tangents(context: ForwardContext, op: Any, *tangents: Value | None) -> Task[list[Derivative | None]]:
    """One scan whose carries, constants, xs and ys are the old ones and their tangents."""
    num_carry, first_x = op.num_carry, len(op.operands) - op.num_xs
    given = {index for index, t in enumerate(tangents) if t is not None}
    moving = sorted(varied_arguments(op.body.block, given, num_carry))
    groups = [range(num_carry), range(num_carry, first_x), range(first_x, len(op.operands))]
    order: list[int | Value] = []
    for group in groups:
        order += [*group, *(op.body.block.arguments[index] for index in group if index in moving)]
    jvp, flags = yield body_jvp(context, op, order, moving, num_carry)
    builder = Builder(before=jvp.terminator, location=context.builder.location)
    yields = jvp.terminator.operands
    carries = [index for index in moving if index < num_carry]
    ys = [index for index in range(num_carry, len(yields)) if jvp.derivatives[index] is not None]
    tangent_of = {index: value_or_zeros(builder, jvp.derivatives[index], yields[index]) for index in (*carries, *ys)}
    jvp.terminator.operands = (*yields[:num_carry], *(tangent_of[index] for index in carries), *yields[num_carry:],
                               *(tangent_of[index] for index in ys))
    forward = context.forward_builder
    operands = tangent_operands(forward, op, groups, moving, tangents)
    moving_xs = sum(1 for index in moving if index >= first_x)
    both = forward.create(op.name, operands, regions=[jvp.region], length=op.length, num_carry=num_carry + len(carries),
                          num_xs=op.num_xs + moving_xs, reverse=op.reverse, checkpoints=op.checkpoints)
    masked = {index: flags[moving.index(index)] for index in carries}
    for index in ys:
        derivative = jvp.derivatives[index]
        masked[index] = derivative is not None and derivative.masked
    return split_results(context, op, both, num_carry, carries, masked)


def split_results(context: ForwardContext, op: Any, both: Operation, num_carry: int, carries: Sequence[int],
                  masked: dict[int, bool]) -> list[Derivative | None]:
    """Takes the results of a scan of values and tangents apart. `masked`: for each result with a tangent its flag."""
    count = len(op.results)
    start = num_carry + len(carries)
    results = both.results
    context.replace_forward([*results[:num_carry], *results[start: start + count - num_carry]])
    found: list[Derivative | None] = [None] * count
    tangents = [*results[num_carry:start], *results[start + count - num_carry:]]
    for index, value in zip([*carries, *(index for index in masked if index >= num_carry)], tangents):
        found[index] = Derivative(value, masked[index])
    return found


def body_jvp(context: ForwardContext, op: Any, order: Sequence[int | Value], moving: Sequence[int],
             num_carry: int) -> Task[tuple[RegionDerivative, list[bool]]]:
    """The jvp of one step, and which tangents may hold masked lanes; a fixpoint for the carries as in `body_vjp`."""
    state = context.state
    flags = [flag is None or flag.masked for flag in (context.flags[index] for index in moving)]
    while True:
        if state.loop_depth > 0:
            flags = [True] * len(flags)
        state.loop_depth += 1
        jvp = yield forward_region(state, op.body, order, moving, flags, context.builder.location, last=all(flags))
        state.loop_depth -= 1
        grown = any(index < num_carry and not flag and ((d := jvp.derivatives[index]) is None or d.masked)
                    for index, flag in zip(moving, flags))
        if not grown:
            return jvp, flags
        flags = [flag or index < num_carry for index, flag in zip(moving, flags)]


def tangent_operands(builder: Builder, op: Any, groups: Sequence[range], moving: Sequence[int],
                     tangents: Sequence[Value | None]) -> list[Value]:
    """The operands of each group followed by the tangents of those that move (zeros for a carry that starts without one)."""
    operands: list[Value] = []
    for group in groups:
        operands += [op.operands[index] for index in group]
        for index in group:
            if index in moving:
                tangent = tangents[index]
                operands.append(zeros_like(builder, op.operands[index]) if tangent is None else tangent)
    return operands


