"""What goes in and out of loops and branches but is not needed: results that nobody reads, operands that no region reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradopt.dialects.control_flow import BranchBase, ForBase, LoopBase, ScanBase, WhileBase
from gradopt.ir.attributes import Attribute, IntegerAttr
from gradopt.ir.declare import ISOLATED, TERMINATOR
from gradopt.ir.operation import Block, Operation
from gradopt.ir.types import I64
from gradopt.ir.values import BlockArgument, OperationResult, Value
from gradopt.lowering.simplify.effects import Effects

__all__ = ["RegionValues", "invariant_carries", "rebuild"]


def integer(value: int) -> Attribute:
    """An i64 attribute."""
    return IntegerAttr(value, I64)


def rebuild(op: Operation, operands: Sequence[Value], kept_results: Sequence[int], properties: dict[str, Attribute]) -> Operation:
    """Replaces `op` by one of the same kind with other operands and only some results; the regions move over.

    The results that are left out must have no users."""
    types = [op.results[index].type for index in kept_results]
    regions, op.regions = op.regions, ()
    copy = type(op)(operands, types, {**op.properties, **properties}, dict(op.attributes), regions, op.successors, op.location)
    assert op.parent is not None
    op.parent.insert_before(op, copy)
    for index, result in zip(kept_results, copy.results):
        result.name = op.results[index].name
        op.results[index].replace_all_uses_with(result)
    op.erase()
    return copy


def keep(values: Sequence[Value], kept: Sequence[int]) -> list[Value]:
    """The values at the given places."""
    return [values[index] for index in kept]


def keep_arguments(block: Block, kept: Sequence[int]) -> None:
    """Drops all other block arguments, which must have no users."""
    block.arguments = [block.arguments[index] for index in kept]
    for position, argument in enumerate(block.arguments):
        argument.index = position


def read_values(op: Operation) -> list[Value]:
    """The operands, and what the regions may read from outside."""
    if not op.regions or op.has_trait(ISOLATED):
        return list(op._operands)
    return [operand for inner in op.walk() for operand in inner._operands]


class RegionValues:
    """Drops what is not needed from the control-flow ops of `hl` and `prim`; other ops with regions stay as they are."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.counts: dict[str, int] = {}
        self.erased: set[Operation] = set()

    def _count(self, what: str, number: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def _rebuild(self, op: Operation, operands: Sequence[Value], kept_results: Sequence[int],
                 properties: dict[str, Attribute]) -> Operation:
        copy = rebuild(op, operands, kept_results, properties)
        self.effects.moved(op, copy)
        return copy

    def drop_unused_results(self, op: Operation) -> Operation:
        """Drops results that nobody reads, with what a region yields for them. Returns the op that stands there now."""
        if isinstance(op, BranchBase):
            return self._drop_branch_results(op)
        if isinstance(op, (ScanBase, LoopBase)):
            return self._drop_loop_results(op)
        return op

    def drop_unused_operands(self, op: Operation) -> Operation:
        """Drops operands whose block arguments nobody reads. Returns the op that stands there now."""
        rule: Callable[..., Operation] | None = None
        if isinstance(op, BranchBase):
            rule = self._drop_branch_operands
        elif isinstance(op, (ScanBase, LoopBase)):
            rule = self._drop_loop_constants
        return op if rule is None or not all(len(region.blocks) == 1 for region in op.regions) else rule(op)

    # --- if and switch

    def _drop_branch_results(self, op: BranchBase) -> Operation:
        kept = [index for index, result in enumerate(op.results) if result.users]
        terminators = [_terminator(region.blocks[0]) if len(region.blocks) == 1 else None for region in op.regions]
        if len(kept) == len(op.results) or None in terminators:
            return op
        self._count("results dropped", len(op.results) - len(kept))
        for terminator in terminators:
            assert terminator is not None
            terminator.operands = keep(terminator._operands, kept)
        return self._rebuild(op, op._operands, kept, {})

    def _drop_branch_operands(self, op: BranchBase) -> Operation:
        count = len(op._operands) - 1
        kept = [index for index in range(count) if any([region.blocks[0].arguments[index].users for region in op.regions])]
        if len(kept) == count:
            return op
        self._count("operands dropped", count - len(kept))
        for region in op.regions:
            keep_arguments(region.blocks[0], kept)
        return self._rebuild(op, [op._operands[0], *keep(op._operands[1:], kept)], range(len(op.results)), {})

    # --- scan, while and for

    def _drop_loop_results(self, op: ScanBase | LoopBase) -> Operation:
        """Drops carries that only feed themselves, and stacked values that nobody reads."""
        if any(len(region.blocks) != 1 for region in op.regions):
            return op
        carries = op.num_carry
        body = op.regions[-1].blocks[0]
        terminator = _terminator(body)
        if terminator is None or all([result.users for result in op.results]):
            return op
        live = self._live_yields(op, terminator)
        kept = sorted(live)
        kept_carries = [index for index in kept if index < carries]
        if len(kept) == len(op.results):
            return op
        self._count("results dropped", len(op.results) - len(kept))
        first = 1 if isinstance(op, ForBase) else 0  # the counter stands before the carries
        dead = [index for index in range(carries) if index not in live]
        terminator.operands = keep(terminator._operands, kept)
        for region in op.regions:
            block = region.blocks[0]
            offset = first if block is body else 0
            self._erase_users([block.arguments[offset + index] for index in dead])
            keep_arguments(block, [position for position in range(len(block.arguments)) if position - offset not in dead
                                   or position < offset])
        fixed = 2 if isinstance(op, ForBase) else 0
        operands = [operand for position, operand in enumerate(op._operands) if position < fixed or position - fixed not in dead]
        return self._rebuild(op, operands, kept, {"num_carry": integer(len(kept_carries))})

    def _erase_users(self, arguments: Sequence[BlockArgument]) -> None:
        """Erases the (dead) operations that read the arguments, users first."""
        order: list[Operation] = []
        pending = [user for argument in arguments for user in argument.users]
        seen: set[Operation] = set()
        while pending:
            op = pending.pop()
            if op in seen:
                continue
            seen.add(op)
            order.append(op)
            pending += [user for result in op.results for user in result.users]
        for op in order:
            self.erased.update(op.walk())
            op.drop_references()
        for op in order:
            for result in op.results:
                result.users.clear()
            op.detach()
        self._count("operations erased in loops", len(order))

    def _live_yields(self, op: ScanBase | LoopBase, terminator: Operation) -> set[int]:
        """The yields that a read result, the condition, or an effect in the body depends on, through any number of steps."""
        carries = op.num_carry
        body = op.regions[-1].blocks[0]
        offset = 1 if isinstance(op, ForBase) else 0
        live: set[int] = set()
        pending: list[Value] = []

        def reach(index: int) -> None:
            if index not in live:
                live.add(index)
                pending.append(terminator._operands[index])

        for index, result in enumerate(op.results):
            if result.users:
                reach(index)
        for inner in body.operations:
            if inner is not terminator and not self.effects.removable(inner):
                pending += read_values(inner)
        if isinstance(op, WhileBase):
            condition = op.regions[0].blocks[0]
            for index in range(carries):
                if condition.arguments[index].users:
                    reach(index)
        seen: set[Operation] = set()
        while pending:
            value = pending.pop()
            if isinstance(value, OperationResult):
                if value.owner not in seen:
                    seen.add(value.owner)
                    pending += read_values(value.owner)
            elif isinstance(value, BlockArgument) and value.owner is body and 0 <= value.index - offset < carries:
                reach(value.index - offset)
        return live

    def _drop_loop_constants(self, op: ScanBase | LoopBase) -> Operation:
        """Drops constants and xs that no region reads."""
        carries = op.num_carry
        fixed = 2 if isinstance(op, ForBase) else 0
        count = len(op._operands) - fixed
        unread = [index for index in range(carries, count) if not any(
            [region.blocks[0].arguments[index + self._offset(op, region.blocks[0])].users for region in op.regions])]
        if not unread:
            return op
        self._count("operands dropped", len(unread))
        for region in op.regions:
            block = region.blocks[0]
            offset = self._offset(op, block)
            keep_arguments(block, [position for position in range(len(block.arguments)) if position - offset not in unread])
        properties = {}
        if isinstance(op, ScanBase) and op.num_xs:
            properties["num_xs"] = integer(op.num_xs - sum(1 for index in unread if index >= count - op.num_xs))
        operands = [operand for position, operand in enumerate(op._operands) if position - fixed not in unread]
        return self._rebuild(op, operands, range(len(op.results)), properties)

    @staticmethod
    def _offset(op: Operation, block: Block) -> int:
        return 1 if isinstance(op, ForBase) else 0


def _terminator(block: Block) -> Operation | None:
    last = block.last
    return last if last is not None and last.has_trait(TERMINATOR) else None


def invariant_carries(op: ScanBase | LoopBase) -> Operation | None:
    """Turns carries that the body yields as it got them into constants. Returns the new op, or None where there are none."""
    if any(len(region.blocks) != 1 for region in op.regions):
        return None
    body = op.regions[-1].blocks[0]
    terminator = _terminator(body)
    if terminator is None:
        return None
    first = 1 if isinstance(op, ForBase) else 0
    fixed = 2 if isinstance(op, ForBase) else 0
    carries = op.num_carry
    staying = [index for index in range(carries) if terminator._operands[index] is body.arguments[first + index]
               and op.results[index].type is op._operands[fixed + index].type is body.arguments[first + index].type]
    if not staying:
        return None
    moving = [index for index in range(carries) if index not in staying]
    for index in staying:
        op.results[index].replace_all_uses_with(op._operands[fixed + index])
    order = [*moving, *staying, *range(carries, len(op._operands) - fixed)]
    for region in op.regions:
        block = region.blocks[0]
        offset = first if block is body else 0
        keep_arguments(block, [*range(offset), *(offset + index for index in order)])
    kept = [*moving, *range(carries, len(op.results))]
    terminator.operands = keep(terminator._operands, [*moving, *range(carries, len(terminator._operands))])
    operands = [*op._operands[:fixed], *keep(op._operands[fixed:], order)]
    return rebuild(op, operands, kept, {"num_carry": integer(len(moving))})
