"""The declaration of an operation: typed fields, from which parsing, printing, building, verifying and documentation follow.

    class TakeOp(Operation):
        '''Elements of `x` along an axis, by index. …'''
        name = "hl.take"
        x = operand(ANY_TENSOR)
        indices = operand(INTEGER_TENSOR)
        axis = attribute(INTEGER, optional=True)
        mode = attribute(enumeration("clip", "wrap"), default="clip")
        result = result()
        traits = frozenset({PURE})

        def infer(self) -> list[Type]: ...      # result types from operands and attributes; raises InvalidOperation
        def verify(self) -> None: ...           # what the fields cannot say; raises InvalidOperation
        def evaluate(self, x, indices): ...     # NumPy meaning: arrays in, array (or a tuple for several results) out

Fields are inherited, so a family of ops shares a base class (a class without `name`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

from gradopt.ir.attribute_kinds import AttributeKind
from gradopt.ir.attributes import (
    Attribute,
)
from gradopt.ir.operation import Operation, Region, UnregisteredOp
from gradopt.ir.types import Type
from gradopt.ir.values import OperationResult, Value

T = TypeVar("T")

# Traits
PURE = "pure"  # no effect besides its results: may be merged, moved and removed
TERMINATOR = "terminator"  # ends its block
ISOLATED = "isolated"  # its regions read no value from outside
SYMBOL = "symbol"  # carries sym_name
SYMBOL_TABLE = "symbol_table"  # its region holds symbols
COMMUTATIVE = "commutative"
CONSTANT = "constant"  # its value is its attribute
ELEMENTWISE = "elementwise"  # each result element depends on the same element of each operand only
GRAPH_REGION = "graph_region"  # its regions may refer to values defined later


class InvalidOperation(Exception):
    """An operation that breaks a rule of its declaration; `message` follows `'dialect.op' op `. `notes`: (location, text)."""

    def __init__(self, message: str, notes: Sequence[tuple[Any, str]] = ()) -> None:
        super().__init__(message)
        self.message, self.notes = message, list(notes)


class Constraint:
    """What a type must be: a name for messages and a test."""

    def __init__(self, name: str, accepts: Callable[[Type], bool]) -> None:
        self.name, self.accepts = name, accepts


ANY_TYPE = Constraint("any type", lambda type: True)


class Field:
    """Base of the fields of a declaration; `name` is the attribute that holds it."""

    name: str

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


class OperandField(Field):
    """One operand."""

    kind = "one"

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.index = -1  # position where no group before it varies

    @overload
    def __get__(self, op: None, owner: Any) -> OperandField: ...
    @overload
    def __get__(self, op: Operation, owner: Any) -> Value: ...
    def __get__(self, op: Operation | None, owner: Any) -> Any:
        if op is None:
            return self
        if self.index >= 0:
            return op._operands[self.index]
        return op._operands[op.definition.segments(op)[self.name].start]


class OptionalOperandField(Field):
    """An operand that may be absent: a Value or None."""

    kind = "optional"

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint

    @overload
    def __get__(self, op: None, owner: Any) -> OptionalOperandField: ...
    @overload
    def __get__(self, op: Operation, owner: Any) -> Value | None: ...
    def __get__(self, op: Operation | None, owner: Any) -> Any:
        if op is None:
            return self
        values = op._operands[op.definition.segments(op)[self.name]]
        return values[0] if values else None


class VariadicField(Field):
    """Any number of operands: a tuple of Values."""

    kind = "variadic"

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint

    @overload
    def __get__(self, op: None, owner: Any) -> VariadicField: ...
    @overload
    def __get__(self, op: Operation, owner: Any) -> tuple[Value, ...]: ...
    def __get__(self, op: Operation | None, owner: Any) -> Any:
        return self if op is None else op._operands[op.definition.segments(op)[self.name]]


class ResultField(Field):
    """One result."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.index = -1

    @overload
    def __get__(self, op: None, owner: Any) -> ResultField: ...
    @overload
    def __get__(self, op: Operation, owner: Any) -> OperationResult: ...
    def __get__(self, op: Operation | None, owner: Any) -> Any:
        return self if op is None else op.results[self.index]


