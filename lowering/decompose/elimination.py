"""Gaussian elimination with pivoting, for a stack of matrices, as a `prim.scan` over the columns.

The loop is differentiable at any order: the choice of a pivot is a matter of integers. A pivot of 0 (a singular matrix) is
divided by in `eliminate`, so that its result is infinite or NaN; `pivot_product` divides by no 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.prim.shape import END
from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.types import I64
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.loops import build_scan
from gradopt.lowering.building import (
    Extent,
    expand_axes,
    expand_like,
    extents_of,
    full_like,
    iota_like,
    reduce_sum,
    reshape_to,
    scalar,
    zeros_like,
)

Carries = tuple[Sequence[Value], Sequence[Value]]

__all__ = ["eliminate", "pivot_product"]


def _order(b: Builder, a: Value) -> int:
    """The static number of rows. Raises GradoptError where only run time knows it."""
    size = tensor_type(a).dims[-1]
    if not isinstance(size, int):
        size = tensor_type(a).dims[-2]
    if not isinstance(size, int):
        raise GradoptError.at(b.location, f"elimination needs a static number of rows, found {a.type.text}")
    return size


def _row(b: Builder, matrix: Value, chosen: Value) -> Value:
    """The row of each matrix that the i1 mask [batch…, rows] marks: [batch…, columns]."""
    rank = tensor_type(matrix).rank
    kept = b.prim.select(expand_axes(b, chosen, matrix, [rank - 1]), matrix, zeros_like(b, matrix))
    return reduce_sum(b, kept, [rank - 2])


def _put_row(b: Builder, matrix: Value, chosen: Value, row: Value) -> Value:
    """The matrix with the marked row replaced."""
    rank = tensor_type(matrix).rank
    return b.prim.select(expand_axes(b, chosen, matrix, [rank - 1]), expand_axes(b, row, matrix, [rank - 2]), matrix)


class _Step:
    """One step: the pivot of column `index`, its row swapped to its place."""

    def __init__(self, b: Builder, matrix: Value, index: Value) -> None:
        type = tensor_type(matrix)
        rank = type.rank
        column = b.prim.cmp(iota_like(b, matrix, rank - 1), expand_like(b, index, matrix), predicate="eq")
        self.column = reduce_sum(b, b.prim.select(column, matrix, zeros_like(b, matrix)), [rank - 1])  # [batch…, rows]
        counter = iota_like(b, self.column, rank - 2)
        here = expand_like(b, index, self.column)
        self.at = b.prim.cmp(counter, here, predicate="eq")
        size = b.prim.select(b.prim.cmp(counter, here, predicate="lt"), full_like(b, self.column, -1), b.prim.abs(self.column))
        best = b.prim.arg_reduce(size, kind="max", axis=rank - 2)
        chosen = b.prim.cmp(counter, expand_axes(b, best, self.column, [rank - 2]), predicate="eq")
        top, other = _row(b, matrix, chosen), _row(b, matrix, self.at)
        self.row = top
        self.matrix = _put_row(b, _put_row(b, matrix, chosen, other), self.at, top)
        picked = b.prim.select(chosen, self.column, zeros_like(b, self.column))
        self.pivot = reduce_sum(b, picked, [rank - 2])
        moved = _moved(b, self.column, chosen, self.at, self.pivot)
        self.below = moved

    def clear(self, b: Builder, divisor: Value, mask: Value) -> Value:
        """The matrix with multiples of the pivot's row taken from the rows that `mask` marks, so that their column becomes
        0."""
        rank = tensor_type(self.matrix).rank
        factor = b.prim.div(self.below, expand_axes(b, divisor, self.below, [rank - 2]))
        factor = b.prim.select(mask, factor, zeros_like(b, factor))
        spread = b.prim.mul(expand_axes(b, factor, self.matrix, [rank - 1]), expand_axes(b, self.row, self.matrix, [rank - 2]))
        changed = b.prim.sub(self.matrix, spread)
        return b.prim.select(expand_axes(b, mask, self.matrix, [rank - 1]), changed, self.matrix)


def _moved(b: Builder, column: Value, chosen: Value, at: Value, pivot: Value) -> Value:
    """The column after the swap of its elements at the two marks."""
    rank = tensor_type(column).rank
    other = reduce_sum(b, b.prim.select(at, column, zeros_like(b, column)), [rank - 1])
    first = b.prim.select(chosen, expand_axes(b, other, column, [rank - 1]), column)
    return b.prim.select(at, expand_axes(b, pivot, column, [rank - 1]), first)


def eliminate(b: Builder, a: Value, right: Value) -> Value:
    """x with a x = right: Gauss-Jordan elimination of [a | right] over the last two axes.

    Raises GradoptError where the number of rows is not static."""
    order, rank = _order(b, a), tensor_type(a).rank
    joined = b.prim.concat(a, right, axis=rank - 1)
    if order:
        def body(inner: Builder, carry: Sequence[Value], _: Sequence[Value], __: Sequence[Value]) -> Carries:
            matrix, index = carry
            step = _Step(inner, matrix, index)
            changed = step.clear(inner, step.pivot, inner.prim.not_(step.at))
            scaled = inner.prim.div(step.row, expand_axes(inner, step.pivot, step.row, [rank - 2]))
            return [_put_row(inner, changed, step.at, scaled), inner.prim.add(index, scalar(inner, 1, I64))], []

        joined = build_scan(b, order, [joined, scalar(b, 0, I64)], [], [], body).results[0]
    return b.prim.slice(joined, begin=[*[0] * (rank - 1), order], end=[END] * rank, strides=[1] * rank)


def _exchange(b: Builder, matrix: Value, one: Value, other: Value) -> Value:
    """The matrix with the rows of two numbers [batch…] exchanged."""
    counter = iota_like(b, reduce_sum(b, matrix, [tensor_type(matrix).rank - 1]), tensor_type(matrix).rank - 2)
    first, second = (b.prim.cmp(counter, expand_axes(b, index, counter, [tensor_type(counter).rank - 1]), predicate="eq")
                     for index in (one, other))
    return _put_row(b, _put_row(b, matrix, second, _row(b, matrix, first)), first, _row(b, matrix, second))


def _transposed(b: Builder, matrix: Value) -> Value:
    rank = tensor_type(matrix).rank
    return b.prim.permute(matrix, axes=[*range(rank - 2), rank - 1, rank - 2])


def pivot_product(b: Builder, a: Value) -> Value:
    """The determinant over the last two axes: the product of the pivots, with the sign of the swaps of rows and columns.

    Each pivot is the largest element that is left, so that one of 0 comes only when nothing else is: what is left is then a
    polynomial of the rest, whose derivatives are the determinant's to second order, and to any order where the rest has two rows or
    fewer. Raises GradoptError where the number of rows is not static."""
    order, rank = _order(b, a), tensor_type(a).rank
    one = full_like(b, b.prim.reduce(a, kind="sum", axes=[rank - 2, rank - 1]), 1)
    if not order:
        return one

    def body(inner: Builder, carry: Sequence[Value], _: Sequence[Value], __: Sequence[Value]) -> Carries:
        matrix, index, product = carry
        rows, columns = (iota_like(inner, matrix, axis) for axis in (rank - 2, rank - 1))
        here = expand_like(inner, index, matrix)
        done = inner.prim.or_(inner.prim.cmp(rows, here, predicate="lt"), inner.prim.cmp(columns, here, predicate="lt"))
        size = inner.prim.select(done, full_like(inner, matrix, -1), inner.prim.abs(matrix))
        flat = reshape_to(inner, size, [*extents_of(inner, size)[:-2], Extent(inner, order * order)])
        best = inner.prim.arg_reduce(flat, kind="max", axis=rank - 2)
        width, at = full_like(inner, best, order), expand_like(inner, index, best)
        row, column = inner.prim.div(best, width), inner.prim.rem(best, width)
        matrix = _exchange(inner, matrix, at, row)
        matrix = _transposed(inner, _exchange(inner, _transposed(inner, matrix), at, column))
        swapped = inner.prim.xor(inner.prim.cmp(row, at, predicate="ne"), inner.prim.cmp(column, at, predicate="ne"))

        zeros = zeros_like(inner, matrix)
        left = reduce_sum(inner, inner.prim.select(inner.prim.cmp(columns, here, predicate="eq"), matrix, zeros), [rank - 1])
        top = reduce_sum(inner, inner.prim.select(inner.prim.cmp(rows, here, predicate="eq"), matrix, zeros), [rank - 2])
        counter = iota_like(inner, left, rank - 2)
        place = expand_like(inner, index, left)
        corner = inner.prim.select(inner.prim.cmp(counter, place, predicate="eq"), left, zeros_like(inner, left))
        pivot = reduce_sum(inner, corner, [rank - 2])
        zero = inner.prim.cmp(pivot, zeros_like(inner, pivot), predicate="eq")
        divisor = inner.prim.select(zero, full_like(inner, pivot, 1), pivot)
        below = inner.prim.cmp(counter, place, predicate="gt")
        factor = inner.prim.div(left, expand_axes(inner, divisor, left, [rank - 2]))
        spread = inner.prim.mul(expand_axes(inner, factor, matrix, [rank - 1]), expand_axes(inner, top, matrix, [rank - 2]))
        # a pivot of 0 multiplies the rows below instead of the product: no division, so that products of two elements stay
        scale = inner.prim.select(zero, pivot, full_like(inner, pivot, 1))
        scaled = inner.prim.mul(matrix, expand_axes(inner, scale, matrix, [rank - 2, rank - 1]))
        changed = inner.prim.select(expand_axes(inner, below, matrix, [rank - 1]), inner.prim.sub(scaled, spread), matrix)
        early = inner.prim.cmp(at, full_like(inner, at, order - 1), predicate="lt")
        term = inner.prim.select(inner.prim.and_(zero, early), full_like(inner, pivot, 1), pivot)
        signed = inner.prim.select(swapped, inner.prim.neg(term), term)
        return [changed, inner.prim.add(index, scalar(inner, 1, I64)), inner.prim.mul(product, signed)], []

    return build_scan(b, order, [a, scalar(b, 0, I64), one], [], [], body).results[2]
