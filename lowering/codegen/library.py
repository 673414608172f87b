"""Library kernels: ops that are not loop nests. `LIBRARY[op name](op)` gives the launches, in order.

Register one with `@library("prim.scatter")`; its source is text in the language of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size
from gradopt.ir.values import Value

__all__ = ["LIBRARY", "Launch", "library"]


@dataclass
class Launch:
    """One run of a kernel over `extent` points in chunks of `grain`; `operands` are the values in the slots (inputs, results, and
    temporaries: values that belong to no op)."""

    source: str
    extent: Size
    grain: Size
    operands: Sequence[Value]
    parameters: Sequence[Size] = field(default_factory=list)
    scratch_bytes: int = 0


LIBRARY: dict[str, Callable[[Operation], list[Launch]]] = {}


def library(*names: str) -> Callable[[Callable[[Operation], list[Launch]]], Callable[[Operation], list[Launch]]]:
    """Registers the launches of ops."""
    def register(rule: Callable[[Operation], list[Launch]]) -> Callable[[Operation], list[Launch]]:
        LIBRARY.update(dict.fromkeys(names, rule))
        return rule
    return register
