"""`prim` ops of linear algebra: products, convolutions, unfolding, and the two factor solvers."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import (
    ANY_TENSOR,
    FLOAT_TENSOR,
    NUMBER_TENSOR,
    SCALAR_I64,
    check_axes,
    check_length,
    merge_size,
    same_element,
    shape_text,
    tensor_type,
)
from gradopt.dialects.prim.data import check_sizes
from gradopt.ir.attribute_kinds import BOOLEAN, INTEGER, INTEGERS, PAIRS
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result, variadic
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, add, floordiv, multiply, product, provably_different, subtract
from gradopt.ir.types import TensorType, Type, tensor


def dot_axes(op: Operation, lhs: TensorType, rhs: TensorType) -> tuple[list[int], list[int], list[int], list[int], list[int], list[int]]:
    """(lhs batch, rhs batch, lhs contract, rhs contract, lhs free, rhs free). Raises InvalidOperation."""
    lists = []
    for name, type in (("lhs_batch", lhs), ("rhs_batch", rhs), ("lhs_contract", lhs), ("rhs_contract", rhs)):
        lists.append(check_axes(getattr(op, name), type.rank, name))
    lhs_batch, rhs_batch, lhs_contract, rhs_contract = lists
    for name, left, right in (("batch", lhs_batch, rhs_batch), ("contract", lhs_contract, rhs_contract)):
        if len(left) != len(right):
            raise InvalidOperation(f"has {len(left)} axes in 'lhs_{name}' and {len(right)} in 'rhs_{name}'")
        for a, b in zip(left, right):
            if provably_different(lhs.dims[a], rhs.dims[b]):
                raise InvalidOperation(f"{name} axis {a} of a has size {lhs.dims[a]}, but axis {b} of b has {rhs.dims[b]}")
    for side, batch, contract in (("lhs", lhs_batch, lhs_contract), ("rhs", rhs_batch, rhs_contract)):
        if set(batch) & set(contract):
            raise InvalidOperation(f"names axis {min(set(batch) & set(contract))} in both '{side}_batch' and '{side}_contract'")
    lhs_free = [axis for axis in range(lhs.rank) if axis not in lhs_batch and axis not in lhs_contract]
    rhs_free = [axis for axis in range(rhs.rank) if axis not in rhs_batch and axis not in rhs_contract]
    return lhs_batch, rhs_batch, lhs_contract, rhs_contract, lhs_free, rhs_free


def dot_type(op: Operation, lhs: TensorType, rhs: TensorType) -> Type:
    """Batch sizes, then a's free ones, then b's."""
    lhs_batch, rhs_batch, _, _, lhs_free, rhs_free = dot_axes(op, lhs, rhs)
    batch = [merge_size(lhs.dims[a], rhs.dims[b]) for a, b in zip(lhs_batch, rhs_batch)]
    return tensor([*batch, *(lhs.dims[a] for a in lhs_free), *(rhs.dims[b] for b in rhs_free)], lhs.element)


class DotOp(Operation):
    """Sum over the contracted axes of products: batch axes first, then the free axes of `a`, then those of `b`.

    16-bit floats accumulate in f32; integers wrap.
    """

    __slots__ = ()
    name = "prim.dot"
    a = operand(NUMBER_TENSOR)
    b = operand(NUMBER_TENSOR)
    lhs_batch = attribute(INTEGERS, default=())
    rhs_batch = attribute(INTEGERS, default=())
    lhs_contract = attribute(INTEGERS)
    rhs_contract = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        same_element(a=self.a, b=self.b)
        return [dot_type(self, tensor_type(self.a), tensor_type(self.b))]

    def evaluate(self, lhs: Array, rhs: Array) -> Array:
        axes = dot_axes(self, tensor_type(self.a), tensor_type(self.b))
        return dot_arrays(lhs, rhs, *axes)


def dot_arrays(lhs: Array, rhs: Array, lhs_batch: list[int], rhs_batch: list[int], lhs_contract: list[int],
               rhs_contract: list[int], lhs_free: list[int], rhs_free: list[int]) -> Array:
    """The meaning of `prim.dot`, by one matrix product over flattened axes."""
    import numpy as np

    left = widen(lhs).transpose(*lhs_batch, *lhs_free, *lhs_contract)
    right = widen(rhs).transpose(*rhs_batch, *rhs_contract, *rhs_free)
    batch = [lhs.shape[a] for a in lhs_batch]
    rows, columns = [lhs.shape[a] for a in lhs_free], [rhs.shape[b] for b in rhs_free]
    inner = int(np.prod([lhs.shape[a] for a in lhs_contract], dtype=np.int64))
    m, n, b = (int(np.prod(sizes, dtype=np.int64)) for sizes in (rows, columns, batch))
    out = np.matmul(left.reshape(b, m, inner), right.reshape(b, inner, n))
    return out.reshape([*batch, *rows, *columns]).astype(lhs.dtype, copy=False)


def window_size(size: Size, kernel: Size, low: int, high: int, stride: int, base_dilation: int, dilation: int) -> Size:
    """The number of windows: (dilated size + low + high - dilated kernel) // stride + 1; static values below 0 give 0."""
    spread = dilated(size, base_dilation)
    span = dilated(kernel, dilation)
    total = add(floordiv(subtract(add(spread, low + high), span), stride), 1)
    return max(total, 0) if isinstance(total, int) else total


