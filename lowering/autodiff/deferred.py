"""Copies of regions in which operations with regions of their own stay hollow until it is known that they are needed.

A branch inside a branch inside a branch … is copied once for each level around it if every copy is a deep one; most of these
copies are dead as soon as the derivative has been written.
"""

from __future__ import annotations

from gradopt.ir.cloning import clone_region_into, clone_shallow
from gradopt.ir.declare import ISOLATED
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.values import Value

__all__ = ["DeferredRegions"]


class DeferredRegions:
    """Which hollow operation stands for which full one. The full one must stay as it is until the copy is settled or erased."""

    def __init__(self) -> None:
        self._origins: dict[Operation, Operation] = {}

    def origin(self, op: Operation) -> Operation:
        """The operation whose regions are those of `op`: itself unless it is hollow."""
        return self._origins.get(op, op)

    def copy_region(self, region: Region) -> Region:
        """A copy of a region of one block; the operations in it that hold isolated regions are hollow."""
        copy = Region([Block(name=region.block.name)])
        mapping: dict[Value, Value] = {}
        for argument in region.block.arguments:
            mapping[argument] = copy.block.add_argument(argument.type, argument.name, argument.location)
        for op in region.block.operations:
            if op.regions and ISOLATED not in op.definition.traits:
                copy.block.append(op.clone(mapping))
                continue
            twin = clone_shallow(op, mapping, [Region() for _ in op.regions], {})
            if op.regions:
                self._origins[twin] = self.origin(op)
            copy.block.append(twin)
        return copy

    def settle(self, op: Operation) -> None:
        """Gives a hollow operation regions of its own."""
        origin = self._origins.pop(op, None)
        if origin is not None:
            for region, target in zip(origin.regions, op.regions):
                clone_region_into(region, target, {})

    def settle_block(self, block: Block) -> None:
        """Gives every hollow operation of a block regions of its own."""
        for op in block.operations:
            if op.regions:
                self.settle(op)
