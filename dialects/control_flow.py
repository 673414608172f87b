"""What the control-flow ops of `hl` and `prim` share: operand groups, type rules and meanings. Their regions are isolated."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from gradopt.dialects.arrays import Array
from gradopt.dialects.constraints import ANY_TENSOR, BOOL_TENSOR, INTEGER_TENSOR, SCALAR_I64, tensor_type
from gradopt.ir.attribute_kinds import BOOLEAN, INTEGER, SYMBOL_REFERENCE
from gradopt.ir.declare import (
    ISOLATED,
    PURE,
    TERMINATOR,
    InvalidOperation,
    attribute,
    operand,
    region,
    variadic,
    variadic_region,
    variadic_result,
)
from gradopt.ir.operation import Operation, Region
from gradopt.ir.sizes import Size
from gradopt.ir.types import I1, I64, TensorType, Type, compatible, tensor
from gradopt.ir.values import Value

Meaning = Generator[tuple[Any, Sequence[Array]], list[Array], tuple[Array, ...]]
"""The NumPy meaning of an op that holds regions or names a function: it yields what to run (a region, or a symbol reference) with its
arguments, is sent what that passes on, and returns the op's results. So the one who runs it needs no recursion."""


def yielded(region: Region) -> tuple[Value, ...]:
    """The operands of the region's yield. Raises InvalidOperation where there is none."""
    if len(region.blocks) != 1 or region.blocks[0].last is None or not region.blocks[0].last.has_trait(TERMINATOR):
        raise InvalidOperation("takes regions of one block that ends in a yield")
    return region.blocks[0].last.operands


def check_types(what: str, found: Sequence[Type], expected: Sequence[Type]) -> None:
    """Raises InvalidOperation unless both lists agree (by compatibility)."""
    if len(found) != len(expected):
        raise InvalidOperation(f"{what}: found {len(found)}, expected {len(expected)}")
    for index, (a, b) in enumerate(zip(found, expected)):
        if not compatible(a, b):
            raise InvalidOperation(f"{what} {index} is {a.text}, expected {b.text}")


def region_arguments(region: Region) -> list[Type]:
    """The types of the entry block's arguments."""
    return [argument.type for argument in region.blocks[0].arguments] if region.blocks else []


def types_of(values: Sequence[Value]) -> list[Type]:
    """The types of values."""
    return [value.type for value in values]


class YieldBase(Operation):
    """Passes its operands on to the operation around it."""

    __slots__ = ()
    values = variadic(ANY_TENSOR)
    traits = frozenset({TERMINATOR, PURE})


