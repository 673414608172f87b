"""Derivatives of `while` and `for`.

Reverse: the forward loop also counts its trips and writes the carries that each trip begins with into buffers of
`max_trip_count` rows; the reverse loop reads them back, last trip first. Forward: values and tangents in one loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Region
from gradopt.ir.sizes import UNKNOWN, Size
from gradopt.ir.types import I64
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import ForwardContext, ReverseContext
from gradopt.lowering.autodiff.engine import Derivative
from gradopt.lowering.autodiff.helpers import full_of, match_type, scalar, size_operands, zeros_like
from gradopt.lowering.autodiff.loop_activity import active_carries, varied_arguments
from gradopt.lowering.autodiff.loops import build_for, read_row, write_row
from gradopt.lowering.autodiff.regions import (
    RegionDerivative,
    finish_region,
    forward_region,
    region_with_arguments,
    reverse_region,
    take_region,
    value_or_zeros,
)
from gradopt.lowering.autodiff.registry import forward_rule, reverse_rule
from gradopt.lowering.tasks import Task


@reverse_rule("hl.while", "prim.while")
def while_(context: ReverseContext, op: Any, *cotangents: Value | None) -> Task[list[Derivative | None]]:
    """A counted reverse loop. Needs a bound: `max_trip_count`, or the form of a `for` (see `counted_form`)."""
    context.state.deferred.settle(op)
    if op.max_trip_count is None and counted_form(op) is None:
        raise GradoptError.at(op.location, f"'{op.name}' op without 'max_trip_count' has no reverse derivative: give it a bound, "
                              "or use forward mode")
    return (yield LoopAdjoint(context, op, cotangents, first=0).run())


@reverse_rule("hl.for")
def for_(context: ReverseContext, op: Any, *cotangents: Value | None) -> Task[list[Derivative | None]]:
    """As for `while`; where neither `max_trip_count` nor constant bounds say how many trips there can be, the buffers are as long
    as the loop turns out to be."""
    return (yield LoopAdjoint(context, op, cotangents, first=1).run())


class LoopAdjoint:
    """The reverse derivative of one loop. `first`: the body's arguments before the carries (the index of a `for`)."""

    def __init__(self, context: ReverseContext, op: Any, cotangents: Sequence[Value | None], first: int) -> None:
        self.context, self.op, self.cotangents, self.first = context, op, cotangents, first
        self.skipped = 2 if first else 0  # operands before the carries
        self.values: Sequence[Value] = op.operands[self.skipped:]
        self.num_carry = op.num_carry

    def run(self) -> Task[list[Derivative | None]]:
        """The cotangents of the operands."""
        context, op, first, num_carry = self.context, self.op, self.first, self.num_carry
        context.state.deferred.settle(op)
        wanted = [index for index in range(len(self.values)) if context.wants(self.skipped + index)]
        seeded = [index for index, g in enumerate(self.cotangents) if g is not None]
        active = active_carries(op.body.block, [first + index for index in wanted], seeded, num_carry, first)
        sources = sorted({*active, *(index for index in wanted if index >= num_carry)})
        vjp = yield self.body_vjp(active, sources)
        found = dict(zip(sources, vjp.derivatives))
        summed = [index for index in sources if index >= num_carry and found[index] is not None]
        builder = Builder(before=vjp.terminator, location=context.builder.location)
        arguments = vjp.block.arguments
        returned = [*active, *summed]
        finish_region(context.state, vjp, builder, [sources.index(index) for index in returned],
                      [arguments[first + index] for index in returned])
        kept = [index for index in range(num_carry) if arguments[first + index].users]
        trips, buffers = self.keep(kept)
        results = self.reverse_loop(vjp, active, summed, kept, trips, buffers)
        gradients: list[Derivative | None] = [None] * len(op.operands)
        for index, value in zip((*active, *summed), results):
            gradients[self.skipped + index] = Derivative(value, True)  # a loop may run no trip at all
        return gradients

    def body_vjp(self, active: Sequence[int], sources: Sequence[int]) -> Task[RegionDerivative]:
        """The vjp of one trip. The number of trips is not known, so every cotangent may hold cut-off lanes."""
        seeds = [True if index in active else None for index in range(self.num_carry)]
        self.context.state.loop_depth += 1
        vjp = yield reverse_region(self.context.state, self.op.body, [self.first + index for index in sources], seeds)
        self.context.state.loop_depth -= 1
        result: RegionDerivative = vjp
        return result

    def keep(self, kept: Sequence[int]) -> tuple[Value, list[Value]]:
        """Replaces the forward loop by one that fills buffers; (the number of trips, a buffer for each of `kept`)."""
        op, first = self.op, self.first
        b = self.context.forward_builder
        length, sizes = self.capacity(b)
        buffers = []
        for index in kept:
            type = tensor_type(self.values[index])
            buffers.append(full_of(b, 0, [length, *type.dims], [*sizes, *size_operands(b, self.values[index])], type.element))
        count = scalar(b, 0, I64)
        carries = list(self.values[:self.num_carry])
        order: list[int | Value] = [*range(first + self.num_carry), count, *buffers,
                                    *range(first + self.num_carry, first + len(self.values))]
        body, new = region_with_arguments(op.body, order, op.location)
        last = body.block.last
        assert last is not None
        inner = Builder(before=last, location=op.location)
        arguments = body.block.arguments
        rows = [write_row(inner, buffer, arguments[first + index], new[0]) for index, buffer in zip(kept, new[1:])]
        last.operands = (*last.operands, inner.prim.add(new[0], scalar(inner, 1, I64)), *rows)
        operands = [*op.operands[:self.skipped], *carries, count, *buffers, *self.values[self.num_carry:]]
        regions = [body] if first else [region_with_arguments(op.condition, order, op.location)[0], body]
        loop = b.create(op.name, operands, regions=regions, num_carry=self.num_carry + 1 + len(buffers),
                        max_trip_count=op.max_trip_count)
        self.context.replace_forward(loop.results[:self.num_carry])
        return loop.results[self.num_carry], list(loop.results[self.num_carry + 1:])

    def capacity(self, b: Builder) -> tuple[Size, list[Value]]:
        """How many rows the buffers need: a number, or UNKNOWN and the value that says it."""
        if self.op.max_trip_count is not None:
            return self.op.max_trip_count, []
        bounds = self.op.operands[:2] if self.first else counted_form(self.op)
        assert bounds is not None
        lower, upper = (constant_integer(value) for value in bounds)
        if lower is not None and upper is not None:
            return max(upper - lower, 0), []
        return UNKNOWN, [b.prim.max(b.prim.sub(bounds[1], bounds[0]), scalar(b, 0, I64))]

    def reverse_loop(self, vjp: RegionDerivative, active: Sequence[int], summed: Sequence[int], kept: Sequence[int], trips: Value,
                     buffers: Sequence[Value]) -> Sequence[Value]:
        """for i = 0 … trips - 1: the vjp of trip trips - 1 - i. The results: cotangents of the active carries, sums of the
        rest."""
        op, b, first = self.op, self.context.builder, self.first
        start: list[Value] = []
        for index in active:
            given = self.cotangents[index]
            start.append(zeros_like(b, op.results[index]) if given is None else match_type(b, given, self.values[index].type))
        start += [zeros_like(b, self.values[index]) for index in summed]
        consts = [*self.values[self.num_carry:], trips, *buffers, *(op.operands[:1] if first else ())]
        num_consts = len(self.values) - self.num_carry

        def body(inner: Builder, i: Value, carry: Sequence[Value], fixed: Sequence[Value]) -> Sequence[Value]:
            from gradopt.ir.cloning import inline_block

            last = inner.prim.sub(fixed[num_consts], scalar(inner, 1, I64))
            trip = inner.prim.sub(last, i)
            stored = dict(zip(kept, fixed[num_consts + 1:]))
            # a carry that is not kept is not read: its first value never comes to stand inside the body
            states = [read_row(inner, stored[index], trip) if index in stored else self.values[index]
                      for index in range(self.num_carry)]
            counter = [inner.prim.add(fixed[-1], trip)] if first else []
            values = inline_block(vjp.block, [*counter, *states, *fixed[:num_consts], *carry[:len(active)]], inner)
            sums = [inner.prim.add(total, part) for total, part in zip(carry[len(active):], values[len(active):])]
            return [*values[:len(active)], *sums]

        return build_for(b, op.name.split(".")[0], scalar(b, 0, I64), trips, start, consts, body, self.op.max_trip_count)


