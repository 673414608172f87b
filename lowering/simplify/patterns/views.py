"""Patterns for ops that move elements: reshape, expand, permute, slice, pad, flip, concat, reductions over nothing."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import UNKNOWN
from gradopt.ir.types import TensorType
from gradopt.ir.values import Value
from gradopt.lowering.simplify.patterns import Outcome, pattern
from gradopt.lowering.simplify.patterns.match import defined_by, is_static

SAME_TYPE = ("prim.reshape", "prim.slice", "hl.reshape", "hl.flatten", "hl.broadcast_to", "hl.collapse_sum_to",
             "hl.expand_dims", "hl.squeeze")


def has_unknown(type: TensorType) -> bool:
    """True if a size is known at run time only and has no name."""
    return UNKNOWN in type.dims


@pattern(*SAME_TYPE)
def view_of_same_type(op: Operation, b: Builder) -> Outcome:
    """A reshape, broadcast or slice whose result has the operand's type (with no unnamed size) moves nothing."""
    x = op._operands[0]
    return x if x.type is op.results[0].type and not has_unknown(tensor_type(x)) else None


@pattern("prim.reshape", "hl.reshape")
def reshape_again(op: Operation, b: Builder) -> Outcome:
    """reshape(reshape(x)) -> reshape(x)."""
    inner = defined_by(op._operands[0], op.name)
    if inner is None:
        return None
    x, target = inner._operands[0], tensor_type(op.results[0])
    # the names of the target are read from the operand's type, so they must be there
    known = {str(size) for size in tensor_type(x).dims}
    if not all(isinstance(size, int) or size is UNKNOWN or str(size) in known for size in target.dims):
        return None
    attributes: dict[str, Any] = dict(op.properties)
    return b.create(type(op), [x, *op._operands[1:]], [target], **attributes).results[0]


@pattern("prim.expand")
def expand_nothing(op: Operation, b: Builder) -> Outcome:
    """An expand whose axes all have size 1 is a reshape, or nothing."""
    x, target = op._operands[0], tensor_type(op.results[0])
    if not is_static(x, op.results[0]) or any(target.shape[axis] != 1 for axis in op.axes):  # type: ignore[attr-defined]
        return None
    return x if x.type is target else b.create("prim.reshape", [x], [target]).results[0]


@pattern("prim.expand")
def expand_again(op: Operation, b: Builder) -> Outcome:
    """expand(expand(x)) -> expand(x) for static shapes."""
    inner = defined_by(op._operands[0], "prim.expand")
    if inner is None or not is_static(inner._operands[0], inner.results[0], op.results[0]):
        return None
    between, target = tensor_type(inner.results[0]).shape, tensor_type(op.results[0]).shape
    stretched = set(op.axes)  # type: ignore[attr-defined]
    places = [axis for axis, size in enumerate(target) if axis not in stretched and size != 1]
    sources = [axis for axis, size in enumerate(between) if size != 1]
    stretched.update(place for place, source in zip(places, sources) if source in set(inner.axes))  # type: ignore[attr-defined]
    return b.create("prim.expand", [inner._operands[0]], [op.results[0].type], axes=sorted(stretched)).results[0]


@pattern("prim.expand")
def expand_reshape(op: Operation, b: Builder) -> Outcome:
    """expand(reshape(x)) -> expand(x) where the reshape only adds or drops sizes of 1."""
    inner = defined_by(op._operands[0], "prim.reshape")
    if inner is None or not is_static(inner._operands[0], inner.results[0], op.results[0]):
        return None
    x = inner._operands[0]
    own, reshaped = ([size for size in tensor_type(value).shape if size != 1] for value in (x, inner.results[0]))
    if own != reshaped or tensor_type(x).rank > tensor_type(op.results[0]).rank:
        return None
    return b.create("prim.expand", [x], [op.results[0].type], axes=op.axes).results[0]  # type: ignore[attr-defined]


def permutation(op: Operation) -> list[int]:
    """The axes of a permute of either dialect, none negative."""
    rank = tensor_type(op._operands[0]).rank
    axes = op.axes  # type: ignore[attr-defined]
    return list(range(rank - 1, -1, -1)) if axes is None else [axis % rank for axis in axes]


PERMUTES = ("prim.permute", "hl.permute_dims")


@pattern(*PERMUTES)
def permute_nothing(op: Operation, b: Builder) -> Outcome:
    """A permute that leaves every axis at its place."""
    axes = permutation(op)
    return op._operands[0] if axes == sorted(axes) else None


@pattern(*PERMUTES)
def permute_again(op: Operation, b: Builder) -> Outcome:
    """permute(permute(x)) -> permute(x)."""
    inner = defined_by(op._operands[0], op.name)
    if inner is None:
        return None
    first = permutation(inner)
    axes = [first[axis] for axis in permutation(op)]
    return b.create(type(op), [inner._operands[0]], [op.results[0].type], axes=axes).results[0]


