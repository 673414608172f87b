"""Convolutions whose windows do not overlap: the adjoint of a cut into patches, and its like, as a matrix product."""

from __future__ import annotations

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import multiply
from gradopt.ir.types import TensorType, tensor
from gradopt.lowering.autodiff.helpers import scalar

__all__ = ["make_product"]


def make_product(op: Operation) -> Operation:
    """The product that replaces a convolution in which each element of x makes a patch of its own, else the operation itself.

    With x spread as far as the window w[C, O, k…] is wide, and padded by k - 1 before (and as much or more after, which gives zeros),
    y[n, c, i k + a] = sum over o of x[n, o, i] w[c, o, k - 1 - a]: no two products are of the same element and window place. As a
    convolution it would be one of windows of one element for each of the places in a patch.
    """
    if op.name != "prim.conv" or not _makes_patches(op):
        return op
    x, w = op.operands
    x_type, w_type, type = x.type, w.type, op.results[0].type
    assert isinstance(x_type, TensorType) and isinstance(w_type, TensorType) and isinstance(type, TensorType)
    spatial = len(x_type.dims) - 2
    axes = list(range(2, 2 + spatial))
    b = Builder(before=op, location=op.location)
    window = b.prim.flip(w, axes=axes)
    points, sides = x_type.dims[2:], w_type.dims[2:]
    parts = [x_type.dims[0], *points, w_type.dims[0], *sides]
    dot = b.create("prim.dot", [x, window], [tensor(parts, type.element)], lhs_contract=[1], rhs_contract=[1])
    places = [axis for pair in zip(range(1, 1 + spatial), range(2 + spatial, 2 + 2 * spatial)) for axis in pair]
    patches = b.prim.permute(dot.results[0], axes=[0, 1 + spatial, *places])
    covered = [x_type.dims[0], w_type.dims[0], *(multiply(count, side) for count, side in zip(points, sides))]
    result = b.prim.reshape(patches, result_types=[tensor(covered, type.element)])
    beyond = [after - before for before, after in op.padding]  # type: ignore[attr-defined]
    if any(beyond):
        zero = scalar(b, 0.0, type.element)
        none = [0] * len(type.dims)
        result = b.prim.pad(result, zero, low=none, high=[0, 0, *beyond], interior=none)
    op.replace_with([result])
    return dot


def _makes_patches(op: Operation) -> bool:
    w = op.operands[1].type
    assert isinstance(w, TensorType)
    sides = [side for side in w.dims[2:] if isinstance(side, int)]
    return (op.groups == 1 and list(op.lhs_dilation) == sides and len(sides) == len(w.dims) - 2 and any(side != 1 for side in sides)  # type: ignore[attr-defined]
            and all(step == 1 for step in (*op.strides, *op.rhs_dilation))  # type: ignore[attr-defined]
            and all(before == side - 1 <= after for side, (before, after) in zip(sides, op.padding)))  # type: ignore[attr-defined]
