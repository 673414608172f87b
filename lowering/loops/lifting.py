"""Values of a scan's body computed outside of it, for all steps at once."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.control_flow import ScanBase, stacked
from gradopt.dialects.prim.linear import dot_axes
from gradopt.ir.builder import Builder
from gradopt.ir.declare import ELEMENTWISE
from gradopt.ir.locations import fuse
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import nearest_symbol_table
from gradopt.ir.types import TensorType
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import match_type
from gradopt.lowering.autodiff.state import State
from gradopt.lowering.batch.engine import BatchContext
from gradopt.lowering.batch.registry import Batched, find_batch_rule
from gradopt.lowering.simplify.licm import has_unknown_size

__all__ = ["CARRIED", "FIXED", "ROW", "Lifter", "dependence", "is_liftable", "leaves_before"]

PASS_NAME = "scan-fission"
FIXED, ROW, CARRIED = range(3)  # what a value depends on: constants alone, also a row of the xs, also the steps before
LIFTABLE = frozenset({"prim.constant", "prim.dot", "prim.reduce", "prim.permute", "prim.reshape", "prim.expand", "prim.shape_cast",
                      "prim.flip", "prim.slice", "prim.pad", "prim.concat", "prim.iota", "prim.contiguous", "prim.copy",
                      "prim.stop_gradient"})


def is_liftable(op: Operation) -> bool:
    """True for an op without effects that has a plain form for all steps at once."""
    return (op.name in LIFTABLE or op.has_trait(ELEMENTWISE)) and not has_unknown_size(op)


def has_row_count(value: Value, length: int) -> bool:
    """True for a stack whose type says that it has so many rows."""
    return isinstance(value.type, TensorType) and value.type.dims[0] == length


def dependence(scan: ScanBase) -> dict[Value, int]:
    """FIXED, ROW or CARRIED for each value of the body. What cannot be lifted counts as CARRIED."""
    found: dict[Value, int] = {}
    first = len(scan.operands) - scan.num_xs
    for position, (argument, operand) in enumerate(zip(scan.body.block.arguments, scan.operands)):
        is_row = position >= first and has_row_count(operand, scan.length)
        found[argument] = FIXED if scan.num_carry <= position < first else ROW if is_row else CARRIED
    for op in scan.body.block.operations:
        kind = max((found[operand] for operand in op.operands), default=FIXED)
        for result in op.results:
            found[result] = kind if is_liftable(op) else CARRIED
    return found


class Lifter:
    """Builds values of a scan's body outside: those that depend on constants, rows, and stacks that were told by `know`."""

    def __init__(self, scan: ScanBase, builder: Builder) -> None:
        self.scan, self.builder, self.body = scan, builder, scan.body.block
        self.known: dict[Value, Batched] = {}
        first = len(scan.operands) - scan.num_xs
        for position, (argument, operand) in enumerate(zip(self.body.arguments, scan.operands)):
            if scan.num_carry <= position < first:
                self.known[argument] = Batched(operand, False)
            elif position >= first and has_row_count(operand, scan.length):
                self.know(argument, operand)

    def know(self, value: Value, stack: Value) -> None:
        """`stack` holds the values of all steps."""
        self.known[value] = Batched(stack, True)

    def lift(self, value: Value) -> Batched:
        """The value of all steps, or the one value where it is the same in all."""
        needed = self._missing(value)
        if needed:
            witness = next(each.value for each in self.known.values() if each.batched)
            table = nearest_symbol_table(self.scan)
            context = BatchContext(State(table if table is not None else self.scan), self.builder, self.scan.length, witness)
            for op in self.body.operations:
                if op in needed:
                    self._emit(context, op)
        return self.known[value]

    def stack(self, value: Value) -> Value:
        """The values of all steps, of exactly the type of a stack."""
        found = self.lift(value)
        assert found.batched
        return match_type(self.builder, found.value, stacked(value.type, self.scan.length))

    def _missing(self, value: Value) -> set[Operation]:
        needed: set[Operation] = set()
        pending = [value]
        while pending:
            top = pending.pop()
            if top not in self.known:
                op = top.defining_op
                assert op is not None and is_liftable(op), "a value that only the steps know is lifted"
                if op not in needed:
                    needed.add(op)
                    pending += op.operands
        return needed

    def _emit(self, context: BatchContext, op: Operation) -> None:
        operands = [self.known[operand] for operand in op.operands]
        self.builder.location = fuse(op.location, PASS_NAME)
        if not any(operand.batched for operand in operands):
            copy = self.builder.insert(op.clone({value: known.value for value, known in zip(op.operands, operands)}))
            self.known.update((result, Batched(twin, False)) for result, twin in zip(op.results, copy.results))
            return
        if op.name == "prim.dot" and is_vector_product(op) and not operands[0].batched:
            found: Any = self._swapped(op, *operands)
        else:
            rule = find_batch_rule(op.name)
            assert rule is not None
            found = rule(context, op, *operands)
        values = [found] if isinstance(found, (Value, Batched)) else found
        for result, value in zip(op.results, values):
            self.known[result] = value if isinstance(value, Batched) else Batched(value, True)

    def _swapped(self, op: Any, lhs: Batched, rhs: Batched) -> Value:
        """matrix x vector of all steps as vectors x matrix, which leaves the steps in front."""
        contract = [axis + 1 for axis in op.rhs_contract]
        result: Value = self.builder.prim.dot(rhs.value, lhs.value, lhs_contract=contract, rhs_contract=op.lhs_contract)
        return result


def is_vector_product(op: Any) -> bool:
    """True for a product without batch axes whose second operand has no free axis."""
    lhs_batch, _, _, _, _, rhs_free = dot_axes(op, tensor_type(op.a), tensor_type(op.b))
    return not lhs_batch and not rhs_free


def leaves_before(op: Operation, kind: dict[Value, int]) -> bool:
    """True for a product of a row and a constant that has a form for all steps at once, with the steps in front without a permute."""
    if op.name != "prim.dot" or kind[op.results[0]] != ROW or FIXED not in (kind[operand] for operand in op.operands):
        return False
    lhs_batch, _, _, _, lhs_free, _ = dot_axes(op, tensor_type(op.operands[0]), tensor_type(op.operands[1]))
    return not lhs_batch and (kind[op.operands[0]] == ROW or not lhs_free or is_vector_product(op))
