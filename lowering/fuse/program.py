"""Fuses a block of `prim` ops, and the blocks within it: what comes before (`prepare`), its roots, and the kernels in its place."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Block, Operation
from gradopt.ir.sizes import Size
from gradopt.ir.types import F32, FloatType, TensorType
from gradopt.ir.values import BlockArgument, Value
from gradopt.lowering.fuse.block_roots import BlockRoots
from gradopt.lowering.fuse.isolate import isolate_preserved
from gradopt.lowering.fuse.patches import make_product
from gradopt.lowering.fuse.products import cut_by_columns, make_readable
from gradopt.lowering.fuse.rewrite import rewrite_block
from gradopt.lowering.fuse.roots import is_large_constant, storage_base
from gradopt.lowering.fuse.vector_products import make_sum
from gradopt.lowering.runnable import check_operation, only_block

__all__ = ["fuse_block"]


def fuse_block(block: Block) -> None:
    """Replaces the operations of a block, and of the regions in it, by kernels. Kernels that are there stay, and preserved operations
    get kernels of their own.

    Raises GradoptError for an operation of no registered dialect and a region of several blocks."""
    pending = [block]
    while pending:
        current = pending.pop()
        isolate_preserved(current)
        for op in current.operations:
            check_operation(op)
            if op.name != "kernel.nest":
                pending += [only_block(op, region) for region in op.regions]
        prepare(current)
        rewrite_block(BlockRoots(current))


def prepare(block: Block) -> None:
    """What is returned gets memory of its own, convolutions that make patches become products, products with vectors sums, those of
    16-bit floats products in f32."""
    for op in list(block.operations):
        op = make_product(op)
        if op.name == "prim.dot":
            dot = _widen_dot(op)
            if not make_sum(dot, type_dims):
                make_readable(cut_by_columns(dot, type_dims), type_dims)
    terminator = block.last
    assert terminator is not None
    taken: set[Value] = set()
    builder = Builder(before=terminator, location=terminator.location)
    for index, operand in enumerate(terminator.operands):
        base = storage_base(operand)
        defining = base.defining_op
        if isinstance(base, BlockArgument) or base in taken or (defining is not None and is_large_constant(defining)):
            copy = builder.prim.copy(operand)
            terminator.set_operand(index, copy)
            base = copy
        taken.add(base)


def type_dims(value: Value) -> Sequence[Size]:
    """The sizes that a value's type gives."""
    type = value.type
    assert isinstance(type, TensorType)
    return type.dims


def _widen_dot(op: Operation) -> Operation:
    type = op.results[0].type
    assert isinstance(type, TensorType)
    if not isinstance(type.element, FloatType) or type.element.width >= 32:
        return op
    builder = Builder(before=op, location=op.location)
    wide = [builder.prim.cast(operand, result_types=[operand.type.with_element(F32)]) for operand in op.operands]  # type: ignore[attr-defined]
    product_op = type_of(op)(wide, [type.with_element(F32)], dict(op.properties), None, (), (), op.location)
    builder.insert(product_op)
    op.replace_with([builder.prim.cast(product_op.results[0], result_types=[type])])
    return product_op


def type_of(op: Operation) -> type[Operation]:
    """The class of an op."""
    return type(op)
