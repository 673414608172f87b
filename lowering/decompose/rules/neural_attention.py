"""Decompositions of attention and rotary embedding.

Keys and values that are cut off must not leak, even NaN, although they pass through `prim.dot` (0 * NaN is NaN there).
So wherever a mask exists the products see keys and values without inf and NaN; a key that had one gives a NaN score to
the queries that attend to it, and a value that had one gives a NaN result there."""

from __future__ import annotations

import math
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.neural.attention import mask_kind_of
from gradopt.dialects.prim.shape import END
from gradopt.ir.builder import Builder
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import cast_to, expand_axes, expand_like, full_like, iota_like, reduce_sum, tanh_slope
from gradopt.lowering.decompose.extents import Extent, expand, extents_of, permute, reshape, static
from gradopt.lowering.decompose.neural import (
    absolute_below,
    compare,
    constant_times,
    product_of,
    select_constant,
    wide,
    zero_where,
)
from gradopt.lowering.decompose.registry import decomposition

KEYS = 4  # the axis of the keys in scores [B, Hk, G, Q, K]


class Heads:
    """q, k and v as [B, Hk, G, Q, D] and [B, Hk, K, D], where query head h is (h // G, h % G)."""

    def __init__(self, b: Builder, op: Any) -> None:
        self.b, self.op = b, op
        self.key_heads = op.heads_of("k", op.k)[1]
        self.groups = op.num_heads // self.key_heads
        self.q, self.k, self.v = self.queries(op.q), self.split(op.k), self.split(op.v)
        self.batch, _, _, self.length, self.width = extents_of(b, self.q)
        self.keys = extents_of(b, self.k)[2]
        self.masked = op.mask_kind != "none"
        self.heads = static(b, op.num_heads)[0]

    def split(self, x: Value) -> Value:
        """An operand in the op's layout as [B, H, S, D]."""
        b, op, x = self.b, self.op, wide(self.b, x)
        if op.layout == "BHSD":
            return x
        if op.layout == "BS(HD)":
            batch, length, features = extents_of(b, x)
            x = reshape(b, x, [batch, length, features // op.head_dim, *static(b, op.head_dim)])
        return permute(b, x, [0, 2, 1, 3])

    def queries(self, x: Value) -> Value:
        """An operand shaped like q as [B, Hk, G, Q, D]."""
        batch, _, length, width = extents_of(self.b, x := self.split(x))
        return reshape(self.b, x, [batch, *static(self.b, self.key_heads, self.groups), length, width])

    def join(self, x: Value) -> Value:
        """[B, H, S, D], or [B, Hk, G, S, D], in the op's layout and element type."""
        b, op = self.b, self.op
        if tensor_type(x).rank == 5:
            batch, _, _, length, width = extents_of(b, x)
            x = reshape(b, x, [batch, self.heads, length, width])
        if op.layout != "BHSD":
            x = permute(b, x, [0, 2, 1, 3])
        if op.layout == "BS(HD)":
            batch, length, heads, width = extents_of(b, x)
            x = reshape(b, x, [batch, length, heads * width])
        return cast_to(b, x, tensor_type(op.q).element)

    @property
    def shape(self) -> list[Extent]:
        """The shape of the scores."""
        return [self.batch, *static(self.b, self.key_heads, self.groups), self.length, self.keys]

    def spread(self, mask: Value) -> Value:
        """A mask or bias in the shape of the scores."""
        b, kind = self.b, mask_kind_of(self.op)
        whole = [self.batch, self.heads, self.length, self.keys]
        if kind == "BHQK":
            axes = [axis for axis, size in enumerate(tensor_type(mask).dims) if size == 1 and whole[axis].size != 1]
        else:
            axes = [1, 2] if kind == "BK" else [0, 1]
        return reshape(b, expand(b, mask, whole, axes), self.shape)

    def unspread(self, x: Value, mask: Value) -> Value:
        """The adjoint of `spread`."""
        b, kind = self.b, mask_kind_of(self.op)
        x = reshape(b, x, [self.batch, self.heads, self.length, self.keys])
        dims = tensor_type(mask).dims
        axes = [axis for axis, size in enumerate(dims) if size == 1] if kind == "BHQK" else [0, 1]
        return reshape(b, reduce_sum(b, x, axes), extents_of(b, mask))

    def allowed(self, like: Value) -> Value | None:
        """i1 in the shape of the scores: which keys each query attends to; None for all."""
        b, op = self.b, self.op
        if op.mask_kind == "custom":
            return self.spread(op.mask_or_bias)
        if op.mask_kind == "bias":
            return compare(b, self.spread(wide(b, op.mask_or_bias)), "ne", -math.inf)
        if op.mask_kind == "none":
            return None
        key, query = iota_like(b, like, KEYS), iota_like(b, like, KEYS - 1)
        last = b.prim.add(query, expand_like(b, b.prim.sub(self.keys.value, self.length.value), query))
        allowed = compare(b, key, "le", last)
        if op.window is not None:
            allowed = b.prim.and_(allowed, compare(b, key, "ge", b.prim.sub(last, full_like(b, last, op.window))))
        return allowed

    def finite(self, x: Value) -> tuple[Value, Value | None]:
        """(k or v with 0 for inf and NaN where there is a mask, which elements those were)."""
        if not self.masked:
            return x, None
        good = absolute_below(self.b, x, math.inf)
        return zero_where(self.b, good, x), self.b.prim.not_(good)

    def any_feature(self, bad: Value, like: Value) -> Value:
        """For each key whether any of its features is bad, in the shape of the scores."""
        return expand(self.b, self.b.prim.reduce(bad, kind="or", axes=[3]), extents_of(self.b, like), [2, 3])


def dot(b: Builder, x: Value, y: Value, contract: tuple[list[int], list[int]]) -> Value:
    """A product for each batch and key head."""
    return b.prim.dot(x, y, lhs_batch=[0, 1], rhs_batch=[0, 1], lhs_contract=contract[0], rhs_contract=contract[1])


class Scores:
    """The probabilities P [B, Hk, G, Q, K], and what the adjoint needs beside them."""

    def __init__(self, b: Builder, op: Any) -> None:
        self.heads = h = Heads(b, op)
        self.keys, bad = h.finite(h.k)
        scores = constant_times(b, dot(b, h.q, self.keys, ([4], [3])), op.score_scale)
        if bad is not None:
            scores = select_constant(b, h.any_feature(bad, scores), math.nan, scores)
        self.uncapped: Value | None = None  # in units of the cap
        if op.softcap is not None:
            self.uncapped = b.prim.div(scores, full_like(b, scores, op.softcap))
            scores = constant_times(b, b.prim.tanh(self.uncapped), op.softcap)
        self.allowed = h.allowed(scores)
        if op.mask_kind == "bias":
            scores = b.prim.add(scores, h.spread(wide(b, op.mask_or_bias)))
        if self.allowed is not None:
            scores = b.prim.select(self.allowed, scores, full_like(b, scores, -math.inf))
        self.weight = self.normalised(b, scores)

    def normalised(self, b: Builder, scores: Value) -> Value:
        """The softmax over the keys; 0 for a row without any, and for a key that is cut off from a row that is NaN."""
        largest = b.prim.reduce(scores, kind="max", axes=[KEYS])
        largest = b.prim.stop_gradient(select_constant(b, compare(b, largest, "eq", -math.inf), 0, largest))
        weight = b.prim.exp(b.prim.sub(scores, expand_axes(b, largest, scores, [KEYS])))
        total = reduce_sum(b, weight, [KEYS])
        total = select_constant(b, compare(b, total, "eq", 0), 1, total)
        return self.kept(b, b.prim.div(weight, expand_axes(b, total, scores, [KEYS])))

    def kept(self, b: Builder, x: Value) -> Value:
        """x, 0 where a key is cut off."""
        return x if self.allowed is None else zero_where(b, self.allowed, x)


@decomposition("hl.attention")
def attention(b: Builder, op: Any) -> Value:
    """softmax(scale * q k^T, masked) v."""
    scores = Scores(b, op)
    heads = scores.heads
    values, bad = heads.finite(heads.v)
    out = dot(b, scores.weight, values, ([KEYS], [2]))
    if bad is not None:
        ones = zero_where(b, bad, full_like(b, values, 1))
        hurt = dot(b, b.prim.stop_gradient(scores.weight), ones, ([KEYS], [2]))
        out = select_constant(b, compare(b, hurt, "gt", 0), math.nan, out)
    return heads.join(out)


@decomposition("bwd.attention")
def attention_backward(b: Builder, op: Any) -> list[Value]:
    """dS = P * (dP - rowsum(P * dP)) and the products that give dq, dk, dv and dbias."""
    scores, times = Scores(b, op), product_of(b, op.masked)
    heads, weight = scores.heads, scores.weight
    dy, (values, bad) = heads.queries(op.dy), heads.finite(heads.v)
    inner = dot(b, dy, values, ([4], [3]))
    if bad is not None:
        inner = select_constant(b, heads.any_feature(bad, inner), math.nan, inner)
    inner = scores.kept(b, inner)
    row = reduce_sum(b, times(inner, weight), [KEYS])
    dscores = times(b.prim.sub(inner, expand_axes(b, row, inner, [KEYS])), weight)
    if not op.masked:  # else a weight of 0 wins against a row that is NaN
        dscores = scores.kept(b, dscores)
    raw = dscores
    if scores.uncapped is not None:
        raw = scores.kept(b, times(raw, tanh_slope(b, scores.uncapped)))
    raw = constant_times(b, raw, op.score_scale)
    rows = ([2, 3], [2, 3])
    found = {0: lambda: heads.join(dot(b, raw, scores.keys, ([KEYS], [2]))), 1: lambda: heads.join(dot(b, raw, heads.q, rows)),
             2: lambda: heads.join(dot(b, weight, dy, rows)),
             3: lambda: cast_to(b, heads.unspread(dscores, op.mask_or_bias), tensor_type(op.mask_or_bias).element)}
    return [found[index]() for index in op.wanted]


class Pairs:
    """The features of [..., S, heads * head_dim] as pairs, [..., S, heads, n_rot / 2] each, and the copied rest."""

    def __init__(self, b: Builder, op: Any) -> None:
        self.b, self.op, self.half = b, op, op.n_rot // 2

    def split(self, x: Value) -> tuple[Value, Value, Value]:
        """(first features, second features, rest)."""
        op = self.op
        heads = self.by_head(wide(self.b, x))
        if op.interleaved:
            return (self.cut(heads, 0, op.n_rot, 2), self.cut(heads, 1, op.n_rot, 2), self.cut(heads, op.n_rot, op.head_dim))
        return (self.cut(heads, 0, self.half), self.cut(heads, self.half, op.n_rot), self.cut(heads, op.n_rot, op.head_dim))

    def by_head(self, x: Value) -> Value:
        """[..., S, heads, head_dim]."""
        extents = extents_of(self.b, x)
        return reshape(self.b, x, [*extents[:-1], extents[-1] // self.op.head_dim, *static(self.b, self.op.head_dim)])

    def cut(self, x: Value, begin: int, end: int, stride: int = 1) -> Value:
        """Features of each head."""
        type = tensor_type(x)
        whole = [size if isinstance(size, int) else END for size in type.dims[:-1]]
        rank = type.rank
        return self.b.prim.slice(x, begin=[0] * (rank - 1) + [begin], end=[*whole, end],
                                 strides=[1] * (rank - 1) + [stride])

    def table(self, table: Value, like: Value) -> Value:
        """The first n_rot / 2 columns of a table in the shape of the pairs."""
        extents = extents_of(self.b, like)
        rank = len(extents)
        column = self.cut(wide(self.b, table), 0, self.half)
        return expand(self.b, column, extents, [axis for axis in range(rank) if axis not in (rank - 3, rank - 1)])

    def join(self, first: Value, second: Value, rest: Value, like: Value) -> Value:
        """The inverse of `split`."""
        b, rank = self.b, tensor_type(first).rank
        if self.op.interleaved:
            pair = [*extents_of(b, first), *static(b, 1)]
            stacked = b.prim.concat(reshape(b, first, pair), reshape(b, second, pair), axis=rank)
            turned = [reshape(b, stacked, [*extents_of(b, first)[:-1], *static(b, self.op.n_rot)])]
        else:
            turned = [first, second]
        return reshape(b, b.prim.concat(*turned, rest, axis=rank - 1), extents_of(b, like))


@decomposition("hl.rope", "bwd.rope")
def rope(b: Builder, op: Any) -> Value:
    """(a cos - b sin, b cos + a sin), with the opposite angle for the adjoint."""
    x = op.operands[0]
    if op.n_rot == 0:
        return x
    pairs = Pairs(b, op)
    first, second, rest = pairs.split(x)
    cos, sin = pairs.table(op.cos, first), pairs.table(op.sin, first)
    if op.name == "bwd.rope":
        sin = b.prim.neg(sin)
    turned = (b.prim.sub(b.prim.mul(first, cos), b.prim.mul(second, sin)),
              b.prim.add(b.prim.mul(second, cos), b.prim.mul(first, sin)))
    return cast_to(b, pairs.join(*turned, rest, x), tensor_type(x).element)


@decomposition("bwd.rope_tables")
def rope_tables(b: Builder, op: Any) -> list[Value]:
    """sum of dy1 x1 + dy2 x2, and of dy2 x1 - dy1 x2."""
    pairs, times = Pairs(b, op), product_of(b, op.masked)
    (a, c, _), (da, dc, _) = pairs.split(op.x), pairs.split(op.dy)
    rank = tensor_type(a).rank
    axes = [axis for axis in range(rank) if axis not in (rank - 3, rank - 1)]
    sums = (reduce_sum(b, b.prim.add(times(da, a), times(dc, c)), axes),
            reduce_sum(b, b.prim.sub(times(dc, a), times(da, c)), axes))
    element, behind = tensor_type(op.x).element, op.head_dim // 2 - pairs.half
    zero = full_like(b, reduce_sum(b, sums[0], [0, 1]), 0)
    return [cast_to(b, b.prim.pad(table, zero, low=[0, 0], high=[0, behind], interior=[0, 0]), element) for table in sums]
