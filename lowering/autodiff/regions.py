"""Derivatives of regions, as the rules of control flow need them: a copy of a region with further arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradopt.ir.builder import Builder
from gradopt.ir.cloning import clone_region_into, inline_block
from gradopt.ir.locations import AnyLocation
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.cleanup import remove_dead
from gradopt.lowering.autodiff.engine import Derivative, forward_block, reverse_block
from gradopt.lowering.autodiff.helpers import match_type, zeros_like
from gradopt.lowering.tasks import Task

if TYPE_CHECKING:
    from gradopt.lowering.autodiff.state import State

__all__ = ["RegionDerivative", "copy_region", "finish_region", "forward_region", "region_with_arguments", "reverse_region",
           "take_region", "value_or_zeros"]


class RegionDerivative(NamedTuple):
    """A region that is being built, and the derivatives that it computes (None: structurally zero)."""

    region: Region
    derivatives: list[Derivative | None]

    @property
    def block(self) -> Block:
        """The region's block."""
        return self.region.block

    @property
    def terminator(self) -> Operation:
        """The yield."""
        assert self.block.last is not None
        return self.block.last


def copy_region(region: Region) -> Region:
    """A deep copy."""
    copy = Region()
    clone_region_into(region, copy, {})
    return copy


def reverse_region(state: State, region: Region, sources: Sequence[int], seeds: Sequence[bool | None]) -> Task[RegionDerivative]:
    """A copy of `region` with one more argument for each yielded value that has a seed (None: zero; else whether it may hold masked
    lanes), and the cotangents of the arguments `sources`. The terminator still yields the forward values, and the copy is not ready
    for use before `finish_region`."""
    copy = state.deferred.copy_region(region)
    block = copy.block
    assert block.last is not None
    cotangents = [None if masked is None else Derivative(block.add_argument(value.type), masked)
                  for value, masked in zip(block.last.operands, seeds)]
    found = yield reverse_block(state, block, [block.arguments[index] for index in sources], cotangents)
    return RegionDerivative(copy, found)


def finish_region(state: State, part: RegionDerivative, builder: Builder, positions: Sequence[int], like: Sequence[Value]) -> None:
    """Makes the region yield the derivatives at `positions`, of the types of `like` (zeros where structurally zero), and nothing else;
    what these do not need goes."""
    part.terminator.operands = tuple(value_or_zeros(builder, part.derivatives[position], value)
                                     for position, value in zip(positions, like, strict=True))
    remove_dead(part.block, state)
    state.deferred.settle_block(part.block)


def region_with_arguments(region: Region, order: Sequence[int | Value], location: AnyLocation) -> tuple[Region, list[Value]]:
    """A copy of `region` with further arguments in between: `order` lists the old arguments by number, and for each new one a
    value
    whose type it takes. Returns the new arguments in order too."""
    old = region.block
    types = [old.arguments[entry].type if isinstance(entry, int) else entry.type for entry in order]
    copy = Region([Block(types)])
    block = copy.block
    places = {entry: block.arguments[position] for position, entry in enumerate(order) if isinstance(entry, int)}
    values = inline_block(old, [places[index] for index in range(len(old.arguments))], Builder(block, location=location))
    terminator = old.last
    assert terminator is not None
    block.append(type(terminator)(values, (), dict(terminator.properties), {}, (), (), terminator.location))
    return copy, [block.arguments[position] for position, entry in enumerate(order) if not isinstance(entry, int)]


def take_region(region: Region, order: Sequence[int | Value]) -> tuple[Region, list[Value]]:
    """`region_with_arguments` that takes the operations out of `region` instead of copying them: for an op that is replaced."""
    old = region.block
    copy = Region([Block([old.arguments[entry].type if isinstance(entry, int) else entry.type for entry in order])])
    for entry, argument in zip(order, copy.block.arguments):
        if isinstance(entry, int):
            old.arguments[entry].replace_all_uses_with(argument)
    for op in old.operations:
        copy.block.append(op.detach())
    return copy, [argument for entry, argument in zip(order, copy.block.arguments) if not isinstance(entry, int)]


def forward_region(state: State, region: Region, order: Sequence[int | Value], moving: Sequence[int], flags: Sequence[bool],
                   location: AnyLocation, last: bool = True) -> Task[RegionDerivative]:
    """A region whose new arguments (see `region_with_arguments`) are the tangents of the old ones `moving`, and the
    tangents of what it yields. `last`: the operations are taken out of `region`, for its op is replaced."""
    copy, new = take_region(region, order) if last else region_with_arguments(region, order, location)
    places = {entry: copy.block.arguments[position] for position, entry in enumerate(order) if isinstance(entry, int)}
    tangents = [Derivative(value, masked) for value, masked in zip(new, flags)]
    found = yield forward_block(state, copy.block, [places[index] for index in moving], tangents)
    return RegionDerivative(copy, found)


def value_or_zeros(builder: Builder, derivative: Derivative | None, like: Value) -> Value:
    """A derivative of exactly the type of `like`; zeros where it is structurally zero."""
    return zeros_like(builder, like) if derivative is None else match_type(builder, derivative.value, like.type)
