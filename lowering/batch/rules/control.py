"""Batching of control flow. Where the examples take different ways, all ways are computed and the values selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.attributes import StringAttr, TypeAttr
from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.sizes import UNKNOWN
from gradopt.ir.types import FunctionType, IntegerType
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.cleanup import remove_dead
from gradopt.lowering.autodiff.helpers import expand_axes, full_like, full_of
from gradopt.lowering.autodiff.state import State
from gradopt.lowering.batch.engine import BatchContext, batch_block
from gradopt.lowering.batch.registry import Batched, batch_rule
from gradopt.lowering.tasks import Task

GUARDED = frozenset({"prim.check", "prim.while", "prim.call", "func.call"})
IN_PROGRESS = object()  # stands for a function whose batch is being made


def batch_region(context: BatchContext, region: Region, flags: Sequence[bool],
                 wanted: Sequence[bool] | None) -> Task[tuple[Region, list[bool]]]:
    """A copy of a region for arguments of which `flags` are batched. `wanted`: which yields must be batched (None: as they come).
    Returns which yields are."""
    old = region.block
    types = [context.type_of(argument.type) if flag else argument.type for argument, flag in zip(old.arguments, flags)]
    block = Block(types)
    arguments = [Batched(value, flag) for value, flag in zip(block.arguments, flags)]
    values = yield batch_block(context.state, old, block, arguments, context.size)
    builder = Builder(block, location=context.builder.location)
    witness = next((argument.value for argument in arguments if argument.batched), context.witness)
    inner = BatchContext(context.state, builder, context.size, witness)
    found = [value.batched for value in values] if wanted is None else [
        value.batched or want for value, want in zip(values, wanted)]
    builder.create("prim.yield", [inner.spread(value) if flag else value.value for value, flag in zip(values, found)])
    return Region([block]), found


def batched_yields(block: Block, flags: Sequence[bool]) -> list[bool]:
    """Which yields of a block may be batches if these arguments are: whatever depends on one, sizes excepted."""
    found: set[Value] = {argument for argument, flag in zip(block.arguments, flags) if flag}
    for op in block.operations:
        if op is block.last:
            return [operand in found for operand in op.operands]
        if op.name != "prim.dim" and not found.isdisjoint(op.operands):
            found.update(op.results)
    return []


def batched_arguments(block: Block, flags: Sequence[bool], num_carry: int) -> list[bool]:
    """Which arguments of a loop's body may be batches in any step. The body need not be batched for that, or nested loops would
    be batched again and again."""
    flags = list(flags)
    while True:
        grown = [a or b for a, b in zip(flags, batched_yields(block, flags)[:num_carry])]
        if grown == flags[:num_carry]:
            return flags
        flags[:num_carry] = grown


@batch_rule("prim.scan")
def scan(context: BatchContext, op: Any, *operands: Batched) -> Task[list[Batched]]:
    """The batch behind the rows of xs and ys; which carries are batches is a fixpoint over the steps."""
    num_carry, first_x = op.num_carry, len(operands) - op.num_xs
    flags = batched_arguments(op.body.block, [operand.batched for operand in operands], num_carry)
    region, found = yield batch_region(context, op.body, flags, [*flags[:num_carry], *[False] * op.num_ys])
    values = [context.spread(operand) if flag else operand.value for operand, flag in zip(operands, flags)]
    for index in range(first_x, len(values)):
        if flags[index]:
            values[index] = context.back(values[index], 1)
    results = context.builder.create("prim.scan", values, regions=[region], **op.properties).results
    carries = [Batched(value, flag) for value, flag in zip(results, found[:num_carry])]
    ys = [Batched(context.front(value, 1) if flag else value, flag)
          for value, flag in zip(results[num_carry:], found[num_carry:])]
    return [*carries, *ys]


@batch_rule("prim.while")
def while_(context: BatchContext, op: Any, *operands: Batched) -> Task[list[Batched]]:
    """While any example goes on; the examples that are done keep their carries."""
    num_carry = op.num_carry
    flags = batched_arguments(op.body.block, [operand.batched for operand in operands], num_carry)
    if batched_yields(op.condition.block, flags)[0]:
        flags[:num_carry] = [True] * num_carry
    body, _ = yield batch_region(context, op.body, flags, flags[:num_carry])
    condition, (differs,) = yield batch_region(context, op.condition, flags, None)
    if differs:
        keep_finished(body, condition, num_carry)
        any_true(condition)
    values = [context.spread(operand) if flag else operand.value for operand, flag in zip(operands, flags)]
    results = context.builder.create("prim.while", values, regions=[condition, body], **op.properties).results
    return [Batched(value, flag) for value, flag in zip(results, flags)]


def keep_finished(body: Region, condition: Region, num_carry: int) -> None:
    """Makes the body yield the old carry for each example whose condition is false."""
    from gradopt.ir.cloning import inline_block

    last = body.block.last
    assert last is not None
    builder = Builder(before=last, location=last.location)
    active = inline_block(condition.block, list(body.block.arguments), builder)[0]
    new = []
    for old, value in zip(body.block.arguments, last.operands[:num_carry]):
        mask = expand_axes(builder, active, value, range(1, tensor_type(value).rank))
        new.append(builder.prim.select(mask, value, old))
    last.operands = new


def any_true(condition: Region) -> None:
    """Makes a condition over a batch yield whether any is true."""
    last = condition.block.last
    assert last is not None
    builder = Builder(before=last, location=last.location)
    last.operands = [builder.prim.reduce(last.operands[0], kind="or", axes=[0])]


@batch_rule("prim.if", "prim.switch")
def branch(context: BatchContext, op: Any, index: Batched, *operands: Batched) -> Task[list[Batched]]:
    """All examples take one branch: the same op. Each its own: every branch is computed, and the values selected."""
    if index.batched:
        return (yield select_branches(context, op, index.value, operands))
    flags = [operand.batched for operand in operands]
    found = [any(flags) for flags in zip(*(batched_yields(region.block, flags) for region in op.regions))]
    regions = []
    for region in op.regions:
        made, _ = yield batch_region(context, region, flags, found)
        regions.append(made)
    results = context.builder.create(op.name, [index.value, *(operand.value for operand in operands)], regions=regions).results
    return [Batched(value, flag) for value, flag in zip(results, found)]


def select_branches(context: BatchContext, op: Any, index: Value, operands: Sequence[Batched]) -> Task[list[Batched]]:
    """Every branch for every example, and the values selected."""
    b = context.builder
    found: list[Value] = []
    count = len(op.regions)
    guarded = needs_guard(context.state, op)
    for number in range(count - 1, -1, -1):
        if guarded:
            spread: Sequence[Value] = yield guarded_branch(context, op, number, takes_branch(b, op, index, number), operands)
        else:
            values = yield batch_block(context.state, op.regions[number].block, b.block, operands, context.size)
            spread = [context.spread(value) for value in values]
        if number == count - 1:
            found = list(spread)
            continue
        taken = index if op.name == "prim.if" else b.prim.cmp(
            index, full_like(b, index, number), predicate="le")
        found = [b.prim.select(expand_axes(b, taken, value, range(1, tensor_type(value).rank)), value, other)
                 for value, other in zip(spread, found)]
    return [Batched(value, True) for value in found]


def needs_guard(state: State, op: Operation) -> bool:
    """True where a branch may fail, or not come to an end, for examples that do not take it. One walk answers for all ops inside."""
    if ("guard", op) not in state.made:
        inside = list(op.walk())
        found = {inner: inner.name in GUARDED for inner in inside}
        for inner in reversed(inside):
            if found[inner] and inner is not op:
                found[inner.parent_op] = True  # type: ignore[index]
        state.made.update({("guard", inner): found[inner] for inner in inside if inner.regions})
    answer: bool = state.made["guard", op]
    return answer


def takes_branch(b: Builder, op: Any, index: Value, number: int) -> Value:
    """Which examples take branch `number`."""
    if op.name == "prim.if":
        return index if number == 0 else b.create("prim.not", [index]).results[0]
    if len(op.regions) == 1:
        return b.prim.cmp(index, index, predicate="eq")
    predicate = "le" if number == 0 else "ge" if number == len(op.regions) - 1 else "eq"
    return b.prim.cmp(index, full_like(b, index, number), predicate=predicate)


def guarded_branch(context: BatchContext, op: Any, number: int, taken: Value,
                   operands: Sequence[Batched]) -> Task[Sequence[Value]]:
    """A branch for all examples, of which those that do not take it compute what the first one that does computes; zeros where none
    takes it."""
    types = [taken.type, *(operand.value.type for operand in operands)]
    blocks = Block(types), Block(types)
    run, skip = (BatchContext(context.state, Builder(block, location=context.builder.location), context.size, block.arguments[0])
                 for block in blocks)
    mask, *values = blocks[0].arguments
    b = run.builder
    ones = b.prim.cast(mask, result_types=[tensor_type(mask).with_element(IntegerType(32))])
    number_of_first = b.create("prim.arg_reduce", [ones], kind="max", axis=0).results[0]
    given = []
    for value, operand in zip(values, operands):
        if operand.batched:
            first = run.spread(Batched(b.prim.gather(value, number_of_first, axis=0, mode="fast"), False))
            value_or_first = b.prim.select(expand_axes(b, mask, value, range(1, tensor_type(value).rank)), value, first)
            given.append(Batched(value_or_first, True))
        else:
            given.append(Batched(value, False))
    found = yield batch_block(context.state, op.regions[number].block, blocks[0], given, context.size)
    b.create("prim.yield", [run.spread(value) for value in found])
    zeros = []
    for result in op.results:
        dims = tensor_type(result).dims
        if UNKNOWN in dims:
            raise GradoptError.at(op.location, f"'{op.name}' op has a result of type {result.type.text} and a branch that may fail for "
                                               "examples of a batch that do not take it: give its sizes names")
        zeros.append(full_of(skip.builder, 0, [context.size, *dims], skip.size_operand(), tensor_type(result).element))
    skip.builder.create("prim.yield", zeros)
    any_taken = context.builder.prim.reduce(taken, kind="or", axes=[0])
    made = context.builder.create("prim.if", [any_taken, taken, *(operand.value for operand in operands)],
                                  regions=[Region([block]) for block in blocks])
    return made.results


@batch_rule("prim.call", "func.call")
def call(context: BatchContext, op: Any, *operands: Batched) -> Task[list[Batched]]:
    """A call of the callee's batch, made once for each combination of batched arguments."""
    state = context.state
    function = state.function(op.callee.root)
    if function is None or not function.regions or not function.regions[0].blocks:
        raise GradoptError.at(op.location, f"'{op.name}' op calls '@{op.callee.root}', which has no body")
    flags = [operand.batched for operand in operands]
    key = ("batch", op.callee.root, tuple(flags), context.size)
    if state.made.get(key) is IN_PROGRESS:
        raise GradoptError.at(op.location, f"'{op.name}' op: '@{op.callee.root}' calls itself, so it has no batch")
    if key not in state.made:
        state.made[key] = IN_PROGRESS
        state.made[key] = yield batch_function(state, function, flags, context)
    name, found = state.made[key]
    types = [context.type_of(type) if flag else type for type, flag in zip(op.result_types, found)]
    results = context.builder.create(op.name, [operand.value for operand in operands], types, callee=name).results
    return [Batched(value, flag) for value, flag in zip(results, found)]


def batch_function(state: Any, function: Operation, flags: Sequence[bool], context: BatchContext) -> Task[tuple[str, list[bool]]]:
    """The private batch of a function; its name, and which results are batches."""
    old = function.regions[0].block
    types = [context.type_of(argument.type) if flag else argument.type for argument, flag in zip(old.arguments, flags)]
    block = Block(types)
    arguments = [Batched(value, flag) for value, flag in zip(block.arguments, flags)]
    values = yield batch_block(state, old, block, arguments, context.size)
    Builder(block, location=function.location).create("func.return", [value.value for value in values])
    remove_dead(block, state)
    properties = {name: value for name, value in function.properties.items() if name not in ("arg_attrs", "res_attrs")}
    properties["function_type"] = TypeAttr(FunctionType(tuple(types), tuple(value.value.type for value in values)))
    properties["sym_visibility"] = StringAttr("private")
    made = type(function)((), (), properties, {}, [Region([block])], (), function.location)
    name = state.add_function(made, f"{properties['sym_name'].value}_batch", function)  # type: ignore[attr-defined]
    return name, [value.batched for value in values]
