"""Adjoints of the convolutions. The attributes are the forward op's; sums accumulate in f32 for 16-bit floats.

Neither needs anything that the forward op would have to keep."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.arrays import Array, numpy_dtype
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, SCALAR_I64, check_shape, tensor_type
from gradopt.dialects.hl.neural.common import invert, permuted, run_time_shape
from gradopt.dialects.hl.neural.convolution import (
    WindowAttributes,
    check_ranks,
    convolution_dims,
    convolve_input,
    convolve_weight,
    result_element,
    wide_for,
    window_fields,
)
from gradopt.dialects.prim.data import check_sizes
from gradopt.ir.attribute_kinds import UNIT
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result, variadic
from gradopt.ir.types import TensorType


def check_forward(op: WindowAttributes, x: TensorType, w: TensorType, dy: TensorType) -> None:
    """Raises InvalidOperation unless a convolution of x with w would give dy's shape."""
    op.check_window()
    check_ranks(op, ("x", x), ("weight", w), ("operand 'dy'", dy))
    dims = convolution_dims(op, permuted(x.dims, op.data_axes), permuted(w.dims, op.kernel_axes))
    check_shape("operand 'dy'", dy, permuted(dims, invert(op.out_axes)))


def check_same_elements(first: TensorType, name: str, second: TensorType) -> None:
    """Raises InvalidOperation unless a result has the operand's element type."""
    if first.element is not second.element:
        raise InvalidOperation(f"has result element type {first.element.text}, expected that of '{name}', {second.element.text}")


class ConvolutionInput(WindowAttributes):
    """Base: dx[n, c, p * strides + k * dilation - before] += dy[n, o, p] * weight[o, c, k]."""

    __slots__ = ()
    dy = operand(FLOAT_TENSOR)
    weight = operand(FLOAT_TENSOR)
    sizes = variadic(SCALAR_I64)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        check_sizes(self, len(self.sizes))
        result_element(self, tensor_type(self.weight).element)
        check_same_elements(tensor_type(self.results[0]), "weight", tensor_type(self.weight))
        check_forward(self, tensor_type(self.results[0]), tensor_type(self.weight), tensor_type(self.dy))

    def evaluate(self, dy: Array, weight: Array, *sizes: Array) -> Array:
        shape = run_time_shape(self, tensor_type(self.results[0]), (dy, weight), sizes)
        extent: Sequence[int] = [shape[axis] for axis in self.data_axes[2:]]
        rows, kernel = wide_for(self, dy.transpose(self.out_axes), weight.transpose(self.kernel_axes))
        dx = convolve_input(rows, kernel, extent, self).transpose(invert(self.data_axes))
        return dx.astype(numpy_dtype(tensor_type(self.results[0]).element))


class ConvolutionWeight(WindowAttributes):
    """Base: dw[o, c, k] = sum over n, p of dy[n, o, p] * x[n, c, p * strides + k * dilation - before]."""

    __slots__ = ()
    x = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    sizes = variadic(SCALAR_I64)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        check_sizes(self, len(self.sizes))
        check_same_elements(tensor_type(self.results[0]), "x", tensor_type(self.x))
        check_forward(self, tensor_type(self.x), tensor_type(self.results[0]), tensor_type(self.dy))

    def evaluate(self, x: Array, dy: Array, *sizes: Array) -> Array:
        shape = run_time_shape(self, tensor_type(self.results[0]), (x, dy), sizes)
        kernel = [shape[axis] for axis in self.kernel_axes[2:]]
        image, rows = wide_for(self, x.transpose(self.data_axes), dy.transpose(self.out_axes))
        dw = convolve_weight(image, rows, kernel, self).transpose(invert(self.kernel_axes))
        return dw.astype(numpy_dtype(tensor_type(self.results[0]).element))


def _declare(base: type[WindowAttributes], spatial: int, suffix: str, text: str) -> type[WindowAttributes]:
    return type(f"Conv{spatial}d{suffix.capitalize()}Op", (base,), {
        "__slots__": (), "__module__": __name__, "name": f"bwd.conv{spatial}d_{suffix}", **window_fields(spatial),
        "__doc__": f"The gradient of `hl.conv{spatial}d` with respect to its {text}; attributes as there. "
                   f"{(base.__doc__ or '').removeprefix('Base: ')} The result type gives the shape, `sizes` its unknown sizes."})


Conv1dInputOp, Conv2dInputOp, Conv3dInputOp = (_declare(ConvolutionInput, spatial, "input", "input") for spatial in (1, 2, 3))
Conv1dWeightOp, Conv2dWeightOp, Conv3dWeightOp = (
    _declare(ConvolutionWeight, spatial, "weight", "weight") for spatial in (1, 2, 3))
