"""Decompositions of the image ops: a pixel shuffle is a permutation, a warp one `prim.gather_nd` for each sample of the
interpolation."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.neural.common import invert
from gradopt.dialects.hl.neural.image import CUBIC, FAR, tap_offsets
from gradopt.dialects.prim.shape import END
from gradopt.ir.builder import Builder
from gradopt.ir.sizes import UNKNOWN
from gradopt.ir.types import I64
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import cast_to, expand_like, full_like, full_of, iota_like, reduce_sum
from gradopt.lowering.decompose.extents import Extent, expand, extents_of, iota, permute, reshape, result_extents, static
from gradopt.lowering.decompose.neural import absolute_below, compare, product_of, working_element, zero_where
from gradopt.lowering.decompose.registry import decomposition


@decomposition("hl.pixel_shuffle", "bwd.pixel_shuffle")
def pixel_shuffle(b: Builder, op: Any) -> Value:
    """[..., C, r, r, H, W] to [..., C, H, r, W, r] and back, between reshapes."""
    x, r = op.operands[0], op.factor
    rank = tensor_type(x).rank
    lead = list(range(rank - 3))
    last = [rank - 3, rank - 2, rank - 1] if op.layout == "NCHW" else [rank - 1, rank - 3, rank - 2]
    x = permute(b, x, lead + last)
    *outer, channels, height, width = extents_of(b, x)
    factor, at = static(b, r)[0], len(lead)
    if op.name == "hl.pixel_shuffle":
        x = reshape(b, x, [*outer, channels // (r * r), factor, factor, height, width])
        x = permute(b, x, [*lead, at, at + 3, at + 1, at + 4, at + 2])
        x = reshape(b, x, [*outer, channels // (r * r), height * r, width * r])
    else:
        x = reshape(b, x, [*outer, channels, height // r, factor, width // r, factor])
        x = permute(b, x, [*lead, at, at + 2, at + 4, at + 1, at + 3])
        x = reshape(b, x, [*outer, channels * (r * r), height // r, width // r])
    return permute(b, x, invert(lead + last))


class Tap:
    """A sample along one axis for every point [N, Ho, Wo]: where, whether inside (None: always), its weight and the
    weight's slope."""

    def __init__(self, index: Value, inside: Value | None, weight: Value, slope: Value) -> None:
        self.index, self.inside, self.weight, self.slope = index, inside, weight, slope


