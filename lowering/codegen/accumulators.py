"""`kernel.accumulate`: what a chunk of a nest's points adds up, in variables or in the chunk's row of partial results.

A long sum has parts: the sum of a block of points, in their own type, that is added to an f64 total after the block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gradopt.dialects.kernel import AccumulateOp, MapOp, ReduceOp
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, product
from gradopt.ir.types import TensorType
from gradopt.ir.values import Value
from gradopt.lowering.codegen.long_sums import BLOCK, ROWS, is_long
from gradopt.lowering.codegen.scalars import ACCUMULATE, identity_text, value_type

if TYPE_CHECKING:
    from gradopt.lowering.codegen.nest import NestSource

__all__ = ["COMBINE", "Accumulators"]

# how partial results in memory are combined, elementwise (no reduction over a vector's lanes)
COMBINE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "and": "bit_and", "or": "bit_or"}


class Part(NamedTuple):
    """The sum of a block of points: a variable or a row of scratch, and its type."""

    name: str
    kind: str


def kind_of(value: Value) -> str:
    """The kernel type of a value's elements."""
    assert isinstance(value.type, TensorType)
    return value_type(value.type.element)


def row_size(op: AccumulateOp) -> Size:
    """The number of results that a chunk has."""
    assert isinstance(op.buffer.type, TensorType)
    return product(op.buffer.type.dims[1:])


class Accumulators:
    """The accumulations of one nest."""

    def __init__(self, nest: NestSource) -> None:
        self.nest = nest
        self.operations: list[AccumulateOp] = []
        for inner in nest.block.operations:
            if isinstance(inner, AccumulateOp):
                self.operations.append(inner)
            for region in inner.regions:
                self.operations += [deep for deep in region.block.operations if isinstance(deep, AccumulateOp)]
        self.names: dict[Operation, str] = {}  # to the variable, or the first position in memory
        self.registers = {op for op in self.operations if op.parent is nest.block and row_size(op) == 1}  # those with a variable
        self.parts: dict[AccumulateOp, Part] = {}

    def begin(self) -> None:
        """The identities, and the parts of long sums."""
        nest = self.nest
        for op in self.operations:
            assert isinstance(op.buffer.type, TensorType)
            name = self.names[op] = nest.fresh()
            identity, row = identity_text(op.kind, op.buffer.type.element), nest.size(row_size(op))
            if op in self.registers:
                nest.line(f"{name} = {identity}")
            else:
                nest.line(f"{name} = chunk(context) * {row}")
                nest.line(f"for z in range(0, {row}):")
                nest.line(f"    store({nest.names[op.buffer]}, {name} + z, {identity})")
            if op.kind == "sum" and kind_of(op.buffer) == "f64" and is_long(product(list(nest.op.outer))):  # type: ignore[attr-defined]
                self._add_part(op)

    def _add_part(self, op: AccumulateOp) -> None:
        """What is already the sum of a stage is added to its total as it comes."""
        kind, staged = kind_of(op.value), any(isinstance(inner, (MapOp, ReduceOp)) for inner in self.nest.block.operations)
        if op not in self.registers:
            self.parts[op] = Part(self.nest.scratch_row(kind, row_size(op)), kind)
        elif not staged:
            self.parts[op] = Part(f"{self.names[op]}_part", kind)

    @property
    def step(self) -> int:
        """The points of a block."""
        return BLOCK if all(op in self.registers for op in self.parts) else ROWS

    def begin_block(self) -> None:
        """The parts begin anew."""
        nest = self.nest
        for op, (name, kind) in self.parts.items():
            if op in self.registers:
                nest.line(f"{name} = {kind}(0.0)")
            else:
                nest.line(f"for z in range(0, {nest.size(row_size(op))}):")
                nest.line(f"    store({name}, z, {kind}(0.0))")

    def end_block(self) -> None:
        """The parts are added to their totals."""
        nest = self.nest
        for op, (part, _) in self.parts.items():
            total = self.names[op]
            if op in self.registers:
                nest.line(f"{total} = add({total}, f64({part}))")
            else:
                buffer = nest.names[op.buffer]
                nest.line(f"for z in range(0, {nest.size(row_size(op))}):")
                nest.line(f"    store({buffer}, {total} + z, add(load({buffer}, {total} + z), f64(load({part}, z))))")

    def end(self) -> None:
        """Variables go to the chunk's place in memory."""
        for op in self.operations:
            if op in self.registers:
                self.nest.line(f"store({self.nest.names[op.buffer]}, chunk(context), {self.names[op]})")

    def accumulate(self, op: AccumulateOp) -> None:
        """One value."""
        nest, kind, part = self.nest, kind_of(op.buffer), self.parts.get(op)
        name, value = self.names[op] if part is None else part.name, nest.names[op.value]
        if part is None and kind != kind_of(op.value):
            value = f"{kind}({value})"
        if op in self.registers:
            nest.line(f"{name} = {ACCUMULATE[op.kind]}({name}, {value})")
            return
        place = nest.position(op, op.indices)
        buffer, place = (nest.names[op.buffer], f"{name} + {place}") if part is None else (name, place)
        nest.line(f"store({buffer}, {place}, {COMBINE[op.kind]}(load({buffer}, {place}), {value}))")
