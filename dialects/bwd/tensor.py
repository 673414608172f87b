"""Adjoints of elementwise, running and indexing ops of `hl`."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, numpy_dtype, widen
from gradopt.dialects.bwd.activations import SLOPES
from gradopt.dialects.constraints import (
    ANY_TENSOR,
    FLOAT_TENSOR,
    INTEGER_TENSOR,
    SCALAR_I64,
    broadcast_dims,
    check_axes,
    check_axis,
    check_dims,
    same_element,
    same_shape,
    tensor_type,
)
from gradopt.dialects.hl.axis import running
from gradopt.dialects.hl.neural.common import masked_product, run_time_shape
from gradopt.dialects.prim.data import check_sizes
from gradopt.dialects.prim.indexing import MODE, gather_type, resolve_indices, scatter_arrays, scatter_rows
from gradopt.ir.attribute_kinds import BOOLEAN, FLOAT, INTEGER, INTEGERS, UNIT, enumeration
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result, variadic
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, product
from gradopt.ir.types import Type, tensor

MASKED = "dy may hold lanes that a mask cut off: there a 0 wins over an infinite derivative"


class Adjoint(Operation):
    """Base: the result has the type of the first operand, and dy its shape."""

    __slots__ = ()
    x = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    masked = attribute(UNIT, optional=True, documentation=MASKED)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        first, second = self.definition.operands[:2]
        values = {first.name: self._operands[0], second.name: self._operands[1]}
        element = same_element(**values)
        return [tensor(same_shape(**values), element)]


class ReluOp(Adjoint):
    """dy where x > 0 (or NaN), 0 elsewhere: the derivative at 0 is 0."""

    __slots__ = ()
    name = "bwd.relu"

    def evaluate(self, x: Array, dy: Array) -> Array:
        import numpy as np

        return np.where(x <= 0, dy.dtype.type(0), dy)


class ActivationOp(Adjoint):
    """dy times the derivative of an activation function at x. Each kind is the `hl` op of that name, with its attributes;
    "gelu_tanh" is gelu with approximate = "tanh"."""

    __slots__ = ()
    name = "bwd.activation"
    kind = attribute(enumeration(*SLOPES))
    alpha = attribute(FLOAT, default=1.0, documentation="of leaky_relu, elu and celu")
    beta = attribute(FLOAT, default=1.0, documentation="of softplus")
    threshold = attribute(FLOAT, default=20.0, documentation="of softplus")
    min = attribute(FLOAT, default=-1.0, documentation="of hard_tanh")
    max = attribute(FLOAT, default=1.0, documentation="of hard_tanh")

    def evaluate(self, x: Array, dy: Array) -> Array:
        import numpy as np

        wide = widen(x)
        slope = np.asarray(SLOPES[self.kind](np, wide, self)).astype(wide.dtype)
        return masked_product(self.masked)(widen(dy), slope).astype(x.dtype)


class AlongAxis(Operation):
    """Base of the adjoints of softmax and log_softmax, which take the result y of those."""

    __slots__ = ()
    y = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    axis = attribute(INTEGER, default=-1)
    masked = attribute(UNIT, optional=True, documentation=MASKED)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def normal_axis(self) -> int:
        """The axis, not negative. Raises InvalidOperation."""
        return check_axis(self.axis, tensor_type(self.y).rank)

    def infer(self) -> list[Type]:
        self.normal_axis  # noqa: B018
        return [tensor(same_shape(y=self.y, dy=self.dy), same_element(y=self.y, dy=self.dy))]


class SoftmaxOp(AlongAxis):
    """y * (dy - sum(dy * y)) along `axis`, with y the result of softmax."""

    __slots__ = ()
    name = "bwd.softmax"

    def evaluate(self, y: Array, dy: Array) -> Array:
        wide, times = widen(y), masked_product(self.masked)
        weighted = times(widen(dy), wide)
        return (weighted - times(wide, weighted.sum(axis=self.axis, keepdims=True))).astype(y.dtype)


class LogSoftmaxOp(AlongAxis):
    """dy - e**y * sum(dy) along `axis`, with y the result of log_softmax."""

    __slots__ = ()
    name = "bwd.log_softmax"

    def evaluate(self, y: Array, dy: Array) -> Array:
        import numpy as np

        rows = widen(dy)
        total = np.broadcast_to(rows.sum(axis=self.axis, keepdims=True), rows.shape)
        return (rows - masked_product(self.masked)(total, np.exp(widen(y)))).astype(y.dtype)


class Placed(Operation):
    """Base: the result type gives the shape of the thing differentiated, `sizes` its unknown sizes."""

    __slots__ = ()
    dy = operand(FLOAT_TENSOR)
    masked = attribute(UNIT, optional=True, documentation=MASKED)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def expected_dims(self) -> list[Size]:
        """The sizes that dy has for the result type. Raises InvalidOperation."""
        raise NotImplementedError

    def verify(self) -> None:
        check_sizes(self, len(self.sizes))  # type: ignore[attr-defined]
        target = tensor_type(self.results[0])
        if target.element is not tensor_type(self.dy).element:
            raise InvalidOperation(f"has result element type {target.element.text}, expected that of 'dy', "
                                   f"{tensor_type(self.dy).element.text}")
        check_dims("dy", self.dy, self.expected_dims())

    def zeros(self, arrays: tuple[Array, ...], sizes: tuple[Array, ...]) -> Array:
        """Zeros of the result's shape."""
        import numpy as np

        shape = run_time_shape(self, tensor_type(self.results[0]), arrays, sizes)
        return np.zeros(shape, numpy_dtype(tensor_type(self.results[0]).element))


