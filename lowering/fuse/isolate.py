"""Preserved operations: each becomes kernels of its own.

What `decompose{preserve=…}` kept whole is put into a function by itself, lowered there (to a library kernel where there is one, else
to loop nests) and taken back, so that it shares no loop with its neighbours.
"""

from __future__ import annotations

from gradopt.dialects.builtin import ModuleOp
from gradopt.dialects.func import make_function
from gradopt.ir.builder import Builder, make_operation
from gradopt.ir.cloning import inline_block
from gradopt.ir.declare import TERMINATOR
from gradopt.ir.operation import Block, Operation, new_region
from gradopt.ir.values import Value

__all__ = ["isolate_preserved"]

LOWERING = "select-kernels,decompose,canonicalize,cse,dce"


def isolate_preserved(block: Block) -> None:
    """Replaces the `hl` and `bwd` operations of a block by their kernels."""
    for op in list(block.operations):
        if op.name.split(".", 1)[0] in ("hl", "bwd") and not op.has_trait(TERMINATOR):
            isolate(op)


def isolate(op: Operation) -> None:
    """Replaces one operation by its kernels."""
    from gradopt.lowering.fuse.program import fuse_block
    from gradopt.lowering.passes import run_passes

    operands = list(dict.fromkeys(op.operands))
    types, results = [value.type for value in operands], [result.type for result in op.results]
    function = make_function("preserved", types, results)
    body = function.regions[0].block
    module = make_operation(ModuleOp, [], {}, regions=[new_region()])
    Builder(module.regions[0].block).insert(function)
    mapping: dict[Value, Value] = dict(zip(operands, body.arguments))
    b = Builder(body, location=op.location)
    b.create("func.return", b.insert(op.clone(mapping)).results)
    run_passes(module, LOWERING)
    fuse_block(body)
    op.replace_with(inline_block(body, operands, Builder(before=op, location=op.location)))
