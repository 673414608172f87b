"""Reverse rules of the neural-network ops: each builds the `bwd` op of its operand. The formulas are in the `bwd`
declarations.

hl.dropout and hl.cross_entropy_with_logits have none: their decompositions have the derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.neural.normalization import batch_norm_axes
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import full_like, reduce_sum, size_operands, zeros_like
from gradopt.lowering.autodiff.registry import Gradients, ReverseContext, reverse_rule

WINDOW = ("strides", "padding", "dilation", "groups", "layout", "kernel_layout", "out_layout")
POOL = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "count_include_pad", "layout")
ATTENTION = ("num_heads", "head_dim", "layout", "mask_kind", "window", "scale", "softcap")
WARP = ("imode", "border_mode", "border_value", "format")


def attributes(op: Any, names: Sequence[str]) -> dict[str, Any]:
    """The values of the attributes that the adjoint takes as well."""
    return {name: getattr(op, name) for name in names}


def like(context: ReverseContext, name: str, target: Value, operands: Sequence[Value], **fields: Any) -> Value:
    """A `bwd` op whose result has target's type, with target's unknown sizes as operands."""
    created = context.builder.create(name, [*operands, *size_operands(context.builder, target)], result_types=[target.type],
                                     masked=context.masked, **fields)
    return created.results[0]


def sum_others(context: ReverseContext, dy: Value, axis: int) -> Value:
    """The sum over all axes but one."""
    rank = tensor_type(dy).rank
    return reduce_sum(context.builder, dy, [other for other in range(rank) if other != axis % rank])


@reverse_rule("hl.softmax_cross_entropy")
def softmax_cross_entropy(context: ReverseContext, op: Any, dloss: Value) -> Gradients:
    """dlogits = (softmax - onehot) * dloss."""
    return context.builder.bwd.softmax_cross_entropy(op.logits, op.labels, dloss, masked=context.masked)


@reverse_rule("hl.nll_loss", masks=True)
def nll_loss(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dpred at the targets, dweights by class."""
    fields = attributes(op, ("reduction", "ignore_index")) | {"masked": context.masked}
    rest = () if op.weights is None else (op.weights,)
    bwd = context.builder.bwd
    return (lambda: bwd.nll_loss(dy, op.pred, op.targets, *rest, **fields), None,
            lambda: bwd.nll_loss_weights(dy, op.pred, op.targets, op.weights, **fields))[: len(op.operands)]


