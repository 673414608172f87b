"""Reading and adding along one axis by an index for each element, in `prim` ops."""

from __future__ import annotations

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.types import tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import iota_like, size_operands

__all__ = ["index_vectors", "put_along_axis", "take_along_axis"]


def index_vectors(b: Builder, index: Value, axis: int) -> Value:
    """[…, rank]: for each element of `index` (i64) its own coordinates, with the one along `axis` replaced by the element."""
    type = tensor_type(index)
    target = tensor([*type.dims, 1], type.element)
    columns = []
    for position in range(type.rank):
        column = index if position == axis else iota_like(b, index, position, type.element)
        columns.append(b.create("prim.expand", [column, *size_operands(b, index)], [target], axes=[type.rank]).results[0])
    return columns[0] if len(columns) == 1 else b.prim.concat(*columns, axis=type.rank)


def take_along_axis(b: Builder, x: Value, index: Value, axis: int) -> Value:
    """x[…, index[…, i, …], …]; every index is valid."""
    if tensor_type(x).rank == 1:
        return b.prim.gather(x, index, axis=0, mode="fast")
    return b.prim.gather_nd(x, index_vectors(b, index, axis), mode="fast")


def put_along_axis(b: Builder, x: Value, index: Value, update: Value, axis: int) -> Value:
    """`x` with each element of `update` added at its index along `axis`; every index is valid."""
    if tensor_type(x).rank == 1:
        return b.prim.scatter(x, index, update, axis=0, kind="add", mode="fast")
    return b.prim.scatter_nd(x, index_vectors(b, index, axis), update, kind="add", mode="fast")
