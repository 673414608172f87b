"""Adjoints of pooling."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, numpy_dtype, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, SCALAR_I64, check_dims, same_element, tensor_type
from gradopt.dialects.hl.neural.common import invert, run_time_shape
from gradopt.dialects.hl.neural.pooling import Pooling
from gradopt.dialects.prim.data import check_sizes
from gradopt.ir.attribute_kinds import UNIT
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result, variadic
from gradopt.ir.types import Type


class MaxPool2dOp(Pooling):
    """Each dy is added to the first largest element of its window (NaN wins; windows that overlap add up).

    A preserved kernel keeps the position of the maximum from the forward op, so that x is not searched twice.
    """

    __slots__ = ()
    name = "bwd.max_pool2d"
    x = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        same_element(x=self.x, dy=self.dy)
        check_dims("dy", self.dy, self.pooled(tensor_type(self.x)))
        return [self.x.type]

    def evaluate(self, x: Array, dy: Array) -> Array:
        import numpy as np

        image, rows = x.transpose(self.data_axes), widen(dy).transpose(self.data_axes)
        index, found = self.first_maximum(image)
        _, _, reads_h, reads_w = self.windows(image)
        n, c, ho, wo = np.indices(index.shape)
        height, width = reads_h[ho, index // self.pool_size[1]], reads_w[wo, index % self.pool_size[1]]
        dx = np.zeros(image.shape, rows.dtype)
        np.add.at(dx, (n[found], c[found], height[found], width[found]), rows[found])
        return dx.transpose(invert(self.data_axes)).astype(dy.dtype)


class AvgPool2dOp(Pooling):
    """dy divided by the window's divisor, added to every element of the window inside the image.

    The result type gives the image's shape, `sizes` its unknown sizes.
    """

    __slots__ = ()
    name = "bwd.avg_pool2d"
    dy = operand(FLOAT_TENSOR)
    sizes = variadic(SCALAR_I64)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        check_sizes(self, len(self.sizes))
        image, dy = tensor_type(self.results[0]), tensor_type(self.dy)
        if image.element is not dy.element:
            raise InvalidOperation(f"has result element type {image.element.text}, expected that of 'dy', {dy.element.text}")
        check_dims("dy", self.dy, self.pooled(image, "result"))

    def evaluate(self, dy: Array, *sizes: Array) -> Array:
        import numpy as np

        shape = run_time_shape(self, tensor_type(self.results[0]), (dy,), sizes)
        extent = [shape[axis] for axis in self.data_axes]
        rows = widen(dy).transpose(self.data_axes)
        rows = rows / self.divisors(extent).astype(rows.dtype)
        _, inside, reads_h, reads_w = self.windows(np.zeros(extent, rows.dtype))
        dx = np.zeros(extent, rows.dtype)
        for i, j, a, b in np.argwhere(inside):
            dx[:, :, reads_h[i, a], reads_w[j, b]] += rows[:, :, i, j]
        return dx.transpose(invert(self.data_axes)).astype(numpy_dtype(tensor_type(self.results[0]).element))
