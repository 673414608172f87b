"""The convolutions of `hl` and `bwd` as problems of convolution.py: layouts, groups, flipped kernels and swapped axes are strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradopt.ir.sizes import Size, add, floordiv, multiply
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.convolution import Operand, Problem, operand, phases, widened
from gradopt.lowering.codegen.library.source import dims_of


def _arranged(value: Value, axes: Sequence[int]) -> tuple[list[Size], Operand]:
    """(sizes in the order of `axes`, the operand with that order)."""
    dims = dims_of(value)
    return [dims[axis] for axis in axes], operand(value, dims, axes)


def _swapped(given: Operand) -> Operand:
    """The two leading axes exchanged."""
    return replace(given, first=given.second, second=given.first)


def _befores(op: Any) -> list[int]:
    return [pair[0] for pair in op.padding]


def _launches(problem: Problem, spread: Sequence[int] = ()) -> list[Launch]:
    from gradopt.lowering.codegen.library.convolution_kernels import launches

    return [launch for part in phases(problem, widened(spread, 1)) for launch in launches(part)]


@library("hl.conv1d", "hl.conv2d", "hl.conv3d")
def forward(op: Any) -> list[Launch]:
    """out[n, o, p] = sum over c, k of x[n, c, p * stride + k * dilation - before] * w[o, c, k]."""
    x_dims, x = _arranged(op.x, op.data_axes)
    w_dims, w = _arranged(op.weight, op.kernel_axes)
    out_dims, out = _arranged(op.results[0], op.out_axes)
    channels, outputs = w_dims[1], floordiv(w_dims[0], op.groups)
    return _launches(Problem(
        x_dims[0], op.groups, channels, outputs, widened(x_dims[2:], 1), widened(w_dims[2:], 1), widened(out_dims[2:], 1),  # type: ignore[arg-type]
        widened(op.strides, 1), widened(op.dilation, 1), widened(_befores(op), 0),
        replace(x, group=multiply(x.second, channels)), replace(w, group=multiply(w.first, outputs)),
        replace(out, group=multiply(out.second, outputs))))


@library("bwd.conv1d_input", "bwd.conv2d_input", "bwd.conv3d_input")
def input_adjoint(op: Any) -> list[Launch]:
    """dx: dy spread by the strides, with the flipped kernel."""
    return _adjoint(op, op.dy, op.out_axes, op.weight, op.kernel_axes, op.results[0], op.data_axes)


@library("hl.conv2d_transpose")
def transposed(op: Any) -> list[Launch]:
    """The adjoint of a convolution, of which x is the cotangent."""
    return _adjoint(op, op.x, op.data_axes, op.weight, op.weight_axes, op.results[0], op.out_axes)


def _adjoint(op: Any, dy: Value, dy_axes: Sequence[int], weight: Value, weight_axes: Sequence[int], result: Value,
             result_axes: Sequence[int]) -> list[Launch]:
    """dx[i] = sum over k of dy~[i + before - k * dilation] * w[k]; with k = K - 1 - k' the index rises with k'."""
    dy_dims, g = _arranged(dy, dy_axes)
    w_dims, w = _arranged(weight, weight_axes)
    out_dims, out = _arranged(result, result_axes)
    channels, outputs = floordiv(w_dims[0], op.groups), w_dims[1]
    kernel = w_dims[2:]
    offset: Size = 0
    for size, stride in zip(widened(kernel, 1), w.spatial):
        offset = add(offset, multiply(add(size, -1), stride))
    flipped = tuple(multiply(stride, -1) for stride in w.spatial)
    lows = [multiply(add(size, -1), dilation) for size, dilation in zip(kernel, op.dilation)]
    low = [add(end, -before) for end, before in zip(lows, _befores(op))]
    w = replace(_swapped(w), group=multiply(w.first, channels), offset=offset, spatial=(flipped[0], flipped[1], flipped[2]))
    ones = [1] * len(kernel)
    return _launches(Problem(
        dy_dims[0], op.groups, channels, outputs, widened(dy_dims[2:], 1), widened(kernel, 1), widened(out_dims[2:], 1),  # type: ignore[arg-type]
        widened(ones, 1), widened(op.dilation, 1), widened(low, 0), replace(g, group=multiply(g.second, channels)), w,
        replace(out, group=multiply(out.second, outputs))), op.strides)


@library("bwd.conv1d_weight", "bwd.conv2d_weight", "bwd.conv3d_weight")
def weight_adjoint(op: Any) -> list[Launch]:
    """dw: images and channels change places, dy is the kernel, and strides and dilation change places."""
    x_dims, x = _arranged(op.x, op.data_axes)
    dy_dims, g = _arranged(op.dy, op.out_axes)
    w_dims, out = _arranged(op.results[0], op.kernel_axes)
    channels, outputs = w_dims[1], floordiv(w_dims[0], op.groups)
    return _launches(Problem(
        channels, op.groups, x_dims[0], outputs, widened(x_dims[2:], 1), widened(dy_dims[2:], 1), widened(w_dims[2:], 1),  # type: ignore[arg-type]
        widened(op.dilation, 1), widened(op.strides, 1), widened(_befores(op), 0),
        replace(_swapped(x), group=multiply(x.second, channels)), replace(_swapped(g), group=multiply(g.second, outputs)),
        replace(_swapped(out), group=multiply(out.first, outputs))))