class ScanBase(Operation):
    """Runs `body` `length` times. body(carry…, consts…, x_t…) -> carry…, y_t…; the results are the last carries and all y stacked.

    The operands are the first carries, the constants, and the xs, of which step t reads row t (with `reverse` the steps go
    from the last row to the first; row t of ys always belongs to row t of xs). With `checkpoints` = k, k carries are kept for the
    derivative instead of all.
    """

    __slots__ = ()
    values = variadic(ANY_TENSOR)
    length = attribute(INTEGER)
    num_carry = attribute(INTEGER)
    num_xs = attribute(INTEGER, default=0)
    reverse = attribute(BOOLEAN, default=False)
    checkpoints = attribute(INTEGER, default=0)
    body = region()
    outputs = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE, ISOLATED})

    @property
    def init(self) -> tuple[Value, ...]:
        """The first carries."""
        return self._operands[: self.num_carry]

    @property
    def consts(self) -> tuple[Value, ...]:
        """What every step reads alike."""
        return self._operands[self.num_carry: len(self._operands) - self.num_xs]

    @property
    def xs(self) -> tuple[Value, ...]:
        """What step t reads row t of."""
        return self._operands[len(self._operands) - self.num_xs:]

    @property
    def num_ys(self) -> int:
        """How many values are stacked."""
        return len(yielded(self.body)) - self.num_carry

    def check_counts(self) -> None:
        """Raises InvalidOperation where the attributes do not fit the operands."""
        if self.num_carry < 0 or self.num_xs < 0 or self.num_carry + self.num_xs > len(self._operands):
            raise InvalidOperation(f"has {len(self._operands)} operands, expected at least num_carry + num_xs = "
                                   f"{self.num_carry + self.num_xs}")
        if self.length < 0:
            raise InvalidOperation(f"attribute 'length' is {self.length}, expected no negative value")
        if not 0 <= self.checkpoints <= max(self.length, 0):
            raise InvalidOperation(f"attribute 'checkpoints' is {self.checkpoints}, expected a value in [0, {self.length}]")

    def infer(self) -> list[Type]:
        self.check_counts()
        ys = yielded(self.body)[self.num_carry:]
        return [*types_of(self.init), *(stacked(value.type, self.length) for value in ys)]

    def verify(self) -> None:
        self.check_counts()
        rows = []
        for index, value in enumerate(self.xs):
            type = tensor_type(value)
            if not type.rank or (isinstance(type.dims[0], int) and type.dims[0] != self.length):
                raise InvalidOperation(f"xs {index} is {type.text}, expected {self.length} rows")
            rows.append(tensor(type.dims[1:], type.element))
        check_types("body argument", region_arguments(self.body), [*types_of(self.init), *types_of(self.consts), *rows])
        out = types_of(yielded(self.body))
        if len(out) < self.num_carry:
            raise InvalidOperation(f"body yields {len(out)} values, expected at least num_carry = {self.num_carry}")
        check_types("body yields carry", out[: self.num_carry], types_of(self.init))

    def evaluate(self, *values: Array) -> Meaning:
        import numpy as np
        from gradopt.dialects.arrays import numpy_dtype

        carries, xs = list(values[: self.num_carry]), values[len(values) - self.num_xs:] if self.num_xs else ()
        consts = values[self.num_carry: len(values) - self.num_xs]
        rows: list[list[Array]] = [[] for _ in range(self.num_ys)]
        steps = range(self.length - 1, -1, -1) if self.reverse else range(self.length)
        for step in steps:
            out = yield self.body, [*carries, *consts, *(x[step] for x in xs)]
            carries = out[: self.num_carry]
            for row, value in zip(rows, out[self.num_carry:]):
                row.append(value)
        stacks = []
        for row, output in zip(rows, self.results[self.num_carry:]):
            type = tensor_type(output)
            if row:
                stacks.append(np.stack(row[::-1] if self.reverse else row))
            else:
                stacks.append(np.zeros([size or 0 for size in type.shape], numpy_dtype(type.element)))
        return (*carries, *stacks)


def stacked(type: Type, length: Size) -> Type:
    """The type of `length` values of a tensor type along a new first axis."""
    if not isinstance(type, TensorType):
        raise InvalidOperation(f"stacks {type.text}, expected a tensor")
    return tensor([length, *type.dims], type.element)


class LoopBase(Operation):
    """What `while` and `for` share: carries first, then constants; the results are the last carries."""

    __slots__ = ()
    num_carry = attribute(INTEGER)
    max_trip_count = attribute(INTEGER, optional=True)
    outputs = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE, ISOLATED})

    def check_body(self, body: Region, first: list[Type], values: Sequence[Value]) -> None:
        """Raises InvalidOperation unless body(first…, carry…, consts…) -> carry…."""
        if not 0 <= self.num_carry <= len(values):
            raise InvalidOperation(f"attribute 'num_carry' is {self.num_carry}, expected a value in [0, {len(values)}]")
        check_types("body argument", region_arguments(body), [*first, *types_of(values)])
        check_types("body yields carry", types_of(yielded(body)), types_of(values[: self.num_carry]))
        if self.max_trip_count is not None and self.max_trip_count < 0:
            raise InvalidOperation(f"attribute 'max_trip_count' is {self.max_trip_count}, expected no negative value")


