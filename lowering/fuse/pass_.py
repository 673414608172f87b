"""`fuse`: `prim` to `kernel`. See `FusePass`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradopt.dialects.func import CallOp
from gradopt.ir.declare import InvalidOperation
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.lowering.passes import Pass, PassContext

__all__ = ["FusePass"]


@dataclass(frozen=True)
class FusePass(Pass):
    """Turns `prim` ops into kernels: loop nests that compute chains of elementwise ops, views and reductions in one pass over memory.

    What `decompose{preserve=…}` kept whole gets kernels of its own, which share no loop with others (`isolate.py`).

    What is stored is decided by `roots.py`, what shares a nest by `cluster.py`, its loops by `schedule.py`. Unknown sizes get names first.

    Needs: only `prim` ops and preserved ones in functions that call no other. Guarantees: no elementwise op, reduction,
    product or view is left but those that share their operand's memory (`prim.reshape` …).

    Before:

        func.func @f(%x: tensor<4x64xf32>) -> tensor<4xf32> {
          %e = prim.exp %x : tensor<4x64xf32>
          %s = prim.reduce %e {axes = [1], kind = "sum"} : (tensor<4x64xf32>) -> tensor<4xf32>
          return %s : tensor<4xf32>
        }

    After:

        func.func @f(%x: tensor<4x64xf32>) -> tensor<4xf32> {
          %s = kernel.nest %x {grain = [170], outer = [4]} ({
          ^bb0(%arg0: tensor<4x64xf32>, %arg1: tensor<4xf32>, %d0: index):
            %0 = kernel.reduce {inner = [64], kinds = ["sum"]} ({
            ^bb0(%d1: index):
              %1 = kernel.read %arg0, %d0, %d1 {map = affine_map<(d0, d1) -> (d0 * 64 + d1)>} : (tensor<4x64xf32>, index, index) -> tensor<f32>
              %2 = prim.exp %1 : tensor<f32>
              kernel.yield %2 : tensor<f32>
            }) : tensor<f32>
            kernel.write %0, %arg1, %d0 {map = affine_map<(d0) -> (d0)>} : (tensor<f32>, tensor<4xf32>, index) -> ()
            kernel.yield
          }) : (tensor<4x64xf32>) -> tensor<4xf32>
          return %s : tensor<4xf32>
        }
    """

    name: ClassVar[str] = "fuse"

    def run(self, op: Operation, context: PassContext) -> None:
        """Fuses the body of every function. Raises GradoptError where the sizes of one are not known from its arguments."""
        from gradopt.lowering.fuse.program import fuse_block
        from gradopt.lowering.naming import name_sizes
        from gradopt.lowering.runnable import check_sizes, only_block, unknown_sizes

        functions = [function for function in op.walk() if function.name == "func.func" and function.regions[0].blocks]
        for function in functions:
            only_block(function, function.regions[0])
            name_sizes(function)
        _check_calls(op)
        for function in functions:
            errors = unknown_sizes(function)
            fuse_block(function.regions[0].block)
            check_sizes(function, errors)
            context.count("functions")


def _check_calls(op: Operation) -> None:
    """Raises GradoptError for a call of a function whose type has changed with the names of its sizes."""
    for call in op.walk():
        if isinstance(call, CallOp):
            try:
                call.verify()
            except InvalidOperation as error:
                raise GradoptError.at(call.location, f"'func.call' op {error.message} (fuse names sizes, in functions that call no other: "
                                                     "the pass 'inline' comes before it)") from None
