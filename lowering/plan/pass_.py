"""`plan`: where each kernel's operands and results lie in memory. See `PlanPass`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from gradopt.ir.attributes import IntegerAttr
from gradopt.ir.operation import Operation
from gradopt.ir.types import I64, literal
from gradopt.ir.values import Value
from gradopt.lowering.native.program import Argument, Constant, Point, Program, Result, SizeRef, Temporary
from gradopt.lowering.passes import Pass, PassContext

__all__ = ["PlanPass", "annotate"]


@dataclass(frozen=True)
class PlanPass(Pass):
    """Writes down the memory of a function of kernels: which buffer holds each result, and how large the arena of temporaries is.

    Temporaries that live at different times share memory. `plan.memory` has an entry for each result of an op: the number of a function
    result, the offset of a temporary in the arena (`?` where the size is known only at run time), or in a result that is written after it.

    Needs: functions that `fuse` has made. Guarantees: attributes only; the operations stay as they are.

    Before:

        func.func @f(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
          %p = kernel.nest %x, %w {grain = [8], outer = [8]} ({
          ^bb0(%a: tensor<8x4xf32>, %b: tensor<4x4xf32>, %c: tensor<8x4xf32>, %d0: index):
            kernel.gemm %a, %b, %c {lhs_strides = [4, 1], offsets = [0, 0], rhs_strides = [4, 1], sizes = [8, 4, 4]} : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) -> ()
            kernel.yield
          }) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
          %q = kernel.nest %p, %w {grain = [8], outer = [8]} ({
          ^bb0(%a: tensor<8x4xf32>, %b: tensor<4x4xf32>, %c: tensor<8x4xf32>, %d0: index):
            kernel.gemm %a, %b, %c {lhs_strides = [4, 1], offsets = [0, 0], rhs_strides = [4, 1], sizes = [8, 4, 4]} : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) -> ()
            kernel.yield
          }) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
          return %q : tensor<8x4xf32>
        }

    After:

        func.func @f(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> attributes {plan.arena_bytes = 128 : i64} {
          %p = kernel.nest %x, %w {grain = [8], outer = [8], plan.memory = ["arena 0"]} ({
          ^bb0(%a: tensor<8x4xf32>, %b: tensor<4x4xf32>, %c: tensor<8x4xf32>, %d0: index):
            kernel.gemm %a, %b, %c {lhs_strides = [4, 1], offsets = [0, 0], rhs_strides = [4, 1], sizes = [8, 4, 4]} : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) -> ()
            kernel.yield
          }) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
          %q = kernel.nest %p, %w {grain = [8], outer = [8], plan.memory = ["result 0"]} ({
          ^bb0(%a: tensor<8x4xf32>, %b: tensor<4x4xf32>, %c: tensor<8x4xf32>, %d0: index):
            kernel.gemm %a, %b, %c {lhs_strides = [4, 1], offsets = [0, 0], rhs_strides = [4, 1], sizes = [8, 4, 4]} : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) -> ()
            kernel.yield
          }) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
          return %q : tensor<8x4xf32>
        }
    """

    name: ClassVar[str] = "plan"

    def run(self, op: Operation, context: PassContext) -> None:
        """Annotates every function with a body."""
        from gradopt.lowering.plan.program import ProgramMaker

        for function in list(op.walk()):
            if function.name == "func.func" and function.regions[0].blocks:
                maker = ProgramMaker(function, "plan")
                program = maker.make()
                annotate(function, maker.index, program)
                if isinstance(program.arena_bytes, int):
                    context.count("arena bytes", program.arena_bytes)


def annotate(function: Operation, index: dict[Value, int], program: Program) -> None:
    """Puts the memory of each result beside the op that makes it."""
    size = program.arena_bytes
    function.attributes = {**function.attributes, "plan.arena_bytes": IntegerAttr(size, I64) if isinstance(size, int) else literal("?")}
    for op in function.walk():
        places = [index.get(result) for result in op.results]
        if op is not function and places and None not in places:
            texts = [describe(program, place) for place in places if place is not None]
            op.attributes = {**op.attributes, "plan.memory": literal(texts)}


def describe(program: Program, place: int) -> str:
    """`arena 128`, `result 0`, `result 0 at 128`, `argument 1`, `constant`."""
    buffer = program.buffers[place]
    hosts = {each.window: each for each in itertools.takewhile(lambda each: isinstance(each, Point), program.instructions)
             if isinstance(each, Point)}
    if place in hosts:
        return f"result {program.results.index(hosts[place].base)} at {hosts[place].offset}"
    if isinstance(buffer, Temporary):
        return "arena ?" if isinstance(buffer.offset, SizeRef) else f"arena {buffer.offset}"
    if isinstance(buffer, Result):
        return f"result {program.results.index(place)}"
    if isinstance(buffer, Argument):
        return f"argument {program.arguments.index(place)}"
    assert isinstance(buffer, Constant)
    return "constant"
