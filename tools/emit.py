"""`--emit`: a module as MLIR text, as StableHLO, as Python that builds it, as dot, as JSON, or as the code that it compiles to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gradopt.ir.operation import Block, Operation
from gradopt.ir.symbols import symbols
from gradopt.ir.values import Value

__all__ = ["EMITTERS", "emit_json"]


def emit_dot(module: Operation) -> str:
    """The data flow as a graph."""
    from gradopt.lowering.passes.reports import graph_text

    return graph_text(module)


def emit_json(module: Operation) -> str:
    """All operations in a flat list, parents first. Values and blocks are numbers; `parent` is the block an op stands in."""
    values: dict[Value, int] = {}
    blocks: dict[Block, int] = {}
    records: list[dict[str, Any]] = []

    def number(value: Value) -> int:
        return values.setdefault(value, len(values))

    def describe(value: Value) -> dict[str, Any]:
        return {"id": number(value), "type": value.type.text, "name": value.name}

    def place(block: Block) -> int:
        return blocks.setdefault(block, len(blocks))

    for op in module.walk():
        regions = [[{"id": place(block), "arguments": [describe(argument) for argument in block.arguments]}
                    for block in region.blocks] for region in op.regions]
        records.append({
            "name": op.name, "parent": None if op.parent is None else place(op.parent),
            "operands": [number(operand) for operand in op.operands],
            "results": [describe(result) for result in op.results],
            "properties": {name: value.text for name, value in sorted(op.properties.items())},
            "attributes": {name: value.text for name, value in sorted(op.attributes.items())},
            "successors": [place(block) for block in op.successors], "regions": regions, "location": op.location.text})
    return json.dumps({"operations": records}, indent=1) + "\n"


def emit_stablehlo(module: Operation) -> str:
    """The module in StableHLO, in MLIR's generic form."""
    from gradopt.ir.printer import print_operation
    from gradopt.lowering.export.stablehlo import to_stablehlo

    return print_operation(to_stablehlo(module), generic=True)


def emit_python(module: Operation) -> str:
    """Python that builds the module."""
    from gradopt.tools.python_source import python_source

    return python_source(module)


def emit_numba(module: Operation) -> str:
    """The kernels of every function of the module as the Python source that is compiled."""
    return _kernels(module, "#", lambda kernel: str(kernel.source).strip("\n") + "\n")


def emit_asm(module: Operation) -> str:
    """The kernels of every function as machine code of this processor."""
    from gradopt.lowering.native.codegen import assembly
    from gradopt.lowering.native.compile import front_end_name
    from gradopt.lowering.native.kernels import FRONT_ENDS

    translate = FRONT_ENDS[front_end_name()]
    return _kernels(module, "#", lambda kernel: assembly(translate(kernel), kernel.vectorise))


def _kernels(module: Operation, comment: str, text: Callable[[Any], str]) -> str:
    """Compiles each public function down to a native program and shows its kernels, equal ones once."""
    from gradopt.lowering.compile import kernel_program
    from gradopt.lowering.plan.program import make_program
    from gradopt.lowering.simplify.symbol_dce import is_private

    pieces = []
    functions = [name for name, op in symbols(module).items() if op.name == "func.func" and not is_private(op)]
    for name in functions:
        _, function, _ = kernel_program(module, name)
        program = make_program(function, name)
        pieces.append(f"{comment} @{name}: {len(program.kernels)} kernels\n")
        shown: dict[str, str] = {}
        for kernel in program.kernels:
            same = shown.setdefault(kernel.digest(), kernel.name)
            heading = f"\n{comment} {kernel.name}"
            pieces.append(f"{heading}: the same as {same}\n" if same != kernel.name else f"{heading}\n{text(kernel)}")
        pieces.append("\n")
    return "".join(pieces)


EMITTERS: dict[str, Callable[[Operation], str]] = {
    "stablehlo": emit_stablehlo, "python": emit_python, "dot": emit_dot, "json": emit_json, "numba": emit_numba, "asm": emit_asm}
