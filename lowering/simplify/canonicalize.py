"""`canonicalize`: small local rewrites until none applies. See `CanonicalizePass`; the patterns are in `patterns/`."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.ir.values import BlockArgument, Value
from gradopt.lowering.passes import InternalError, Pass, PassContext, option
from gradopt.lowering.simplify.effects import Effects
from gradopt.lowering.simplify.patterns import Pattern, patterns_for
from gradopt.lowering.simplify.region_values import RegionValues

__all__ = ["CanonicalizePass", "apply_patterns"]


@dataclass(frozen=True)
class CanonicalizePass(Pass):
    """Brings operations into a simpler form by local rewrites, until none applies.

    IEEE values are kept: `x * 0` is not 0 (NaN, infinity, -0) and `x + 0` is not `x` (-0), unless the type is an integer.

    Needs: nothing. Guarantees: no pattern applies, no pure operation is unread.

    Before:

        func.func @f(%x: tensor<2x3xf32>, %w: tensor<2x4xf32>) -> tensor<3x4xf32> {
          %one = prim.constant {value = dense<1.0> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
          %y = prim.mul %x, %one : tensor<2x3xf32>
          %n = prim.neg %y : tensor<2x3xf32>
          %p = prim.neg %n : tensor<2x3xf32>
          %t = prim.permute %p {axes = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
          %r = prim.dot %t, %w {lhs_contract = [1], rhs_contract = [0]} : (tensor<3x2xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
          return %r : tensor<3x4xf32>
        }

    After:

        func.func @f(%x: tensor<2x3xf32>, %w: tensor<2x4xf32>) -> tensor<3x4xf32> {
          %r = prim.dot %x, %w {lhs_contract = [0], rhs_contract = [0]} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
          return %r : tensor<3x4xf32>
        }
    """

    name: ClassVar[str] = "canonicalize"
    max_rewrites: int | None = option(None, "stop after this many rewrites (no limit by default)", count=True)

    def run(self, op: Operation, context: PassContext) -> None:
        """Runs the worklist to its end."""
        apply_patterns(op, context, self.max_rewrites)


def apply_patterns(root: Operation, context: PassContext | None = None, max_rewrites: int | None = None) -> int:
    """Applies all patterns inside `root`. Returns the number of rewrites."""
    return _Driver(context or PassContext(), max_rewrites).run(root)


class Rewriter(Builder):
    """A builder that remembers what it inserted."""

    def __init__(self, op: Operation) -> None:
        super().__init__(before=op, location=op.location)
        self.inserted: list[Operation] = []

    def insert(self, op: Operation) -> Operation:
        """Puts a detached operation before the one that is rewritten."""
        self.inserted.append(op)
        return super().insert(op)


class _Driver:
    """A queue of operations to look at; a rewrite queues what it touched, so the work is linear in the number of rewrites."""

    def __init__(self, context: PassContext, max_rewrites: int | None) -> None:
        self.context, self.max_rewrites = context, max_rewrites
        self.effects = Effects()
        self.region_values = RegionValues(self.effects)
        self.counts = "canonicalize" in context.counters
        self.last = ""
        self.queue: deque[Operation] = deque()
        self.queued: set[Operation] = set()
        self.erased: set[Operation] = set()

    def run(self, root: Operation) -> int:
        inside = root.walk()
        next(inside)
        self.queue.extend(inside)
        self.queued.update(self.queue)
        bound = 50 * len(self.queue) + 10_000  # no terminating set of patterns comes near
        rewrites = dead = 0
        while self.queue and (self.max_rewrites is None or rewrites < self.max_rewrites):
            op = self.queue.popleft()
            self.queued.discard(op)
            if op in self.erased or op.parent is None:
                continue
            if not any([result.users for result in op.results]) and self.effects.removable(op):
                self._erase(op)
                dead += 1
            elif self._rewrite(op):
                rewrites += 1
                if rewrites > bound:
                    raise InternalError(f"the patterns of canonicalize do not come to an end (last: {self.last})")
        for what, number in (("rewrites", rewrites), ("dead operations erased", dead), *self.region_values.counts.items()):
            if number:
                self.context.count(what, number)
        return rewrites

    def _rewrite(self, op: Operation) -> bool:
        """Applies the first pattern that fits."""
        if op.regions:
            touched = neighbours(op)
            after = self.region_values.drop_unused_operands(self.region_values.drop_unused_results(op))
            if after is not op:
                self._replaced(op, after, touched)
                return True
        for pattern in patterns_for(op.name):
            if self.counts and not self.context.allows("canonicalize"):
                continue
            if self._apply(pattern, op):
                self.last = pattern.__name__
                return True
        return False

    def _apply(self, pattern: Pattern, op: Operation) -> bool:
        """Tries a pattern. Only one whose values have the very types of the results is taken."""
        rewriter = Rewriter(op)
        touched = neighbours(op)
        outcome = pattern(op, rewriter)
        for new in rewriter.inserted:
            self._push(new)
        if outcome is None:
            return False
        if isinstance(outcome, Operation):
            self._replaced(op, outcome, touched)
            return True
        values: Sequence[Value] = [outcome] if isinstance(outcome, Value) else outcome
        if [value.type for value in values] != [result.type for result in op.results]:
            return False
        self._touch(touched)
        for result, value in zip(op.results, values):
            result.replace_all_uses_with(value)
            if value.defining_op is not None:
                self._push(value.defining_op)
        self._erase(op)
        return True

    def _replaced(self, op: Operation, after: Operation, touched: Sequence[Operation]) -> None:
        """Queues what an operation that replaced another may have touched."""
        self.erased.add(op)
        self.erased |= self.region_values.erased
        self.region_values.erased = set()
        self._push(after)
        self._touch(touched)
        for region in after.regions:
            for block in region.blocks:
                for inner in block.operations:
                    self._push(inner)

    def _touch(self, touched: Sequence[Operation]) -> None:
        """Queues ops whose operands or users changed; with a terminator also the op around it, whose results it decides."""
        for other in touched:
            self._push(other)
            parent = other.parent_op if other.next is None else None
            if parent is not None and parent.results:
                self._push(parent)

    def _push(self, op: Operation) -> None:
        if op not in self.queued:
            self.queued.add(op)
            self.queue.append(op)

    def _erase(self, op: Operation) -> None:
        """Erases an op without users; queues what it used, and who is now alone in using that (some patterns ask for this)."""
        inside = [op] if not op.regions else list(op.walk())
        self.erased.update(inside)
        used = [operand for inner in inside for operand in inner._operands]
        op.erase()
        for value in used:
            owner = value.defining_op
            if isinstance(value, BlockArgument) and not value.users:  # the op around it may do without
                owner = value.owner.parent.parent if value.owner.parent is not None else None
            if owner is not None and owner not in self.erased:
                self._push(owner)
                if len(value.users) == 1:
                    self._push(next(iter(value.users)))


def neighbours(op: Operation) -> list[Operation]:
    """Who reads the results and who defines the operands."""
    users = [user for result in op.results for user in result.users]
    return users + [owner for owner in [operand.defining_op for operand in op._operands] if owner is not None]
