"""gradopt: an MLIR-style multi-dialect compiler for derivatives.

    import gradopt

    module = gradopt.parse(text)                       # MLIR-like text to IR; raises gradopt.GradoptError
    gradopt.run_passes(module, "autodiff,decompose")   # in place
    print(module)
    f_grad = gradopt.compile(text, "f_grad")           # a callable on NumPy arrays

Whatever a user can mend is a GradoptError: with located diagnostics for text, pipelines and programs; ArgumentTypeError (also a
TypeError) and ArgumentValueError (also a ValueError) for the arguments of these functions and of compiled ones; GradoptRuntimeError
(also a RuntimeError) for a check that fails while a compiled function runs. InternalError is a mistake of gradopt's own.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradopt.dialects  # noqa: F401  (says where each dialect is found)
from gradopt.ir.diagnostics import ArgumentTypeError, ArgumentValueError, Diagnostic, GradoptError, check_type
from gradopt.ir.operation import Operation

if TYPE_CHECKING:
    from gradopt.lowering.compile import CompiledFunction
    from gradopt.lowering.native.errors import GradoptRuntimeError
    from gradopt.lowering.passes import InternalError, Item

__version__ = "0.1.0"

__all__ = ["ArgumentTypeError", "ArgumentValueError", "Diagnostic", "GradoptError", "GradoptRuntimeError", "InternalError",
           "Operation", "__version__", "compile", "parse", "run_passes", "verify"]

_LATE = {"GradoptRuntimeError": "gradopt.lowering.native.errors", "InternalError": "gradopt.lowering.passes"}


def __getattr__(name: str) -> Any:
    """Imports what is rarely needed when it is first asked for."""
    if name not in _LATE:
        raise AttributeError(f"module 'gradopt' has no attribute '{name}'")
    return getattr(importlib.import_module(_LATE[name]), name)


def parse(text: str, name: str = "<string>", *, allow_unregistered: bool = False) -> Operation:
    """Parses and verifies a module. Raises GradoptError with located diagnostics.

    `allow_unregistered` keeps operations of unknown dialects as they are written."""
    from gradopt.parser import parse_module

    check_type("gradopt.parse", "text", text, str, "text (a str)")
    check_type("gradopt.parse", "name", name, str, "the name of a file (a str)")
    module = parse_module(text, name, allow_unregistered=allow_unregistered)
    verify(module)
    return module


def verify(module: Operation) -> None:
    """Checks every rule of the declarations. Raises GradoptError with all that is wrong."""
    from gradopt.ir.verifier import verify as find_errors

    check_type("gradopt.verify", "module", module, Operation, "a module (parse a text first)")
    diagnostics = find_errors(module)
    if diagnostics:
        raise GradoptError(diagnostics)


def run_passes(module: Operation, pipeline: str | Sequence[Item]) -> Operation:
    """Runs a pipeline such as `"autodiff{func=loss wrt=w},decompose,cse"` on a module, in place, and returns it. Raises GradoptError."""
    from gradopt.lowering.passes import Nested, Pass
    from gradopt.lowering.passes import run_passes as run

    check_type("gradopt.run_passes", "module", module, Operation, "a module (parse a text first)")
    check_type("gradopt.run_passes", "pipeline", pipeline, (str, list, tuple), "the text of a pipeline, or a list of passes")
    for index, item in enumerate(() if isinstance(pipeline, str) else pipeline):
        check_type("gradopt.run_passes", f"pipeline[{index}]", item, (Pass, Nested), "a pass")
    verify(module)  # what a program did to it by hand is not the first pass's doing
    run(module, pipeline)
    return module


def compile(module: Operation | str, entry: str, *, wrt: Sequence[int | str] | None = None,
            preserve: Sequence[str] = ()) -> CompiledFunction:
    """Compiles a function of a module (or of its text) into a callable on NumPy arrays.

    `entry` may name a derivative that is not written down: `f_grad`, `f_value_and_grad`, `f_vjp`, `f_jvp`, `f_hvp` of a function `f`,
    with respect to the arguments `wrt` (positions or names; all float arguments by default). `preserve` names operations, as
    `"bwd.layer_norm_input"`, that get kernels of their own instead of being fused with others. Raises GradoptError."""
    from gradopt.lowering.compile import compile_function

    if isinstance(module, str):
        module = parse(module)
    elif isinstance(module, Operation):
        verify(module)
    return compile_function(module, entry, wrt=wrt, preserve=preserve)
