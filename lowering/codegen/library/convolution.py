"""Kernels of convolutions: every kind is brought to one form (`Problem`), for which convolution_kernels.py writes the launches.

    out[n, g, o, p] = sum over c, k of x~[n, g, c, p * stride + k * dilation - low] * w[g, o, c, k]

with x~ zero outside x. Each operand is a buffer with an offset and a stride for every axis, so layouts, flipped kernels and swapped
axes cost nothing. Where x is spread by a base dilation, the positions of the result fall into classes by their remainder; each
class is a convolution of x itself with a part of the kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradopt.ir.sizes import Size, floordiv, multiply
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.source import dims_of, times, volume

SPATIAL = 3

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Operand:
    """A buffer: strides of the two leading axes (n and c, o and c, or n and o), of a step to the next group, and of the spatial axes."""

    value: Value
    first: Size
    second: Size
    group: Size
    spatial: tuple[Size, Size, Size]
    offset: Size = 0


@dataclass(frozen=True)
class Problem:
    """One convolution in the form above. `channels` and `outputs` are those of one group."""

    images: Size
    groups: int
    channels: Size
    outputs: int
    size: Triple
    kernel: Triple
    result: Triple
    strides: Triple
    dilation: Triple
    low: Triple
    x: Operand
    w: Operand
    out: Operand


def row_major(sizes: Sequence[Size]) -> list[Size]:
    """The strides of a dense tensor."""
    return [times(*sizes[axis + 1:]) for axis in range(len(sizes))]


def widened(values: Sequence[Any], fill: Any) -> tuple[Any, Any, Any]:
    """Three spatial entries, with `fill` in front."""
    entries = [*[fill] * (SPATIAL - len(values)), *values]
    return entries[0], entries[1], entries[2]


def operand(value: Value, sizes: Sequence[Size], order: Sequence[int], group: Size = 0) -> Operand:
    """The operand whose axes `order` are the two leading ones and then the spatial ones."""
    strides = row_major(sizes)
    first, second, *spatial = (strides[axis] for axis in order)
    return Operand(value, first, second, group, widened(spatial, 0))


@library("prim.conv")
def conv(op: Any) -> list[Launch]:
    """`prim.conv`: x[N, C, …], w[O, C / groups, …]."""
    from gradopt.lowering.codegen.library.convolution_kernels import launches

    x_dims, w_dims, out_dims = dims_of(op.x), dims_of(op.w), dims_of(op.results[0])
    axes = range(len(x_dims))
    channels, outputs = w_dims[1], floordiv(w_dims[0], op.groups)
    x = operand(op.x, x_dims, axes)
    w = operand(op.w, w_dims, axes)
    out = operand(op.results[0], out_dims, axes)
    x = replace(x, group=multiply(x.second, channels))
    w = replace(w, group=multiply(w.first, outputs))
    out = replace(out, group=multiply(out.second, outputs))
    problem = Problem(
        x_dims[0], op.groups, channels, outputs, widened(x_dims[2:], 1), widened(w_dims[2:], 1), widened(out_dims[2:], 1),  # type: ignore[arg-type]
        widened(op.strides, 1), widened(op.rhs_dilation, 1), widened([pair[0] for pair in op.padding], 0), x, w, out)
    return [launch for part in phases(problem, widened(op.lhs_dilation, 1)) for launch in launches(part)]


def is_static(problem: Problem) -> bool:
    """True where all sizes but those of images and channels are known."""
    return all(isinstance(size, int) for size in (problem.outputs, *problem.size, *problem.kernel, *problem.result))


def phases(problem: Problem, spread: Triple) -> list[Problem]:
    """The problem with x spread by a base dilation, as convolutions of x itself.

    Along an axis, position p reads x at (p * s + k * d - low) / spread where that is whole. With m = spread / gcd(spread, s) the
    p = r (mod m) have a common set of kernel elements k = k0 (mod spread / gcd(spread, d)), or none.
    """
    if spread == (1, 1, 1):
        return [problem]
    parts = []
    for choice in itertools.product(*(_axis_phases(problem, spread[axis], axis) for axis in range(SPATIAL))):
        parts.append(_phase(problem, choice))
    return [part for part in parts if 0 not in part.result]


@dataclass(frozen=True)
class _AxisPhase:
    """One class along an axis: its first position, how far its positions and kernel elements lie apart, their numbers."""

    first: int
    step: int
    count: int
    kernel_first: int
    kernel_step: int
    kernel_count: int
    stride: int
    dilation: int
    low: int


def _axis_phases(problem: Problem, spread: int, axis: int) -> list[_AxisPhase]:
    from math import gcd

    stride, dilation, low = problem.strides[axis], problem.dilation[axis], problem.low[axis]
    result, kernel = problem.result[axis], problem.kernel[axis]
    step = spread // gcd(spread, stride)
    kernel_step = spread // gcd(spread, dilation)
    found = []
    for first in range(min(step, result)):
        start = next((k for k in range(min(kernel_step, kernel)) if (first * stride + k * dilation - low) % spread == 0), None)
        count = -(-(result - first) // step)
        if start is None:
            found.append(_AxisPhase(first, step, count, 0, 1, 0, 1, 1, 0))
            continue
        offset = (first * stride + start * dilation - low) // spread
        found.append(_AxisPhase(first, step, count, start, kernel_step, -(-(kernel - start) // kernel_step), stride * step // spread,
                                dilation * kernel_step // spread, -offset))
    return found


def _phase(problem: Problem, choice: Sequence[_AxisPhase]) -> Problem:
    def triple(name: str) -> Triple:
        values = [getattr(part, name) for part in choice]
        return values[0], values[1], values[2]

    def part_of(given: Operand, first: str, step: str) -> Operand:
        from gradopt.ir.sizes import add

        offset = given.offset
        for stride, part in zip(given.spatial, choice):
            offset = add(offset, multiply(stride, getattr(part, first)))
        spatial = [multiply(stride, getattr(part, step)) for stride, part in zip(given.spatial, choice)]
        return replace(given, offset=offset, spatial=(spatial[0], spatial[1], spatial[2]))

    return replace(problem, kernel=triple("kernel_count"), result=triple("count"), strides=triple("stride"),
                   dilation=triple("dilation"), low=triple("low"), w=part_of(problem.w, "kernel_first", "kernel_step"),
                   out=part_of(problem.out, "first", "step"))


def elements(problem: Problem) -> Size:
    """The number of results."""
    return times(problem.images, problem.groups, problem.outputs, volume(problem.result))
