"""Ops of `kernel` that stand for a library kernel with more results than the op that it serves: what a backward kernel reads.

`select-kernels` replaces `hl.attention` by `kernel.attention`, and `bwd.attention` by another `kernel.attention` (which `cse` merges
with the first) and `kernel.attention_backward`. `kernel.solve`, `kernel.inverse` and `kernel.det` are the `hl` ops of these names, which
`decompose` would turn into loops of `prim` ops.
"""

from __future__ import annotations

from gradopt.dialects.arrays import Array, accumulation_dtype, numpy_dtype, widen
from gradopt.dialects.bwd.neural.attention import AttentionOp as BackwardAttention
from gradopt.dialects.bwd.neural.attention import differentiable
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, INTEGER_TENSOR, check_dims, tensor_type
from gradopt.dialects.hl.linear import DetOp, InverseOp, SolveOp
from gradopt.dialects.hl.neural.attention import AttentionAttributes as _Attributes
from gradopt.dialects.hl.neural.attention import AttentionOp as ForwardAttention
from gradopt.dialects.hl.neural.attention import mask_kind_of, repeat_heads
from gradopt.dialects.hl.neural.common import invert, run_time_shape
from gradopt.dialects.hl.neural.pooling import MaxPool2dOp as ForwardMaxPool
from gradopt.dialects.hl.neural.pooling import Pooling
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
from gradopt.ir.types import F32, F64, I32, UI8, Type, tensor

__all__ = ["OPERATIONS", "KernelAttentionBackwardOp", "KernelAttentionOp", "KernelDetOp", "KernelInverseOp", "KernelMaxPool2dBackwardOp",
           "KernelMaxPool2dOp", "KernelSolveOp"]


class KernelAttentionOp(_Attributes):
    """`hl.attention` and the rows' log-sum-exp [B, H, Q] in f32 (f64 for f64): +inf for a query that attends to no key."""

    __slots__ = ()
    name = "kernel.attention"
    q = operand(FLOAT_TENSOR)
    k = operand(FLOAT_TENSOR)
    v = operand(FLOAT_TENSOR)
    mask_or_bias = optional_operand(ANY_TENSOR)
    y = result(ANY_TENSOR)
    lse = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        batch, _, queries, keys = self.check_heads(self.q, self.k, self.v)
        self.check_mask(self.mask_or_bias, self.q, batch, queries, keys)
        element = F64 if tensor_type(self.q).element is F64 else F32
        return [self.q.type, tensor([batch, self.num_heads, queries], element)]

    def evaluate(self, q: Array, k: Array, v: Array, mask: Array | None = None) -> tuple[Array, Array]:
        import numpy as np

        y = ForwardAttention.evaluate(self, q, k, v, mask)  # type: ignore[arg-type]
        query, key = self.split(widen(q)), repeat_heads(self.split(widen(k)), self.num_heads)
        scores = np.einsum("bhqd,bhkd->bhqk", query, key) * query.dtype.type(self.score_scale)
        if self.mask_kind != "none":
            scores = np.where(np.isfinite(key).all(-1)[:, :, None, :], scores, np.nan)
        if self.softcap is not None:
            scores = np.tanh(scores / self.softcap) * self.softcap
        if self.mask_kind == "bias" and mask is not None:
            scores = scores + widen(mask)
        allowed = np.broadcast_to(self.allowed(scores.shape[2], scores.shape[3], mask, mask_kind_of(self)), scores.shape)
        scores = np.where(allowed, scores, -np.inf)
        largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        total = np.exp(scores - np.where(largest == -np.inf, 0, largest)).sum(axis=-1)
        lse = np.where(total == 0, np.inf, largest[..., 0] + np.log(total))
        return y, lse.astype(accumulation_dtype(q.dtype))


