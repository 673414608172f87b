"""Matrix products: how their operands lie in memory, so that the library reads transposes and slices in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from gradopt.dialects.prim.linear import dot_axes
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, multiply, named_size, product, subtract
from gradopt.ir.types import FloatType, TensorType, tensor
from gradopt.ir.values import Value
from gradopt.lowering.fuse.expression import Graph, Load
from gradopt.lowering.fuse.index import split_linear
from gradopt.lowering.fuse.reading import Reader
from gradopt.lowering.fuse.roots import storage_base, view_base

__all__ = ["Operand", "batch_loops", "cut_by_columns", "dot_groups", "dot_sizes", "is_library_product", "make_readable", "operand_layout",
           "strided_operands"]

Dims = Callable[[Value], Sequence[Size]]

MOST_FEW_ROWS = 32
COLUMNS_A_ROW = 8
WORTH_CUTTING = 1 << 20  # products, below which one thread is soon done


class Operand:
    """A matrix operand: the stored value, its first element, the strides of (rows, columns), and one stride a batch axis."""

    def __init__(self, value: Value, offset: Size, strides: tuple[Size, Size], batch: tuple[Size, ...]) -> None:
        self.value, self.offset, self.strides, self.batch = value, offset, strides, batch


def is_library_product(op: Operation) -> bool:
    """True for a dot in f32 or f64."""
    if op.name != "prim.dot":
        return False
    type = op.results[0].type
    return isinstance(type, TensorType) and isinstance(type.element, FloatType) and type.element.width >= 32


def dot_groups(op: Operation) -> tuple[list[list[int]], list[list[int]]]:
    """The axes of (batch, free, contract) for lhs and (batch, contract, free) for rhs."""
    lhs, rhs = op.operands[0].type, op.operands[1].type
    assert isinstance(lhs, TensorType) and isinstance(rhs, TensorType)
    lhs_batch, rhs_batch, lhs_contract, rhs_contract, lhs_free, rhs_free = dot_axes(op, lhs, rhs)
    return [lhs_batch, lhs_free, lhs_contract], [rhs_batch, rhs_contract, rhs_free]


def dot_sizes(op: Operation, dims: Dims) -> tuple[Size, Size, Size, Size]:
    """(batch, M, N, K)."""
    (batch, rows, inner), (_, _, columns) = dot_groups(op)
    left, right = dims(op.operands[0]), dims(op.operands[1])
    return (product([left[a] for a in batch]), product([left[a] for a in rows]), product([right[a] for a in columns]),
            product([left[a] for a in inner]))


def operand_layout(value: Value, groups: Sequence[Sequence[int]], dims: Dims, stored: Callable[[Value], bool]) -> Operand | None:
    """How a product reads `value` in place; None where it must be stored by itself first."""
    graph = Graph()
    reader = Reader(graph, dims, stored)
    sizes = dims(value)
    names = [f"d{axis}" for axis in range(len(sizes))]
    reader.enter(dict(zip(names, sizes)))
    node = reader.read(value, [0 if size == 1 else named_size(name) for name, size in zip(names, sizes)])
    if not isinstance(node, Load) or node.guard is not None or graph.atoms:
        return None
    split = split_linear(node.position, names)
    if split is None:
        return None
    coefficients, offset = split
    batch = tuple(coefficients[names[axis]] for axis in groups[0])
    strides: list[Size] = []
    for group in groups[1:]:
        wide = [axis for axis in group if sizes[axis] != 1]
        for axis, following in pairwise(wide):
            if subtract(coefficients[names[axis]], multiply(coefficients[names[following]], sizes[following])) != 0:
                return None
        strides.append(coefficients[names[wide[-1]]] if wide else 0)
    rows, columns = (product([sizes[axis] for axis in group]) for group in groups[1:])
    row_stride, column_stride = strides
    if columns == 1 and rows != 1 and row_stride != 1:
        column_stride = 1 if row_stride != 0 else column_stride
    if rows == 1:
        row_stride = columns if column_stride == 1 else 1
    if columns == 1 and column_stride == 0:
        column_stride = 1 if row_stride != 1 else rows
    if 1 not in (row_stride, column_stride) or 0 in (row_stride, column_stride):
        return None
    # a leading dimension smaller than a row would make rows overlap (an expanded operand)
    lead, extent = (row_stride, columns) if column_stride == 1 else (column_stride, rows)
    if isinstance(lead, int) and isinstance(extent, int) and lead < extent:
        return None
    return Operand(node.value, offset, (row_stride, column_stride), batch)


def batch_loops(sizes: Sequence[Size], left: Operand, right: Operand) -> tuple[list[Size], list[Size], list[Size]]:
    """(sizes, strides of the left, strides of the right) of the batch axes, neighbours joined where both operands walk them as one."""
    loops: list[tuple[Size, Size, Size]] = []
    for size, a, b in zip(sizes, left.batch, right.batch):
        if size == 1:
            continue
        if loops:
            outer, outer_a, outer_b = loops[-1]
            if subtract(outer_a, multiply(a, size)) == 0 and subtract(outer_b, multiply(b, size)) == 0:
                loops[-1] = (multiply(outer, size), a, b)
                continue
        loops.append((size, a, b))
    return [loop[0] for loop in loops], [loop[1] for loop in loops], [loop[2] for loop in loops]


def cut_by_columns(op: Operation, dims: Dims) -> Operation:
    """The product itself, or for one of few rows and many columns that of the transposed operands, which replaces it: A B = (B^T A^T)^T.

    Products are cut into chunks of rows, each of which reads all of B; here B is the large operand, and is read once by all
    chunks together."""
    if not is_library_product(op):
        return op
    batch, m, n, k = dot_sizes(op, dims)
    if batch != 1 or not isinstance(m, int) or not isinstance(n, int) or not isinstance(k, int):
        return op
    if not 1 < m <= MOST_FEW_ROWS or n < COLUMNS_A_ROW * m or m * n * k < WORTH_CUTTING:
        return op
    (left_batch, left_rows, left_inner), (right_batch, right_inner, _) = dot_groups(op)
    left, right = op.operands
    type = op.results[0].type
    assert isinstance(type, TensorType)
    batches, rows = len(left_batch), len(left_rows)
    columns = len(type.dims) - batches - rows
    dims_of = [*type.dims[:batches], *type.dims[batches + rows:], *type.dims[batches:batches + rows]]
    builder = Builder(before=op, location=op.location)
    new = builder.create("prim.dot", [right, left], [tensor(dims_of, type.element)], lhs_batch=right_batch, rhs_batch=left_batch,
                         lhs_contract=right_inner, rhs_contract=left_inner)
    back = [*range(batches), *range(batches + columns, len(dims_of)), *range(batches, batches + columns)]
    op.replace_with([builder.prim.permute(new.results[0], axes=back)])
    return new


def make_readable(op: Operation, dims: Dims) -> Operation:
    """The product itself, or one that replaces it whose operands, once stored, are matrices: what cannot be read in place is copied in the
    order batch, rows, columns."""
    if not is_library_product(op):
        return op
    operands, groups = list(op.operands), list(dot_groups(op))
    changed = False
    for side in range(2):
        value = operands[side]
        if any(operand_layout(value, groups[side], dims, lambda v, base=base: v is base) is not None  # type: ignore[misc]
               for base in (view_base(value), storage_base(value))):
            continue
        order = [axis for group in groups[side] for axis in group]
        builder = Builder(before=op, location=op.location)
        moved = value if order == sorted(order) else builder.prim.permute(value, axes=order)
        operands[side] = builder.prim.contiguous(moved)
        position = iter(range(len(order)))
        groups[side] = [[next(position) for _ in group] for group in groups[side]]
        changed = True
    if not changed:
        return op
    (left_batch, _, left_inner), (right_batch, right_inner, _) = groups
    new = Builder(before=op, location=op.location).create(
        "prim.dot", operands, list(op.result_types), lhs_batch=left_batch, rhs_batch=right_batch, lhs_contract=left_inner,
        rhs_contract=right_inner)
    op.replace_with(new.results)
    return new


def strided_operands(operations: Sequence[Operation], dims: Dims) -> set[Value]:
    """The operands of products that can be read in place through views of what is stored."""
    direct: set[Value] = set()
    for op in operations:
        if is_library_product(op):
            for value, groups in zip(op.operands, dot_groups(op)):
                base = view_base(value)
                if base is not value and operand_layout(value, groups, dims, lambda v, base=base: v is base) is not None:  # type: ignore[misc]
                    direct.add(value)
    return direct
