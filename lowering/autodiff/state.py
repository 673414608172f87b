"""What one run of the autodiff pass shares: the module, functions made so far, and the errors found."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from gradopt.ir.attributes import StringAttr
from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import Diagnostic, GradoptError
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import symbols
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.deferred import DeferredRegions
from gradopt.lowering.simplify.effects import Effects

__all__ = ["State"]


class State:
    """The module being changed. `made` remembers what was derived of which function, `loop_depth` how deep in loops we are, `deferred`
    which operations of unfinished regions are hollow, `effects` what was found to be pure."""

    def __init__(self, module: Operation) -> None:
        self.module = module
        self.symbols: dict[str, Operation] = symbols(module)
        self.made: dict[Hashable, Any] = {}
        self.in_progress: list[tuple[str, Operation]] = []
        self.missing: dict[Operation, Diagnostic] = {}
        self.loop_depth = 0
        self.deferred = DeferredRegions()
        self.effects = Effects(self.symbols)

    def function(self, name: str) -> Operation | None:
        """The function of that name, if there is one with a body."""
        return self.symbols.get(name)

    def add_function(self, function: Operation, name: str, after: Operation) -> str:
        """Puts a new function behind another under `name`, or `name_1` … where that is taken; returns the name."""
        candidate, number = name, 0
        while candidate in self.symbols:
            number += 1
            candidate = f"{name}_{number}"
        function.properties = {**function.properties, "sym_name": StringAttr(candidate)}
        assert after.parent is not None
        after.parent.insert_before(after.next, function)
        self.symbols[candidate] = function
        return candidate

    def decompose(self, op: Operation, builder: Builder) -> list[Value] | None:
        """The operation's results in simpler operations; None where it has no decomposition."""
        from gradopt.lowering.decompose.pass_ import decompose_operation
        from gradopt.lowering.decompose.registry import find_decomposition

        if find_decomposition(op.name) is None:
            return None
        self.deferred.settle(op)
        return list(decompose_operation(op, builder))

    def report_missing(self, op: Operation) -> None:
        """Notes that an operation has no derivative; all are reported at once by `raise_missing`."""
        if op not in self.missing:
            self.missing[op] = Diagnostic(op.location, f"'{op.name}' op has no derivative")

    def raise_missing(self) -> None:
        """Raises GradoptError if any operation without a derivative was met."""
        if self.missing:
            places: dict[tuple[str, str], Diagnostic] = {}
            for diagnostic in self.missing.values():
                places.setdefault((diagnostic.location.text, diagnostic.message), diagnostic)
            raise GradoptError(places.values())