class KernelAttentionBackwardOp(_Attributes):
    """`bwd.attention` from the forward kernel's result and log-sum-exp."""

    __slots__ = ()
    name = "kernel.attention_backward"
    q = operand(FLOAT_TENSOR)
    k = operand(FLOAT_TENSOR)
    v = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    y = operand(FLOAT_TENSOR)
    lse = operand(FLOAT_TENSOR)
    mask_or_bias = optional_operand(ANY_TENSOR)
    wrt = attribute(INTEGERS)
    masked = attribute(UNIT, optional=True)
    gradients = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def wanted(self) -> tuple[int, ...]:
        """`wrt`."""
        return self.wrt

    def infer(self) -> list[Type]:
        batch, _, queries, keys = self.check_heads(self.q, self.k, self.v)
        self.check_mask(self.mask_or_bias, self.q, batch, queries, keys)
        check_dims("dy", self.dy, tensor_type(self.q).dims)
        check_dims("y", self.y, tensor_type(self.q).dims)
        check_dims("lse", self.lse, [batch, self.num_heads, queries])
        operands = (self.q, self.k, self.v, self.mask_or_bias)
        every = differentiable(self)
        if list(self.wrt) != sorted(set(self.wrt)) or not set(self.wrt) <= set(every):
            raise InvalidOperation(f"attribute 'wrt' is {list(self.wrt)}, expected rising values of {list(every)}")
        return [operands[index].type for index in self.wrt]  # type: ignore[union-attr]

    def evaluate(self, q: Array, k: Array, v: Array, dy: Array, y: Array, lse: Array,
                 mask: Array | None = None) -> tuple[Array, ...]:
        return BackwardAttention.evaluate(self, q, k, v, dy, mask)  # type: ignore[arg-type]


class KernelMaxPool2dOp(Pooling):
    """`hl.max_pool2d`, and for each window the position of its maximum in the window, row-major; the window's number of elements
    where none of them lies inside x. Positions are ui8, or i32 for windows of more than 254 elements."""

    __slots__ = ()
    name = "kernel.max_pool2d"
    x = operand(FLOAT_TENSOR)
    y = result(ANY_TENSOR)
    position = result(INTEGER_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        dims = self.pooled(type)
        return [tensor(dims, type.element), tensor(dims, UI8 if self.pool_size[0] * self.pool_size[1] <= 254 else I32)]

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        import numpy as np

        y = ForwardMaxPool.evaluate(self, x)  # type: ignore[arg-type]
        index, found = self.first_maximum(x.transpose(self.data_axes))
        position = np.where(found, index, self.pool_size[0] * self.pool_size[1]).transpose(invert(self.data_axes))
        return y, position.astype(numpy_dtype(tensor_type(self.position).element))


class KernelMaxPool2dBackwardOp(Pooling):
    """`bwd.max_pool2d` from the positions that the forward kernel kept; the result type gives the image's shape."""

    __slots__ = ()
    name = "kernel.max_pool2d_backward"
    dy = operand(FLOAT_TENSOR)
    position = operand(INTEGER_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        dims = self.pooled(tensor_type(self.results[0]), "the result")
        check_dims("dy", self.dy, dims)
        check_dims("position", self.position, dims)

    def evaluate(self, dy: Array, position: Array) -> Array:
        import numpy as np

        shape = run_time_shape(self, tensor_type(self.results[0]), (dy, position), ())
        rows, index = (array.transpose(self.data_axes) for array in (widen(dy), position.astype(np.int64)))
        dx = np.zeros([shape[axis] for axis in self.data_axes], rows.dtype)
        found = index < self.pool_size[0] * self.pool_size[1]
        n, c, i, j = (place[found] for place in np.indices(index.shape))
        a, b = np.divmod(index[found], self.pool_size[1])
        height = i * self.strides[0] - self.padding[0][0] + a * self.dilation[0]
        width = j * self.strides[1] - self.padding[1][0] + b * self.dilation[1]
        np.add.at(dx, (n, c, height, width), rows[found])
        return dx.transpose(invert(self.data_axes)).astype(dy.dtype)


class KernelSolveOp(SolveOp):
    """`hl.solve` by LAPACK's LU factors. A singular matrix gives NaN."""

    __slots__ = ()
    name = "kernel.solve"


class KernelInverseOp(InverseOp):
    """`hl.inverse` by LAPACK's LU factors. A singular matrix gives NaN."""

    __slots__ = ()
    name = "kernel.inverse"


class KernelDetOp(DetOp):
    """`hl.det` by LAPACK's LU factors: the product of the pivots."""

    __slots__ = ()
    name = "kernel.det"


OPERATIONS = (KernelAttentionOp, KernelAttentionBackwardOp, KernelMaxPool2dOp, KernelMaxPool2dBackwardOp, KernelSolveOp,
              KernelInverseOp, KernelDetOp)
