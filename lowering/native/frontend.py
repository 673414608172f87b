"""A direct front end: the language of kernels (a small part of Python) to LLVM IR, without numba.

The driver and the pool are written in the same language and compiled here, so that running a program needs no numba
at all, and kernels may be: typing a kernel takes numba 30 ms and this front end 3 ms.  The text is parsed with `ast`
and never executed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.function_compiler import Function, FunctionCompiler
from gradopt.lowering.native.intrinsics import CONSTANTS
from gradopt.lowering.native.values import Emission, Intrinsic
from llvmlite import ir


def parse_functions(source: str) -> list[ast.FunctionDef]:
    """The functions of a text; raises KernelError for anything else in it."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise KernelError(f"line {error.lineno}: {error.msg}: {(error.text or '').strip()}") from None
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            raise KernelError(f"line {node.lineno}: expected a function, found {type(node).__name__}")
        arguments = node.args
        if arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg or arguments.defaults:
            raise KernelError(f"line {node.lineno}: only plain parameters are allowed")
        annotated = node.returns or any(argument.annotation for argument in arguments.args)
        if node.decorator_list or annotated:
            raise KernelError(f"line {node.lineno}: decorators and annotations are not allowed")
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def compile_function(
    node: ast.FunctionDef,
    lines: Sequence[str],
    function: Function,
    intrinsics: Mapping[str, Intrinsic],
    functions: Mapping[str, Function],
    features: str = "",
    constants: Mapping[str, int | float] = CONSTANTS,
) -> None:
    """Give a declared LLVM function its body."""
    builder = ir.IRBuilder(function.function.append_basic_block("entry"))
    emission = Emission(builder, features)
    compiler = FunctionCompiler(emission, function.result, intrinsics, functions, lines, constants)
    names = [argument.arg for argument in node.args.args]
    if len(names) != len(function.parameters):
        raise KernelError(f"line {node.lineno}: {node.name} must have {len(function.parameters)} parameters, found {len(names)}")
    body = builder.append_basic_block("start")
    builder.branch(body)
    builder.position_at_end(body)
    for name, type_, register in zip(names, function.parameters, function.function.args, strict=True):
        compiler.bind_parameter(name, type_, register)
    compiler.block(node.body)
    if not builder.block.is_terminated:
        if not _is_reachable(builder.block):
            builder.unreachable()
        else:
            raise KernelError(f"line {node.lineno}: {node.name} must end with a return")
    emission.finish(function.function.name)


def _is_reachable(block: ir.Block) -> bool:
    """Whether a function's last block has a predecessor (the end of an `if` whose two branches return has none)."""
    return any(
        block in getattr(other.terminator, "operands", ()) for other in block.function.blocks if other.terminator is not None
    )
