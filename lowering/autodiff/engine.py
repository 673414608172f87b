"""Differentiates one block, in reverse or in forward mode. Both are tasks (see tasks.py), so that the rules of operations with
regions can wait for the derivative of a region without recursion."""

from __future__ import annotations

from collections.abc import Sequence
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.locations import AnyLocation, fuse
from gradopt.ir.operation import Block, Operation
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.activity import Activity, prepare_block
from gradopt.lowering.autodiff.context import Context, ForwardContext, ReverseContext
from gradopt.lowering.autodiff.registry import find_forward_rule, find_reverse_rule
from gradopt.lowering.tasks import Task

if TYPE_CHECKING:
    from gradopt.lowering.autodiff.state import State

__all__ = ["Derivative", "forward_block", "reverse_block"]

PASS_NAME = "autodiff"


class Derivative(NamedTuple):
    """A cotangent or tangent, and whether it may hold lanes that a mask cut off."""

    value: Value
    masked: bool


def reverse_block(state: State, block: Block, sources: Sequence[Value], seeds: Sequence[Derivative | None],
                  activity: Activity | None = None) -> Task[list[Derivative | None]]:
    """The cotangents of `sources` (values of the block, usually its arguments), None where structurally zero.

    `seeds` holds one cotangent for each operand of the block's terminator (None: zero). The operations of the derivative are
    inserted before the terminator, behind everything else.
    """
    terminator = block.last
    assert terminator is not None

    def outputs() -> list[Value]:
        return [value for value, seed in zip(terminator._operands, seeds) if seed is not None]

    activity = activity or prepare_block(state, block, sources, outputs, find_reverse_rule)
    sweep = _ReverseSweep(state, terminator, activity)
    for index, seed in enumerate(seeds):
        if seed is not None and terminator._operands[index] in activity.varied:
            sweep.accumulate(terminator._operands[index], seed.value, seed.masked)
    for op in reversed(activity.operations):
        waiting = sweep.visit(op)
        if waiting is not None:
            sweep.finish((yield waiting))
    return [sweep.pending.get(source) for source in sources]


class _ReverseSweep:
    """The state of one walk backwards over the active operations of a block."""

    def __init__(self, state: State, terminator: Operation, activity: Activity) -> None:
        self.varied = activity.varied
        self.pending: dict[Value, Derivative] = {}
        self.context = ReverseContext(Builder(before=terminator))
        self.context.state = state
        self.location: AnyLocation | None = None
        self.sum_name = "hl.add" if any(op.name.startswith("hl.") for op in activity.operations) else "prim.add"
        self.operands: Sequence[Value] = ()
        self.masks = False

    def accumulate(self, value: Value, cotangent: Value, masked: bool) -> None:
        """Adds a contribution to a value's cotangent. A sum can only hold a cut-off lane where both terms do."""
        known = self.pending.get(value)
        if known is not None:
            cotangent = self.context.builder.create(self.sum_name, [known.value, cotangent]).results[0]
            masked = masked and known.masked
        self.pending[value] = Derivative(cotangent, masked)

    def visit(self, op: Operation) -> Any:
        """Calls an operation's rule; returns the task that it turned into, if it is one."""
        cotangents = [self.pending.pop(result, None) for result in op.results]
        if not any(cotangents):
            return None
        rule = find_reverse_rule(op.name)
        assert rule is not None
        context = self.context
        context.op = op
        if op.location is not self.location:
            self.location = op.location
            context.builder.location = fuse(op.location, PASS_NAME)
        context.wanted = [operand in self.varied for operand in op._operands]
        context.masked = True if any(c is not None and c.masked for c in cotangents) else None
        context.flags = tuple(cotangents)
        context.cotangents = values = [None if c is None else c.value for c in cotangents]
        self.operands, self.masks = op._operands, rule.masks or bool(context.masked)
        entries = rule.function(context, op, *values)
        if isinstance(entries, GeneratorType):
            return entries
        self.finish(entries)
        return None

    def finish(self, entries: Any) -> None:
        """Takes what the rule returned."""
        context = self.context
        if entries is None or isinstance(entries, (Value, Derivative)) or callable(entries):
            entries = (entries,)
        assert len(entries) <= len(self.operands), f"the reverse rule of {context.op} returns {len(entries)} gradients"
        for operand, entry, wanted in zip(self.operands, entries, context.wanted):
            if wanted and entry is not None:
                if callable(entry):
                    entry = entry()
                if isinstance(entry, Derivative):
                    self.accumulate(operand, entry.value, entry.masked)
                else:
                    self.accumulate(operand, entry, self.masks)
        _replace(context)


def _replace(context: Context) -> None:
    """Puts the forward values that a rule built in the place of the operation's results."""
    if context.replacement is not None:
        assert context.op is not None
        context.op.replace_with(context.replacement)
        context.replacement = None


def forward_block(state: State, block: Block, sources: Sequence[Value],
                  tangents: Sequence[Derivative | None]) -> Task[list[Derivative | None]]:
    """The tangents of the operands of the block's terminator, None where structurally zero, given those of `sources`.

    The operations of the derivative stand directly behind the ones that they belong to.
    """
    terminator = block.last
    assert terminator is not None
    known: dict[Value, Derivative] = {source: t for source, t in zip(sources, tangents) if t is not None}
    activity = prepare_block(state, block, list(known), lambda: list(terminator._operands), find_forward_rule)
    context = ForwardContext(Builder(before=terminator))
    context.state = state
    for op in activity.operations:
        inputs = [known.get(operand) for operand in op._operands]
        if not any(inputs):
            continue
        rule = find_forward_rule(op.name)
        assert rule is not None
        context.op = op
        context.builder.before = op.next
        context.builder.location = fuse(op.location, PASS_NAME)
        context.masked = True if any(t is not None and t.masked for t in inputs) else None
        context.flags = tuple(inputs)
        masks = rule.masks or bool(context.masked)
        results = op.results
        entries = rule.function(context, op, *[None if t is None else t.value for t in inputs])
        if isinstance(entries, GeneratorType):
            entries = yield entries
        if entries is None or isinstance(entries, (Value, Derivative)):
            entries = (entries,)
        assert len(entries) == len(results), f"the forward rule of {op.name} returns {len(entries)} tangents"
        replaced = context.replacement or results
        _replace(context)
        for result, entry in zip(replaced, entries):
            if entry is not None and tensor_type(result).element.is_float:
                known[result] = entry if isinstance(entry, Derivative) else Derivative(entry, masks)
    return [known.get(value) for value in terminator._operands]
