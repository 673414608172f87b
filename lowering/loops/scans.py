"""What the passes over `prim.scan` share: which scans they look at, the bytes of a step, and rows and stacks added to a scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.control_flow import ScanBase, stacked, yielded
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import SizeExpression
from gradopt.ir.types import TensorType, Type, literal, tensor
from gradopt.ir.values import BlockArgument, Value

__all__ = ["MOST_STEPS", "add_rows", "add_stacks", "find_scans", "row_bytes", "traffic"]

MOST_STEPS = 4096  # of a longer scan nothing more is kept than its derivative asks for: there memory counts more than time
NOMINAL_SIZE = 32  # what a named size counts where bytes are compared


def find_scans(root: Operation) -> list[Any]:
    """The scans inside `root` that may be changed, inner ones first. Scans with checkpoints stay as they are, so that the steps which
    their derivative runs again give the same bits."""
    return [op for op in root.walk(reverse=True) if op.name == "prim.scan" and isinstance(op, ScanBase)
            and 2 <= op.length <= MOST_STEPS and not op.checkpoints and len(op.body.blocks) == 1]


def row_bytes(type: Type) -> int | None:
    """The bytes of a value, with a nominal number for each named size; None where a size has no name."""
    if not isinstance(type, TensorType):
        return None
    total = type.element.storage_bytes
    for size in type.dims:
        number = size.evaluate(dict.fromkeys(size.names, NOMINAL_SIZE)) if isinstance(size, SizeExpression) else size
        if not isinstance(number, int):
            return None
        total *= number
    return total


def traffic(scan: ScanBase) -> int:
    """The bytes that a step carries, reads by row and stacks."""
    rows = scan.body.block.arguments[len(scan.operands) - scan.num_xs:]
    return sum(row_bytes(value.type) or 0 for value in (*scan.init, *rows, *yielded(scan.body)[scan.num_carry:]))


def add_stacks(scan: ScanBase, values: Sequence[Value]) -> tuple[Any, list[Value]]:
    """The scan with further `ys`, which are values of its body. Returns (the scan that stands there now, the new stacks)."""
    terminator = scan.body.block.last
    assert terminator is not None
    terminator.operands = (*terminator.operands, *values)
    types = [*scan.result_types, *(stacked(value.type, scan.length) for value in values)]
    new = replace_scan(scan, scan.operands, types, scan.num_xs)
    return new, list(new.results[len(types) - len(values):])


def add_rows(scan: ScanBase, stacks: Sequence[Value]) -> tuple[Any, list[BlockArgument]]:
    """The scan with further `xs`. Returns (the scan that stands there now, the arguments that hold a step's rows)."""
    block = scan.body.block
    arguments = []
    for stack in stacks:
        type = stack.type
        assert isinstance(type, TensorType)
        arguments.append(block.add_argument(tensor(type.dims[1:], type.element)))
    return replace_scan(scan, [*scan.operands, *stacks], scan.result_types, scan.num_xs + len(stacks)), arguments


def replace_scan(scan: ScanBase, operands: Sequence[Value], types: Sequence[Type], num_xs: int) -> Any:
    """A scan with the same body in place of `scan`; results beyond those of `scan` are new."""
    regions, scan.regions = scan.regions, ()
    new = type(scan)(operands, types, {**scan.properties, "num_xs": literal(num_xs)}, dict(scan.attributes), regions, (), scan.location)
    assert scan.parent is not None
    scan.parent.insert_before(scan, new)
    for old, result in zip(scan.results, new.results):
        result.name = old.name
        old.replace_all_uses_with(result)
    scan.erase()
    return new
