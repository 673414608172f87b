"""Batches one block. A task (see tasks.py), so that rules of operations with regions need no recursion."""

from __future__ import annotations

from collections.abc import Sequence
from types import GeneratorType
from typing import TYPE_CHECKING

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.declare import TERMINATOR
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.locations import fuse
from gradopt.ir.operation import Block, Operation
from gradopt.ir.sizes import Size
from gradopt.ir.types import TensorType, Type, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import size_operands
from gradopt.lowering.batch.registry import Batched, find_batch_rule
from gradopt.lowering.tasks import Task

if TYPE_CHECKING:
    from gradopt.lowering.autodiff.state import State

__all__ = ["BatchContext", "batch_block"]

PASS_NAME = "batch"


class BatchContext:
    """What a batching rule may ask for. `size` is the batch's; `witness` a batched value of the block that is being built."""

    def __init__(self, state: State, builder: Builder, size: Size, witness: Value) -> None:
        self.state, self.builder, self.size, self.witness = state, builder, size, witness

    def type_of(self, type: Type) -> TensorType:
        """The type of a batch of such values."""
        assert isinstance(type, TensorType)
        return tensor([self.size, *type.dims], type.element)

    def size_operand(self) -> list[Value]:
        """The `sizes…` operand for the batch: none where its size is static or named."""
        return size_operands(self.builder, self.witness, [0])

    def spread(self, operand: Batched) -> Value:
        """The operand as a batch; repeated if it is none."""
        if operand.batched:
            return operand.value
        value = operand.value
        sizes = [*self.size_operand(), *size_operands(self.builder, value)]
        return self.builder.create("prim.expand", [value, *sizes], [self.type_of(value.type)], axes=[0]).results[0]

    def static_size(self, op: Operation) -> int:
        """The batch's size. Raises GradoptError where it is not static."""
        if isinstance(self.size, int):
            return self.size
        raise GradoptError.at(op.location, f"'{op.name}' op can only be batched here for a static batch size, found {self.size}")

    def front(self, value: Value, axis: int) -> Value:
        """`value` with its axis `axis`, the batch, moved to the front."""
        rank = tensor_type(value).rank
        if axis == 0:
            return value
        return self.builder.prim.permute(value, axes=[axis, *(a for a in range(rank) if a != axis)])

    def back(self, value: Value, axis: int) -> Value:
        """`value` with its batch moved from the front to axis `axis`."""
        rank = tensor_type(value).rank
        if axis == 0:
            return value
        return self.builder.prim.permute(value, axes=[*range(1, axis + 1), 0, *range(axis + 1, rank)])


def batch_block(state: State, source: Block, target: Block, arguments: Sequence[Batched], size: Size) -> Task[list[Batched]]:
    """Builds the operations of `source` for a batch at the end of `target`; returns what its terminator would pass on.

    `arguments` stand for the source's. An operation that touches no batched value is copied."""
    builder = Builder(target)
    environment: dict[Value, Batched] = dict(zip(source.arguments, arguments))
    witness = next((argument.value for argument in arguments if argument.batched), None)
    context = None if witness is None else BatchContext(state, builder, size, witness)
    pending = list(source.operations)
    for op in pending:
        if op.has_trait(TERMINATOR):
            return [environment[value] for value in op.operands]
        operands = [environment[value] for value in op.operands]
        builder.location = fuse(op.location, PASS_NAME)
        if not any(operand.batched for operand in operands):
            copy = builder.insert(op.clone({value: environment[value].value for value in op.operands}))
            environment.update(zip(op.results, (Batched(result, False) for result in copy.results)))
            continue
        rule = find_batch_rule(op.name)
        if rule is None:
            raise GradoptError.at(op.location, f"'{op.name}' op has no batching rule; decompose it to prim first")
        found = rule(context, op, *operands)
        if isinstance(found, GeneratorType):
            found = yield found
        if found is None or isinstance(found, (Value, Batched)):
            found = [] if found is None else [found]
        assert len(found) == len(op.results), f"the batching rule of {op.name} returns {len(found)} values"
        for result, value in zip(op.results, found):
            environment[result] = value if isinstance(value, Batched) else Batched(value, True)
    return []
