"""`gradopt-run`: compiles a function of a file and runs it on arrays. See `gradopt-run --help`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gradopt.ir.diagnostics import GradoptError, render
from gradopt.ir.locations import Source
from gradopt.tools.command import OK, WRONG_INPUT, WRONG_USAGE, inform, run_tool
from gradopt.tools.files import FileError, read_text, write_text
from gradopt.tools.options import UsageError, parse_arguments
from gradopt.tools.run_options import DESCRIPTION, OPTIONS, PROFILE_SECONDS, USAGE
from gradopt.tools.tables import format_table, seconds_text, size_text

if TYPE_CHECKING:
    from gradopt.ir.operation import Operation
    from gradopt.lowering.compile import CompiledFunction

__all__ = ["main"]

Array = Any
TRACED_EVENTS = 50_000  # executions that a trace holds at most: some ten megabytes of text


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit status. Never raises."""
    def work() -> int:
        options, files = parse_arguments(OPTIONS, sys.argv[1:] if arguments is None else arguments)
        if inform("gradopt-run", USAGE, DESCRIPTION, OPTIONS, options):
            return OK
        if len(files) > 1:
            raise UsageError(f"takes one file, found {len(files)}: {' '.join(files)}")
        return _reporting(options, files[0] if files else "-")

    return run_tool("gradopt-run", work)


def _reporting(options: dict[str, Any], path: str) -> int:
    """`run`, where what a program reports (wrong arrays, a failed check) is the user's to mend, as are mistakes in the file."""
    try:
        return run(options, path)
    except GradoptError as error:
        from gradopt.lowering.passes import PipelineError

        for diagnostic in error.diagnostics:
            sys.stderr.write(render(diagnostic, color=sys.stderr.isatty()) + "\n")
        return WRONG_USAGE if isinstance(error, PipelineError) else WRONG_INPUT
    except MemoryError as error:
        sys.stderr.write(f"gradopt-run: error: not enough memory{f': {error}' if str(error) else ''}\n")
        return WRONG_INPUT
    except Exception as error:
        from gradopt.lowering.native.errors import ArgumentTypeError, ArgumentValueError, GradoptRuntimeError

        if not isinstance(error, (ArgumentTypeError, ArgumentValueError, GradoptRuntimeError)):
            raise
        sys.stderr.write(f"gradopt-run: error: {error}\n")
        return WRONG_INPUT


def run(options: dict[str, Any], path: str) -> int:
    """Reads, compiles, runs and reports."""
    module = read_module(options, path)
    entry = options["entry"] or only_function(module)
    wrt = None if options["wrt"] is None else [int(part) if part.isdigit() else part for part in options["wrt"].split(",")]
    if options["seed"] < 0:
        raise UsageError(f"option '--seed' takes no negative number, found {options['seed']}")
    if options["threads"] is not None:
        set_threads(options["threads"])
    if options["check_grad"]:
        return check(module, entry, wrt, options)
    if options["interpret"]:
        return interpret(module, entry, wrt, options)
    from gradopt import compile

    start = time.perf_counter()
    compiled = compile(module, entry, wrt=wrt)
    compile_seconds = time.perf_counter() - start
    arrays = arguments_for(compiled.argument_names, compiled.argument_types, options)
    results = as_list(compiled(*arrays))
    profiled = options["profile"] is not None or options["trace"] is not None
    show(results, options["print"] or ("none" if profiled else "short"))
    save(results, options["save"])
    if options["time"] is not None:
        report_time(compiled, arrays, compile_seconds, seconds_option("--time", options["time"]))
    if options["memory"]:
        report_memory(compiled, arrays, results)
    if profiled:
        report_profile(compiled, arrays, options, "<stdin>" if path == "-" else path)
    return OK


