"""Fake quantisation and dropout."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, check_axis, check_dims, same_element, tensor_type
from gradopt.dialects.prim.data import KEY, threefry2x32
from gradopt.ir.attribute_kinds import FLOAT, INTEGER, enumeration
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, optional_operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.types import Type
from gradopt.ir.values import Value

STE_KINDS = ("identity", "clipped", "tanh", "hard_tanh")
SCALE_MODES = ("per_batch", "fixed")


class Quantizer(Operation):
    """Base of fake_quantize and its adjoint."""

    __slots__ = ()
    bits = attribute(INTEGER, default=8)
    axis = attribute(INTEGER, optional=True)
    ste = attribute(enumeration(*STE_KINDS), default="identity")
    scale_mode = attribute(enumeration(*SCALE_MODES), default="per_batch")

    @property
    def largest(self) -> int:
        """The largest quantised magnitude: 2^(bits - 1) - 1; the range is symmetric."""
        return (1 << (self.bits - 1)) - 1

    def check(self, x: Value, scale: Value | None) -> None:
        """Raises InvalidOperation where attributes and scale do not fit."""
        type = tensor_type(x)
        if not 2 <= self.bits <= 16:
            raise InvalidOperation(f"attribute 'bits' is {self.bits}, expected a value in [2, 16]")
        axis = None if self.axis is None else check_axis(self.axis, type.rank)
        if (scale is not None) != (self.scale_mode == "fixed"):
            how = "without" if scale is None else "with"
            raise InvalidOperation(f'has scale_mode "{self.scale_mode}" {how} operand \'scale\'')
        if scale is not None:
            same_element(x=x, scale=scale)
            check_dims("scale", scale, [] if axis is None else [type.dims[axis]])

    def step(self, x: Array, scale: Array | None) -> Array:
        """The quantisation step, broadcastable to x: the scale, or max |x| / largest (over all axes but `axis`); 1
        where that is 0."""
        import numpy as np

        shape = [1] * x.ndim
        if self.axis is not None:
            shape[self.axis] = -1
        if scale is None:
            others = tuple(axis for axis in range(x.ndim) if self.axis is None or axis != self.axis % x.ndim)
            found = np.abs(widen(x)).max(axis=others, initial=0) / widen(x).dtype.type(self.largest)
        else:
            found = widen(scale)
        return np.where(found == 0, found.dtype.type(1), found).reshape(shape)


class FakeQuantizeOp(Quantizer):
    """x rounded to a multiple of the step s and limited to +-qmax * s, qmax = 2^(bits - 1) - 1: y = clamp(round(x / s),
    -qmax, qmax) * s.

    scale_mode "per_batch": s = max |x| / qmax, for each index of `axis` separately if it is given; "fixed": s is the
    operand `scale`, rank 0, or a vector along `axis`. A step of 0 is taken as 1. s is a constant for the derivative (no
    gradient passes to x through it or to `scale`). Halves round to even; NaN stays NaN. `ste` is the derivative by x:
      "identity" 1;  "clipped" 1 where |round(x / s)| <= qmax;  "tanh" 1 - tanh(x / s)^2;  "hard_tanh" max(0, 1 - |x| /
      (qmax * s)).
    Adjoint: `bwd.fake_quantize`.
    """

    __slots__ = ()
    name = "hl.fake_quantize"
    x = operand(FLOAT_TENSOR)
    scale = optional_operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        self.check(self.x, self.scale)
        return [self.x.type]

    def evaluate(self, x: Array, scale: Array | None = None) -> Array:
        import numpy as np

        step = self.step(x, scale)
        return (np.clip(np.rint(widen(x) / step), -self.largest, self.largest) * step).astype(x.dtype)


class DropoutOp(Operation):
    """Each element of x is dropped (set to 0) with probability `rate`, else multiplied by 1 / (1 - rate).

    Random and yet a function of its operands: element i (row-major) is kept where word i of prim.random_bits(key) as
    ui32 is at least round(rate * 2^32). The same on every machine. The gradient passes where the element was kept, with
    the same factor.
    """

    __slots__ = ()
    name = "hl.dropout"
    x = operand(FLOAT_TENSOR)
    key = operand(KEY)
    rate = attribute(FLOAT)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def threshold(self) -> int:
        """Random words below it drop their element."""
        return min(round(self.rate * 2.0 ** 32), (1 << 32) - 1)

    def infer(self) -> list[Type]:
        if not 0 <= self.rate < 1:
            raise InvalidOperation(f"attribute 'rate' is {self.rate}, expected a value in [0, 1)")
        return [self.x.type]

    def evaluate(self, x: Array, key: Array) -> Array:
        import numpy as np

        blocks = np.arange((x.size + 1) // 2, dtype=np.uint64)
        words = np.stack(threefry2x32(key, blocks.astype(np.uint32), (blocks >> np.uint64(32)).astype(np.uint32)), axis=1)
        kept = words.reshape(-1)[: x.size].reshape(x.shape) >= np.uint64(self.threshold)
        wide = widen(x)
        return np.where(kept, wide * wide.dtype.type(1.0 / (1.0 - self.rate)), 0).astype(x.dtype)
