"""Decompositions of the convolutions: `prim.conv` between permutations to N C spatial and O I spatial."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.neural.common import invert
from gradopt.ir.builder import Builder
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import cast_to
from gradopt.lowering.decompose.extents import extents_of, permute, result_extents
from gradopt.lowering.decompose.neural import working_element
from gradopt.lowering.decompose.registry import decomposition
from gradopt.lowering.decompose.windows import adjoint_input, adjoint_weight, convolve, window_of


def working(b: Builder, op: Any, *values: Value) -> list[Value]:
    """The operands in the element type to compute in: their own where the result has it too, else the widest
    accumulator."""
    result = tensor_type(op.results[0]).element
    if all(tensor_type(value).element is result for value in values):
        return list(values)
    element = working_element(result, *values)
    return [cast_to(b, value, element) for value in values]


def finish(b: Builder, op: Any, value: Value) -> Value:
    """The value in the element type of the op's result."""
    return cast_to(b, value, tensor_type(op.results[0]).element)


@decomposition("hl.conv1d", "hl.conv2d", "hl.conv3d")
def convolution(b: Builder, op: Any) -> Value:
    """One prim.conv."""
    x, w = working(b, op, op.x, op.weight)
    y = convolve(b, permute(b, x, op.data_axes), permute(b, w, op.kernel_axes), window_of(op))
    return finish(b, op, permute(b, y, invert(op.out_axes)))


@decomposition("bwd.conv1d_input", "bwd.conv2d_input", "bwd.conv3d_input")
def convolution_input(b: Builder, op: Any) -> Value:
    """dy spread by the strides, convolved with the reversed kernel."""
    dy, w = working(b, op, op.dy, op.weight)
    extents = result_extents(b, op)
    dx = adjoint_input(b, op, permute(b, dy, op.out_axes), permute(b, w, op.kernel_axes), [extents[a] for a in op.data_axes[2:]],
                       window_of(op))
    return finish(b, op, permute(b, dx, invert(op.data_axes)))


@decomposition("bwd.conv1d_weight", "bwd.conv2d_weight", "bwd.conv3d_weight")
def convolution_weight(b: Builder, op: Any) -> Value:
    """x convolved with dy as the kernel, the batch in the place of the channels."""
    x, dy = working(b, op, op.x, op.dy)
    kernel = [tensor_type(op.results[0]).dims[axis] for axis in op.kernel_axes[2:]]
    dw = adjoint_weight(b, op, permute(b, x, op.data_axes), permute(b, dy, op.out_axes), kernel, window_of(op))
    return finish(b, op, permute(b, dw, invert(op.kernel_axes)))


@decomposition("hl.conv2d_transpose")
def conv2d_transpose(b: Builder, op: Any) -> Value:
    """The adjoint of a convolution."""
    x, w = working(b, op, op.x, op.weight)
    x, w = permute(b, x, op.data_axes), permute(b, w, op.weight_axes)
    sizes, kernel = extents_of(b, x)[2:], extents_of(b, w)[2:]
    extents = []
    for axis, size in enumerate(op.extent([e.size for e in sizes], [e.size for e in kernel])):
        span = (kernel[axis] + -1) * op.dilation[axis] + 1
        run_time = (sizes[axis] + -1) * op.strides[axis] + span + (op.output_padding[axis] - sum(op.padding[axis]))
        extents.append(run_time.typed(size))
    return finish(b, op, permute(b, adjoint_input(b, op, x, w, extents, window_of(op)), invert(op.out_axes)))
