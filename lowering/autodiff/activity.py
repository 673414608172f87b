"""Which operations a derivative touches, and their decomposition where a rule is missing.

Before: %a = hl.floor %x; %b = hl.tan %x; %c = hl.mul %b, %w; yield %b      (derivative with respect to %x, tan has no rule)
After:  %a = hl.floor %x; %b = prim.tan %x; %c = …;           yield %b      (active: prim.tan)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Block, Operation
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import is_float_tensor
from gradopt.lowering.autodiff.registry import Rule, has_zero_derivative

if TYPE_CHECKING:
    from gradopt.lowering.autodiff.state import State

__all__ = ["Activity", "find_activity", "prepare_block", "varied_values"]

Finder = Callable[[str], "Rule | None"]


class Activity:
    """`varied`: the float values that depend on a wanted input. `operations`: those with a varied operand on a way to a seeded
    output, in order."""

    def __init__(self, varied: set[Value], operations: list[Operation]) -> None:
        self.varied, self.operations = varied, operations


def varied_values(block: Block, sources: Iterable[Value]) -> set[Value]:
    """The float values of a block through which a derivative from `sources` can pass."""
    varied = {value for value in sources if is_float_tensor(value.type)}
    for op in block.operations:
        if not varied.isdisjoint(op._operands) and not has_zero_derivative(op.name):
            varied.update([result for result in op.results if is_float_tensor(result.type)])
    return varied


def find_activity(block: Block, sources: Iterable[Value], outputs: Iterable[Value]) -> Activity:
    """Forward from the sources, then backward from the outputs."""
    varied = varied_values(block, sources)
    useful = varied.intersection(outputs)
    active: list[Operation] = []
    op = block.last
    while op is not None:
        if not useful.isdisjoint(op.results):
            inputs = [operand for operand in op._operands if operand in varied]
            if inputs:
                useful.update(inputs)
                active.append(op)
        op = op.previous
    active.reverse()
    return Activity(varied, active)


def useful_values(block: Block, varied: Collection[Value], outputs: Iterable[Value]) -> set[Value]:
    """The varied values on a way to one of the outputs."""
    useful = {value for value in outputs if value in varied}
    op = block.last
    while op is not None:
        if not useful.isdisjoint(op.results):
            useful.update([operand for operand in op._operands if operand in varied])
        op = op.previous
    return useful


def prepare_block(state: State, block: Block, sources: Iterable[Value], outputs: Callable[[], list[Value]],
                  find: Finder) -> Activity:
    """The activity of a block in which every active operation has a rule: the others were decomposed in place.

    `outputs` is asked again after each round, since decomposition replaces values. An operation with neither rule nor
    decomposition is reported to `state`, and left out.
    """
    sources = list(sources)
    hopeless: set[Operation] = set()
    while True:
        activity = find_activity(block, sources, outputs())
        missing = [op for op in activity.operations if find(op.name) is None and op not in hopeless]
        if not missing:
            break
        for op in missing:
            values = state.decompose(op, Builder(before=op, location=op.location))
            if values is None:
                hopeless.add(op)
                state.report_missing(op)
            else:
                op.replace_with(values)
    if hopeless:
        activity.operations = [op for op in activity.operations if op not in hopeless]
    return activity
