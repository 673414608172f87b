"""Programs as single regions, their derivatives by the engine, and comparison with central differences in float64."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from gradopt.dialects.arrays import numpy_dtype
from gradopt.ir.builder import Builder
from gradopt.ir.cloning import clone_region_into
from gradopt.ir.declare import InvalidOperation
from gradopt.ir.dialect import operation_class
from gradopt.ir.operation import Operation, Region, new_region
from gradopt.ir.types import I1, I64, UI32, FloatType, IntegerType, compatible, tensor
from gradopt.lowering.autodiff.cleanup import remove_dead
from gradopt.lowering.autodiff.context import is_float_tensor
from gradopt.lowering.autodiff.engine import Derivative, forward_block, reverse_block
from gradopt.lowering.autodiff.helpers import zeros_like
from gradopt.lowering.autodiff.state import State
from gradopt.lowering.interpreter import run_region
from gradopt.lowering.tasks import run_task


def element_of(array):
    """The element type of an array."""
    kind = array.dtype.kind
    if kind == "b":
        return I1
    if kind in "iu":
        return IntegerType(8 * array.dtype.itemsize, "unsigned" if kind == "u" else "")
    return FloatType(f"f{8 * array.dtype.itemsize}")


def type_of(array):
    """The static tensor type of an array."""
    return tensor(array.shape, element_of(np.asarray(array)))


class Program:
    """A region whose block takes arrays and yields arrays."""

    def __init__(self, region):
        self.region = region
        self.block = region.block
        holder = operation_class("prim.barrier")  # any op: a region needs a parent to be walked
        self.holder = Operation.__new__(holder)
        Operation.__init__(self.holder, regions=[region])

    @staticmethod
    def build(types, function):
        """A program of arguments of these types; `function(builder, *arguments)` returns what it yields."""
        region = new_region(types)
        builder = Builder(region.block)
        outputs = function(builder, *region.block.arguments)
        builder.create("prim.yield", list(outputs))
        return Program(region)

    @staticmethod
    def of_op(name, arrays, result_types=None, regions=(), **attributes):
        """A program of one operation on arguments of the arrays' types."""
        def function(builder, *arguments):
            return builder.create(name, arguments, result_types, regions=regions, **attributes).results
        return Program.build([type_of(np.asarray(array)) for array in arrays], function)

    def clone(self):
        region = Region()
        clone_region_into(self.region, region, {})
        return Program(region)

    @property
    def outputs(self):
        return self.block.last.operands

    def run(self, *arrays):
        assert len(arrays) == len(self.block.arguments)
        with np.errstate(all="ignore"):
            results = run_region(self.region, [np.asarray(array) for array in arrays])
        for value, array in zip(self.outputs, results):
            assert len(array.shape) == value.type.rank, f"{value} gave shape {array.shape}"
            assert all(size is None or size == actual for size, actual in zip(value.type.shape, array.shape)), \
                f"{value} gave shape {array.shape}"
            assert array.dtype == numpy_dtype(value.type.element), f"{value} gave {array.dtype}"
        return results

    def check(self):
        """Verifies every operation by its own rules."""
        for op in self.holder.walk():
            if op is self.holder:
                continue
            try:
                if hasattr(op, "infer"):
                    for found, expected in zip(op.infer(), op.result_types):
                        assert compatible(found, expected), f"{op.name}: {found} and {expected}"
                if hasattr(op, "verify"):
                    op.verify()
            except InvalidOperation as problem:
                raise AssertionError(f"'{op.name}' op {problem.message}") from problem
        return self


def floats(values):
    return [index for index, value in enumerate(values) if is_float_tensor(value.type)]


def vjp(program, wrt=None, masked=True):
    """(args…, a cotangent for each float result) -> (results…, a gradient for each float argument)."""
    copy = program.clone()
    wrt = floats(copy.block.arguments) if wrt is None else wrt
    seeds = [Derivative(copy.block.add_argument(value.type), masked) if is_float_tensor(value.type) else None
             for value in copy.outputs]
    state = State(copy.holder_module())
    sources = [copy.block.arguments[index] for index in wrt]
    found = run_task(reverse_block(state, copy.block, sources, seeds))
    state.raise_missing()
    builder = Builder(before=copy.block.last)
    gradients = [zeros_like(builder, source) if gradient is None else gradient.value
                 for source, gradient in zip(sources, found)]
    copy.block.last.operands = (*copy.outputs, *gradients)
    remove_dead(copy.block)
    return copy.check()


def jvp(program, wrt=None, masked=True):
    """(args…, a tangent for each float argument) -> (results…, a tangent for each float result)."""
    copy = program.clone()
    wrt = floats(copy.block.arguments) if wrt is None else wrt
    sources = [copy.block.arguments[index] for index in wrt]
    tangents = [Derivative(copy.block.add_argument(source.type), masked) for source in sources]
    state = State(copy.holder_module())
    found = run_task(forward_block(state, copy.block, sources, tangents))
    state.raise_missing()
    builder = Builder(before=copy.block.last)
    outputs = copy.outputs
    results = [zeros_like(builder, value) if tangent is None else tangent.value
               for value, tangent in zip(outputs, found) if is_float_tensor(value.type)]
    copy.block.last.operands = (*outputs, *results)
    remove_dead(copy.block)
    return copy.check()


