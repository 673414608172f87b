"""Derivatives of products, convolutions, unfolding and the factor solvers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.prim.linear import dot_axes
from gradopt.ir.builder import Builder
from gradopt.ir.types import I64
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import ForwardContext, ReverseContext
from gradopt.lowering.autodiff.convolution import input_cotangent, weight_cotangent
from gradopt.lowering.autodiff.helpers import full_like, iota_like, size_operands, zeros_like
from gradopt.lowering.autodiff.registry import Gradients, Tangents, forward_rule, reverse_rule


@reverse_rule("prim.dot")
def dot(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """lhs: g contracted with rhs over rhs's free axes; rhs: g contracted with lhs over lhs's free axes; axes put back in
    order."""
    b, (lhs, rhs) = context.builder, op.operands
    lhs_batch, rhs_batch, lhs_contract, rhs_contract, lhs_free, rhs_free = dot_axes(op, tensor_type(lhs), tensor_type(rhs))
    batch = list(range(len(lhs_batch)))
    middle = [len(batch) + i for i in range(len(lhs_free))]
    last = [len(batch) + len(middle) + i for i in range(len(rhs_free))]

    def left() -> Value:
        product = b.prim.dot(g, rhs, lhs_batch=batch, rhs_batch=rhs_batch, lhs_contract=last, rhs_contract=rhs_free)
        # axes now: batch, lhs free, then what rhs has left: its contracted axes in rising order
        return reorder(b, product, [*lhs_batch, *lhs_free, *follow(lhs_contract, rhs_contract)])

    def right() -> Value:
        product = b.prim.dot(lhs, g, lhs_batch=lhs_batch, rhs_batch=batch, lhs_contract=lhs_free, rhs_contract=middle)
        return reorder(b, product, [*rhs_batch, *follow(rhs_contract, lhs_contract), *rhs_free])
    return left, right


def follow(own: Sequence[int], other: Sequence[int]) -> list[int]:
    """The contracted axes of one side in the order in which the other side's stand in its type."""
    return [own[index] for index in sorted(range(len(own)), key=lambda index: other[index])]


def reorder(b: Builder, x: Value, places: Sequence[int]) -> Value:
    """`x` permuted so that its axis i becomes axis places[i]."""
    axes = [list(places).index(axis) for axis in range(len(places))]
    return x if axes == list(range(len(axes))) else b.prim.permute(x, axes=axes)


@forward_rule("prim.dot", "prim.conv")
def bilinear_tangent(context: ForwardContext, op: Any, dl: Value | None, dr: Value | None) -> Tangents:
    """f(dl, rhs) + f(lhs, dr)."""
    b, (lhs, rhs) = context.builder, op.operands
    terms = [b.insert(type(op)(operands, op.result_types, dict(op.properties), {}, (), (), b.location)).results[0]
             for operands in ((dl, rhs), (lhs, dr)) if operands[0] is not None and operands[1] is not None]
    return terms[0] if len(terms) == 1 else b.prim.add(*terms)


