"""Kernel source to the text of an LLVM module, by the direct front end or by numba."""

from __future__ import annotations

from collections.abc import Callable

from gradopt.lowering.native import codegen
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.frontend import compile_function, parse_functions
from gradopt.lowering.native.function_compiler import Function
from gradopt.lowering.native.intrinsics import table
from gradopt.lowering.native.program import KernelSource
from gradopt.lowering.native.values import CONTEXT, I32, I64, INT32, INT64
from llvmlite import ir

PARAMETERS = (INT64, INT64, CONTEXT)


def symbol(kernel: KernelSource) -> str:
    """The name of a kernel's function in its object file: a function of what it does."""
    return "gradopt_" + kernel.digest()[:40]


def direct_module(kernel: KernelSource) -> str:
    """Compile with the direct front end (frontend.py)."""
    functions = parse_functions(kernel.source)
    if len(functions) != 1 or functions[0].name != "kernel":
        raise KernelError(f"{kernel.name}: expected one function named kernel")
    module = ir.Module("kernel")
    function = ir.Function(module, ir.FunctionType(I32, [I64, I64, I64.as_pointer()]), symbol(kernel))
    features = codegen.host().features
    lines = kernel.source.splitlines()
    compile_function(functions[0], lines, Function(function, PARAMETERS, INT32), table(), {}, features)
    return codegen.with_layout(_body(module))


def _body(module: ir.Module) -> str:
    """The module's text without the two lines that name another target."""
    return "\n".join(line for line in str(module).splitlines() if not line.startswith("target "))


def numba_module(kernel: KernelSource) -> str:
    """Compile with numba (numba_frontend.py)."""
    from gradopt.lowering.native.numba_frontend import module_text

    return codegen.with_layout(module_text(kernel, symbol(kernel)))


FRONT_ENDS: dict[str, Callable[[KernelSource], str]] = {"direct": direct_module, "numba": numba_module}
