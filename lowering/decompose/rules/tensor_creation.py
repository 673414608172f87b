"""Decompositions of the `hl` ops that make tensors and that change an element type."""

from __future__ import annotations

import math
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.creation import NORMAL_BITS, UNIFORM_BITS
from gradopt.ir.builder import Builder
from gradopt.ir.types import F32, F64, I64, UI32, UI64, Type
from gradopt.ir.values import Value
from gradopt.lowering.building import broadcast_to, cast_to, full_like, iota_like, result_extents, scalar, zeros_like
from gradopt.lowering.decompose.extents import Extent, expand, iota, target
from gradopt.lowering.decompose.neural import constant_times
from gradopt.lowering.decompose.registry import decomposition


@decomposition("hl.constant")
def constant(b: Builder, op: Any) -> Value:
    """prim.constant."""
    return b.prim.constant(value=op.value)


@decomposition("hl.zeros", "hl.ones")
def fill(b: Builder, op: Any) -> Value:
    """A constant, expanded where a size is dynamic."""
    number = 1 if op.name == "hl.ones" else 0
    type = tensor_type(op.results[0])
    if type.is_static:
        from gradopt.lowering.building import constant as splat

        return splat(b, number, type)
    return broadcast_to(b, scalar(b, number, type.element), result_extents(b, op))


@decomposition("hl.full")
def full(b: Builder, op: Any) -> Value:
    """The value expanded."""
    return broadcast_to(b, op.value, result_extents(b, op))


@decomposition("hl.zeros_like", "hl.ones_like")
def like(b: Builder, op: Any) -> Value:
    """A constant in the shape of x."""
    return full_like(b, op.x, 1 if op.name == "hl.ones_like" else 0)


@decomposition("hl.full_like")
def filled_like(b: Builder, op: Any) -> Value:
    """The value in the shape of x."""
    from gradopt.lowering.building import expand_like

    return expand_like(b, op.value, op.x)


@decomposition("hl.iota")
def iota_(b: Builder, op: Any) -> Value:
    """prim.iota."""
    type = tensor_type(op.results[0])
    return b.create("prim.iota", op.sizes, [type], axis=op.axis % type.rank).results[0]


@decomposition("hl.eye")
def eye(b: Builder, op: Any) -> Value:
    """Where the last two indices are equal."""
    extents, rank = result_extents(b, op), tensor_type(op.results[0]).rank
    rows, columns = (iota(b, extents, axis) for axis in (rank - 2, rank - 1))
    return cast_to(b, b.prim.cmp(rows, columns, predicate="eq"), tensor_type(op.results[0]).element)


@decomposition("hl.tril", "hl.triu")
def triangle(b: Builder, op: Any) -> Value:
    """select(column - row <= k, x, 0), or >= k."""
    rank = tensor_type(op.x).rank
    distance = b.prim.sub(iota_like(b, op.x, rank - 1), iota_like(b, op.x, rank - 2))
    kept = b.prim.cmp(distance, full_like(b, distance, op.k), predicate="le" if op.name == "hl.tril" else "ge")
    return b.prim.select(kept, op.x, zeros_like(b, op.x))


@decomposition("hl.one_hot")
def one_hot(b: Builder, op: Any) -> Value:
    """Where the counter along the new axis is the index."""
    from gradopt.lowering.decompose.extents import extents_of

    extents, axis = extents_of(b, op.indices), op.normal_axis
    extents.insert(axis, Extent(b, op.depth))
    labels = cast_to(b, op.indices, I64)
    if tensor_type(op.indices).element is UI64:  # a label that i64 cannot hold is outside anyway; it must not wrap into the range
        big = b.prim.cmp(op.indices, full_like(b, op.indices, 1 << 62), predicate="ge")
        labels = b.prim.select(big, full_like(b, labels, -1), labels)
    hits = b.prim.cmp(iota(b, extents, axis), expand(b, labels, extents, [axis]), predicate="eq")
    return cast_to(b, hits, tensor_type(op.results[0]).element)


def random_fraction(b: Builder, op: Any, bits: int, work: Type) -> Value:
    """Random integers in [0, 2**bits) as floats."""
    word = UI64 if work is F64 else UI32
    sizes, types = target(result_extents(b, op), word)
    drawn = b.create("prim.random_bits", [op.key, *sizes], types).results[0]
    width = 64 if work is F64 else 32
    return cast_to(b, b.prim.shr(drawn, full_like(b, drawn, width - bits)), work)


@decomposition("hl.random_uniform")
def random_uniform(b: Builder, op: Any) -> Value:
    """k / 2**bits."""
    element = tensor_type(op.results[0]).element
    bits, work = UNIFORM_BITS[element.text], F64 if element is F64 else F32
    return cast_to(b, constant_times(b, random_fraction(b, op, bits, work), 2.0 ** -bits), element)


@decomposition("hl.random_normal")
def random_normal(b: Builder, op: Any) -> Value:
    """sqrt(2) erfinv((2 k + 1) / 2**bits - 1)."""
    element = tensor_type(op.results[0]).element
    bits, work = NORMAL_BITS[element.text], F64 if element is F64 else F32
    fraction = random_fraction(b, op, bits, work)
    odd = b.prim.add(b.prim.add(fraction, fraction), full_like(b, fraction, 1))
    centred = b.prim.sub(constant_times(b, odd, 2.0 ** -bits), full_like(b, odd, 1))
    return cast_to(b, constant_times(b, b.prim.erfinv(centred), math.sqrt(2)), element)


@decomposition("hl.cast", "hl.bitcast", "hl.shape_cast")
def of_type(b: Builder, op: Any) -> Value:
    """The op of prim with the same result type."""
    return b.create(op.name.replace("hl.", "prim."), op.operands, [op.results[0].type]).results[0]


@decomposition("hl.dim")
def dim(b: Builder, op: Any) -> Value:
    """prim.dim."""
    return b.prim.dim(op.x, axis=op.axis % tensor_type(op.x).rank)
