"""Patterns for products: permutes move into the product's own axes (as TVM's gradient simplifier does for matmul)."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.lowering.simplify.patterns import Outcome, pattern
from gradopt.lowering.simplify.patterns.match import defined_by
from gradopt.lowering.simplify.patterns.views import permutation


@pattern("prim.dot")
def dot_of_permuted(op: Operation, b: Builder) -> Outcome:
    """dot(permute(x), y) -> dot(x, y) with the axes renumbered, where the free axes keep their order."""
    operands = list(op._operands)
    axes = {name: list(getattr(op, name)) for name in ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract")}
    moved = False
    for position, side in enumerate(("lhs", "rhs")):
        inner = defined_by(operands[position], "prim.permute")
        if inner is None:
            continue
        source = permutation(inner)
        used = {*axes[f"{side}_batch"], *axes[f"{side}_contract"]}
        free = [source[axis] for axis in range(len(source)) if axis not in used]
        if free != sorted(free):
            continue
        operands[position] = inner._operands[0]
        for name in (f"{side}_batch", f"{side}_contract"):
            axes[name] = [source[axis] for axis in axes[name]]
        moved = True
    return b.create("prim.dot", operands, [op.results[0].type], **axes).results[0] if moved else None


@pattern("prim.permute")
def permuted_dot(op: Operation, b: Builder) -> Outcome:
    """permute(dot(x, y)) -> dot(y, x), with the batch axes in another order, where that is all that the permute does."""
    inner = defined_by(op._operands[0], "prim.dot")
    if inner is None or len(inner.results[0].users) > 1:
        return None
    batch: Sequence[int] = inner.lhs_batch  # type: ignore[attr-defined]
    count, rank = len(batch), tensor_type(inner.results[0]).rank
    left = tensor_type(inner._operands[0]).rank - count - len(inner.lhs_contract)  # type: ignore[attr-defined]
    axes = permutation(op)
    if any(axis >= count for axis in axes[:count]):
        return None
    rows, columns = list(range(count, count + left)), list(range(count + left, rank))
    sides = ("lhs", "rhs")
    if axes[count:] == columns + rows and rows and columns:
        sides = ("rhs", "lhs")
    elif axes[count:] != rows + columns:
        return None
    operands = [inner._operands[0 if side == "lhs" else 1] for side in sides]
    return b.create("prim.dot", operands, [op.results[0].type],
                    lhs_batch=[getattr(inner, f"{sides[0]}_batch")[axis] for axis in axes[:count]],
                    rhs_batch=[getattr(inner, f"{sides[1]}_batch")[axis] for axis in axes[:count]],
                    lhs_contract=getattr(inner, f"{sides[0]}_contract"),
                    rhs_contract=getattr(inner, f"{sides[1]}_contract")).results[0]


def swaps_last_axes(op: Operation | None) -> bool:
    """True for a permute that exchanges the last two axes and nothing else."""
    if op is None:
        return False
    axes = permutation(op)
    return len(axes) >= 2 and axes == [*range(len(axes) - 2), len(axes) - 1, len(axes) - 2]


@pattern("hl.matmul")
def matmul_of_transposed(op: Operation, b: Builder) -> Outcome:
    """matmul(transpose(a), b) -> matmul(a, b) {transpose_a}, and the same for b."""
    operands = list(op._operands)
    flags = [op.transpose_a, op.transpose_b]  # type: ignore[attr-defined]
    moved = False
    for position, operand in enumerate(operands):
        inner = defined_by(operand, "hl.permute_dims")
        if inner is not None and swaps_last_axes(inner):
            operands[position], flags[position], moved = inner._operands[0], not flags[position], True
    if not moved:
        return None
    return b.create("hl.matmul", operands, [op.results[0].type], transpose_a=flags[0], transpose_b=flags[1]).results[0]


@pattern("hl.permute_dims")
def transposed_matmul(op: Operation, b: Builder) -> Outcome:
    """transpose(matmul(a, b)) -> matmul(b, a) with both flags turned."""
    inner = defined_by(op._operands[0], "hl.matmul")
    if inner is None or not swaps_last_axes(op) or len(inner.results[0].users) > 1:
        return None
    x, y = inner._operands
    if tensor_type(x).rank < 2 or tensor_type(y).rank < 2:
        return None
    return b.create("hl.matmul", [y, x], [op.results[0].type], transpose_a=not inner.transpose_b,  # type: ignore[attr-defined]
                    transpose_b=not inner.transpose_a).results[0]  # type: ignore[attr-defined]
