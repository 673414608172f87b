"""Batching of elementwise ops, markers, and ops along axes: the same op, its axes one further back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.prim.elementwise import BINARY, UNARY
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.loops import build_scan
from gradopt.lowering.batch.engine import BatchContext
from gradopt.lowering.batch.registry import Batched, batch_rule


def again(context: BatchContext, op: Any, operands: Sequence[Value], **changes: Any) -> Sequence[Value]:
    """The op on batches, with the result types of a batch where its own do not follow from the operands."""
    types = None if hasattr(op, "infer") else [context.type_of(type) for type in op.result_types]
    return context.builder.create(type(op), operands, types, **{**op.properties, **changes}).results


@batch_rule(*(f"prim.{name}" for name in (*UNARY, *BINARY)), "prim.cmp", "prim.select", "prim.cast", "prim.bitcast",
            "prim.shape_cast", "prim.stop_gradient", "prim.contiguous", "prim.copy", "prim.cholesky", "prim.triangular_solve")
def same(context: BatchContext, op: Any, *operands: Batched) -> Sequence[Value]:
    """The same op; an operand that is no batch is repeated."""
    return again(context, op, [context.spread(operand) for operand in operands])


@batch_rule("prim.barrier")
def barrier(context: BatchContext, op: Any, *operands: Batched) -> Sequence[Batched]:
    """The same op; what is no batch stays none."""
    results = again(context, op, [operand.value for operand in operands])
    return [Batched(value, operand.batched) for value, operand in zip(results, operands)]


@batch_rule("prim.check")
def check(context: BatchContext, op: Any, *operands: Batched) -> None:
    """The same op: it fails if any example does."""
    again(context, op, [operand.value for operand in operands])


@batch_rule("prim.dim")
def dim(context: BatchContext, op: Any, x: Batched) -> Batched:
    """The size one axis further back; it is the same for all examples."""
    return Batched(context.builder.prim.dim(x.value, axis=op.axis + 1), False)


@batch_rule("prim.random_bits")
def random_bits(context: BatchContext, op: Any, key: Batched, *sizes: Batched) -> Value:
    """One example after the other: each key has a stream of its own."""
    def body(inner: Any, carry: Any, consts: Sequence[Value], rows: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        return [], [inner.create("prim.random_bits", [rows[0], *consts], op.result_types).results[0]]

    scan = build_scan(context.builder, context.static_size(op), [], [size.value for size in sizes], [key.value], body)
    return scan.results[0]


@batch_rule("prim.reduce")
def reduce(context: BatchContext, op: Any, x: Batched) -> Sequence[Value]:
    """The axes one further back."""
    return again(context, op, [x.value], axes=shifted(op.axes))


@batch_rule("prim.arg_reduce", "prim.cumulative", "prim.sort")
def along_axis(context: BatchContext, op: Any, *operands: Batched) -> Sequence[Value]:
    """The axis one further back."""
    from gradopt.ir.types import literal

    return again(context, op, [context.spread(operand) for operand in operands], axis=literal(op.axis + 1))


def shifted(axes: Sequence[int]) -> Any:
    """Axes one further back, as an attribute."""
    from gradopt.ir.types import literal

    return literal([axis + 1 for axis in axes])
