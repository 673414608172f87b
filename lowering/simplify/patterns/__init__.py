"""The patterns of `canonicalize`: a table from an op's name to small functions. A dialect's part is loaded when first asked for.

A pattern gets an operation and a builder that stands before it. It returns None where it does not apply, the value (or values)
that replace the results, or the operation that it has put in its place by itself. It needs not look for dead operations, and a
value of another type than the result is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.ir.values import Value

__all__ = ["Outcome", "Pattern", "pattern", "patterns_for"]


Outcome: TypeAlias = Value | Sequence[Value] | Operation | None
Pattern: TypeAlias = Callable[[Any, Builder], Outcome]

_MODULES: dict[str, tuple[str, ...]] = {
    "prim": ("arithmetic", "views", "products", "control"),
    "hl": ("arithmetic", "views", "products", "control"),
    "bwd": ("adjoint",),
}
_TABLE: dict[str, tuple[Pattern, ...]] = {}
_loaded: set[str] = set()


def pattern(*names: str) -> Callable[[Pattern], Pattern]:
    """Registers a pattern for ops of these names, behind those that are there."""
    def register(function: Pattern) -> Pattern:
        for name in names:
            _TABLE[name] = (*_TABLE.get(name, ()), function)
        return function
    return register


def patterns_for(name: str) -> tuple[Pattern, ...]:
    """The patterns for ops of this name, in the order in which they are tried."""
    dialect = name.split(".", 1)[0]
    if dialect not in _loaded:
        _loaded.add(dialect)
        for module in _MODULES.get(dialect, ()):
            importlib.import_module(f"{__name__}.{module}")
    return _TABLE.get(name, ())
