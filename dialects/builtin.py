"""`builtin`: the module, and the cast between types that no dialect knows how to convert."""

from __future__ import annotations

from gradopt.ir.attribute_kinds import STRING
from gradopt.ir.declare import (
    GRAPH_REGION,
    ISOLATED,
    PURE,
    SYMBOL,
    SYMBOL_TABLE,
    InvalidOperation,
    attribute,
    region,
    variadic,
    variadic_result,
)
from gradopt.ir.dialect import Dialect, declared_operations
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.symbols import VISIBILITY


class ModuleOp(Operation):
    """A list of operations with symbols: what a file holds. `external_resources`: what tools outside keep in the file."""

    __slots__ = ("external_resources",)
    name = "builtin.module"
    sym_name = attribute(STRING, optional=True)
    sym_visibility = attribute(VISIBILITY, optional=True)
    body = region()
    traits = frozenset({SYMBOL_TABLE, SYMBOL, ISOLATED, GRAPH_REGION})

    @classmethod
    def empty(cls) -> ModuleOp:
        """A module without operations."""
        return cls(regions=[Region([Block()])])

    def verify(self) -> None:
        for name in self.attributes:
            if "." not in name:
                raise InvalidOperation(f"can only contain attributes with dialect-prefixed names, found: '{name}'")


class UnrealizedConversionCastOp(Operation):
    """Its operands seen as other types; must vanish before anything runs."""

    __slots__ = ()
    name = "builtin.unrealized_conversion_cast"
    inputs = variadic()
    outputs = variadic_result()
    traits = frozenset({PURE})


DIALECT = Dialect("builtin", declared_operations(globals()), __doc__ or "")
