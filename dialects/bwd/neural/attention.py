"""Adjoints of attention and of rotary position embedding."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, check_dims, same_element, tensor_type
from gradopt.dialects.hl.neural.attention import (
    AttentionAttributes,
    RopeAttributes,
    mask_kind_of,
    repeat_heads,
    sum_to,
    weighted_sum,
)
from gradopt.dialects.hl.neural.common import masked_product
from gradopt.ir.attribute_kinds import INTEGERS, UNIT
from gradopt.ir.declare import (
    PURE,
    InvalidOperation,
    attribute,
    operand,
    optional_operand,
    result,
    variadic_result,
)
from gradopt.ir.types import Type, tensor


def differentiable(op: AttentionAttributes) -> tuple[int, ...]:
    """The operands of attention that have a gradient: q, k, v and a bias."""
    return (0, 1, 2, 3) if op.mask_kind == "bias" else (0, 1, 2)


class AttentionOp(AttentionAttributes):
    """The gradients of `hl.attention`: dq, dk, dv and, with mask_kind "bias", dbias; attributes as there.

    With P the probabilities, dP = dy v^T, dS = P * (dP - rowsum(P * dP)), dR = dS * (1 - tanh^2) with a softcap and dS
    without: dv = P^T dy, dq = scale * dR k, dk = scale * dR^T q (each key head sums over its query heads), dbias = dS
    summed to the bias. `wrt` lists the wanted ones of 0 (dq), 1 (dk), 2 (dv), 3 (dbias), in rising order; default all
    that exist. Keys that are cut off get 0 and leak nothing. A preserved kernel reads the rows' log-sum-exp from the
    forward kernel and recomputes P by tiles.
    """

    __slots__ = ()
    name = "bwd.attention"
    q = operand(FLOAT_TENSOR)
    k = operand(FLOAT_TENSOR)
    v = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    mask_or_bias = optional_operand(ANY_TENSOR)
    wrt = attribute(INTEGERS, optional=True)
    masked = attribute(UNIT, optional=True)
    gradients = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def wanted(self) -> tuple[int, ...]:
        """`wrt`, or all gradients that exist."""
        every = differentiable(self)
        if self.wrt is None:
            return every
        if not self.wrt or list(self.wrt) != sorted(set(self.wrt)) or not set(self.wrt) <= set(every):
            raise InvalidOperation(f"attribute 'wrt' is {list(self.wrt)}, expected rising values of {list(every)}")
        return self.wrt

    def infer(self) -> list[Type]:
        batch, _, queries, keys = self.check_heads(self.q, self.k, self.v)
        self.check_mask(self.mask_or_bias, self.q, batch, queries, keys)
        same_element(q=self.q, dy=self.dy)
        check_dims("dy", self.dy, tensor_type(self.q).dims)
        operands = (self.q, self.k, self.v, self.mask_or_bias)
        return [operands[index].type for index in self.wanted]  # type: ignore[union-attr]

    def evaluate(self, q: Array, k: Array, v: Array, dy: Array, mask: Array | None = None) -> tuple[Array, ...]:
        import numpy as np

        kind, times = mask_kind_of(self), masked_product(self.masked)
        query, upstream = self.split(widen(q)), self.split(widen(dy))
        key, value = (repeat_heads(self.split(widen(x)), self.num_heads) for x in (k, v))
        weight, slope = self.probabilities(query, key, mask, kind)
        inner = np.einsum("bhqd,bhkd->bhqk", upstream, value)
        if self.mask_kind != "none":
            inner = np.where(weight == 0, 0, np.where(np.isfinite(value).all(-1)[:, :, None, :], inner, np.nan))
        inner = np.where(weight == 0, 0, times(weight, inner - (weight * inner).sum(axis=-1, keepdims=True)))
        raw = np.where(weight == 0, 0, times(inner, slope)) * query.dtype.type(self.score_scale)

        def over_groups(x: Array) -> Array:
            key_heads = x.shape[1] // (self.num_heads // k_heads)
            return x.reshape(x.shape[0], key_heads, x.shape[1] // key_heads, *x.shape[2:]).sum(axis=2)

        k_heads = self.split(k).shape[1]
        found = {
            0: lambda: self.join(weighted_sum(raw, key, self.mask_kind != "none")),
            1: lambda: self.join(over_groups(np.einsum("bhqk,bhqd->bhkd", raw, query))),
            2: lambda: self.join(over_groups(np.einsum("bhqk,bhqd->bhkd", weight, upstream))),
            3: lambda: sum_to(inner, mask.shape),  # type: ignore[union-attr]
        }
        return tuple(found[index]().astype(q.dtype) for index in self.wanted)


class RopeOp(RopeAttributes):
    """dx of `hl.rope`: dy turned by the opposite angle, rope(dy, cos, -sin). Right for any tables, a rotation or not.

    The features from n_rot on are copied. dy [..., S, heads * head_dim], cos and sin [S, head_dim / 2].
    """

    __slots__ = ()
    name = "bwd.rope"
    dy = operand(FLOAT_TENSOR)
    cos = operand(FLOAT_TENSOR)
    sin = operand(FLOAT_TENSOR)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        self.check("dy", self.dy, self.cos, self.sin)
        return [self.dy.type]

    def evaluate(self, dy: Array, cos: Array, sin: Array) -> Array:
        return self.rotate(dy, cos, -sin)


class RopeTablesOp(RopeAttributes):
    """dcos and dsin of `hl.rope`: the sums over leading axes and heads of dy1 x1 + dy2 x2 and of dy2 x1 - dy1 x2, 0
    from n_rot / 2 on.

    x and dy [..., S, heads * head_dim]; results [S, head_dim / 2].
    """

    __slots__ = ()
    name = "bwd.rope_tables"
    x = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    masked = attribute(UNIT, optional=True)
    dcos = result(ANY_TENSOR)
    dsin = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        self.check_features("x", self.x)
        same_element(x=self.x, dy=self.dy)
        type = tensor_type(self.x)
        check_dims("dy", self.dy, type.dims)
        table = tensor([type.dims[-2], self.head_dim // 2], type.element)
        return [table, table]

    def evaluate(self, x: Array, dy: Array) -> tuple[Array, Array]:
        import numpy as np

        first, second = self.pairs
        a, b, da, db = (widen(array).reshape(*array.shape[:-1], -1, self.head_dim)[..., part]
                        for array in (x, dy) for part in (first, second))
        times = masked_product(self.masked)
        axes = (*range(x.ndim - 2), x.ndim - 1)
        found = (times(da, a) + times(db, b)).sum(axis=axes), (times(db, a) - times(da, b)).sum(axis=axes)
        pad = self.head_dim // 2 - self.n_rot // 2
        dcos, dsin = (np.pad(table, ((0, 0), (0, pad))).astype(x.dtype) for table in found)
        return dcos, dsin
