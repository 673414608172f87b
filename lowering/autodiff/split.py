"""A function's reverse derivative as two functions: one that also returns what the other will read.

    @f_fwd(args…) -> results…, residuals…        @f_bwd(residuals…, cotangents…) -> gradients…
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradopt.ir.attributes import StringAttr, TypeAttr
from gradopt.ir.builder import Builder
from gradopt.ir.declare import CONSTANT
from gradopt.ir.locations import fuse
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.symbols import symbol_name
from gradopt.ir.types import FunctionType, Type
from gradopt.ir.values import BlockArgument, Value
from gradopt.lowering.autodiff.cleanup import remove_dead
from gradopt.lowering.autodiff.context import is_float_tensor
from gradopt.lowering.autodiff.engine import PASS_NAME, Derivative, reverse_block
from gradopt.lowering.autodiff.functions import Frame, gradients_of, open_function
from gradopt.lowering.autodiff.state import State
from gradopt.lowering.tasks import Task

__all__ = ["SplitFunction", "split_for_call", "split_function"]


@dataclass(frozen=True)
class SplitFunction:
    """The two functions' names, the types of the residuals, and for each wanted argument its gradient's type and whether it may
    hold masked lanes (None: it is structurally zero and not returned)."""

    forward: str
    backward: str
    residuals: tuple[Type, ...]
    gradients: tuple[tuple[Type, bool] | None, ...]


def split_function(state: State, function: Operation, wrt: Sequence[int]) -> Task[SplitFunction]:
    """`@f_fwd` and `@f_bwd` with a cotangent for each float result and a gradient for each of `wrt`."""
    block = function.regions[0].block
    assert block.last is not None
    seeds = [True if is_float_tensor(value.type) else None for value in block.last.operands]
    return (yield _split(state, function, wrt, seeds, complete=True))


def split_for_call(state: State, function: Operation, wrt: Sequence[int], seeds: Sequence[bool | None]) -> Task[SplitFunction]:
    """The private pair for calls with these cotangents (None: zero; else whether it may hold masked lanes), made once."""
    key = ("split", symbol_name(function), tuple(wrt), tuple(seeds))
    if key not in state.made:
        state.made[key] = yield _split(state, function, wrt, seeds, complete=False)
    made: SplitFunction = state.made[key]
    return made


def _split(state: State, function: Operation, wrt: Sequence[int], seeds: Sequence[bool | None],
           complete: bool) -> Task[SplitFunction]:
    frame = open_function(function, as_call=complete)
    marker = Builder(before=frame.terminator).create("prim.barrier")
    cotangents = [None if masked is None else Derivative(frame.block.add_argument(value.type), masked)
                  for value, masked in zip(frame.results, seeds)]
    found = yield reverse_block(state, frame.block, [frame.arguments[index] for index in wrt], cotangents)
    if complete:
        gradients = gradients_of(frame, wrt, found)
        kinds = tuple((value.type, True) for value in gradients)
    else:
        gradients = [gradient.value for gradient in found if gradient is not None]
        kinds = tuple(None if gradient is None else (gradient.value.type, gradient.masked)  # type: ignore[misc]
                      for gradient in found)
    results = frame.results
    frame.terminator.operands = (*results, *gradients)
    remove_dead(frame.block, state, keep=marker)
    reverse = operations_behind(marker)
    residuals = find_residuals(frame, reverse, gradients)
    name = symbol_name(function)
    backward = backward_function(frame, reverse, residuals, [c.value for c in cotangents if c is not None], gradients)
    marker.erase()
    frame.terminator.operands = (*results, *residuals)
    for argument in frame.block.arguments[len(frame.arguments):][::-1]:
        frame.block.erase_argument(argument.index)
    remove_dead(frame.block, state)
    names = [state.add_function(finish(made, function, private=not complete), f"{name}_{suffix}", function)
             for made, suffix in ((backward, "bwd"), (frame.function, "fwd"))]
    return SplitFunction(names[1], names[0], tuple(value.type for value in residuals), kinds)


def operations_behind(marker: Operation) -> list[Operation]:
    """The operations between a marker and the terminator."""
    found, op = [], marker.next
    while op is not None and op.next is not None:
        found.append(op)
        op = op.next
    return found


def find_residuals(frame: Frame, reverse: Sequence[Operation], gradients: Sequence[Value]) -> list[Value]:
    """What the reverse operations read of the forward part, in order of first use. Constants are not kept but made again."""
    own: set[Value] = {result for op in reverse for result in op.results}
    own.update(frame.block.arguments[len(frame.arguments):])
    found: dict[Value, None] = {}
    for value in [operand for op in reverse for operand in op.operands] + list(gradients):
        source = value.defining_op
        if value not in own and (source is None or not source.has_trait(CONSTANT)):
            found[value] = None
    return list(found)


def backward_function(frame: Frame, reverse: Sequence[Operation], residuals: Sequence[Value], cotangents: Sequence[Value],
                      gradients: Sequence[Value]) -> Operation:
    """Moves the reverse operations into a function of (residuals…, cotangents…)."""
    function, terminator = empty_copy(frame)
    block = function.regions[0].block
    mapping: dict[Value, Value] = {}
    for value in (*residuals, *cotangents):
        mapping[value] = block.add_argument(value.type, value.name)
    for op in reverse:
        op.detach()
        copy_constants(op, mapping, block, terminator)
        op.operands = tuple(mapping.get(operand, operand) for operand in op.operands)
        block.insert_before(terminator, op)
    for value in gradients:
        source = value.defining_op
        if value not in mapping and source is not None and source.parent is frame.block and source.has_trait(CONSTANT):
            mapping[value] = block.insert_before(terminator, source.clone()).results[0]
    terminator.operands = tuple(mapping.get(value, value) for value in gradients)
    return function


def empty_copy(frame: Frame) -> tuple[Operation, Operation]:
    """A function like the frame's, without arguments and with nothing but a terminator; and that terminator."""
    block = Block()
    old = frame.terminator
    terminator = type(old)((), (), dict(old.properties), dict(old.attributes), (), (), old.location)
    block.append(terminator)
    source = frame.function
    function = type(source)((), (), dict(source.properties), dict(source.attributes), [Region([block])], (), source.location)
    return function, terminator


def copy_constants(op: Operation, mapping: dict[Value, Value], block: Block, terminator: Operation) -> None:
    """Makes the constants of the forward part that `op` reads again in the backward block."""
    for operand in op.operands:
        source = operand.defining_op
        if operand not in mapping and source is not None and source.has_trait(CONSTANT) and source.parent is not block:
            mapping[operand] = block.insert_before(terminator, source.clone()).results[0]


def finish(function: Operation, origin: Operation, private: bool) -> Operation:
    """Gives a function the type of its block, and its visibility and location."""
    block = function.regions[0].block
    assert block.last is not None
    arguments: list[BlockArgument] = block.arguments
    function.properties = {**function.properties, "function_type": TypeAttr(FunctionType(
        tuple(argument.type for argument in arguments), tuple(value.type for value in block.last.operands)))}
    if private:
        function.properties["sym_visibility"] = StringAttr("private")
    function.location = fuse(origin.location, PASS_NAME)
    return function
