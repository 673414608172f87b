"""Decompositions of the reductions of `hl`. 16-bit floats are computed in f32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.values import Value
from gradopt.lowering.building import cast_to, expand_axes, full_like, keep_axes, reduce_sum, reshape_to
from gradopt.lowering.decompose.extents import Extent, extents_of
from gradopt.lowering.decompose.neural import compare, count_like, mean, select_constant, wide, zero_where
from gradopt.lowering.decompose.registry import decomposition

Rule = Callable[[Builder, Value, Sequence[int], Any], Value]


def reduction(*names: str) -> Callable[[Rule], Rule]:
    """Registers `rule(b, x, axes, op)`, which gets x in its accumulation type and returns it without the axes."""
    def decorate(rule: Rule) -> Rule:
        def build(b: Builder, op: Any) -> Value:
            axes = op.normal_axes
            found = cast_to(b, rule(b, wide(b, op.x), axes, op), tensor_type(op.x).element)
            return keep_axes(b, found, op.x, axes) if op.keepdims else found
        build.__doc__ = rule.__doc__
        build.__module__ = rule.__module__
        decomposition(*[f"hl.{name}" for name in names])(build)
        return rule
    return decorate


KINDS = {"sum": "sum", "prod": "prod", "max": "max", "min": "min", "all": "and", "any": "or"}


@reduction(*KINDS)
def plain(b: Builder, x: Value, axes: Sequence[int], op: Any) -> Value:
    """prim.reduce."""
    return b.prim.reduce(x, kind=KINDS[op.name.removeprefix("hl.")], axes=axes)


def average(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """The sum over axes divided by their number of elements."""
    total = reduce_sum(b, x, axes)
    return b.prim.div(total, count_like(b, x, axes, total)) if axes else x


@reduction("mean")
def mean_(b: Builder, x: Value, axes: Sequence[int], op: Any) -> Value:
    """sum / n."""
    return average(b, x, axes)


def variance_of(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """The mean of (x - mean)**2, which does not cancel for a large mean."""
    offset = b.prim.sub(x, mean(b, x, axes) if axes else x)
    return average(b, b.prim.mul(offset, offset), axes)


@reduction("variance")
def variance(b: Builder, x: Value, axes: Sequence[int], op: Any) -> Value:
    """The mean of (x - mean)**2."""
    return variance_of(b, x, axes)


def safe_root(b: Builder, x: Value, root: Callable[[Value], Value]) -> Value:
    """root(x), and 0 with derivative 0 where x is 0."""
    zero = compare(b, x, "eq", 0)
    return select_constant(b, zero, 0, root(select_constant(b, zero, 1, x)))


@reduction("std")
def std(b: Builder, x: Value, axes: Sequence[int], op: Any) -> Value:
    """sqrt(variance), with derivative 0 where it is 0."""
    return safe_root(b, variance_of(b, x, axes), b.prim.sqrt)


@reduction("norm")
def norm(b: Builder, x: Value, axes: Sequence[int], op: Any) -> Value:
    """(sum |x|**p)**(1/p), with derivative 0 where it is 0."""
    if op.ord == 2:
        return safe_root(b, reduce_sum(b, b.prim.mul(x, x), axes), b.prim.sqrt)
    size = b.prim.abs(x)
    if op.ord == 1:
        return reduce_sum(b, size, axes)
    if op.ord == math.inf:
        largest = b.prim.reduce(size, kind="max", axes=axes)
        return b.prim.max(largest, full_like(b, largest, 0)) if has_no_element(x, axes) else largest
    powers = safe_root(b, size, lambda value: b.prim.pow(value, full_like(b, value, op.ord)))
    return safe_root(b, reduce_sum(b, powers, axes), lambda total: b.prim.pow(total, full_like(b, total, 1 / op.ord)))


def has_no_element(x: Value, axes: Sequence[int]) -> bool:
    """True where an axis is empty, or may be."""
    return any(not isinstance(tensor_type(x).dims[axis], int) or tensor_type(x).dims[axis] == 0 for axis in axes)


@reduction("logsumexp")
def logsumexp(b: Builder, x: Value, axes: Sequence[int], op: Any) -> Value:
    """log(sum(e**(x - m))) + m with the largest finite m as a constant; where the sum is 0 it is -inf with derivative 0."""
    if not axes:
        return x
    largest = b.prim.reduce(x, kind="max", axes=axes)
    shift = b.prim.stop_gradient(zero_where(b, compare(b, b.prim.abs(largest), "lt", math.inf), largest))
    total = reduce_sum(b, b.prim.exp(b.prim.sub(x, expand_axes(b, shift, x, axes))), axes)
    empty = compare(b, total, "eq", 0)
    found = b.prim.add(b.prim.log(select_constant(b, empty, 1, total)), shift)
    return select_constant(b, empty, -math.inf, found)


@decomposition("hl.argmax", "hl.argmin")
def arg_reduction(b: Builder, op: Any) -> Value:
    """prim.arg_reduce, over all elements in a row where no axis is given."""
    kind = op.name.removeprefix("hl.arg")
    extents = extents_of(b, op.x)
    if op.axis is None:
        count = Extent(b, 1)
        for extent in extents:
            count = count * extent
        found = b.prim.arg_reduce(reshape_to(b, op.x, [count]), kind=kind, axis=0)
        return reshape_to(b, found, [Extent(b, 1)] * len(extents)) if op.keepdims else found
    axis = op.axis % len(extents)
    found = b.prim.arg_reduce(op.x, kind=kind, axis=axis)
    return keep_axes(b, found, op.x, [axis]) if op.keepdims else found
