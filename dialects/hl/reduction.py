"""`hl` ops that combine elements along axes: `axes` absent means all of them, `keepdims` leaves each as size 1.

16-bit floats are summed in f32. Over no elements a reduction gives its identity (0, 1, -inf …); mean, variance and std give
NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradopt.dialects.arrays import Array, sum_dtype, widen
from gradopt.dialects.constraints import (
    ANY_TENSOR,
    BOOL_TENSOR,
    FLOAT_TENSOR,
    NUMBER_TENSOR,
    Constraint,
    check_axes,
    check_axis,
    sentence,
    tensor_type,
)
from gradopt.dialects.prim.reduction import identity_of
from gradopt.ir.attribute_kinds import BOOLEAN, FLOAT, INTEGER, INTEGERS
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, product
from gradopt.ir.types import I64, TensorType, Type, tensor


def reduced_dims(type: TensorType, axes: Sequence[int], keepdims: bool) -> list[Size]:
    """The sizes that are left of a tensor."""
    gone = set(axes)
    if keepdims:
        return [1 if axis in gone else size for axis, size in enumerate(type.dims)]
    return [size for axis, size in enumerate(type.dims) if axis not in gone]


class Reduction(Operation):
    """Base of the reductions."""

    __slots__ = ()
    x = operand(FLOAT_TENSOR)
    axes = attribute(INTEGERS, optional=True, documentation="the axes that are combined; all of them where absent")
    keepdims = attribute(BOOLEAN, default=False)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})
    meaning: Callable[..., Array]  # (numpy, array in its accumulation type, keywords of NumPy reductions) -> array

    @property
    def normal_axes(self) -> list[int]:
        """The axes, sorted and not negative. Raises InvalidOperation."""
        return sorted(check_axes(self.axes, tensor_type(self.x).rank))

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        return [tensor(reduced_dims(type, self.normal_axes, self.keepdims), type.element)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        found = type(self).meaning(np, widen(x), {"axis": tuple(self.normal_axes), "keepdims": self.keepdims})
        return np.asarray(found).astype(x.dtype, copy=False)


def _extreme(kind: str) -> Callable[..., Array]:
    def meaning(np: Any, x: Array, how: dict[str, Any]) -> Array:
        from gradopt.ir.types import F64, IntegerType

        element = F64 if x.dtype.kind == "f" else IntegerType(8 * x.dtype.itemsize, "unsigned" if x.dtype.kind == "u" else "")
        return getattr(np, kind)(x, initial=x.dtype.type(identity_of(kind, element)), **how)
    return meaning


def _logsumexp(np: Any, x: Array, how: dict[str, Any]) -> Array:
    return np.logaddexp.reduce(x, initial=x.dtype.type(-np.inf), **how)


# name -> (formula, what the operand may be, meaning)
PLAIN: dict[str, tuple[str, Constraint, Callable[..., Array]]] = {
    "sum": ("the sum; integers wrap", NUMBER_TENSOR, lambda np, x, how: np.sum(x, dtype=sum_dtype(x.dtype), **how)),
    "prod": ("the product; integers wrap. Its derivative never divides by x", NUMBER_TENSOR,
             lambda np, x, how: np.prod(x, dtype=x.dtype, **how)),
    "mean": ("the sum divided by the number of elements", FLOAT_TENSOR, lambda np, x, how: np.mean(x, dtype=sum_dtype(x.dtype), **how)),
    "variance": ("the mean of the squared distances from the mean (of the population: nothing is taken off the count)",
                 FLOAT_TENSOR,
                 lambda np, x, how: np.var(x, dtype=sum_dtype(x.dtype), **how)),
    "std": ("the root of the variance; its derivative is 0 where all elements are equal", FLOAT_TENSOR,
            lambda np, x, how: np.std(x, dtype=sum_dtype(x.dtype), **how)),
    "max": ("the largest; NaN where any is NaN. A tie splits the cotangent evenly", NUMBER_TENSOR, _extreme("max")),
    "min": ("the smallest; NaN where any is NaN. A tie splits the cotangent evenly", NUMBER_TENSOR, _extreme("min")),
    "logsumexp": ("log(sum(e**x)) without overflow; -inf, with derivative 0, where all are -inf", FLOAT_TENSOR, _logsumexp),
    "all": ("whether all are true", BOOL_TENSOR, lambda np, x, how: np.all(x, **how)),
    "any": ("whether any is true", BOOL_TENSOR, lambda np, x, how: np.any(x, **how)),
}


def _declare(name: str, formula: str, constraint: Constraint, meaning: Callable[..., Array]) -> None:
    class_name = name.capitalize() + "Op"
    globals()[class_name] = type(class_name, (Reduction,), {
        "__slots__": (), "__module__": __name__, "__doc__": sentence(f"along `axes`, {formula}"), "name": f"hl.{name}",
        "meaning": staticmethod(meaning), "x": operand(constraint), "traits": frozenset({PURE})})


for _name, (_formula, _constraint, _meaning) in PLAIN.items():
    _declare(_name, _formula, _constraint, _meaning)


class NormOp(Reduction):
    """The vector norm (sum(|x|**ord))**(1/ord) along `axes`; ord = inf is the largest |x|. Its derivative at 0 is 0."""

    __slots__ = ()
    name = "hl.norm"
    ord = attribute(FLOAT, default=2.0)

    def verify(self) -> None:
        if not self.ord > 0:
            raise InvalidOperation(f"attribute 'ord' is {self.ord}, expected a positive number or inf")

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        size = np.abs(widen(x))
        how: dict[str, Any] = {"axis": tuple(self.normal_axes), "keepdims": self.keepdims}
        if self.ord == np.inf:
            found = np.max(size, initial=size.dtype.type(0), **how)
        else:
            found = np.sum(size ** size.dtype.type(self.ord), dtype=sum_dtype(size.dtype), **how) ** size.dtype.type(1 / self.ord)
        return np.asarray(found).astype(x.dtype, copy=False)


class ArgReduction(Operation):
    """Base: the index (i64) of the first extreme element along `axis`, of all elements in row-major order where that is
    absent; the first NaN wins."""

    __slots__ = ()
    x = operand(NUMBER_TENSOR)
    axis = attribute(INTEGER, optional=True, documentation="flattened where absent")
    keepdims = attribute(BOOLEAN, default=False)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})
    kind = "max"

    def infer(self) -> list[Type]:
        type = tensor_type(self.x)
        axes = list(range(type.rank)) if self.axis is None else [check_axis(self.axis, type.rank)]
        if product([type.dims[axis] for axis in axes]) == 0:
            raise InvalidOperation(f"looks for an element in none: {type.text}")
        return [tensor(reduced_dims(type, axes, self.keepdims), I64)]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        if self.axis is not None and x.size == 0:
            return np.zeros([size if size is not None else 0 for size in tensor_type(self.results[0]).shape], np.int64)
        found = np.asarray(getattr(np, f"arg{self.kind}")(x, axis=self.axis))
        if self.keepdims:
            found = found.reshape((1,) * x.ndim) if self.axis is None else np.expand_dims(found, self.axis)
        return found.astype(np.int64)


class ArgmaxOp(ArgReduction):
    """The index of the first largest element along `axis`, or of all elements where that is absent; the first NaN wins."""

    __slots__ = ()
    name = "hl.argmax"


class ArgminOp(ArgReduction):
    """The index of the first smallest element along `axis`, or of all elements where that is absent; the first NaN wins."""

    __slots__ = ()
    name = "hl.argmin"
    kind = "min"
