"""Adjoints of the image ops."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, numpy_dtype
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, SCALAR_I64, tensor_type
from gradopt.dialects.hl.neural.common import invert, masked_product, run_time_shape
from gradopt.dialects.hl.neural.image import Shuffle, WarpAttributes
from gradopt.dialects.prim.data import check_sizes
from gradopt.ir.attribute_kinds import UNIT
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result, variadic
from gradopt.ir.sizes import floordiv, mod, multiply, provably_different
from gradopt.ir.types import Type, tensor


class PixelShuffleOp(Shuffle):
    """dx of `hl.pixel_shuffle`, its inverse: dx[..., c * r^2 + i * r + j, h, w] = dy[..., c, h * r + i, w * r + j]."""

    __slots__ = ()
    name = "bwd.pixel_shuffle"
    dy = operand(ANY_TENSOR)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type, (channel, height, width) = self.image_axes("dy", self.dy)
        dims = list(type.dims)
        for letter, axis in (("H", height), ("W", width)):
            if provably_different(mod(dims[axis], self.factor), 0):
                raise InvalidOperation(f"has size {dims[axis]} for {letter}, expected a multiple of factor ({self.factor})")
            dims[axis] = floordiv(dims[axis], self.factor)
        dims[channel] = multiply(dims[channel], self.factor ** 2)
        return [tensor(dims, type.element)]

    def evaluate(self, dy: Array) -> Array:
        return self.unshuffle(dy)


class WarpData(WarpAttributes):
    """Base: the gradient of a warp with respect to the image."""

    __slots__ = ()
    mat = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    sizes = variadic(SCALAR_I64)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        check_sizes(self, len(self.sizes))
        self.check(tensor_type(self.results[0]), self.mat, tensor_type(self.dy), ("result", "operand 'dy'"))

    def evaluate(self, mat: Array, dy: Array, *sizes: Array) -> Array:
        import numpy as np

        shape = run_time_shape(self, tensor_type(self.results[0]), (mat, dy), sizes)
        rows, matrix = self.working(dy.transpose(self.data_axes), mat)
        source = [shape[axis] for axis in self.data_axes]
        dx = np.zeros(source, rows.dtype)
        batch = np.arange(source[0])[:, None, None]
        times = masked_product(self.masked)
        for row, column in self.samples(matrix, source, rows.shape):
            weight = np.where(row.inside & column.inside, row.weight * column.weight, 0)[..., None]
            np.add.at(dx, (batch, row.index, column.index), times(rows, weight))
        return dx.transpose(invert(self.data_axes)).astype(numpy_dtype(tensor_type(self.results[0]).element))


class WarpMat(WarpAttributes):
    """Base: the gradient of a warp with respect to the matrix."""

    __slots__ = ()
    x = operand(FLOAT_TENSOR)
    mat = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    masked = attribute(UNIT, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        self.check(tensor_type(self.x), self.mat, tensor_type(self.dy), ("operand 'x'", "operand 'dy'"))
        return [self.mat.type]

    def evaluate(self, x: Array, mat: Array, dy: Array) -> Array:
        import numpy as np

        image, matrix, rows = self.working(x.transpose(self.data_axes), mat, dy.transpose(self.data_axes))
        du, dv = (np.zeros(rows.shape[:3], rows.dtype) for _ in range(2))
        times = masked_product(self.masked)
        for row, column in self.samples(matrix, image.shape, rows.shape):
            value = times(rows, self.pixels(image, row, column)).sum(axis=-1)
            du += value * row.weight * column.slope
            dv += value * row.slope * column.weight
        u, v, denominator = self.coordinates(matrix, rows.shape[1], rows.shape[2])
        zero_wins = masked_product(True)  # a coordinate far outside has derivative 0, whatever 1 / denominator is
        with np.errstate(all="ignore"):
            du, dv = zero_wins(du, 1 / denominator), zero_wins(dv, 1 / denominator)
            parts = [du, dv, -(zero_wins(du, u) + zero_wins(dv, v))][: self.rows]
        points = np.stack([*np.broadcast_arrays(np.arange(rows.shape[2])[None, :], np.arange(rows.shape[1])[:, None], 1)])
        return np.einsum("inhw,jhw->nij", np.stack(parts), points.astype(rows.dtype)).astype(mat.dtype)


class WarpPerspectiveDataOp(WarpData):
    """The gradient of `hl.warp_perspective` with respect to x: each dy, times the samples' weights, added to the
    sampled pixels.

    The result type gives the image's shape, `sizes` its unknown sizes.
    """

    __slots__ = ()
    name = "bwd.warp_perspective_data"
    rows = 3


class WarpPerspectiveMatOp(WarpMat):
    """The gradient of `hl.warp_perspective` with respect to mat: with (du, dv) the gradient by the coordinates over the
    denominator, the rows are the sums over all points of du, dv and -(du u + dv v), times (j, i, 1)."""

    __slots__ = ()
    name = "bwd.warp_perspective_mat"
    rows = 3


class WarpAffineDataOp(WarpData):
    """The gradient of `hl.warp_affine` with respect to x: each dy, times the samples' weights, added to the sampled
    pixels.

    The result type gives the image's shape, `sizes` its unknown sizes.
    """

    __slots__ = ()
    name = "bwd.warp_affine_data"
    rows = 2


class WarpAffineMatOp(WarpMat):
    """The gradient of `hl.warp_affine` with respect to mat: the sums over all points of the gradient by the coordinates
    times (j, i, 1)."""

    __slots__ = ()
    name = "bwd.warp_affine_mat"
    rows = 2
