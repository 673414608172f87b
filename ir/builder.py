"""Building operations: defaults filled in, result types inferred, inserted at a place.

    builder = Builder(block)                    # at the end of a block; Builder(before=op) stands before an op
    y = builder.prim.add(x, x)                  # a Value; a tuple of Values for an op with several results (or none)
    z = builder.hl.reshape(x, result_types=[t])
    builder.create("prim.reduce", [x], kind="sum", axes=[0])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.ir.attributes import Attribute
from gradopt.ir.declare import InvalidOperation
from gradopt.ir.dialect import find_dialect, operation_class
from gradopt.ir.locations import UNKNOWN_LOCATION, AnyLocation
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.types import Type
from gradopt.ir.values import OperationResult, Value

__all__ = ["Builder", "attach_results", "make_operation"]


def attach_results(op: Operation, types: Sequence[Type]) -> None:
    """Gives an operation that has none its results."""
    op.results = tuple([OperationResult(op, index, type) for index, type in enumerate(types)])


def make_operation(cls: type[Operation], operands: Sequence[Value], attributes: dict[str, Any],
                   result_types: Sequence[Type] | None = None, regions: Sequence[Region] = (),
                   location: AnyLocation = UNKNOWN_LOCATION, discardable: dict[str, Attribute] | None = None) -> Operation:
    """A detached operation. Attributes are plain Python values or Attributes; None leaves one out.

    Raises InvalidOperation where the type rule does, TypeError for an attribute that the op does not declare."""
    definition = cls.definition
    properties = dict(definition.defaults)
    for name, value in attributes.items():
        field = definition.attributes.get(name)
        if field is None:
            raise TypeError(f"'{cls.name}' op has no attribute '{name}'")
        if value is not None:
            properties[name] = value if isinstance(value, Attribute) else field.kind.make(value)
    op = cls(operands, () if result_types is None else result_types, properties, discardable, regions, (), location)
    if result_types is None:
        if not definition.can_infer:
            if definition.results:
                raise InvalidOperation(f"'{cls.name}' op does not follow from its operands: result types are needed")
        else:
            attach_results(op, op.infer())  # type: ignore[attr-defined]
    return op


class DialectBuilder:
    """`builder.<dialect>`: one method an operation."""

    __slots__ = ("_builder", "_name")

    def __init__(self, builder: Builder, name: str) -> None:
        self._builder, self._name = builder, name

    def __getattr__(self, name: str) -> Any:
        cls = operation_class(f"{self._name}.{name.rstrip('_')}")
        if cls is None:
            raise AttributeError(f"dialect '{self._name}' has no operation '{name.rstrip('_')}'")
        builder = self._builder

        def build(*operands: Value, result_types: Sequence[Type] | None = None, regions: Sequence[Region] = (),
                  **attributes: Any) -> Any:
            op = make_operation(cls, operands, attributes, result_types, regions, builder.location)
            builder.insert(op)
            return op.results[0] if len(op.results) == 1 else op.results

        return build


class Builder:
    """Inserts operations at the end of `block`, or before the operation `before`. New ops get `location`."""

    def __init__(self, block: Block | None = None, before: Operation | None = None,
                 location: AnyLocation = UNKNOWN_LOCATION) -> None:
        if block is None:
            assert before is not None and before.parent is not None
            block = before.parent
        self.block: Block = block
        self.before = before
        self.location = location

    def insert(self, op: Operation) -> Operation:
        """Puts a detached operation at the builder's place."""
        if self.before is None:
            return self.block.append(op)
        return self.block.insert_before(self.before, op)

    def create(self, name: str | type[Operation], operands: Sequence[Value] = (),
               result_types: Sequence[Type] | None = None, regions: Sequence[Region] = (), **attributes: Any) -> Operation:
        """Builds an operation by name or class and inserts it."""
        cls = operation_class(name) if isinstance(name, str) else name
        if cls is None:
            raise ValueError(f"no dialect declares the operation '{name}'")
        return self.insert(make_operation(cls, operands, attributes, result_types, regions, self.location))

    def __getattr__(self, name: str) -> DialectBuilder:
        if name.startswith("_") or find_dialect(name) is None:
            raise AttributeError(name)
        dialect = DialectBuilder(self, name)
        self.__dict__[name] = dialect
        return dialect
