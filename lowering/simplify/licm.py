"""`licm`: loop-invariant code motion. See `LicmPass`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradopt.dialects.control_flow import ForBase, LoopBase, ScanBase
from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.declare import CONSTANT
from gradopt.ir.operation import Block, Operation
from gradopt.ir.sizes import UNKNOWN
from gradopt.ir.types import TensorType
from gradopt.ir.values import BlockArgument, Value
from gradopt.lowering.passes import Pass, PassContext
from gradopt.lowering.simplify.effects import Effects
from gradopt.lowering.simplify.region_values import rebuild

__all__ = ["LicmPass", "hoist_invariants"]

# what costs nothing inside a kernel: it moves only along with an operation that reads it
FREE = frozenset({
    "prim.expand", "prim.reshape", "prim.permute", "prim.slice", "prim.flip", "prim.iota", "prim.shape_cast", "prim.dim",
    "hl.broadcast_to", "hl.reshape", "hl.permute_dims", "hl.expand_dims", "hl.squeeze", "hl.flatten", "hl.iota", "hl.zeros",
    "hl.ones", "hl.shape_cast", "hl.dim"})

MARKS = (".barrier", ".checkpoint_begin", ".checkpoint_end")  # they say where the ops beside them stand


@dataclass(frozen=True)
class LicmPass(Pass):
    """Moves out of a scan, while or for what every step computes alike: pure operations that depend on constant operands only.

    Views and splat constants cost nothing inside and stay, unless an operation that moves reads them. What might report a wrong
    size at run time does not move out of a loop that might not run at all.

    Needs: nothing. Guarantees: nothing that costs is computed anew in each step from constants.

    Before:

        func.func @f(%c: tensor<4xf32>, %k: tensor<4xf32>) -> tensor<4xf32> {
          %r = prim.scan %c, %k {length = 8, num_carry = 1} ({
          ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
            %e = prim.exp %b : tensor<4xf32>
            %s = prim.add %a, %e : tensor<4xf32>
            prim.yield %s : tensor<4xf32>
          }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          return %r : tensor<4xf32>
        }

    After:

        func.func @f(%c: tensor<4xf32>, %k: tensor<4xf32>) -> tensor<4xf32> {
          %e = prim.exp %k : tensor<4xf32>
          %r = prim.scan %c, %k, %e {length = 8, num_carry = 1} ({
          ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>, %e_1: tensor<4xf32>):
            %s = prim.add %a, %e_1 : tensor<4xf32>
            prim.yield %s : tensor<4xf32>
          }) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          return %r : tensor<4xf32>
        }
    """

    name: ClassVar[str] = "licm"

    def run(self, op: Operation, context: PassContext) -> None:
        """Visits the loops, inner ones first, so that what leaves one loop may leave the next."""
        hoisted = hoist_invariants(op)
        if hoisted:
            context.count("operations hoisted", hoisted)


def hoist_invariants(root: Operation) -> int:
    """Hoists out of every loop inside `root`. Returns how many operations moved."""
    effects = Effects()
    loops = [op for op in root.walk() if isinstance(op, (ScanBase, LoopBase)) and op is not root]
    return sum(_Hoist(loop, effects).run() for loop in reversed(loops))


class _Hoist:
    """Moves the invariant operations of one loop before it."""

    def __init__(self, loop: ScanBase | LoopBase, effects: Effects) -> None:
        self.loop, self.effects = loop, effects
        self.outside: dict[Value, Value] = {}  # a value inside -> the same value before the loop
        self.invariant: set[Value] = set()
        fixed = 2 if isinstance(loop, ForBase) else 0
        self.operands = list(loop._operands[fixed:])
        self.fixed = loop._operands[:fixed]
        self.shift = 1 if fixed else 0  # the counter stands before the carries
        self.additions: list[Value] = []
        xs = loop.num_xs if isinstance(loop, ScanBase) else 0
        self.constants = range(loop.num_carry, len(self.operands) - xs)
        self.body = loop.regions[-1].blocks[0]
        self.certain = isinstance(loop, ScanBase) and loop.length > 0

    def run(self) -> int:
        """Returns how many operations moved."""
        if any(len(region.blocks) != 1 for region in self.loop.regions):
            return 0
        moved = 0
        for region in self.loop.regions:
            block = region.blocks[0]
            for index in self.constants:
                self._know(block.arguments[self.shift + index], self.operands[index])
            hoisted = [op for op in block.operations if self._is_invariant(op) and not self._is_free(op)]
            for op in hoisted:
                self._copy_out(op)
            for op in reversed(hoisted):
                self._replace(op, block)
            moved += len(hoisted)
        if moved:
            stop = self.constants.stop
            rebuild(self.loop, [*self.fixed, *self.operands[:stop], *self.additions, *self.operands[stop:]],
                    range(len(self.loop.results)), {})
        return moved

    def _know(self, inside: Value, outside: Value) -> None:
        self.invariant.add(inside)
        self.outside[inside] = outside

    def _is_free(self, op: Operation) -> bool:
        value = op.properties.get("value")
        splat = CONSTANT in op.definition.traits and isinstance(value, DenseElementsAttr) and value.is_splat
        return splat or op.name in FREE

    def _is_invariant(self, op: Operation) -> bool:
        """True (and noted) if the op is pure and reads only what is known before the loop."""
        if not op.results or op.parent is None or op is op.parent.last:
            return False
        if not self.invariant.issuperset(op._operands) or not self.effects.removable(op) or op.name.endswith(MARKS):
            return False
        if not self.certain and (op.regions or op.name.endswith((".shape_cast", ".call")) or has_unknown_size(op)):
            return False
        self.invariant.update(op.results)
        return True

    def _copy_out(self, op: Operation) -> None:
        """A copy before the loop of an op, and of the free ops that it reads."""
        pending = [op]
        while pending:
            top = pending[-1]
            missing = [operand.defining_op for operand in top._operands if operand not in self.outside]
            if missing:
                pending += [owner for owner in missing if owner is not None]
                continue
            pending.pop()
            if top.results[0] in self.outside:
                continue
            mapping = {operand: self.outside[operand] for operand in top._operands}
            copy = top.clone(mapping)
            assert self.loop.parent is not None
            self.loop.parent.insert_before(self.loop, copy)
            self.outside.update(zip(top.results, copy.results))

    def _replace(self, op: Operation, block: Block) -> None:
        """Where a result of a hoisted op is still read inside, it becomes a new constant operand."""
        for result in op.results:
            if result.users:
                place = self.shift + self.constants.stop + len(self.additions)
                self.additions.append(self.outside[result])
                for region in self.loop.regions:
                    target = region.blocks[0]
                    argument = BlockArgument(target, place, result.type, result.name)
                    target.arguments.insert(place, argument)
                    for position, other in enumerate(target.arguments):
                        other.index = position
                    if target is block:
                        result.replace_all_uses_with(argument)
        op.erase()


def has_unknown_size(op: Operation) -> bool:
    """True if an operand or result has a size without a name that is known at run time only."""
    return any(isinstance(value.type, TensorType) and UNKNOWN in value.type.dims for value in (*op._operands, *op.results))
