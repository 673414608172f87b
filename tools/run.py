"""`gradopt-run`: compiles a function of a file and runs it on arrays. See `gradopt-run --help`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.dialect import near_miss
from gradopt.ir.locations import Source
from gradopt.tools.command import OK, WRONG_INPUT, WRONG_USAGE, inform, run_tool, show_diagnostics, uses_color
from gradopt.tools.files import read_text
from gradopt.tools.options import UsageError, parse_arguments
from gradopt.tools.results import as_list, check_save_path, report_memory, report_profile, report_time, save, show
from gradopt.tools.run_options import DESCRIPTION, OPTIONS, USAGE
from gradopt.tools.tables import format_table

if TYPE_CHECKING:
    from gradopt.ir.operation import Operation

__all__ = ["main"]

Array = Any
COMPILED_ONLY = ("check_grad", "threads", "time", "memory", "profile", "trace")  # options that say nothing about an interpreted run


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

        show_diagnostics("gradopt-run", error.diagnostics, uses_color())
        return WRONG_USAGE if isinstance(error, PipelineError) else WRONG_INPUT


def run(options: dict[str, Any], path: str) -> int:
    """Reads, compiles, runs and reports."""
    check_save_path(options["save"])
    if options["interpret"]:
        for key in COMPILED_ONLY:
            if options[key] not in (None, False):
                raise UsageError(f"option '--{key.replace('_', '-')}' is about a compiled function, so it does not go with '--interpret'")
    module = read_module(options, path)
    target = find_target(module, options)
    if options["threads"] is not None:
        from gradopt.lowering.native.pool import set_num_threads

        set_num_threads(options["threads"])
    if options["interpret"]:
        return interpret(module, target, options)
    status = check(module, target, options) if options["check_grad"] else OK
    if not options["check_grad"] or any(options[key] for key in ("time", "memory", "profile", "trace", "save")):
        run_compiled(module, target, options, path)
    return status


def run_compiled(module: Operation, target: Target, options: dict[str, Any], path: str) -> None:
    """Compiles, runs, shows the results (unless derivatives were compared) and reports what is asked for."""
    from gradopt import compile

    start = time.perf_counter()
    compiled = compile(module, target.entry, wrt=None if target.entry == target.base else target.wrt)
    compile_seconds = time.perf_counter() - start
    arrays = arguments_for(compiled.argument_names, compiled.argument_types, options)
    results = as_list(compiled(*arrays))
    profiled = options["profile"] is not None or options["trace"] is not None
    show(results, options["print"] or ("none" if profiled or options["check_grad"] else "short"))
    save(results, options["save"])
    if options["time"] is not None:
        report_time(compiled, arrays, compile_seconds, options["time"])
    if options["memory"]:
        report_memory(compiled, arrays, results)
    if profiled:
        report_profile(compiled, arrays, options, "<stdin>" if path == "-" else path)


def read_places(text: str | None) -> list[int | str] | None:
    """Positions and names of arguments from `x,1`. Raises UsageError."""
    if text is None:
        return None
    parts = [part.strip().removeprefix("%") for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"option '--wrt' takes names or positions with a comma between them, found '{text}'")
    return [int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part for part in parts]


def read_module(options: dict[str, Any], path: str) -> Operation:
    """The verified module after the passes that were asked for."""
    import gradopt.dialects  # noqa: F401  (registers them)
    from gradopt.ir.verifier import verify
    from gradopt.parser import parse_module

    pipeline = ",".join(options["pass"])
    items: Any = []
    if pipeline:
        from gradopt.lowering.passes import build_pipeline

        items = build_pipeline(pipeline, options["allow_unregistered_dialect"])
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
    """The only public function. Raises UsageError where there are several, GradoptError where there is none."""
    names = public_functions(module)
    if not names:
        raise GradoptError.at(module.location, "there is no public function to run")
    if len(names) > 1:
        raise UsageError(f"which function? give --entry=…; there are {', '.join(names)}")
    return names[0]


class Target(NamedTuple):
    """What to run: the entry, the function of the file that it is or is a derivative of, and with respect to which arguments."""

    entry: str
    base: str
    wrt: list[int] | None


def find_target(module: Operation, options: dict[str, Any]) -> Target:
    """What the options ask for. Raises UsageError for an entry that the module does not have and for a `--wrt` that does not fit it."""
    from gradopt.ir.symbols import symbols
    from gradopt.lowering.entry import MODES, derivative_request
    from gradopt.tools.check_gradient import base_function

    places = read_places(options["wrt"])
    entry = (options["entry"] or only_function(module)).removeprefix("@")
    functions = {name: op for name, op in symbols(module).items() if op.name == "func.func" and op.regions and op.regions[0].blocks}
    request = derivative_request(module, entry)
    base = base_function(entry, list(functions)) if options["check_grad"] else entry if request is None else request[0]
    if base not in functions:
        known = [*functions, *(f"{name}_{mode}" for name in functions for mode in MODES)]
        raise UsageError(f"there is no function '@{entry}' with a body"
                         + (near_miss(entry, known) or f"; there are {', '.join(functions) or 'none'}"))
    if places is not None and request is None and not options["check_grad"]:
        raise UsageError(f"option '--wrt' is for derivatives, and '@{entry}' is a function of the file: ask for --entry={entry}_grad "
                         "or the like")
    names = [argument.name or f"arg{index}" for index, argument in enumerate(functions[base].regions[0].blocks[0].arguments)]
    return Target(entry, base, None if places is None else [position(place, base, names) for place in places])


def position(place: int | str, function: str, names: list[str]) -> int:
    """Which argument a name or a position means. Raises UsageError."""
    if place in names:
        return names.index(str(place))
    if isinstance(place, int) and place < len(names):
        return place
    raise UsageError(f"option '--wrt': '@{function}' has no argument '{place}'"
                     + (near_miss(str(place), names) or f"; it has {', '.join(names) or 'none'}"))


def arguments_for(names: Sequence[str], types: Sequence[Any], options: dict[str, Any]) -> list[Array]:
    """The arrays that the command line asks for."""
    from gradopt.tools.arguments import make_arguments, read_sizes

    return make_arguments(names, types, options["arg"], read_sizes(options["size"]), options["seed"])


def interpret(module: Operation, target: Target, options: dict[str, Any]) -> int:
    """Runs by NumPy."""
    from gradopt.lowering.entry import derivative_pass, function_with_body
    from gradopt.lowering.interpreter import run_function
    from gradopt.lowering.passes import run_passes

    derivative = derivative_pass(module, target.entry, target.wrt)
    if derivative is not None:
        run_passes(module, [derivative])
    arguments = function_with_body(module, target.entry).regions[0].blocks[0].arguments
    names = [argument.name or f"arg{index}" for index, argument in enumerate(arguments)]
    results = run_function(module, target.entry, arguments_for(names, [argument.type for argument in arguments], options))
    show(results, options["print"] or "short")
    save(results, options["save"])
    return OK


def check(module: Operation, target: Target, options: dict[str, Any]) -> int:
    """Compares derivatives with central differences and prints a table."""
    from gradopt.tools.check_gradient import check_gradient

    from gradopt import compile

    compiled = compile(module, target.base)
    arrays = arguments_for(compiled.argument_names, compiled.argument_types, options)
    comparisons = check_gradient(module, target.base, arrays, target.wrt, options["seed"])
    rows = [(c.argument, c.what, c.compared, f"{c.error:.1e}", "yes" if c.agrees else f"NO (at {c.place or 'the only element'})")
            for c in comparisons]
    sys.stdout.write(f"derivatives of @{target.base} against central differences in float64\n")
    sys.stdout.write(format_table(["argument", "mode", "compared", "relative error", "agrees"], rows))
    return OK if all(c.agrees for c in comparisons) else WRONG_INPUT


if __name__ == "__main__":
    sys.exit(main())
