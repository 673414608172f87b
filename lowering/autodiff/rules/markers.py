"""Reverse rules of the markers of `hl`, which stay `hl` in the backward pass."""

from __future__ import annotations

from typing import Any

from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import ForwardContext, ReverseContext
from gradopt.lowering.autodiff.helpers import zeros_like
from gradopt.lowering.autodiff.registry import Gradients, Tangents, forward_rule, reverse_rule, zero_derivative

zero_derivative("hl.stop_gradient")


@reverse_rule("hl.checkpoint_begin", "hl.checkpoint_end", "hl.contiguous", "hl.copy")
def passes(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """g."""
    return g


@forward_rule("hl.checkpoint_begin", "hl.checkpoint_end")
def passes_tangent(context: ForwardContext, op: Any, t: Value) -> Tangents:
    """t: what is recomputed is the value's own stage."""
    return t


@reverse_rule("hl.contiguous_backward")
def contiguous_backward(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """g in a buffer of its own."""
    return context.builder.hl.contiguous(g)


@reverse_rule("hl.shard")
def shard(context: ReverseContext, op: Any, *cotangents: Value | None) -> Gradients:
    """unshard; zeros for the parts that nobody reads."""
    b = context.builder
    parts = [zeros_like(b, part) if g is None else g for part, g in zip(op.results, cotangents)]
    masks = any(g is None for g in cotangents)
    value = b.hl.unshard(*parts, axis=op.axis)
    return context.keep(value) if not masks else context.cut(value)


@reverse_rule("hl.unshard")
def unshard(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """The parts of g: with equal sizes by shard, else by slices as for concat."""
    from gradopt.lowering.autodiff.rules.prim_shape import concat_parts

    return concat_parts(context, op.operands, op.axis % len(op.results[0].type.shape), g)