class CumsumOp(Placed):
    """The running sum of dy from the other end: element j gets every dy whose sum has it."""

    __slots__ = ()
    name = "bwd.cumsum"
    sizes = variadic(SCALAR_I64)
    axis = attribute(INTEGER, optional=True)
    exclusive = attribute(BOOLEAN, default=False)
    reverse = attribute(BOOLEAN, default=False)

    def expected_dims(self) -> list[Size]:
        dims = tensor_type(self.results[0]).dims
        if self.axis is None:
            return [product(dims)]
        check_axis(self.axis, len(dims))
        return list(dims)

    def evaluate(self, dy: Array, *sizes: Array) -> Array:
        total = running("sum", dy, self.axis or 0, self.exclusive, not self.reverse)
        return total.reshape(self.zeros((dy,), sizes).shape) if self.axis is None else total


class CumprodOp(Operation):
    """dx[j] = P[j] R[j] with the product P[j] of all before j and R[j] = dy[j] + x[j+1] R[j+1]: no division, right for any
    zeros."""

    __slots__ = ()
    name = "bwd.cumprod"
    x = operand(FLOAT_TENSOR)
    dy = operand(FLOAT_TENSOR)
    axis = attribute(INTEGER, optional=True)
    exclusive = attribute(BOOLEAN, default=False)
    reverse = attribute(BOOLEAN, default=False)
    masked = attribute(UNIT, optional=True, documentation=MASKED)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        same_element(x=self.x, dy=self.dy)
        dims = tensor_type(self.x).dims
        if self.axis is not None:
            check_axis(self.axis, len(dims))
        check_dims("dy", self.dy, [product(dims)] if self.axis is None else dims)
        return [self.x.type]

    def evaluate(self, x: Array, dy: Array) -> Array:
        import numpy as np

        axis = 0 if self.axis is None else self.axis
        rows, g = (widen(array.reshape(-1) if self.axis is None else array) for array in (x, dy))
        rows, g = (np.moveaxis(np.flip(array, axis) if self.reverse else array, axis, 0) for array in (rows, g))
        dx = np.zeros_like(rows)
        for last in range(rows.shape[0]):  # the product of rows[:last + 1] by each of its factors
            weight = g[last + 1] if self.exclusive and last + 1 < rows.shape[0] else np.zeros_like(g[0]) if self.exclusive else g[last]
            for index in range(last + 1):
                others = np.prod(np.delete(rows[:last + 1], index, axis=0), axis=0)
                dx[index] += masked_product(self.masked)(weight, others)
        dx = np.moveaxis(dx, 0, axis)
        return (np.flip(dx, axis) if self.reverse else dx).reshape(x.shape).astype(x.dtype)


class TakeOp(Placed):
    """dy added at `indices` along `axis` to zeros: the adjoint of `hl.take`. Repeated indices add up in row-major order."""

    __slots__ = ()
    name = "bwd.take"
    indices = operand(INTEGER_TENSOR)
    sizes = variadic(SCALAR_I64)
    axis = attribute(INTEGER, optional=True)
    mode = attribute(MODE, default="clip")

    def expected_dims(self) -> list[Size]:
        target, indices = tensor_type(self.results[0]), tensor_type(self.indices)
        if self.axis is None:
            return list(indices.dims)
        return list(tensor_type_of(gather_type(target, indices, check_axis(self.axis, target.rank))))

    def evaluate(self, dy: Array, indices: Array, *sizes: Array) -> Array:
        out = self.zeros((dy, indices), sizes)
        if self.axis is None:
            return scatter_arrays(out.reshape(-1), indices, dy, 0, "add", self.mode).reshape(out.shape)
        return scatter_arrays(out, indices, dy, self.axis % out.ndim, "add", self.mode)


def tensor_type_of(type: Type) -> tuple[Size, ...]:
    """The sizes of a tensor type."""
    return type.dims  # type: ignore[attr-defined,no-any-return]


