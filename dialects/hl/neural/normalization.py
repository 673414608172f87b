"""Normalisations: layer, root mean square, group and batch. 16-bit floats compute in f32 and round once."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, check_axis, check_dims, same_element, tensor_type
from gradopt.dialects.hl.neural.common import check_positive
from gradopt.ir.attribute_kinds import BOOLEAN, FLOAT, INTEGER, STRING
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, optional_operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size
from gradopt.ir.types import Type
from gradopt.ir.values import Value


def check_eps(eps: float) -> None:
    """Raises InvalidOperation for a negative or NaN eps."""
    if not eps >= 0:
        raise InvalidOperation(f"attribute 'eps' is {eps}, expected no negative value")


def spread(vector: Array, rank: int, axis: int) -> Array:
    """A vector as an array of `rank` axes that lies along `axis`."""
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)


def check_parameters(op: Operation, size: Size, **parameters: Value | None) -> None:
    """Raises InvalidOperation unless each parameter that is given is a vector of `size` of x's element type."""
    for name, value in parameters.items():
        if value is not None:
            same_element(x=op.x, **{name: value})  # type: ignore[attr-defined]
            check_dims(name, value, [size])


def axis_of(op: Operation) -> int:
    """The normalised axis as one >= 0. Raises InvalidOperation (also for a bad eps)."""
    check_eps(op.eps)  # type: ignore[attr-defined]
    return check_axis(op.axis, tensor_type(op.x).rank)  # type: ignore[attr-defined]


