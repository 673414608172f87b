"""The simplifying passes keep the meaning of random programs, to the bit: the interpreter runs them before and after."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from gradopt.dialects.arrays import numpy_dtype, to_elements
from gradopt.dialects.constraints import tensor_type
from gradopt.ir.attributes import TypeAttr
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.types import F32, I1, I32, I64, FunctionType, TensorType, Type, tensor
from gradopt.ir.values import Value
from gradopt.ir.verifier import verify
from gradopt.lowering.interpreter import run_function
from gradopt.lowering.passes import run_passes

SHAPES = ((), (3,), (2, 3), (1, 3), (3, 2), (2, 1, 3))
UNARY = ("neg", "abs", "exp", "floor", "sign", "sqrt", "tanh")
BINARY = ("add", "sub", "mul", "mul_zero", "div", "max", "min", "pow")
BITS = ("and", "or", "xor", "shl", "shr")
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, float("inf"), float("nan"))


class Program:
    """Builds random operations in a block from the values that are there."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.has_products = False

    def function(self, size: int) -> Operation:
        """A module with one function `f` of random arguments, body and results."""
        types = [self.type() for _ in range(3)]
        body = Block(types)
        values = self.fill(body, list(body.arguments), size, depth=2)
        results = self.random.sample(values, min(3, len(values)))
        builder = Builder(body)
        builder.create("func.return", results)
        module = Block()
        Builder(module).create("func.func", regions=[Region([body])], result_types=[], sym_name="f",
                               function_type=TypeAttr(FunctionType(tuple(types), tuple(value.type for value in results))))
        from gradopt.ir.dialect import operation_class

        cls = operation_class("builtin.module")
        assert cls is not None
        return cls(regions=[Region([module])])

    def type(self, element: Type | None = None) -> TensorType:
        return tensor(self.random.choice(SHAPES), element or self.random.choice((F32, F32, F32, I32, I1)))

    def fill(self, block: Block, values: list[Value], size: int, depth: int) -> list[Value]:
        """Adds about `size` operations; returns all values."""
        builder = Builder(block)
        if not values:
            values += self.constant(builder, values, depth)
        for _ in range(size):
            step = self.random.choice((self.unary, self.binary, self.binary, self.constant, self.view, self.view, self.compare,
                                       self.reduction, self.repeat, self.product, self.scan, self.branch, self.loop))
            if step in (self.scan, self.branch, self.loop) and not depth:
                continue
            values += step(builder, values, depth)
        return values

    def pick(self, values: list[Value], element: Type | None = None) -> Value | None:
        fitting = [value for value in values if element is None or tensor_type(value).element is element]
        return self.random.choice(fitting) if fitting else None

    def partner(self, values: list[Value], value: Value) -> Value:
        return self.random.choice([other for other in values if other.type is value.type])

    def constant(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        type = self.type()
        numbers = NUMBERS if type.element is F32 else (0, 1, -1, 7) if type.element is I32 else (0, 1)
        array = np.full(type.shape, self.random.choice(numbers), numpy_dtype(type.element))
        if self.random.random() < 0.3 and array.size:
            array = array.copy()
            array.flat[0] = 3
        return [b.create("prim.constant", value=to_elements(array, type)).results[0]]

    def unary(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        x = self.pick(values, F32)
        return [] if x is None else [b.create(f"prim.{self.random.choice(UNARY)}", [x]).results[0]]

    def binary(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        x = self.pick(values)
        assert x is not None
        y = self.partner(values, x)
        element = tensor_type(x).element
        if element is F32:
            return [b.create(f"prim.{self.random.choice(BINARY)}", [x, y]).results[0]]
        name = self.random.choice(BITS[:3] if element is I1 else (*BITS, "add", "sub", "mul", "div", "max", "min"))
        return [b.create(f"prim.{name}", [x, y]).results[0]]

    def compare(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        x = self.pick(values, self.random.choice((F32, I32)))
        if x is None:
            return []
        y = self.partner(values, x)
        cond = b.create("prim.cmp", [x, y], predicate=self.random.choice(("eq", "ne", "lt", "ge"))).results[0]
        if self.random.random() < 0.5:
            cond = b.create("prim.not", [cond]).results[0]
        made = b.create("prim.select", [cond, x, y]).results[0]
        target = tensor(tensor_type(x).dims, self.random.choice((F32, I32, I1)))
        return [cond, made, b.create("prim.cast", [made], [target]).results[0]]

    def view(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        x = self.pick(values)
        assert x is not None
        type = tensor_type(x)
        kind = self.random.choice(("reshape", "permute", "expand", "flip", "slice", "pad", "concat"))
        axes = list(range(type.rank))
        if kind == "reshape":
            shapes = [shape for shape in SHAPES if int(np.prod(shape)) == type.element_count]
            return [b.create("prim.reshape", [x], [tensor(self.random.choice(shapes or [type.shape]), type.element)]).results[0]]
        if kind == "permute":
            return [b.create("prim.permute", [x], axes=self.random.sample(axes, len(axes))).results[0]]
        if kind == "expand" and type.rank < 3:
            place = self.random.randint(0, type.rank)
            dims = [*type.shape[:place], self.random.choice((1, 2)), *type.shape[place:]]
            return [b.create("prim.expand", [x], [tensor(dims, type.element)], axes=[place]).results[0]]
        if kind == "flip":
            return [b.create("prim.flip", [x], axes=self.random.sample(axes, self.random.randint(0, len(axes)))).results[0]]
        if kind == "slice":
            begin = [self.random.randint(0, size) for size in type.shape]
            end = [self.random.randint(low, size) for low, size in zip(begin, type.shape)]
            if self.random.random() < 0.5:
                begin, end = [0] * type.rank, list(type.shape)
            strides = [self.random.choice((1, 1, 2)) for _ in axes]
            return [b.create("prim.slice", [x], begin=begin, end=end, strides=strides).results[0]]
        scalar = self.pick([value for value in values if not tensor_type(value).rank], type.element)
        if kind == "pad" and scalar is not None:
            low, high, interior = ([self.random.choice((0, 0, 1)) for _ in axes] for _ in range(3))
            return [b.create("prim.pad", [x, scalar], low=low, high=high, interior=interior).results[0]]
        if kind == "concat" and type.rank:
            parts = [x] * self.random.randint(1, 2)
            return [b.create("prim.concat", parts, axis=self.random.randrange(type.rank)).results[0]]
        return []

    def reduction(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        x = self.pick(values, self.random.choice((F32, I32)))
        if x is None:
            return []
        axes = self.random.sample(range(tensor_type(x).rank), self.random.randint(0, tensor_type(x).rank))
        kind = self.random.choice(("sum", "max", "min", "prod"))
        return [b.create("prim.reduce", [x], kind=kind, axes=sorted(axes)).results[0]]

    def product(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        x, y = self.pick(values, F32), self.pick(values, F32)
        if x is None or y is None:
            return []
        left, right = tensor_type(x), tensor_type(y)
        pairs = [(i, j) for i in range(left.rank) for j in range(right.rank) if left.shape[i] == right.shape[j]]
        if not pairs or left.rank + right.rank > 5:
            return []
        self.has_products = True
        i, j = self.random.choice(pairs)
        made = b.create("prim.dot", [x, y], lhs_contract=[i], rhs_contract=[j]).results[0]
        axes = self.random.sample(range(tensor_type(made).rank), tensor_type(made).rank)
        return [made, b.create("prim.permute", [made], axes=axes).results[0]]

    def repeat(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        """An operation once more, with the same operands."""
        x = self.pick(values)
        if x is None or x.defining_op is None:
            return []
        copy = x.defining_op.clone()
        b.insert(copy)
        return list(copy.results)

    def inner(self, types: list[Type], wanted: list[Type], depth: int) -> Block:
        """A block with these argument types that yields values of the wanted types."""
        block = Block(types)
        values = self.fill(block, list(block.arguments), self.random.randint(1, 5), depth - 1)
        builder = Builder(block)
        yields = []
        for type in wanted:
            fitting = [value for value in values if value.type is type]
            if not fitting:
                assert isinstance(type, TensorType)
                zero = to_elements(np.zeros(type.shape, numpy_dtype(type.element)), type)
                fitting = [builder.create("prim.constant", value=zero).results[0]]
            yields.append(self.random.choice(fitting))
        builder.create("prim.yield", yields)
        return block

    def operands(self, values: list[Value], count: int) -> list[Value]:
        return [self.random.choice(values) for _ in range(count)]

    def scan(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        carries, constants = self.operands(values, self.random.randint(0, 3)), self.operands(values, self.random.randint(0, 3))
        length = self.random.choice((0, 1, 3))
        xs = [value for value in self.operands(values, 2) if tensor_type(value).rank and tensor_type(value).shape[0] == length]
        types = [value.type for value in [*carries, *constants]]
        types += [tensor(tensor_type(value).dims[1:], tensor_type(value).element) for value in xs]
        ys = [self.type() for _ in range(self.random.randint(0, 2))]
        body = self.inner(types, [*(value.type for value in carries), *ys], depth)
        return list(b.create("prim.scan", [*carries, *constants, *xs], regions=[Region([body])], length=length,
                             num_carry=len(carries), num_xs=len(xs), reverse=self.random.random() < 0.5).results)

    def branch(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        scalars = [value for value in values if not tensor_type(value).rank]
        kind = self.random.choice(("if", "switch"))
        selector = self.pick(scalars, I1 if kind == "if" else I32)
        if selector is None:
            return []
        given = self.operands(values, self.random.randint(0, 3))
        types, wanted = [value.type for value in given], [self.type() for _ in range(self.random.randint(1, 2))]
        regions = [Region([self.inner(types, list(wanted), depth)]) for _ in range(2)]
        return list(b.create(f"prim.{kind}", [selector, *given], regions=regions).results)

    def loop(self, b: Builder, values: list[Value], depth: int) -> list[Value]:
        """A while that counts down from 2, with random carries beside the counter."""
        start = b.create("prim.constant", value=to_elements(np.asarray(2, np.int64), tensor((), I64))).results[0]
        carries, constants = self.operands(values, self.random.randint(1, 2)), self.operands(values, self.random.randint(0, 2))
        given = [start, *carries, *constants]
        types = [value.type for value in given]
        condition = Block(types)
        builder = Builder(condition)
        zero = builder.create("prim.constant", value=to_elements(np.asarray(0, np.int64), tensor((), I64))).results[0]
        builder.create("prim.yield", [builder.create("prim.cmp", [condition.arguments[0], zero], predicate="gt").results[0]])
        body = self.inner(types, [value.type for value in carries], depth)
        last = body.last
        assert last is not None
        builder = Builder(before=last)
        one = builder.create("prim.constant", value=to_elements(np.asarray(1, np.int64), tensor((), I64))).results[0]
        counter = builder.create("prim.sub", [body.arguments[0], one]).results[0]
        last.operands = [counter, *last.operands]
        made = b.create("prim.while", given, regions=[Region([condition]), Region([body])], num_carry=1 + len(carries))
        return list(made.results[1:])


def random_arguments(module: Operation, seed: int) -> list[Any]:
    """Arrays for the function's arguments, special values among them."""
    generator = np.random.default_rng(seed)
    function = module.regions[0].block.first
    assert function is not None
    arrays = []
    for argument in function.regions[0].block.arguments:
        type = tensor_type(argument)
        if type.element is F32:
            arrays.append(np.where(generator.random(type.shape) < 0.3, generator.choice(NUMBERS, type.shape),
                                   generator.standard_normal(type.shape)).astype(np.float32))
        else:
            arrays.append(generator.integers(-2 if type.element is I32 else 0, 2, type.shape).astype(numpy_dtype(type.element)))
    return arrays


def assert_same(found: list[Any], expected: list[Any], exact: bool) -> None:
    """The same bits; of NaNs only the place counts, and products may add in another order."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype.kind != "f":
            assert np.array_equal(a, b)
        elif exact:
            assert np.array_equal(np.isnan(a), np.isnan(b))
            assert np.array_equal(np.where(np.isnan(a), 0, a).view(np.uint32), np.where(np.isnan(b), 0, b).view(np.uint32))
        else:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pipeline", ["canonicalize", "cse", "dce", "fold", "licm", "infer-shapes",
                                      "canonicalize,licm,fold,cse,canonicalize,dce"])
def test_random_programs(pipeline: str) -> None:
    for seed in range(60):
        program = Program(seed)
        module = program.function(random.Random(seed).randint(4, 30))
        assert not verify(module), f"seed {seed}"
        arrays = random_arguments(module, seed)
        before = run_function(module, "f", arrays)
        simplified = module.clone()
        run_passes(simplified, pipeline)  # verifies
        after = run_function(simplified, "f", arrays)
        try:
            assert_same(after, before, exact=not program.has_products)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, pipeline {pipeline}\n{module}\n{simplified}") from error


@pytest.mark.parametrize("name", ["canonicalize", "cse", "dce", "fold", "licm"])
def test_a_second_run_finds_nothing(name: str) -> None:
    for seed in range(40):
        module = Program(seed).function(random.Random(seed).randint(4, 30))
        run_passes(module, name)
        first = str(module)
        run_passes(module, name)
        assert str(module) == first, f"seed {seed}"
