"""`hl` ops along one axis: running sums and the like, softmax, sorting."""

from __future__ import annotations

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, NUMBER_TENSOR, check_axis, tensor_type
from gradopt.dialects.prim.reduction import stable_order
from gradopt.ir.attribute_kinds import BOOLEAN, INTEGER
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import product
from gradopt.ir.types import I64, Type, tensor


class RunningOp(Operation):
    """Base of cumsum and cumprod: flattened where `axis` is absent."""

    __slots__ = ()
    x = operand(NUMBER_TENSOR)
    axis = attribute(INTEGER, optional=True, documentation="flattened where absent")
    exclusive = attribute(BOOLEAN, default=False, documentation="element i combines those before it, the identity first")
    reverse = attribute(BOOLEAN, default=False, documentation="from the back")
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})
    kind = "sum"

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        if self.axis is None:
            return [tensor([product(type.dims)], type.element)]
        check_axis(self.axis, type.rank)
        return [type]

    def evaluate(self, x: Array) -> Array:
        return running(self.kind, x if self.axis is not None else x.reshape(-1), self.axis or 0, self.exclusive, self.reverse)


def running(kind: str, x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """The running sum or product of an array."""
    import numpy as np

    wide = np.flip(widen(x), axis) if reverse else widen(x)
    total = (np.cumsum if kind == "sum" else np.cumprod)(wide, axis=axis, dtype=wide.dtype)
    if exclusive and total.shape[axis]:
        first = np.full_like(np.take(total, [0], axis=axis), 0 if kind == "sum" else 1)
        total = np.concatenate([first, np.delete(total, -1, axis=axis)], axis=axis)
    return (np.flip(total, axis) if reverse else total).astype(x.dtype)


class CumsumOp(RunningOp):
    """The running sum along `axis`. Its adjoint runs the other way: `bwd.cumsum`."""

    __slots__ = ()
    name = "hl.cumsum"


class CumprodOp(RunningOp):
    """The running product along `axis`. Its adjoint never divides by x: `bwd.cumprod`."""

    __slots__ = ()
    name = "hl.cumprod"
    kind = "prod"


class SameTypeAlong(Operation):
    """Base of the ops whose result has the operand's type, along a required axis."""

    __slots__ = ()
    x = operand(NUMBER_TENSOR)
    axis = attribute(INTEGER)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def normal_axis(self) -> int:
        """The axis, not negative. Raises InvalidOperation."""
        return check_axis(self.axis, tensor_type(self.x).rank)

    def infer(self) -> list[Type]:
        check_axis(self.axis, tensor_type(self.x).rank)
        return [self.x.type]


class CummaxOp(SameTypeAlong):
    """The largest element so far along `axis`; from the first NaN on it is NaN. The cotangent goes to the first maximum."""

    __slots__ = ()
    name = "hl.cummax"

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.maximum.accumulate(x, axis=self.axis)


class CumminOp(SameTypeAlong):
    """The smallest element so far along `axis`; from the first NaN on it is NaN. The cotangent goes to the first minimum."""

    __slots__ = ()
    name = "hl.cummin"

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.minimum.accumulate(x, axis=self.axis)


class LogcumsumexpOp(SameTypeAlong):
    """The logarithm of the running sum of e**x along `axis`, without overflow and without losing small elements before large
    ones."""

    __slots__ = ()
    name = "hl.logcumsumexp"
    x = operand(FLOAT_TENSOR)

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.logaddexp.accumulate(widen(x), axis=self.axis).astype(x.dtype)


class SoftmaxOp(SameTypeAlong):
    """e**x divided by its sum along `axis`. A row of only -inf gives NaN. Adjoint: `bwd.softmax`."""

    __slots__ = ()
    name = "hl.softmax"
    x = operand(FLOAT_TENSOR)
    axis = attribute(INTEGER, default=-1)

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.exp(log_softmax(widen(x), self.axis)).astype(x.dtype)


class LogSoftmaxOp(SameTypeAlong):
    """x - log(sum(e**x)) along `axis`. Adjoint: `bwd.log_softmax`."""

    __slots__ = ()
    name = "hl.log_softmax"
    x = operand(FLOAT_TENSOR)
    axis = attribute(INTEGER, default=-1)

    def evaluate(self, x: Array) -> Array:
        return log_softmax(widen(x), self.axis).astype(x.dtype)


def log_softmax(x: Array, axis: int) -> Array:
    """x minus the logarithm of the sum of e**x. The largest x goes first: beside it the logarithm would lose its digits."""
    import numpy as np

    largest = np.max(x, axis=axis, keepdims=True, initial=x.dtype.type(-np.inf))
    x = x - np.where(np.isfinite(largest), largest, x.dtype.type(0))
    return x - np.logaddexp.reduce(x, axis=axis, keepdims=True, initial=x.dtype.type(-np.inf))


class SortOp(SameTypeAlong):
    """`x` sorted along `axis`, stably, NaN last also when `descending`."""

    __slots__ = ()
    name = "hl.sort"
    axis = attribute(INTEGER, default=-1)
    descending = attribute(BOOLEAN, default=False)

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.take_along_axis(x, stable_order(x, self.axis, self.descending), self.axis)


class ArgsortOp(SameTypeAlong):
    """The indices (i64) that sort `x` along `axis`, stably, NaN last also when `descending`."""

    __slots__ = ()
    name = "hl.argsort"
    axis = attribute(INTEGER, default=-1)
    descending = attribute(BOOLEAN, default=False)

    def infer(self) -> list[Type]:
        self.normal_axis  # noqa: B018
        return [tensor_type(self.x).with_element(I64)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return stable_order(x, self.axis, self.descending).astype(np.int64)


class TopkOp(Operation):
    """The `k` largest elements along `axis` in falling order (the first of equal ones first, NaN last), and their indices
    (i64)."""

    __slots__ = ()
    name = "hl.topk"
    x = operand(NUMBER_TENSOR)
    k = attribute(INTEGER)
    axis = attribute(INTEGER, default=-1)
    values = result(ANY_TENSOR)
    indices = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        axis = check_axis(self.axis, type.rank)
        size = type.dims[axis]
        if self.k < 0 or (isinstance(size, int) and self.k > size):
            raise InvalidOperation(f"attribute 'k' is {self.k}, expected a value in [0, {size}]")
        dims = [self.k if position == axis else size for position, size in enumerate(type.dims)]
        return [tensor(dims, type.element), tensor(dims, I64)]

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        import numpy as np

        if x.shape[self.axis] < self.k:
            raise ValueError(f"'{self.name}' op takes {self.k} elements of {x.shape[self.axis]}")
        order = np.take(stable_order(x, self.axis, True), np.arange(self.k), axis=self.axis).astype(np.int64)
        return np.take_along_axis(x, order, self.axis), order