def read_module(options: dict[str, Any], path: str) -> Operation:
    """The verified module after the passes that were asked for."""
    import gradopt.dialects  # noqa: F401  (registers them)
    from gradopt.ir.verifier import verify
    from gradopt.parser import parse_module

    pipeline = ",".join(options["pass"])
    items: Any = []
    if pipeline:
        from gradopt.lowering.passes import build_pipeline

        items = build_pipeline(pipeline)
    source = Source("<stdin>" if path == "-" else path, read_text(path))
    module = parse_module(source, allow_unregistered=options["allow_unregistered_dialect"])
    diagnostics = verify(module)
    if diagnostics:
        raise GradoptError(diagnostics)
    if items:
        from gradopt.lowering.passes import run_passes

        run_passes(module, items)
    return module


def public_functions(module: Operation) -> list[str]:
    """The functions that a user may call."""
    from gradopt.ir.symbols import symbols
    from gradopt.lowering.simplify.symbol_dce import is_private

    return [name for name, op in symbols(module).items() if op.name == "func.func" and not is_private(op)]


def only_function(module: Operation) -> str:
    """The only public function. Raises UsageError where there are several."""
    names = public_functions(module)
    if len(names) != 1:
        raise UsageError(f"which function? give --entry=…; there are {', '.join(names) or 'none'}")
    return names[0]


def set_threads(count: int) -> None:
    """Sets how many threads compute. Raises UsageError."""
    if count < 1:
        raise UsageError(f"option '--threads' takes a positive number, found {count}")
    from gradopt.lowering.native.pool import set_num_threads

    set_num_threads(count)


def seconds_option(name: str, text: str) -> float:
    """A number of seconds. Raises UsageError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e6:
        raise UsageError(f"option '{name}' takes a number of seconds, found '{text}'")
    return seconds


def arguments_for(names: Sequence[str], types: Sequence[Any], options: dict[str, Any]) -> list[Array]:
    """The arrays that the command line asks for."""
    from gradopt.tools.arguments import make_arguments, read_sizes

    return make_arguments(names, types, options["arg"], read_sizes(options["size"]), options["seed"])


def interpret(module: Operation, entry: str, wrt: Sequence[int | str] | None, options: dict[str, Any]) -> int:
    """Runs by NumPy."""
    from gradopt.ir.symbols import lookup_symbol
    from gradopt.lowering.compile import derivative_request
    from gradopt.lowering.interpreter import run_function
    from gradopt.lowering.passes import run_passes

    request = derivative_request(module, entry)
    if request is not None:
        chosen = "" if wrt is None else " wrt=" + ",".join(map(str, wrt))
        run_passes(module, f"autodiff{{func={request[0]} mode={request[1]}{chosen}}}")
    function = lookup_symbol(module, entry)
    if function is None or not function.regions or not function.regions[0].blocks:
        from gradopt.ir.dialect import near_miss

        raise UsageError(f"there is no function '@{entry}' with a body{near_miss(entry, public_functions(module))}")
    arguments = function.regions[0].blocks[0].arguments
    names = [argument.name or f"arg{index}" for index, argument in enumerate(arguments)]
    arrays = arguments_for(names, [argument.type for argument in arguments], options)
    try:
        results = run_function(module, entry, arrays)
    except (ValueError, TypeError, ZeroDivisionError) as error:  # what the meaning of an op reports about its arrays
        sys.stderr.write(f"gradopt-run: error: {error}\n")
        return WRONG_INPUT
    show(results, options["print"] or "short")
    save(results, options["save"])
    return OK


def as_list(results: Any) -> list[Array]:
    """The results as a list."""
    return list(results) if isinstance(results, tuple) else [results]


def show(results: Sequence[Array], how: str) -> None:
    """Prints each result with its type and shape."""
    import numpy as np

    if how == "none":
        return
    limit = sys.maxsize if how == "full" else 60
    with np.printoptions(threshold=limit, edgeitems=3, linewidth=110, precision=9 if how == "full" else 6):
        for index, result in enumerate(results):
            array = np.asarray(result)
            shape = "x".join([*map(str, array.shape), array.dtype.name])
            sys.stdout.write(f"result {index}: {shape}\n{array}\n")


def save(results: Sequence[Array], path: str | None) -> None:
    """Writes the results. Raises UsageError for another ending than .npy and .npz, FileError."""
    import os

    import numpy as np

    if path is None:
        return
    stem, ending = os.path.splitext(path)
    try:
        if ending == ".npz":
            np.savez(path, **{f"result{index}": result for index, result in enumerate(results)})
        elif ending == ".npy":
            for index, result in enumerate(results):
                np.save(path if len(results) == 1 else f"{stem}_{index}.npy", result)
        else:
            raise UsageError(f"option '--save' takes a file that ends in .npy or .npz, found '{path}'")
    except OSError as error:
        raise FileError(f"cannot write '{path}': {error.strerror or error}") from None


def check(module: Operation, entry: str, wrt: Sequence[int | str] | None, options: dict[str, Any]) -> int:
    """Compares derivatives with central differences and prints a table."""
    from gradopt.tools.check_gradient import base_function, check_gradient

    from gradopt import compile

    name = base_function(entry, public_functions(module))
    compiled = compile(module, name)
    arrays = arguments_for(compiled.argument_names, compiled.argument_types, options)
    comparisons = check_gradient(module, name, arrays, wrt, options["seed"])
    rows = [(c.argument, c.what, c.compared, f"{c.error:.1e}", "yes" if c.agrees else f"NO (at {c.place or 'the only element'})")
            for c in comparisons]
    sys.stdout.write(f"derivatives of @{name} against central differences in float64\n")
    sys.stdout.write(format_table(["argument", "mode", "compared", "relative error", "agrees"], rows))
    return OK if all(c.agrees for c in comparisons) else WRONG_INPUT


def repeat(call: Callable[[], Any], seconds: float) -> list[float]:
    """The times of calls that go on for about so many seconds (at least three calls)."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 100_000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)


