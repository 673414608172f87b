"""Decompositions of the losses. Labels are checked by `prim.check`, in the loss and in its adjoint (one of them may be
dead)."""

from __future__ import annotations

import math
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.neural.loss import class_axis, label_message
from gradopt.ir.builder import Builder
from gradopt.ir.types import I64
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import (
    cast_to,
    expand_axes,
    expand_like,
    full_like,
    iota_like,
    reduce_sum,
    size_value,
    zeros_like,
)
from gradopt.lowering.decompose.neural import absolute_below, compare, count_like, product_of, select_constant, wide, zero_where
from gradopt.lowering.decompose.registry import decomposition


def check_labels(b: Builder, op: Any, labels: Value, values: Value, axis: int, kept: Value | None = None) -> None:
    """A run-time error for a label outside [0, classes) (where `kept`)."""
    classes = tensor_type(values).dims[axis]
    bound = full_like(b, labels, classes) if isinstance(classes, int) else expand_like(b, size_value(b, values, axis), labels)
    valid = b.prim.and_(compare(b, labels, "ge", 0), compare(b, labels, "lt", bound))
    if kept is not None:
        valid = b.prim.or_(valid, b.prim.not_(kept))
    ignored = None if kept is None else op.ignore_index
    b.create("prim.check", [valid, labels], message=label_message(op.name, classes, ignored))


def hits(b: Builder, labels: Value, values: Value, axis: int) -> Value:
    """i1 in the shape of `values`: whether the class along `axis` is the label."""
    return b.prim.cmp(iota_like(b, values, axis), expand_axes(b, labels, values, [axis]), predicate="eq")


def shifted_by_maximum(b: Builder, x: Value, axis: int) -> Value:
    """x minus the maximum along an axis where that is finite; the maximum counts as a constant."""
    largest = b.prim.reduce(x, kind="max", axes=[axis])
    finite = zero_where(b, absolute_below(b, largest, math.inf), largest)
    # a NaN maximum is not subtracted; the row holds the NaN itself
    return b.prim.sub(x, expand_axes(b, b.prim.stop_gradient(finite), x, [axis]))


@decomposition("hl.softmax_cross_entropy")
def softmax_cross_entropy(b: Builder, op: Any) -> Value:
    """log(sum(exp(x - max))) - (x - max)[label]."""
    labels, x = cast_to(b, op.labels, I64), wide(b, op.logits)
    check_labels(b, op, labels, x, 1)
    shifted = shifted_by_maximum(b, x, 1)
    picked = reduce_sum(b, zero_where(b, hits(b, labels, x, 1), shifted), [1])
    loss = b.prim.sub(b.prim.log(reduce_sum(b, b.prim.exp(shifted), [1])), picked)
    return cast_to(b, loss, tensor_type(op.logits).element)


@decomposition("bwd.softmax_cross_entropy")
def softmax_cross_entropy_backward(b: Builder, op: Any) -> Value:
    """(softmax - onehot) * dloss."""
    labels, x, dloss = cast_to(b, op.labels, I64), wide(b, op.logits), wide(b, op.dloss)
    check_labels(b, op, labels, x, 1)
    exponentials = b.prim.exp(shifted_by_maximum(b, x, 1))
    softmax = b.prim.div(exponentials, expand_axes(b, reduce_sum(b, exponentials, [1]), x, [1]))
    onehot = zero_where(b, hits(b, labels, x, 1), full_like(b, x, 1))
    slope = b.prim.sub(softmax, onehot)
    return cast_to(b, product_of(b, op.masked)(expand_axes(b, dloss, x, [1]), slope), tensor_type(op.logits).element)


@decomposition("hl.cross_entropy_with_logits")
def cross_entropy_with_logits(b: Builder, op: Any) -> Value:
    """-sum(x * y) / N."""
    x, y = wide(b, op.x), wide(b, op.y)
    rank = tensor_type(x).rank
    total = b.prim.neg(reduce_sum(b, b.prim.mul(x, y), range(rank)))
    if rank > 1:
        total = b.prim.div(total, count_like(b, x, [0], total))
    return cast_to(b, total, tensor_type(op.x).element)


