"""Which function a name asks for: one of the module, or a derivative that is made when it is asked for."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING

from gradopt.ir.diagnostics import ArgumentTypeError, ArgumentValueError, GradoptError
from gradopt.ir.dialect import near_miss
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import lookup_symbol, symbols

if TYPE_CHECKING:
    from gradopt.lowering.passes import Pass

__all__ = ["MODES", "chosen_arguments", "derivative_pass", "derivative_request", "function_with_body"]

MODES = ("value_and_grad", "grad", "vjp", "jvp", "hvp")  # longest suffix first


def derivative_request(module: Operation, entry: str) -> tuple[str, str] | None:
    """(function, mode) where `entry` is not in the module but names a derivative of a function that is: `f_value_and_grad`."""
    known = symbols(module)
    if entry in known:
        return None
    for mode in MODES:
        name = entry.removesuffix("_" + mode)
        if name != entry and name in known:
            return name, mode
    return None


def derivative_pass(module: Operation, entry: str, wrt: object) -> Pass | None:
    """The pass that makes `entry`, where that is a derivative which is not written down. Raises ArgumentValueError for a `wrt` that
    would be without effect."""
    chosen, request = chosen_arguments(wrt), derivative_request(module, entry)
    if request is not None:
        from gradopt.lowering.autodiff.pass_ import AutodiffPass

        return AutodiffPass(func=request[0], mode=request[1], wrt=chosen)
    if chosen and entry in symbols(module):
        raise ArgumentValueError(f"wrt is given, but '@{entry}' is a function of the module, not a derivative that is made now: "
                                 f"ask for {entry}_grad or the like")
    return None


def function_with_body(module: Operation, entry: str) -> Operation:
    """The function of that name. Raises GradoptError where there is none, or only a declaration."""
    function = lookup_symbol(module, entry)
    if function is None or not function.regions or not function.regions[0].blocks:
        functions = [name for name, op in symbols(module).items() if op.name == "func.func" and name != entry]
        known = functions + [f"{name}_{mode}" for name in functions for mode in MODES]
        raise GradoptError.at(module.location, f"there is no function '@{entry}' with a body{near_miss(entry, known)}")
    return function


def chosen_arguments(wrt: object) -> tuple[int | str, ...]:
    """`wrt` as positions and names; empty for None. Raises ArgumentTypeError and ArgumentValueError."""
    call, expected = "gradopt.compile: argument 'wrt'", "a list of positions or names"
    if wrt is None:
        return ()
    if isinstance(wrt, (str, int)):
        raise ArgumentTypeError(f"{call}: expected {expected}, found {wrt!r}: write wrt=[{wrt!r}]")
    if isinstance(wrt, (bytes, Set, Mapping)) or not isinstance(wrt, Iterable):
        raise ArgumentTypeError(f"{call}: expected {expected}, found {type(wrt).__name__}")
    chosen = tuple(_place(entry, call, expected) for entry in wrt)
    if not chosen:
        raise ArgumentValueError(f"{call}: expected {expected}, found an empty one; leave it out for all float arguments")
    return chosen


def _place(entry: object, call: str, expected: str) -> int | str:
    if isinstance(entry, str):
        return entry
    if isinstance(entry, bool) or not hasattr(entry, "__index__"):
        raise ArgumentTypeError(f"{call}: expected {expected}, found an entry {entry!r} of type {type(entry).__name__}")
    return operator.index(entry)