def report_time(compiled: CompiledFunction, arrays: Sequence[Array], compile_seconds: float, seconds: float) -> None:
    """Prints compile time by stage and run time."""
    rows: list[tuple[str, str]] = [(f"compile: {stage}", seconds_text(value)) for stage, value in compiled.timings.items()]
    times = repeat(lambda: compiled(*arrays), seconds)
    rows += [("compile: all", seconds_text(compile_seconds)), ("run: fastest", seconds_text(times[0])),
             ("run: median", seconds_text(times[len(times) // 2])), ("run: calls", str(len(times)))]
    sys.stdout.write(format_table(["time", ""], rows))


def report_memory(compiled: CompiledFunction, arrays: Sequence[Array], results: Sequence[Array]) -> None:
    """Prints what a call needs."""
    import numpy as np

    rows = [("arguments", size_text(sum(np.asarray(array).nbytes for array in arrays))),
            ("results", size_text(sum(np.asarray(result).nbytes for result in results))),
            ("peak beyond the arguments", size_text(compiled.peak_bytes(*arrays)))]
    sys.stdout.write(format_table(["memory", ""], rows))


def report_profile(compiled: CompiledFunction, arrays: Sequence[Array], options: dict[str, Any], file: str) -> None:
    """Prints what each kernel takes, the longest first, and writes the trace that was asked for. Raises FileError."""
    from gradopt.lowering.profile.collect import profile_function
    from gradopt.lowering.profile.roofline import machine_roofline
    from gradopt.lowering.profile.trace import trace_text
    from gradopt.tools.profile_report import profile_report

    traced = options["trace"] is not None
    seconds = seconds_option("--profile", options["profile"] or PROFILE_SECONDS)
    profile = profile_function(compiled, arrays, seconds, TRACED_EVENTS if traced else 0)
    roofline = machine_roofline()
    sys.stdout.write(profile_report(profile, roofline, file))
    if traced:
        write_text(options["trace"], trace_text(profile, compiled.__name__, roofline))


if __name__ == "__main__":
    sys.exit(main())
