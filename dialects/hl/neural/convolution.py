"""Convolutions and transposed convolutions. Their sums accumulate in f32 for 16-bit floats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from gradopt.dialects.arrays import Array, numpy_dtype, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, check_length, same_element, shape_text, tensor_type
from gradopt.dialects.hl.neural.common import check_layout, check_positive, invert, layout_axes, permuted
from gradopt.dialects.prim.linear import dilated, window_size
from gradopt.ir.attribute_kinds import INTEGER, INTEGERS, PAIRS, STRING
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, add, multiply, provably_different, subtract
from gradopt.ir.types import FloatType, TensorType, Type, tensor

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}  # the letters of the spatial axes by their number


class WindowAttributes(Operation):
    """Base of the ops that move a window: the attributes of a convolution (defaults by the number of spatial axes)."""

    __slots__ = ()
    spatial: int
    strides = attribute(INTEGERS)
    padding = attribute(PAIRS)
    dilation = attribute(INTEGERS)
    groups = attribute(INTEGER, default=1)
    layout = attribute(STRING)
    kernel_layout = attribute(STRING)
    out_layout = attribute(STRING, optional=True)

    def check_window(self) -> None:
        """Raises InvalidOperation for an attribute that has the wrong length, sign or letters."""
        letters = SPATIAL[self.spatial]
        for name in ("strides", "padding", "dilation"):
            check_length(getattr(self, name), self.spatial, name)
        check_positive(self, "strides", "dilation", "groups")
        check_padding(self.padding)
        check_layout(self.layout, "NC" + letters, "layout")
        check_layout(self.kernel_layout, "OI" + letters, "kernel_layout")
        if self.out_layout is not None:
            check_layout(self.out_layout, "NC" + letters, "out_layout")

    @property
    def data_axes(self) -> list[int]:
        """The axes of x in the order N, C, spatial."""
        return layout_axes(self.layout, "NC" + SPATIAL[self.spatial])

    @property
    def kernel_axes(self) -> list[int]:
        """The axes of the weight in the order O, I, spatial."""
        return layout_axes(self.kernel_layout, "OI" + SPATIAL[self.spatial])

    @property
    def out_axes(self) -> list[int]:
        """The axes of the convolution's result in the order N, C, spatial."""
        return layout_axes(self.out_layout or self.layout, "NC" + SPATIAL[self.spatial])


def check_padding(padding: Sequence[Sequence[int]]) -> None:
    """Raises InvalidOperation unless each entry is [before, after] without a negative value."""
    if any(len(pair) != 2 or min(pair) < 0 for pair in padding):
        raise InvalidOperation(f"attribute 'padding' is {[list(pair) for pair in padding]}, expected [before, after] for each "
                               "spatial axis, without negative values")


def check_ranks(op: WindowAttributes, *values: tuple[str, TensorType]) -> None:
    """Raises InvalidOperation unless each type has the rank of the op's layouts."""
    for name, type in values:
        if type.rank != op.spatial + 2:
            raise InvalidOperation(f"{name} has shape {shape_text(type)}, expected rank {op.spatial + 2}")


def convolution_dims(op: WindowAttributes, x: Sequence[Size], w: Sequence[Size]) -> list[Size]:
    """N, O and the window counts of a convolution, from sizes in the order N C spatial and O I spatial. Raises
    InvalidOperation."""
    groups = op.groups
    if provably_different(x[1], multiply(w[1], groups)):
        raise InvalidOperation(f"has {x[1]} input channels, expected {multiply(w[1], groups)}: the weight has {w[1]} for each of "
                               f"{groups} group{'' if groups == 1 else 's'}")
    if isinstance(w[0], int) and w[0] % groups:
        raise InvalidOperation(f"has {w[0]} output channels, expected a multiple of groups ({groups})")
    counts = []
    for axis in range(op.spatial):
        size, kernel, pads = x[axis + 2], w[axis + 2], op.padding[axis]
        check_fit(size, dilated(kernel, op.dilation[axis]), pads, SPATIAL[op.spatial][axis])
        counts.append(window_size(size, kernel, pads[0], pads[1], op.strides[axis], 1, op.dilation[axis]))
    return [x[0], w[0], *counts]