@reverse_rule("prim.conv")
def conv(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """x: the convolution of g, spread by the strides, with the reversed kernel; w: the convolution of x with g
    (convolution.py)."""
    skips = any(stride > 1 for stride in op.strides) or any(amount < 0 for pair in op.padding for amount in pair)

    def dx() -> Any:
        value = input_cotangent(context.builder, op, g)
        return context.cut(value) if skips else value  # elements that no window reads
    return dx, lambda: weight_cotangent(context.builder, op, g)


@reverse_rule("prim.unfold", masks=True)
def unfold(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """fold; elements that no window reads get 0."""
    b, x = context.builder, op.operands[0]
    return b.prim.fold(g, *size_operands(b, x), kernel=op.kernel, strides=op.strides, padding=op.padding, dilation=op.dilation,
                       result_types=[x.type])


@reverse_rule("prim.fold", masks=True)
def fold(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """unfold; what lies in the padding gets 0."""
    return context.builder.prim.unfold(g, kernel=op.kernel, strides=op.strides, padding=op.padding, dilation=op.dilation)


# --- factor solvers; the last two axes are matrices


def transpose(b: Builder, x: Value) -> Value:
    """The matrices transposed."""
    rank = tensor_type(x).rank
    return b.prim.permute(x, axes=[*range(rank - 2), rank - 1, rank - 2])


def matrix_product(b: Builder, x: Value, y: Value) -> Value:
    """x @ y for equal batch axes."""
    rank = tensor_type(x).rank
    batch = list(range(rank - 2))
    return b.prim.dot(x, y, lhs_batch=batch, rhs_batch=batch, lhs_contract=[rank - 1], rhs_contract=[rank - 2])


def triangle(b: Builder, x: Value, lower: bool) -> Value:
    """The lower (upper) triangle with the diagonal, zeros elsewhere."""
    return b.prim.select(in_triangle(b, x, lower), x, zeros_like(b, x))


def in_triangle(b: Builder, x: Value, lower: bool, strict: bool = False) -> Value:
    """i1: where an element lies in the lower (upper) triangle."""
    rank = tensor_type(x).rank
    row, column = iota_like(b, x, rank - 2, I64), iota_like(b, x, rank - 1, I64)
    predicate = ("gt" if lower else "lt") if strict else ("ge" if lower else "le")
    return b.prim.cmp(row, column, predicate=predicate)


def lower_half(b: Builder, x: Value) -> Value:
    """Phi: the lower triangle with the diagonal halved."""
    strict = in_triangle(b, x, True, strict=True)
    halved = b.prim.select(strict, x, b.prim.mul(x, full_like(b, x, 0.5)))
    return b.prim.select(in_triangle(b, x, True), halved, zeros_like(b, x))


@reverse_rule("prim.cholesky", masks=True)
def cholesky(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """S = L^-T Phi(L^T tril(g)) L^-1; the gradient is Phi(S + S^T), since only the lower triangle is read
    (I. Murray, Differentiation of the Cholesky decomposition, 2016)."""
    b, factor = context.builder, op.results[0]
    inner = lower_half(b, matrix_product(b, transpose(b, factor), triangle(b, g, lower=True)))
    left = b.prim.triangular_solve(factor, inner, lower=True, transpose=True)
    # left L^-1 = (L^-T left^T)^T
    s = transpose(b, b.prim.triangular_solve(factor, transpose(b, left), lower=True, transpose=True))
    return lower_half(b, b.prim.add(s, transpose(b, s)))


@forward_rule("prim.cholesky")
def cholesky_tangent(context: ForwardContext, op: Any, t: Value) -> Tangents:
    """L Phi(L^-1 T L^-T) with T symmetric from the lower triangle of t."""
    b, factor = context.builder, op.results[0]
    lower = lower_half(b, t)
    symmetric = b.prim.add(lower, transpose(b, lower))
    half = b.prim.triangular_solve(factor, symmetric, lower=True)
    whole = transpose(b, b.prim.triangular_solve(factor, transpose(b, half), lower=True))
    return matrix_product(b, factor, lower_half(b, whole))


@reverse_rule("prim.triangular_solve")
def triangular_solve(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """With op(a) x = b: db = op(a)^-T g; da = -db x^T (its transpose where op transposes), the triangle of it."""
    b, (a, _), x = context.builder, op.operands, op.results[0]
    db = b.prim.triangular_solve(a, g, lower=op.lower, transpose=not op.transpose)

    def da() -> Any:
        left, right = (x, db) if op.transpose else (db, x)
        return context.cut(triangle(b, b.prim.neg(matrix_product(b, left, transpose(b, right))), op.lower))
    return da, db


@forward_rule("prim.triangular_solve")
def triangular_solve_tangent(context: ForwardContext, op: Any, da: Value | None, db: Value | None) -> Tangents:
    """op(a)^-1 (db - op(da) x)."""
    b, (a, _), x = context.builder, op.operands, op.results[0]
    right = db
    if da is not None:
        half = triangle(b, da, op.lower)
        moved = matrix_product(b, transpose(b, half) if op.transpose else half, x)
        right = b.prim.neg(moved) if db is None else b.prim.sub(db, moved)
    return b.prim.triangular_solve(a, right, lower=op.lower, transpose=op.transpose)