def counted_form(op: Any) -> tuple[Value, Value] | None:
    """(first value, bound) of a counter c with the condition c < bound, which the body raises by 1: what `for` is lowered to."""
    test = op.condition.block.last.operands[0].defining_op
    if test is None or test.name not in ("prim.cmp", "hl.less") or (test.name == "prim.cmp" and test.predicate != "lt"):
        return None
    counter, bound = test.operands
    if counter.defining_op is not None or bound.defining_op is not None:
        return None
    index, limit = counter.index, bound.index
    if index >= op.num_carry or limit < op.num_carry or tensor_type(counter).element is not I64:
        return None
    step = op.body.block.last.operands[index].defining_op
    argument = op.body.block.arguments[index]
    if step is None or step.name not in ("prim.add", "hl.add") or argument not in step.operands:
        return None
    other = step.operands[1] if step.operands[0] is argument else step.operands[0]
    if other.defining_op is None and other.index >= op.num_carry:
        other = op.operands[other.index]
    return (op.operands[index], op.operands[limit]) if constant_integer(other) == 1 else None


def constant_integer(value: Value) -> int | None:
    """The value of a rank-0 integer constant."""
    op = value.defining_op
    if op is None or op.name not in ("prim.constant", "hl.constant"):
        return None
    elements = op.properties["value"]
    return int.from_bytes(elements.data[:8], "little", signed=True)  # type: ignore[attr-defined]


