"""Decompositions of the control flow and the markers of `hl`, and of the adjoints of `scan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation, Region
from gradopt.ir.sizes import UNKNOWN
from gradopt.ir.types import I64, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import scalar, size_value
from gradopt.lowering.autodiff.loops import build_scan, for_to_while
from gradopt.lowering.autodiff.regions import take_region
from gradopt.lowering.autodiff.rules.loops import constant_integer
from gradopt.lowering.decompose.registry import decomposition
from gradopt.lowering.decompose.scan_adjoint import lower_scan_adjoint


def prim_regions(op: Operation) -> list[Region]:
    """The op's regions, ending in prim.yield. They are taken from the op, which is replaced: a copy for each level would cost the square
    of the depth."""
    regions = []
    for region in op.regions:
        taken, _ = take_region(region, range(len(region.block.arguments)))
        last = taken.block.last
        assert last is not None
        values = last.operands
        last.erase()
        Builder(taken.block, location=op.location).create("prim.yield", values)
        regions.append(taken)
    return regions


@decomposition("hl.scan", "hl.while", "hl.if", "hl.switch")
def structured(b: Builder, op: Any) -> Sequence[Value]:
    """The same op of prim."""
    cls = f"prim.{op.name.removeprefix('hl.')}"
    attributes = dict(op.properties)
    return b.create(cls, op.operands, regions=prim_regions(op), **attributes).results


@decomposition("hl.for")
def for_(b: Builder, op: Any) -> Sequence[Value]:
    """prim.scan over the counter where both bounds are constants, else prim.while."""
    lower, upper = (constant_integer(value) for value in op.operands[:2])
    init, consts = op.operands[2:2 + op.num_carry], op.operands[2 + op.num_carry:]
    region = prim_regions(op)[0]
    if lower is None or upper is None:
        return for_to_while(b, op.operands[0], op.operands[1], init, consts, region, op.max_trip_count)
    trips = max(upper - lower, 0)

    def body(inner: Builder, carry: Sequence[Value], fixed: Sequence[Value],
             rows: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        from gradopt.ir.cloning import inline_block

        new = inline_block(region.block, [*carry, *fixed], inner)
        return [inner.prim.add(carry[0], scalar(inner, 1, I64)), *new], []

    return build_scan(b, trips, [op.operands[0], *init], consts, [], body).results[1:]


@decomposition("bwd.scan", "bwd.scan_xs")
def scan_adjoint(b: Builder, op: Any) -> Sequence[Value]:
    """One prim.scan the other way round; never an unrolled chain."""
    return lower_scan_adjoint(b, op)


@decomposition("hl.stop_gradient")
def stop_gradient(b: Builder, op: Any) -> Value:
    """prim.stop_gradient."""
    return b.prim.stop_gradient(op.operands[0])


@decomposition("hl.checkpoint_begin", "hl.checkpoint_end", "hl.contiguous_backward")
def mark(b: Builder, op: Any) -> Value:
    """Nothing: by now the marks have done their work."""
    return op.operands[0]


@decomposition("hl.contiguous")
def contiguous(b: Builder, op: Any) -> Value:
    """prim.contiguous."""
    return b.prim.contiguous(op.operands[0])


@decomposition("hl.copy")
def copy(b: Builder, op: Any) -> Value:
    """prim.copy."""
    return b.prim.copy(op.operands[0], device=op.device)


@decomposition("hl.shard")
def shard(b: Builder, op: Any) -> Sequence[Value]:
    """One slice a device; along a dynamic axis after a check that the parts are equal."""
    x, axis = op.operands[0], op.normal_axis
    target = tensor_type(op.results[0])
    size, count = target.dims[axis], len(op.devices)
    if isinstance(size, int):
        return [slice_part(b, x, axis, index * size, size) for index in range(count)]
    whole, number = size_value(b, x, axis), scalar(b, count, I64)
    rest = b.prim.rem(whole, number)
    b.create("prim.check", [b.prim.cmp(rest, scalar(b, 0, I64), predicate="eq"), whole],
             message=f"'hl.shard' op cuts a dimension into {count} parts, but its size is no multiple of that")
    part = b.prim.div(whole, number)
    row = tensor([size], I64)
    sizes = [part] if size is UNKNOWN else []
    counter = b.create("prim.iota", sizes, [row], axis=0).results[0]
    found = []
    for index in range(count):
        start = b.prim.mul(part, scalar(b, index, I64))
        spread = b.create("prim.expand", [start, *sizes], [row], axes=[0]).results[0]
        found.append(b.prim.gather(x, b.prim.add(counter, spread), axis=axis, mode="fast"))
    return found


def slice_part(b: Builder, x: Value, axis: int, begin: int, size: int) -> Value:
    """`size` elements from `begin` along an axis."""
    from gradopt.dialects.prim.shape import END

    rank = tensor_type(x).rank
    return b.prim.slice(x, begin=[begin if a == axis else 0 for a in range(rank)],
                        end=[begin + size if a == axis else END for a in range(rank)], strides=[1] * rank)


@decomposition("hl.unshard")
def unshard(b: Builder, op: Any) -> Value:
    """prim.concat."""
    return b.prim.concat(*op.operands, axis=op.axis % tensor_type(op.results[0]).rank)


@decomposition("hl.check")
def check(b: Builder, op: Any) -> Sequence[Value]:
    """prim.check."""
    b.create("prim.check", op.operands, message=op.message)
    return []
