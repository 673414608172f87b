"""`fuse`: `prim` to `kernel`. See `FusePass`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradopt.ir.declare import TERMINATOR
from gradopt.ir.operation import Block, Operation
from gradopt.lowering.fuse.program import fuse_block
from gradopt.lowering.passes import Pass

__all__ = ["FusePass"]


@dataclass(frozen=True)
class FusePass(Pass):
    """Turns `prim` ops into kernels: loop nests that compute chains of elementwise ops, views and reductions in one pass over memory.

    Needs: only `prim` ops in the functions with a body. Guarantees: only `kernel` ops and aliases (`prim.reshape` …) are left.

    Before:

        func.func @f(%x: tensor<4x8xf32>) -> tensor<4xf32> {
          %e = prim.exp %x : tensor<4x8xf32>
          %s = prim.reduce %e {axes = [1], kind = "sum"} : (tensor<4x8xf32>) -> tensor<4xf32>
          return %s : tensor<4xf32>
        }
    """

    name: ClassVar[str] = "fuse"

    def run(self, module: Operation, context: object = None) -> None:
        """Fuses the body of every function."""
        for op in list(module.walk()):
            if op.name == "func.func" and op.regions and op.regions[0].blocks:
                fuse_block(op.regions[0].blocks[0])


def is_terminator(op: Operation) -> bool:
    """True for the last op of a block."""
    return op.has_trait(TERMINATOR)


def block_of(function: Operation) -> Block:
    """The entry block."""
    return function.regions[0].blocks[0]
