"""`hl` ops of linear algebra. Matrices lie in the last two axes. 16-bit floats accumulate in f32."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import (
    ANY_TENSOR,
    FLOAT_TENSOR,
    NUMBER_TENSOR,
    merge_size,
    same_element,
    shape_text,
    tensor_type,
)
from gradopt.dialects.hl.einsum import parse_equation
from gradopt.dialects.prim.linear import CholeskyOp as PrimCholeskyOp
from gradopt.dialects.prim.linear import DotOp as PrimDotOp
from gradopt.dialects.prim.linear import TriangularSolveOp as PrimTriangularSolveOp
from gradopt.dialects.prim.linear import check_square
from gradopt.ir.attribute_kinds import BOOLEAN, STRING
from gradopt.ir.declare import PURE, InvalidOperation, attribute, operand, result, variadic
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, product, provably_different
from gradopt.ir.types import Type, tensor


def broadcast_batch(left: Sequence[Size], right: Sequence[Size]) -> list[Size]:
    """The batch sizes of two stacks of matrices, broadcast. Raises InvalidOperation."""
    rank = max(len(left), len(right))
    found: list[Size] = []
    for a, b in zip([*[1] * (rank - len(left)), *left], [*[1] * (rank - len(right)), *right]):
        if a != 1 and b != 1 and provably_different(a, b):
            raise InvalidOperation(f"has batch sizes {a} and {b}, which do not broadcast")
        found.append(b if a == 1 else a if b == 1 else merge_size(a, b))
    return found


class MatmulOp(Operation):
    """The matrix product, by NumPy's rules for every rank from 1 up: a vector on the left is a row, on the right a column,
    and that dimension vanishes; batch dimensions broadcast. `transpose_a` and `transpose_b` swap the last two axes of an
    operand of rank 2 or more first. Zero times infinity inside a product is NaN, also in a masked lane's adjoint."""

    __slots__ = ()
    name = "hl.matmul"
    a = operand(NUMBER_TENSOR)
    b = operand(NUMBER_TENSOR)
    transpose_a = attribute(BOOLEAN, default=False)
    transpose_b = attribute(BOOLEAN, default=False)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        element = same_element(a=self.a, b=self.b)
        a, b = tensor_type(self.a), tensor_type(self.b)
        if not a.rank or not b.rank:
            raise InvalidOperation(f"multiplies {a.text} by {b.text}, expected a rank of at least 1")
        left, right = list(a.dims), list(b.dims)
        if self.transpose_a and a.rank > 1:
            left[-1], left[-2] = left[-2], left[-1]
        if self.transpose_b and b.rank > 1:
            right[-1], right[-2] = right[-2], right[-1]
        inner = right[-2] if b.rank > 1 else right[-1]
        if provably_different(left[-1], inner):
            raise InvalidOperation(f"multiplies {shape_text(a)} by {shape_text(b)}: the inner sizes {left[-1]} and {inner} differ")
        dims = broadcast_batch(left[:-2], right[:-2])
        return [tensor([*dims, *left[-2:-1], *(right[-1:] if b.rank > 1 else [])], element)]

    def evaluate(self, a: Array, b: Array) -> Array:
        import numpy as np

        left = np.swapaxes(a, -1, -2) if self.transpose_a and a.ndim > 1 else a
        right = np.swapaxes(b, -1, -2) if self.transpose_b and b.ndim > 1 else b
        return np.asarray(np.matmul(widen(left), widen(right))).astype(a.dtype)


class DotGeneralOp(PrimDotOp):
    """Sum over the contracted axes of products: batch axes first, then the free axes of `a`, then those of `b`. Axes may
    be negative."""

    __slots__ = ()
    name = "hl.dot_general"


