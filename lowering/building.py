"""Small builders that rules of decomposition, batching and differentiation share. Everything works for dynamic sizes too.

What takes one value as the model of a shape comes from `autodiff/helpers.py`; here are the builders that broadcast as NumPy
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradopt.dialects.constraints import merge_size, tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.sizes import UNKNOWN, Size
from gradopt.ir.types import Type, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import (
    accumulation_element,
    cast_to,
    constant,
    expand_axes,
    expand_like,
    full_like,
    iota_like,
    logistic_slope,
    match_type,
    reduce_sum,
    scalar,
    size_operands,
    size_value,
    tanh_slope,
    zeros_like,
)
from gradopt.lowering.decompose.extents import Extent, extents_of, result_extents
from gradopt.lowering.decompose.extents import reshape as reshape_to

__all__ = ["Extent", "accumulation_element", "broadcast_all", "broadcast_extents", "broadcast_to", "cast_to", "constant",
           "expand_axes",
           "expand_like", "extents_of", "full_extents", "full_like", "iota_like", "keep_axes", "logistic_slope",
           "match_type", "reduce_sum", "reshape_to", "result_extents", "scalar", "size_operands", "size_value", "tanh_slope", "unbroadcast",
           "zeros_like"]


def broadcast_extents(b: Builder, values: Sequence[Value]) -> list[Extent]:
    """The sizes of all values broadcast together as NumPy does (two sizes that only run time knows count as equal)."""
    rank = max(tensor_type(value).rank for value in values)
    extents: list[Extent] = []
    for position in range(rank):
        size: Size = 1
        build: Callable[[], Value] | None = None
        for value in values:
            axis = position - rank + tensor_type(value).rank
            if axis < 0 or tensor_type(value).dims[axis] == 1:
                continue
            own = tensor_type(value).dims[axis]
            size = own if build is None else merge_size(size, own)
            if build is None or size is own:
                build = _size_reader(b, value, axis)
        extents.append(Extent(b, size, build))
    return extents


def _size_reader(b: Builder, value: Value, axis: int) -> Callable[[], Value]:
    return lambda: b.create("prim.dim", [value], axis=axis).results[0]


def broadcast_to(b: Builder, x: Value, extents: Sequence[Extent]) -> Value:
    """`x` with the sizes `extents`, to which its own broadcast as in NumPy; `x` itself where they are the same."""
    type = tensor_type(x)
    offset = len(extents) - type.rank
    own: list[Size] = []
    spread = list(range(offset))
    for axis, size in enumerate(type.dims):
        target = extents[offset + axis].size
        own.append(1 if size == 1 else target)
        if size == 1 and target != 1:
            spread.append(offset + axis)
    x = match_type(b, x, tensor(own, type.element))
    if not spread:
        return x
    sizes = [extent.value for extent in extents if extent.size is UNKNOWN]
    target_type = tensor([extent.size for extent in extents], type.element)
    return b.create("prim.expand", [x, *sizes], [target_type], axes=spread).results[0]


def broadcast_all(b: Builder, *values: Value) -> list[Value]:
    """All values with one shape."""
    if all(value.type is values[0].type for value in values):
        return list(values)
    extents = broadcast_extents(b, values)
    return [broadcast_to(b, value, extents) for value in values]


def unbroadcast(b: Builder, g: Value, extents: Sequence[Extent]) -> Value:
    """The adjoint of broadcasting to g's shape: g summed to the sizes `extents` (a size that only run time knows was not
    stretched).

    Sums of 16-bit floats accumulate in f32, as every reduction of `prim` does."""
    type = tensor_type(g)
    offset = type.rank - len(extents)
    axes = list(range(offset)) + [offset + axis for axis, extent in enumerate(extents)
                                  if extent.size == 1 and type.dims[offset + axis] != 1]
    reduced = reduce_sum(b, g, axes)
    target = tensor([extent.size for extent in extents], type.element)
    if tensor_type(reduced).rank != target.rank:
        return reshape_to(b, reduced, extents)
    return match_type(b, reduced, target)


def full_extents(b: Builder, value: Value, extents: Sequence[Extent]) -> Value:
    """A rank-0 value everywhere in a shape."""
    return broadcast_to(b, value, extents)


def keep_axes(b: Builder, reduced: Value, x: Value, axes: Sequence[int]) -> Value:
    """What is left of `x` after a reduction over `axes`, with those axes back as size 1 (`keepdims`)."""
    extents = [Extent(b, 1) if axis in axes else extent for axis, extent in enumerate(extents_of(b, x))]
    return reshape_to(b, reduced, extents)


def with_element(value: Value, element: Type) -> Type:
    """The type of a value with another element type."""
    return tensor_type(value).with_element(element)
