"""Dominance between the blocks of a region (Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001)."""

from __future__ import annotations

from gradopt.ir.operation import Block, Region

__all__ = ["Dominance"]


class Dominance:
    """Immediate dominators of the blocks that the entry reaches; an unreachable block is dominated by every block."""

    def __init__(self, region: Region) -> None:
        self.region = region
        order = _postorder(region.blocks[0]) if region.blocks else []
        self.number = {block: index for index, block in enumerate(order)}
        predecessors: dict[Block, list[Block]] = {block: [] for block in order}
        for block in order:
            if block.last is not None:
                for successor in block.last.successors:
                    if successor in predecessors:
                        predecessors[successor].append(block)
        self.immediate: dict[Block, Block] = {}
        self.first: dict[Block, int] = {}  # a block's number in a walk of the dominator tree
        self.last: dict[Block, int] = {}  # the greatest number below it
        if not order:
            return
        entry = order[-1]
        self.immediate[entry] = entry
        changed = True
        while changed:
            changed = False
            for block in reversed(order[:-1]):
                known = [p for p in predecessors[block] if p in self.immediate]
                best = known[0]
                for other in known[1:]:
                    best = self._meet(best, other)
                if self.immediate.get(block) is not best:
                    self.immediate[block] = best
                    changed = True
        self._number_tree(entry)

    def _number_tree(self, entry: Block) -> None:
        """Gives each block the interval of the blocks that it dominates, in a walk of the tree of immediate dominators."""
        children: dict[Block, list[Block]] = {}
        for block, above in self.immediate.items():
            if block is not above:
                children.setdefault(above, []).append(block)
        pending: list[tuple[Block, bool]] = [(entry, False)]
        while pending:
            block, done = pending.pop()
            if done:
                self.last[block] = len(self.first) - 1
            else:
                self.first[block] = len(self.first)
                pending.append((block, True))
                pending += [(child, False) for child in children.get(block, ())]

    def _meet(self, left: Block, right: Block) -> Block:
        while left is not right:
            while self.number[left] < self.number[right]:
                left = self.immediate[left]
            while self.number[right] < self.number[left]:
                right = self.immediate[right]
        return left

    def dominates(self, block: Block, other: Block) -> bool:
        """True if every path from the entry to `other` passes `block`."""
        number = self.first.get(other)
        if number is None:
            return True
        return block in self.first and self.first[block] <= number <= self.last[block]


def _postorder(entry: Block) -> list[Block]:
    order: list[Block] = []
    seen = {entry}
    stack: list[tuple[Block, int]] = [(entry, 0)]
    while stack:
        block, index = stack.pop()
        successors = block.last.successors if block.last is not None else ()
        if index < len(successors):
            stack.append((block, index + 1))
            if successors[index] not in seen:
                seen.add(successors[index])
                stack.append((successors[index], 0))
        else:
            order.append(block)
    return order
