"""From a module to a callable: the whole pipeline. See `compile_function`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.dialect import near_miss
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import lookup_symbol, symbols
from gradopt.ir.types import Type

if TYPE_CHECKING:
    from gradopt.lowering.native.program import Program

__all__ = ["MODES", "CompiledFunction", "compile_function", "derivative_request", "kernel_program"]

MODES = ("value_and_grad", "grad", "vjp", "jvp", "hvp")  # longest suffix first


class CompiledFunction:
    """A compiled function: call it with NumPy arrays, one an argument; it returns an array, or a tuple where there are several results.

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

    def __call__(self, *arguments: Any) -> Any:
        """The results. Raises what `Executable` raises; a failing check says which op it is."""
        try:
            return self.executable(*arguments)
        except self._failure as error:
            from gradopt.lowering.plan.checks import explained

            raise explained(error, self.program.checks) from None

    def peak_bytes(self, *arguments: Any) -> int:
        """The planned memory of a call beyond its arguments; a function with dynamic sizes needs the arguments."""
        return self.executable.peak_bytes(*arguments)


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


def compile_function(module: Operation, entry: str, *, wrt: Sequence[int | str] | None = None,
                     pipeline: str | None = None, preserve: Sequence[str] = ()) -> CompiledFunction:
    """Compiles function `entry` of a module (which is not changed).

    An entry that is not there but is called `f_grad`, `f_value_and_grad`, `f_vjp`, `f_jvp` or `f_hvp` is made by differentiation of `f`
    with respect to `wrt`. `pipeline` replaces the passes between differentiation and fusion. `preserve` names `hl` and `bwd` operations
    that are not decomposed among the others, but get kernels of their own.
    Raises GradoptError for an unknown entry and for what the passes report."""
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
    from gradopt.lowering.passes import run_passes
    from gradopt.lowering.runnable import check_elements, check_sizes, only_block, unknown_sizes

    timings: dict[str, float] = {}

    def run(passes: str) -> None:
        start = time.perf_counter()
        run_passes(module, passes)
        timings[passes.split("{")[0]] = timings.get(passes.split("{")[0], 0.0) + time.perf_counter() - start

    request = derivative_request(module, entry)
    module = module.clone()
    if request is not None:
        name, mode = request
        chosen = "" if wrt is None else " wrt=" + ",".join(str(place) for place in wrt)
        run(f"autodiff{{func={name} mode={mode}{chosen}}}")
    elif any(op.name.startswith("ad.") for op in module.walk()):
        run("autodiff")
    function = lookup_symbol(module, entry)
    if function is None or not function.regions or not function.regions[0].blocks:
        others = set(symbols(module)) - {entry}
        raise GradoptError.at(module.location, f"there is no function '@{entry}' with a body{near_miss(entry, others)}")
    only_block(function, function.regions[0])
    keep_only(module, function)
    run("inline{custom-derivatives=true}")
    if any(op.name == "hl.checkpoint_begin" for op in function.walk()):
        run("checkpoint")
    check_elements(function)
    name_sizes(function)
    kept = f"{{preserve={','.join(preserve)}}}" if preserve else ""
    for passes in (pipeline or DEFAULT_PIPELINE.replace("decompose", f"decompose{kept}")).split(";"):
        run(passes)
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