def centred(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array]:
    """((x - mean) / sqrt(variance + eps), 1 / sqrt(variance + eps)) over `axes`, with the biased variance."""
    import numpy as np

    offset = x - x.mean(axis=axes, keepdims=True)
    rate = 1 / np.sqrt((offset * offset).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
    return offset * rate, rate


class AxisNorm(Operation):
    """Base of the norms along one axis: x, and gamma and beta of that axis's size."""

    __slots__ = ()
    x = operand(FLOAT_TENSOR)
    gamma = optional_operand(FLOAT_TENSOR)
    beta = optional_operand(FLOAT_TENSOR)
    axis = attribute(INTEGER, default=-1)
    eps = attribute(FLOAT, default=1e-5)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        check_parameters(self, tensor_type(self.x).dims[axis_of(self)], gamma=self.gamma, beta=self.beta)
        return [self.x.type]

    def apply(self, normalised: Array, gamma: Array | None, beta: Array | None) -> Array:
        """normalised * gamma + beta along the axis."""
        axis = self.axis % normalised.ndim
        if gamma is not None:
            normalised = normalised * spread(widen(gamma), normalised.ndim, axis)
        return normalised if beta is None else normalised + spread(widen(beta), normalised.ndim, axis)


class LayerNormOp(AxisNorm):
    """y = (x - mean) / sqrt(variance + eps) * gamma + beta over the one axis `axis` (Ba, Kiros, Hinton 2016; biased
    variance).

    gamma and beta are vectors of that axis's size; each may be left out (beta only with gamma). Adjoints:
    `bwd.layer_norm_input`, `bwd.layer_norm_gamma`; dbeta is the sum of dy over the other axes.
    """

    __slots__ = ()
    name = "hl.layer_norm"

    def evaluate(self, x: Array, gamma: Array | None = None, beta: Array | None = None) -> Array:
        normalised, _ = centred(widen(x), (self.axis,), self.eps)
        return self.apply(normalised, gamma, beta).astype(x.dtype)


class RmsNormOp(AxisNorm):
    """y = x / sqrt(mean(x^2) + eps) * gamma + beta over the one axis `axis` (Zhang, Sennrich 2019).

    gamma and beta are vectors of that axis's size; each may be left out (beta only with gamma). Adjoints:
    `bwd.rms_norm_input`, `bwd.rms_norm_gamma`, `bwd.rms_norm_beta`.
    """

    __slots__ = ()
    name = "hl.rms_norm"

    def evaluate(self, x: Array, gamma: Array | None = None, beta: Array | None = None) -> Array:
        wide = widen(x)
        return self.apply(wide * rms_rate(wide, self.axis, self.eps), gamma, beta).astype(x.dtype)


def rms_rate(x: Array, axis: int, eps: float) -> Array:
    """1 / sqrt(mean(x^2) + eps), the axis kept."""
    import numpy as np

    return 1 / np.sqrt((x * x).mean(axis=axis, keepdims=True) + x.dtype.type(eps))


def channel_axis(layout: str | None, rank: int, needs_batch: bool = True) -> int:
    """Where the channels lie: at the letter C of the layout, at axis 1 without a layout. Raises InvalidOperation."""
    if rank < 2:
        raise InvalidOperation(f"operand 'x' has rank {rank}, expected at least 2: a batch and channels")
    if layout is None:
        return 1
    if len(layout) != rank:
        raise InvalidOperation(f'attribute \'layout\' is "{layout}", expected {rank} letters for an operand of rank {rank}')
    if layout.count("C") != 1 or (needs_batch and layout.count("N") != 1) or len(set(layout)) != rank:
        raise InvalidOperation(f'attribute \'layout\' is "{layout}", expected different letters with one N and one C')
    return layout.index("C")


def group_axes(op: Operation) -> tuple[int, int]:
    """(batch axis, channel axis) of a group norm. Raises InvalidOperation."""
    type = tensor_type(op.x)  # type: ignore[attr-defined]
    layout: str = op.layout  # type: ignore[attr-defined]
    check_eps(op.eps)  # type: ignore[attr-defined]
    channel = channel_axis(layout, type.rank)
    groups: int = op.num_groups  # type: ignore[attr-defined]
    check_positive(op, "num_groups")
    size = type.dims[channel]
    if isinstance(size, int) and size % groups:
        raise InvalidOperation(f"has {size} channels, expected a multiple of num_groups ({groups})")
    return layout.index("N"), channel


def grouped(x: Array, batch: int, channel: int, groups: int) -> Array:
    """x as [N, groups, channels a group, positions]."""
    import numpy as np

    rest = [axis for axis in range(x.ndim) if axis not in (batch, channel)]
    positions = int(np.prod([x.shape[axis] for axis in rest], dtype=np.int64))
    return x.transpose(batch, channel, *rest).reshape(x.shape[batch], groups, x.shape[channel] // groups, positions)


def ungrouped(values: Array, like: Array, batch: int, channel: int) -> Array:
    """The inverse of `grouped`, for an array shaped like `like`."""
    import numpy as np

    order = [batch, channel, *(axis for axis in range(like.ndim) if axis not in (batch, channel))]
    return values.reshape([like.shape[axis] for axis in order]).transpose(np.argsort(order))


class GroupNormOp(Operation):
    """y = (x - mean) / sqrt(variance + eps) * gamma + beta over each group of C / num_groups channels and all positions
    (Wu, He 2018).

    x has a batch and channels where `layout` says ("NCHW", "NHWC", "NCW", …); gamma and beta are [C] and may be left
    out. Adjoints: `bwd.group_norm_input`, `bwd.group_norm_gamma`, `bwd.group_norm_beta`.
    """

    __slots__ = ()
    name = "hl.group_norm"
    x = operand(FLOAT_TENSOR)
    gamma = optional_operand(FLOAT_TENSOR)
    beta = optional_operand(FLOAT_TENSOR)
    num_groups = attribute(INTEGER)
    eps = attribute(FLOAT, default=1e-5)
    layout = attribute(STRING, default="NCHW")
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        _, channel = group_axes(self)
        check_parameters(self, tensor_type(self.x).dims[channel], gamma=self.gamma, beta=self.beta)
        return [self.x.type]

    def evaluate(self, x: Array, gamma: Array | None = None, beta: Array | None = None) -> Array:
        batch, channel = self.layout.index("N"), self.layout.index("C")
        normalised, _ = centred(grouped(widen(x), batch, channel, self.num_groups), (2, 3), self.eps)
        out = ungrouped(normalised, x, batch, channel)
        if gamma is not None:
            out = out * spread(widen(gamma), x.ndim, channel)
        if beta is not None:
            out = out + spread(widen(beta), x.ndim, channel)
        return out.astype(x.dtype)


def batch_norm_axes(op: Operation) -> tuple[int, tuple[int, ...]]:
    """(channel axis, the other axes) of a batch norm. Raises InvalidOperation."""
    type = tensor_type(op.x)  # type: ignore[attr-defined]
    check_eps(op.eps)  # type: ignore[attr-defined]
    channel = channel_axis(op.layout, type.rank)  # type: ignore[attr-defined]
    return channel, tuple(axis for axis in range(type.rank) if axis != channel)


def batch_statistics(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array, int]:
    """(mean, biased variance, number of values) of each channel."""
    import numpy as np

    count = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    return x.mean(axis=axes), x.var(axis=axes), count


class BatchNormOp(Operation):
    """y = (x - mean) / sqrt(variance + eps) * gamma + beta over each channel (Ioffe, Szegedy 2015), and the running
    statistics.

    With `training` mean and (biased) variance are the batch's, and new = (1 - momentum) * running + momentum * batch,
    where the variance that goes into new_var is unbiased (divided by max(count - 1, 1)). Otherwise they are the running
    ones, which are passed on unchanged. gamma, beta, running_mean and running_var are [C]. Channels lie at the letter C
    of `layout` ("NCHW", "NHWC", "NC", …), at axis 1 where it is left out. Adjoints: `bwd.batch_norm_input`,
    `bwd.batch_norm_gamma`.
    """

    __slots__ = ()
    name = "hl.batch_norm"
    x = operand(FLOAT_TENSOR)
    gamma = operand(FLOAT_TENSOR)
    beta = operand(FLOAT_TENSOR)
    running_mean = operand(FLOAT_TENSOR)
    running_var = operand(FLOAT_TENSOR)
    training = attribute(BOOLEAN, default=False)
    momentum = attribute(FLOAT, default=0.1)
    eps = attribute(FLOAT, default=1e-5)
    layout = attribute(STRING, optional=True)
    y = result(ANY_TENSOR)
    new_mean = result(ANY_TENSOR)
    new_var = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        channel, _ = batch_norm_axes(self)
        if not 0 <= self.momentum <= 1:
            raise InvalidOperation(f"attribute 'momentum' is {self.momentum}, expected a value in [0, 1]")
        check_parameters(self, tensor_type(self.x).dims[channel], gamma=self.gamma, beta=self.beta,
                         running_mean=self.running_mean, running_var=self.running_var)
        return [self.x.type, self.running_mean.type, self.running_var.type]

    def evaluate(self, x: Array, gamma: Array, beta: Array, running_mean: Array, running_var: Array) -> tuple[Array, ...]:
        import numpy as np

        channel, axes = batch_norm_axes(self)
        wide, mean, var = widen(x), widen(running_mean), widen(running_var)
        new_mean, new_var = mean, var
        if self.training:
            batch_mean, batch_var, count = batch_statistics(wide, axes)
            kept, taken = wide.dtype.type(1 - self.momentum), wide.dtype.type(self.momentum)
            new_mean = kept * mean + taken * batch_mean
            new_var = kept * var + taken * (batch_var * wide.dtype.type(count / max(count - 1, 1)))
            mean, var = batch_mean, batch_var
        rate = widen(gamma) / np.sqrt(var + wide.dtype.type(self.eps))
        y = (wide - spread(mean, x.ndim, channel)) * spread(rate, x.ndim, channel) + spread(widen(beta), x.ndim, channel)
        return y.astype(x.dtype), new_mean.astype(x.dtype), new_var.astype(x.dtype)
