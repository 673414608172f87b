"""`prim` ops that read and write by index.

Negative indices count from the end before the mode applies. Modes: "clip" to the nearest valid index, "wrap" modulo the size,
"fill" (reads 0, writes dropped), "nan" (reads NaN, writes dropped), "fast" (the caller promises valid indices; treated as "clip",
so never undefined memory). Reading from an axis without elements gives 0 (or NaN).
"""

from __future__ import annotations

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, INTEGER_TENSOR, check_axis, check_dims, same_element, tensor_type
from gradopt.ir.attribute_kinds import INTEGER, enumeration
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size
from gradopt.ir.types import FloatType, TensorType, Type, tensor

MODE = enumeration("clip", "wrap", "fill", "nan", "fast")
KIND = enumeration("set", "add", "max", "min", "mul")


def check_mode(mode: str, element: Type) -> None:
    """Raises InvalidOperation for mode "nan" on a type that has no NaN."""
    if mode == "nan" and not isinstance(element, FloatType):
        raise InvalidOperation(f'has mode "nan" on element type {element.text}, expected a float type')


def resolve_indices(indices: Array, size: int, mode: str) -> tuple[Array, Array]:
    """(valid positions as int64, mask of those that were in range or were brought into it)."""
    import numpy as np

    if indices.dtype == np.uint64:  # what int64 cannot hold is out of range anyway
        indices = np.minimum(indices, np.uint64((1 << 63) - 1))
    index = indices.astype(np.int64)
    index = np.where(index < 0, index + size, index)
    if size == 0:
        return np.zeros_like(index), np.zeros(index.shape, np.bool_)
    if mode == "wrap":
        return index % size, np.ones(index.shape, np.bool_)
    clipped = np.clip(index, 0, size - 1)
    return clipped, (clipped == index) if mode in ("fill", "nan") else np.ones(index.shape, np.bool_)


def gather_type(x: TensorType, indices: TensorType, axis: int) -> Type:
    """x.shape[:axis] + indices.shape + x.shape[axis+1:]."""
    dims: list[Size] = [*x.dims[:axis], *indices.dims, *x.dims[axis + 1:]]
    return tensor(dims, x.element)


class GatherOp(Operation):
    """Slices of `x` along `axis` at `indices`: shape x.shape[:axis] + indices.shape + x.shape[axis+1:]."""

    __slots__ = ()
    name = "prim.gather"
    x = operand(ANY_TENSOR)
    indices = operand(INTEGER_TENSOR)
    axis = attribute(INTEGER)
    mode = attribute(MODE, default="clip")
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        check_mode(self.mode, type.element)
        return [gather_type(type, tensor_type(self.indices), check_axis(self.axis, type.rank))]

    def evaluate(self, x: Array, indices: Array) -> Array:
        return gather_arrays(x, indices, self.axis, self.mode)


def gather_arrays(x: Array, indices: Array, axis: int, mode: str) -> Array:
    """The meaning of `prim.gather`."""
    import numpy as np

    position, valid = resolve_indices(indices, x.shape[axis], mode)
    missing = x.dtype.type(np.nan) if mode == "nan" else x.dtype.type(0)
    if x.shape[axis] == 0:
        return np.full(x.shape[:axis] + indices.shape + x.shape[axis + 1:], missing, x.dtype)
    taken = np.take(x, position, axis=axis)
    return np.where(valid.reshape(valid.shape + (1,) * (x.ndim - axis - 1)), taken, missing)


COMBINE = {"add": "add", "max": "maximum", "min": "minimum", "mul": "multiply"}


def scatter_rows(target: Array, position: Array, update: Array, kind: str) -> None:
    """Combines `update[i]` into `target[position[i]]` for each i in order (`position` has one axis); `set`: the last one stays."""
    import numpy as np

    if kind == "set":
        for row, value in zip(position, update):
            target[row] = value
    else:
        getattr(np, COMBINE[kind]).at(target, position, update)


class ScatterOp(Operation):
    """`x` with `update` (of the shape that `gather` gives) combined in at `indices` along `axis`, in row-major order of the indices.

    kind: "set" (the last one stays), "add", "max", "min", "mul". Repeated indices are combined in order, whatever the thread count.
    """

    __slots__ = ()
    name = "prim.scatter"
    x = operand(ANY_TENSOR)
    indices = operand(INTEGER_TENSOR)
    update = operand(ANY_TENSOR)
    axis = attribute(INTEGER)
    kind = attribute(KIND, default="set")
    mode = attribute(MODE, default="clip")
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        same_element(x=self.x, update=self.update)
        expected = gather_type(type, tensor_type(self.indices), check_axis(self.axis, type.rank))
        assert isinstance(expected, TensorType)
        check_dims("update", self.update, expected.dims)
        return [type]

    def evaluate(self, x: Array, indices: Array, update: Array) -> Array:
        return scatter_arrays(x, indices, update, self.axis, self.kind, self.mode)


