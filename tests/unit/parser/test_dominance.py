"""Dominance against its definition: a block dominates another if no path from the entry avoids it."""

from __future__ import annotations

import random

from gradopt.ir.dominance import Dominance
from gradopt.ir.operation import Block, Region, UnregisteredOp


def random_region(generator: random.Random, count: int) -> Region:
    """Blocks that end in branches to blocks at random (never to the first)."""
    region = Region([Block() for _ in range(count)])
    for block in region.blocks:
        targets = generator.sample(region.blocks[1:], k=min(generator.randint(0, 3), count - 1)) if count > 1 else []
        block.append(UnregisteredOp("t.branch", (), (), None, None, (), targets))
    return region


def reachable(region: Region, without: Block | None) -> set[Block]:
    """The blocks on paths from the entry that avoid a block."""
    found: set[Block] = set()
    pending = [region.blocks[0]]
    while pending:
        block = pending.pop()
        if block is not without and block not in found:
            found.add(block)
            pending += block.last.successors if block.last is not None else ()
    return found


def test_against_the_definition() -> None:
    generator = random.Random(3)
    for _ in range(150):
        region = random_region(generator, generator.randint(1, 12))
        dominance, everywhere = Dominance(region), reachable(region, None)
        for block in region.blocks:
            avoiding = reachable(region, block)
            for other in region.blocks:
                expected = other not in everywhere or (block in everywhere and other not in avoiding)
                assert dominance.dominates(block, other) == expected
