"""From a module to a callable: the whole pipeline. See `compile_function`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradopt.ir.diagnostics import ArgumentTypeError, GradoptError, check_type
from gradopt.ir.dialect import near_miss
from gradopt.ir.operation import Operation
from gradopt.ir.types import Type
from gradopt.lowering.entry import derivative_pass, function_with_body

if TYPE_CHECKING:
    from gradopt.lowering.native.program import Program

__all__ = ["CompiledFunction", "compile_function", "kernel_program"]

LOOPS = frozenset({"hl.scan", "hl.for", "hl.while", "prim.scan", "prim.while"})


class CompiledFunction:
    """A compiled function: call it with NumPy arrays, one an argument, by position or by name; it returns an array, or a tuple where
    there are several results.

    `argument_names`, `argument_types` and `result_types` describe the call, `timings` (seconds a stage) how it was made,
    `program` is the native program and `module` the kernels it was made from.
    """

    def __init__(self, module: Operation, function: Operation, program: Program, timings: dict[str, float]) -> None:
        from gradopt.lowering.native.errors import GradoptRuntimeError
        from gradopt.lowering.native.executable import Executable

        self._failure = GradoptRuntimeError
        start = time.perf_counter()
        self.executable = Executable(program)
        block = function.regions[0].block
        self.module, self.program = module, program
        self.argument_names = [argument.name or f"arg{index}" for index, argument in enumerate(block.arguments)]
        self.argument_types: list[Type] = [argument.type for argument in block.arguments]
        assert block.last is not None
        self.result_types: list[Type] = [operand.type for operand in block.last.operands]
        self.timings = {**timings, "native": time.perf_counter() - start}
        self.__name__ = program.name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The results. Raises what `Executable` raises; a failing check says which op it is."""
        if named:
            arguments = self._in_order(arguments, named)
        try:
            return self.executable(*arguments)
        except self._failure as error:
            from gradopt.lowering.plan.checks import explained

            raise explained(error, self.program.checks) from None

    def _in_order(self, arguments: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call by position. Raises ArgumentTypeError."""
        names = self.argument_names
        for name in named:
            if name not in names:
                raise ArgumentTypeError(f"{self.__name__} has no argument '{name}'{near_miss(name, names)}; "
                                        f"it has {', '.join(names) or 'none'}")
            if name in names[:len(arguments)]:
                raise ArgumentTypeError(f"{self.__name__}: argument '{name}' is given twice, by position and by name")
        missing = [name for name in names[len(arguments):] if name not in named]
        if missing:
            raise ArgumentTypeError(f"{self.__name__} takes {', '.join(names)}; found no {', '.join(missing)}")
        return (*arguments, *(named[name] for name in names[len(arguments):]))

    def __repr__(self) -> str:
        arguments = ", ".join(f"%{name}: {type.text}" for name, type in zip(self.argument_names, self.argument_types))
        return f"<compiled function @{self.__name__}({arguments}) -> ({', '.join(type.text for type in self.result_types)})>"

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(f"{self.__name__}: a compiled function cannot be copied or pickled: machine code belongs to its process. "
                                "Pass on the text of the module and compile it there; the kernels come from the cache")

    def peak_bytes(self, *arguments: Any) -> int:
        """The planned memory of a call beyond its arguments; a function with dynamic sizes needs the arguments."""
        return self.executable.peak_bytes(*arguments)


def compile_function(module: Operation, entry: str, *, wrt: Sequence[int | str] | None = None,
                     pipeline: str | None = None, preserve: Sequence[str] = ()) -> CompiledFunction:
    """Compiles function `entry` of a module (which is not changed).

    An entry that is not there but is called `f_grad`, `f_value_and_grad`, `f_vjp`, `f_jvp` or `f_hvp` is made by differentiation of `f`
    with respect to `wrt`. `pipeline` replaces the passes between differentiation and fusion. `preserve` names `hl` and `bwd` operations
    that are not decomposed among the others, but get kernels of their own.
    Raises GradoptError for an unknown entry, for what the passes report, and (as ArgumentTypeError and ArgumentValueError) for
    arguments that are no such things."""
    check_type("gradopt.compile", "module", module, Operation, "a module or its text")
    check_type("gradopt.compile", "entry", entry, str, "the name of a function")
    check_type("gradopt.compile", "preserve", preserve, (list, tuple, set, frozenset), "a list of names of operations")
    for index, name in enumerate(preserve):
        check_type("gradopt.compile", f"preserve[{index}]", name, str, "the name of an operation")
    if module.name != "builtin.module":
        raise GradoptError.at(module.location, f"gradopt.compile takes a 'builtin.module' op, found '{module.name}'")
    entry = entry.removeprefix("@")
    module, function, timings = kernel_program(module, entry, wrt=wrt, pipeline=pipeline, preserve=preserve)
    from gradopt.lowering.plan.program import make_program

    start = time.perf_counter()
    program = make_program(function, entry)
    timings["plan"] = time.perf_counter() - start
    return CompiledFunction(module, function, program, timings)


def kernel_program(module: Operation, entry: str, *, wrt: Sequence[int | str] | None = None,
                   pipeline: str | None = None,
                   preserve: Sequence[str] = ()) -> tuple[Operation, Operation, dict[str, float]]:
    """(a new module in which `entry` is made of kernels, that function, seconds a pass)."""
    from gradopt.lowering.fuse.program import fuse_block
    from gradopt.lowering.naming import name_sizes
    from gradopt.lowering.passes import Item, run_passes
    from gradopt.lowering.runnable import check_elements, check_sizes, only_block, unknown_sizes

    timings: dict[str, float] = {}

    def run(name: str, passes: str | Sequence[Item]) -> None:
        start = time.perf_counter()
        run_passes(module, passes)
        timings[name] = timings.get(name, 0.0) + time.perf_counter() - start

    derivative = derivative_pass(module, entry, wrt)
    module = module.clone()
    if any(op.name in LOOPS for op in module.walk()):
        run("licm", "licm")  # before differentiation, so that neither direction computes in each step what all steps share
    if derivative is not None:
        run("autodiff", [derivative])
    elif any(op.name.startswith("ad.") for op in module.walk()):
        run("autodiff", "autodiff")
    function = function_with_body(module, entry)
    only_block(function, function.regions[0])
    keep_only(module, function)
    run("inline", "inline{custom-derivatives=true}")
    if any(op.name == "hl.checkpoint_begin" for op in function.walk()):
        run("checkpoint", "checkpoint")
    check_elements(function)
    name_sizes(function)
    kept = f"{{preserve={','.join(preserve)}}}" if preserve else ""
    for passes in (pipeline or DEFAULT_PIPELINE.replace("decompose", f"decompose{kept}")).split(";"):
        run(passes.split("{")[0], passes)
    errors = unknown_sizes(function)
    start = time.perf_counter()
    fuse_block(function.regions[0].block)
    check_sizes(function, errors)
    timings["fuse"] = time.perf_counter() - start
    return module, function, timings


DEFAULT_PIPELINE = "select-kernels;decompose;canonicalize;cse;dce;scan-residuals;scan-fission"


def keep_only(module: Operation, function: Operation) -> None:
    """Makes every other function private and `function` public, so that `inline` and `symbol-dce` may do their work."""
    from gradopt.ir.attributes import StringAttr

    for op in module.regions[0].block.operations:
        if op.name == "func.func":
            properties = {name: value for name, value in op.properties.items() if name != "sym_visibility"}
            if op is not function:
                properties["sym_visibility"] = StringAttr("private")
            op.properties = properties
