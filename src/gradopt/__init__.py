"""gradopt: an MLIR-style multi-dialect compiler for derivatives.

    import gradopt

    module = gradopt.parse(text)                       # MLIR-like text to IR; raises gradopt.GradoptError
    gradopt.run_passes(module, "autodiff,decompose")   # in place
    print(module)
    f_grad = gradopt.compile(text, "f_grad")           # a callable on NumPy arrays
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import gradopt.dialects  # noqa: F401  (says where each dialect is found)
from gradopt.ir.diagnostics import Diagnostic, GradoptError
from gradopt.ir.operation import Operation

if TYPE_CHECKING:
    from gradopt.lowering.compile import CompiledFunction

__version__ = "0.1.0"

__all__ = ["Diagnostic", "GradoptError", "Operation", "__version__", "compile", "parse", "run_passes", "verify"]


def parse(text: str, name: str = "<string>", *, allow_unregistered: bool = False) -> Operation:
    """Parses and verifies a module. Raises GradoptError with located diagnostics.

    `allow_unregistered` keeps operations of unknown dialects as they are written."""
    from gradopt.parser import parse_module

    module = parse_module(text, name, allow_unregistered=allow_unregistered)
    verify(module)
    return module


def verify(module: Operation) -> None:
    """Checks every rule of the declarations. Raises GradoptError with all that is wrong."""
    from gradopt.ir.verifier import verify as find_errors

    diagnostics = find_errors(module)
    if diagnostics:
        raise GradoptError(diagnostics)


def run_passes(module: Operation, pipeline: str) -> Operation:
    """Runs a pipeline such as `"autodiff{func=loss wrt=w},decompose,cse"` on a module, in place, and returns it. Raises GradoptError."""
    from gradopt.lowering.passes import run_passes as run

    run(module, pipeline)
    return module


def compile(module: Operation | str, entry: str, *, wrt: Sequence[int | str] | None = None,
            preserve: Sequence[str] = ()) -> CompiledFunction:
    """Compiles a function of a module (or of its text) into a callable on NumPy arrays.

    `entry` may name a derivative that is not written down: `f_grad`, `f_value_and_grad`, `f_vjp`, `f_jvp`, `f_hvp` of a function `f`,
    with respect to the arguments `wrt` (positions or names; all float arguments by default). `preserve` names operations, as
    `"bwd.layer_norm_input"`, that get kernels of their own instead of being fused with others. Raises GradoptError."""
    from gradopt.lowering.compile import compile_function

    return compile_function(parse(module) if isinstance(module, str) else module, entry, wrt=wrt, preserve=preserve)
