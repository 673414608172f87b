"""Small pieces that the decompositions of neural-network ops share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.types import F64, FloatType, Type
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import (
    accumulation_element,
    cast_to,
    expand_axes,
    expand_like,
    full_like,
    reduce_sum,
    scalar,
)
from gradopt.lowering.decompose.extents import extents_of

__all__ = ["absolute_below", "compare", "constant_times", "mean", "product_of", "select_constant", "wide",
           "working_element", "zero_where"]


def wide(b: Builder, x: Value) -> Value:
    """`x` in the element type that sums of it use: f32 for 16-bit floats."""
    return cast_to(b, x, accumulation_element(tensor_type(x).element))


def working_element(*values: Value | Type) -> Type:
    """The widest of the accumulation element types."""
    elements = [accumulation_element(v if isinstance(v, Type) else tensor_type(v).element) for v in values]
    return max(elements, key=lambda element: element.width if isinstance(element, FloatType) else 0)


def product_of(b: Builder, masked: Any) -> Callable[[Value, Value], Value]:
    """The product of a cotangent and a local derivative: mul_zero where lanes may be cut off."""
    name = "prim.mul_zero" if masked else "prim.mul"
    return lambda g, d: b.create(name, [g, d]).results[0]


def constant_times(b: Builder, x: Value, factor: float) -> Value:
    """x * factor."""
    return x if factor == 1 else b.prim.mul(x, full_like(b, x, factor))


def compare(b: Builder, x: Value, predicate: str, value: float | int | Value) -> Value:
    """x compared with a number, or with another value of its type."""
    other = value if isinstance(value, Value) else full_like(b, x, value)
    return b.prim.cmp(x, other, predicate=predicate)


def select_constant(b: Builder, cond: Value, number: float | int, x: Value) -> Value:
    """`number` where `cond` is true, x elsewhere."""
    return b.prim.select(cond, full_like(b, x, number), x)


def zero_where(b: Builder, keep: Value, x: Value) -> Value:
    """x where `keep` is true, 0 elsewhere."""
    return b.prim.select(keep, x, full_like(b, x, 0))


def absolute_below(b: Builder, x: Value, bound: float) -> Value:
    """i1: |x| < bound; false for NaN. With an infinite bound: whether x is finite."""
    return compare(b, b.prim.abs(x), "lt", bound)


def mean(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """The mean over axes, spread over them again. The count is exact in the element type up to its precision."""
    total = reduce_sum(b, x, axes)
    return expand_axes(b, b.prim.div(total, count_like(b, x, axes, total)), x, axes)


def count_like(b: Builder, x: Value, axes: Sequence[int], like: Value) -> Value:
    """The number of elements of x along axes, as a float everywhere in the shape of `like`."""
    extents = extents_of(b, x)
    count = extents[axes[0]]
    for axis in axes[1:]:
        count = count * extents[axis]
    element = tensor_type(like).element
    if isinstance(count.size, int):
        return full_like(b, like, count.size)
    exact = b.create("prim.cast", [count.value], [tensor_type(scalar(b, 0, F64)).with_element(element)]).results[0]
    return expand_like(b, exact, like)
