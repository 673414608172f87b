"""`hl` ops that read and write by index. Modes and negative indices: see `gradopt.dialects.prim.indexing`. Axes may be
negative."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import (
    ANY_TENSOR,
    INTEGER_TENSOR,
    broadcast_dims,
    check_axes,
    check_axis,
    check_dims,
    same_element,
    tensor_type,
)
from gradopt.dialects.prim.indexing import KIND, MODE, check_mode, gather_arrays, gather_type, resolve_indices, scatter_rows
from gradopt.dialects.prim.indexing import GatherNdOp as PrimGatherNdOp
from gradopt.dialects.prim.indexing import ScatterNdOp as PrimScatterNdOp
from gradopt.ir.attribute_kinds import INTEGER, INTEGERS
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result, variadic
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size
from gradopt.ir.types import TensorType, Type, tensor
from gradopt.ir.values import Value


class TakeOp(Operation):
    """Slices of `x` along `axis` at `indices`: shape x.shape[:axis] + indices.shape + x.shape[axis+1:]. Without an axis `x`
    is flattened first."""

    __slots__ = ()
    name = "hl.take"
    x = operand(ANY_TENSOR)
    indices = operand(INTEGER_TENSOR)
    axis = attribute(INTEGER, optional=True)
    mode = attribute(MODE, default="clip")
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        x, indices = tensor_type(self.x), tensor_type(self.indices)
        check_mode(self.mode, x.element)
        if self.axis is None:
            return [indices.with_element(x.element)]
        return [gather_type(x, indices, check_axis(self.axis, x.rank))]

    def evaluate(self, x: Array, indices: Array) -> Array:
        if self.axis is None:
            return gather_arrays(x.reshape(-1), indices, 0, self.mode)
        return gather_arrays(x, indices, self.axis % x.ndim, self.mode)


class AlongAxisOp(Operation):
    """Base: `indices` has the rank of `x`, and its sizes except along `axis`."""

    __slots__ = ()
    x = operand(ANY_TENSOR)
    indices = operand(INTEGER_TENSOR)
    axis = attribute(INTEGER)
    mode = attribute(MODE, default="clip")
    traits = frozenset({PURE})

    def check_indices(self) -> int:
        """The axis, from the front. Raises InvalidOperation."""
        x = tensor_type(self.x)
        axis = check_axis(self.axis, x.rank)
        check_mode(self.mode, x.element)
        indices = tensor_type(self.indices)
        along = indices.dims[axis] if axis < indices.rank else 0
        check_dims("indices", self.indices, [*x.dims[:axis], along, *x.dims[axis + 1:]])
        return axis


class TakeAlongAxisOp(AlongAxisOp):
    """result[i, …, j, …] = x[i, …, indices[i, …, j, …], …], the index in place of axis `axis` (numpy.take_along_axis)."""

    __slots__ = ()
    name = "hl.take_along_axis"
    result = result(ANY_TENSOR)

    def infer(self) -> list[Type]:
        self.check_indices()
        return [tensor_type(self.indices).with_element(tensor_type(self.x).element)]

    def evaluate(self, x: Array, indices: Array) -> Array:
        return take_along(x, indices, self.axis % x.ndim, self.mode)


def take_along(x: Array, indices: Array, axis: int, mode: str) -> Array:
    """The meaning of `take_along_axis`."""
    import numpy as np

    position, valid = resolve_indices(indices, x.shape[axis], mode)
    missing = x.dtype.type(np.nan) if mode == "nan" else x.dtype.type(0)
    if x.shape[axis] == 0:
        return np.full(indices.shape, missing, x.dtype)
    return np.where(valid, np.take_along_axis(x, position, axis), missing)


class PutAlongAxisOp(AlongAxisOp):
    """`x` with `update` (of the shape of `indices`) combined in at `indices` along `axis`, in row-major order; kind "set"
    keeps the last one."""

    __slots__ = ()
    name = "hl.put_along_axis"
    update = operand(ANY_TENSOR)
    kind = attribute(KIND, default="set")
    result = result(ANY_TENSOR)

    def infer(self) -> list[Type]:
        self.check_indices()
        same_element(x=self.x, update=self.update)
        check_dims("update", self.update, tensor_type(self.indices).dims)
        return [self.x.type]

    def evaluate(self, x: Array, indices: Array, update: Array) -> Array:
        return put_along(x, indices, update, self.axis % x.ndim, self.kind, self.mode)


def put_along(x: Array, indices: Array, update: Array, axis: int, kind: str, mode: str) -> Array:
    """The meaning of `put_along_axis`."""
    import numpy as np

    position, valid = resolve_indices(indices, x.shape[axis], mode)
    target = widen(x).copy()
    grid = [np.broadcast_to(np.arange(size).reshape([-1 if a == b else 1 for b in range(x.ndim)]), indices.shape)
            for a, size in enumerate(indices.shape)]
    grid[axis] = position
    rows = np.ravel_multi_index([part[valid] for part in grid], x.shape) if x.size else np.zeros(0, np.int64)
    flat = target.reshape(-1)
    if flat.size:
        scatter_rows(flat, rows, widen(update)[valid], kind)
    return target.astype(x.dtype)


class IndexingOneHotOp(Operation):
    """One element of each row of `x` along `axis`: `index` has the shape of `x` without the axis, the result has size 1
    there."""

    __slots__ = ()
    name = "hl.indexing_one_hot"
    x = operand(ANY_TENSOR)
    index = operand(INTEGER_TENSOR)
    axis = attribute(INTEGER)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        return [one_hot_type(self.x, self.index, self.axis)]

    def evaluate(self, x: Array, index: Array) -> Array:
        import numpy as np

        return take_along(x, np.expand_dims(index, self.axis % x.ndim), self.axis % x.ndim, "clip")


def one_hot_type(x_value: Value, index: Value, axis: int) -> TensorType:
    """The type of x with size 1 along the axis. Raises InvalidOperation where `index` does not fit."""
    x = tensor_type(x_value)
    axis = check_axis(axis, x.rank)
    check_dims("index", index, [*x.dims[:axis], *x.dims[axis + 1:]])
    return tensor([*x.dims[:axis], 1, *x.dims[axis + 1:]], x.element)


class SetOneHotOp(Operation):
    """`x` with one element of each row along `axis` replaced by that of `update` (which has size 1 there)."""

    __slots__ = ()
    name = "hl.set_one_hot"
    x = operand(ANY_TENSOR)
    index = operand(INTEGER_TENSOR)
    update = operand(ANY_TENSOR)
    axis = attribute(INTEGER)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        same_element(x=self.x, update=self.update)
        check_dims("update", self.update, one_hot_type(self.x, self.index, self.axis).dims)
        return [self.x.type]

    def evaluate(self, x: Array, index: Array, update: Array) -> Array:
        import numpy as np

        axis = self.axis % x.ndim
        return put_along(x, np.expand_dims(index, axis), update, axis, "set", "clip")


class MultiAxisOp(Operation):
    """Base: the indices broadcast to one shape I, which stands at the place of axes[0]; the other indexed axes vanish."""

    __slots__ = ()
    x = operand(ANY_TENSOR)
    axes = attribute(INTEGERS)
    mode = attribute(MODE, default="clip")
    traits = frozenset({PURE})

    def picked_dims(self, indices: tuple[object, ...]) -> list[Size]:
        """The sizes of what is read or written. Raises InvalidOperation."""
        x = tensor_type(self.x)
        check_mode(self.mode, x.element)
        axes = check_axes(self.axes, x.rank)
        if len(indices) != len(axes) or not axes:
            raise InvalidOperation(f"has {len(indices)} index operands for {len(axes)} axes, expected one for each of at least 1")
        common = broadcast_dims(**{f"indices[{i}]": value for i, value in enumerate(indices)})  # type: ignore[arg-type]
        dims: list[Size] = []
        for axis, size in enumerate(x.dims):
            if axis == axes[0]:
                dims += common
            elif axis not in axes:
                dims.append(size)
        return dims


def multi_rows(op: MultiAxisOp, x: Array, indices: tuple[Array, ...]) -> tuple[Array, Array, Array, list[int], int]:
    """(x with the indexed axes first and flattened, row numbers, mask, the permutation, where I goes)."""
    import numpy as np

    axes = [axis % x.ndim for axis in op.axes]
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    moved = x.transpose(axes + rest)
    common = np.broadcast_arrays(*indices)
    valid = np.ones(common[0].shape, np.bool_)
    row = np.zeros(common[0].shape, np.int64)
    for axis, index in zip(axes, common):
        position, mask = resolve_indices(index, x.shape[axis], op.mode)
        row = row * x.shape[axis] + position
        valid = valid & mask
    place = sum(1 for axis in rest if axis < axes[0])
    flat = moved.reshape(int(np.prod(moved.shape[: len(axes)], dtype=np.int64)), *moved.shape[len(axes):])
    return flat, row, valid, axes + rest, place


class TakeMultiOp(MultiAxisOp):
    """The elements of `x` at index vectors over several axes (advanced indexing)."""

    __slots__ = ()
    name = "hl.take_multi"
    indices = variadic(INTEGER_TENSOR)
    result = result(ANY_TENSOR)

    def infer(self) -> list[Type]:
        return [tensor(self.picked_dims(self.indices), tensor_type(self.x).element)]

    def evaluate(self, x: Array, *indices: Array) -> Array:
        import numpy as np

        flat, row, valid, _, place = multi_rows(self, x, indices)
        missing = x.dtype.type(np.nan) if self.mode == "nan" else x.dtype.type(0)
        if flat.shape[0] == 0:
            taken = np.full(row.shape + flat.shape[1:], missing, x.dtype)
        else:
            taken = np.where(valid.reshape(valid.shape + (1,) * (flat.ndim - 1)), flat[row], missing)
        return np.moveaxis(taken, range(row.ndim), range(place, place + row.ndim))


class SetMultiOp(MultiAxisOp):
    """`x` with `update` (of the shape that `take_multi` gives) written at index vectors; of repeated ones the last stays."""

    __slots__ = ()
    name = "hl.set_multi"
    update = operand(ANY_TENSOR)
    indices = variadic(INTEGER_TENSOR)
    result = result(ANY_TENSOR)
    kind = "set"

    def infer(self) -> list[Type]:
        same_element(x=self.x, update=self.update)
        check_dims("update", self.update, self.picked_dims(self.indices))
        return [self.x.type]

    def evaluate(self, x: Array, update: Array, *indices: Array) -> Array:
        import numpy as np

        flat, row, valid, order, place = multi_rows(self, widen(x).copy(), indices)
        rows = np.moveaxis(widen(update), range(place, place + row.ndim), range(row.ndim))
        flat = np.ascontiguousarray(flat)
        if flat.shape[0]:
            scatter_rows(flat, row[valid], rows[valid], self.kind)
        back = flat.reshape([x.shape[axis] for axis in order])
        return back.transpose(np.argsort(order)).astype(x.dtype)


class AddMultiOp(SetMultiOp):
    """`x` with `update` added at index vectors; repeated ones add up."""

    __slots__ = ()
    name = "hl.add_multi"
    kind = "add"


class GatherNdOp(PrimGatherNdOp):
    __doc__ = PrimGatherNdOp.__doc__
    __slots__ = ()
    name = "hl.gather_nd"


class ScatterNdOp(PrimScatterNdOp):
    __doc__ = PrimScatterNdOp.__doc__
    __slots__ = ()
    name = "hl.scatter_nd"


class EmbeddingOp(Operation):
    """Rows of `table` at `indices`. The row `padding_idx` (negative: from the end) gets no gradient."""

    __slots__ = ()
    name = "hl.embedding"
    table = operand(ANY_TENSOR)
    indices = operand(INTEGER_TENSOR)
    padding_idx = attribute(INTEGER, optional=True)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        table = tensor_type(self.table)
        if table.rank < 1:
            raise InvalidOperation("operand 'table' has rank 0, expected at least 1")
        rows = table.dims[0]
        if self.padding_idx is not None and isinstance(rows, int) and not -rows <= self.padding_idx < rows:
            raise InvalidOperation(f"attribute 'padding_idx' is {self.padding_idx}, expected a value in [{-rows}, {rows})")
        return [gather_type(table, tensor_type(self.indices), 0)]

    def evaluate(self, table: Array, indices: Array) -> Array:
        return gather_arrays(table, indices, 0, "clip")

