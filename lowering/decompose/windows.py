"""Convolutions and their two adjoints as `prim.conv`, in the order N C spatial and O I spatial.

One axis: y[p] = sum over k of x[p s + k d - before] w[k] (stride s, dilation d, K kernel elements, extent of a window E
= (K - 1) d + 1).
    dx[i] = sum over k of dy[(i + before - k d) / s] w[k]: dy spread by s, the kernel reversed, E - 1 - before zeros in
    front. dw[k] = sum over p of x[p s + k d - before] dy[p]: dy as a kernel dilated by s, stride d, `before` zeros in
    front; the batch is summed
            over, so it takes the channels' place.
Where the number of zeros behind depends on a remainder that only run time knows, the most that can be needed are taken
and the result cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.prim.shape import END
from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.sizes import Size, add, multiply, subtract
from gradopt.ir.values import Value
from gradopt.lowering.decompose.extents import Extent, extents_of, iota, permute, reshape

__all__ = ["Window", "adjoint_input", "adjoint_weight", "convolve", "first_of", "window_of"]


class Window(NamedTuple):
    """How a window moves: one entry a spatial axis."""

    strides: Sequence[int]
    padding: Sequence[Sequence[int]]
    dilation: Sequence[int]
    groups: int = 1


def window_of(op: Any) -> Window:
    """The window of a convolution op."""
    return Window(op.strides, op.padding, op.dilation, op.groups)


def convolve(b: Builder, x: Value, w: Value, window: Window) -> Value:
    """The forward convolution."""
    ones = [1] * len(window.strides)
    return b.prim.conv(x, w, strides=window.strides, padding=window.padding, lhs_dilation=ones,
                       rhs_dilation=window.dilation, groups=window.groups)


def first_of(b: Builder, x: Value, axis: int, extent: Extent) -> Value:
    """The first `extent` elements along an axis."""
    type = tensor_type(x)
    if isinstance(extent.size, int):
        if type.dims[axis] == extent.size:
            return x
        end = [END if not isinstance(size, int) else size for size in type.dims]
        end[axis] = extent.size
        return b.prim.slice(x, begin=[0] * type.rank, end=end, strides=[1] * type.rank)
    return b.prim.gather(x, iota(b, [extent], 0), axis=axis, mode="fast")


def static_kernel(op: Any, sizes: Sequence[Size]) -> list[int]:
    """The sizes of a kernel. Raises GradoptError for a dynamic one: the padding of an adjoint would not be a
    constant."""
    found = [size for size in sizes if isinstance(size, int)]
    if len(found) != len(sizes):
        raise GradoptError.at(op.location, f"'{op.name}' op has a kernel of dynamic size {list(map(str, sizes))}, expected "
                              "static sizes")
    return found


def adjoint_input(b: Builder, op: Any, dy: Value, w: Value, extents: Sequence[Extent], window: Window) -> Value:
    """The adjoint with respect to x, whose spatial sizes are `extents`. Raises GradoptError for a kernel of dynamic
    size."""
    counts, kernel = tensor_type(dy).dims[2:], static_kernel(op, tensor_type(w).dims[2:])
    padding, cut = [], []
    for axis, (extent, count, size) in enumerate(zip(extents, counts, kernel)):
        stride, (before, after) = window.strides[axis], window.padding[axis]
        span = (size - 1) * window.dilation[axis] + 1
        behind = subtract(add(extent.size, before), multiply(subtract(count, 1), stride))
        if count == 0:  # nothing to spread: prim.conv sees an empty operand, and `extent` zeros
            behind = add(extent.size, before + 1)
        if isinstance(behind, int):
            padding.append([span - 1 - before, behind - 1])
        else:
            padding.append([span - 1 - before, span - 1 - after + stride - 1])
            if stride > 1:
                cut.append(axis)
    kernel_value = swap_channels(b, w, window.groups)
    if kernel:
        kernel_value = b.prim.flip(kernel_value, axes=list(range(2, 2 + len(kernel))))
    dx = b.prim.conv(dy, kernel_value, strides=[1] * len(kernel), padding=padding, lhs_dilation=window.strides,
                     rhs_dilation=window.dilation, groups=window.groups)
    for axis in cut:
        dx = first_of(b, dx, axis + 2, extents[axis])
    return dx


def swap_channels(b: Builder, w: Value, groups: int) -> Value:
    """w[O, C / groups, …] as [C, O / groups, …], group by group."""
    extents = extents_of(b, w)
    rest = list(range(2, len(extents)))
    if groups == 1:
        return permute(b, w, [1, 0, *rest])
    group = Extent(b, groups)
    split = reshape(b, w, [group, extents[0] // groups, *extents[1:]])
    moved = permute(b, split, [0, 2, 1, *(axis + 1 for axis in rest)])
    return reshape(b, moved, [extents[1] * groups, extents[0] // groups, *extents[2:]])


def adjoint_weight(b: Builder, op: Any, x: Value, dy: Value, kernel: Sequence[Size], window: Window) -> Value:
    """The adjoint with respect to w, whose spatial sizes are `kernel`. Raises GradoptError where they are dynamic."""
    padding, sizes = [], static_kernel(op, kernel)
    for axis, size in enumerate(sizes):
        extent, count = tensor_type(x).dims[axis + 2], tensor_type(dy).dims[axis + 2]
        before, after = window.padding[axis]
        reach = add(multiply(subtract(count, 1), window.strides[axis]), (size - 1) * window.dilation[axis] + 1)
        behind = subtract(reach, add(extent, before))
        padding.append([before, behind if isinstance(behind, int) and count != 0 else after])
    rest = list(range(2, 2 + len(sizes)))
    dw = b.prim.conv(batch_as_channels(b, x, window.groups), permute(b, dy, [1, 0, *rest]), strides=window.dilation,
                     padding=padding, lhs_dilation=[1] * len(sizes), rhs_dilation=window.strides, groups=window.groups)
    for axis, size in enumerate(sizes):
        dw = first_of(b, dw, axis + 2, Extent(b, size))
    return permute(b, dw, [1, 0, *rest])


def batch_as_channels(b: Builder, x: Value, groups: int) -> Value:
    """x[N, groups * C', …] as [C', groups * N, …]."""
    extents = extents_of(b, x)
    rest = list(range(2, len(extents)))
    if groups == 1:
        return permute(b, x, [1, 0, *rest])
    split = reshape(b, x, [extents[0], Extent(b, groups), extents[1] // groups, *extents[2:]])
    moved = permute(b, split, [2, 1, 0, *(axis + 1 for axis in rest)])
    return reshape(b, moved, [extents[1] // groups, extents[0] * groups, *extents[2:]])
