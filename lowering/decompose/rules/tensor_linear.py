"""Decompositions of `hl` linear algebra: everything becomes `prim.dot` on axes, read in place."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.constraints import check_axes, tensor_type
from gradopt.dialects.hl.linear import parse_equation
from gradopt.ir.builder import Builder
from gradopt.ir.values import Value
from gradopt.lowering.building import Extent, broadcast_to, extents_of, full_like, iota_like, reduce_sum
from gradopt.lowering.decompose.registry import decomposition


@decomposition("hl.matmul")
def matmul(b: Builder, op: Any) -> Value:
    """One dot over the inner axis; batch axes that both operands have are batch axes of the dot (stretched where they broadcast)."""
    left, right = op.a, op.b
    left_rank, right_rank = tensor_type(left).rank, tensor_type(right).rank
    left_batch, right_batch = max(left_rank - 2, 0), max(right_rank - 2, 0)
    if left_batch and right_batch:
        left, right, batch = _shared_batch(b, left, right)
        left_rank, right_rank = tensor_type(left).rank, tensor_type(right).rank
        axes = list(range(batch))
        return b.prim.dot(left, right, lhs_batch=axes, rhs_batch=axes,  # type: ignore[no-any-return]
                          lhs_contract=[left_rank - (2 if op.transpose_a else 1)],
                          rhs_contract=[right_rank - (1 if op.transpose_b else 2)])
    inner_left = left_rank - (2 if op.transpose_a and left_rank > 1 else 1)
    inner_right = 0 if right_rank == 1 else right_rank - (1 if op.transpose_b else 2)
    product = b.prim.dot(left, right, lhs_contract=[inner_left], rhs_contract=[inner_right])
    if right_batch and left_rank > 1:  # the dot gives rows, batch…, columns
        rank = right_batch + 2
        return b.prim.permute(product, axes=[*range(1, rank - 1), 0, rank - 1])  # type: ignore[no-any-return]
    return product  # type: ignore[no-any-return]


def _shared_batch(b: Builder, left: Value, right: Value) -> tuple[Value, Value, int]:
    """Both operands with the same batch sizes, and how many there are."""
    left_extents, right_extents = extents_of(b, left), extents_of(b, right)
    count = max(len(left_extents), len(right_extents)) - 2
    one = Extent(b, 1)
    left_batch = [one] * (count + 2 - len(left_extents)) + left_extents[:-2]
    right_batch = [one] * (count + 2 - len(right_extents)) + right_extents[:-2]
    batch = [q if p.size == 1 else p for p, q in zip(left_batch, right_batch)]
    return (broadcast_to(b, left, [*batch, *left_extents[-2:]]), broadcast_to(b, right, [*batch, *right_extents[-2:]]), count)


@decomposition("hl.dot_general")
def dot_general(b: Builder, op: Any) -> Value:
    """prim.dot on axes counted from the front."""
    left, right = tensor_type(op.lhs).rank, tensor_type(op.rhs).rank
    return b.prim.dot(op.lhs, op.rhs, lhs_batch=check_axes(op.lhs_batch, left), rhs_batch=check_axes(op.rhs_batch, right),  # type: ignore[no-any-return]
                      lhs_contract=check_axes(op.lhs_contract, left), rhs_contract=check_axes(op.rhs_contract, right))


@decomposition("hl.outer")
def outer(b: Builder, op: Any) -> Value:
    """A dot that contracts nothing."""
    flat = [value if tensor_type(value).rank == 1 else b.hl.flatten(value) for value in (op.a, op.b)]
    return b.prim.dot(*flat, lhs_contract=[], rhs_contract=[])  # type: ignore[no-any-return]


@decomposition("hl.einsum")
def einsum(b: Builder, op: Any) -> Value:
    """Diagonals of repeated labels, sums over lonely ones, then one dot an operand from left to right, and a permute."""
    labels, output = parse_equation(op.equation, len(op.operands))
    terms: list[tuple[Value, str]] = []
    for number, (value, names) in enumerate(zip(op.operands, labels)):
        value, names = _diagonal(b, value, names)
        elsewhere = output + "".join(other for position, other in enumerate(labels) if position != number)
        terms.append(_sum_labels(b, value, names, [name for name in names if name not in elsewhere]))
    value, names = terms[0]
    for number, (right, right_names) in enumerate(terms[1:], 1):
        later = output + "".join(other for _, other in terms[number + 1:])
        shared = [name for name in names if name in right_names]
        batch = [name for name in shared if name in later]
        inner = [name for name in shared if name not in later]
        value = b.prim.dot(value, right, lhs_batch=[names.index(n) for n in batch], rhs_batch=[right_names.index(n) for n in batch],
                           lhs_contract=[names.index(n) for n in inner], rhs_contract=[right_names.index(n) for n in inner])
        names = "".join([*batch, *(n for n in names if n not in shared), *(n for n in right_names if n not in shared)])
        value, names = _sum_labels(b, value, names, [name for name in names if name not in later])
    order = [names.index(name) for name in output]
    return value if order == sorted(order) else b.prim.permute(value, axes=order)  # type: ignore[no-any-return]


def _sum_labels(b: Builder, value: Value, names: str, gone: list[str]) -> tuple[Value, str]:
    if not gone:
        return value, names
    reduced = reduce_sum(b, value, [names.index(name) for name in gone])
    return reduced, "".join(name for name in names if name not in gone)


def _diagonal(b: Builder, value: Value, names: str) -> tuple[Value, str]:
    """A label that stands twice: everything off the diagonal is 0, and one of the two axes is summed."""
    position = 0
    while position < len(names):
        first = names.index(names[position])
        if first == position:
            position += 1
            continue
        on = b.prim.cmp(iota_like(b, value, first), iota_like(b, value, position), predicate="eq")
        value = reduce_sum(b, b.prim.select(on, value, full_like(b, value, 0)), [position])
        names = names[:position] + names[position + 1:]
    return value, names


@decomposition("hl.cholesky")
def cholesky(b: Builder, op: Any) -> Value:
    """prim.cholesky."""
    return b.prim.cholesky(op.a)  # type: ignore[no-any-return]


@decomposition("hl.triangular_solve")
def triangular_solve(b: Builder, op: Any) -> Value:
    """prim.triangular_solve."""
    return b.prim.triangular_solve(op.a, op.b, lower=op.lower, transpose=op.transpose)  # type: ignore[no-any-return]