def scatter_arrays(x: Array, indices: Array, update: Array, axis: int, kind: str, mode: str) -> Array:
    """The meaning of `prim.scatter`."""
    import numpy as np

    position, valid = resolve_indices(indices, x.shape[axis], mode)
    rank = indices.ndim
    target = np.moveaxis(widen(x).copy(), axis, 0)
    rows = np.moveaxis(widen(update), range(axis, axis + rank), range(rank))
    scatter_rows(target, position[valid], rows[valid], kind)
    return np.ascontiguousarray(np.moveaxis(target, 0, axis)).astype(x.dtype, copy=False)


def gather_nd_type(x: TensorType, indices: TensorType) -> tuple[TensorType, int]:
    """(indices.shape[:-1] + x.shape[k:], k) where k = indices.shape[-1]. Raises InvalidOperation."""
    depth = indices.dims[-1] if indices.rank else None
    if not isinstance(depth, int) or depth > x.rank:
        raise InvalidOperation(f"operand 'indices' is {indices.text}, expected a last dimension of static size at most {x.rank}")
    return tensor([*indices.dims[:-1], *x.dims[depth:]], x.element), depth


class GatherNdOp(Operation):
    """Slices of `x` at index vectors: the last dimension of `indices` (size k) indexes the first k axes of `x`."""

    __slots__ = ()
    name = "prim.gather_nd"
    x = operand(ANY_TENSOR)
    indices = operand(INTEGER_TENSOR)
    mode = attribute(MODE, default="clip")
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        check_mode(self.mode, tensor_type(self.x).element)
        return [gather_nd_type(tensor_type(self.x), tensor_type(self.indices))[0]]

    def evaluate(self, x: Array, indices: Array) -> Array:
        import numpy as np

        positions, valid = resolve_vectors(x.shape, indices, self.mode)
        missing = x.dtype.type(np.nan) if self.mode == "nan" else x.dtype.type(0)
        depth = indices.shape[-1]
        if 0 in x.shape[:depth]:
            return np.full(indices.shape[:-1] + x.shape[depth:], missing, x.dtype)
        taken = x[positions] if depth else np.broadcast_to(x, indices.shape[:-1] + x.shape)
        return np.where(valid.reshape(valid.shape + (1,) * (x.ndim - depth)), taken, missing)


def resolve_vectors(shape: tuple[int, ...], indices: Array, mode: str) -> tuple[tuple[Array, ...], Array]:
    """For each indexed axis the valid positions, and the mask of vectors that are valid in every axis."""
    import numpy as np

    valid = np.ones(indices.shape[:-1], np.bool_)
    positions = []
    for axis in range(indices.shape[-1]):
        position, mask = resolve_indices(indices[..., axis], shape[axis], mode)
        positions.append(position)
        valid &= mask
    return tuple(positions), valid


class ScatterNdOp(Operation):
    """`x` with `update` (of the shape that `gather_nd` gives) combined in at index vectors, in row-major order."""

    __slots__ = ()
    name = "prim.scatter_nd"
    x = operand(ANY_TENSOR)
    indices = operand(INTEGER_TENSOR)
    update = operand(ANY_TENSOR)
    kind = attribute(KIND, default="set")
    mode = attribute(MODE, default="clip")
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        same_element(x=self.x, update=self.update)
        expected, _ = gather_nd_type(type, tensor_type(self.indices))
        check_dims("update", self.update, expected.dims)
        return [type]

    def evaluate(self, x: Array, indices: Array, update: Array) -> Array:
        import numpy as np

        positions, valid = resolve_vectors(x.shape, indices, self.mode)
        depth = indices.shape[-1]
        target = widen(x).copy()
        flat = target.reshape(int(np.prod(x.shape[:depth], dtype=np.int64)), *x.shape[depth:])
        if not flat.shape[0]:
            return x.copy()
        row: Array = np.ravel_multi_index(positions, x.shape[:depth]) if depth else np.zeros(indices.shape[:-1], np.int64)
        scatter_rows(flat, row[valid], widen(update)[valid], self.kind)
        return target.astype(x.dtype, copy=False)
