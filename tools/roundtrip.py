"""`--verify-roundtrip`: what is printed reads back in and prints the same, in both forms."""

from __future__ import annotations

import difflib

from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.ir.printer import print_operation

__all__ = ["check_roundtrip"]


def check_roundtrip(module: Operation, allow_unregistered: bool = False) -> None:
    """Raises GradoptError with the first lines that differ."""
    from gradopt.parser import parse_module

    for generic in (True, False):
        form = "generic" if generic else "pretty"
        first = print_operation(module, generic=generic)
        try:
            again = parse_module(first, f"<{form} form>", allow_unregistered=allow_unregistered)
        except GradoptError as error:
            for diagnostic in error.diagnostics:
                diagnostic.note(module.location, f"the {form} form that was printed does not read back in")
            raise
        second = print_operation(again, generic=generic)
        if second != first:
            lines = list(difflib.unified_diff(first.splitlines(), second.splitlines(), "printed", "again", lineterm="", n=0))
            raise GradoptError.at(module.location, f"the {form} form does not print the same after reading it back in:\n"
                                                   + "\n".join(lines[:12]))
