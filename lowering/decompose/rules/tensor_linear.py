"""Decompositions of the linear algebra of `hl`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.einsum import parse_equation
from gradopt.ir.builder import Builder
from gradopt.ir.values import Value
from gradopt.lowering.building import cast_to, iota_like, reduce_sum, reshape_to, zeros_like
from gradopt.lowering.decompose.elimination import eliminate, pivot_product
from gradopt.lowering.decompose.extents import Extent, extents_of, permute
from gradopt.lowering.decompose.neural import wide
from gradopt.lowering.decompose.registry import decomposition
from gradopt.lowering.decompose.rules.tensor_axis import flattened


@decomposition("hl.matmul")
def matmul(b: Builder, op: Any) -> Value:
    """prim.dot. A batch axis that only one operand has, or where the other has size 1, is a free axis of that operand."""
    a_type, b_type = tensor_type(op.a), tensor_type(op.b)
    a_rank, b_rank = a_type.rank, b_type.rank
    a_batch, b_batch = max(a_rank - 2, 0), max(b_rank - 2, 0)
    inner_a = a_rank - 1 if a_rank == 1 or not op.transpose_a else a_rank - 2
    inner_b = b_rank - 1 if b_rank == 1 or op.transpose_b else b_rank - 2
    left, left_axes = without_ones(b, op.a, a_batch)
    right, right_axes = without_ones(b, op.b, b_batch)
    # the number of each kept batch axis, counted from the last batch axis
    left_labels = [a_batch - axis for axis in left_axes]
    right_labels = [b_batch - axis for axis in right_axes]
    shared = [label for label in left_labels if label in right_labels]
    found = b.prim.dot(left, right, lhs_batch=[left_labels.index(label) for label in shared],
                       rhs_batch=[right_labels.index(label) for label in shared],
                       lhs_contract=[inner_a - a_batch + len(left_axes)], rhs_contract=[inner_b - b_batch + len(right_axes)])
    left_free = [label for label in left_labels if label not in shared]
    right_free = [label for label in right_labels if label not in shared]
    labels: list[Any] = [*shared, *left_free, *(["rows"] if a_rank > 1 else []), *right_free,
                         *(["columns"] if b_rank > 1 else [])]
    batch = sorted([label for label in labels if isinstance(label, int)], reverse=True)
    order = [*batch, *(["rows"] if a_rank > 1 else []), *(["columns"] if b_rank > 1 else [])]
    found = permute(b, found, [labels.index(label) for label in order])
    extents = dict(zip(order, extents_of(b, found)))
    full = [extents.get(label, Extent(b, 1)) for label in range(max(a_batch, b_batch), 0, -1)]
    return reshape_to(b, found, [*full, *(extents[label] for label in order if not isinstance(label, int))])


def without_ones(b: Builder, x: Value, batch: int) -> tuple[Value, list[int]]:
    """x without its batch axes of size 1, and the axes that are left."""
    dims = tensor_type(x).dims
    kept = [axis for axis in range(batch) if dims[axis] != 1]
    extents = extents_of(b, x)
    return reshape_to(b, x, [extents[axis] for axis in kept] + extents[batch:]), kept


@decomposition("hl.dot_general")
def dot_general(b: Builder, op: Any) -> Value:
    """prim.dot."""
    left, right = tensor_type(op.a).rank, tensor_type(op.b).rank
    return b.prim.dot(op.a, op.b, lhs_batch=[axis % left for axis in op.lhs_batch], rhs_batch=[axis % right
                                                                                                   for axis in op.rhs_batch],
                      lhs_contract=[axis % left for axis in op.lhs_contract], rhs_contract=[axis % right
                                                                                            for axis in op.rhs_contract])


@decomposition("hl.outer")
def outer(b: Builder, op: Any) -> Value:
    """A product without a contraction."""
    return b.prim.dot(flattened(b, op.a), flattened(b, op.b), lhs_contract=[], rhs_contract=[])


class Labelled:
    """A value with a label an axis."""

    def __init__(self, b: Builder, value: Value, labels: Sequence[str]) -> None:
        self.b, self.value, self.labels = b, value, list(labels)

    def drop_ones(self, sizes: Any) -> None:
        """Leaves out axes of size 1 whose label is larger elsewhere."""
        dims = tensor_type(self.value).dims
        kept = [axis for axis, label in enumerate(self.labels) if dims[axis] != 1 or sizes[label] == 1]
        extents = extents_of(self.b, self.value)
        self.value = reshape_to(self.b, self.value, [extents[axis] for axis in kept])
        self.labels = [self.labels[axis] for axis in kept]

    def take_diagonals(self) -> None:
        """Sums over the second of two axes with one label, with what is not on the diagonal set to 0."""
        for label in sorted(set(self.labels)):
            while self.labels.count(label) > 1:
                first = self.labels.index(label)
                second = self.labels.index(label, first + 1)
                rows, columns = (iota_like(self.b, self.value, axis) for axis in (first, second))
                on = self.b.prim.cmp(rows, columns, predicate="eq")
                kept = self.b.prim.select(on, self.value, zeros_like(self.b, self.value))
                self.value = reduce_sum(self.b, kept, [second])
                del self.labels[second]

    def sum_out(self, needed: set[str]) -> None:
        """Sums over the labels that nothing else reads."""
        axes = [axis for axis, label in enumerate(self.labels) if label not in needed]
        self.value = reduce_sum(self.b, self.value, axes)
        self.labels = [label for label in self.labels if label in needed]

    def times(self, other: Labelled, later: set[str]) -> Labelled:
        """The product, with the labels that only these two have contracted."""
        shared = [label for label in self.labels if label in other.labels]
        batch, contracted = [label for label in shared if label in later], [label for label in shared if label not in later]
        found = self.b.prim.dot(self.value, other.value, lhs_batch=[self.labels.index(label) for label in batch],
                                rhs_batch=[other.labels.index(label) for label in batch],
                                lhs_contract=[self.labels.index(label) for label in contracted],
                                rhs_contract=[other.labels.index(label) for label in contracted])
        free = [label for each in (self, other) for label in each.labels if label not in shared]
        return Labelled(self.b, found, [*batch, *free])


@decomposition("hl.einsum")
def einsum(b: Builder, op: Any) -> Value:
    """Diagonals and sums of each operand first, then products from left to right, then the order of the result."""
    element = tensor_type(op.operands[0]).element
    parsed = parse_equation(op.equation, [tensor_type(value).dims for value in op.operands])
    terms = []
    for value, labels in zip(op.operands, parsed.inputs):
        term = Labelled(b, wide(b, value), labels)
        term.drop_ones(parsed.sizes)
        term.take_diagonals()
        terms.append(term)
    for position, term in enumerate(terms):
        term.sum_out({*parsed.output, *(label for other in terms[:position] + terms[position + 1:] for label in other.labels)})
    found = terms[0]
    for position, term in enumerate(terms[1:], 1):
        found = found.times(term, {*parsed.output, *(label for later in terms[position + 1:] for label in later.labels)})
    return cast_to(b, permute(b, found.value, [found.labels.index(label) for label in parsed.output]), element)


@decomposition("hl.cholesky")
def cholesky(b: Builder, op: Any) -> Value:
    """prim.cholesky."""
    return b.prim.cholesky(op.a)


@decomposition("hl.triangular_solve")
def triangular_solve(b: Builder, op: Any) -> Value:
    """prim.triangular_solve."""
    return b.prim.triangular_solve(op.a, op.b, lower=op.lower, transpose=op.transpose)


@decomposition("hl.solve")
def solve(b: Builder, op: Any) -> Value:
    """Gauss-Jordan elimination of [a | b]."""
    a, right = wide(b, op.a), wide(b, op.b)
    vector = tensor_type(right).rank < tensor_type(a).rank
    extents = extents_of(b, right)
    if vector:
        right = reshape_to(b, right, [*extents, Extent(b, 1)])
    found = eliminate(b, a, right)
    return cast_to(b, reshape_to(b, found, extents) if vector else found, tensor_type(op.b).element)


@decomposition("hl.inverse")
def inverse(b: Builder, op: Any) -> Value:
    """Gauss-Jordan elimination of [a | 1]."""
    a = wide(b, op.a)
    rank = tensor_type(a).rank
    diagonal = b.prim.cmp(iota_like(b, a, rank - 2), iota_like(b, a, rank - 1), predicate="eq")
    return cast_to(b, eliminate(b, a, cast_to(b, diagonal, tensor_type(a).element)), tensor_type(op.a).element)


@decomposition("hl.det")
def det(b: Builder, op: Any) -> Value:
    """The signed product of the pivots."""
    return cast_to(b, pivot_product(b, wide(b, op.a)), tensor_type(op.a).element)
