"""Decompositions of pooling.

A maximum is found by `prim.arg_reduce` over the windows (first maximum, NaN wins), then read by `prim.gather` from the
flat image, so that its derivative has the convention; an average is a convolution with ones, divided by what each
window counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.neural.common import invert
from gradopt.ir.builder import Builder
from gradopt.ir.types import I64, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import cast_to, constant, expand_like, full_like, iota_like, reduce_sum, zeros_like
from gradopt.lowering.decompose.extents import Extent, expand, extents_of, iota, permute, reshape, result_extents, static
from gradopt.lowering.decompose.neural import compare, select_constant, wide, zero_where
from gradopt.lowering.decompose.registry import decomposition
from gradopt.lowering.decompose.windows import Window, adjoint_input, convolve, first_of


class Windows:
    """Where the windows of a pooling op lie over an image [N, C, H, W]."""

    def __init__(self, b: Builder, op: Any, image: Sequence[Extent]) -> None:
        self.b, self.op, self.image = b, op, list(image)
        self.counts = [self.count(axis) for axis in range(2)]
        self.result = [*self.image[:2], *self.counts]

    def count(self, axis: int) -> Extent:
        """The number of windows along an axis."""
        op = self.op
        size: Extent = self.image[axis + 2]
        span = (op.pool_size[axis] - 1) * op.dilation[axis] + 1
        stride, (before, after) = op.strides[axis], op.padding[axis]
        if op.ceil_mode:
            every = (size + (before + after - span + stride - 1)) // stride + 1
            found = every.least((size + (before + stride - 1)) // stride)
        else:
            found = (size + (before + after - span)) // stride + 1
        counted: Extent = found.typed(op.window_count(axis, size.size))
        return counted

    def reads(self, axis: int) -> Value:
        """The position in the image of each element of each window: i64 [count, pool size]."""
        b, op = self.b, self.op
        shape = [self.counts[axis], *static(b, op.pool_size[axis])]
        starts = iota(b, shape, 0)
        steps = iota(b, shape, 1)
        spread = b.prim.add(b.prim.mul(starts, full_like(b, starts, op.strides[axis])),
                            b.prim.mul(steps, full_like(b, steps, op.dilation[axis])))
        return b.prim.sub(spread, full_like(b, spread, op.padding[axis][0]))

    def below(self, reads: Value, axis: int, beyond: int = 0) -> Value:
        """Which positions are less than the image's size plus `beyond`."""
        limit = self.image[axis + 2] + beyond
        return compare(self.b, reads, "lt", expand_like(self.b, limit.value, reads))

    def inside(self, axis: int) -> Value:
        """Which elements of each window are in the image: i1 [count, pool size]."""
        reads = self.reads(axis)
        return self.b.prim.and_(compare(self.b, reads, "ge", 0), self.below(reads, axis))

    def always_inside(self) -> bool:
        """True where no window can reach outside."""
        return not self.op.ceil_mode and not any(map(any, self.op.padding))

    def divisors(self, element: Any) -> Value:
        """What each window's sum is divided by, [N, C, Ho, Wo]."""
        b, op = self.b, self.op
        if self.always_inside() or (op.count_include_pad and not op.ceil_mode):
            like = iota(b, self.result, 0)
            return full_like(b, like, op.pool_size[0] * op.pool_size[1], element)
        counts = []
        for axis in range(2):
            counted = self.below(self.reads(axis), axis, op.padding[axis][1]) if op.count_include_pad else self.inside(axis)
            ones = zero_where(b, counted, full_like(b, self.reads(axis), 1))
            counts.append(expand(b, reduce_sum(b, ones, [1]), self.result, [0, 1, 3 - axis]))
        found = b.prim.mul(*counts)
        return cast_to(b, b.prim.max(found, full_like(b, found, 1)), element)


def image_of(b: Builder, op: Any, x: Value) -> Value:
    """x as [N, C, H, W]."""
    return permute(b, x, op.data_axes)


def ones_kernel(b: Builder, op: Any, element: Any) -> Value:
    """A kernel of ones for one channel."""
    return constant(b, 1, tensor([1, 1, *op.pool_size], element))


def sum_window(op: Any) -> Window:
    """The convolution that sums the windows; with ceil_mode zeros behind let the last ones hang over the end."""
    extra = [stride - 1 if op.ceil_mode else 0 for stride in op.strides]
    return Window(op.strides, [[before, after + more] for (before, after), more in zip(op.padding, extra)], op.dilation)


@decomposition("hl.avg_pool2d")
def avg_pool2d(b: Builder, op: Any) -> Value:
    """The windows' sums divided by what they count."""
    x = image_of(b, op, wide(b, op.x))
    windows = Windows(b, op, extents_of(b, x))
    planes = reshape(b, x, [windows.image[0] * windows.image[1], *static(b, 1), *windows.image[2:]])
    total = convolve(b, planes, ones_kernel(b, op, tensor_type(x).element), sum_window(op))
    if op.ceil_mode:
        for axis in range(2):
            total = first_of(b, total, axis + 2, windows.counts[axis])
    total = reshape(b, total, windows.result)
    y = b.prim.div(total, windows.divisors(tensor_type(x).element))
    return cast_to(b, permute(b, y, invert(op.data_axes)), tensor_type(op.x).element)


