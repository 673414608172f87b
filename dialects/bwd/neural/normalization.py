"""Adjoints of the normalisations. xh is the normalised operand, r = 1 / sqrt(variance + eps); means run over the
normalised axes.

A preserved kernel may keep the row statistics (mean, r) from the forward op; nothing here needs its result."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, check_dims, same_element, tensor_type
from gradopt.dialects.hl.neural.common import check_positive, masked_product
from gradopt.dialects.hl.neural.normalization import (
    axis_of,
    batch_norm_axes,
    batch_statistics,
    centred,
    channel_axis,
    check_eps,
    check_parameters,
    group_axes,
    grouped,
    rms_rate,
    spread,
    ungrouped,
)
from gradopt.ir.attribute_kinds import BOOLEAN, FLOAT, INTEGER, STRING, UNIT
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, optional_operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.types import Type, tensor


def check_cotangent(op: Operation) -> None:
    """Raises InvalidOperation unless dy has the type of x."""
    same_element(x=op.x, dy=op.dy)  # type: ignore[attr-defined]
    check_dims("dy", op.dy, tensor_type(op.x).dims)  # type: ignore[attr-defined]


def other_axes(rank: int, axis: int) -> tuple[int, ...]:
    """All axes but one."""
    return tuple(position for position in range(rank) if position != axis % rank)


def layer_norm_adjoint(normalised: Array, rate: Array, slope: Array, axes: tuple[int, ...], masked: bool | None) -> Array:
    """r * (s - mean(s) - xh * mean(s * xh)) for a cotangent s of xh."""
    times = masked_product(masked)
    projection = times(slope, normalised).mean(axis=axes, keepdims=True)
    return times(slope - slope.mean(axis=axes, keepdims=True) - times(projection, normalised), rate)


class NormInput(Operation):
    """Base: the gradient of a norm along one axis with respect to x."""

    __slots__ = ()
    x = operand(FLOAT_TENSOR)
    gamma = optional_operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    axis = attribute(INTEGER, default=-1)
    eps = attribute(FLOAT, default=1e-5)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        check_parameters(self, tensor_type(self.x).dims[axis_of(self)], gamma=self.gamma)
        check_cotangent(self)
        return [self.x.type]

    def slope(self, dy: Array, gamma: Array | None) -> Array:
        """dy * gamma."""
        if gamma is None:
            return widen(dy)
        return masked_product(self.masked)(widen(dy), spread(widen(gamma), dy.ndim, self.axis % dy.ndim))


class NormGamma(Operation):
    """Base: the gradient of a norm along one axis with respect to gamma."""

    __slots__ = ()
    x = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    axis = attribute(INTEGER, default=-1)
    eps = attribute(FLOAT, default=1e-5)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        axis = axis_of(self)
        check_cotangent(self)
        type = tensor_type(self.x)
        return [tensor([type.dims[axis]], type.element)]

    def reduce(self, dy: Array, normalised: Array) -> Array:
        """The sum of dy * xh over all axes but the normalised one."""
        product = masked_product(self.masked)(widen(dy), normalised)
        return product.sum(axis=other_axes(dy.ndim, self.axis)).astype(dy.dtype)


class LayerNormInputOp(NormInput):
    """dx = r * (s - mean(s) - xh * mean(s * xh)) with s = dy * gamma."""

    __slots__ = ()
    name = "bwd.layer_norm_input"

    def evaluate(self, x: Array, *rest: Array) -> Array:
        gamma, dy = rest if len(rest) == 2 else (None, rest[0])
        normalised, rate = centred(widen(x), (self.axis,), self.eps)
        return layer_norm_adjoint(normalised, rate, self.slope(dy, gamma), (self.axis,), self.masked).astype(x.dtype)


class LayerNormGammaOp(NormGamma):
    """dgamma = the sum of dy * xh over all axes but `axis`."""

    __slots__ = ()
    name = "bwd.layer_norm_gamma"

    def evaluate(self, x: Array, dy: Array) -> Array:
        return self.reduce(dy, centred(widen(x), (self.axis,), self.eps)[0])


class RmsNormInputOp(NormInput):
    """dx = r * (s - x * r^2 * mean(x * s)) with s = dy * gamma and r = 1 / sqrt(mean(x^2) + eps)."""

    __slots__ = ()
    name = "bwd.rms_norm_input"

    def evaluate(self, x: Array, *rest: Array) -> Array:
        gamma, dy = rest if len(rest) == 2 else (None, rest[0])
        times, slope, wide = masked_product(self.masked), self.slope(dy, gamma), widen(x)
        rate = rms_rate(wide, self.axis, self.eps)
        normalised = wide * rate
        projection = times(slope, normalised).mean(axis=self.axis, keepdims=True)
        return times(slope - times(projection, normalised), rate).astype(x.dtype)


class RmsNormGammaOp(NormGamma):
    """dgamma = the sum of dy * x * r over all axes but `axis`."""

    __slots__ = ()
    name = "bwd.rms_norm_gamma"

    def evaluate(self, x: Array, dy: Array) -> Array:
        wide = widen(x)
        return self.reduce(dy, wide * rms_rate(wide, self.axis, self.eps))


class RmsNormBetaOp(Operation):
    """dbeta = the sum of dy over all axes but `axis`."""

    __slots__ = ()
    name = "bwd.rms_norm_beta"
    dy = operand(FLOAT_TENSOR)
    axis = attribute(INTEGER, default=-1)
    eps = attribute(FLOAT, default=1e-5)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        from gradopt.dialects.constraints import check_axis

        check_eps(self.eps)
        type = tensor_type(self.dy)
        return [tensor([type.dims[check_axis(self.axis, type.rank)]], type.element)]

    def evaluate(self, dy: Array) -> Array:
        return widen(dy).sum(axis=other_axes(dy.ndim, self.axis)).astype(dy.dtype)


class GroupNormInputOp(Operation):
    """dx = r * (s - mean(s) - xh * mean(s * xh)) with s = dy * gamma, over each group."""

    __slots__ = ()
    name = "bwd.group_norm_input"
    x = operand(FLOAT_TENSOR)
    gamma = optional_operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    num_groups = attribute(INTEGER)
    eps = attribute(FLOAT, default=1e-5)
    layout = attribute(STRING, default="NCHW")
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        _, channel = group_axes(self)
        check_parameters(self, tensor_type(self.x).dims[channel], gamma=self.gamma)
        check_cotangent(self)
        return [self.x.type]

    def evaluate(self, x: Array, *rest: Array) -> Array:
        gamma, dy = rest if len(rest) == 2 else (None, rest[0])
        batch, channel = self.layout.index("N"), self.layout.index("C")
        slope = widen(dy)
        if gamma is not None:
            slope = masked_product(self.masked)(slope, spread(widen(gamma), x.ndim, channel))
        normalised, rate = centred(grouped(widen(x), batch, channel, self.num_groups), (2, 3), self.eps)
        dx = layer_norm_adjoint(normalised, rate, grouped(slope, batch, channel, self.num_groups), (2, 3), self.masked)
        return ungrouped(dx, x, batch, channel).astype(x.dtype)


class GroupNormGammaOp(Operation):
    """dgamma[c] = the sum of dy * xh over the batch and all positions."""

    __slots__ = ()
    name = "bwd.group_norm_gamma"
    x = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    num_groups = attribute(INTEGER)
    eps = attribute(FLOAT, default=1e-5)
    layout = attribute(STRING, default="NCHW")
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        _, channel = group_axes(self)
        check_cotangent(self)
        type = tensor_type(self.x)
        return [tensor([type.dims[channel]], type.element)]

    def evaluate(self, x: Array, dy: Array) -> Array:
        batch, channel = self.layout.index("N"), self.layout.index("C")
        normalised, _ = centred(grouped(widen(x), batch, channel, self.num_groups), (2, 3), self.eps)
        product = masked_product(self.masked)(widen(dy), ungrouped(normalised, x, batch, channel))
        return product.sum(axis=other_axes(x.ndim, channel)).astype(x.dtype)


class GroupNormBetaOp(Operation):
    """dbeta[c] = the sum of dy over the batch and all positions."""

    __slots__ = ()
    name = "bwd.group_norm_beta"
    dy = operand(FLOAT_TENSOR)
    num_groups = attribute(INTEGER)
    eps = attribute(FLOAT, default=1e-5)
    layout = attribute(STRING, default="NCHW")
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        check_eps(self.eps)
        check_positive(self, "num_groups")
        type = tensor_type(self.dy)
        return [tensor([type.dims[channel_axis(self.layout, type.rank)]], type.element)]

    def evaluate(self, dy: Array) -> Array:
        return widen(dy).sum(axis=other_axes(dy.ndim, self.layout.index("C"))).astype(dy.dtype)


class BatchNormBackward(Operation):
    """Base of the two adjoints of a batch norm."""

    __slots__ = ()
    training = attribute(BOOLEAN, default=False)
    momentum = attribute(FLOAT, default=0.1)
    eps = attribute(FLOAT, default=1e-5)
    layout = attribute(STRING, optional=True)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def normalise(self, x: Array, mean: Array, var: Array) -> tuple[Array, Array]:
        """(xh, r) from the batch's statistics in training, else from the running ones."""
        import numpy as np

        channel, axes = batch_norm_axes(self)
        wide = widen(x)
        mean, var = batch_statistics(wide, axes)[:2] if self.training else (widen(mean), widen(var))
        rate = 1 / np.sqrt(var + wide.dtype.type(self.eps))
        rate = spread(rate, x.ndim, channel)
        return (wide - spread(mean, x.ndim, channel)) * rate, rate