class GatherOp(TakeOp):
    """As `bwd.take`, under the name of a gather's adjoint."""

    __slots__ = ()
    name = "bwd.gather"


class PutAlongAxisOp(Placed):
    """dy added at `indices` along `axis` to zeros: the adjoint of `hl.take_along_axis`."""

    __slots__ = ()
    name = "bwd.put_along_axis"
    indices = operand(INTEGER_TENSOR)
    sizes = variadic(SCALAR_I64)
    axis = attribute(INTEGER)
    mode = attribute(MODE, default="clip")

    def expected_dims(self) -> list[Size]:
        target, indices = tensor_type(self.results[0]), tensor_type(self.indices)
        axis = check_axis(self.axis, target.rank)
        if indices.rank != target.rank:
            raise InvalidOperation(f"operand 'indices' has rank {indices.rank}, expected {target.rank}")
        expected = [indices.dims[axis] if place == axis else size for place, size in enumerate(target.dims)]
        check_dims("indices", self.indices, expected)
        return expected

    def evaluate(self, dy: Array, indices: Array, *sizes: Array) -> Array:
        out = self.zeros((dy, indices), sizes)
        return put_along(out, indices, dy, self.axis % out.ndim, self.mode)


def put_along(out: Array, indices: Array, dy: Array, axis: int, mode: str) -> Array:
    """Zeros with dy added at indices along an axis."""
    import numpy as np

    position, valid = resolve_indices(indices, out.shape[axis], mode)
    grid = list(np.indices(indices.shape))
    grid[axis] = position
    wide = widen(out).copy()
    if wide.size:
        np.add.at(wide, tuple(part[valid] for part in grid), widen(dy)[valid])
    return wide.astype(out.dtype)


class IndexingOneHotOp(Placed):
    """dy, which has size 1 along `axis`, at the index of each row, 0 elsewhere: the adjoint of `hl.indexing_one_hot`."""

    __slots__ = ()
    name = "bwd.indexing_one_hot"
    index = operand(INTEGER_TENSOR)
    sizes = variadic(SCALAR_I64)
    axis = attribute(INTEGER)

    def expected_dims(self) -> list[Size]:
        dims = tensor_type(self.results[0]).dims
        axis = check_axis(self.axis, len(dims))
        check_dims("index", self.index, [*dims[:axis], *dims[axis + 1:]])
        return [*dims[:axis], 1, *dims[axis + 1:]]

    def evaluate(self, dy: Array, index: Array, *sizes: Array) -> Array:
        import numpy as np

        out = self.zeros((dy, index), sizes)
        axis = self.axis % out.ndim
        return put_along(out, np.expand_dims(index, axis), dy, axis, "clip")


class TakeMultiOp(Placed):
    """dy added at the index tuples to zeros: the adjoint of `hl.take_multi`."""

    __slots__ = ()
    name = "bwd.take_multi"
    indices = variadic(INTEGER_TENSOR)
    sizes = variadic(SCALAR_I64)
    axes = attribute(INTEGERS)
    mode = attribute(MODE, default="clip")

    def expected_dims(self) -> list[Size]:
        dims = tensor_type(self.results[0]).dims
        axes = check_axes(self.axes, len(dims))
        if not axes or len(axes) != len(self.indices):
            raise InvalidOperation(f"has {len(self.indices)} indices for {len(axes)} axes, expected one an axis and at least one")
        shape = broadcast_dims(**{f"index {number}": value for number, value in enumerate(self.indices)})
        rest = [axis for axis in range(len(dims)) if axis not in axes]
        place = sum(axis < axes[0] for axis in rest)
        return [*(dims[axis] for axis in rest[:place]), *shape, *(dims[axis] for axis in rest[place:])]

    def evaluate(self, dy: Array, *values: Array) -> Array:
        import numpy as np

        indices, sizes = values[:len(self.indices)], values[len(self.indices):]
        out = self.zeros((dy, *indices), sizes)
        axes = [axis % out.ndim for axis in self.axes]
        rest = [axis for axis in range(out.ndim) if axis not in axes]
        spread = np.broadcast_arrays(*indices)
        found = [resolve_indices(np.asarray(index), out.shape[axis], self.mode) for index, axis in zip(spread, axes)]
        valid = np.logical_and.reduce([mask for _, mask in found])
        place, rank = sum(axis < axes[0] for axis in rest), valid.ndim
        moved = np.ascontiguousarray(widen(out).transpose(axes + rest))
        if moved.size:
            row = np.ravel_multi_index(tuple(position for position, _ in found), moved.shape[:len(axes)])
            rows = np.moveaxis(widen(dy), range(place, place + rank), range(rank))
            scatter_rows(moved.reshape(-1, *moved.shape[len(axes):]), row[valid], rows[valid], "add")
        return moved.transpose(np.argsort(axes + rest)).astype(out.dtype)
