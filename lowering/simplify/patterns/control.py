"""Patterns for control flow: branches and loops whose course is known, carries that never change."""

from __future__ import annotations

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.control_flow import BranchBase, LoopBase, ScanBase, WhileBase, yielded
from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.builder import Builder
from gradopt.ir.cloning import inline_block
from gradopt.ir.operation import Operation
from gradopt.ir.values import Value
from gradopt.lowering.simplify.patterns import Outcome, pattern
from gradopt.lowering.simplify.patterns.match import uniform
from gradopt.lowering.simplify.region_values import invariant_carries

LOOPS = ("prim.scan", "prim.while", "hl.scan", "hl.while", "hl.for")
BRANCHES = ("prim.if", "prim.switch", "hl.if", "hl.switch")


@pattern(*BRANCHES)
def known_branch(op: BranchBase, b: Builder) -> Outcome:
    """A branch on a constant becomes the branch that is taken."""
    selector = uniform(op._operands[0])
    if selector is None:
        return None
    if op.name.endswith(".if"):
        taken = op.regions[0 if selector else 1]
    else:
        taken = op.regions[min(max(int(selector), 0), len(op.regions) - 1)]
    return inline_block(taken.block, list(op._operands[1:]), b)


@pattern("prim.scan", "hl.scan")
def scan_without_steps(op: ScanBase, b: Builder) -> Outcome:
    """A scan of length 0 gives its first carries and nothing stacked."""
    if op.length != 0:
        return None
    results: list[Value] = list(op.init)
    dialect = op.name.split(".")[0]
    for result in op.results[op.num_carry:]:
        type = tensor_type(result)
        if not type.is_static:
            return None
        results.append(b.create(f"{dialect}.constant", (), [type], value=DenseElementsAttr(type, b"")).results[0])
    return results


@pattern("prim.while", "hl.while")
def while_never(op: WhileBase, b: Builder) -> Outcome:
    """A loop whose condition is the constant false gives its first carries."""
    return list(op._operands[: op.num_carry]) if uniform(yielded(op.condition)[0]) == 0 else None


@pattern("hl.for")
def for_never(op: Operation, b: Builder) -> Outcome:
    """A loop whose constant bounds leave no step gives its first carries."""
    lower, upper = uniform(op._operands[0]), uniform(op._operands[1])
    if lower is None or upper is None or lower < upper:
        return None
    return list(op._operands[2: 2 + op.num_carry])  # type: ignore[attr-defined]


@pattern(*LOOPS)
def carry_that_stays(op: ScanBase | LoopBase, b: Builder) -> Outcome:
    """A carry that the body passes on unchanged becomes a constant operand, and its result the first value."""
    return invariant_carries(op)
