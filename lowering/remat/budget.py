"""Chooses what to compute again so that the memory of a function stays within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gradopt.ir.declare import CONSTANT, PURE, TERMINATOR
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Block, Operation
from gradopt.ir.types import TensorType
from gradopt.ir.values import Value
from gradopt.lowering.remat.graph import INFINITE, FlowNetwork

__all__ = ["Peak", "choose_recomputed", "find_peak", "value_bytes"]

# operations whose work grows faster than their data: computed again only if nothing cheaper meets the budget
EXPENSIVE = frozenset({"dot", "conv", "matmul", "dot_general", "einsum", "conv1d", "conv2d", "conv3d", "conv2d_transpose",
                       "attention", "scan", "while", "for", "cholesky", "triangular_solve", "solve", "inverse", "det", "sort",
                       "argsort", "topk", "call"})
# views cost nothing and take no memory of their own
VIEWS = frozenset({"prim.reshape", "prim.expand", "prim.permute", "prim.barrier", "prim.shape_cast", "prim.stop_gradient",
                   "hl.reshape", "hl.permute_dims", "hl.broadcast_to", "hl.expand_dims", "hl.squeeze", "hl.flatten"})


class Peak(NamedTuple):
    """The most memory that values take at once, and at which operation."""

    size: int
    place: Operation | None


def value_bytes(value: Value) -> int:
    """The bytes of a value. Raises GradoptError for a dynamic size."""
    type = value.type
    assert isinstance(type, TensorType)
    if not type.is_static:
        op = value.defining_op
        location = op.location if op is not None else value.location  # type: ignore[attr-defined]
        raise GradoptError.at(location, f"the memory of {type.text} is not known: bind its sizes before remat")
    return type.element_count * type.element.storage_bytes


def own_bytes(value: Value) -> int:
    """The bytes that a value adds: none for constants and views."""
    op = value.defining_op
    if op is None or op.has_trait(CONSTANT) or op.name in VIEWS:
        return 0
    return value_bytes(value)


def roots(value: Value) -> Value:
    """The value whose memory a view shows."""
    while (op := value.defining_op) is not None and op.name in VIEWS and op.operands:
        value = op.operands[value.index if op.name == "prim.barrier" else 0]  # type: ignore[attr-defined]
    return value


def last_uses(block: Block) -> dict[Value, int]:
    """For each value that takes memory, the position of its last use (through views too)."""
    found: dict[Value, int] = {}
    for position, op in enumerate(block.operations):
        for result in op.results:
            if own_bytes(result):
                found.setdefault(result, position)
        for operand in op.operands:
            root = roots(operand)
            if own_bytes(root):
                found[root] = position
    return found


def find_peak(block: Block) -> Peak:
    """Walks the block with the values that live."""
    ends = last_uses(block)
    dying: dict[int, list[Value]] = {}
    for value, position in ends.items():
        dying.setdefault(position, []).append(value)
    size = best = 0
    place: Operation | None = None
    for position, op in enumerate(block.operations):
        size += sum(own_bytes(result) for result in op.results if result in ends)
        if size > best:
            best, place = size, op
        size -= sum(own_bytes(value) for value in dying.get(position, ()))
    return Peak(best, place)


def may_run_again(op: Operation, expensive: bool) -> bool:
    """True for an operation whose results may be computed again."""
    if not op.has_trait(PURE) or op.has_trait(TERMINATOR) or op.name == "prim.barrier":
        return False
    return expensive or op.name.split(".", 1)[1] not in EXPENSIVE


def choose_recomputed(block: Block, peak: Peak, expensive: bool) -> set[Operation]:
    """The operations before the peak to run again behind it, so that the kept values are as small as possible."""
    assert peak.place is not None
    early: set[Operation] = set()
    op = block.first
    while op is not peak.place:
        assert op is not None
        early.add(op)
        op = op.next
    late_reads = [value for value in values_of(early) if any(user not in early for user in value.users)]
    network = FlowNetwork()
    source, sink = network.node(), network.node()
    inside: dict[Value, int] = {}
    outside: dict[Value, int] = {}
    pending = list(late_reads)
    for value in late_reads:
        _add(network, value, inside, outside)
        network.edge(outside[value], sink)
    while pending:
        value = pending.pop()
        op = value.defining_op
        if op is None or op.has_trait(CONSTANT):
            continue
        if not may_run_again(op, expensive):
            network.edge(source, inside[value])
            continue
        for operand in op.operands:
            if operand.defining_op not in early:
                continue
            fresh = operand not in inside
            _add(network, operand, inside, outside)
            network.edge(outside[operand], inside[value])
            if fresh:
                pending.append(operand)
    reached = network.saturate(source, sink)
    return _behind_cut(late_reads, early, inside, outside, reached, expensive)


def values_of(operations: set[Operation]) -> list[Value]:
    """All results of operations."""
    return [result for op in operations for result in op.results]


def _add(network: FlowNetwork, value: Value, inside: dict[Value, int], outside: dict[Value, int]) -> None:
    """A value as two nodes joined by an edge of its bytes."""
    if value not in inside:
        inside[value], outside[value] = network.node(), network.node()
        op = value.defining_op
        # keeping a view would keep what it shows: only that is cut
        network.edge(inside[value], outside[value], INFINITE if op is not None and op.name in VIEWS else own_bytes(value))


def _behind_cut(late_reads: Sequence[Value], early: set[Operation], inside: dict[Value, int], outside: dict[Value, int],
                reached: set[int], expensive: bool) -> set[Operation]:
    """The operations between the cut and the late reads."""
    again: set[Operation] = set()
    pending = list(late_reads)
    while pending:
        value = pending.pop()
        op = value.defining_op
        if op is None or op not in early or op in again:
            continue
        kept = inside[value] in reached and outside[value] not in reached
        if kept or not may_run_again(op, expensive) or op.has_trait(CONSTANT):
            continue
        again.add(op)
        pending += [operand for operand in op.operands if operand in inside]
    return again