def dilated(size: Size, dilation: int) -> Size:
    """The extent of `size` elements that lie `dilation` apart: (size - 1) * dilation + 1, and 0 for none."""
    return size if dilation == 1 or size == 0 else add(multiply(subtract(size, 1), dilation), 1)


def check_windows(op: Operation, names: Sequence[str], spatial: int) -> None:
    """Raises InvalidOperation unless `padding` has a pair and each named attribute a value of 1 or more for each spatial axis."""
    for name in ("padding", *names):
        check_length(getattr(op, name), spatial, name)
    for name in names:
        if any(value < 1 for value in getattr(op, name)):
            raise InvalidOperation(f"attribute '{name}' is {list(getattr(op, name))}, expected positive values")
    if any(len(pair) != 2 for pair in op.padding):  # type: ignore[attr-defined]
        raise InvalidOperation("attribute 'padding' takes [before, after] for each spatial axis")


class ConvOp(Operation):
    """Convolution (as in neural networks, so a correlation) of x[N, C, spatial…] with w[O, C / groups, spatial…], giving [N, O, spatial…].

    x is spread by `lhs_dilation`, padded with zeros by `padding` = [before, after] an axis (negative cuts off); the window's
    elements lie `rhs_dilation` apart. Output channel o reads the channels of group o // (O / groups).
    """

    __slots__ = ()
    name = "prim.conv"
    x = operand(FLOAT_TENSOR)
    w = operand(FLOAT_TENSOR)
    strides = attribute(INTEGERS)
    padding = attribute(PAIRS)
    lhs_dilation = attribute(INTEGERS)
    rhs_dilation = attribute(INTEGERS)
    groups = attribute(INTEGER, default=1)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        element = same_element(x=self.x, w=self.w)
        x, w = tensor_type(self.x), tensor_type(self.w)
        spatial = x.rank - 2
        if spatial < 0 or w.rank != x.rank:
            raise InvalidOperation(f"has operands of rank {x.rank} and {w.rank}, expected the same rank of at least 2")
        check_windows(self, ("strides", "lhs_dilation", "rhs_dilation"), spatial)
        if self.groups < 1 or provably_different(x.dims[1], multiply(w.dims[1], self.groups)):
            raise InvalidOperation(f"has {x.dims[1]} input channels, expected {w.dims[1]} for each of {self.groups} groups")
        if isinstance(w.dims[0], int) and w.dims[0] % self.groups:
            raise InvalidOperation(f"has {w.dims[0]} output channels, expected a multiple of {self.groups} groups")
        windows = [window_size(x.dims[i + 2], w.dims[i + 2], self.padding[i][0], self.padding[i][1], self.strides[i],
                               self.lhs_dilation[i], self.rhs_dilation[i]) for i in range(spatial)]
        return [tensor([x.dims[0], w.dims[0], *windows], element)]

    def evaluate(self, x: Array, w: Array) -> Array:
        import numpy as np

        x_wide, w_wide = widen(x), widen(w)
        spatial = x.ndim - 2
        windows = conv_windows(x_wide, w.shape[2:], self.strides, self.padding, self.lhs_dilation, self.rhs_dilation)
        n, o, groups = x.shape[0], w.shape[0], self.groups
        out_shape = windows.shape[2:2 + spatial]
        parts = []
        for group in range(groups):
            per_in, per_out = w.shape[1], o // groups
            part = windows[:, group * per_in:(group + 1) * per_in]
            kernel = w_wide[group * per_out:(group + 1) * per_out]
            contracted = [1, *range(2 + spatial, 2 + 2 * spatial)]
            product_ = np.tensordot(part, kernel, axes=(contracted, [1, *range(2, 2 + spatial)]))
            parts.append(np.moveaxis(product_, -1, 1))
        out = np.concatenate(parts, axis=1) if parts else np.zeros((n, o, *out_shape), x_wide.dtype)
        return out.astype(x.dtype, copy=False)