class Sampling:
    """What the warps share: the coordinates of every point in the source, and the samples around them.

    `source` and `target` are the sizes N, H, W, C of the image and of the warped image. The slopes are 0 for a
    coordinate that is not finite or far outside."""

    def __init__(self, b: Builder, op: Any, element: Any, source: list[Extent], target: list[Extent]) -> None:
        self.b, self.op, self.element = b, op, element
        self.source, self.target = source, target
        self.points = target[:3]
        matrix = cast_to(b, op.mat, element)
        self.column, self.row = (cast_to(b, iota(b, self.points, axis), element) for axis in (2, 1))
        lines = [self.mapped(matrix, line) for line in range(op.rows)]
        self.u, self.v = lines[0], lines[1]
        self.denominator = full_like(b, self.u, 1)
        if op.rows == 3:
            self.denominator = lines[2]
            self.u, self.v = b.prim.div(lines[0], lines[2]), b.prim.div(lines[1], lines[2])
        self.taps_u, self.taps_v = self.taps(self.u, 2), self.taps(self.v, 1)

    def mapped(self, matrix: Value, line: int) -> Value:
        """m0 * column + m1 * row + m2 of a line of each matrix."""
        b = self.b
        entries = [self.entry(matrix, line, position) for position in range(3)]
        return b.prim.add(b.prim.add(b.prim.mul(entries[0], self.column), b.prim.mul(entries[1], self.row)), entries[2])

    def entry(self, matrix: Value, line: int, position: int) -> Value:
        """One entry of each matrix at every point."""
        b = self.b
        batch = tensor_type(matrix).dims[0]
        last = batch if isinstance(batch, int) else END
        part = b.prim.slice(matrix, begin=[0, line, position], end=[last, line + 1, position + 1], strides=[1, 1, 1])
        return expand(b, reshape(b, part, [self.points[0]]), self.points, [1, 2])

    def taps(self, coordinate: Value, axis: int) -> list[Tap]:
        """The samples along an axis (1: rows, 2: columns) of the source."""
        b, op = self.b, self.op
        usable = absolute_below(b, coordinate, FAR)
        far = b.prim.select(compare(b, coordinate, "gt", 0), full_like(b, coordinate, FAR), full_like(b, coordinate, -FAR))
        near = b.prim.select(usable, coordinate, far)
        shifted = b.prim.add(near, full_like(b, near, 0.5)) if op.imode == "nearest" else near
        base = b.prim.floor(shifted)
        fraction, whole = b.prim.sub(near, base), cast_to(b, base, I64)
        found = []
        for offset in tap_offsets(op.imode):
            index, inside = self.border(b.prim.add(whole, full_like(b, whole, offset)), axis)
            weight, slope = self.weights(fraction, offset)
            found.append(Tap(index, inside, weight, zero_where(b, usable, slope)))
        return found

    def weights(self, fraction: Value, offset: int) -> tuple[Value, Value]:
        """(weight, its derivative) of the sample at floor + offset."""
        b, imode = self.b, self.op.imode
        one, zero = full_like(b, fraction, 1), full_like(b, fraction, 0)
        if imode == "nearest":
            return one, zero
        if imode == "linear":
            return (fraction, one) if offset else (b.prim.sub(one, fraction), full_like(b, fraction, -1))
        return self.cubic(fraction, offset)

    def cubic(self, fraction: Value, offset: int) -> tuple[Value, Value]:
        """Keys' kernel at the distance |fraction - offset|, which lies in [0, 1] for offsets 0 and 1 and in [1, 2] for
        -1 and 2."""
        b, a = self.b, CUBIC
        ahead = offset > 0
        constant = full_like(b, fraction, offset)
        distance = b.prim.sub(constant, fraction) if ahead else b.prim.sub(fraction, constant)
        coefficients = (a + 2, -(a + 3), 0.0, 1.0) if offset in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
        value = self.polynomial(distance, coefficients)
        slope = self.polynomial(distance, (3 * coefficients[0], 2 * coefficients[1], coefficients[2]))
        return value, b.prim.neg(slope) if ahead else slope

    def polynomial(self, x: Value, coefficients: tuple[float, ...]) -> Value:
        """By Horner's rule, the highest power first."""
        b = self.b
        value = full_like(b, x, coefficients[0])
        for coefficient in coefficients[1:]:
            value = b.prim.add(b.prim.mul(value, x), full_like(b, x, coefficient))
        return value

    def border(self, index: Value, axis: int) -> tuple[Value, Value | None]:
        """(the pixel that stands for index, whether it is one; None: always)."""
        b, mode = self.b, self.op.border_mode
        size = self.source[axis]

        def spread(extent: Extent) -> Value:
            return expand_like(b, extent.value, index)

        zero = full_like(b, index, 0)
        if mode in ("replicate", "constant"):
            clipped = b.prim.max(b.prim.min(index, spread(size + -1)), zero)
            return clipped, compare(b, clipped, "eq", index) if mode == "constant" else None
        if mode == "wrap":
            return self.modulo(index, spread(size)), None
        double = size * 2 if mode == "reflect" else self.at_least_one(size * 2 + -2)
        folded = self.modulo(index, spread(double))
        back = b.prim.sub(spread(size * 2 + (-1 if mode == "reflect" else -2)), folded)
        return b.prim.select(compare(b, folded, "ge", spread(size)), back, folded), None

    def at_least_one(self, extent: Extent) -> Extent:
        """The larger of an extent and 1."""
        if isinstance(extent.size, int):
            return Extent(self.b, max(extent.size, 1))
        return Extent(self.b, extent.size, lambda: self.b.prim.max(extent.value, Extent(self.b, 1).value))

    def modulo(self, index: Value, size: Value) -> Value:
        """index mod size, never negative."""
        b = self.b
        rest = b.prim.rem(index, size)
        return b.prim.select(compare(b, rest, "lt", 0), b.prim.add(rest, size), rest)

    def vectors(self, row: Tap, column: Tap) -> Value:
        """The index vectors (n, row, column) of a sample: i64 [N, Ho, Wo, 3]."""
        b = self.b
        parts = [iota_like(b, row.index, 0), row.index, column.index]
        return b.prim.concat(*(reshape(b, part, [*self.points, *static(b, 1)]) for part in parts), axis=3)

    def inside(self, row: Tap, column: Tap) -> Value | None:
        """Whether a sample is a pixel at all; None: always."""
        if row.inside is None or column.inside is None:
            return None
        return self.b.prim.and_(row.inside, column.inside)

    def over_channels(self, x: Value) -> Value:
        """A value for each point, for each of its channels."""
        return expand(self.b, x, self.target, [3])

    def pixels(self, image: Value, row: Tap, column: Tap) -> Value:
        """The sampled pixels, [N, Ho, Wo, C]."""
        b = self.b
        found = b.prim.gather_nd(image, self.vectors(row, column), mode="fast")
        inside = self.inside(row, column)
        if inside is None:
            return found
        return b.prim.select(self.over_channels(inside), found, full_like(b, found, self.op.border_value))

    def pairs(self) -> list[tuple[Tap, Tap]]:
        """Every sample."""
        return [(row, column) for row in self.taps_v for column in self.taps_u]