class WhileBase(LoopBase):
    """Runs `body` while `cond` is true: cond(carry…, consts…) -> i1, body(carry…, consts…) -> carry…. Exceeding `max_trip_count` is a
    run-time error."""

    __slots__ = ()
    values = variadic(ANY_TENSOR)
    condition = region()
    body = region()

    def infer(self) -> list[Type]:
        return types_of(self._operands[: self.num_carry])

    def verify(self) -> None:
        self.check_body(self.body, [], self._operands)
        check_types("cond argument", region_arguments(self.condition), types_of(self._operands))
        check_types("cond yields", types_of(yielded(self.condition)), [tensor((), I1)])

    def evaluate(self, *values: Array) -> Meaning:
        carries, consts = list(values[: self.num_carry]), values[self.num_carry:]
        trips = 0
        while True:
            test = yield self.condition, [*carries, *consts]
            if not test[0]:
                return tuple(carries)
            if self.max_trip_count is not None and trips == self.max_trip_count:
                raise ValueError(f"'{self.name}' op runs more than max_trip_count = {self.max_trip_count} times")
            carries = yield self.body, [*carries, *consts]
            trips += 1


class ForBase(LoopBase):
    """Runs `body` for i = lower, …, upper - 1: body(i, carry…, consts…) -> carry…."""

    __slots__ = ()
    lower = operand(SCALAR_I64)
    upper = operand(SCALAR_I64)
    values = variadic(ANY_TENSOR)
    body = region()

    def infer(self) -> list[Type]:
        return types_of(self._operands[2: 2 + self.num_carry])

    def verify(self) -> None:
        self.check_body(self.body, [tensor((), I64)], self._operands[2:])

    def evaluate(self, lower: Array, upper: Array, *values: Array) -> Meaning:
        import numpy as np

        carries, consts = list(values[: self.num_carry]), values[self.num_carry:]
        if self.max_trip_count is not None and int(upper) - int(lower) > self.max_trip_count:
            raise ValueError(f"'{self.name}' op runs more than max_trip_count = {self.max_trip_count} times")
        for index in range(int(lower), int(upper)):
            carries = yield self.body, [np.asarray(index, np.int64), *carries, *consts]
        return tuple(carries)


class BranchBase(Operation):
    """What `if` and `switch` share: every region takes the operands behind the first and yields the results."""

    __slots__ = ()
    outputs = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE, ISOLATED})

    def infer(self) -> list[Type]:
        return types_of(yielded(self.regions[0]))

    def verify(self) -> None:
        expected = types_of(yielded(self.regions[0]))
        for branch in self.regions:
            check_types("region argument", region_arguments(branch), types_of(self._operands[1:]))
            check_types("region yields", types_of(yielded(branch)), expected)


class IfBase(BranchBase):
    """The first region where `cond` (rank 0) is true, the second elsewhere; only that one runs."""

    __slots__ = ()
    cond = operand(BOOL_TENSOR)
    values = variadic(ANY_TENSOR)
    then = region()
    otherwise = region()

    def verify(self) -> None:
        if tensor_type(self.cond).rank:
            raise InvalidOperation(f"has condition {self.cond.type.text}, expected tensor<i1>")
        super().verify()

    def evaluate(self, cond: Array, *values: Array) -> Meaning:
        return tuple((yield self.regions[0 if cond else 1], values))


class SwitchBase(BranchBase):
    """Region number `index` (rank 0, clamped to the number of regions); only that one runs."""

    __slots__ = ()
    index = operand(INTEGER_TENSOR)
    values = variadic(ANY_TENSOR)
    cases = variadic_region()

    def infer(self) -> list[Type]:
        if not self.regions:
            raise InvalidOperation("has no region, expected at least 1")
        return super().infer()

    def verify(self) -> None:
        if tensor_type(self.index).rank:
            raise InvalidOperation(f"has index {self.index.type.text}, expected rank 0")
        self.infer()
        super().verify()

    def evaluate(self, index: Array, *values: Array) -> Meaning:
        return tuple((yield self.regions[min(max(int(index), 0), len(self.regions) - 1)], values))


class CallBase(Operation):
    """Calls the function `callee`."""

    __slots__ = ()
    values = variadic(ANY_TENSOR)
    callee = attribute(SYMBOL_REFERENCE)
    outputs = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE})

    def evaluate(self, *values: Array) -> Meaning:
        return tuple((yield self.callee, values))
