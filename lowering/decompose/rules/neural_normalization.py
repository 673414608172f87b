"""Decompositions of the normalisations and their adjoints. xh is the normalised operand, r = 1 / sqrt(variance +
eps)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.neural.common import invert
from gradopt.dialects.hl.neural.normalization import batch_norm_axes, channel_axis
from gradopt.ir.builder import Builder
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import cast_to, expand_axes, full_like, reduce_sum
from gradopt.lowering.decompose.extents import along, extents_of, permute, reshape, static
from gradopt.lowering.decompose.neural import count_like, mean, product_of, wide
from gradopt.lowering.decompose.registry import decomposition

Product = Callable[[Value, Value], Value]


def others(rank: int, axis: int) -> list[int]:
    """All axes but one."""
    return [position for position in range(rank) if position != axis % rank]


def lying(b: Builder, vector: Value, like: Value, axis: int) -> Value:
    """A vector as an array like another, along an axis."""
    return along(b, wide(b, vector), extents_of(b, like), axis % tensor_type(like).rank)


def rate_of(b: Builder, variance: Value, eps: float) -> Value:
    """1 / sqrt(variance + eps)."""
    return b.prim.rsqrt(b.prim.add(variance, full_like(b, variance, eps)))


def normalise(b: Builder, x: Value, axes: Sequence[int], eps: float, centre: bool = True) -> tuple[Value, Value]:
    """(xh, r) over axes, both in x's shape; without `centre` the root mean square norm."""
    offset = b.prim.sub(x, mean(b, x, axes)) if centre else x
    rate = rate_of(b, mean(b, b.prim.mul(offset, offset), axes), eps)
    return b.prim.mul(offset, rate), rate


def adjoint(b: Builder, normalised: Value, rate: Value, slope: Value, axes: Sequence[int], times: Product,
            centre: bool = True) -> Value:
    """r * (s - mean(s) - xh * mean(s * xh)); without `centre` the middle term is left out."""
    inner = b.prim.sub(slope, mean(b, slope, axes)) if centre else slope
    projection = mean(b, times(slope, normalised), axes)
    return times(b.prim.sub(inner, times(projection, normalised)), rate)


def scaled_and_shifted(b: Builder, normalised: Value, gamma: Value | None, beta: Value | None, axis: int) -> Value:
    """xh * gamma + beta."""
    if gamma is not None:
        normalised = b.prim.mul(normalised, lying(b, gamma, normalised, axis))
    return normalised if beta is None else b.prim.add(normalised, lying(b, beta, normalised, axis))


def like_operand(b: Builder, op: Any, value: Value) -> Value:
    """A result in the element type of the first operand."""
    return cast_to(b, value, tensor_type(op.operands[0]).element)


@decomposition("hl.layer_norm", "hl.rms_norm")
def axis_norm(b: Builder, op: Any) -> Value:
    """xh * gamma + beta."""
    x = wide(b, op.x)
    axis = op.axis % tensor_type(x).rank
    normalised, _ = normalise(b, x, [axis], op.eps, centre=op.name == "hl.layer_norm")
    return like_operand(b, op, scaled_and_shifted(b, normalised, op.gamma, op.beta, axis))


@decomposition("bwd.layer_norm_input", "bwd.rms_norm_input")
def axis_norm_input(b: Builder, op: Any) -> Value:
    """r * (s - mean(s) - xh * mean(s * xh)), without mean(s) for the root mean square norm."""
    x, slope, times = wide(b, op.x), wide(b, op.dy), product_of(b, op.masked)
    axis, centre = op.axis % tensor_type(x).rank, op.name == "bwd.layer_norm_input"
    if op.gamma is not None:
        slope = times(slope, lying(b, op.gamma, x, axis))
    normalised, rate = normalise(b, x, [axis], op.eps, centre)
    return like_operand(b, op, adjoint(b, normalised, rate, slope, [axis], times, centre))


