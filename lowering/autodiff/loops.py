"""Building loops from Python functions that build their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation, new_region
from gradopt.ir.types import Type, tensor
from gradopt.ir.values import Value

__all__ = ["build_region", "build_scan", "row_type"]

Body = Callable[[Builder, Sequence[Value], Sequence[Value], Sequence[Value]], tuple[Sequence[Value], Sequence[Value]]]


def row_type(value: Value) -> Type:
    """The type of one row of a value."""
    type = tensor_type(value)
    return tensor(type.dims[1:], type.element)


def build_region(types: Sequence[Type], build: Callable[[Builder, Sequence[Value]], Sequence[Value]], location: object,
                 terminator: str = "prim.yield") -> object:
    """A region of one block: `build(builder, arguments)` makes its operations and returns what it yields."""
    region = new_region(types)
    builder = Builder(region.block, location=location)  # type: ignore[arg-type]
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
    return b.create("prim.scan", [*init, *consts, *xs], regions=[region], length=length,  # type: ignore[list-item]
                    num_carry=len(init), num_xs=len(xs), reverse=reverse)
