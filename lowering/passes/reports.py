"""Passes that report and change nothing: print-op-stats, view-op-graph."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from gradopt.ir.operation import Operation
from gradopt.ir.values import Value
from gradopt.lowering.passes.base import Pass, PassContext, option

__all__ = ["PrintOpStatsPass", "ViewOpGraphPass", "graph_text", "operation_counts"]


@dataclass(frozen=True)
class PrintOpStatsPass(Pass):
    """Prints how many operations of each name there are (to standard error).

    Needs: nothing. Guarantees: the IR is as it was.
    """

    name: ClassVar[str] = "print-op-stats"
    json: bool = option(False, "print JSON")

    def run(self, op: Operation, context: PassContext) -> None:
        """Counts everything inside, and the operation itself."""
        counts = operation_counts(op)
        if self.json:
            context.stream.write(json.dumps(counts, indent=2, sort_keys=True) + "\n")
            return
        width = max(len(name) for name in counts)
        context.stream.write("Operations encountered:\n-----------------------\n")
        for name, number in sorted(counts.items()):
            context.stream.write(f"  {name:<{width}} , {number}\n")


def operation_counts(op: Operation) -> dict[str, int]:
    """How many operations of each name there are inside `op`, itself included."""
    return dict(Counter(inner.name for inner in op.walk()))


@dataclass(frozen=True)
class ViewOpGraphPass(Pass):
    """Prints the operations and their data flow as a graph in the language of dot (to standard error).

    Needs: nothing. Guarantees: the IR is as it was.
    """

    name: ClassVar[str] = "view-op-graph"
    max_label: int = option(40, "cut labels to this many characters", count=True)

    def run(self, op: Operation, context: PassContext) -> None:
        """Writes the graph."""
        context.stream.write(graph_text(op, self.max_label))


def graph_text(root: Operation, max_label: int = 40) -> str:
    """The graph of `root` as dot text: a cluster a region, a node an op, an edge an operand."""
    lines = ["digraph G {", "  compound = true;", '  node [shape = "box", fontname = "monospace"];']
    nodes: dict[Value, str] = {}
    edges: list[str] = []
    numbers: dict[Operation, int] = {}
    stack: list[Operation | str] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            lines.append(item)
            continue
        numbers[item] = len(numbers)
        node = f"v{numbers[item]}"
        label = _label(item, max_label)
        lines.append(f'  {node} [label = "{label}"];')
        nodes.update(dict.fromkeys(item.results, node))
        edges += [f"  {nodes[operand]} -> {node};" for operand in item._operands if operand in nodes]
        inside: list[Operation | str] = []
        for number, region in enumerate(item.regions):
            inside.append(f'  subgraph cluster_{numbers[item]}_{number} {{ label = "{_escape(item.name)}";')
            for position, block in enumerate(region.blocks):
                for argument in block.arguments:
                    name = f"a{numbers[item]}_{number}_{position}_{argument.index}"
                    nodes[argument] = name
                    inside.append(f'  {name} [label = "{_escape(_cut(argument.type.text, max_label))}", shape = "ellipse"];')
                inside += block.operations
            inside.append("  }")
        stack += reversed(inside)
    return "\n".join([*lines, *edges, "}"]) + "\n"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(length - 1, 0)] + "…"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _label(op: Operation, length: int) -> str:
    types = ", ".join(result.type.text for result in op.results)
    return _escape(op.name) + (f"\\n{_escape(_cut(types, length))}" if types else "")
