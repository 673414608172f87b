"""Stages between `hl.checkpoint_begin` and `hl.checkpoint_end`: which operations they hold, and who reads them too late."""

from __future__ import annotations

from gradopt.ir.declare import PURE
from gradopt.ir.operation import Block, Operation
from gradopt.ir.values import Value

__all__ = ["BEGIN", "END", "find_stages", "late_users"]

BEGIN, END = "hl.checkpoint_begin", "hl.checkpoint_end"


def find_stages(block: Block) -> list[set[Operation]]:
    """The operations of each stage: those on a way from a begin to an end. Stages that share an operation are one."""
    behind: set[Value] = set()
    for op in block.operations:
        if op.name == BEGIN or (op.name != END and not behind.isdisjoint(op.operands)):
            behind.update(op.results)
    before: set[Value] = set()
    inside: list[Operation] = []
    member = block.last
    while member is not None:
        if member.name == END:
            before.update(member.operands)
        elif not before.isdisjoint(member.results) and not behind.isdisjoint(member.results) and member.has_trait(PURE):
            inside.append(member)
            if member.name != BEGIN:
                before.update([operand for operand in member.operands if operand in behind])
        member = member.previous
    return connected(inside)


def connected(operations: list[Operation]) -> list[set[Operation]]:
    """Groups operations that read each other's results, in block order of their last operation."""
    group: dict[Operation, set[Operation]] = {}
    members = set(operations)
    for op in operations:
        own = group.setdefault(op, {op})
        for operand in op.operands:
            source = operand.defining_op
            if source in members:
                other = group.setdefault(source, {source})
                if other is not own:
                    small, large = sorted((own, other), key=len)
                    large |= small
                    for member in small:
                        group[member] = large
                    own = large
    found: list[set[Operation]] = []
    for op in operations:
        if not any(group[op] is known for known in found):
            found.append(group[op])
    return found


def late_users(stage: set[Operation]) -> list[Operation]:
    """The operations outside a stage that read its inner values behind its last end, in block order."""
    ends = {user for op in stage for result in op.results for user in result.users if user.name == END}
    users = {user for op in stage for result in op.results for user in result.users
             if user not in stage and user.name != END and user.parent is op.parent}
    if not ends:
        return []
    last = max(ends, key=_position)
    return sorted((user for user in users if last.is_before(user)), key=_position)


def _position(op: Operation) -> int:
    assert op.parent is not None
    if not op.parent.ordered:
        op.parent.number()
    return op.order