@decomposition("bwd.avg_pool2d")
def avg_pool2d_backward(b: Builder, op: Any) -> Value:
    """dy / divisor added to each element of the window: the adjoint of the convolution with ones."""
    dy = image_of(b, op, wide(b, op.dy))
    extents = result_extents(b, op)
    windows = Windows(b, op, [extents[axis] for axis in op.data_axes])
    element = tensor_type(dy).element
    rows = b.prim.div(dy, windows.divisors(element))
    planes = reshape(b, rows, [windows.image[0] * windows.image[1], *static(b, 1), *extents_of(b, rows)[2:]])
    dx = adjoint_input(b, op, planes, ones_kernel(b, op, element), windows.image[2:], sum_window(op))
    dx = permute(b, reshape(b, dx, windows.image), invert(op.data_axes))
    return cast_to(b, dx, tensor_type(op.results[0]).element)


class Maximum:
    """The place of each window's first maximum in the flat image, and which windows have one."""

    def __init__(self, b: Builder, op: Any, image: Value) -> None:
        self.b, self.op = b, op
        self.windows = windows = Windows(b, op, extents_of(b, image))
        candidates = self.unfolded(b.prim.stop_gradient(image))
        self.found: Value | None = None
        index = b.prim.arg_reduce(candidates, kind="max", axis=4)
        if not windows.always_inside():
            inside = [windows.inside(axis) for axis in range(2)]
            size = static(b, *op.pool_size)
            shape = [windows.counts[0], windows.counts[1], *size]
            both = b.prim.and_(expand(b, inside[0], shape, [1, 3]), expand(b, inside[1], shape, [0, 2]))
            flat = reshape(b, both, [*windows.counts, size[0] * size[1]])
            candidates = select_constant(b, b.prim.not_(expand(b, flat, [*windows.result, size[0] * size[1]], [0, 1])), -math.inf,
                                         candidates)
            index = self.first_inside(candidates, flat)
        self.place = self.flat_place(index)

    def unfolded(self, image: Value) -> Value:
        """The windows' elements, [N, C, Ho, Wo, kh * kw]; what is outside is read from the nearest pixel."""
        b, windows = self.b, self.windows
        rows = b.prim.gather(image, self.clamped(windows.reads(0), 0), axis=2, mode="fast")
        both = b.prim.gather(rows, self.clamped(windows.reads(1), 1), axis=4, mode="fast")
        size = static(b, *self.op.pool_size)
        return reshape(b, permute(b, both, [0, 1, 2, 4, 3, 5]), [*windows.result, size[0] * size[1]])

    def clamped(self, reads: Value, axis: int) -> Value:
        """Positions brought into the image."""
        if self.windows.always_inside():
            return reads
        b = self.b
        last = expand_like(b, (self.windows.image[axis + 2] + -1).value, reads)
        return b.prim.max(b.prim.min(reads, last), full_like(b, reads, 0))

    def first_inside(self, candidates: Value, inside: Value) -> Value:
        """The first maximum; where all candidates are -inf, the first element that is inside."""
        b = self.b
        best = b.prim.arg_reduce(candidates, kind="max", axis=4)
        lowest = compare(b, b.prim.reduce(candidates, kind="max", axes=[4]), "eq", -math.inf)
        counted = b.prim.cast(inside, result_types=[tensor_type(inside).with_element(I64)])
        first = expand(b, b.prim.arg_reduce(counted, kind="max", axis=2), self.windows.result, [0, 1])
        self.found = expand(b, b.prim.reduce(inside, kind="or", axes=[2]), self.windows.result, [0, 1])
        return b.prim.select(lowest, first, best)

    def flat_place(self, index: Value) -> Value:
        """((n C + c) H + h) W + w for an index h' kw + w' into each window."""
        b, op, windows = self.b, self.op, self.windows
        width = full_like(b, index, op.pool_size[1])
        place = iota_like(b, index, 0)
        parts = (iota_like(b, index, 1), self.position(b.prim.div(index, width), 0), self.position(b.prim.rem(index, width), 1))
        for part, extent in zip(parts, windows.image[1:]):
            place = b.prim.add(b.prim.mul(place, expand_like(b, extent.value, place)), part)
        return place

    def position(self, step: Value, axis: int) -> Value:
        """The position in the image of an element of each window, brought into it."""
        b, op = self.b, self.op
        start = b.prim.mul(iota_like(b, step, axis + 2), full_like(b, step, op.strides[axis]))
        read = b.prim.add(start, b.prim.mul(step, full_like(b, step, op.dilation[axis])))
        return self.clamped(b.prim.sub(read, full_like(b, read, op.padding[axis][0])), axis)

    @property
    def flat(self) -> list[Extent]:
        """The shape of the flat image."""
        n, c, h, w = self.windows.image
        return [n * c * h * w]


@decomposition("hl.max_pool2d")
def max_pool2d(b: Builder, op: Any) -> Value:
    """The element at the place of the first maximum; -inf for a window without elements."""
    x = image_of(b, op, op.x)
    largest = Maximum(b, op, x)
    y = b.prim.gather(reshape(b, x, largest.flat), largest.place, axis=0, mode="fast")
    if largest.found is not None:
        y = select_constant(b, b.prim.not_(largest.found), -math.inf, y)
    return permute(b, y, invert(op.data_axes))


@decomposition("bwd.max_pool2d")
def max_pool2d_backward(b: Builder, op: Any) -> Value:
    """dy added at the place of the first maximum."""
    x, dy = image_of(b, op, op.x), image_of(b, op, op.dy)
    largest = Maximum(b, op, x)
    if largest.found is not None:
        dy = zero_where(b, largest.found, dy)
    flat = zeros_like(b, reshape(b, x, largest.flat))
    dx = b.prim.scatter(flat, largest.place, dy, axis=0, kind="add", mode="fast")
    return permute(b, reshape(b, dx, largest.windows.image), invert(op.data_axes))