class BatchNormInputOp(BatchNormBackward):
    """dx of y: r * (s - mean(s) - xh * mean(s * xh)) with s = dy * gamma in training, s * r otherwise.

    Operands (x, gamma, running_mean, running_var, dy); the running statistics are read only where `training` is false.
    """

    __slots__ = ()
    name = "bwd.batch_norm_input"
    x = operand(FLOAT_TENSOR)
    gamma = operand(FLOAT_TENSOR)
    running_mean = operand(FLOAT_TENSOR)
    running_var = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)

    def infer(self) -> list[Type]:
        channel, _ = batch_norm_axes(self)
        check_parameters(self, tensor_type(self.x).dims[channel], gamma=self.gamma, running_mean=self.running_mean,
                         running_var=self.running_var)
        check_cotangent(self)
        return [self.x.type]

    def evaluate(self, x: Array, gamma: Array, running_mean: Array, running_var: Array, dy: Array) -> Array:
        channel, axes = batch_norm_axes(self)
        times = masked_product(self.masked)
        normalised, rate = self.normalise(x, running_mean, running_var)
        slope = times(widen(dy), spread(widen(gamma), x.ndim, channel))
        if not self.training:
            return times(slope, rate).astype(x.dtype)
        return layer_norm_adjoint(normalised, rate, slope, axes, self.masked).astype(x.dtype)


