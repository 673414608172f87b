"""The reverse derivative of a scan with `checkpoints` = k: the forward scan keeps k states, and one loop driven by a table (see
revolve.py) runs steps again and reverses them. Nothing is unrolled: the table is a constant that the loop reads row by row."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.builder import Builder
from gradopt.ir.cloning import inline_block
from gradopt.ir.operation import Operation, Region
from gradopt.ir.types import I1, I64, IntegerType, Type, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import ReverseContext
from gradopt.lowering.autodiff.helpers import expand_like, full_of, match_type, scalar, size_operands, zeros_like
from gradopt.lowering.autodiff.loops import build_region, build_scan
from gradopt.lowering.autodiff.regions import region_with_arguments
from gradopt.lowering.autodiff.revolve import INITIAL, NOWHERE, Action, make_schedule

__all__ = ["keep_checkpoints", "lower_checkpointed"]


def keep_checkpoints(context: ReverseContext, op: Any) -> list[Value]:
    """Replaces the forward scan by one that also keeps the carries of k steps, a row of a buffer for each."""
    b, num_carry, slots = context.forward_builder, op.num_carry, op.checkpoints
    buffers = [full_of(b, 0, [slots, *tensor_type(value).dims], size_operands(b, value), tensor_type(value).element)
               for value in op.init]
    table = [slots] * op.length  # a slot that does not exist: the write is dropped
    for slot, step in make_schedule(op.length, slots).kept.items():
        table[row_of(op, step)] = slot
    places = small_vector(b, table)
    count = len(op.operands)
    order: list[int | Value] = [*range(num_carry), *buffers, *range(num_carry, count), scalar(b, 0, element_of(places))]
    body, new = region_with_arguments(op.body, order, op.location)
    last = body.block.last
    assert last is not None
    inner = Builder(before=last, location=op.location)
    place = widened(inner, new[-1])
    written = [put_row(inner, buffer, value, place) for buffer, value in zip(new, body.block.arguments[:num_carry])]
    last.operands = (*last.operands[:num_carry], *written, *last.operands[num_carry:])
    forward = b.create(op.name, [*op.init, *buffers, *op.operands[num_carry:], places], regions=[body], length=op.length,
                       num_carry=2 * num_carry, num_xs=op.num_xs + 1, reverse=op.reverse, checkpoints=slots)
    results = forward.results
    context.replace_forward([*results[:num_carry], *results[2 * num_carry:]])
    return list(results[num_carry: 2 * num_carry])


def row_of(op: Any, step: int) -> int:
    """The row of xs and ys that belongs to a step."""
    return op.length - 1 - step if op.reverse else step


def put_row(b: Builder, buffer: Value, row: Value, index: Value) -> Value:
    """`buffer` with a row replaced; an index outside changes nothing."""
    return b.prim.scatter(buffer, index, row, axis=0, kind="set", mode="fill")


def flags(b: Builder, values: Sequence[bool]) -> Value:
    """A rank-1 i1 constant."""
    data = struct.pack(f"<{len(values)}B", *(int(value) for value in values))
    return b.create("prim.constant", value=DenseElementsAttr(tensor([len(values)], I1), data, False)).results[0]


def small_vector(b: Builder, values: Sequence[int]) -> Value:
    """A rank-1 constant of numbers >= 0 in the smallest element type: the schedule has several rows a step, and is to be small beside
    the states."""
    width = next(width for width in (8, 16, 32, 64) if max(values, default=0) < 1 << (width - 1))
    data = struct.pack(f"<{len(values)}{dict(zip((8, 16, 32, 64), 'bhiq'))[width]}", *values)
    return b.create("prim.constant", value=DenseElementsAttr(tensor([len(values)], IntegerType(width)), data, False)).results[0]


def element_of(vector: Value) -> Type:
    """The element type of a vector."""
    return tensor_type(vector).element


def widened(b: Builder, number: Value) -> Value:
    """A rank-0 number as i64."""
    return number if element_of(number) is I64 else b.prim.cast(number, result_types=[tensor([], I64)])


def lower_checkpointed(b: Builder, op: Any) -> list[Value]:
    """A bwd.scan with checkpoints as one prim.scan over the actions of the schedule."""
    init, consts, xs, buffers, dcarry, dys = op.groups(op.operands)
    wanted_init, wanted_consts, wanted_xs = op.wanted
    slots = op.checkpoints
    actions = make_schedule(op.length, slots).actions
    sums = [zeros_like(b, consts[index]) for index in wanted_consts]
    rows = [zeros_like(b, xs[index]) for index in wanted_xs]
    loop = Loop(op, len(init), len(consts), len(xs), len(dcarry), len(dys), len(sums), len(rows))
    carry = [*init, *buffers, *dcarry, *sums, *rows]
    table = [flags(b, [action.reverse for action in actions]),
             small_vector(b, [row_of(op, action.step) for action in actions]),
             small_vector(b, [loop.source(action) for action in actions]),
             small_vector(b, [slots if action.target == NOWHERE else action.target for action in actions])]
    scan = build_scan(b, len(actions), carry, [*init, *consts, *xs, *dys], table, loop.body)
    found = scan.results[len(init) + len(buffers):]
    first = [found[op.active_carries.index(index)] for index in wanted_init]
    return [*first, *found[len(dcarry):]]


class Loop:
    """The body of the table-driven loop. Carries: state…, buffers…, dcarry…, sums…, dxs…; constants: init…, consts…, xs…, dys…;
    rows: whether to reverse, the step's row, the slot to take the state from, the slot to put it into."""

    def __init__(self, op: Any, init: int, consts: int, xs: int, dcarry: int, dys: int, sums: int, rows: int) -> None:
        self.op, self.slots = op, op.checkpoints
        self.init, self.consts, self.xs, self.dcarry, self.dys, self.sums, self.rows = init, consts, xs, dcarry, dys, sums, rows

    def source(self, action: Action) -> int:
        """The slot to read as the table holds it: k for the initial state, k + 1 for the current one."""
        return self.slots if action.source == INITIAL else self.slots + 1 if action.source == NOWHERE else action.source

    def body(self, b: Builder, carry: Sequence[Value], fixed: Sequence[Value],
             row: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """One action."""
        reverse, (step, source, target) = row[0], (widened(b, number) for number in row[1:])
        written = b.prim.select(reverse, step, scalar(b, self.op.length, I64))  # the row of dxs; a step that is run again writes none
        state, buffers, rest = carry[:self.init], carry[self.init: 2 * self.init], carry[2 * self.init:]
        totals, stacks = rest[:self.dcarry + self.sums], rest[self.dcarry + self.sums:]
        first, middle = fixed[:self.init], fixed[self.init:]
        state = [self.take(b, *each, source) for each in zip(state, buffers, first)]
        xs = [b.prim.gather(x, step, axis=0, mode="fast") for x in middle[self.consts: self.consts + self.xs]]
        dys = [b.prim.gather(dy, step, axis=0, mode="fast") for dy in middle[self.consts + self.xs:]]
        operands = [reverse, *state, *middle[:self.consts], *xs, *dys, *totals]
        types = [value.type for value in operands[1:]]
        regions: list[Region] = [build_region(types, build, b.location) for build in (self.reverse_step, self.forward_step)]
        branch: Operation = b.create("prim.if", operands, regions=regions)
        new = branch.results[:self.init]
        kept = [put_row(b, buffer, value, target) for buffer, value in zip(buffers, new)]
        after = branch.results[self.init:]
        done = [put_row(b, stack, value, written) for stack, value in zip(stacks, after[len(totals):])]
        return [*new, *kept, *after[:len(totals)], *done], []

    def take(self, b: Builder, current: Value, buffer: Value, first: Value, source: Value) -> Value:
        """The state that the action begins with."""
        stored = b.prim.gather(buffer, source, axis=0, mode="fill")
        initial = b.prim.cmp(source, scalar(b, self.slots, I64), predicate="eq")
        as_is = b.prim.cmp(source, scalar(b, self.slots, I64), predicate="gt")
        value = b.prim.select(expand_like(b, initial, current), first, stored)
        return match_type(b, b.prim.select(expand_like(b, as_is, current), current, value), current.type)

    def parts(self, values: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value], Sequence[Value], Sequence[Value]]:
        """The branch's arguments as (state, consts and x rows, dy rows, dcarry and sums)."""
        second = self.init + self.consts + self.xs
        third = second + self.dys
        return values[:self.init], values[self.init: second], values[second: third], values[third:]

    def reverse_step(self, b: Builder, values: Sequence[Value]) -> list[Value]:
        """The vjp of the step."""
        state, given, dys, totals = self.parts(values)
        found = inline_block(self.op.body_vjp.block, [*state, *given, *totals[:self.dcarry], *dys], b)
        new = [match_type(b, value, old.type) for value, old in zip(found, totals[:self.dcarry])]
        sums = [b.prim.add(total, part) for total, part in zip(totals[self.dcarry:], found[self.dcarry:])]
        return [*state, *new, *sums, *found[self.dcarry + self.sums:]]

    def forward_step(self, b: Builder, values: Sequence[Value]) -> list[Value]:
        """The step itself, behind a barrier so that it is never fused with anything else: the same bits as the first time."""
        state, given, _, totals = self.parts(values)
        found = inline_block(self.op.body.block, [*state, *given], b)[:self.init]
        passed = b.create("prim.barrier", found).results if found else []
        new = [match_type(b, value, old.type) for value, old in zip(passed, state)]
        _, _, wanted_xs = self.op.wanted
        rows = [zeros_like(b, given[self.consts + index]) for index in wanted_xs]
        return [*new, *totals, *rows]
