"""The two cotangents of a convolution as convolutions, for every stride, padding (negative too), dilation and number of groups.

Forward, one axis: y[n, o, p] = sum over c, k of x~[n, c, p s + k r - low] w[o, c, k], where x~ is x spread by the base dilation d
(strides s, kernel dilation r, K kernel elements, I input elements, P outputs). So

    dx[n, c, i] = sum over o, k of g~[n, o, i d + low - k r] w[o, c, k]: a convolution of g, spread by s, with the reversed
    kernel,
                  dilation r, stride d, and padding (K - 1) r - low in front;
    dw[o, c, k] = sum over n, p of x~[n, c, k r + p s - low] g[n, o, p]: a convolution of x (spread by d, batch and channels
    swapped)
                  with g as kernel, dilation s, stride r, padding low in front.

The padding behind makes the output as long as it has to be. Along a dynamic axis with s > 1 it depends on a remainder; there the
longest one is taken, and what is too much is cut off.
"""

from __future__ import annotations

from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.prim.shape import END
from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.sizes import UNKNOWN, floordiv, multiply
from gradopt.ir.types import I64, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import match_type, scalar, size_operands, size_value, zeros_like

__all__ = ["input_cotangent", "weight_cotangent"]


def input_cotangent(b: Builder, op: Any, g: Value) -> Value:
    """The cotangent of x."""
    x, w = op.operands
    spatial = tensor_type(x).rank - 2
    if 0 in (*tensor_type(g).dims, *tensor_type(w).dims[2:]):
        return zeros_like(b, x)
    if not all(isinstance(size, int) for size in tensor_type(w).dims[2:]):
        return input_cotangent_by_output(b, op, g)
    padding, too_long = [], []
    for i in range(spatial):
        size, kernel, out = (tensor_type(value).dims[i + 2] for value in (x, w, g))
        assert isinstance(kernel, int)
        span = (kernel - 1) * op.rhs_dilation[i] + 1
        front = span - 1 - op.padding[i][0]
        if isinstance(size, int) and isinstance(out, int):
            behind = (size - 1) * op.lhs_dilation[i] + span - front - ((out - 1) * op.strides[i] + 1)
        else:
            behind = span - 1 - op.padding[i][1] + op.strides[i] - 1
            if op.strides[i] > 1:
                too_long.append(i + 2)
        padding.append([front, behind])
    kernel_value = b.prim.flip(w, axes=list(range(2, 2 + spatial))) if spatial else w
    result = b.prim.conv(g, swap_channels(b, kernel_value, op.groups), strides=op.lhs_dilation, padding=padding,
                         lhs_dilation=op.strides, rhs_dilation=op.rhs_dilation, groups=op.groups)
    for axis in too_long:
        result = first_elements(b, result, x, axis)
    return match_type(b, result, x.type)


def input_cotangent_by_output(b: Builder, op: Any, g: Value) -> Value:
    """The cotangent of x where the kernel's size is dynamic and the output's is not (as in the gradient of a kernel): the
    convolution of w, spread by r, with the reversed g as kernel, dilation s, stride d, and padding (P - 1) s - low in front.

    Raises GradoptError where both are dynamic: then no padding would be a constant."""
    x, w = op.operands
    while g.defining_op is not None and g.defining_op.name == "prim.shape_cast":
        g = g.defining_op.operands[0]  # knows more of its sizes
    spatial = tensor_type(x).rank - 2
    padding, too_long = [], []
    for i in range(spatial):
        size, kernel, out = (tensor_type(value).dims[i + 2] for value in (x, w, g))
        if not isinstance(out, int):
            raise GradoptError.at(op.location, f"'{op.name}' op has a kernel of dynamic size {kernel} and an output of "
                                  f"dynamic size {out}; its derivative with respect to x needs one of them static")
        low, high = op.padding[i]
        front = (out - 1) * op.strides[i] - low
        if isinstance(size, int) and isinstance(kernel, int):
            behind = (size - 1) * op.lhs_dilation[i] + (out - 1) * op.strides[i] - front - (kernel - 1) * op.rhs_dilation[i]
        else:
            # the forward windows ended at most s - 1 before the padded end
            behind = (out - 1) * op.strides[i] + op.strides[i] - 1 - high
            if op.strides[i] > 1 or op.lhs_dilation[i] > 1:
                too_long.append(i + 2)
        padding.append([front, behind])
    rest = list(range(2, 2 + spatial))
    kernel_value = b.prim.flip(group_major(b, g, op.groups), axes=rest)
    image = b.prim.permute(w, axes=[1, 0, *rest])
    result = b.prim.conv(image, kernel_value, strides=op.lhs_dilation, padding=padding, lhs_dilation=op.rhs_dilation,
                         rhs_dilation=op.strides, groups=op.groups)
    result = channels_as_batch(b, result, x, op.groups)
    for axis in too_long:
        result = first_elements(b, result, x, axis)
    return match_type(b, result, x.type)


def group_major(b: Builder, g: Value, groups: int) -> Value:
    """g[N, O, …] as [groups * N, O / groups, …]."""
    if groups == 1:
        return g
    moved = batch_as_channels(b, g, groups)  # [O / groups, groups * N, …]
    return b.prim.permute(moved, axes=[1, 0, *range(2, tensor_type(g).rank)])


