"""The adjoints of `scan`: one reverse loop."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from gradopt.dialects.arrays import Array
from gradopt.dialects.constraints import ANY_TENSOR, is_float_tensor, tensor_type
from gradopt.dialects.control_flow import Meaning, check_types, region_arguments, types_of, yielded
from gradopt.ir.attribute_kinds import BOOLEAN, INTEGER, INTEGERS, UNIT
from gradopt.ir.declare import (
    ISOLATED,
    PURE,
    InvalidOperation,
    attribute,
    region,
    variadic,
    variadic_result,
)
from gradopt.ir.operation import Operation
from gradopt.ir.types import Type, tensor
from gradopt.ir.values import Value


class ScanAdjointBase(Operation):
    """The reverse loop of a scan: walks its steps backwards, with the carries of each step from a trajectory.

    Operands: init…, consts…, xs…, trajectory…, dcarry…, dys…. Row t of a trajectory is the carry that step t began with. `kept`
    names the carries that have a trajectory (default: all; with `checkpoints` = k a trajectory holds k rows, and `body` recomputes
    the others), `active` the carries that have a cotangent (default: all float ones), `seeded` the ys that have one (default: all
    float ones). `wrt` names what is wanted among (init…, consts…, xs…); default: all floats.

    body(carry…, consts…, x_t…) is the scan's. body_vjp(carry…, consts…, x_t…, dcarry…, dy_t…) yields dcarry… for the active
    carries, then the wanted dconsts… (which are summed) and dx_t… (which are stacked).
    """

    __slots__ = ()
    values = variadic(ANY_TENSOR)
    length = attribute(INTEGER)
    num_carry = attribute(INTEGER)
    num_xs = attribute(INTEGER, default=0)
    num_ys = attribute(INTEGER, default=0)
    reverse = attribute(BOOLEAN, default=False)
    checkpoints = attribute(INTEGER, default=0)
    wrt = attribute(INTEGERS, optional=True)
    kept = attribute(INTEGERS, optional=True)
    active = attribute(INTEGERS, optional=True)
    seeded = attribute(INTEGERS, optional=True)
    masked = attribute(UNIT, optional=True)
    body = region()
    body_vjp = region()
    outputs = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE, ISOLATED})

    @property
    def kept_carries(self) -> list[int]:
        """The carries that have a trajectory."""
        return list(range(self.num_carry)) if self.kept is None else list(self.kept)

    @property
    def active_carries(self) -> list[int]:
        """The carries that have a cotangent."""
        if self.active is not None:
            return list(self.active)
        return [index for index in range(self.num_carry) if is_float_tensor(self._operands[index].type)]

    @property
    def seeded_ys(self) -> list[int]:
        """The ys that have a cotangent."""
        if self.seeded is not None:
            return list(self.seeded)
        ys = yielded(self.body)[self.num_carry:]
        return [index for index, value in enumerate(ys) if is_float_tensor(value.type)]

    @property
    def num_consts(self) -> int:
        """How many operands every step reads alike."""
        others = self.num_carry + self.num_xs + len(self.kept_carries) + len(self.active_carries) + len(self.seeded_ys)
        return len(self._operands) - others

    def groups(self, values: Sequence[Value | Array]) -> list[Sequence[Value | Array]]:
        """Operands (or their arrays) as [init, consts, xs, trajectory, dcarry, dys]."""
        counts = [self.num_carry, self.num_consts, self.num_xs, len(self.kept_carries), len(self.active_carries),
                  len(self.seeded_ys)]
        found, start = [], 0
        for count in counts:
            found.append(values[start: start + count])
            start += count
        return found

    @property
    def wanted(self) -> tuple[list[int], list[int], list[int]]:
        """The wanted init, consts and xs, each counted from the start of its group."""
        first, second = self.num_carry, self.num_carry + self.num_consts
        last = second + self.num_xs
        chosen = [index for index in range(last) if is_float_tensor(self._operands[index].type)] if self.wrt is None else list(self.wrt)
        return ([index for index in chosen if index < first], [index - first for index in chosen if first <= index < second],
                [index - second for index in chosen if second <= index])

    def check_positions(self) -> None:
        """Raises InvalidOperation where the operands cannot be what the attributes say, or a position lies outside of its group."""
        count = len(self._operands)
        for name in ("num_carry", "num_xs"):
            if not 0 <= getattr(self, name) <= count:
                raise InvalidOperation(f"attribute '{name}' is {getattr(self, name)}, expected 0 to {count} (the number of operands)")
        if self.num_consts < 0:
            raise InvalidOperation(f"has {count} operands, expected at least {count - self.num_consts}")
        others = count - len(self.kept_carries) - len(self.active_carries) - len(self.seeded_ys)
        for name, limit in (("kept", self.num_carry), ("active", self.num_carry), ("seeded", self.num_ys), ("wrt", others)):
            chosen = getattr(self, name) or ()
            if any(not 0 <= place < limit for place in chosen) or len(set(chosen)) < len(chosen):
                raise InvalidOperation(f"attribute '{name}' is {list(chosen)}, expected different positions below {limit}")

    def infer(self) -> list[Type]:
        self.check_positions()
        init, consts, xs = self.wanted
        groups = self.groups(self._operands)
        return types_of([*(groups[0][index] for index in init), *(groups[1][index] for index in consts),
                         *(groups[2][index] for index in xs)])

    def verify(self) -> None:
        self.check_positions()
        init, consts, xs, _, dcarry, _ = self.groups(self._operands)
        rows = [tensor(tensor_type(value).dims[1:], tensor_type(value).element) for value in xs]
        check_types("body argument", region_arguments(self.body), [*types_of(init), *types_of(consts), *rows])
        ys = yielded(self.body)[self.num_carry:]
        if len(ys) != self.num_ys:
            raise InvalidOperation(f"body yields {len(ys)} values behind the carries, expected num_ys = {self.num_ys}")
        check_types("body_vjp argument", region_arguments(self.body_vjp),
                    [*types_of(init), *types_of(consts), *rows, *types_of(dcarry), *(ys[index].type for index in self.seeded_ys)])
        _, wanted_consts, wanted_xs = self.wanted
        check_types("body_vjp yields", types_of(yielded(self.body_vjp)),
                    [*types_of(dcarry), *(consts[index].type for index in wanted_consts), *(rows[index] for index in wanted_xs)])
        missing = set(self.wanted[0]) - set(self.active_carries)
        if missing:
            raise InvalidOperation(f"attribute 'wrt' names init {min(missing)}, which 'active' does not")

    def evaluate(self, *values: Array) -> Meaning:
        import numpy as np

        init, consts, xs, trajectory, dcarry, dys = self.groups(values)
        states = yield from self.all_states(init, consts, xs, trajectory)
        wanted_init, wanted_consts, wanted_xs = self.wanted
        current = list(dcarry)
        sums = [np.zeros_like(consts[index]) for index in wanted_consts]
        rows = [np.zeros_like(xs[index]) for index in wanted_xs]
        for step in range(self.length) if self.reverse else range(self.length - 1, -1, -1):
            found = yield self.body_vjp, [*states[step], *consts, *(x[step] for x in xs), *current, *(dy[step] for dy in dys)]  # type: ignore[index]
            current = found[: len(current)]
            for index, gradient in enumerate(found[len(current): len(current) + len(sums)]):
                sums[index] = sums[index] + gradient
            for row, gradient in zip(rows, found[len(current) + len(sums):]):
                row[step] = gradient
        dinit = [current[self.active_carries.index(index)] for index in wanted_init]
        return (*dinit, *sums, *rows)

    def all_states(self, init: Sequence[Array], consts: Sequence[Array], xs: Sequence[Array], trajectory: Sequence[Array],
                   ) -> Generator[tuple[Any, Sequence[Array]], list[Array], list[list[Array]]]:
        """The carries that each step begins with: from the trajectory, or run again where only checkpoints are kept. A carry
        without a trajectory is not read; its first value stands in."""
        if not self.checkpoints:
            kept = dict(zip(self.kept_carries, trajectory))
            return [[kept[index][step] if index in kept else value for index, value in enumerate(init)]
                    for step in range(self.length)]
        states: list[list[Array]] = [[] for _ in range(self.length)]
        carry = list(init)
        for step in range(self.length - 1, -1, -1) if self.reverse else range(self.length):
            states[step] = carry
            out = yield self.body, [*carry, *consts, *(x[step] for x in xs)]
            carry = out[: self.num_carry]
        return states


class ScanOp(ScanAdjointBase):
    __doc__ = ScanAdjointBase.__doc__
    __slots__ = ()
    name = "bwd.scan"


class ScanXsOp(ScanAdjointBase):
    """`bwd.scan` where only gradients of xs are wanted. canonicalize merges it with the `bwd.scan` of the same operands."""

    __slots__ = ()
    name = "bwd.scan_xs"

    def verify(self) -> None:
        super().verify()
        if self.wanted[0] or self.wanted[1]:
            raise InvalidOperation("gives gradients of xs only, but 'wrt' names others")