@reverse_rule("hl.layer_norm", "hl.rms_norm")
def axis_norm(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dx, dgamma, and dbeta = the sum over the other axes."""
    fields = attributes(op, ("axis", "eps")) | {"masked": context.masked}
    gamma = () if op.gamma is None else (op.gamma,)
    kind, create = op.name.removeprefix("hl."), context.builder.create

    def beta() -> Value:
        if kind == "layer_norm":
            return sum_others(context, dy, op.axis)
        return create("bwd.rms_norm_beta", [dy], **fields).results[0]

    return (lambda: create(f"bwd.{kind}_input", [op.x, *gamma, dy], **fields).results[0],
            lambda: create(f"bwd.{kind}_gamma", [op.x, dy], **fields).results[0], beta)[: len(op.operands)]


@reverse_rule("hl.group_norm")
def group_norm(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dx, dgamma, dbeta."""
    fields = attributes(op, ("num_groups", "eps", "layout")) | {"masked": context.masked}
    gamma, bwd = () if op.gamma is None else (op.gamma,), context.builder.bwd
    return (lambda: bwd.group_norm_input(op.x, *gamma, dy, **fields), lambda: bwd.group_norm_gamma(op.x, dy, **fields),
            lambda: bwd.group_norm_beta(dy, **fields))[: len(op.operands)]


@reverse_rule("hl.batch_norm")
def batch_norm(context: ReverseContext, op: Any, dy: Value | None, dmean: Value | None, dvar: Value | None) -> Gradients:
    """From y: dx, dgamma, dbeta, and without training the running statistics; from the new statistics: the old ones
    and, in training, x."""
    b = context.builder
    fields = attributes(op, ("training", "momentum", "eps", "layout")) | {"masked": context.masked}
    channel, _ = batch_norm_axes(op)
    running = (op.running_mean, op.running_var)

    def total(*parts: Value | None) -> Value | None:
        found = [part for part in parts if part is not None]
        return None if not found else found[0] if len(found) == 1 else b.prim.add(*found)

    def input_gradient() -> Value:
        direct = None if dy is None else b.bwd.batch_norm_input(op.x, op.gamma, *running, dy, **fields)
        if not op.training or (dmean is None and dvar is None):
            return direct if direct is not None else zeros_like(b, op.x)
        moments = (dmean if dmean is not None else zeros_like(b, op.running_mean),
                   dvar if dvar is not None else zeros_like(b, op.running_var))
        spread = b.bwd.batch_norm_statistics(op.x, *moments, momentum=op.momentum, layout=op.layout, masked=context.masked)
        found = total(direct, spread)
        assert found is not None
        return found

    def rate() -> Value:
        eps = full_like(b, op.running_var, op.eps)
        return b.prim.rsqrt(b.prim.add(op.running_var, eps))

    def old(statistic: Value | None, from_y: Callable[[], Value]) -> Callable[[], Value] | None:
        if op.training:
            if statistic is None:
                return None
            kept = full_like(b, statistic, 1 - op.momentum)
            return lambda: context.scale(statistic, kept)
        if dy is None:
            return None if statistic is None else lambda: statistic
        return lambda: total(statistic, from_y())  # type: ignore[return-value]

    def mean_from_y() -> Value:
        assert dy is not None
        return b.prim.neg(context.scale(sum_others(context, dy, channel), b.prim.mul(op.gamma, rate())))

    def var_from_y() -> Value:
        slope, r = b.bwd.batch_norm_gamma(op.x, *running, dy, **fields), rate()
        half = full_like(b, slope, -0.5)
        return b.prim.mul(context.scale(slope, b.prim.mul(op.gamma, b.prim.mul(r, r))), half)

    x_parts = dy is not None or op.training
    return (input_gradient if x_parts else None,
            (lambda: b.bwd.batch_norm_gamma(op.x, *running, dy, **fields)) if dy is not None else None,
            (lambda: sum_others(context, dy, channel)) if dy is not None else None,
            old(dmean, mean_from_y), old(dvar, var_from_y))


def cuts_off(context: ReverseContext, cuts: bool, build: Callable[[], Value]) -> Callable[[], Any]:
    """A gradient that holds zeros for elements that were never read only if `cuts`."""
    return build if cuts else lambda: context.keep(build())


def skips(op: Any, kernel: Sequence[Any]) -> bool:
    """True where a window op may leave elements of its operand unread: a stride or dilation jumps over them, or the end
    is not reached."""
    return any(stride != 1 or (dilation != 1 and size != 1) for stride, dilation, size in zip(op.strides, op.dilation, kernel))


@reverse_rule("hl.conv1d", "hl.conv2d", "hl.conv3d", masks=True)
def convolution(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dx and dw; positions of x that a stride skips are cut off."""
    fields = attributes(op, WINDOW)
    name = op.name.replace("hl.", "bwd.")
    kernel = [tensor_type(op.weight).dims[axis] for axis in op.kernel_axes[2:]]
    return (cuts_off(context, skips(op, kernel), lambda: like(context, name + "_input", op.x, [dy, op.weight], **fields)),
            cuts_off(context, False, lambda: like(context, name + "_weight", op.weight, [op.x, dy], **fields)))


@reverse_rule("hl.conv2d_transpose")
def conv2d_transpose(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """The adjoint of an adjoint is the convolution; the weight's gradient has x and dy in each other's place."""
    fields = attributes(op, ("strides", "padding", "dilation", "groups"))
    fields |= {"layout": op.out_layout or op.layout, "out_layout": op.layout,
               "kernel_layout": op.kernel_layout.translate(str.maketrans("IO", "OI"))}
    return (lambda: context.builder.hl.conv2d(dy, op.weight, result_types=[op.x.type], **fields),
            lambda: like(context, "bwd.conv2d_weight", op.weight, [dy, op.x], **fields))


@reverse_rule("hl.max_pool2d", masks=True)
def max_pool2d(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """To the first maximum of each window."""
    return context.builder.bwd.max_pool2d(op.x, dy, masked=context.masked, **attributes(op, POOL))


@reverse_rule("hl.avg_pool2d", masks=True)
def avg_pool2d(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """Spread over each window."""
    return cuts_off(context, skips(op, op.pool_size), lambda: like(context, "bwd.avg_pool2d", op.x, [dy], **attributes(op, POOL)))


@reverse_rule("hl.attention", masks=True)
def attention(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dq, dk, dv and dbias by one op; masked keys are cut off."""
    rest = () if op.mask_or_bias is None else (op.mask_or_bias,)
    count = 4 if op.mask_kind == "bias" else 3
    wrt = [index for index in range(count) if context.wants(index)]
    if not wrt:
        return ()
    fields = attributes(op, ATTENTION) | {"masked": context.masked, "wrt": None if len(wrt) == count else wrt}
    created = context.builder.create("bwd.attention", [op.q, op.k, op.v, dy, *rest], **fields)
    found = dict(zip(wrt, created.results))
    entries = [found.get(index) for index in range(len(op.operands))]
    return [entry if entry is None or op.mask_kind != "none" else context.keep(entry) for entry in entries]


@reverse_rule("hl.rope")
def rope(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dx by the opposite angle, dcos and dsin by one op."""
    fields = attributes(op, ("head_dim", "n_rot", "interleaved")) | {"masked": context.masked}
    b = context.builder
    tables = b.bwd.rope_tables(op.x, dy, **fields) if context.wants(1) or context.wants(2) else (None, None)
    return (lambda: b.bwd.rope(dy, op.cos, op.sin, **fields), *tables)


@reverse_rule("hl.fake_quantize", masks=True)
def fake_quantize(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """Straight through; the step is a constant."""
    fields = attributes(op, ("bits", "axis", "ste", "scale_mode")) | {"masked": context.masked}
    rest = () if op.scale is None else (op.scale,)
    return cuts_off(context, op.ste in ("clipped", "hard_tanh"),
                    lambda: context.builder.bwd.fake_quantize(op.x, dy, *rest, **fields))


@reverse_rule("hl.pixel_shuffle")
def pixel_shuffle(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """The inverse."""
    return context.builder.bwd.pixel_shuffle(dy, masked=context.masked, **attributes(op, ("factor", "layout")))


@reverse_rule("hl.warp_perspective", "hl.warp_affine", masks=True)
def warp(context: ReverseContext, op: Any, dy: Value) -> Gradients:
    """dx at the sampled pixels, and dmat."""
    fields, name = attributes(op, WARP), op.name.replace("hl.", "bwd.")
    return (lambda: like(context, name + "_data", op.x, [op.mat, dy], **fields),
            cuts_off(context, False, lambda: context.builder.create(
                name + "_mat", [op.x, op.mat, dy], masked=context.masked, **fields).results[0]))
