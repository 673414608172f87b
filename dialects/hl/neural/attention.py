"""Scaled dot-product attention (Vaswani et al. 2017) and rotary position embedding (Su et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, check_dims, merge_size, same_element, shape_text, tensor_type
from gradopt.dialects.hl.meanings import tanh_slope
from gradopt.dialects.hl.neural.common import check_positive
from gradopt.ir.attribute_kinds import BOOLEAN, FLOAT, INTEGER, enumeration
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, optional_operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, floordiv, mod, provably_different, provably_equal
from gradopt.ir.types import I1, TensorType, Type
from gradopt.ir.values import Value

LAYOUTS = ("BHSD", "BSHD", "BS(HD)")
MASK_KINDS = ("none", "causal", "sliding_window", "custom", "bias")


class AttentionAttributes(Operation):
    """Base of attention and its adjoint: attributes, and what follows from the operands' types."""

    __slots__ = ()
    num_heads = attribute(INTEGER)
    head_dim = attribute(INTEGER)
    layout = attribute(enumeration(*LAYOUTS), default="BHSD")
    mask_kind = attribute(enumeration(*MASK_KINDS), default="none")
    window = attribute(INTEGER, optional=True)
    scale = attribute(FLOAT, optional=True)
    softcap = attribute(FLOAT, optional=True)

    @property
    def score_scale(self) -> float:
        """`scale`, or 1 / sqrt(head_dim)."""
        return 1.0 / math.sqrt(self.head_dim) if self.scale is None else self.scale

    def heads_of(self, name: str, value: Value) -> tuple[Size, Size, Size]:
        """(batch, heads, sequence length) of q, k or v. Raises InvalidOperation."""
        type = tensor_type(value)
        rank = 3 if self.layout == "BS(HD)" else 4
        if type.rank != rank:
            raise InvalidOperation(f"operand '{name}' has shape {shape_text(type)}, expected rank {rank} for layout "
                                   f'"{self.layout}"')
        dims = type.dims
        if self.layout == "BS(HD)":
            if provably_different(mod(dims[2], self.head_dim), 0):
                raise InvalidOperation(f"operand '{name}' has {dims[2]} features, expected a multiple of head_dim "
                                       f"({self.head_dim})")
            return dims[0], floordiv(dims[2], self.head_dim), dims[1]
        if provably_different(dims[3], self.head_dim):
            raise InvalidOperation(f"operand '{name}' has head size {dims[3]}, expected head_dim ({self.head_dim})")
        return (dims[0], dims[1], dims[2]) if self.layout == "BHSD" else (dims[0], dims[2], dims[1])

    def check_heads(self, q: Value, k: Value, v: Value) -> tuple[Size, Size, Size, Size]:
        """(batch, key heads, Q, K) from the operands' types. Raises InvalidOperation."""
        check_positive(self, "num_heads", "head_dim")
        if self.softcap is not None and not self.softcap > 0:
            raise InvalidOperation(f"attribute 'softcap' is {self.softcap}, expected a positive value")
        same_element(q=q, k=k, v=v)
        batch, heads, queries = self.heads_of("q", q)
        key_batch, key_heads, keys = self.heads_of("k", k)
        if provably_different(heads, self.num_heads):
            raise InvalidOperation(f"operand 'q' has {heads} heads, expected num_heads ({self.num_heads})")
        if not isinstance(key_heads, int):
            raise InvalidOperation(f"operand 'k' has a number of heads that is not static ({key_heads})")
        if key_heads < 1 or self.num_heads % key_heads:
            raise InvalidOperation(f"operand 'k' has {key_heads} heads, expected a divisor of num_heads ({self.num_heads})")
        if provably_different(batch, key_batch):
            raise InvalidOperation(f"operands 'q' and 'k' have batch sizes {batch} and {key_batch}, expected the same")
        check_dims("v", v, tensor_type(k).dims)
        return merge_size(batch, key_batch), key_heads, queries, keys

    def check_mask(self, mask: Value | None, q: Value, batch: Size, queries: Size, keys: Size) -> None:
        """Raises InvalidOperation where mask, mask_kind and window do not fit."""
        kind = self.mask_kind
        if (self.window is not None) != (kind == "sliding_window"):
            raise InvalidOperation(f'has mask_kind "{kind}" {"without" if self.window is None else "with"} attribute \'window\'')
        if self.window is not None and self.window < 0:
            raise InvalidOperation(f"attribute 'window' is {self.window}, expected no negative value")
        if (mask is not None) != (kind in ("custom", "bias")):
            raise InvalidOperation(f'has mask_kind "{kind}" {"without" if mask is None else "with"} operand \'mask_or_bias\'')
        if mask is None:
            return
        type = tensor_type(mask)
        expected = I1 if kind == "custom" else tensor_type(q).element
        if type.element is not expected:
            raise InvalidOperation(f"operand 'mask_or_bias' has element type {type.element.text}, expected {expected.text} for "
                                   f'mask_kind "{kind}"')
        self.mask_dims(type, batch, queries, keys)

    def mask_dims(self, type: TensorType, batch: Size, queries: Size, keys: Size) -> str:
        """What the axes of a mask are: "BK", "QK" or "BHQK". Raises InvalidOperation.

        Rank 2 is [B, K] where that fits (a custom mask only), else [Q, K]; rank 4 may have size 1 anywhere."""
        if type.rank == 4:
            for found, size in zip(type.dims, (batch, self.num_heads, queries, keys)):
                if found != 1 and provably_different(found, size):
                    break
            else:
                return "BHQK"
        elif type.rank == 2 and not provably_different(type.dims[1], keys):
            rows = type.dims[0]
            could_be_batch = not (provably_equal(rows, queries) or provably_different(rows, batch))
            if self.mask_kind == "custom" and (provably_equal(rows, batch) or could_be_batch):
                return "BK"
            if not provably_different(rows, queries):
                return "QK"
        shapes = "[B, K], [Q, K] or [B, H, Q, K]" if self.mask_kind == "custom" else "[Q, K] or [B, H, Q, K]"
        raise InvalidOperation(f"operand 'mask_or_bias' has shape {shape_text(type)}, expected {shapes} with B = {batch}, "
                               f"H = {self.num_heads}, Q = {queries}, K = {keys}")

    def split(self, x: Array) -> Array:
        """q, k or v as [B, H, S, D]."""
        if self.layout == "BHSD":
            return x
        if self.layout == "BS(HD)":
            x = x.reshape(*x.shape[:2], x.shape[2] // self.head_dim, self.head_dim)
        return x.transpose(0, 2, 1, 3)

    def join(self, x: Array) -> Array:
        """[B, H, S, D] in the op's layout."""
        if self.layout == "BHSD":
            return x
        x = x.transpose(0, 2, 1, 3)
        return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3]) if self.layout == "BS(HD)" else x

    def allowed(self, queries: int, keys: int, mask: Array | None, kind: str) -> Array:
        """Which keys each query attends to, broadcastable to [B, H, Q, K]; `kind` says what the mask's axes are."""
        import numpy as np

        if self.mask_kind in ("causal", "sliding_window"):
            last = np.arange(queries)[:, None] + (keys - queries)
            key = np.arange(keys)[None, :]
            return (key <= last) & (key >= last - self.window if self.window is not None else True)
        if mask is None:
            return np.ones((1, 1, 1, 1), np.bool_)
        truth = mask if self.mask_kind == "custom" else mask != -np.inf
        return truth[:, None, None, :] if kind == "BK" else truth

    def probabilities(self, q: Array, k: Array, mask: Array | None, kind: str) -> tuple[Array, Array]:
        """(P, the derivative of the capped score by the raw one): [B, H, Q, K], from q [B, H, Q, D] and k with as many
        heads.

        A key that is not attended to has P = 0 whatever it holds; a row without any key is all 0. With a mask, a key
        that holds inf or NaN gives a NaN score to the queries that do attend to it."""
        import numpy as np

        scores = np.einsum("bhqd,bhkd->bhqk", q, k) * q.dtype.type(self.score_scale)
        if self.mask_kind != "none":
            scores = np.where(np.isfinite(k).all(-1)[:, :, None, :], scores, np.nan)
        slope = np.ones_like(scores)
        if self.softcap is not None:
            cap = q.dtype.type(self.softcap)
            scores = scores / cap
            scores, slope = np.tanh(scores) * cap, tanh_slope(np, scores)
        allowed = np.broadcast_to(self.allowed(q.shape[2], k.shape[2], mask, kind), scores.shape)
        if self.mask_kind == "bias" and mask is not None:
            scores = scores + widen(mask)
        scores = np.where(allowed, scores, -np.inf)
        largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        weight = np.where(allowed, np.exp(scores - np.where(largest == -np.inf, 0, largest)), 0)
        total = weight.sum(axis=-1, keepdims=True)
        return np.where(allowed, weight / np.where(total == 0, 1, total), 0), slope


