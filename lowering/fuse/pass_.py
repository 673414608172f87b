"""`fuse`: `prim` to `kernel`. See `FusePass`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradopt.ir.operation import Operation
from gradopt.lowering.passes import Pass, PassContext

__all__ = ["FusePass"]


@dataclass(frozen=True)
class FusePass(Pass):
    """Turns `prim` ops into kernels: loop nests that compute chains of elementwise ops, views and reductions in one pass over memory.

    What is stored is decided by `roots.py`, what shares a nest by `cluster.py`, its loops by `schedule.py`. Unknown sizes get names first.

    Needs: only `prim` ops (and preserved ones with a kernel) in functions that call no other. Guarantees: no elementwise op, reduction,
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
        """Fuses the body of every function."""
        from gradopt.lowering.fuse.program import fuse_block
        from gradopt.lowering.naming import name_sizes
        from gradopt.lowering.runnable import only_block

        for function in list(op.walk()):
            if function.name == "func.func" and function.regions[0].blocks:
                block = only_block(function, function.regions[0])
                name_sizes(function)
                fuse_block(block)
                context.count("functions")
