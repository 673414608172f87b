"""What the rules of StableHLO build with: operations that this project does not declare, made by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradopt.ir.attributes import Attribute, DenseArrayAttr, DenseElementsAttr, DialectAttr
from gradopt.ir.operation import Block, Region, UnregisteredOp
from gradopt.ir.types import I1, I64, FloatType, IntegerType, TensorType, Type, literal, tensor
from gradopt.ir.values import Value

__all__ = ["Unsupported", "Writer", "dialect", "i64s"]

_INT64 = IntegerType(64)


class Unsupported(Exception):
    """An operation that has no counterpart; the message follows `'prim.op' op `."""


def i64s(values: Sequence[int]) -> Attribute:
    """`array<i64: …>`."""
    return DenseArrayAttr(_INT64, tuple(values))


def dialect(body: str) -> Attribute:
    """`#stablehlo<…>` or `#stablehlo.name<…>`, from what stands behind the dialect's name."""
    return DialectAttr(f"stablehlo{body}")


class Writer:
    """Appends operations to a block. Results are tensors."""

    def __init__(self, block: Block, location: Any = None) -> None:
        self.block, self.location = block, location

    def create(self, name: str, operands: Sequence[Value], types: Sequence[Type], regions: Sequence[Region] = (),
               **properties: Any) -> tuple[Value, ...]:
        """The results of an operation; a name without a dot is StableHLO's."""
        op = UnregisteredOp(name if "." in name else f"stablehlo.{name}", operands, types,
                            {key: literal(value) for key, value in properties.items()}, {}, regions, (), self.location)
        self.block.append(op)
        return tuple(op.results)

    def one(self, name: str, operands: Sequence[Value], type: TensorType | None = None, **properties: Any) -> Value:
        """The result of an operation, by default of the first operand's type."""
        return self.create(name, operands, [operands[0].type if type is None else type], **properties)[0]

    def fill(self, type: TensorType, value: float | int | bool) -> Value:
        """A constant of one value."""
        import numpy as np
        from gradopt.dialects.arrays import to_elements

        elements = to_elements(np.full((), value), tensor((), type.element))
        return self.create("constant", [], [type], value=DenseElementsAttr(type, elements.data, True) if type.element_count
                           else DenseElementsAttr(type, b""))[0]

    def compare(self, direction: str, a: Value, b: Value) -> Value:
        """`a < b` and so on; direction is EQ, NE, LT, LE, GT or GE."""
        type: Any = a.type
        element = type.element
        kind = "FLOAT" if isinstance(element, FloatType) else "UNSIGNED" if element is I1 or element.signedness == "unsigned" else "SIGNED"
        return self.one("compare", [a, b], tensor(type.dims, I1), compare_type=dialect(f"<comparison_type {kind}>"),
                        comparison_direction=dialect(f"<comparison_direction {direction}>"))

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """x where the condition is true, y elsewhere."""
        return self.one("select", [condition, x, y], x.type)  # type: ignore[arg-type]

    def convert(self, x: Value, element: Any) -> Value:
        """x in another element type."""
        type: Any = x.type
        return x if type.element is element else self.one("convert", [x], tensor(type.dims, element))

    def reshape(self, x: Value, dims: Sequence[Any]) -> Value:
        """x in another shape."""
        type: Any = x.type
        return x if list(type.dims) == list(dims) else self.one("reshape", [x], tensor(dims, type.element))

    def index(self, value: int) -> Value:
        """A rank-0 i64."""
        return self.fill(tensor((), I64), value)

    def combiner(self, elements: Sequence[Any], body: Callable[[Writer, list[Value]], Sequence[Value]]) -> Region:
        """A region over two scalars of each element type; `body` gets the first ones, then the second ones."""
        return self.region([tensor((), element) for element in [*elements, *elements]], body)

    def region(self, types: Sequence[Any], body: Callable[[Writer, list[Value]], Sequence[Value]]) -> Region:
        """A region with these arguments that returns what `body` returns."""
        region = Region()
        block = region.add_block(Block(types))
        inner = Writer(block, self.location)
        inner.create("return", list(body(inner, list(block.arguments))), [])
        return region
