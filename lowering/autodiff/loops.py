"""Building loops from Python functions that build their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.cloning import inline_block
from gradopt.ir.locations import AnyLocation
from gradopt.ir.operation import Operation, Region, new_region
from gradopt.ir.types import I64, Type, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.helpers import match_type, scalar

__all__ = ["build_for", "build_region", "build_scan", "for_to_while", "read_row", "row_type", "write_row"]

Body = Callable[[Builder, Sequence[Value], Sequence[Value], Sequence[Value]], tuple[Sequence[Value], Sequence[Value]]]


def row_type(value: Value) -> Type:
    """The type of one row of a value."""
    type = tensor_type(value)
    return tensor(type.dims[1:], type.element)


def build_region(types: Sequence[Type], build: Callable[[Builder, Sequence[Value]], Sequence[Value]], location: AnyLocation,
                 terminator: str = "prim.yield") -> Region:
    """A region of one block: `build(builder, arguments)` makes its operations and returns what it yields."""
    region = new_region(types)
    builder = Builder(region.block, location=location)
    builder.create(terminator, build(builder, list(region.block.arguments)))
    return region


def build_scan(b: Builder, length: int, init: Sequence[Value], consts: Sequence[Value], xs: Sequence[Value], body: Body,
               reverse: bool = False) -> Operation:
    """A prim.scan; `body(builder, carries, consts, rows)` returns (new carries, ys)."""
    def build(inner: Builder, arguments: Sequence[Value]) -> Sequence[Value]:
        last = len(init) + len(consts)
        carries, ys = body(inner, arguments[:len(init)], arguments[len(init):last], arguments[last:])
        return [*carries, *ys]

    types = [*(value.type for value in (*init, *consts)), *(row_type(value) for value in xs)]
    region = build_region(types, build, b.location)
    return b.create("prim.scan", [*init, *consts, *xs], regions=[region], length=length,
                    num_carry=len(init), num_xs=len(xs), reverse=reverse)


def write_row(b: Builder, buffer: Value, row: Value, index: Value) -> Value:
    """`buffer` with row `index` (tensor<i64>, valid) replaced. A scatter, which in a loop writes that row only."""
    return b.prim.scatter(buffer, index, row, axis=0, kind="set", mode="fast")


def read_row(b: Builder, buffer: Value, index: Value) -> Value:
    """Row `index` (tensor<i64>, valid) of a buffer."""
    return b.prim.gather(buffer, index, axis=0, mode="fast")


def build_for(b: Builder, dialect: str, lower: Value, upper: Value, init: Sequence[Value], consts: Sequence[Value],
              body: Callable[[Builder, Value, Sequence[Value], Sequence[Value]], Sequence[Value]],
              max_trip_count: int | None = None) -> Sequence[Value]:
    """hl.for, or in prim the prim.while that it stands for; `body(builder, i, carries, consts)` returns the new carries."""
    def build(inner: Builder, arguments: Sequence[Value]) -> Sequence[Value]:
        carries, fixed = arguments[1:1 + len(init)], arguments[1 + len(init):]
        new = body(inner, arguments[0], carries, fixed)
        return [match_type(inner, value, old.type) for value, old in zip(new, carries)]

    types = [tensor((), I64), *(value.type for value in (*init, *consts))]
    region = build_region(types, build, b.location, f"{dialect}.yield")
    if dialect == "hl":
        return b.create("hl.for", [lower, upper, *init, *consts], regions=[region], num_carry=len(init),
                        max_trip_count=max_trip_count).results
    return for_to_while(b, lower, upper, init, consts, region, max_trip_count)


def for_to_while(b: Builder, lower: Value, upper: Value, init: Sequence[Value], consts: Sequence[Value], body: Region,
                 max_trip_count: int | None) -> Sequence[Value]:
    """A `for` as prim.while over (i, carries…): while i < upper."""
    num_carry = len(init)

    def test(inner: Builder, arguments: Sequence[Value]) -> Sequence[Value]:
        return [inner.prim.cmp(arguments[0], arguments[1 + num_carry], predicate="lt")]

    def step(inner: Builder, arguments: Sequence[Value]) -> Sequence[Value]:
        carries, fixed = arguments[1:1 + num_carry], arguments[2 + num_carry:]
        values = inline_block(body.block, [arguments[0], *carries, *fixed], inner)
        return [inner.prim.add(arguments[0], scalar(inner, 1, I64)), *values]

    operands = [lower, *init, upper, *consts]
    types = [value.type for value in operands]
    regions = [build_region(types, test, b.location), build_region(types, step, b.location)]
    loop = b.create("prim.while", operands, regions=regions, num_carry=1 + num_carry, max_trip_count=max_trip_count)
    return loop.results[1:]