def channels_as_batch(b: Builder, y: Value, like: Value, groups: int) -> Value:
    """y[C / groups, groups * N, …] as [N, C, …], the inverse of `batch_as_channels`; `like` has N and C."""
    rest = list(range(2, tensor_type(y).rank))
    if groups == 1:
        return b.prim.permute(y, axes=[1, 0, *rest])
    dims, count = tensor_type(y).dims, tensor_type(like).dims[0]
    element = tensor_type(y).element
    sizes = [*size_operands(b, y, [0]), *size_operands(b, like, [0]), *size_operands(b, y, rest)]
    split = b.prim.reshape(y, *sizes, result_types=[tensor([dims[0], groups, count, *dims[2:]], element)])
    moved = b.prim.permute(split, axes=[2, 1, 0, *[axis + 1 for axis in rest]])
    sizes = [*size_operands(b, like, [0, 1]), *size_operands(b, y, rest)]
    return b.prim.reshape(moved, *sizes, result_types=[tensor([count, tensor_type(like).dims[1], *dims[2:]], element)])


def first_elements(b: Builder, x: Value, like: Value, axis: int) -> Value:
    """The first elements of `x` along an axis: as many as `like` has."""
    size = tensor_type(like).dims[axis]
    positions = b.create("prim.iota", size_operands(b, like, [axis]), [tensor([size], I64)], axis=0).results[0]
    return b.prim.gather(x, positions, axis=axis, mode="fast")


def swap_channels(b: Builder, w: Value, groups: int) -> Value:
    """w[O, C / groups, …] as [C, O / groups, …], group by group."""
    dims = tensor_type(w).dims
    rest = list(range(2, len(dims)))
    if groups == 1:
        return b.prim.permute(w, axes=[1, 0, *rest])
    per_group = floordiv(dims[0], groups)
    quotient = [b.prim.div(size_value(b, w, 0), scalar(b, groups, I64))] if per_group is UNKNOWN else []
    split = b.prim.reshape(w, *quotient, *size_operands(b, w, [1, *rest]),
                           result_types=[tensor([groups, per_group, *dims[1:]], tensor_type(w).element)])
    moved = b.prim.permute(split, axes=[0, 2, 1, *[axis + 1 for axis in rest]])
    joined = multiply(groups, dims[1])
    target = tensor([joined, per_group, *dims[2:]], tensor_type(w).element)
    whole = [b.prim.mul(size_value(b, w, 1), scalar(b, groups, I64))] if joined is UNKNOWN else []
    return b.prim.reshape(moved, *whole, *quotient, *size_operands(b, w, rest), result_types=[target])


def weight_cotangent(b: Builder, op: Any, g: Value) -> Value:
    """The cotangent of w."""
    x, w = op.operands
    spatial = tensor_type(x).rank - 2
    if 0 in tensor_type(g).dims or 0 in tensor_type(x).dims:
        return zeros_like(b, w)
    padding, too_long = [], False
    for i in range(spatial):
        size, kernel, out = (tensor_type(value).dims[i + 2] for value in (x, w, g))
        low, high = op.padding[i]
        if isinstance(size, int) and isinstance(out, int) and isinstance(kernel, int):
            spread = (size - 1) * op.lhs_dilation[i] + 1
            high = (kernel - 1) * op.rhs_dilation[i] + (out - 1) * op.strides[i] + 1 - spread - low
        elif op.strides[i] > 1:
            too_long = True
        padding.append([low, high])
    rest = list(range(2, 2 + spatial))
    kernel_value = b.prim.permute(g, axes=[1, 0, *rest])
    result = b.prim.conv(batch_as_channels(b, x, op.groups), kernel_value, strides=op.rhs_dilation, padding=padding,
                         lhs_dilation=op.lhs_dilation, rhs_dilation=op.strides, groups=op.groups)
    if too_long:
        kernels = [size if isinstance(size, int) else END for size in tensor_type(w).dims[2:]]
        result = b.prim.slice(result, begin=[0] * (2 + spatial), end=[END, END, *kernels], strides=[1] * (2 + spatial))
    dims = tensor_type(w).dims
    # the sizes are told before the permutation, so that the rule of this convolution finds them (input_cotangent_by_output)
    result = match_type(b, result, tensor([dims[1], dims[0], *dims[2:]], tensor_type(w).element))
    return match_type(b, b.prim.permute(result, axes=[1, 0, *rest]), w.type)


def batch_as_channels(b: Builder, x: Value, groups: int) -> Value:
    """x[N, groups * C', …] as [C', groups * N, …]."""
    dims = tensor_type(x).dims
    rest = list(range(2, len(dims)))
    if groups == 1:
        return b.prim.permute(x, axes=[1, 0, *rest])
    per_group = floordiv(dims[1], groups)
    sizes = size_operands(b, x, [0])
    quotient = [b.prim.div(size_value(b, x, 1), scalar(b, groups, I64))] if per_group is UNKNOWN else []
    split = b.prim.reshape(x, *sizes, *quotient, *size_operands(b, x, rest),
                           result_types=[tensor([dims[0], groups, per_group, *dims[2:]], tensor_type(x).element)])
    moved = b.prim.permute(split, axes=[2, 1, 0, *[axis + 1 for axis in rest]])
    joined = multiply(groups, dims[0])
    whole = [b.prim.mul(size_value(b, x, 0), scalar(b, groups, I64))] if joined is UNKNOWN else []
    return b.prim.reshape(moved, *quotient, *whole, *size_operands(b, x, rest),
                          result_types=[tensor([per_group, joined, *dims[2:]], tensor_type(x).element)])