class VariadicResultField(Field):
    """Any number of results (the last field of its kind)."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.index = -1

    @overload
    def __get__(self, op: None, owner: Any) -> VariadicResultField: ...
    @overload
    def __get__(self, op: Operation, owner: Any) -> tuple[OperationResult, ...]: ...
    def __get__(self, op: Operation | None, owner: Any) -> Any:
        return self if op is None else op.results[self.index:]


class RegionField(Field):
    """One region."""

    def __init__(self, variadic: bool = False) -> None:
        self.variadic = variadic
        self.index = -1

    @overload
    def __get__(self, op: None, owner: Any) -> RegionField: ...
    @overload
    def __get__(self, op: Operation, owner: Any) -> Region: ...
    def __get__(self, op: Operation | None, owner: Any) -> Any:
        if op is None:
            return self
        return op.regions[self.index:] if self.variadic else op.regions[self.index]


class AttributeField(Field, Generic[T]):
    """An inherent attribute, read as a plain Python value."""

    def __init__(self, kind: AttributeKind[T], default: Any, optional: bool, documentation: str) -> None:
        self.kind, self.optional, self.documentation = kind, optional, documentation
        self.default: Attribute | None = None if default is None else kind.make(default)

    @overload
    def __get__(self, op: None, owner: Any) -> AttributeField[T]: ...
    @overload
    def __get__(self, op: Operation, owner: Any) -> T: ...
    def __get__(self, op: Operation | None, owner: Any) -> Any:
        if op is None:
            return self
        found = op.properties.get(self.name, self.default)
        return None if found is None else self.kind.read(found)


def operand(constraint: Constraint = ANY_TYPE) -> OperandField:
    """Declares one operand."""
    return OperandField(constraint)


def optional_operand(constraint: Constraint = ANY_TYPE) -> OptionalOperandField:
    """Declares an operand that may be absent."""
    return OptionalOperandField(constraint)


def variadic(constraint: Constraint = ANY_TYPE) -> VariadicField:
    """Declares any number of operands."""
    return VariadicField(constraint)


def result(constraint: Constraint = ANY_TYPE) -> ResultField:
    """Declares one result."""
    return ResultField(constraint)


def variadic_result(constraint: Constraint = ANY_TYPE) -> VariadicResultField:
    """Declares any number of results."""
    return VariadicResultField(constraint)


def region() -> RegionField:
    """Declares one region."""
    return RegionField()


def variadic_region() -> RegionField:
    """Declares any number of regions (the last ones)."""
    return RegionField(variadic=True)


def attribute(kind: AttributeKind[T], default: Any = None, *, optional: bool = False,
              documentation: str = "") -> AttributeField[T]:
    """Declares an inherent attribute: required unless it has a default or is optional (then it reads as None when absent)."""
    return AttributeField(kind, default, optional, documentation)


class Definition:
    """All fields of an operation class in order, and what follows from them."""

    def __init__(self, cls: type[Operation]) -> None:
        fields: dict[str, Field] = {}
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                if isinstance(value, Field):
                    fields[name] = value  # one that is declared again keeps its place
                elif name in fields:
                    del fields[name]
        # a field object shared by several classes may stand at different places: each class gets its own copy
        for name, value in fields.items():
            if name not in vars(cls):
                copy = _copy_field(value)
                fields[name] = copy
                setattr(cls, name, copy)
        self.cls = cls
        self.operands = [f for f in fields.values() if isinstance(f, (OperandField, OptionalOperandField, VariadicField))]
        self.results = [f for f in fields.values() if isinstance(f, (ResultField, VariadicResultField))]
        self.regions = [f for f in fields.values() if isinstance(f, RegionField)]
        self.attributes: dict[str, AttributeField[Any]] = {
            f.name: f for f in fields.values() if isinstance(f, AttributeField)}
        self.defaults: dict[str, Attribute] = {
            f.name: f.default for f in self.attributes.values() if f.default is not None}
        self.traits: frozenset[str] = frozenset(getattr(cls, "traits", ()))
        self.is_flat = all(isinstance(f, OperandField) for f in self.operands)
        self.fixed_results = all(isinstance(f, ResultField) for f in self.results)
        for index, field in enumerate(self.operands):
            if isinstance(field, OperandField) and self.is_flat:
                field.index = index
        for index, result_field in enumerate(self.results):
            result_field.index = index
        for index, region_field in enumerate(self.regions):
            region_field.index = index
        self.can_infer = hasattr(cls, "infer")
        self.has_verify = hasattr(cls, "verify")

    @property
    def documentation(self) -> str:
        """The class's docstring, unindented."""
        return inspect.cleandoc(self.cls.__doc__ or "")

    def segments(self, op: Operation) -> dict[str, slice]:
        """Which operands belong to which field. Raises InvalidOperation where their number does not fit.

        An op with several groups of varying length has a method `segment_lengths(self) -> dict[str, int]` for all but one of
        them (a group `sizes` is found by itself: one operand for each unknown size of the result types).
        """
        lengths = self._group_lengths(op)
        slices, start = {}, 0
        for field in self.operands:
            length = lengths[field.name]
            slices[field.name] = slice(start, start + length)
            start += length
        return slices

    def _group_lengths(self, op: Operation) -> dict[str, int]:
        count = len(op._operands)
        lengths = {field.name: 1 for field in self.operands if isinstance(field, OperandField)}
        groups = [field for field in self.operands if not isinstance(field, OperandField)]
        known = op.segment_lengths() if hasattr(op, "segment_lengths") else {}
        for field in groups:
            if field.name in known:
                lengths[field.name] = known[field.name]
            elif field.name == "sizes" and len(groups) > 1:
                lengths[field.name] = unknown_size_count(op)
        rest = [field for field in groups if field.name not in lengths]
        spare = count - sum(lengths.values())
        for field in rest:
            if isinstance(field, VariadicField):
                lengths[field.name] = max(spare, 0)
            else:
                lengths[field.name] = 1 if spare > 0 else 0
            spare -= lengths[field.name]
        if spare or any(length < 0 for length in lengths.values()):
            raise InvalidOperation(f"takes {self.operand_count_text()}, found {count}")
        return lengths

    def operand_count_text(self) -> str:
        """`2 operands (x, y)`, `1 to 3 operands (x, gamma?, beta?)`, `at least 1 operand (x, sizes…)`."""
        low = sum(1 for field in self.operands if isinstance(field, OperandField))
        optional = sum(1 for field in self.operands if isinstance(field, OptionalOperandField))
        marks = {"one": "", "optional": "?", "variadic": "…"}
        names = ", ".join(field.name + marks[field.kind] for field in self.operands)
        if any(isinstance(field, VariadicField) for field in self.operands):
            text = f"at least {low} operand{'' if low == 1 else 's'}"
        elif optional:
            text = f"{low} to {low + optional} operands"
        else:
            text = f"{low or 'no'} operand{'' if low == 1 else 's'}"
        return f"{text} ({names})" if names else text


def unknown_size_count(op: Operation) -> int:
    """How many sizes of the result types are known only at run time."""
    from gradopt.ir.sizes import UNKNOWN
    from gradopt.ir.types import TensorType

    return sum(sum(1 for size in result.type.dims if size is UNKNOWN)
               for result in op.results if isinstance(result.type, TensorType))


def _define(cls: type[Operation]) -> None:
    cls.definition = Definition(cls)


def _copy_field(field: Field) -> Field:
    copy = object.__new__(type(field))
    copy.__dict__.update(field.__dict__)
    return copy


Operation._define = _define
_define(UnregisteredOp)