@pattern("prim.slice")
def slice_again(op: Operation, b: Builder) -> Outcome:
    """slice(slice(x)) -> slice(x) for static shapes."""
    inner = defined_by(op._operands[0], "prim.slice")
    if inner is None or not is_static(inner._operands[0], inner.results[0]):
        return None
    begins, ends, strides = [], [], []
    for outer in zip(inner.begin, inner.strides, op.begin, op.end, op.strides, tensor_type(inner.results[0]).shape):  # type: ignore[attr-defined]
        low, step, begin, end, stride, size = outer
        end = min(end, size)
        count = -(-(end - begin) // stride)
        begins.append(low + begin * step if count > 0 else low)  # what takes nothing begins where there is something
        strides.append(step * stride)
        ends.append(begins[-1] + (count - 1) * strides[-1] + 1 if count > 0 else begins[-1])
    return b.create("prim.slice", [inner._operands[0]], [op.results[0].type], begin=begins, end=ends, strides=strides).results[0]


@pattern("prim.pad")
def pad_nothing(op: Operation, b: Builder) -> Outcome:
    """A pad by nothing."""
    widths = (*op.low, *op.high, *op.interior)  # type: ignore[attr-defined]
    return None if any(widths) else op._operands[0]


@pattern("prim.slice")
def slice_of_pad(op: Operation, b: Builder) -> Outcome:
    """A slice that takes back exactly what a pad was put around."""
    inner = defined_by(op._operands[0], "prim.pad")
    if inner is None or not is_static(inner._operands[0], inner.results[0]):
        return None
    x = inner._operands[0]
    for size, low, spread, begin, end, stride in zip(tensor_type(x).shape, inner.low, inner.interior, op.begin, op.end,  # type: ignore[attr-defined]
                                                     op.strides):  # type: ignore[attr-defined]
        assert size is not None
        if low < 0 or begin != low or stride != spread + 1 or not (size - 1) * stride < end - begin <= size * stride:
            return None
    return x if x.type is op.results[0].type else None


@pattern("prim.flip", "hl.flip")
def flip_again(op: Operation, b: Builder) -> Outcome:
    """A flip of no axis, of axes of size 1, or of the axes that were flipped before."""
    x = op._operands[0]
    type = tensor_type(x)
    axes = op.axes  # type: ignore[attr-defined]
    axes = {axis % type.rank for axis in (range(type.rank) if axes is None else axes)}
    if all(type.shape[axis] == 1 for axis in axes):
        return x
    inner = defined_by(x, op.name)
    if inner is None or inner.properties != op.properties:
        return None
    return inner._operands[0]


@pattern("prim.concat", "hl.concat")
def concat_one(op: Operation, b: Builder) -> Outcome:
    """A concatenation of one tensor, and parts that are empty along the axis."""
    axis = op.axis % tensor_type(op._operands[0]).rank  # type: ignore[attr-defined]
    parts: list[Value] = [part for part in op._operands if tensor_type(part).shape[axis] != 0]
    if len(op._operands) == 1:
        return op._operands[0]
    if len(parts) == len(op._operands) or not parts:
        return None
    return parts[0] if len(parts) == 1 else b.create(type(op), parts, [op.results[0].type], axis=axis).results[0]


@pattern("prim.reduce")
def reduce_nothing(op: Operation, b: Builder) -> Outcome:
    """A reduction over no axis, or over axes of size 1."""
    x = op._operands[0]
    if not op.axes:  # type: ignore[attr-defined]
        return x
    if is_static(x) and all(tensor_type(x).shape[axis] == 1 for axis in op.axes):  # type: ignore[attr-defined]
        return b.create("prim.reshape", [x], [op.results[0].type]).results[0]
    return None


@pattern("prim.reduce")
def reduce_again(op: Operation, b: Builder) -> Outcome:
    """reduce(reduce(x)) -> reduce(x) of the kinds in which the order does not matter to the bits."""
    inner = defined_by(op._operands[0], "prim.reduce")
    exact = op.kind in ("max", "min", "and", "or") or not getattr(tensor_type(op.results[0]).element, "is_float", True)  # type: ignore[attr-defined]
    if inner is None or inner.kind != op.kind or not exact:  # type: ignore[attr-defined]
        return None
    x = inner._operands[0]
    left = [axis for axis in range(tensor_type(x).rank) if axis not in inner.axes]  # type: ignore[attr-defined]
    axes = sorted([*inner.axes, *(left[axis] for axis in op.axes)])  # type: ignore[attr-defined]
    return b.create("prim.reduce", [x], [op.results[0].type], kind=op.kind, axes=axes).results[0]  # type: ignore[attr-defined]


@pattern("prim.dim", "hl.dim")
def dim_known(op: Operation, b: Builder) -> Outcome:
    """The size of a static axis is a constant."""
    type = tensor_type(op._operands[0])
    size = type.shape[op.axis % type.rank]  # type: ignore[attr-defined]
    if size is None:
        return None
    value = DenseElementsAttr(op.results[0].type, size.to_bytes(8, "little"), True)
    return b.create(f"{op.name.split('.')[0]}.constant", (), [op.results[0].type], value=value).results[0]
