"""`func`: functions, calls and returns, as in MLIR."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.arrays import Array
from gradopt.dialects.control_flow import Meaning
from gradopt.ir.attribute_kinds import ANY_ATTRIBUTE, STRING, SYMBOL_REFERENCE, TYPE, UNIT
from gradopt.ir.attributes import ArrayAttr, Attribute, DictionaryAttr, StringAttr, TypeAttr
from gradopt.ir.declare import (
    ISOLATED,
    PURE,
    SYMBOL,
    SYMBOL_TABLE,
    TERMINATOR,
    InvalidOperation,
    attribute,
    region,
    variadic,
    variadic_result,
)
from gradopt.ir.dialect import Dialect, declared_operations, near_miss
from gradopt.ir.operation import Block, Operation, UnregisteredOp, new_region
from gradopt.ir.symbols import VISIBILITY, lookup_symbol, nearest_symbol_table, symbols
from gradopt.ir.types import FunctionType, Type
from gradopt.ir.values import BlockArgument


class FuncOp(Operation):
    """A function: a name, a type, and a body unless it is declared only."""

    __slots__ = ()
    name = "func.func"
    sym_name = attribute(STRING)
    function_type = attribute(TYPE)
    sym_visibility = attribute(VISIBILITY, optional=True)
    arg_attrs = attribute(ANY_ATTRIBUTE, optional=True)
    res_attrs = attribute(ANY_ATTRIBUTE, optional=True)
    no_inline = attribute(UNIT, optional=True)
    body = region()
    traits = frozenset({SYMBOL, ISOLATED})

    @property
    def is_declaration(self) -> bool:
        """True for a function without a body."""
        return not self.regions[0].blocks

    @property
    def entry(self) -> Block:
        """The entry block."""
        return self.regions[0].blocks[0]

    @property
    def arguments(self) -> list[BlockArgument]:
        """The arguments of the entry block."""
        return self.entry.arguments

    def check_dictionaries(self, what: str, found: Attribute | None, count: int) -> None:
        """Raises InvalidOperation unless there is nothing or a dictionary of dialect attributes for each argument or result."""
        if found is None:
            return
        if not isinstance(found, ArrayAttr) or not all(isinstance(element, DictionaryAttr) for element in found.elements):
            raise InvalidOperation(f"expects {what} attributes to be a list of dictionaries, found {found.text}")
        if len(found.elements) != count:
            raise InvalidOperation(f"expects {what} attribute array to have the same number of elements as the number of function "
                                   f"{what}s, got {len(found.elements)}, but expected {count}")
        names = [name for element in found.elements if isinstance(element, DictionaryAttr) for name, _ in element.entries]
        if wrong := [name for name in names if "." not in name]:
            raise InvalidOperation(f"{what}s may only have dialect attributes, found '{wrong[0]}'")

    def verify(self) -> None:
        parent = self.parent_op
        if parent is not None and not parent.has_trait(SYMBOL_TABLE) and not isinstance(parent, UnregisteredOp):
            raise InvalidOperation(f"symbol's parent must have the SymbolTable trait, found '{parent.name}'")
        type = self.function_type
        if not isinstance(type, FunctionType):
            raise InvalidOperation(f"requires attribute 'function_type' to be a function type, found {type.text}")
        self.check_dictionaries("argument", self.arg_attrs, len(type.inputs))
        self.check_dictionaries("result", self.res_attrs, len(type.results))
        if self.is_declaration:
            if self.sym_visibility not in ("private", "nested"):
                raise InvalidOperation("symbol declaration cannot have public visibility")
            return
        found = tuple(argument.type for argument in self.arguments)
        if found != type.inputs:
            for index, (a, b) in enumerate(zip(found, type.inputs)):
                if a is not b:
                    raise InvalidOperation(f"type of entry block argument #{index}({a.text}) must match the type of the corresponding "
                                           f"argument in function signature({b.text})")
            raise InvalidOperation("entry block must have " f"{len(type.inputs)} arguments to match function signature")


class ReturnOp(Operation):
    """Ends a function with its results."""

    __slots__ = ()
    name = "func.return"
    values = variadic()
    traits = frozenset({TERMINATOR, PURE})

    def verify(self) -> None:
        function = self.parent_op
        if function is None or function.name != "func.func":
            raise InvalidOperation("expects parent op 'func.func'")
        held = function.properties.get("function_type")
        type = held.type if isinstance(held, TypeAttr) else None
        found = tuple(argument.type for argument in function.regions[0].blocks[0].arguments)
        if not isinstance(type, FunctionType) or found != type.inputs:
            return  # the function's own error
        results = type.results
        if len(results) != len(self._operands):
            name = function.properties.get("sym_name")
            label = name.value if isinstance(name, StringAttr) else ""
            raise InvalidOperation(f"has {len(self._operands)} operands, but enclosing function (@{label}) returns {len(results)}")
        for index, (operand, expected) in enumerate(zip(self._operands, results)):
            if operand.type is not expected:
                raise InvalidOperation(f"type of return operand {index} ({operand.type.text}) doesn't match function result type "
                                       f"({expected.text})")


class CallOp(Operation):
    """Calls a function of the module."""

    __slots__ = ()
    name = "func.call"
    callee = attribute(SYMBOL_REFERENCE)
    no_inline = attribute(UNIT, optional=True)
    values = variadic()
    outputs = variadic_result()
    traits = frozenset({PURE})

    def verify(self) -> None:
        if nearest_symbol_table(self) is None:
            return
        function = lookup_symbol(self, self.callee)
        if function is None:
            table = nearest_symbol_table(self)
            known = symbols(table) if table is not None else {}
            raise InvalidOperation(f"'{self.callee.root}' does not reference a valid function{near_miss(self.callee.root, known)}")
        type = function.properties.get("function_type")
        if not isinstance(type, TypeAttr) or not isinstance(type.type, FunctionType):
            raise InvalidOperation(f"'{self.callee.root}' does not reference a valid function")
        check_signature("operand", [value.type for value in self._operands], type.type.inputs)
        check_signature("result", list(self.result_types), type.type.results)

    def evaluate(self, *values: Array) -> Meaning:
        return tuple((yield self.callee, values))


def check_signature(what: str, found: Sequence[Type], expected: Sequence[Type]) -> None:
    """Raises InvalidOperation unless the types are identical."""
    if len(found) != len(expected):
        raise InvalidOperation(f"incorrect number of {what}s for callee")
    for index, (a, b) in enumerate(zip(found, expected)):
        if a is not b:
            raise InvalidOperation(f"{what} type mismatch: expected {what} type {b.text}, but provided {a.text} for {what} number {index}")


def make_function(name: str, inputs: Sequence[Type], results: Sequence[Type], names: Sequence[str | None] = (),
                  private: bool = False) -> FuncOp:
    """A function with an empty body."""
    properties = {"sym_name": StringAttr(name), "function_type": TypeAttr(FunctionType(tuple(inputs), tuple(results)))}
    if private:
        properties["sym_visibility"] = StringAttr("private")
    return FuncOp(properties=properties, regions=[new_region(inputs, names)])


__all__ = ["DIALECT", "CallOp", "FuncOp", "ReturnOp", "make_function"]

DIALECT = Dialect("func", declared_operations(globals()), __doc__ or "")