class Targets:
    """What nll_loss and its adjoints share: the class axis, kept targets, safe labels, and the weight of each
    target."""

    def __init__(self, b: Builder, op: Any) -> None:
        self.b, self.pred = b, wide(b, op.pred)
        self.axis = class_axis(tensor_type(self.pred).rank)
        targets = cast_to(b, op.targets, I64)
        self.kept = compare(b, targets, "ne", op.ignore_index)
        check_labels(b, op, targets, self.pred, self.axis, self.kept)
        self.labels = zero_where(b, self.kept, targets)
        self.hits = hits(b, self.labels, self.pred, self.axis)
        ones = full_like(b, self.labels, 1, tensor_type(self.pred).element)
        weights = ones if op.weights is None else b.prim.gather(wide(b, op.weights), self.labels, axis=0)
        self.weight = zero_where(b, self.kept, weights)
        self.all_axes = list(range(tensor_type(self.labels).rank))
        self.mean = op.reduction == "mean"
        self.reduced = op.reduction != "none"

    def picked(self) -> Value:
        """pred at each target's class."""
        return reduce_sum(self.b, zero_where(self.b, self.hits, self.pred), [self.axis])

    def divisor(self) -> tuple[Value, Value]:
        """(whether the kept weights sum to 0, that sum or 1)."""
        total = reduce_sum(self.b, self.weight, self.all_axes)
        empty = compare(self.b, total, "eq", 0)
        return empty, select_constant(self.b, empty, 1, total)

    def spread(self, scalar: Value) -> Value:
        """A rank-0 value for every target."""
        return expand_like(self.b, scalar, self.labels)


@decomposition("hl.nll_loss")
def nll_loss(b: Builder, op: Any) -> Value:
    """-weight * pred at the target, summed or averaged by weight."""
    t = Targets(b, op)
    loss = zero_where(b, t.kept, b.prim.neg(b.prim.mul(t.weight, t.picked())))
    if t.reduced:
        loss = reduce_sum(b, loss, t.all_axes)
    if t.mean:
        empty, divisor = t.divisor()
        loss = select_constant(b, empty, 0, b.prim.div(loss, divisor))
    return cast_to(b, loss, tensor_type(op.pred).element)


@decomposition("bwd.nll_loss")
def nll_loss_backward(b: Builder, op: Any) -> Value:
    """-weight * dy at the target."""
    t, dy = Targets(b, op), wide(b, op.dy)
    weight = t.weight
    if t.mean:
        empty, divisor = t.divisor()
        weight = b.prim.div(weight, t.spread(divisor))
        weight = b.prim.select(t.spread(empty), zeros_like(b, weight), weight)
    value = b.prim.neg(product_of(b, op.masked)(t.spread(dy) if t.reduced else dy, weight))
    value = expand_axes(b, zero_where(b, t.kept, value), t.pred, [t.axis])
    return cast_to(b, zero_where(b, t.hits, value), tensor_type(op.pred).element)


@decomposition("bwd.nll_loss_weights")
def nll_loss_weights_backward(b: Builder, op: Any) -> Value:
    """-pred * dy summed by class; for the mean -(pred + loss) * dy / W."""
    t, dy = Targets(b, op), wide(b, op.dy)
    slope = b.prim.neg(zero_where(b, t.kept, t.picked()))
    if t.mean:
        empty, divisor = t.divisor()
        loss = b.prim.div(reduce_sum(b, b.prim.mul(t.weight, slope), t.all_axes), divisor)
        slope = b.prim.div(b.prim.sub(slope, t.spread(loss)), t.spread(divisor))
        slope = b.prim.select(t.spread(empty), zeros_like(b, slope), slope)
    value = zero_where(b, t.kept, product_of(b, op.masked)(t.spread(dy) if t.reduced else dy, slope))
    return cast_to(b, b.prim.scatter(zeros_like(b, wide(b, op.weights)), t.labels, value, axis=0, kind="add"),
                   tensor_type(op.pred).element)
