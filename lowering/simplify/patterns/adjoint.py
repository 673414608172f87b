"""Patterns of the adjoints of `scan`."""

from __future__ import annotations

from typing import Any

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation, Region
from gradopt.ir.types import literal
from gradopt.ir.values import Value
from gradopt.lowering.simplify.patterns import Outcome, pattern


@pattern("bwd.scan_xs")
def scan_of_rows(op: Any, b: Builder) -> Outcome:
    """The gradients of the xs out of a `bwd.scan` of the same body and operands that gives them too; else it becomes a `bwd.scan`."""
    first, second = op.num_carry, op.num_carry + op.num_consts
    wanted = [second + index for index in op.wanted[2]]
    for other in op.operands[0].users if op.operands else ():
        if is_same_scan(op, other):
            init, consts, xs = other.wanted
            given = [*init, *(first + index for index in consts), *(second + index for index in xs)]
            if set(wanted) <= set(given):
                return [other.results[given.index(index)] for index in wanted]
    regions, op.regions = op.regions, ()
    return b.create("bwd.scan", op.operands, op.result_types, regions=regions,
                    **{**op.properties, "wrt": literal(wanted)}).results


def is_same_scan(op: Any, other: Any) -> bool:
    """True if `other` is a bwd.scan before `op` that walks back the same steps from the same cotangents."""
    if other.name != "bwd.scan" or other.parent is not op.parent or not other.is_before(op) or other.operands != op.operands:
        return False
    left, right = ({name: value for name, value in each.properties.items() if name != "wrt"} for each in (op, other))
    return left == right and same_region(op.body, other.body)


def same_region(left: Region, right: Region) -> bool:
    """True if two isolated regions hold the same operations in the same order."""
    pending = [(left, right)]
    while pending:
        one, two = pending.pop()
        if len(one.blocks) != len(two.blocks):
            return False
        twins: dict[Value, Value] = {}
        for a, b in zip(one.blocks, two.blocks):
            if [argument.type for argument in a.arguments] != [argument.type for argument in b.arguments]:
                return False
            twins.update(zip(a.arguments, b.arguments))
        for a, b in zip(one.blocks, two.blocks):
            operations, others = list(a.operations), list(b.operations)
            if len(operations) != len(others):
                return False
            for op, other in zip(operations, others):
                if not same_operation(op, other, twins):
                    return False
                pending += zip(op.regions, other.regions)
    return True


def same_operation(op: Operation, other: Operation, twins: dict[Value, Value]) -> bool:
    """True if two operations are alike, seen through `twins`, to which their results are added."""
    alike = (op.name == other.name and op.properties == other.properties and op.result_types == other.result_types
             and len(op.regions) == len(other.regions) and not op.successors and not other.successors
             and [twins.get(operand) for operand in op.operands] == list(other.operands))
    twins.update(zip(op.results, other.results))
    return alike