class EinsumOp(Operation):
    """Einstein's sum convention, as NumPy: "ij,jk->ik". Without "->" the result has the labels that occur once, in
    alphabetical order; "..." stands for dimensions that broadcast; a label that occurs twice in one operand takes the
    diagonal."""

    __slots__ = ()
    name = "hl.einsum"
    x = variadic(NUMBER_TENSOR)
    equation = attribute(STRING)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        if not self._operands:
            raise InvalidOperation("has no operand, expected at least 1")
        element = same_element(**{f"operand {number}": value for number, value in enumerate(self._operands)})
        parsed = parse_equation(self.equation, [tensor_type(value).dims for value in self._operands])
        return [tensor([parsed.sizes[label] for label in parsed.output], element)]

    def evaluate(self, *inputs: Array) -> Array:
        import numpy as np

        return np.asarray(np.einsum(self.equation.replace(" ", ""), *[widen(array) for array in inputs])).astype(inputs[0].dtype)


class OuterOp(Operation):
    """a[i] * b[j] of the flattened operands."""

    __slots__ = ()
    name = "hl.outer"
    a = operand(NUMBER_TENSOR)
    b = operand(NUMBER_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        element = same_element(a=self.a, b=self.b)
        return [tensor([product(tensor_type(self.a).dims), product(tensor_type(self.b).dims)], element)]

    def evaluate(self, a: Array, b: Array) -> Array:
        import numpy as np

        return np.outer(widen(a), widen(b)).astype(a.dtype)


class CholeskyOp(PrimCholeskyOp):
    """The lower factor L of a = L L^T for each matrix (only the lower triangle of `a` is read; zeros above). A matrix that
    is not positive definite gives NaN."""

    __slots__ = ()
    name = "hl.cholesky"


class TriangularSolveOp(PrimTriangularSolveOp):
    """x with op(a) x = b for each pair of matrices; a's other triangle is not read. op transposes where `transpose` says so."""

    __slots__ = ()
    name = "hl.triangular_solve"


class SolveOp(Operation):
    """x with a x = b for each square matrix, by elimination with partial pivoting. `b` has the batch sizes of `a`, and is a
    matrix, or a vector where its rank is one less. A singular matrix gives infinities or NaN."""

    __slots__ = ()
    name = "hl.solve"
    a = operand(FLOAT_TENSOR)
    b = operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        same_element(a=self.a, b=self.b)
        a, b = tensor_type(self.a), tensor_type(self.b)
        check_square(a)
        expected = a.dims[:-1]
        if b.rank not in (a.rank, a.rank - 1) or any(provably_different(p, q) for p, q in zip(expected, b.dims)):
            raise InvalidOperation(f"solves {a.text} for {b.text}, expected equal batch sizes and rows")
        return [b]

    def evaluate(self, a: Array, b: Array) -> Array:
        right = widen(b) if b.ndim == a.ndim else widen(b)[..., None]
        found = each_matrix("solve", widen(a), right)
        return (found if b.ndim == a.ndim else found[..., 0]).astype(b.dtype)


def each_matrix(function: str, a: Array, *rest: Array) -> Array:
    """A function of numpy.linalg of a stack of matrices, with NaN for those that are singular."""
    import numpy as np

    with np.errstate(all="ignore"):
        flat = [array.reshape(int(np.prod(array.shape[:-2])), *array.shape[-2:]) for array in (a, *rest)]
        out = np.empty_like(flat[-1])
        for index in range(flat[0].shape[0]):
            try:
                out[index] = getattr(np.linalg, function)(*[array[index] for array in flat])
            except np.linalg.LinAlgError:
                out[index] = np.nan
    return out.reshape((a, *rest)[-1].shape)


class InverseOp(Operation):
    """The inverse of each square matrix. A singular one gives infinities or NaN."""

    __slots__ = ()
    name = "hl.inverse"
    a = operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        check_square(tensor_type(self.a))
        return [self.a.type]

    def evaluate(self, a: Array) -> Array:
        return each_matrix("inv", widen(a)).astype(a.dtype)


class DetOp(Operation):
    """The determinant of each square matrix, by elimination with pivoting; 1 for an empty one. Its first and second derivatives are
    right for every matrix, those of higher order where the rank lacks at most two."""

    __slots__ = ()
    name = "hl.det"
    a = operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        type = tensor_type(self.a)
        check_square(type)
        return [tensor(type.dims[:-2], type.element)]

    def evaluate(self, a: Array) -> Array:
        import numpy as np

        return np.asarray(np.linalg.det(widen(a))).astype(a.dtype)
