"""`cse`: common subexpression elimination. See `CsePass`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gradopt.ir.declare import COMMUTATIVE, ISOLATED, PURE, TERMINATOR
from gradopt.ir.dominance import Dominance
from gradopt.ir.operation import Block, Operation
from gradopt.ir.values import Value
from gradopt.lowering.passes import Pass, PassContext
from gradopt.lowering.simplify.effects import Effects

__all__ = ["CsePass", "merge_common_subexpressions"]

NEVER_MERGED = frozenset({"prim.barrier", "hl.barrier"})  # they keep recomputed values apart from the first ones


@dataclass(frozen=True)
class CsePass(Pass):
    """Merges pure operations that compute the same: equal names, operands, attributes, result types and (isolated) regions.

    An operation sees those before it in its block and in the blocks around it, as far as the region is not isolated.

    Needs: nothing. Guarantees: no two equal pure operations where the first is visible from the second.

    Before:

        func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %a = prim.exp %x : tensor<4xf32>
          %b = prim.exp %x : tensor<4xf32>
          %y = prim.add %a, %b : tensor<4xf32>
          return %y : tensor<4xf32>
        }

    After:

        func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %a = prim.exp %x : tensor<4xf32>
          %y = prim.add %a, %a : tensor<4xf32>
          return %y : tensor<4xf32>
        }
    """

    name: ClassVar[str] = "cse"

    def run(self, op: Operation, context: PassContext) -> None:
        """Walks forwards once."""
        merge_common_subexpressions(op, context)


def merge_common_subexpressions(root: Operation, context: PassContext | None = None) -> int:
    """Merges equal operations inside `root`, in time linear in its size. Returns how many were erased."""
    context = context or PassContext()
    erased = _Merge(context).run(root)
    if erased:
        context.count("operations merged", erased)
    return erased


class _Scope:
    """One block on the way: the next op to look at, the table it sees, what to take out of the table at its end, and the blocks
    that it dominates (they see its operations)."""

    __slots__ = ("added", "cursor", "dominated", "table", "tree")

    def __init__(self, block: Block, table: dict[Any, Operation], tree: dict[Block, list[Block]]) -> None:
        self.cursor = block.first
        self.table = table
        self.added: list[Any] = []
        self.tree = tree
        self.dominated = list(reversed(tree.get(block, ())))


class _Merge:
    def __init__(self, context: PassContext) -> None:
        self.context = context
        self.effects = Effects()
        self.fingerprints: dict[Any, int] = {}  # what an isolated region does, numbered
        self.region_prints: dict[Operation, tuple[int, ...]] = {}  # ops with isolated regions whose inside is done

    def run(self, root: Operation) -> int:
        erased = 0
        counts = "cse" in self.context.counters
        scopes: list[_Scope] = []
        entered: list[Operation] = []  # ops whose regions are on the stack
        self._enter(root, {}, scopes)
        while scopes:
            scope = scopes[-1]
            op = scope.cursor
            if op is None:
                if scope.dominated:
                    scopes.append(_Scope(scope.dominated.pop(), scope.table, scope.tree))
                    continue
                for key in scope.added:
                    del scope.table[key]
                scopes.pop()
                continue
            if op.regions:
                if not entered or entered[-1] is not op:
                    entered.append(op)
                    self._enter(op, {} if ISOLATED in op.definition.traits else scope.table, scopes)
                    continue  # comes back here once the regions are done
                entered.pop()
                self._print_regions(op)
            scope.cursor = op.next
            key = self.key(op)
            if key is None:
                continue
            first = scope.table.get(key)
            if first is None:
                scope.table[key] = op
                scope.added.append(key)
            elif not counts or self.context.allows("cse"):
                op.replace_with(first.results)
                erased += 1
        return erased

    def _enter(self, op: Operation, table: dict[Any, Operation], scopes: list[_Scope]) -> None:
        for region in reversed(op.regions):
            if len(region.blocks) == 1:
                scopes.append(_Scope(region.blocks[0], table, {}))
            elif region.blocks:
                tree: dict[Block, list[Block]] = {}
                for block, above in Dominance(region).immediate.items():
                    if block is not above:
                        tree.setdefault(above, []).append(block)
                scopes.append(_Scope(region.blocks[0], table, tree))

    def key(self, op: Operation) -> Any:
        """Equal for ops that compute the same; None for ops that are never merged."""
        traits = op.definition.traits
        if PURE not in traits or TERMINATOR in traits or op.name in NEVER_MERGED or op.successors:
            return None
        if op.regions and (op not in self.region_prints or not self.effects.removable(op)):
            return None
        if "callee" in op.definition.attributes and not self.effects.removable(op):
            return None
        operands: Any = op._operands
        if COMMUTATIVE in traits:
            operands = frozenset(operands) if len(operands) == 2 else tuple(sorted(operands, key=id))
        return self._describe(op, operands)

    def _describe(self, op: Operation, operands: Any) -> Any:
        results = op.results
        types: Any = results[0].type if len(results) == 1 else tuple([result.type for result in results])
        properties = op.properties
        return (op.name, operands, types,
                frozenset(properties.items()) if properties else None,
                frozenset(op.attributes.items()) if op.attributes else None,
                self.region_prints.get(op))

    def _print_regions(self, op: Operation) -> None:
        """Numbers what the regions of an isolated op do, its own inner ops' regions being numbered already."""
        traits = op.definition.traits
        if PURE not in traits or ISOLATED not in traits or any(len(region.blocks) != 1 for region in op.regions):
            return
        prints = []
        for region in op.regions:
            block = region.blocks[0]
            numbers: dict[Value, int] = {argument: index for index, argument in enumerate(block.arguments)}
            lines: list[Any] = [tuple([argument.type for argument in block.arguments])]
            for inner in block.operations:
                if inner.regions and inner not in self.region_prints:
                    return
                lines.append(self._describe(inner, tuple([numbers[operand] for operand in inner._operands])))
                for result in inner.results:
                    numbers[result] = len(numbers)
            prints.append(self.fingerprints.setdefault(tuple(lines), len(self.fingerprints)))
        self.region_prints[op] = tuple(prints)