def _holder_module(self):
    return self.holder


Program.holder_module = _holder_module


def difference(program, arrays, directions, step=1e-6):
    """The central difference of all float results along directions (one a float argument), by Richardson extrapolation."""
    moving = floats(program.block.arguments)

    def at(scale):
        moved = list(arrays)
        for index, direction in zip(moving, directions):
            moved[index] = arrays[index] + scale * direction
        return [value for value in program.run(*moved) if value.dtype.kind == "f"]

    @np.errstate(invalid="ignore")
    def slope(h):
        # equal infinities do not move
        return [np.where(a == b, 0.0, a - b) / (2 * h) for a, b in zip(at(h), at(-h))]

    return [(4 * a - b) / 3 for a, b in zip(slope(step), slope(2 * step))]


def random_like(arrays, rng):
    return [rng.standard_normal(array.shape) for array in arrays if np.asarray(array).dtype.kind == "f"]


def check_jvp(program, arrays, rng, tolerance=1e-5, step=1e-4):
    """jvp against differences; returns the jvp program and the arrays it ran on."""
    derived = jvp(program)
    directions = random_like(arrays, rng)
    results = program.run(*arrays)
    found = derived.run(*arrays, *directions)
    for value, again in zip(results, found):
        np.testing.assert_array_equal(value, again)
    for tangent, expected in zip(found[len(results):], difference(program, arrays, directions, step)):
        np.testing.assert_allclose(tangent, expected, rtol=tolerance, atol=tolerance * (1 + np.abs(expected).max(initial=0)))
    return derived, [*arrays, *directions]


def check_vjp(program, arrays, rng, tolerance=1e-5, step=1e-4):
    """vjp against differences: <cotangent, f'(x) v> = <gradient, v> for random v; returns the program and its arrays."""
    derived = vjp(program)
    results = program.run(*arrays)
    cotangents = random_like(results, rng)
    found = derived.run(*arrays, *cotangents)
    for value, again in zip(results, found):
        np.testing.assert_array_equal(value, again)
    gradients = found[len(results):]
    for _ in range(3):
        directions = random_like(arrays, rng)
        slopes = difference(program, arrays, directions, step)
        expected = sum(float((c * s).sum()) for c, s in zip(cotangents, slopes))
        actual = sum(float((g * v).sum()) for g, v in zip(gradients, directions))
        size = sum(float(np.abs(c * s).sum()) for c, s in zip(cotangents, slopes))
        assert abs(actual - expected) <= tolerance * (1 + size), f"<g, v> = {actual}, differences {expected}"
    return derived, [*arrays, *cotangents]


def check_batch(program, arrays, flags, rng, count=3):
    """The batch of a program against the program run on each example."""
    from gradopt.ir.operation import Block
    from gradopt.lowering.batch.engine import BatchContext, batch_block
    from gradopt.lowering.batch.registry import Batched

    block = Block([tensor([count, *argument.type.dims], argument.type.element) if flag else argument.type
                   for argument, flag in zip(program.block.arguments, flags)])
    arguments = [Batched(value, flag) for value, flag in zip(block.arguments, flags)]
    state = State(program.holder_module())
    values = run_task(batch_block(state, program.block, block, arguments, count))
    builder = Builder(block)
    witness = next(argument.value for argument in arguments if argument.batched)
    context = BatchContext(state, builder, count, witness)
    builder.create("prim.yield", [context.spread(value) for value in values])
    batch = Program(Region([block])).check()
    examples = [[vary(array, number, rng) if flag else array for array, flag in zip(arrays, flags)] for number in range(count)]
    stacked = [np.stack([example[index] for example in examples]) if flag else array
               for index, (array, flag) in enumerate(zip(arrays, flags))]
    found = batch.run(*stacked)
    for number, example in enumerate(examples):
        for value, expected in zip(found, program.run(*example)):
            np.testing.assert_allclose(value[number], expected, rtol=1e-12, atol=1e-12)


def vary(array, number, rng):
    """Another example like an array."""
    array = np.asarray(array)
    if array.dtype.kind == "f":
        return array * (1 + 0.1 * number)
    if array.dtype.kind == "b":
        return array ^ (rng.random(array.shape) < 0.5) if number else array
    return np.roll(array, number, axis=0) if array.ndim else array + number


def check_batches(program, arrays, rng):
    """Batches over all arguments, over each alone, and over all but each."""
    count = len(arrays)
    choices = {tuple([True] * count)} | {tuple(i == j for i in range(count)) for j in range(count)}
    choices |= {tuple(i != j for i in range(count)) for j in range(count)}
    for flags in sorted(choices):
        if any(flags):
            check_batch(program, arrays, flags, rng)


@pytest.fixture
def kit():
    """Everything above, for the tests of this folder."""
    return SimpleNamespace(Program=Program, vjp=vjp, jvp=jvp, check_jvp=check_jvp, check_vjp=check_vjp, type_of=type_of,
                           difference=difference, check_batch=check_batch, check_batches=check_batches, I64=I64, UI32=UI32)
