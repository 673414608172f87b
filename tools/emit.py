"""`--emit`: a module as MLIR text, as dot, as JSON, or as the code that it compiles to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Block, Operation
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


def _code(form: str) -> Callable[[Operation], str]:
    """The back end's text: the generated kernels as Python source ("numba") or machine code ("asm")."""
    def emit(module: Operation) -> str:
        try:
            from gradopt.lowering.native.emit import emit_code
        except ImportError as error:
            raise GradoptError.at(module.location, f"--emit={form} needs the native back end: {error}") from None
        text: str = emit_code(module, form)
        return text
    return emit


EMITTERS: dict[str, Callable[[Operation], str]] = {
    "dot": emit_dot, "json": emit_json, "numba": _code("numba"), "asm": _code("asm")}
