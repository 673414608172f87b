"""`decompose`: lowers `hl` and `bwd` to `prim`. See `DecomposePass`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import Diagnostic, GradoptError
from gradopt.ir.dialect import find_dialect, near_miss, operation_class
from gradopt.ir.locations import fuse
from gradopt.ir.operation import Operation
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import match_type
from gradopt.lowering.decompose.registry import PRESERVED_BY_DEFAULT, Decomposition, find_decomposition
from gradopt.lowering.passes.base import Pass, PassContext, option

__all__ = ["DecomposePass", "decompose_operation"]

LOWERED = ("hl", "bwd", "ad")  # the dialects that nothing is left of


@dataclass(frozen=True)
class DecomposePass(Pass):
    """Replaces each operation of `hl` and `bwd` by simpler ones until only `prim` is left, inside regions too.

    `preserve` names operations that stay whole; `default` stands for those that have a kernel of their own. Every operation
    without a decomposition is reported.

    Needs: no `ad` ops (run autodiff first). Guarantees: no `hl`, `bwd` or `ad` op is left except those that `preserve` names.

    Before:

        func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = hl.relu %x : tensor<4xf32>
          return %y : tensor<4xf32>
        }

    After:

        func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = prim.constant dense<0.0> : tensor<4xf32>
          %1 = prim.cmp %x, %0 {predicate = "le"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
          %y = prim.select %1, %0, %x : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          return %y : tensor<4xf32>
        }
    """

    name: ClassVar[str] = "decompose"
    preserve: tuple[str, ...] = option((), "operations that stay whole; `default` for those with a kernel of their own")

    def run(self, op: Operation, context: PassContext) -> None:
        """Visits every operation once, and each that takes its place."""
        kept = self.preserved(op)
        missing: list[Operation] = []
        stack: list[Operation | None] = [block.first for region in op.regions for block in region.blocks]
        count = 0
        while stack:
            current = stack.pop()
            while current is not None:
                name = current.name
                if name.split(".", 1)[0] in LOWERED and name not in kept and name != "hl.yield":
                    rule = find_decomposition(name)
                    if rule is not None and context.allows("decompose"):
                        current = replace(current, rule)
                        count += 1
                        continue
                    if rule is None:
                        missing.append(current)
                if current.regions:
                    stack.extend(block.first for region in current.regions for block in region.blocks)
                current = current.next
        context.count("operations decomposed", count)
        report(missing)

    def preserved(self, root: Operation) -> frozenset[str]:
        """The full names of the operations that stay. Raises GradoptError for a name that no dialect declares."""
        kept = set(PRESERVED_BY_DEFAULT) if "default" in self.preserve else set()
        for name in self.preserve:
            if name == "default":
                continue
            if operation_class(name) is None:
                dialect = find_dialect(name.split(".", 1)[0])
                known = [] if dialect is None else list(dialect.operations)
                raise GradoptError.at(root.location, f"option 'preserve' names '{name}', which no dialect declares"
                                      + near_miss(name, known))
            kept.add(name)
        return frozenset(kept)


def replace(op: Operation, rule: Decomposition) -> Operation | None:
    """Puts an operation's decomposition in its place; returns the first operation of it (the next one where it built none)."""
    block, before = op.parent, op.previous
    assert block is not None
    values = apply(op, rule, Builder(before=op, location=fuse(op.location, "decompose", op.name)))
    following = before.next if before is not None else block.first
    if following is op:
        following = op.next
    op.replace_with(values)
    return following


def apply(op: Operation, rule: Decomposition, builder: Builder) -> list[Value]:
    """One value a result, each of exactly the result's type."""
    found = rule(builder, op)
    values = [found] if isinstance(found, Value) else list(found)
    return [match_type(builder, value, result.type) for value, result in zip(values, op.results, strict=True)]


def decompose_operation(op: Operation, builder: Builder) -> list[Value]:
    """The values of an operation's results in simpler operations, which `builder` inserts. `op` stays where it is, but its
    regions may be taken from it: it must be replaced.

    One step: what is built may be `hl` or `bwd` again. Raises GradoptError where the operation has no decomposition."""
    rule = find_decomposition(op.name)
    if rule is None:
        report([op])
    assert rule is not None
    location, builder.location = builder.location, fuse(op.location, "decompose", op.name)
    try:
        return apply(op, rule, builder)
    finally:
        builder.location = location


def report(missing: list[Operation]) -> None:
    """Raises GradoptError with one error for each operation that has no decomposition."""
    if missing:
        hint = {"ad": " (run autodiff first)"}
        raise GradoptError([Diagnostic(op.location, f"'{op.name}' op has no decomposition{hint.get(op.name.split('.', 1)[0], '')}")
                            for op in missing])
