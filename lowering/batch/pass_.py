"""The pass that writes the batch of a function."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.attributes import StringAttr, TypeAttr
from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.dialect import near_miss
from gradopt.ir.locations import fuse
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.sizes import UNKNOWN, Size, named_size
from gradopt.ir.symbols import symbol_name
from gradopt.ir.types import FunctionType, tensor
from gradopt.lowering.autodiff.cleanup import remove_dead
from gradopt.lowering.autodiff.functions import function_block
from gradopt.lowering.autodiff.state import State
from gradopt.lowering.batch.engine import PASS_NAME, BatchContext, batch_block
from gradopt.lowering.batch.registry import Batched
from gradopt.lowering.passes.base import Pass, PassContext, option
from gradopt.lowering.passes.options import OutOfRange, natural
from gradopt.lowering.tasks import run_task

__all__ = ["BatchPass", "batch_into"]


@dataclasses.dataclass(frozen=True)
class BatchPass(Pass):
    """Writes the vectorising map of a function: `@f_batch` does for a whole batch what `@f` does for one example.

    `axes` says for each argument which axis of the new argument is the batch, or `-` for one that all examples share (default: 0
    for every argument). Results have the batch in front. `size` is the batch's size: a number, a name for a dynamic size, or `?`.

    Needs: prim ops only (`decompose` first), functions of one block. Guarantees: no loop over the examples, except where an op
    has a
    random stream an example.

    Before (`batch{func=f axes=0,- size=8}`):

        func.func @f(%x: tensor<3xf32>, %w: tensor<3xf32>) -> tensor<3xf32> {
          %y = prim.mul %x, %w : tensor<3xf32>
          return %y : tensor<3xf32>
        }

    After:

        func.func @f(%x: tensor<3xf32>, %w: tensor<3xf32>) -> tensor<3xf32> {
          %y = prim.mul %x, %w : tensor<3xf32>
          return %y : tensor<3xf32>
        }
        func.func @f_batch(%x: tensor<8x3xf32>, %w: tensor<3xf32>) -> tensor<8x3xf32> {
          %0 = prim.expand %w {axes = [0]} : (tensor<3xf32>) -> tensor<8x3xf32>
          %1 = prim.mul %x, %0 : tensor<8x3xf32>
          return %1 : tensor<8x3xf32>
        }
    """

    name: ClassVar[str] = "batch"
    anchor: ClassVar[str | None] = "builtin.module"
    func: str = option("", "the function to batch")
    axes: tuple[int | str, ...] = option((), "the batch axis of each argument, or -; 0 for all by default")
    size: str = option("batch", "the size of the batch: a number, a name, or ?")

    def run(self, op: Operation, context: PassContext) -> None:
        state = State(op)
        name = self.func.removeprefix("@")
        if not name:
            raise GradoptError.at(op.location, "pass 'batch' needs the option 'func': the function to batch")
        function = state.function(name)
        if function is None:
            raise GradoptError.at(op.location, f"there is no function '@{name}'{near_miss(name, state.symbols)}")
        batch_into(state, function, self.axes, parse_batch_size(self.size, function), f"{name}_batch")
        context.count("functions batched")


def parse_batch_size(text: str, function: Operation) -> Size:
    """A number, UNKNOWN for `?`, else a named size. Raises GradoptError."""
    if text == "?":
        return UNKNOWN
    try:
        return natural(text)
    except OutOfRange:
        raise GradoptError.at(function.location, f"the batch's size is {text}, expected an integer from 0 to 2^63 - 1") from None
    except ValueError:
        if not text.isidentifier():
            raise GradoptError.at(function.location, f"the batch's size is '{text}', expected a number, a name or ?") from None
    return named_size(text)


def check_axes(function: Operation, axes: tuple[int | str, ...]) -> list[int | None]:
    """One entry an argument: an axis, or None. Raises GradoptError."""
    arguments = function_block(function, function.location, "batch").arguments
    name = symbol_name(function)
    if not axes:
        return [0] * len(arguments)
    if len(axes) != len(arguments):
        raise GradoptError.at(function.location, f"'@{name}' has {len(arguments)} arguments, but axes has {len(axes)} entries")
    found: list[int | None] = []
    for argument, axis in zip(arguments, axes):
        rank = tensor_type(argument).rank
        if axis == "-":
            found.append(None)
        elif isinstance(axis, int) and 0 <= axis <= rank:
            found.append(axis)
        else:
            raise GradoptError.at(function.location, f"argument {argument.index} of '@{name}' has axis {axis}, expected - or "
                                  f"a value in [0, {rank}]")
    if all(axis is None for axis in found):
        raise GradoptError.at(function.location, f"no argument of '@{name}' is batched")
    return found


def batch_into(state: State, function: Operation, axes: tuple[int | str, ...], size: Size, name: str) -> Operation:
    """Adds the batch of a function to the module."""
    chosen = check_axes(function, axes)
    old = function_block(function, function.location, "batch")
    types = []
    for argument, axis in zip(old.arguments, chosen):
        one = tensor_type(argument)
        types.append(one if axis is None else tensor([*one.dims[:axis], size, *one.dims[axis:]], one.element))
    block = Block(types)
    for new, source in zip(block.arguments, old.arguments):
        new.name = source.name
    builder = Builder(block, location=fuse(function.location, PASS_NAME))
    witness = next(value for value, axis in zip(block.arguments, chosen) if axis is not None)
    context = BatchContext(state, builder, size, witness)
    arguments = [Batched(value, False) if axis is None else Batched(context.front(value, axis), True)
                 for value, axis in zip(block.arguments, chosen)]
    context.witness = next(argument.value for argument in arguments if argument.batched)
    values = run_task(batch_block(state, old, block, arguments, size))
    builder.create("func.return", [context.spread(value) for value in values])
    assert block.last is not None
    remove_dead(block, state)
    properties = {key: value for key, value in function.properties.items() if key not in ("arg_attrs", "res_attrs")}
    properties["function_type"] = TypeAttr(FunctionType(tuple(types), tuple(value.type for value in block.last.operands)))
    properties["sym_name"] = StringAttr(name)
    made = type(function)((), (), properties, {}, [Region([block])], (), fuse(function.location, PASS_NAME))
    state.add_function(made, name, function)
    return made