def check_fit(size: Size, span: Size, pads: Sequence[int], letter: str) -> None:
    """Raises InvalidOperation where a window is longer than what it moves over."""
    room = subtract(add(size, pads[0] + pads[1]), span)
    if isinstance(room, int) and room < 0:
        raise InvalidOperation(f"has a window of extent {span} on axis {letter}, but the padded operand has "
                               f"{add(size, sum(pads))}")


def result_element(op: Operation, element: Type) -> Type:
    """The element type of the result: that of its type where it has one (it must be a float), else the operands'."""
    found = tensor_type(op.results[0]).element if op.results else element
    if not isinstance(found, FloatType):
        raise InvalidOperation(f"has result element type {found.text}, expected a float type")
    return found


def kernel_offsets(kernel: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every position inside a window."""
    return product(*(range(size) for size in kernel))


def window_slices(offset: Sequence[int], counts: Sequence[int], strides: Sequence[int],
                  dilation: Sequence[int]) -> tuple[slice, ...]:
    """Where the windows' element at `offset` lies in the padded operand, one slice a spatial axis."""
    return tuple(slice(o * d, o * d + (n - 1) * s + 1, s) if n else slice(0, 0)
                 for o, n, s, d in zip(offset, counts, strides, dilation))


def convolve(x: Array, w: Array, counts: Sequence[int], op: WindowAttributes) -> Array:
    """y[n, o, p] = sum over c, k of x[n, c, p * stride + k * dilation - before] * w[o, c, k], group by group."""
    import numpy as np

    n, o, groups = x.shape[0], w.shape[0], op.groups
    padded = np.pad(x, [(0, 0), (0, 0), *op.padding]).reshape(n, groups, w.shape[1], *(
        size + sum(pads) for size, pads in zip(x.shape[2:], op.padding)))
    kernel = w.reshape(groups, o // groups, *w.shape[1:])
    y = np.zeros((n, groups, o // groups, *counts), x.dtype)
    for offset in kernel_offsets(w.shape[2:]):
        patch = padded[(slice(None),) * 3 + window_slices(offset, counts, op.strides, op.dilation)]
        y += np.einsum("ngc...,goc->ngo...", patch, kernel[(slice(None),) * 3 + offset])
    return y.reshape(n, o, *counts)


def convolve_input(dy: Array, w: Array, extent: Sequence[int], op: WindowAttributes) -> Array:
    """The adjoint of `convolve` with respect to x of spatial sizes `extent`: each dy[p] * w[k] is added where x[…] was
    read."""
    import numpy as np

    n, counts, groups = dy.shape[0], dy.shape[2:], op.groups
    padded = np.zeros((n, groups, w.shape[1], *(size + sum(pads) for size, pads in zip(extent, op.padding))), dy.dtype)
    kernel = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    rows = dy.reshape(n, groups, w.shape[0] // groups, *counts)
    for offset in kernel_offsets(w.shape[2:]):
        place = (slice(None),) * 3 + window_slices(offset, counts, op.strides, op.dilation)
        padded[place] += np.einsum("ngo...,goc->ngc...", rows, kernel[(slice(None),) * 3 + offset])
    inner = tuple(slice(pads[0], pads[0] + size) for size, pads in zip(extent, op.padding))
    return padded[(slice(None),) * 3 + inner].reshape(n, groups * w.shape[1], *extent)


def convolve_weight(x: Array, dy: Array, kernel: Sequence[int], op: WindowAttributes) -> Array:
    """The adjoint of `convolve` with respect to w: dw[o, c, k] = sum over n, p of dy[n, o, p] * x[n, c, p * stride + k
    * dilation - before]."""
    import numpy as np

    n, counts, groups = x.shape[0], dy.shape[2:], op.groups
    channels = x.shape[1] // groups
    padded = np.pad(x, [(0, 0), (0, 0), *op.padding]).reshape(n, groups, channels, *(
        size + sum(pads) for size, pads in zip(x.shape[2:], op.padding)))
    windows = math.prod(counts)
    rows = dy.reshape(n, groups, dy.shape[1] // groups, windows)
    dw = np.zeros((groups, dy.shape[1] // groups, channels, *kernel), x.dtype)
    for offset in kernel_offsets(kernel):
        patch = padded[(slice(None),) * 3 + window_slices(offset, counts, op.strides, op.dilation)]
        dw[(slice(None),) * 3 + offset] = np.einsum("ngcp,ngop->goc", patch.reshape(n, groups, channels, windows), rows)
    return dw.reshape(dy.shape[1], channels, *kernel)


def wide_for(op: Operation, *arrays: Array) -> list[Array]:
    """Arrays in the dtype that the op computes in: f32 for 16-bit floats, and at least as wide as the result."""
    import numpy as np

    target = widen(np.zeros((), numpy_dtype(tensor_type(op.results[0]).element))).dtype
    return [widen(array).astype(np.result_type(widen(array).dtype, target), copy=False) for array in arrays]


class Convolution(WindowAttributes):
    """Base of conv1d, conv2d, conv3d."""

    __slots__ = ()
    x = operand(FLOAT_TENSOR)
    weight = operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        self.check_window()
        element = same_element(x=self.x, weight=self.weight)
        x, w = tensor_type(self.x), tensor_type(self.weight)
        check_ranks(self, ("operand 'x'", x), ("operand 'weight'", w))
        dims = convolution_dims(self, permuted(x.dims, self.data_axes), permuted(w.dims, self.kernel_axes))
        return [tensor(permuted(dims, invert(self.out_axes)), result_element(self, element))]

    def evaluate(self, x: Array, weight: Array) -> Array:
        wide_x, wide_w = wide_for(self, x.transpose(self.data_axes), weight.transpose(self.kernel_axes))
        counts = [int(window_size(size, kernel, pads[0], pads[1], stride, 1, dilation))  # type: ignore[arg-type]
                  for size, kernel, pads, stride, dilation
                  in zip(wide_x.shape[2:], wide_w.shape[2:], self.padding, self.strides, self.dilation)]
        y = convolve(wide_x, wide_w, counts, self).transpose(invert(self.out_axes))
        return y.astype(numpy_dtype(tensor_type(self.results[0]).element))


def window_fields(spatial: int, kernel_layout: str = "OI") -> dict[str, Any]:
    """The fields of a window op with `spatial` axes: strides and dilation 1, padding 0, layouts with the channels
    first."""
    letters = SPATIAL[spatial]
    return {
        "spatial": spatial,
        "strides": attribute(INTEGERS, default=(1,) * spatial),
        "padding": attribute(PAIRS, default=((0, 0),) * spatial),
        "dilation": attribute(INTEGERS, default=(1,) * spatial),
        "layout": attribute(STRING, default="NC" + letters),
        "kernel_layout": attribute(STRING, default=kernel_layout + letters),
    }


_CONVOLUTION = """Convolution (as in neural networks, so a correlation) over {spatial} spatial ax{plural}.

y[n, o, p] = sum over c, k of x[n, c, p * strides + k * dilation - before] * weight[o, c, k]; zeros lie around x.
x is stored as `layout`, weight as `kernel_layout` (O output channels, I input channels of one group), y as `out_layout`
(default: `layout`). padding is [before, after] for each spatial axis; a window count is
(size + before + after - (dilation * (kernel - 1) + 1)) // stride + 1. With `groups` output channel o reads the channels
of group o // (O / groups). The element type of the result is that of its type (default: the operands'). Adjoints:
`bwd.{name}_input`, `bwd.{name}_weight`."""


def _declare_convolution(spatial: int) -> type[Convolution]:
    name = f"conv{spatial}d"
    return type(f"Conv{spatial}dOp", (Convolution,), {
        "__slots__": (), "__module__": __name__, "name": f"hl.{name}",
        "__doc__": _CONVOLUTION.format(spatial=spatial, plural="is" if spatial == 1 else "es", name=name),
        **window_fields(spatial)})


Conv1dOp, Conv2dOp, Conv3dOp = (_declare_convolution(spatial) for spatial in (1, 2, 3))


class Conv2dTransposeOp(WindowAttributes):
    """The adjoint of conv2d as an op of its own: x[n, i, p] * weight[i, o, k] is added to y[n, o, p * strides + k *
    dilation - before].

    In `kernel_layout` I are the channels of x and O the output channels of one group; the default "IOHW" is the memory
    order of PyTorch's and TVM's weights, [channels of x, output channels / groups, kh, kw]. The size of y is
    (size - 1) * stride - before - after + dilation * (kernel - 1) + 1 + output_padding, with output_padding below the
    stride. Its gradients are a conv2d and a `bwd.conv2d_weight`.
    """

    __slots__ = ()
    name = "hl.conv2d_transpose"
    x = operand(FLOAT_TENSOR)
    weight = operand(FLOAT_TENSOR)
    spatial = 2
    strides = attribute(INTEGERS, default=(1, 1))
    padding = attribute(PAIRS, default=((0, 0), (0, 0)))
    dilation = attribute(INTEGERS, default=(1, 1))
    layout = attribute(STRING, default="NCHW")
    kernel_layout = attribute(STRING, default="IOHW")
    output_padding = attribute(INTEGERS, default=(0, 0))
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def weight_axes(self) -> list[int]:
        """The axes of the weight in the order I, O, spatial: the O, I order of the convolution whose adjoint this
        is."""
        return layout_axes(self.kernel_layout, "IOHW")

    def infer(self) -> list[Type]:
        self.check_window()
        check_length(self.output_padding, 2, "output_padding")
        if any(not 0 <= extra < stride for extra, stride in zip(self.output_padding, self.strides)):
            raise InvalidOperation(f"attribute 'output_padding' is {list(self.output_padding)}, expected values in "
                                   f"[0, stride) for strides {list(self.strides)}")
        element = same_element(x=self.x, weight=self.weight)
        x, w = tensor_type(self.x), tensor_type(self.weight)
        check_ranks(self, ("operand 'x'", x), ("operand 'weight'", w))
        data, kernel = permuted(x.dims, self.data_axes), permuted(w.dims, self.weight_axes)
        if provably_different(data[1], kernel[0]):
            raise InvalidOperation(f"has {data[1]} input channels, but the weight has {kernel[0]}")
        if isinstance(kernel[0], int) and kernel[0] % self.groups:
            raise InvalidOperation(f"has {kernel[0]} input channels, expected a multiple of groups ({self.groups})")
        dims = [data[0], multiply(kernel[1], self.groups), *self.extent(data[2:], kernel[2:])]
        return [tensor(permuted(dims, invert(self.out_axes)), result_element(self, element))]

    def extent(self, sizes: Sequence[Size], kernel: Sequence[Size]) -> list[Size]:
        """The spatial sizes of the result. Raises InvalidOperation where one is negative."""
        found: list[Size] = []
        for axis in range(2):
            span = dilated(kernel[axis], self.dilation[axis])
            size = add(multiply(subtract(sizes[axis], 1), self.strides[axis]), span)
            size = add(size, self.output_padding[axis] - sum(self.padding[axis]))
            if isinstance(size, int) and size < 1:
                raise InvalidOperation(f"has result size {size} on axis {'HW'[axis]}: padding "
                                       f"{list(self.padding[axis])} is too large")
            found.append(size)
        return found

    def evaluate(self, x: Array, weight: Array) -> Array:
        wide_x, wide_w = wide_for(self, x.transpose(self.data_axes), weight.transpose(self.weight_axes))
        extent = [int(size) for size in self.extent(wide_x.shape[2:], wide_w.shape[2:])]  # type: ignore[arg-type]
        y = convolve_input(wide_x, wide_w, extent, self).transpose(invert(self.out_axes))
        return y.astype(numpy_dtype(tensor_type(self.results[0]).element))