@decomposition("bwd.layer_norm_gamma", "bwd.rms_norm_gamma")
def axis_norm_gamma(b: Builder, op: Any) -> Value:
    """sum of dy * xh."""
    x = wide(b, op.x)
    rank = tensor_type(x).rank
    normalised, _ = normalise(b, x, [op.axis % rank], op.eps, centre=op.name == "bwd.layer_norm_gamma")
    return like_operand(b, op, reduce_sum(b, product_of(b, op.masked)(wide(b, op.dy), normalised), others(rank, op.axis)))


@decomposition("bwd.rms_norm_beta")
def rms_norm_beta(b: Builder, op: Any) -> Value:
    """sum of dy."""
    return reduce_sum(b, op.dy, others(tensor_type(op.dy).rank, op.axis))


class Groups:
    """x [N, C, …] in any layout as [N, groups, C / groups, positions], and back."""

    def __init__(self, b: Builder, op: Any) -> None:
        self.b, rank = b, tensor_type(op.x).rank
        batch, self.channel = op.layout.index("N"), op.layout.index("C")
        self.order = [batch, self.channel, *(axis for axis in range(rank) if axis not in (batch, self.channel))]
        extents = extents_of(b, op.x)
        self.moved = [extents[axis] for axis in self.order]
        positions = static(b, 1)[0]
        for extent in self.moved[2:]:
            positions = extent if positions.size == 1 else positions * extent
        groups = static(b, op.num_groups)[0]
        self.split = [self.moved[0], groups, self.moved[1] // op.num_groups, positions]

    def into(self, x: Value) -> Value:
        """x by groups."""
        return reshape(self.b, permute(self.b, x, self.order), self.split)

    def back(self, x: Value) -> Value:
        """The inverse."""
        return permute(self.b, reshape(self.b, x, self.moved), invert(self.order))


@decomposition("hl.group_norm")
def group_norm(b: Builder, op: Any) -> Value:
    """xh * gamma + beta over each group."""
    groups = Groups(b, op)
    normalised, _ = normalise(b, groups.into(wide(b, op.x)), [2, 3], op.eps)
    return like_operand(b, op, scaled_and_shifted(b, groups.back(normalised), op.gamma, op.beta, groups.channel))


@decomposition("bwd.group_norm_input")
def group_norm_input(b: Builder, op: Any) -> Value:
    """r * (s - mean(s) - xh * mean(s * xh)) over each group."""
    groups, times, slope = Groups(b, op), product_of(b, op.masked), wide(b, op.dy)
    if op.gamma is not None:
        slope = times(slope, lying(b, op.gamma, slope, groups.channel))
    normalised, rate = normalise(b, groups.into(wide(b, op.x)), [2, 3], op.eps)
    return like_operand(b, op, groups.back(adjoint(b, normalised, rate, groups.into(slope), [2, 3], times)))


@decomposition("bwd.group_norm_gamma")
def group_norm_gamma(b: Builder, op: Any) -> Value:
    """sum of dy * xh over the batch and all positions."""
    groups = Groups(b, op)
    normalised, _ = normalise(b, groups.into(wide(b, op.x)), [2, 3], op.eps)
    product = product_of(b, op.masked)(wide(b, op.dy), groups.back(normalised))
    return like_operand(b, op, reduce_sum(b, product, others(tensor_type(op.x).rank, groups.channel)))


@decomposition("bwd.group_norm_beta")
def group_norm_beta(b: Builder, op: Any) -> Value:
    """sum of dy over the batch and all positions."""
    return reduce_sum(b, op.dy, others(tensor_type(op.dy).rank, op.layout.index("C")))


def channel_statistics(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """(mean, biased variance, x - mean) of each channel; the first two are vectors."""
    centre = reduce_sum(b, x, axes)
    centre = b.prim.div(centre, count_like(b, x, axes, centre))
    offset = b.prim.sub(x, expand_axes(b, centre, x, axes))
    spread = reduce_sum(b, b.prim.mul(offset, offset), axes)
    return centre, b.prim.div(spread, count_like(b, x, axes, spread)), offset


def bessel(b: Builder, x: Value, axes: Sequence[int], like: Value) -> Value:
    """max(count - 1, 1) in the shape of `like`."""
    one = full_like(b, like, 1)
    return b.prim.max(b.prim.sub(count_like(b, x, axes, like), one), one)


@decomposition("hl.batch_norm")
def batch_norm(b: Builder, op: Any) -> list[Value]:
    """y and the new running statistics."""
    channel, axes = batch_norm_axes(op)
    x, mean_, variance = wide(b, op.x), wide(b, op.running_mean), wide(b, op.running_var)
    new_mean, new_var = mean_, variance
    if op.training:
        batch_mean, batch_var, offset = channel_statistics(b, x, axes)
        count = count_like(b, x, axes, batch_var)
        unbiased = b.prim.div(b.prim.mul(batch_var, count), bessel(b, x, axes, batch_var))
        kept, taken = full_like(b, mean_, 1 - op.momentum), full_like(b, mean_, op.momentum)
        new_mean = b.prim.add(b.prim.mul(kept, mean_), b.prim.mul(taken, batch_mean))
        new_var = b.prim.add(b.prim.mul(kept, variance), b.prim.mul(taken, unbiased))
        variance = batch_var
    else:
        offset = b.prim.sub(x, lying(b, mean_, x, channel))
    rate = b.prim.mul(rate_of(b, variance, op.eps), wide(b, op.gamma))
    y = b.prim.add(b.prim.mul(offset, lying(b, rate, x, channel)), lying(b, op.beta, x, channel))
    return [like_operand(b, op, value) for value in (y, new_mean, new_var)]


def batch_normalise(b: Builder, op: Any, x: Value) -> tuple[Value, Value]:
    """(xh, r) in x's shape."""
    channel, axes = batch_norm_axes(op)
    if op.training:
        return normalise(b, x, axes, op.eps)
    rate = lying(b, rate_of(b, wide(b, op.running_var), op.eps), x, channel)
    return b.prim.mul(b.prim.sub(x, lying(b, op.running_mean, x, channel)), rate), rate


@decomposition("bwd.batch_norm_input")
def batch_norm_input(b: Builder, op: Any) -> Value:
    """The adjoint of a norm in training, dy * gamma * r otherwise."""
    channel, axes = batch_norm_axes(op)
    x, times = wide(b, op.x), product_of(b, op.masked)
    slope = times(wide(b, op.dy), lying(b, op.gamma, x, channel))
    normalised, rate = batch_normalise(b, op, x)
    return like_operand(b, op, adjoint(b, normalised, rate, slope, axes, times) if op.training else times(slope, rate))


@decomposition("bwd.batch_norm_gamma")
def batch_norm_gamma(b: Builder, op: Any) -> Value:
    """sum of dy * xh over the batch and all positions."""
    normalised, _ = batch_normalise(b, op, wide(b, op.x))
    product = product_of(b, op.masked)(wide(b, op.dy), normalised)
    return like_operand(b, op, reduce_sum(b, product, batch_norm_axes(op)[1]))


@decomposition("bwd.batch_norm_statistics")
def batch_norm_statistics(b: Builder, op: Any) -> Value:
    """momentum * (dmean / count + 2 * dvar * (x - mean) / max(count - 1, 1))."""
    x, times = wide(b, op.x), product_of(b, op.masked)
    channel = channel_axis(op.layout, tensor_type(x).rank)
    axes = others(tensor_type(x).rank, channel)
    _, _, offset = channel_statistics(b, x, axes)
    dmean, dvar = wide(b, op.dmean), wide(b, op.dvar)
    direct = b.prim.div(b.prim.mul(dmean, full_like(b, dmean, op.momentum)), count_like(b, x, axes, dmean))
    factor = b.prim.div(b.prim.mul(dvar, full_like(b, dvar, 2 * op.momentum)), bessel(b, x, axes, dvar))
    spread = times(lying(b, factor, x, channel), offset)
    return like_operand(b, op, b.prim.add(lying(b, direct, x, channel), spread))
