"""Image ops: pixel shuffle, and sampling under an affine or projective map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, SCALAR_I64, check_dims, shape_text, tensor_type
from gradopt.dialects.hl.neural.common import check_positive, invert, layout_axes, permuted, run_time_shape
from gradopt.dialects.prim.data import check_sizes
from gradopt.ir.attribute_kinds import FLOAT, INTEGER, enumeration
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result, variadic
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import floordiv, mod, multiply, provably_different
from gradopt.ir.types import TensorType, Type, tensor
from gradopt.ir.values import Value


class Shuffle(Operation):
    """Base of pixel_shuffle and its adjoint, between x [..., C * r^2, H, W] and y [..., C, H * r, W * r] ("NHWC":
    channels last)."""

    __slots__ = ()
    factor = attribute(INTEGER)
    layout = attribute(enumeration("NCHW", "NHWC"), default="NCHW")

    def image_axes(self, name: str, value: Value) -> tuple[TensorType, list[int]]:
        """(type, the axes of C, H, W). Raises InvalidOperation."""
        check_positive(self, "factor")
        type = tensor_type(value)
        if type.rank < 3:
            raise InvalidOperation(f"operand '{name}' has shape {shape_text(type)}, expected rank 3 or more")
        return type, [type.rank - 3 + axis for axis in ((0, 1, 2) if self.layout == "NCHW" else (2, 0, 1))]

    def shuffle(self, x: Array) -> Array:
        """Channel c * r^2 + i * r + j at (h, w) goes to channel c at (h * r + i, w * r + j)."""
        import numpy as np

        r = self.factor
        image = x if self.layout == "NCHW" else np.moveaxis(x, -1, -3)
        *lead, channels, height, width = image.shape
        parts = image.reshape(-1, channels // r ** 2, r, r, height, width).transpose(0, 1, 4, 2, 5, 3)
        out = parts.reshape(*lead, channels // r ** 2, height * r, width * r)
        return out if self.layout == "NCHW" else np.moveaxis(out, -3, -1)

    def unshuffle(self, y: Array) -> Array:
        """The inverse of `shuffle`."""
        import numpy as np

        r = self.factor
        image = y if self.layout == "NCHW" else np.moveaxis(y, -1, -3)
        *lead, channels, height, width = image.shape
        parts = image.reshape(-1, channels, height // r, r, width // r, r).transpose(0, 1, 3, 5, 2, 4)
        out = parts.reshape(*lead, channels * r ** 2, height // r, width // r)
        return out if self.layout == "NCHW" else np.moveaxis(out, -3, -1)


class PixelShuffleOp(Shuffle):
    """Channels moved into space by `factor` r: y[..., c, h * r + i, w * r + j] = x[..., c * r^2 + i * r + j, h, w] (Shi
    et al. 2016).

    x has rank 3 or more and a number of channels divisible by r^2; "NHWC" has the channels last. The adjoint is the
    inverse, `bwd.pixel_shuffle`.
    """

    __slots__ = ()
    name = "hl.pixel_shuffle"
    x = operand(ANY_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type, (channel, height, width) = self.image_axes("x", self.x)
        dims = list(type.dims)
        if provably_different(mod(dims[channel], self.factor ** 2), 0):
            raise InvalidOperation(f"has {dims[channel]} channels, expected a multiple of factor^2 ({self.factor ** 2})")
        dims[channel] = floordiv(dims[channel], self.factor ** 2)
        dims[height], dims[width] = multiply(dims[height], self.factor), multiply(dims[width], self.factor)
        return [tensor(dims, type.element)]

    def evaluate(self, x: Array) -> Array:
        return self.shuffle(x)


IMODES = ("linear", "nearest", "cubic")
BORDERS = ("replicate", "reflect", "reflect_101", "wrap", "constant")
FAR = float(1 << 30)  # coordinates beyond it, and those that are not finite, lie this far outside
CUBIC = -0.75  # the free coefficient of the cubic kernel (Keys 1981), as in OpenCV


class Tap(NamedTuple):
    """One sample along an axis for every point of the result: where, whether inside, its weight and the weight's
    derivative."""

    index: Array
    inside: Array
    weight: Array
    slope: Array


def tap_offsets(imode: str) -> Sequence[int]:
    """The samples along an axis, counted from the coordinate's floor."""
    return {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[imode]


def cubic_weight(distance: Array) -> tuple[Array, Array]:
    """Keys' cubic kernel and its derivative at a signed distance below 2."""
    import numpy as np

    d, sign, a = np.abs(distance), np.sign(distance), CUBIC
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    near_slope, far_slope = (3 * (a + 2) * d - 2 * (a + 3)) * d, (3 * a * d - 10 * a) * d + 8 * a
    return np.where(d <= 1, near, far), sign * np.where(d <= 1, near_slope, far_slope)


def border_index(index: Array, size: int, border: str) -> tuple[Array, Array]:
    """(the pixel that stands for index, whether it is a pixel and not border_value)."""
    import numpy as np

    inside = np.ones(index.shape, np.bool_)
    if border == "replicate":
        return np.clip(index, 0, size - 1), inside
    if border == "wrap":
        return index % size, inside
    if border == "reflect":
        folded = index % (2 * size)
        return np.where(folded >= size, 2 * size - 1 - folded, folded), inside
    if border == "reflect_101":
        folded = index % max(2 * size - 2, 1)
        return np.where(folded >= size, 2 * size - 2 - folded, folded), inside
    return np.clip(index, 0, size - 1), (index >= 0) & (index < size)


class WarpAttributes(Operation):
    """Base of the warps and their adjoints."""

    __slots__ = ()
    rows: int  # 3: projective, 2: affine
    imode = attribute(enumeration(*IMODES), default="linear")
    border_mode = attribute(enumeration(*BORDERS), default="replicate")
    border_value = attribute(FLOAT, default=0.0)
    format = attribute(enumeration("NHWC", "NCHW"), default="NHWC")

    @property
    def data_axes(self) -> list[int]:
        """The axes of an image in the order N, H, W, C."""
        return layout_axes(self.format, "NHWC")

    def check(self, image: TensorType, mat: Value, warped: TensorType, names: tuple[str, str]) -> None:
        """Raises InvalidOperation unless image, matrix and warped image fit."""
        for name, type in zip(names, (image, warped)):
            if type.rank != 4:
                raise InvalidOperation(f"{name} has shape {shape_text(type)}, expected rank 4")
        source, target = (permuted(type.dims, self.data_axes) for type in (image, warped))
        if source[1] == 0 or source[2] == 0:
            raise InvalidOperation(f"{names[0]} has shape {shape_text(image)}, expected an image with pixels")
        if image.element is not warped.element:
            raise InvalidOperation(f"{names[0]} has element type {image.element.text}, but {names[1]} has {warped.element.text}")
        check_dims("mat", mat, [source[0], self.rows, 3])
        for letter, a, b in (("N", source[0], target[0]), ("C", source[3], target[3])):
            if provably_different(a, b):
                raise InvalidOperation(f"{names[1]} has size {b} for {letter}, expected {a}")

    def working(self, *arrays: Array) -> list[Array]:
        """Arrays in the widest of their accumulation dtypes."""
        import numpy as np

        dtype = np.result_type(*(widen(array).dtype for array in arrays))
        return [array.astype(dtype, copy=False) for array in arrays]

    def coordinates(self, mat: Array, height: int, width: int) -> tuple[Array, Array, Array]:
        """(column u, row v, denominator) in the source for each point of the result: [N, height, width]."""
        import numpy as np

        points = np.stack([*np.broadcast_arrays(np.arange(width)[None, :], np.arange(height)[:, None], 1)]).astype(mat.dtype)
        mapped = np.einsum("nij,jhw->nihw", mat, points)
        denominator = mapped[:, 2] if self.rows == 3 else np.ones_like(mapped[:, 0])
        with np.errstate(all="ignore"):
            return mapped[:, 0] / denominator, mapped[:, 1] / denominator, denominator

    def taps(self, coordinate: Array, size: int) -> list[Tap]:
        """The samples along an axis of `size` pixels for each coordinate."""
        import numpy as np

        usable = np.abs(coordinate) < FAR
        near = np.where(usable, coordinate, np.where(coordinate > 0, FAR, -FAR)).astype(coordinate.dtype)
        base = np.floor(near + 0.5) if self.imode == "nearest" else np.floor(near)
        fraction = near - base
        found = []
        for offset in tap_offsets(self.imode):
            index, inside = border_index(base.astype(np.int64) + offset, size, self.border_mode)
            if self.imode == "nearest":
                weight, slope = np.ones_like(near), np.zeros_like(near)
            elif self.imode == "linear":
                weight = fraction if offset else 1 - fraction
                slope = np.full_like(near, 1 if offset else -1)
            else:
                weight, slope = cubic_weight(fraction - offset)
            found.append(Tap(index, inside, weight, np.where(usable, slope, 0)))
        return found

    def samples(self, mat: Array, source: Sequence[int], target: Sequence[int]) -> list[tuple[Tap, Tap]]:
        """Every (row tap, column tap) of each point; source and target are N, H, W, C."""
        u, v, _ = self.coordinates(mat, target[1], target[2])
        return [(row, column) for row in self.taps(v, source[1]) for column in self.taps(u, source[2])]

    def pixels(self, image: Array, row: Tap, column: Tap) -> Array:
        """The sampled pixels [N, Ho, Wo, C], border_value where the border is constant."""
        import numpy as np

        batch = np.arange(image.shape[0])[:, None, None]
        inside = (row.inside & column.inside)[..., None]
        return np.where(inside, image[batch, row.index, column.index], image.dtype.type(self.border_value))


class Warp(WarpAttributes):
    """Base of warp_perspective and warp_affine."""

    __slots__ = ()
    x = operand(FLOAT_TENSOR)
    mat = operand(FLOAT_TENSOR)
    sizes = variadic(SCALAR_I64)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        check_sizes(self, len(self.sizes))
        self.check(tensor_type(self.x), self.mat, tensor_type(self.results[0]), ("operand 'x'", "result"))

    def evaluate(self, x: Array, mat: Array, *sizes: Array) -> Array:
        import numpy as np

        shape = run_time_shape(self, tensor_type(self.results[0]), (x, mat), sizes)
        image, matrix = self.working(x.transpose(self.data_axes), mat)
        target = [shape[axis] for axis in self.data_axes]
        out = np.zeros(target, image.dtype)
        for row, column in self.samples(matrix, image.shape, target):
            out += (row.weight * column.weight)[..., None] * self.pixels(image, row, column)
        return out.transpose(invert(self.data_axes)).astype(x.dtype)


_WARP = """Images sampled under {kind} map of each image's matrix.

The point at column j, row i of the result reads the source at {formula}.
x is [N, H, W, C] (format "NCHW": [N, C, H, W]); mat [N, {rows}, 3] of any float type; the result type gives the size of
the warped image, `sizes` its unknown sizes. imode "linear", "nearest" (floor(u + 0.5)) or "cubic" (Keys 1981, a =
-0.75). A sample outside stands for another pixel by border_mode: "replicate" aaa|abc|ccc, "reflect" cba|abc|cba,
"reflect_101" cb|abc|ba, "wrap" abc|abc|abc, or is border_value ("constant"). A coordinate that is not finite, or beyond
2^30, lies far outside. The derivative by the coordinates is that of the interpolation between the samples, 0 for
"nearest" and where both samples are the same border pixel. Adjoints: `bwd.{name}_data`, `bwd.{name}_mat`."""


class WarpPerspectiveOp(Warp):
    __slots__ = ()
    __doc__ = _WARP.format(kind="the projective", rows=3, name="warp_perspective",
                           formula="column u = (m00 j + m01 i + m02) / d, row v = (m10 j + m11 i + m12) / d, where "
                                   "d = m20 j + m21 i + m22")
    name = "hl.warp_perspective"
    rows = 3


class WarpAffineOp(Warp):
    __slots__ = ()
    __doc__ = _WARP.format(kind="the affine", rows=2, name="warp_affine",
                           formula="column u = m00 j + m01 i + m02, row v = m10 j + m11 i + m12")
    name = "hl.warp_affine"
    rows = 2