@forward_rule("prim.while")
def while_tangents(context: ForwardContext, op: Any, *tangents: Value | None) -> Task[list[Derivative | None]]:
    """One loop over values and tangents; the condition reads the values only."""
    num_carry, count = op.num_carry, len(op.operands)
    given = {index for index, t in enumerate(tangents) if t is not None}
    moving = sorted(varied_arguments(op.body.block, given, num_carry))
    carries = [index for index in moving if index < num_carry]
    arguments = op.body.block.arguments
    order: list[int | Value] = [*range(num_carry), *(arguments[index] for index in carries), *range(num_carry, count),
                                *(arguments[index] for index in moving if index >= num_carry)]
    context.state.loop_depth += 1
    jvp = yield forward_region(context.state, op.body, order, moving, [True] * len(moving), context.builder.location)
    context.state.loop_depth -= 1
    builder = Builder(before=jvp.terminator, location=context.builder.location)
    yields = jvp.terminator.operands
    jvp.terminator.operands = (*yields, *(value_or_zeros(builder, jvp.derivatives[index], yields[index]) for index in carries))
    condition: Region = take_region(op.condition, order)[0]
    forward = context.forward_builder
    operands: list[Value] = []
    for group in (range(num_carry), range(num_carry, count)):
        operands += [op.operands[index] for index in group]
        operands += [zeros_like(forward, op.operands[index]) if tangents[index] is None else tangents[index]  # type: ignore[misc]
                     for index in group if index in moving]
    both = forward.create(op.name, operands, regions=[condition, jvp.region], num_carry=num_carry + len(carries),
                          max_trip_count=op.max_trip_count)
    context.replace_forward(both.results[:num_carry])
    found: list[Derivative | None] = [None] * num_carry
    for index, value in zip(carries, both.results[num_carry:]):
        found[index] = Derivative(value, True)
    return found
