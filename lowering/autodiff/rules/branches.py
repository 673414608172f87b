"""Derivatives of `if` and `switch`: the same op over the derivatives of its regions; only the branch that was taken runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Region
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import ForwardContext, ReverseContext
from gradopt.lowering.autodiff.engine import Derivative
from gradopt.lowering.autodiff.regions import RegionDerivative, finish_region, forward_region, reverse_region, value_or_zeros
from gradopt.lowering.autodiff.registry import forward_rule, reverse_rule
from gradopt.lowering.tasks import Task


@reverse_rule("hl.if", "hl.switch", "prim.if", "prim.switch")
def branch(context: ReverseContext, op: Any, *cotangents: Value | None) -> Task[list[Derivative | None]]:
    """(index, operands…, cotangents…): each region computes the cotangents of the operands, from its forward values anew."""
    wanted = [index for index in range(1, len(op.operands)) if context.wants(index)]
    seeds = [None if flag is None else flag.masked for flag in context.flags]
    parts: list[RegionDerivative] = []
    for region in context.state.deferred.origin(op).regions:
        parts.append((yield reverse_region(context.state, region, [index - 1 for index in wanted], seeds)))
    moving = [position for position in range(len(wanted)) if any(part.derivatives[position] is not None for part in parts)]
    if not moving:
        return []
    for part in parts:
        builder = Builder(before=part.terminator, location=context.builder.location)
        finish_region(context.state, part, builder, moving, [part.block.arguments[wanted[position] - 1] for position in moving])
    given = [g for g in cotangents if g is not None]
    back = context.builder.create(op.name, [*op.operands, *given], regions=[part.region for part in parts])
    gradients: list[Derivative | None] = [None] * len(op.operands)
    for position, value in zip(moving, back.results):
        gradients[wanted[position]] = Derivative(value, may_cut(parts, position))
    return gradients


def may_cut(parts: Sequence[RegionDerivative], position: int) -> bool:
    """True if any branch gives zeros, or masked lanes: what lies behind the other branches is cut off."""
    found = [part.derivatives[position] for part in parts]
    return any(derivative is None or derivative.masked for derivative in found)


@forward_rule("prim.if", "prim.switch")
def branch_tangents(context: ForwardContext, op: Any, *tangents: Value | None) -> Task[list[Derivative | None]]:
    """(index, operands…, tangents…): each region yields its values and their tangents."""
    moving = [index for index in range(1, len(op.operands)) if tangents[index] is not None]
    flags = [flag.masked for flag in context.flags if flag is not None]
    parts: list[RegionDerivative] = []
    regions: Sequence[Region] = op.regions
    for region in regions:
        arguments = region.block.arguments
        order: list[int | Value] = [*range(len(arguments)), *(arguments[index - 1] for index in moving)]
        parts.append((yield forward_region(context.state, region, order, [index - 1 for index in moving], flags,
                                           context.builder.location)))
    count = len(op.results)
    seeded = [index for index in range(count) if any(part.derivatives[index] is not None for part in parts)]
    for part in parts:
        builder = Builder(before=part.terminator, location=context.builder.location)
        yields = part.terminator.operands
        found_here = [value_or_zeros(builder, part.derivatives[index], yields[index]) for index in seeded]
        part.terminator.operands = (*yields, *found_here)
    given = [t for t in tangents if t is not None]
    both = context.forward_builder.create(op.name, [*op.operands, *given], regions=[part.region for part in parts])
    context.replace_forward(both.results[:count])
    found: list[Derivative | None] = [None] * count
    for index, value in zip(seeded, both.results[count:]):
        found[index] = Derivative(value, may_cut(parts, index))
    return found
