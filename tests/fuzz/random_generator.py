"""The state of a random program in the making (random_programs.py), and the table of its steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gradopt.dialects.func import make_function
from gradopt.ir.attributes import TypeAttr
from gradopt.ir.builder import Builder, make_operation
from gradopt.ir.dialect import operation_class
from gradopt.ir.operation import new_region
from gradopt.ir.types import I64, FloatType, FunctionType, Type, tensor
from gradopt.ir.values import Value

import gradopt

Step = Callable[["Generator"], "Value | None"]
SIZES = (0, 1, 1, 2, 3, 4, 5, 7)
MOST_ELEMENTS = 400

SMOOTH: list[Step] = []
KINKED: list[Step] = []


def step(smooth: bool = True) -> Callable[[Step], Step]:
    """Registers a step."""

    def register(function: Step) -> Step:
        (SMOOTH if smooth else KINKED).append(function)
        return function

    return register


class Generator:
    """The state of a program in the making: `pool` holds the float values, newest last."""

    def __init__(self, seed: int, element: str, steps: int, smooth: bool) -> None:
        self.random = np.random.default_rng(seed)
        self.element: Type = FloatType(element)
        self.smooth = smooth
        module_class = operation_class("builtin.module")
        assert module_class is not None
        self.module = make_operation(module_class, [], {}, regions=[new_region()])
        self.function = make_function("f", [], [])
        Builder(self.module.regions[0].block).insert(self.function)
        self.block = self.function.regions[0].block
        self.b = Builder(self.block)
        self.pool: list[Value] = [self.argument(self.shape()) for _ in range(self.integer(1, 3))]
        choices = SMOOTH if smooth else SMOOTH + KINKED
        taken = 0
        while taken < steps:
            value = choices[self.integer(0, len(choices) - 1)](self)
            if value is not None:
                self.pool.append(value)
                taken += 1
        self.finish()

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return int(self.random.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return bool(self.random.random() < probability)

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """A random shape; sizes 0 are rare, since nothing can go wrong behind them."""
        rank = self.integer(0, 4) if rank is None else rank
        sizes = SIZES if self.chance(0.12) else SIZES[1:]
        while True:
            found = tuple(sizes[self.integer(0, len(sizes) - 1)] for _ in range(rank))
            if int(np.prod(found)) <= MOST_ELEMENTS:
                return found

    def argument(self, shape: tuple[int, ...]) -> Value:
        """A new argument of the float type."""
        return self.block.add_argument(tensor(list(shape), self.element))

    def value(self, rank: int | None = None, least_rank: int = 0) -> Value | None:
        """A value of the pool, a new one more probably, of that rank."""
        for value in reversed(self.pool):
            if len(shape_of(value)) >= least_rank and rank in (None, len(shape_of(value))) and self.chance(0.6):
                return value
        found = [value for value in self.pool if len(shape_of(value)) >= least_rank and rank in (None, len(shape_of(value)))]
        return found[self.integer(0, len(found) - 1)] if found else None

    def some(self) -> Value:
        """A value of any rank."""
        value = self.value()
        assert value is not None
        return value

    def axis(self, rank: int) -> int:
        """An axis, perhaps negative."""
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int) -> list[int] | None:
        """Some axes, or None for all."""
        if self.chance(0.3):
            return None
        return [int(axis) - (rank if self.chance(0.3) else 0) for axis in self.random.permutation(rank)[: self.integer(0, rank)]]

    def tame(self, value: Value) -> Value:
        """The tanh of a value that may be large."""
        return self.b.hl.tanh(value)  # type: ignore[no-any-return]

    def indices(self, shape: tuple[int, ...], size: int, beyond: int = 0) -> Value:
        """A constant tensor of indices in [-beyond, size + beyond)."""
        from gradopt.ir.attributes import DenseElementsAttr

        numbers = self.random.integers(-beyond, max(size + beyond, -beyond + 1), shape)
        type = tensor(list(shape), I64)
        value = DenseElementsAttr(type, np.asarray(numbers, np.int64).tobytes())
        return self.b.hl.constant(value=value, result_types=[type])  # type: ignore[no-any-return]

    def finish(self) -> None:
        """Returns the last value and perhaps another; gives the function its type."""
        returned = [self.pool[-1]]
        if self.chance(0.4):
            returned.append(self.pool[self.integer(0, len(self.pool) - 1)])
        self.b.create("func.return", returned)
        signature = FunctionType(tuple(each.type for each in self.block.arguments), tuple(each.type for each in returned))
        self.function.properties = {**self.function.properties, "function_type": TypeAttr(signature)}
        gradopt.verify(self.module)


def shape_of(value: Value) -> tuple[int, ...]:
    """The (static) shape of a value."""
    return value.type.shape  # type: ignore[attr-defined,no-any-return]


def broadcastable(g: Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts together with another."""
    kept = list(shape[g.integer(0, len(shape)):])
    return tuple(1 if g.chance(0.3) else size for size in kept)


def scalar(g: Generator, number: float) -> Value:
    from gradopt.dialects.arrays import numpy_dtype
    from gradopt.ir.attributes import DenseElementsAttr

    type = tensor([], g.element)
    value = DenseElementsAttr(type, np.asarray(number, numpy_dtype(g.element)).tobytes())
    return g.b.hl.constant(value=value, result_types=[type])  # type: ignore[no-any-return]