class BatchNormGammaOp(BatchNormBackward):
    """dgamma[c] = the sum of dy * xh over the batch and all positions. Operands (x, running_mean, running_var, dy)."""

    __slots__ = ()
    name = "bwd.batch_norm_gamma"
    x = operand(FLOAT_TENSOR)
    running_mean = operand(FLOAT_TENSOR)
    running_var = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)

    def infer(self) -> list[Type]:
        channel, _ = batch_norm_axes(self)
        type = tensor_type(self.x)
        check_parameters(self, type.dims[channel], running_mean=self.running_mean, running_var=self.running_var)
        check_cotangent(self)
        return [tensor([type.dims[channel]], type.element)]

    def evaluate(self, x: Array, running_mean: Array, running_var: Array, dy: Array) -> Array:
        _, axes = batch_norm_axes(self)
        normalised, _ = self.normalise(x, running_mean, running_var)
        return masked_product(self.masked)(widen(dy), normalised).sum(axis=axes).astype(x.dtype)


class BatchNormStatisticsOp(Operation):
    """dx of the new running statistics of a batch norm in training: for each channel of `count` values

    dx = momentum * (dmean / count + 2 * dvar * (x - mean) / max(count - 1, 1)). dmean and dvar are [C], the cotangents
    of new_mean and new_var.
    """

    __slots__ = ()
    name = "bwd.batch_norm_statistics"
    x = operand(FLOAT_TENSOR)
    dmean = operand(FLOAT_TENSOR)
    dvar = operand(FLOAT_TENSOR)
    momentum = attribute(FLOAT, default=0.1)
    layout = attribute(STRING, optional=True)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        if not 0 <= self.momentum <= 1:
            raise InvalidOperation(f"attribute 'momentum' is {self.momentum}, expected a value in [0, 1]")
        check_parameters(self, type.dims[channel_axis(self.layout, type.rank)], dmean=self.dmean, dvar=self.dvar)
        return [type]

    def evaluate(self, x: Array, dmean: Array, dvar: Array) -> Array:
        channel = channel_axis(self.layout, x.ndim)
        axes, times = other_axes(x.ndim, channel), masked_product(self.masked)
        wide = widen(x)
        mean, _, count = batch_statistics(wide, axes)
        offset = wide - spread(mean, x.ndim, channel)
        direct = spread(widen(dmean), x.ndim, channel) / max(count, 1)
        spreading = times(spread(widen(dvar), x.ndim, channel), 2 * offset / max(count - 1, 1))
        return (wide.dtype.type(self.momentum) * (direct + spreading)).astype(x.dtype)
