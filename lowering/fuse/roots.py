"""Which values are stored: the roots of kernels.

Between roots nothing is stored: views and elementwise ops are recomputed inside the kernels that read them. A *hard* root must
have memory (a function result, an operand of a library kernel); a *soft* one is computed once because several kernels might
read it or because the expression would grow too large, and gets memory only if another kernel than its own reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradopt.ir.declare import ELEMENTWISE, TERMINATOR
from gradopt.ir.operation import Block, Operation
from gradopt.ir.values import Value
from gradopt.lowering.fuse.expression import WEIGHTS
from gradopt.lowering.fuse.fill import needs_no_memory
from gradopt.lowering.fuse.reading import is_inline
from gradopt.lowering.fuse.views import VIEWS

__all__ = ["StoredValues", "is_inline", "storage_base"]

MOST_INLINE_OPS = 48  # an expression of more ops is stored: it bounds recursion and the size of a kernel
HEAVY = 5  # a value read by several kernels is stored if it costs more than this,
HEAVY_OF_FEW = 10  # or than this where it is made of a value or two: to store it moves as much memory as to read them again
LIGHT = 3  # a value that rows repeat is stored if it costs more than this

# Ops whose result has the same bytes as their operand, so that they share its memory.
ALIASES = frozenset({"prim.reshape", "prim.shape_cast", "prim.stop_gradient", "prim.barrier"})


REDUCTIONS = frozenset({"prim.reduce", "prim.arg_reduce"})  # roots of their own, whose operand need not be stored
COPIES = frozenset({"prim.copy", "prim.contiguous"})  # views whose result is stored on purpose


def is_large_constant(op: Operation) -> bool:
    """True for a constant that needs memory: more than one distinct element."""
    return op.name == "prim.constant" and not op.value.is_splat and bool(op.value.data)  # type: ignore[attr-defined]


def storage_base(value: Value) -> Value:
    """The value whose memory `value` shares, found through aliases."""
    while True:
        op = value.defining_op
        if op is None or op.name not in ALIASES:
            return value
        value = op.operands[value.index if op.name == "prim.barrier" else 0]  # type: ignore[attr-defined]


# Views that a matrix product may read through strides.
STRIDED = frozenset({"prim.permute", "prim.reshape", "prim.shape_cast", "prim.stop_gradient", "prim.slice", "prim.expand"})


def view_base(value: Value) -> Value:
    """The value that a matrix product can read through strides: through permutes, slices, expands and aliases."""
    while True:
        op = value.defining_op
        if op is None or op.name not in STRIDED:
            return value
        value = op.operands[0]


class StoredValues:
    """The stored values of a block, found by one backward and one forward pass."""

    def __init__(self, block: Block, direct: Iterable[Value] = ()) -> None:
        self.hard: set[Value] = set()
        self.soft: set[Value] = set()
        self.constants: set[Value] = set()
        operations = list(block.operations)
        self._mark_hard(operations, set(direct))
        self._mark_soft(operations)

    def __contains__(self, value: Value) -> bool:
        return value in self.hard or value in self.soft or value in self.constants

    def _mark_hard(self, operations: Sequence[Operation], direct: set[Value]) -> None:
        """Operands of what is not inline, and what such ops give. `direct`: operands that are read through strides."""
        for op in reversed(operations):
            if op.has_trait(TERMINATOR):
                self.hard.update(storage_base(operand) for operand in op.operands)
            elif is_large_constant(op):
                self.constants.add(op.results[0])
            elif op.name in COPIES:
                self.hard.update(op.results)
            elif op.name in REDUCTIONS:
                self.soft.update(op.results)
            elif not is_inline(op):
                self.hard.update(op.results)
                for position, operand in enumerate(op.operands):
                    if not needs_no_memory(op, position):
                        self.hard.add(view_base(operand) if operand in direct else storage_base(operand))

    def _mark_soft(self, operations: Sequence[Operation]) -> None:
        weight: dict[Value, int] = {}
        count: dict[Value, int] = {}
        reads: dict[Value, frozenset[Value]] = {}  # the values in memory that it is made of
        for op in operations:
            if not is_inline(op) or is_large_constant(op):
                continue
            is_computed = op.has_trait(ELEMENTWISE)
            own = WEIGHTS.get(op.name.split(".")[1], 1) if is_computed else 0
            inner = [operand for operand in set(op.operands) if operand not in self]
            total = own + sum(weight.get(operand, 1) for operand in inner) + (len(op.operands) - len(inner))
            steps = 1 + sum(count.get(operand, 0) for operand in inner)
            read = frozenset[Value]().union(*(reads.get(operand, (operand,)) for operand in op.operands))
            if op.name == "prim.expand":  # computed outside the loop over the new axes, or stored and small
                total, read = min(total, 1), frozenset()
            result = op.results[0]
            is_shared = is_computed and total > (HEAVY_OF_FEW if len(read) <= 2 else HEAVY) and _reader_count(result) > 1
            is_repeated = is_computed and total > LIGHT and _is_repeated(result)
            if result not in self.hard and (steps > MOST_INLINE_OPS or is_shared or is_repeated):
                self.soft.add(result)
            stored = result in self
            weight[result], count[result] = (1, 0) if stored else (total, steps)
            reads[result] = frozenset((result,)) if stored else read


def _reader_count(value: Value) -> int:
    """How many ops compute with a value, seen through views (counting stops at 2)."""
    found = 0
    pending = [value]
    while pending and found < 2:
        for user in pending.pop().users:
            if user.name in VIEWS and len(user.operands) == 1:
                pending.append(user.results[0])
            else:
                found += 1
    return found


def _is_repeated(value: Value) -> bool:
    """True if a value is read, through views, along new axes before one of its own: a loop would compute it again at each turn."""
    pending = [value]
    while pending:
        for user in pending.pop().users:
            if user.name not in VIEWS or len(user.operands) != 1:
                continue
            if user.name == "prim.expand":
                sizes = user.results[0].type.dims  # type: ignore[attr-defined]
                new = set(user.axes)  # type: ignore[attr-defined]
                own = [axis for axis, size in enumerate(sizes) if axis not in new and size != 1]
                if own and any(sizes[axis] != 1 for axis in new if axis < own[-1]):
                    return True
            pending.append(user.results[0])
    return False
