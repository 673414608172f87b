"""`hl` linear algebra: products, Einstein sums, factorisations."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import ANY_TENSOR, FLOAT_TENSOR, NUMBER_TENSOR, merge_size, same_element, shape_text, tensor_type
from gradopt.dialects.prim.linear import CholeskyOp as PrimCholeskyOp
from gradopt.dialects.prim.linear import DotOp, dot_type
from gradopt.dialects.prim.linear import TriangularSolveOp as PrimTriangularSolveOp
from gradopt.ir.declare import BOOLEAN, INTEGERS, PURE, STRING, InvalidOperation, attribute, operand, result, variadic
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, product, provably_different
from gradopt.ir.types import Type, tensor


class MatmulOp(Operation):
    """a @ b by NumPy's rules for every rank from 1: a vector is a row on the left and a column on the right, batch dimensions broadcast.

    `transpose_a` and `transpose_b` swap the last two axes of a matrix first. 16-bit floats accumulate in f32.
    """

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
        left, right = matrix_dims(self.a.type.dims, self.transpose_a, "a"), matrix_dims(  # type: ignore[attr-defined]
            self.b.type.dims, self.transpose_b, "b")  # type: ignore[attr-defined]
        inner_left, inner_right = left[-1], right[0] if len(right) == 1 else right[-2]
        if provably_different(inner_left, inner_right):
            raise InvalidOperation(f"operands 'a' and 'b' do not multiply: {inner_left} columns meet {inner_right} rows")
        batch = broadcast_batch(left[:-2], right[:-2])
        rows = left[-2:-1] if len(left) > 1 else []
        columns = right[-1:] if len(right) > 1 else []
        return [tensor([*batch, *rows, *columns], element)]

    def evaluate(self, a: Array, b: Array) -> Array:
        import numpy as np

        left = np.swapaxes(a, -1, -2) if self.transpose_a and a.ndim > 1 else a
        right = np.swapaxes(b, -1, -2) if self.transpose_b and b.ndim > 1 else b
        return np.matmul(widen(left), widen(right)).astype(a.dtype)


def matrix_dims(dims: Sequence[Size], transpose: bool, name: str) -> list[Size]:
    """The sizes of an operand of a product, its last two swapped where it is transposed. Raises InvalidOperation for rank 0."""
    if not dims:
        raise InvalidOperation(f"operand '{name}' has rank 0, expected at least 1")
    if transpose and len(dims) > 1:
        return [*dims[:-2], dims[-1], dims[-2]]
    return list(dims)


def broadcast_batch(left: Sequence[Size], right: Sequence[Size]) -> list[Size]:
    """The batch sizes of a product. Raises InvalidOperation where they do not broadcast."""
    rank = max(len(left), len(right))
    out: list[Size] = []
    for a, b in zip([1] * (rank - len(left)) + list(left), [1] * (rank - len(right)) + list(right)):
        if a != 1 and b != 1 and provably_different(a, b):
            raise InvalidOperation(f"batch sizes {a} and {b} do not broadcast")
        out.append(b if a == 1 else a if b == 1 else merge_size(a, b))
    return out


class DotGeneralOp(DotOp):
    """Sum over the contracted axes of products: batch axes first, then the free axes of `lhs`, then those of `rhs`. Axes may be negative."""

    __slots__ = ()
    name = "hl.dot_general"
    lhs = operand(NUMBER_TENSOR)
    rhs = operand(NUMBER_TENSOR)

    def infer(self) -> list[Type]:
        same_element(lhs=self.lhs, rhs=self.rhs)
        return [dot_type(self, tensor_type(self.lhs), tensor_type(self.rhs))]


class OuterOp(Operation):
    """a[i] * b[j] for all i and j; operands of other ranks are flattened."""

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


class EinsumOp(Operation):
    """Einstein's summation, as in numpy.einsum with an explicit or implicit result: `"bij,bjk->bik"`. A label that stands twice in one operand takes its diagonal; `...` is not taken."""

    __slots__ = ()
    name = "hl.einsum"
    inputs = variadic(NUMBER_TENSOR)
    equation = attribute(STRING)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        labels, output = parse_equation(self.equation, len(self._operands))
        sizes: dict[str, Size] = {}
        element = same_element(**{f"inputs[{i}]": value for i, value in enumerate(self._operands)})
        for number, (value, names) in enumerate(zip(self._operands, labels)):
            dims = tensor_type(value).dims
            if len(dims) != len(names):
                raise InvalidOperation(f"operand {number} has rank {len(dims)}, but '{names}' names {len(names)} axes")
            for name, size in zip(names, dims):
                if name in sizes and provably_different(sizes[name], size):
                    raise InvalidOperation(f"label '{name}' has sizes {sizes[name]} and {size}")
                sizes[name] = merge_size(sizes[name], size) if name in sizes else size
        for name in output:
            if name not in sizes:
                raise InvalidOperation(f"label '{name}' of the result stands in no operand")
        return [tensor([sizes[name] for name in output], element)]

    def evaluate(self, *inputs: Array) -> Array:
        import numpy as np

        return np.asarray(np.einsum(self.equation, *[widen(x) for x in inputs])).astype(inputs[0].dtype)


def parse_equation(equation: str, count: int) -> tuple[list[str], str]:
    """(labels of each operand, labels of the result). Raises InvalidOperation."""
    text = equation.replace(" ", "")
    left, arrow, output = text.partition("->")
    labels = left.split(",")
    if len(labels) != count:
        raise InvalidOperation(f"attribute 'equation' names {len(labels)} operands, found {count}")
    for part in (*labels, output):
        if not all(letter.isascii() and letter.isalpha() for letter in part):
            raise InvalidOperation(f"attribute 'equation' has '{part}', expected letters only")
    if not arrow:
        letters = "".join(labels)
        output = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    if len(set(output)) != len(output):
        raise InvalidOperation(f"attribute 'equation' names a label of the result twice: '{output}'")
    return labels, output


class CholeskyOp(PrimCholeskyOp):
    __doc__ = PrimCholeskyOp.__doc__
    __slots__ = ()
    name = "hl.cholesky"
    a = operand(FLOAT_TENSOR)


class TriangularSolveOp(PrimTriangularSolveOp):
    __doc__ = PrimTriangularSolveOp.__doc__
    __slots__ = ()
    name = "hl.triangular_solve"
    a = operand(FLOAT_TENSOR)
    b = operand(FLOAT_TENSOR)


def check_matrices(value: object, name: str) -> None:
    """Raises InvalidOperation unless the last two sizes may be equal."""
    type = tensor_type(value)  # type: ignore[arg-type]
    if type.rank < 2 or provably_different(type.dims[-1], type.dims[-2]):
        raise InvalidOperation(f"operand '{name}' has shape {shape_text(type)}, expected square matrices")
