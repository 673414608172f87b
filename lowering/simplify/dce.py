"""`dce`: dead code elimination. See `DcePass`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradopt.ir.declare import GRAPH_REGION
from gradopt.ir.operation import Block, Operation, Region
from gradopt.lowering.passes import Pass, PassContext
from gradopt.lowering.simplify.effects import Effects
from gradopt.lowering.simplify.region_values import RegionValues

__all__ = ["DcePass", "eliminate_dead_code"]


@dataclass(frozen=True)
class DcePass(Pass):
    """Removes operations whose results nobody reads and that have no effect, and what of a loop or branch nobody reads.

    Operands, block arguments and results of scan, while, for, if and switch go too where no live value depends on them; so do
    blocks that no branch reaches. An operation stays if it, or anything in its regions or in the function that it calls, has an
    effect (`prim.check`, an operation of an unknown dialect).

    Needs: nothing. Guarantees: every pure operation is read.

    Before:

        func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %unused = prim.exp %x : tensor<4xf32>
          %also = prim.log %unused : tensor<4xf32>
          %y = prim.neg %x : tensor<4xf32>
          return %y : tensor<4xf32>
        }

    After:

        func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = prim.neg %x : tensor<4xf32>
          return %y : tensor<4xf32>
        }
    """

    name: ClassVar[str] = "dce"

    def run(self, op: Operation, context: PassContext) -> None:
        """Sweeps backwards once."""
        eliminate_dead_code(op, context)


def eliminate_dead_code(root: Operation, context: PassContext | None = None) -> int:
    """Erases dead operations inside `root`, in time linear in its size. Returns how many were erased."""
    return _Sweep(context or PassContext()).run(root)


class _Sweep:
    """Visits operations backwards, so that users come before what they use; an op's regions are visited before the ops above.

    Where the order of operations says nothing (graph regions, several blocks), what becomes dead after its visit is queued."""

    def __init__(self, context: PassContext) -> None:
        self.context = context
        self.effects = Effects()
        self.region_values = RegionValues(self.effects)
        self.queue: list[Operation] = []
        self.erased = 0

    def run(self, root: Operation) -> int:
        stack: list[tuple[Operation, bool]] = []  # (op to visit, its regions are done)
        self._enter(root, stack)
        counts = "dce" in self.context.counters
        removable = self.effects.removable
        while stack:
            op, done = stack.pop()
            if done:
                after = self.region_values.drop_unused_results(op)
                if after is op:
                    self.region_values.drop_unused_operands(op)
                else:  # what went inside has left more of it without a reader
                    stack.append((after, True))
                    self._enter(after, stack)
                continue
            for result in op.results:
                if result.users:
                    break
            else:
                if removable(op) and (not counts or self.context.allows("dce")):
                    if op.previous is not None:
                        stack.append((op.previous, False))
                    self._erase(op)
                    continue
            if op.previous is not None:
                stack.append((op.previous, False))
            if op.regions:
                op = self.region_values.drop_unused_results(op)
                stack.append((op, True))
                self._enter(op, stack)
        while self.queue:
            op = self.queue.pop()
            if op.parent is not None and not any([result.users for result in op.results]) and removable(op):
                self._erase(op)
        for what, number in (("operations erased", self.erased), *self.region_values.counts.items()):
            if number:
                self.context.count(what, number)
        return self.erased

    def _enter(self, op: Operation, stack: list[tuple[Operation, bool]]) -> None:
        """Queues the last op of each block, so that the last block is visited first."""
        for region in op.regions:
            if len(region.blocks) > 1:
                self.erased += erase_unreachable(region)
            for block in region.blocks:
                if block.last is not None:
                    stack.append((block.last, False))

    def _erase(self, op: Operation) -> None:
        block = op.parent
        assert block is not None
        self.erased += 1
        if not op.regions:
            for operand in op._operands:
                operand.users.pop(op, None)
            if unordered(block):
                self._requeue(op)
            op._operands = ()
            op.detach()
            return
        inside = list(op.walk())
        self.erased += len(inside) - 1
        if unordered(block):
            for inner in inside:
                self._requeue(inner)
        op.erase()

    def _requeue(self, op: Operation) -> None:
        self.queue += [owner for owner in (operand.defining_op for operand in op._operands) if owner is not None]


def unordered(block: Block) -> bool:
    """True where a user may stand before what it uses, or in a block that is visited later."""
    region = block.parent
    return region is not None and (len(region.blocks) > 1 or (
        region.parent is not None and GRAPH_REGION in region.parent.definition.traits))


def erase_unreachable(region: Region) -> int:
    """Erases the blocks that no path from the entry reaches. Returns how many operations went."""
    reached = {region.blocks[0]}
    pending = [region.blocks[0]]
    while pending:
        last = pending.pop().last
        for successor in last.successors if last is not None else ():
            if successor not in reached:
                reached.add(successor)
                pending.append(successor)
    dead = [block for block in region.blocks if block not in reached]
    if not dead:
        return 0
    operations = [op for block in dead for op in block.operations]
    for op in operations:
        op.drop_references()
    region.blocks = [block for block in region.blocks if block in reached]
    for block in dead:
        block.parent = None
    return len(operations)
