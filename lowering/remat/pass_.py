"""The passes that compute values again instead of keeping them: by marks, and by a budget of memory."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import symbols
from gradopt.ir.values import Value
from gradopt.lowering.passes.base import Pass, PassContext, option
from gradopt.lowering.remat.budget import Peak, choose_recomputed, find_peak, value_bytes
from gradopt.lowering.remat.marks import BEGIN, find_stages, late_users
from gradopt.lowering.remat.recompute import recompute_for

__all__ = ["CheckpointPass", "RematPass"]

ATTEMPTS = 100  # places of a function at which memory is looked at


@dataclasses.dataclass(frozen=True)
class CheckpointPass(Pass):
    """Computes the stages between `hl.checkpoint_begin` and `hl.checkpoint_end` again where they are read after their end.

    Run it after `autodiff`: the values inside a stage that the backward part reads are then not kept. What the stage reads from
    outside is kept. The results are the same to rounding.

    Needs: nothing. Guarantees: no value of a stage lives from its end to a later reader.

    Before:

        func.func @f(%x: tensor<4xf32>, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %a = hl.checkpoint_begin %x : tensor<4xf32>
          %b = prim.sin %a : tensor<4xf32>
          %c = prim.exp %b : tensor<4xf32>
          %d = hl.checkpoint_end %c : tensor<4xf32>
          %e = prim.mul %g, %b : tensor<4xf32>
          return %d, %e : tensor<4xf32>, tensor<4xf32>
        }

    After:

        func.func @f(%x: tensor<4xf32>, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %a = hl.checkpoint_begin %x : tensor<4xf32>
          %b = prim.sin %a : tensor<4xf32>
          %c = prim.exp %b : tensor<4xf32>
          %d = hl.checkpoint_end %c : tensor<4xf32>
          %0 = prim.barrier %a : tensor<4xf32>
          %b_1 = prim.sin %0 : tensor<4xf32>
          %e = prim.mul %g, %b_1 : tensor<4xf32>
          return %d, %e : tensor<4xf32>, tensor<4xf32>
        }
    """

    name: ClassVar[str] = "checkpoint"

    def run(self, op: Operation, context: PassContext) -> None:
        """Handles every block that holds a begin."""
        blocks = dict.fromkeys(inner.parent for inner in op.walk() if inner.name == BEGIN)
        for block in blocks:
            assert block is not None
            for stage in find_stages(block):
                again = {member for member in stage if member.name != BEGIN}
                users = late_users(stage)
                pass_begins(users, stage)
                context.count("operations cloned", recompute_for(users, again, self.name))


def pass_begins(users: list[Operation], stage: set[Operation]) -> None:
    """Late users of a begin itself read its operand, which is kept."""
    begins: dict[Value, Value] = {op.results[0]: op.operands[0] for op in stage if op.name == BEGIN}
    for user in users:
        if any(operand in begins for operand in user.operands):
            user.operands = tuple(begins.get(operand, operand) for operand in user.operands)


@dataclasses.dataclass(frozen=True)
class RematPass(Pass):
    """Computes values again so that the memory of each function stays within `budget` bytes.

    At the place where most memory lives, a minimum cut over the values that are read behind it says which ones to keep so that
    all
    others can be computed again from them; products, convolutions and loops run again only if cheaper operations do not suffice.
    Of what the cut would compute again, as much as the budget allows is kept after all, spread evenly and preferring what
    takes most
    work for its bytes. The results are the same to rounding. A remark says so where the budget cannot be met.

    Needs: static sizes (`bind`). Guarantees: no function takes more memory than before.

    Before (`remat{budget=1024}`):

        func.func @f(%x: tensor<64xf32>, %g: tensor<64xf32>) -> tensor<64xf32> {
          %a = prim.sin %x : tensor<64xf32>
          %b = prim.sin %a : tensor<64xf32>
          %c = prim.sin %b : tensor<64xf32>
          %d = prim.sin %c : tensor<64xf32>
          %p = prim.mul %g, %d : tensor<64xf32>
          %q = prim.mul %p, %c : tensor<64xf32>
          %r = prim.mul %q, %b : tensor<64xf32>
          %s = prim.mul %r, %a : tensor<64xf32>
          return %s : tensor<64xf32>
        }

    After:

        func.func @f(%x: tensor<64xf32>, %g: tensor<64xf32>) -> tensor<64xf32> {
          %a = prim.sin %x : tensor<64xf32>
          %b = prim.sin %a : tensor<64xf32>
          %c = prim.sin %b : tensor<64xf32>
          %d = prim.sin %c : tensor<64xf32>
          %p = prim.mul %g, %d : tensor<64xf32>
          %q = prim.mul %p, %c : tensor<64xf32>
          %0 = prim.barrier %a : tensor<64xf32>
          %b_1 = prim.sin %0 : tensor<64xf32>
          %r = prim.mul %q, %b_1 : tensor<64xf32>
          %s = prim.mul %r, %a : tensor<64xf32>
          return %s : tensor<64xf32>
        }
    """

    name: ClassVar[str] = "remat"
    anchor: ClassVar[str | None] = "builtin.module"
    budget: int = option(0, "the bytes that the values of a function may take at once, besides its arguments", count=True)
    func: str = option("", "the function; all by default")

    def run(self, op: Operation, context: PassContext) -> None:
        """Handles each function with a body."""
        table = symbols(op)
        name = self.func.removeprefix("@")
        if name and name not in table:
            raise GradoptError.at(op.location, f"there is no function '@{name}'")
        for function in [table[name]] if name else list(table.values()):
            if function.name == "func.func" and len(function.regions[0].blocks) == 1:
                self.fit(function, context)

    def fit(self, function: Operation, context: PassContext) -> None:
        """Lowers the peaks of one function, the highest first."""
        block = function.regions[0].block
        for _ in range(ATTEMPTS):
            peak = find_peak(block)
            if peak.size <= self.budget:
                return
            if not self.lower_peak(function, peak, context):
                break
        peak = find_peak(block)
        if peak.size > self.budget:
            context.remark(function.location, f"remat: the values of this function take {peak.size} bytes at once; the budget is "
                           f"{self.budget}")

    def lower_peak(self, function: Operation, peak: Peak, context: PassContext) -> bool:
        """Computes values again behind one peak; False where that does not help."""
        block = function.regions[0].block
        best: tuple[int, set[Operation]] = (peak.size, set())
        for expensive in (False, True):
            again = choose_recomputed(block, peak, expensive)
            late = late_results(again)
            for count in kept_counts(len(late)):
                candidate = again - set(spread_out(late, count))
                size = trial(function, peak, candidate)
                if size < best[0]:
                    best = (size, candidate)
                if size <= self.budget:
                    break
            if best[0] <= self.budget:
                break
        if not best[1]:
            return False
        context.count("operations cloned", apply(peak, best[1], self.name))
        return True


def late_results(again: set[Operation]) -> list[Operation]:
    """The operations of `again` that others read, in block order."""
    late = [op for op in again if any(user not in again for result in op.results for user in result.users)]
    if late:
        assert late[0].parent is not None
        late[0].parent.number()
    return sorted(late, key=lambda op: op.order)


def kept_counts(count: int) -> list[int]:
    """How many of `count` values to keep, from nearly all to none: first what computes least again."""
    found = [count * part // 24 for part in range(23, 0, -1)] + [int(count ** 0.5), 3, 2, 1, 0]
    return sorted({number for number in found if number < count}, reverse=True)


def spread_out(late: list[Operation], count: int) -> list[Operation]:
    """`count` operations to keep after all: one from each of as many stretches of equal bytes, the one whose work is largest for
    its bytes. Values that lie between two kept ones are computed again from the first when the second has been used up, so the
    memory falls to about the kept ones and one stretch (as with square-root checkpointing)."""
    if not count:
        return []
    sizes = [sum(value_bytes(result) for result in op.results) for op in late]
    total, done = sum(sizes) or 1, 0
    stretches: list[list[tuple[float, int]]] = [[] for _ in range(count)]
    for index, size in enumerate(sizes):
        stretches[min(done * count // total, count - 1)].append((work(late[index]) / (size or 1), -index))
        done += size
    return [late[-max(stretch)[1]] for stretch in stretches if stretch]


def work(op: Operation) -> float:
    """An estimate of an operation's work: elements read and written; for products times the length of the sums."""
    touched = sum(value_bytes(value) for value in (*op.operands, *op.results))
    contracted = op.properties.get("lhs_contract")
    if contracted is not None and op.operands:
        sizes = op.operands[0].type.shape  # type: ignore[attr-defined]
        for axis in contracted.elements:  # type: ignore[attr-defined]
            touched *= max(sizes[axis.value], 1)
    return float(touched) * (100.0 if op.regions else 1.0)


def readers_behind(place: Operation, again: set[Operation]) -> list[Operation]:
    """The operations from `place` on that read a result of `again`, in block order."""
    found, op = [], place
    while op is not None:
        if op not in again and any(operand.defining_op in again for operand in op.operands):
            found.append(op)
        op = op.next  # type: ignore[assignment]
    return found


def apply(peak: Peak, again: set[Operation], pass_name: str) -> int:
    """Clones `again` behind the peak; returns how many operations that were."""
    assert peak.place is not None
    return recompute_for(readers_behind(peak.place, again), again, pass_name)


def trial(function: Operation, peak: Peak, again: set[Operation]) -> int:
    """The memory that the function would take."""
    assert peak.place is not None
    mapping: dict[Value, Value] = {}
    copy = function.clone(mapping)
    positions = {op: index for index, op in enumerate(function.regions[0].block.operations)}
    block = copy.regions[0].block
    copies = list(block.operations)
    place = copies[positions[peak.place]]
    apply(Peak(peak.size, place), {copies[positions[op]] for op in again}, "remat")
    return find_peak(block).size
