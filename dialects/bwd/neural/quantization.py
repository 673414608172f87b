"""The straight-through adjoint of fake quantisation."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, check_dims, same_element, tensor_type
from gradopt.dialects.hl.meanings import tanh_slope
from gradopt.dialects.hl.neural.common import masked_product
from gradopt.dialects.hl.neural.quantization import Quantizer
from gradopt.ir.attribute_kinds import UNIT
from gradopt.ir.declare import PURE, attribute, operand, optional_operand, result
from gradopt.ir.types import Type


class FakeQuantizeOp(Quantizer):
    """dx of `hl.fake_quantize`: dy times the straight-through factor that `ste` names; attributes as there. The step s
    is a constant.

    "identity" 1;  "clipped" 1 where |round(x / s)| <= qmax, else 0;  "tanh" 1 - tanh(x / s)^2;  "hard_tanh" max(0, 1 -
    |x| / (qmax * s)).
    """

    __slots__ = ()
    name = "bwd.fake_quantize"
    x = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    scale = optional_operand(FLOAT_TENSOR)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        self.check(self.x, self.scale)
        same_element(x=self.x, dy=self.dy)
        check_dims("dy", self.dy, tensor_type(self.x).dims)
        return [self.x.type]

    def evaluate(self, x: Array, dy: Array, scale: Array | None = None) -> Array:
        import numpy as np

        if self.ste == "identity":
            return dy
        step, wide = self.step(x, scale), widen(x)
        if self.ste == "clipped":
            return np.where(np.abs(np.rint(wide / step)) <= self.largest, dy, dy.dtype.type(0))
        if self.ste == "tanh":
            factor = tanh_slope(np, wide / step)
        else:
            factor = np.maximum(0, 1 - np.abs(wide) / (self.largest * step))
        return masked_product(self.masked)(widen(dy), factor).astype(dy.dtype)
