"""Maximum and average pooling over windows."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, check_length, shape_text, tensor_type
from gradopt.dialects.hl.neural.common import check_layout, check_positive, invert, layout_axes, permuted
from gradopt.dialects.hl.neural.convolution import check_fit, check_padding
from gradopt.dialects.prim.linear import dilated, window_size
from gradopt.ir.attribute_kinds import BOOLEAN, INTEGERS, PAIRS, STRING
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import UNKNOWN, Size, add, ceildiv, subtract
from gradopt.ir.types import TensorType, Type, tensor


class Pooling(Operation):
    """Base of the pooling ops and their adjoints: the attributes, and where windows lie."""

    __slots__ = ()
    pool_size = attribute(INTEGERS)
    strides = attribute(INTEGERS, default=(1, 1))
    padding = attribute(PAIRS, default=((0, 0), (0, 0)))
    dilation = attribute(INTEGERS, default=(1, 1))
    ceil_mode = attribute(BOOLEAN, default=False)
    count_include_pad = attribute(BOOLEAN, default=False)
    layout = attribute(STRING, default="NCHW")

    @property
    def data_axes(self) -> list[int]:
        """The axes of x in the order N, C, H, W."""
        return layout_axes(self.layout, "NCHW")

    def pooled(self, image: TensorType, what: str = "operand 'x'") -> list[Size]:
        """The sizes of the result for an image type, in the op's layout. Raises InvalidOperation."""
        for name in ("pool_size", "strides", "padding", "dilation"):
            check_length(getattr(self, name), 2, name)
        check_positive(self, "pool_size", "strides", "dilation")
        check_padding(self.padding)
        check_layout(self.layout, "NCHW")
        if image.rank != 4:
            raise InvalidOperation(f"{what} has shape {shape_text(image)}, expected rank 4")
        dims = permuted(image.dims, self.data_axes)
        return permuted([*dims[:2], *(self.window_count(axis, dims[axis + 2]) for axis in range(2))], invert(self.data_axes))

    def window_count(self, axis: int, size: Size) -> Size:
        """The number of windows along a spatial axis (0: H, 1: W).

        With ceil_mode a last window may hang over the end, but it starts inside the operand or the padding before
        it."""
        span, stride = dilated(self.pool_size[axis], self.dilation[axis]), self.strides[axis]
        before, after = self.padding[axis]
        if not self.ceil_mode:
            check_fit(size, span, (before, after), "HW"[axis])
            return window_size(size, self.pool_size[axis], before, after, stride, 1, self.dilation[axis])
        check_fit(size, subtract(span, stride - 1), (before, after), "HW"[axis])
        count = add(ceildiv(subtract(add(size, before + after), span), stride), 1)
        starts = ceildiv(add(size, before), stride)
        if isinstance(count, int) and isinstance(starts, int):
            return min(count, starts)
        assert isinstance(span, int)
        return count if stride <= span - after else UNKNOWN

    def window_reads(self, axis: int, size: int, count: int) -> Array:
        """The position in x (may be outside) of each element of each window along an axis: [count, pool size]."""
        import numpy as np

        starts = np.arange(count)[:, None] * self.strides[axis] - self.padding[axis][0]
        return starts + np.arange(self.pool_size[axis])[None, :] * self.dilation[axis]

    def windows(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """For x [N, C, H, W]: (values [N, C, Ho, Wo, kh, kw], inside [Ho, Wo, kh, kw], rows [Ho, kh], columns [Wo,
        kw])."""
        import numpy as np

        rows, columns = (self.window_reads(axis, x.shape[axis + 2], int(self.window_count(axis, x.shape[axis + 2])))  # type: ignore[arg-type]
                         for axis in range(2))
        inside = inside_of(rows, x.shape[2])[:, None, :, None] & inside_of(columns, x.shape[3])[None, :, None, :]
        safe_rows, safe_columns = np.clip(rows, 0, x.shape[2] - 1), np.clip(columns, 0, x.shape[3] - 1)
        return x[:, :, safe_rows[:, None, :, None], safe_columns[None, :, None, :]], inside, rows, columns

    def first_maximum(self, x: Array) -> tuple[Array, Array]:
        """(flat index kh * kw of the first largest element inside x of each window, NaN wins; whether it has any): [N,
        C, Ho, Wo]."""
        import numpy as np

        values, inside, _, _ = self.windows(x)
        flat = values.reshape(*values.shape[:4], values.shape[4] * values.shape[5])
        valid = np.broadcast_to(inside.reshape(*inside.shape[:2], -1), flat.shape)
        candidates = np.where(valid, flat, -np.inf)
        best = candidates.argmax(axis=-1)
        lowest = np.take_along_axis(candidates, best[..., None], -1)[..., 0] == -np.inf
        return np.where(lowest, valid.argmax(axis=-1), best), valid.any(axis=-1)

    def divisors(self, shape: Sequence[int]) -> Array:
        """What the sum of each window is divided by, [Ho, Wo]: its elements inside x, or with count_include_pad inside
        the padded x; at least 1."""
        import numpy as np

        counts = []
        for axis in range(2):
            size, after = shape[axis + 2], self.padding[axis][1]
            reads = self.window_reads(axis, size, int(self.window_count(axis, size)))  # type: ignore[arg-type]
            counted = (reads < size + after) if self.count_include_pad else inside_of(reads, size)
            counts.append(counted.sum(axis=1))
        return np.maximum(counts[0][:, None] * counts[1][None, :], 1)


def inside_of(positions: Array, size: int) -> Array:
    """Which positions exist on an axis of that size."""
    found: Array = (positions >= 0) & (positions < size)
    return found


class MaxPool2dOp(Pooling):
    """The largest element of each window of an image; NaN wins. Padding never does: a window without any element of x
    gives -inf.

    The window at (i, j) has the elements i * strides[0] - before + a * dilation[0] for a in [0, pool_size[0]), and so
    on. A count is (size + before + after - (dilation * (pool_size - 1) + 1)) // stride + 1, with `ceil_mode` rounded
    up, where the last window must still start inside x or the padding before it. The gradient goes to the first largest
    element of the window (the first NaN; the first element inside x where all are -inf): `bwd.max_pool2d`.
    `count_include_pad` is taken for symmetry with avg_pool2d; it has no effect here.
    """

    __slots__ = ()
    name = "hl.max_pool2d"
    x = operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        return [tensor(self.pooled(type), type.element)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        image = x.transpose(self.data_axes)
        values = self.windows(image)[0]
        index, found = self.first_maximum(image)
        y = np.take_along_axis(values.reshape(*values.shape[:4], values.shape[4] * values.shape[5]), index[..., None], -1)[..., 0]
        return np.where(found, y, x.dtype.type(-np.inf)).transpose(invert(self.data_axes))


class AvgPool2dOp(Pooling):
    """The mean of each window of an image: the sum of its elements inside x, divided by their number.

    With `count_include_pad` the divisor counts padding too, but nothing beyond it (a window that `ceil_mode` lets hang
    over the end is divided by its part inside the padded image). A window without any element gives 0. Windows as in
    max_pool2d. Adjoint: `bwd.avg_pool2d`.
    """

    __slots__ = ()
    name = "hl.avg_pool2d"
    x = operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        return [tensor(self.pooled(type), type.element)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        image = widen(x).transpose(self.data_axes)
        values, inside, _, _ = self.windows(image)
        total = np.where(inside, values, values.dtype.type(0)).sum(axis=(4, 5))
        return (total / self.divisors(image.shape).astype(total.dtype)).transpose(invert(self.data_axes)).astype(x.dtype)
