"""Computing values again, late: the operations behind a value are cloned in front of the first late use.

What the clones read goes through a `prim.barrier`, so that `cse` does not merge them with the operations that they repeat.
"""

from __future__ import annotations

from collections.abc import Collection

from gradopt.ir.builder import Builder
from gradopt.ir.declare import CONSTANT
from gradopt.ir.locations import fuse
from gradopt.ir.operation import Operation
from gradopt.ir.values import Value

__all__ = ["recompute_for"]


def recompute_for(users: list[Operation], again: Collection[Operation], pass_name: str) -> int:
    """Makes `users` (in block order) read copies of the results of the operations `again`, built when first needed.

    Every operand of an operation in `again` is a result of another one, or is kept. Returns how many operations were cloned."""
    copies: dict[Value, Value] = {}
    count = 0
    for user in users:
        needed = [value for value in user.operands if value.defining_op in again]
        if needed:
            count += _build(needed, again, copies, user, pass_name)
            user.operands = tuple(copies.get(value, value) if value.defining_op in again else value for value in user.operands)
    return count


def is_constant(value: Value) -> bool:
    """True for the result of a constant."""
    op = value.defining_op
    return op is not None and op.has_trait(CONSTANT)


def _build(values: list[Value], again: Collection[Operation], copies: dict[Value, Value], before: Operation,
           pass_name: str) -> int:
    """Clones what is behind `values` in front of an operation; adds to `copies`."""
    order: dict[Operation, None] = {}
    stack = [(value.defining_op, False) for value in values if value not in copies]
    while stack:
        op, ready = stack.pop()
        assert op is not None
        if ready:
            order[op] = None
        elif op not in order:
            stack.append((op, True))
            stack += [(source, False) for operand in op.operands
                      if (source := operand.defining_op) in again and operand not in copies and source not in order]
    leaves = dict.fromkeys(operand for op in order for operand in op.operands
                           if operand.defining_op not in again and operand not in copies and not is_constant(operand))
    if leaves:
        builder = Builder(before=before, location=fuse(next(iter(order)).location, pass_name))
        copies.update(zip(leaves, builder.create("prim.barrier", list(leaves)).results))
    assert before.parent is not None
    for op in order:
        copy = op.clone({operand: copies.get(operand, operand) for operand in op.operands})
        copy.location = fuse(op.location, pass_name)
        before.parent.insert_before(before, copy)
        copies.update(zip(op.results, copy.results))
    return len(order)
