"""Products with a vector, outer products, and a few long inner products, as multiplications and sums: loops that fuse with their
neighbours.

A matrix times a vector reads each element of the matrix once, so that what surrounds it (the elements' own computation, the
adjoint's outer product, the same matrix times another vector) costs less in the same pass over memory than any routine saves.
A product of two narrow matrices over many steps (a Gram matrix) gains by the sum alone, which is cut into chunks of steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, product
from gradopt.ir.types import FloatType, TensorType, tensor
from gradopt.ir.values import Value
from gradopt.lowering.fuse.products import Dims, dot_groups, dot_sizes, operand_layout
from gradopt.lowering.fuse.roots import view_base

__all__ = ["make_sum"]

MOST_SUMS = 256  # inner products that are added up side by side
FEWEST_COLUMNS = 8  # that are worth a vector
MANY_STEPS = 1 << 14  # below, one thread multiplies them sooner


def make_sum(op: Operation, dims: Dims) -> bool:
    """Replaces a product of floats by a sum of products where one of rows, columns and inner steps is 1, or where the inner steps are
    many and the sums few; False for any other.

    Sizes must be known. The sum walks the larger operand as it lies in memory."""
    if op.name != "prim.dot":
        return False
    type = op.results[0].type
    assert isinstance(type, TensorType)
    batch, m, n, k = dot_sizes(op, dims)
    sizes = [*dims(op.operands[0]), *dims(op.operands[1])]
    if not isinstance(type.element, FloatType) or not all(isinstance(size, int) and size for size in sizes):
        return False
    is_long = batch == 1 and m * n <= MOST_SUMS and n >= FEWEST_COLUMNS and k >= MANY_STEPS  # type: ignore[operator]
    if 1 not in (m, n, k) and not is_long:
        return False
    (both, rows, inner), (right_both, right_inner, columns) = dot_groups(op)
    if k == 1:
        inner, right_inner = [], []
    left, right = op.operands
    outer = [dims(left)[axis] for axis in (*both, *rows)] + [dims(right)[axis] for axis in columns]
    steps = [dims(left)[axis] for axis in inner]
    inner_first = batch == 1 and ((1 not in (m, n, k) and is_long) or _walks_inner_first(op, n == 1, dims))
    first, last = len(steps) if inner_first else 0, 0 if inner_first else len(outer)
    whole = [*steps, *outer] if inner_first else [*outer, *steps]
    # where the axes of each group stand in the product of elements
    place_inner = range(last, last + len(steps))
    place_both = range(first, first + len(both))
    place_rows = range(place_both.stop, place_both.stop + len(rows))
    place_columns = range(place_rows.stop, place_rows.stop + len(columns))
    b = Builder(before=op, location=op.location)
    factors = [
        _spread(b, left, dims(left), [*both, *rows, *inner], [*place_both, *place_rows, *place_inner], whole),
        _spread(b, right, dims(right), [*right_both, *columns, *right_inner], [*place_both, *place_columns, *place_inner], whole)]
    result = b.prim.mul(*factors)
    if steps:
        result = b.prim.reduce(result, kind="sum", axes=list(place_inner))
    op.replace_with([result])
    return True


def _walks_inner_first(op: Operation, left_is_matrix: bool, dims: Dims) -> bool:
    """True where the matrix of a product lies in memory with the inner steps outside its rows (or columns)."""
    side = 0 if left_is_matrix else 1
    value, groups = op.operands[side], dot_groups(op)[side]
    base = view_base(value)
    layout = operand_layout(value, groups, dims, lambda v: v is base)
    if layout is None:
        return False
    inner, own = (layout.strides[1], layout.strides[0]) if left_is_matrix else layout.strides
    return isinstance(inner, int) and isinstance(own, int) and inner > own


def _spread(b: Builder, value: Value, sizes: Sequence[Size], axes: Sequence[int], places: Sequence[int], whole: Sequence[Size]) -> Value:
    """`value` in the shape `whole`: its axis axes[i] stands at places[i], its other axes are of size 1 and vanish."""
    element = value.type.element  # type: ignore[attr-defined]
    ordered = [axis for _, axis in sorted(zip(places, axes))]
    kept = [sizes[axis] for axis in ordered]
    if len(ordered) < len(sizes):
        dropped = [axis for axis in range(len(sizes)) if axis not in ordered]
        assert product([sizes[axis] for axis in dropped]) == 1
        value = b.prim.reshape(value, result_types=[tensor([sizes[axis] for axis in range(len(sizes)) if axis in ordered], element)])
        ordered = [sorted(ordered).index(axis) for axis in ordered]
    if ordered != sorted(ordered):
        value = b.prim.permute(value, axes=ordered)
    new = [axis for axis in range(len(whole)) if axis not in places]
    assert kept == [whole[place] for place in sorted(places)]
    return b.prim.expand(value, axes=new, result_types=[tensor(whole, element)]) if new else value
