"""The two cotangents of a convolution as convolutions, for every stride, padding (negative too), dilation and number of groups.

Forward, one axis: y[n, o, p] = sum over c, k of x~[n, c, p s + k r - low] w[o, c, k], where x~ is x spread by the base dilation d
(strides s, kernel dilation r, K kernel elements, I input elements, P outputs). So

    dx[n, c, i] = sum over o, k of g~[n, o, i d + low - k r] w[o, c, k]: a convolution of g, spread by s, with the reversed kernel,
                  dilation r, stride d, and padding (K - 1) r - low in front;
    dw[o, c, k] = sum over n, p of x~[n, c, k r + p s - low] g[n, o, p]: a convolution of x (spread by d, batch and channels swapped)
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
from gradopt.ir.sizes import UNKNOWN, Size, floordiv, multiply
from gradopt.ir.types import I64, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import scalar, size_operands, size_value, zeros_like

__all__ = ["input_cotangent", "weight_cotangent"]


def input_cotangent(b: Builder, op: Any, g: Value) -> Value:
    """The cotangent of x."""
    x, w = op.operands
    spatial = tensor_type(x).rank - 2
    if 0 in (*tensor_type(g).dims, *tensor_type(w).dims[2:]):
        return zeros_like(b, x)
    padding, too_long = [], []
    for i in range(spatial):
        size, kernel, out = (tensor_type(value).dims[i + 2] for value in (x, w, g))
        span = (static_kernel(op, kernel) - 1) * op.rhs_dilation[i] + 1
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
    return result if result.type is x.type else b.prim.shape_cast(result, result_types=[x.type])


def static_kernel(op: Any, size: Size) -> int:
    """The size of a kernel. Raises GradoptError for a dynamic one: the padding of its adjoint would not be a constant."""
    if isinstance(size, int):
        return size
    raise GradoptError.at(op.location, f"'{op.name}' op has a kernel of dynamic size {size}; its derivative with respect to x needs "
                          "a static one")


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
    result = b.prim.permute(result, axes=[1, 0, *rest])
    if too_long:
        kernels = [size if isinstance(size, int) else END for size in tensor_type(w).dims[2:]]
        result = b.prim.slice(result, begin=[0] * (2 + spatial), end=[END, END, *kernels], strides=[1] * (2 + spatial))
    return result if result.type is w.type else b.prim.shape_cast(result, result_types=[w.type])


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