def weighted_sum(weight: Array, values: Array, masked: bool) -> Array:
    """sum over k of weight[…, q, k] * values[…, k, d]. With a mask a weight of 0 contributes 0, and a value that is not
    finite NaN otherwise."""
    import numpy as np

    if not masked or np.isfinite(values).all():
        return np.einsum("bhqk,bhkd->bhqd", weight, values)
    out = np.empty((*weight.shape[:3], values.shape[-1]), weight.dtype)
    whole = np.where(np.isfinite(values), values, np.nan)
    for query in range(weight.shape[2]):
        row = weight[:, :, query, :, None]
        out[:, :, query] = np.where(row == 0, 0, row * whole).sum(axis=2)
    return out


def repeat_heads(x: Array, heads: int) -> Array:
    """Key heads repeated so that query head h finds its key head h // (heads / key heads) at h."""
    import numpy as np

    return np.repeat(x, heads // x.shape[1], axis=1)


def sum_to(x: Array, shape: Sequence[int]) -> Array:
    """The sum over the axes that broadcasting from `shape` added or stretched."""
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    return x.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1 and x.shape[axis] != 1), keepdims=True)


class AttentionOp(AttentionAttributes):
    """softmax(scale * q k^T, masked or biased) v for each head.

    q [B, H, Q, D], k and v [B, Hk, K, D] with layout "BHSD"; [B, S, H, D] with "BSHD"; [B, S, H * D] with "BS(HD)". H is
    num_heads, D head_dim, Hk a divisor of H (query head h reads key head h // (H / Hk)); K may differ from Q. The result
    has q's type. Scores: scale * q k^T (default scale 1 / sqrt(head_dim)), then softcap * tanh(score / softcap), then the
    mask or bias:
      "causal"          query i attends to keys <= i + K - Q
      "sliding_window"  … and >= i + K - Q - window
      "custom"          mask_or_bias i1, true = attend: [B, K], [Q, K] or [B, H, Q, K] (rank 4 with 1 anywhere; where
                        B = Q, rank 2 is [B, K])
      "bias"            mask_or_bias is added: [Q, K] or [B, H, Q, K] (with 1 anywhere); -inf cuts a key off
    A query that attends to no key gives 0 (and gradient 0). Keys and values that are cut off never leak, even NaN. With a
    mask, an attended key or value that is not finite makes the score or the result NaN. Adjoint: `bwd.attention`. A
    preserved kernel gives the rows' log-sum-exp as an extra result for the adjoint; neither stores the score matrix.
    """

    __slots__ = ()
    name = "hl.attention"
    q = operand(FLOAT_TENSOR)
    k = operand(FLOAT_TENSOR)
    v = operand(FLOAT_TENSOR)
    mask_or_bias = optional_operand(ANY_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        batch, _, queries, keys = self.check_heads(self.q, self.k, self.v)
        self.check_mask(self.mask_or_bias, self.q, batch, queries, keys)
        return [self.q.type]

    def evaluate(self, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
        kind = mask_kind_of(self)
        query = self.split(widen(q))
        key, value = (repeat_heads(self.split(widen(x)), self.num_heads) for x in (k, v))
        weight, _ = self.probabilities(query, key, mask, kind)
        return self.join(weighted_sum(weight, value, self.mask_kind != "none")).astype(q.dtype)


def mask_kind_of(op: Any) -> str:
    """What the axes of an attention op's mask operand are: "BK", "QK", "BHQK", or "" without one."""
    mask = op.mask_or_bias
    if mask is None:
        return ""
    batch, _, queries, keys = op.check_heads(op.q, op.k, op.v)
    found: str = op.mask_dims(tensor_type(mask), batch, queries, keys)
    return found


class RopeAttributes(Operation):
    """Base of rope and its adjoint."""

    __slots__ = ()
    head_dim = attribute(INTEGER)
    n_rot = attribute(INTEGER)
    interleaved = attribute(BOOLEAN, default=False)

    @property
    def pairs(self) -> tuple[slice, slice]:
        """Where the first and the second features of the pairs lie in a head."""
        if self.interleaved:
            return slice(0, self.n_rot, 2), slice(1, self.n_rot, 2)
        return slice(0, self.n_rot // 2), slice(self.n_rot // 2, self.n_rot)

    def check_features(self, name: str, x: Value) -> TensorType:
        """The type of an operand [..., S, heads * head_dim]. Raises InvalidOperation for any other, and for bad
        attributes."""
        check_positive(self, "head_dim")
        type = tensor_type(x)
        if self.head_dim % 2:
            raise InvalidOperation(f"attribute 'head_dim' is {self.head_dim}, expected an even value")
        if not 0 <= self.n_rot <= self.head_dim or self.n_rot % 2:
            raise InvalidOperation(f"attribute 'n_rot' is {self.n_rot}, expected an even value in [0, {self.head_dim}]")
        if type.rank < 2 or provably_different(mod(type.dims[-1], self.head_dim), 0):
            raise InvalidOperation(f"operand '{name}' has shape {shape_text(type)}, expected [..., S, heads * {self.head_dim}]")
        return type

    def check(self, name: str, x: Value, cos: Value, sin: Value) -> None:
        """Raises InvalidOperation unless x is [..., S, heads * head_dim] and both tables [S, head_dim / 2]."""
        type = self.check_features(name, x)
        same_element(**{name: x, "cos": cos, "sin": sin})
        for table, value in (("cos", cos), ("sin", sin)):
            check_dims(table, value, [type.dims[-2], self.head_dim // 2])

    def rotate(self, x: Array, cos: Array, sin: Array) -> Array:
        """Each pair (a, b) of the first n_rot features of each head turned: (a * cos - b * sin, b * cos + a * sin)."""
        import numpy as np

        heads = widen(x).reshape(*x.shape[:-1], -1, self.head_dim)
        out, (first, second) = heads.copy(), self.pairs
        a, b = heads[..., first], heads[..., second]
        c, s = (np.expand_dims(widen(table)[:, : self.n_rot // 2], 1) for table in (cos, sin))
        out[..., first], out[..., second] = a * c - b * s, b * c + a * s
        return out.reshape(x.shape).astype(x.dtype)


class RopeOp(RopeAttributes):
    """Rotary position embedding: pairs of features of each head turned by the angle of their position.

    x [..., S, heads * head_dim] (so "BHSD" and "BS(HD)" layouts); cos and sin [S, head_dim / 2]. Pair i of the first
    n_rot features is (i, i + n_rot / 2), or (2i, 2i + 1) when `interleaved`: y1 = x1 * cos[s, i] - x2 * sin[s, i], y2 =
    x2 * cos[s, i] + x1 * sin[s, i]. The features from n_rot on are copied. Adjoint: `bwd.rope`, with the opposite
    angle.
    """

    __slots__ = ()
    name = "hl.rope"
    x = operand(FLOAT_TENSOR)
    cos = operand(FLOAT_TENSOR)
    sin = operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        self.check("x", self.x, self.cos, self.sin)
        return [self.x.type]

    def evaluate(self, x: Array, cos: Array, sin: Array) -> Array:
        return self.rotate(x, cos, sin)
