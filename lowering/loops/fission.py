"""Products that need not wait for the steps of a scan: before the loop, or after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradopt.dialects.control_flow import ScanBase, yielded
from gradopt.ir.builder import Builder
from gradopt.ir.locations import fuse
from gradopt.ir.operation import Operation
from gradopt.ir.values import BlockArgument, Value
from gradopt.lowering.autodiff.helpers import match_type
from gradopt.lowering.loops.lifting import FIXED, PASS_NAME, ROW, Lifter, dependence, is_liftable, leaves_before
from gradopt.lowering.loops.scans import add_rows, add_stacks, find_scans, row_bytes, traffic
from gradopt.lowering.simplify.canonicalize import apply_patterns
from gradopt.lowering.simplify.cse import merge_common_subexpressions
from gradopt.lowering.simplify.dce import eliminate_dead_code

__all__ = ["split_scans"]

ROOM = 4  # what leaves a scan may take stacks of so many times the bytes that its steps carry, read by row and stack anyway
VIEWS = frozenset({"prim.permute", "prim.reshape", "prim.shape_cast"})  # of one operand; they are lifted along with their base
LINEAR = VIEWS | {"prim.neg"}  # they commute with a sum over the steps


def split_scans(root: Operation) -> int:
    """Moves products out of the scans inside `root`. Returns how many moved."""
    moved = 0
    for scan in find_scans(root):
        before, scan = move_before(scan)
        moved += before + move_after(scan)
    if moved:
        eliminate_dead_code(root)
        apply_patterns(root)
        merge_common_subexpressions(root)
        eliminate_dead_code(root)
    return moved


def move_before(scan: ScanBase) -> tuple[int, Any]:
    """Products of rows and constants become one product before the scan, which reads its rows. Returns (how many, the scan that stands
    there now)."""
    kind = dependence(scan)
    room = ROOM * traffic(scan)
    chosen = []
    for op in scan.body.block.operations:
        if leaves_before(op, kind):
            size = row_bytes(op.results[0].type)
            if size is not None and size <= room:
                chosen.append(op)
                room -= size
    if not chosen:
        return 0, scan
    lifter = Lifter(scan, Builder(before=scan))
    scan, rows = add_rows(scan, [lifter.stack(op.results[0]) for op in chosen])
    for op, row in zip(chosen, rows):
        row.name = op.results[0].name
        op.replace_with([row])
    return len(chosen), scan


@dataclass
class Sum:
    """A carry to which each step only adds: what it adds, as products (each with the linear ops behind it, the last one first) and the
    rest."""

    carry: int
    add: Operation
    products: list[tuple[Operation, list[Operation]]] = field(default_factory=list)
    rest: list[Value] = field(default_factory=list)


def used_once(value: Value) -> bool:
    """True if one operand of one op is this value."""
    return len(value.users) == 1 and next(iter(value.users)).operands.count(value) == 1


def find_sums(scan: ScanBase, kind: dict[Value, int]) -> list[Sum]:
    """The carries that are sums over the steps of products of what varies."""
    block = scan.body.block
    ys = yielded(scan.body)
    found = []
    for position, argument in enumerate(block.arguments[:scan.num_carry]):
        op = ys[position].defining_op
        if op is None or op.name != "prim.add" or not used_once(argument) or not used_once(ys[position]) or argument not in op.operands:
            continue
        if not scan.init[position].type is argument.type is ys[position].type:
            continue
        total = Sum(position, op)
        pending = [next(operand for operand in op.operands if operand is not argument)]
        while pending:
            value = pending.pop()
            inner = value.defining_op
            if inner is not None and inner.name == "prim.add" and used_once(value) and value.type is argument.type:
                pending += reversed(inner.operands)
                continue
            product = summed_product(value, kind)
            if product is None:
                total.rest.append(value)
            else:
                total.products.append(product)
        if total.products:
            found.append(total)
    return found


def summed_product(value: Value, kind: dict[Value, int]) -> tuple[Operation, list[Operation]] | None:
    """(a product of two values that vary, the linear ops that lead from it to `value`), if nothing else reads them."""
    chain: list[Operation] = []
    while True:
        op = value.defining_op
        if op is None or not is_liftable(op) or not used_once(value):
            return None
        if op.name == "prim.dot":
            return None if FIXED in (kind[operand] for operand in op.operands) else (op, chain)
        if op.name not in LINEAR or len(op.operands) != 1:
            return None
        chain.append(op)
        value = op.operands[0]


def find_last(scan: ScanBase, kind: dict[Value, int]) -> list[tuple[Operation, set[Operation]]]:
    """The products of something that varies and a constant which only stacks depend on, each with all that depends on it."""
    block, carried = scan.body.block, set(yielded(scan.body)[:scan.num_carry])
    last: dict[Operation, set[Operation]] = {}  # an op that only stacks depend on -> what depends on it
    found = []
    for op in reversed(list(block.operations)):
        if op is block.last or not is_liftable(op) or any(result in carried for result in op.results):
            continue
        users = {user for result in op.results for user in result.users if user is not block.last}
        if not all(user in last for user in users):
            continue
        last[op] = {op}.union(*(last[user] for user in users))
        if op.name == "prim.dot" and [kind[operand] == FIXED for operand in op.operands].count(True) == 1:
            found.append((op, last[op]))
    return found[::-1]


def base_of(value: Value) -> Value:
    """What a value is a view of."""
    op = value.defining_op
    while op is not None and op.name in VIEWS and len(op.operands) == 1 and is_liftable(op):
        value = op.operands[0]
        op = value.defining_op
    return value


class Stacks:
    """What must be stacked for work that moves behind the scan, within a bound of bytes a step."""

    def __init__(self, scan: ScanBase, kind: dict[Value, int], room: int) -> None:
        self.kind, self.room = kind, room
        self.ready = set(yielded(scan.body)[scan.num_carry:])
        self.chosen: dict[Value, None] = {}

    def missing(self, values: Iterable[Value]) -> dict[Value, int] | None:
        """The values that further stacks are needed for, with their bytes; None if a size has no name."""
        found: dict[Value, int] = {}
        for value in values:
            base = base_of(value)
            is_row = isinstance(base, BlockArgument) and self.kind[base] == ROW
            if self.kind[base] != FIXED and not is_row and base not in self.ready and base not in self.chosen:
                size = row_bytes(base.type)
                if size is None:
                    return None
                found[base] = size
        return found

    def take(self, values: Iterable[Value], most: int | None = None) -> bool:
        """Chooses what these values need, if there is room for it (and it takes at most `most` bytes a step)."""
        found = self.missing(values)
        if found is None:
            return False
        size = sum(found.values())
        if size > self.room or (most is not None and size > most):
            return False
        self.room -= size
        self.chosen.update(dict.fromkeys(found))
        return True


def move_after(scan: ScanBase) -> int:
    """Sums over the steps of products become one product of stacks after the scan, and so does a product that only stacks depend on."""
    kind = dependence(scan)
    sums = find_sums(scan, kind)
    room = ROOM * (traffic(scan) - sum(row_bytes(scan.init[total.carry].type) or 0 for total in sums))
    stacks = Stacks(scan, kind, room)
    for total in sums:
        kept = [product for product in total.products if stacks.take(product[0].operands)]
        total.rest += [chain[0].results[0] if chain else op.results[0] for op, chain in total.products if (op, chain) not in kept]
        total.products = kept
    sums = [total for total in sums if total.products]
    last: set[Operation] = set()
    count = sum(len(total.products) for total in sums)
    for op, dependants in find_last(scan, kind):
        sizes = [row_bytes(result.type) for each in dependants for result in each.results]
        inputs = {operand for each in last | dependants for operand in each.operands if operand.defining_op not in last | dependants}
        own = row_bytes(op.results[0].type)
        if own is None or any(size is None or size > room for size in sizes):
            continue
        if stacks.take(inputs, most=2 * own):
            last |= dependants
            count += 1
    if not count:
        return 0
    scan, _ = add_stacks(scan, list(stacks.chosen))
    after = Lifter(scan, Builder(block=scan.parent, before=scan.next))
    for value, stack in zip(yielded(scan.body)[scan.num_carry:], scan.results[scan.num_carry:]):
        if value.defining_op not in last and value not in after.known:
            after.know(value, stack)
    for total in sums:
        sum_after(scan, total, after)
    for value, stack in zip(yielded(scan.body)[scan.num_carry:], scan.results[scan.num_carry:]):
        if value.defining_op in last:
            stack.replace_all_uses_with(after.stack(value))
    return count


def sum_after(scan: ScanBase, total: Sum, after: Lifter) -> None:
    """The products of a sum after the scan; the rest of it stays a carry."""
    argument, terminator = scan.body.block.arguments[total.carry], scan.body.block.last
    assert terminator is not None
    result = scan.results[total.carry]
    users = list(result.users)
    b = after.builder
    value: Value = result if total.rest else scan.init[total.carry]
    for op, chain in total.products:
        b.location = fuse(op.location, PASS_NAME)
        part = product_of_stacks(b, op, *(after.stack(operand) for operand in op.operands))
        for step in reversed(chain):
            part = b.insert(step.clone({step.operands[0]: part})).results[0]
        value = b.prim.add(value, match_type(b, part, argument.type))
    for user in users:
        user.operands = [value if operand is result else operand for operand in user.operands]
    if total.rest:
        inner = Builder(before=total.add, location=total.add.location)
        rest = total.rest[0]
        for another in total.rest[1:]:
            rest = inner.prim.add(rest, another)
        total.add.operands = [argument, rest]
    else:
        terminator.set_operand(total.carry, argument)


def product_of_stacks(b: Builder, op: Any, lhs: Value, rhs: Value) -> Value:
    """The sum over the steps of a product, its operands stacked: the steps are one more contracted axis."""
    def moved(axes: Sequence[int]) -> list[int]:
        return [axis + 1 for axis in axes]

    result: Value = b.prim.dot(lhs, rhs, lhs_batch=moved(op.lhs_batch), rhs_batch=moved(op.rhs_batch),
                               lhs_contract=[0, *moved(op.lhs_contract)], rhs_contract=[0, *moved(op.rhs_contract)])
    return result
