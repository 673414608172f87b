"""Which values of a scan's body another scan has computed in the same steps, and which of them to keep as stacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gradopt.dialects.control_flow import ScanBase, yielded
from gradopt.ir.declare import COMMUTATIVE, PURE, TERMINATOR
from gradopt.ir.operation import Operation
from gradopt.ir.values import Value
from gradopt.lowering.loops.lifting import dependence, leaves_before
from gradopt.lowering.loops.scans import add_rows, add_stacks, find_scans, row_bytes, traffic
from gradopt.lowering.remat.graph import FlowNetwork
from gradopt.lowering.simplify.cse import NEVER_MERGED
from gradopt.lowering.simplify.dce import eliminate_dead_code

__all__ = ["read_residuals"]

COSTLY = frozenset({"prim.dot", "prim.conv", "prim.cholesky", "prim.triangular_solve", "prim.sort", "prim.cumulative", "prim.unfold",
                    "prim.fold", "prim.random_bits"})
ROOM = 2  # the new stacks of a scan may take so many times the bytes that its steps carry, read by row and stack anyway


def read_residuals(root: Operation) -> int:
    """Lets every scan inside `root` read what an earlier scan of its block has computed. Returns how many values are read now."""
    found = 0
    for later in reversed(find_scans(root)):  # in program order: the third of three scans reads what the second one keeps
        for earlier in list(earlier_scans(later)):
            number, later = share(earlier, later)
            found += number
    if found:
        eliminate_dead_code(root)
    return found


def earlier_scans(scan: ScanBase) -> Iterator[Any]:
    """The scans before one in its block that take as many steps."""
    assert scan.parent is not None
    for op in scan.parent.operations:
        if op is scan:
            return
        if op.name == scan.name and op.length == scan.length and not op.checkpoints:  # type: ignore[attr-defined]
            yield op


def share(earlier: ScanBase, later: ScanBase) -> tuple[int, Any]:
    """(how many values `later` now reads from `earlier`, the scan that stands in the place of `later`)."""
    twins = equal_values(earlier, later)
    chosen = choose(earlier, later, twins)
    if not chosen:
        return 0, later
    stacks = stacks_of(earlier, [twins[value] for value in chosen])
    later, rows = add_rows(later, stacks)
    for value, row in zip(chosen, rows):
        row.name = value.name
        value.replace_all_uses_with(row)
    return len(chosen), later


def equal_values(earlier: ScanBase, later: ScanBase) -> dict[Value, Value]:
    """For values in the body of `later` the value in the body of `earlier` that is the same in the same row, whichever way the steps
    go: a row of the same stack, a constant, a row of what `earlier` stacked, and what is computed from such alone."""
    body, given = earlier.body.block, later.body.block
    known: dict[Value, Value] = {}
    for value, argument in zip(earlier.consts, body.arguments[earlier.num_carry:]):
        known.setdefault(value, argument)
    rows: dict[Value, Value] = {}
    for value, argument in zip(earlier.xs, body.arguments[len(earlier.operands) - earlier.num_xs:]):
        rows.setdefault(value, argument)
    for value, row in zip(earlier.results[earlier.num_carry:], yielded(earlier.body)[earlier.num_carry:]):
        rows.setdefault(value, row)
    twins: dict[Value, Value] = {}
    for position, operand in enumerate(later.operands):
        if position >= later.num_carry:
            table = known if position < len(later.operands) - later.num_xs else rows
            if operand in table and table[operand].type is given.arguments[position].type:
                twins[given.arguments[position]] = table[operand]
    same = {describe(op, op.operands): op for op in reversed(list(body.operations)) if is_comparable(op)}
    for op in given.operations:
        if is_comparable(op) and all(operand in twins for operand in op.operands):
            twin = same.get(describe(op, [twins[operand] for operand in op.operands]))
            if twin is not None:
                twins.update(zip(op.results, twin.results))
    return twins


def is_comparable(op: Operation) -> bool:
    """True for what gives the same from the same operands and has no regions."""
    traits = op.definition.traits
    return (PURE in traits and TERMINATOR not in traits and op.name not in NEVER_MERGED and not op.regions
            and "callee" not in op.definition.attributes)


def describe(op: Operation, operands: Sequence[Value]) -> Any:
    """Equal for ops that compute the same."""
    order: Any = frozenset(operands) if COMMUTATIVE in op.definition.traits and len(operands) == 2 else tuple(operands)
    return op.name, order, op.result_types, frozenset(op.properties.items())


def choose(earlier: ScanBase, later: ScanBase, twins: dict[Value, Value]) -> list[Value]:
    """The values of `later` to read instead of to compute, from which what is costly need not be computed again: as many of the costly
    values as there is room for, those of the fewest bytes first."""
    live = live_operations(later)
    order = [op for op in later.body.block.operations if op in live]
    shared = [op for op in order if op.results and all(result in twins for result in op.results)]
    ready = set(yielded(earlier.body)[earlier.num_carry:])
    price: dict[Value, int] = {}
    for value in (result for op in shared for result in op.results):
        size = row_bytes(value.type)
        if size is None:
            return []
        price[value] = 0 if twins[value] in ready else size
    kind = dependence(earlier)  # what leaves the earlier scan leaves the later one too, and is merged
    costly = [op for op in shared if is_costly(op) and not leaves_before(twins[op.results[0]].defining_op, kind)]  # type: ignore[arg-type]
    costly.sort(key=lambda op: sum(price[result] for result in op.results))
    room = ROOM * traffic(earlier)
    while costly:
        chosen = minimum_cut(order, shared, costly, price)
        if sum(price[value] for value in chosen) <= room:
            return chosen
        costly.pop()
    return []


def is_costly(op: Operation) -> bool:
    """True for what costs much more to compute again than to read."""
    return op.name in COSTLY or op.name.startswith("kernel.")


def minimum_cut(order: Sequence[Operation], shared: Sequence[Operation], costly: Sequence[Operation],
                price: dict[Value, int]) -> list[Value]:
    """The cheapest values between what is costly and the ops that are not shared. The flow runs from the readers to what is costly, so
    that of two cuts of the same price the one nearer to the readers is found."""
    network = FlowNetwork()
    source, sink = network.node(), network.node()
    nodes: dict[Value, tuple[int, int]] = {}  # on the side of the readers, on the side of the operands
    is_shared, is_source = set(shared), set(costly)
    for op in order:
        for result in op.results if op in is_shared else ():
            nodes[result] = network.node(), network.node()
            network.edge(*nodes[result], capacity=price[result] + 1)  # of two cuts of the same price the one of fewer values
            if op in is_source:
                network.edge(nodes[result][1], sink)
        for operand in op.operands:
            if operand not in nodes:
                continue
            if op not in is_shared:
                network.edge(source, nodes[operand][0])
            elif op not in is_source:
                for result in op.results:
                    network.edge(nodes[result][1], nodes[operand][0])
    reached = network.saturate(source, sink)
    return [value for value, (before, after) in nodes.items() if before in reached and after not in reached]


def live_operations(scan: ScanBase) -> set[Operation]:
    """The ops of the body that a yielded value or an effect needs, and the yield."""
    block = scan.body.block
    live: set[Operation] = set()
    for op in reversed(list(block.operations)):
        if not is_comparable(op) or any(user in live for result in op.results for user in result.users):
            live.add(op)
    return live


def stacks_of(scan: ScanBase, values: Sequence[Value]) -> list[Value]:
    """Stacks of values of the body: those that are there, and new ones."""
    ys = list(yielded(scan.body)[scan.num_carry:])
    missing = list(dict.fromkeys(value for value in values if value not in ys))
    if missing:
        scan, _ = add_stacks(scan, missing)
    ys += missing
    return [scan.results[scan.num_carry + ys.index(value)] for value in values]
