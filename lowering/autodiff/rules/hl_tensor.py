"""Reverse rules of `hl` tensor ops that have an adjoint of their own in `bwd`, and of the solvers, whose adjoint is a solver.

All other `hl` tensor ops are decomposed in place and differentiated as `prim`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.bwd.activations import CUTS
from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import size_operands
from gradopt.lowering.autodiff.registry import Gradients, ReverseContext, reverse_rule, zero_derivative

# the derivative of a step function is zero everywhere; decomposed, a division by zero would leak one
zero_derivative("hl.floor_divide", "hl.sign", "hl.floor", "hl.ceil", "hl.trunc", "hl.zeros_like", "hl.ones_like")

# hl op -> the attributes that bwd.activation takes too
ACTIVATIONS: dict[str, Sequence[str]] = {
    "sigmoid": (), "log_sigmoid": (), "tanh": (), "silu": (), "mish": (), "softplus": ("beta", "threshold"), "elu": ("alpha",),
    "celu": ("alpha",), "selu": (), "leaky_relu": ("alpha",), "relu6": (), "hard_sigmoid": (), "hard_tanh": ("min", "max"),
    "hard_swish": ()}


@reverse_rule("hl.relu", masks=True)
def relu(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dy where x > 0."""
    return context.builder.bwd.relu(op.x, dy, masked=context.masked)


@reverse_rule("hl.gelu", *[f"hl.{name}" for name in ACTIVATIONS], masks=True)
def activation(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dy times the derivative at x; a hard one cuts lanes off."""
    name = op.name.removeprefix("hl.")
    if name == "gelu":
        kind, fields = ("gelu" if op.approximate == "none" else "gelu_tanh"), {}
    else:
        kind, fields = name, {field: getattr(op, field) for field in ACTIVATIONS[name]}
    value = context.builder.bwd.activation(op.x, dy, kind=kind, masked=context.masked, **fields)
    return value if kind in CUTS else context.keep(value)


@reverse_rule("hl.softmax")
def softmax(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """y * (dy - sum(dy * y))."""
    return context.builder.bwd.softmax(op.results[0], dy, axis=op.axis, masked=context.masked)


@reverse_rule("hl.log_softmax")
def log_softmax(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dy - e**y * sum(dy)."""
    return context.builder.bwd.log_softmax(op.results[0], dy, axis=op.axis, masked=context.masked)


def placed(context: ReverseContext, name: str, x: Value, operands: Sequence[Value], **fields: Any) -> Value:
    """A `bwd` op whose result has x's type, with x's unknown sizes as operands."""
    b = context.builder
    return b.create(name, [*operands, *size_operands(b, x)], [x.type], masked=context.masked, **fields).results[0]


@reverse_rule("hl.cumsum", masks=True)
def cumsum(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """The running sum from the other end; an exclusive one never reads its last element."""
    value = placed(context, "bwd.cumsum", op.x, [dy], axis=op.axis, exclusive=op.exclusive, reverse=op.reverse)
    return value if op.exclusive else context.keep(value)


@reverse_rule("hl.cumprod", masks=True)
def cumprod(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """The product of the others, weighted by dy, without a division."""
    value = context.builder.bwd.cumprod(op.x, dy, axis=op.axis, exclusive=op.exclusive, reverse=op.reverse, masked=context.masked)
    return value if op.exclusive else context.keep(value)


@reverse_rule("hl.take", masks=True)
def take(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dy added at the indices."""
    return placed(context, "bwd.take", op.x, [dy, op.indices], axis=op.axis, mode=op.mode)


@reverse_rule("hl.take_along_axis", masks=True)
def take_along_axis(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dy added at the indices along the axis."""
    return placed(context, "bwd.put_along_axis", op.x, [dy, op.indices], axis=op.axis, mode=op.mode)


@reverse_rule("hl.indexing_one_hot", masks=True)
def indexing_one_hot(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dy at the index of each row."""
    return placed(context, "bwd.indexing_one_hot", op.x, [dy, op.index], axis=op.axis)


@reverse_rule("hl.take_multi", masks=True)
def take_multi(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dy added at the index tuples."""
    return placed(context, "bwd.take_multi", op.x, [dy, *op.indices], axes=op.axes, mode=op.mode)


def transposed(b: Builder, matrix: Value) -> Value:
    """The last two axes swapped."""
    rank = tensor_type(matrix).rank
    return b.hl.permute_dims(matrix, axes=[*range(rank - 2), rank - 1, rank - 2])


@reverse_rule("hl.solve")
def solve(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """db = a**-T g and da = -db x**T."""
    b, x = context.builder, op.results[0]
    right = b.hl.solve(transposed(b, op.a), g)

    def left() -> Value:
        if tensor_type(x).rank == tensor_type(op.a).rank:
            return b.prim.neg(b.hl.matmul(right, x, transpose_b=True))
        column, row = b.hl.expand_dims(right, axes=[-1]), b.hl.expand_dims(x, axes=[-2])
        return b.prim.neg(b.hl.matmul(column, row))

    return (left, right)


@reverse_rule("hl.inverse")
def inverse(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """da = -y**T g y**T with y the inverse."""
    b, y = context.builder, op.results[0]
    return b.prim.neg(b.hl.matmul(b.hl.matmul(y, g, transpose_a=True), y, transpose_b=True))