def conv_windows(x: Array, kernel: Sequence[int], strides: Sequence[int], padding: Sequence[Sequence[int]],
                 base_dilation: Sequence[int], dilation: Sequence[int]) -> Array:
    """Every window of x[N, C, spatial…]: [N, C, windows…, kernel…], a view of the padded array."""
    import numpy as np

    rank = len(kernel)
    spread = [int(dilated(size, d)) for size, d in zip(x.shape[2:], base_dilation)]  # type: ignore[arg-type]
    wide = np.zeros((*x.shape[:2], *spread), x.dtype)
    whole = (slice(None), slice(None))
    places = whole + tuple(slice(None, None, d) for d in base_dilation)
    wide[places] = x
    cut = whole + tuple(slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(padding, spread))
    wide = np.pad(wide[cut], [(0, 0), (0, 0), *((max(low, 0), max(high, 0)) for low, high in padding)])
    spans = [int(dilated(k, d)) for k, d in zip(kernel, dilation)]  # type: ignore[arg-type]
    counts = [max((size - span) // stride + 1, 0) for size, span, stride in zip(wide.shape[2:], spans, strides)]
    if 0 in counts or 0 in kernel:
        return np.zeros((*x.shape[:2], *counts, *kernel), x.dtype)
    views = np.lib.stride_tricks.sliding_window_view(wide, spans, axis=tuple(range(2, 2 + rank)))
    steps = tuple(slice(None, (count - 1) * stride + 1, stride) for count, stride in zip(counts, strides))
    inner = tuple(slice(None, None, d) for d in dilation)
    chosen = whole + steps + inner
    return views[chosen]


class UnfoldOp(Operation):
    """The windows of x[N, C, H, W] as rows: [N * Ho * Wo, C * kh * kw], rows in the order n, ho, wo, columns c, kh, kw (R's Im2Col)."""

    __slots__ = ()
    name = "prim.unfold"
    x = operand(NUMBER_TENSOR)
    kernel = attribute(INTEGERS)
    strides = attribute(INTEGERS)
    padding = attribute(PAIRS)
    dilation = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        counts = unfold_counts(self, type)
        return [tensor([product([type.dims[0], *counts]), product([type.dims[1], *self.kernel])], type.element)]

    def evaluate(self, x: Array) -> Array:
        windows = conv_windows(x, self.kernel, self.strides, self.padding, (1, 1), self.dilation)
        n, c, ho, wo, kh, kw = windows.shape
        return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * ho * wo, c * kh * kw)


def unfold_counts(op: Operation, image: TensorType) -> list[Size]:
    """(Ho, Wo) of an unfold or fold over an image type. Raises InvalidOperation."""
    if image.rank != 4:
        raise InvalidOperation(f"unfolds {image.text}, expected rank 4")
    check_windows(op, ("kernel", "strides", "dilation"), 2)
    return [window_size(image.dims[i + 2], op.kernel[i], op.padding[i][0], op.padding[i][1], op.strides[i], 1, op.dilation[i])  # type: ignore[attr-defined]
            for i in range(2)]


class FoldOp(Operation):
    """The adjoint of `unfold`: each row of y[N * Ho * Wo, C * kh * kw] added to its window of the result [N, C, H, W]."""

    __slots__ = ()
    name = "prim.fold"
    y = operand(NUMBER_TENSOR)
    sizes = variadic(SCALAR_I64)
    kernel = attribute(INTEGERS)
    strides = attribute(INTEGERS)
    padding = attribute(PAIRS)
    dilation = attribute(INTEGERS)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def verify(self) -> None:
        type, rows = tensor_type(self.results[0]), tensor_type(self.y)
        check_sizes(self, len(self._operands) - 1)
        counts = unfold_counts(self, type)
        expected = tensor([product([type.dims[0], *counts]), product([type.dims[1], *self.kernel])], type.element)
        if rows.rank != 2 or rows.element is not type.element or any(
                provably_different(a, b) for a, b in zip(rows.dims, expected.dims)):
            raise InvalidOperation(f"folds shape {shape_text(rows)}, expected {shape_text(expected)} for {type.text}")

    def evaluate(self, y: Array, *sizes: Array) -> Array:
        import numpy as np
        from gradopt.dialects.prim.shape import named_shape

        n, c, h, w = named_shape(self, y, sizes)
        counts = [int(window_size(s, k, p[0], p[1], st, 1, d)) for s, k, p, st, d in  # type: ignore[arg-type]
                  zip((h, w), self.kernel, self.padding, self.strides, self.dilation)]
        windows = widen(y).reshape(n, *counts, c, *self.kernel)
        before, after = [p[0] for p in self.padding], [p[1] for p in self.padding]
        if any(value < 0 for value in (*before, *after)):
            raise ValueError("'prim.fold' op takes no negative padding")
        wide = np.zeros((n, c, h + before[0] + after[0], w + before[1] + after[1]), windows.dtype)
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                top, left = i * self.dilation[0], j * self.dilation[1]
                wide[:, :, top: top + counts[0] * self.strides[0]: self.strides[0],
                     left: left + counts[1] * self.strides[1]: self.strides[1]] += windows[:, :, :, :, i, j].transpose(0, 3, 1, 2)
        return wide[:, :, before[0]: before[0] + h, before[1]: before[1] + w].astype(y.dtype)


def check_square(type: TensorType) -> None:
    """Raises InvalidOperation unless the last two sizes may be equal."""
    if type.rank < 2 or provably_different(type.dims[-1], type.dims[-2]):
        raise InvalidOperation(f"takes square matrices, found {type.text}")


class CholeskyOp(Operation):
    """The lower factor L of a = L L^T for each matrix in the last two axes (only the lower triangle of `a` is read; zeros above). A
    matrix that is not positive definite gives NaN."""

    __slots__ = ()
    name = "prim.cholesky"
    a = operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        check_square(tensor_type(self.a))
        return [self.a.type]

    def evaluate(self, a: Array) -> Array:
        import numpy as np

        wide = widen(a)
        out = np.empty_like(wide)
        for index in np.ndindex(*a.shape[:-2]):
            matrix = wide[index]
            lower = np.tril(matrix)
            try:
                out[index] = np.linalg.cholesky(lower + np.tril(matrix, -1).T)
            except np.linalg.LinAlgError:
                out[index] = np.tril(np.full_like(matrix, np.nan))
        return out.astype(a.dtype)


class TriangularSolveOp(Operation):
    """x with op(a) x = b for each pair of matrices in the last two axes; a's other triangle is not read. op transposes where `transpose`
    says so. A zero on the diagonal divides by zero as IEEE does."""

    __slots__ = ()
    name = "prim.triangular_solve"
    a = operand(FLOAT_TENSOR)
    b = operand(FLOAT_TENSOR)
    lower = attribute(BOOLEAN, default=True)
    transpose = attribute(BOOLEAN, default=False)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        same_element(a=self.a, b=self.b)
        a, b = tensor_type(self.a), tensor_type(self.b)
        check_square(a)
        if b.rank != a.rank or any(provably_different(p, q) for p, q in zip(a.dims[:-1], b.dims[:-1])):
            raise InvalidOperation(f"solves {a.text} for {b.text}, expected equal batch sizes and rows")
        return [b]

    def evaluate(self, a: Array, b: Array) -> Array:
        import numpy as np

        matrix = np.swapaxes(widen(a), -1, -2) if self.transpose else widen(a)
        forward = self.lower != self.transpose
        x = widen(b).copy()
        order = range(a.shape[-1]) if forward else range(a.shape[-1] - 1, -1, -1)
        for row in order:
            x[..., row, :] /= matrix[..., row, row, None]
            rest = slice(row + 1, None) if forward else slice(None, row)
            x[..., rest, :] -= matrix[..., rest, row, None] * x[..., row, None, :]
        return x.astype(b.dtype)