@decomposition("hl.warp_perspective", "hl.warp_affine")
def warp(b: Builder, op: Any) -> Value:
    """The weighted sum of the samples."""
    element = working_element(op.x, op.mat)
    image = permute(b, cast_to(b, op.x, element), op.data_axes)
    extents = result_extents(b, op)
    sampling = Sampling(b, op, element, extents_of(b, image), [extents[axis] for axis in op.data_axes])
    total = None
    for row, column in sampling.pairs():
        part = b.prim.mul(sampling.over_channels(b.prim.mul(row.weight, column.weight)), sampling.pixels(image, row, column))
        total = part if total is None else b.prim.add(total, part)
    assert total is not None
    return cast_to(b, permute(b, total, invert(op.data_axes)), tensor_type(op.x).element)


@decomposition("bwd.warp_perspective_data", "bwd.warp_affine_data")
def warp_data(b: Builder, op: Any) -> Value:
    """Each dy times a sample's weight, added to the sampled pixel."""
    element, times = working_element(op.dy, op.mat), product_of(b, op.masked)
    dy = permute(b, cast_to(b, op.dy, element), op.data_axes)
    extents = result_extents(b, op)
    source = [extents[axis] for axis in op.data_axes]
    sampling = Sampling(b, op, element, source, extents_of(b, dy))
    sizes = [extent.value for extent in source if extent.size is UNKNOWN]
    dx = full_of(b, 0, [extent.size for extent in source], sizes, element)
    for row, column in sampling.pairs():
        weight, inside = b.prim.mul(row.weight, column.weight), sampling.inside(row, column)
        if inside is not None:
            weight = zero_where(b, inside, weight)
        update = times(dy, sampling.over_channels(weight))
        dx = b.prim.scatter_nd(dx, sampling.vectors(row, column), update, kind="add", mode="fast")
    return cast_to(b, permute(b, dx, invert(op.data_axes)), tensor_type(op.results[0]).element)


@decomposition("bwd.warp_perspective_mat", "bwd.warp_affine_mat")
def warp_mat(b: Builder, op: Any) -> Value:
    """The gradient by the coordinates, times their derivatives by the entries, summed over the points."""
    element, times, zero_wins = working_element(op.x, op.dy, op.mat), product_of(b, op.masked), product_of(b, True)
    image, dy = (permute(b, cast_to(b, value, element), op.data_axes) for value in (op.x, op.dy))
    sampling = Sampling(b, op, element, extents_of(b, image), extents_of(b, dy))
    du = dv = full_like(b, sampling.u, 0)
    for row, column in sampling.pairs():
        value = reduce_sum(b, times(dy, sampling.pixels(image, row, column)), [3])
        du = b.prim.add(du, b.prim.mul(value, b.prim.mul(row.weight, column.slope)))
        dv = b.prim.add(dv, b.prim.mul(value, b.prim.mul(row.slope, column.weight)))
    lines = [du, dv]
    if op.rows == 3:
        inverse = b.prim.recip(sampling.denominator)
        du, dv = zero_wins(du, inverse), zero_wins(dv, inverse)
        lines = [du, dv, b.prim.neg(b.prim.add(zero_wins(du, sampling.u), zero_wins(dv, sampling.v)))]
    entries = []
    for line in lines:
        for position in (sampling.column, sampling.row, None):
            product = line if position is None else b.prim.mul(line, position)
            entries.append(reshape(b, reduce_sum(b, product, [1, 2]), [sampling.points[0], *static(b, 1)]))
    joined = b.prim.concat(*entries, axis=1)
    return cast_to(b, reshape(b, joined, [sampling.points[0], *static(b, op.rows, 3)]), tensor_type(op.mat).element)
