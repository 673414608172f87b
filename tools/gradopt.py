"""`gradopt`: reads IR, runs passes, prints IR. See `gradopt --help`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradopt.ir.diagnostics import Diagnostic, GradoptError, render
from gradopt.ir.locations import Source, SourceLocation
from gradopt.tools.command import INTERNAL_ERROR, OK, WRONG_INPUT, WRONG_USAGE, print_version, run_tool, show_diagnostics, uses_color
from gradopt.tools.files import FileError, read_text, write_text
from gradopt.tools.gradopt_options import DESCRIPTION, OPTIONS, USAGE
from gradopt.tools.options import UsageError, help_text, parse_arguments

if TYPE_CHECKING:
    from gradopt.ir.operation import Operation
    from gradopt.lowering.passes.base import DebugCounter
    from gradopt.lowering.passes.manager import Instrument
    from gradopt.lowering.passes.pipeline import Item
    from gradopt.lowering.passes.timing import Timer

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit status. Never raises."""
    def work() -> int:
        options, files = parse_arguments(OPTIONS, sys.argv[1:] if arguments is None else arguments)
        if len(files) > 1:
            raise UsageError(f"takes one file, found {len(files)}: {' '.join(files)}")
        status = _inform(options)
        if status is not None:
            return status
        run = Run(options, files[0] if files else "-")
        return run.run() if options["shrink"] is None else _is_interesting(run, options["shrink"])

    return run_tool("gradopt", work)


def _inform(options: dict[str, Any]) -> int | None:
    """Answers the options that only ask for information; None where there are none."""
    if options["help"]:
        from gradopt.tools.information import list_passes

        sys.stdout.write(help_text(USAGE, DESCRIPTION, OPTIONS) + "\nPasses:\n" + list_passes())
    elif options["version"]:
        print_version("gradopt")
    elif any(options[name] for name in ("list_passes", "help_pass", "show_dialects", "help_op", "completion")):
        from gradopt.tools.information import inform

        sys.stdout.write(inform(options))
    else:
        return None
    return OK


def _is_interesting(run: Run, text: str) -> int:
    """`--shrink`: OK where the run comes to an internal error, or to one that says `text`; WRONG_INPUT elsewhere."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    said = io.StringIO()
    with redirect_stderr(said), redirect_stdout(io.StringIO()):
        status = run.run()
    return OK if (text in said.getvalue() if text else status == INTERNAL_ERROR) else WRONG_INPUT


class Run:
    """One run over one input."""

    def __init__(self, options: dict[str, Any], path: str) -> None:
        self.options, self.path = options, path
        self.name = "<stdin>" if path == "-" else path
        self.color = uses_color(options["color"])
        self.diagnostics: list[Diagnostic] | None = [] if options["verify_diagnostics"] else None
        self.statistics: dict[tuple[str, str], int] = {}
        self.timer: Timer | None = None
        self.counters: dict[str, DebugCounter] = {}
        self.instruments: list[Instrument] = []
        self.module: Operation | None = None  # of the present chunk
        self.status = OK

    def run(self) -> int:
        """Processes all chunks and writes the output."""
        pipeline = ",".join(self.options["pass"])
        try:
            items = self._build(pipeline)
        except GradoptError as error:
            show_diagnostics("gradopt", error.diagnostics, self.color)
            return WRONG_USAGE
        if self.options["timing"]:
            self._start_timing()
        self._prepare()
        outputs = []
        for chunk in self._chunks(read_text(self.path)):
            output = self._process(chunk, items)
            if output is not None:
                outputs.append(output)
        if self.diagnostics is None:
            self._write(outputs)
        self._report()
        return self.status

    def _build(self, pipeline: str) -> list[Item]:
        if not pipeline and not self.options["dump_pass_pipeline"]:
            return []
        from gradopt.lowering.passes import build_pipeline, pipeline_text

        items = build_pipeline(pipeline, self.options["allow_unregistered_dialect"])
        if self.options["dump_pass_pipeline"]:
            sys.stderr.write(f"Pass Manager with {len(items)} passes:\nbuiltin.module({pipeline_text(items)})\n")
        return items

    def _prepare(self) -> None:
        """Reads the options about looking on. Raises UsageError."""
        if any(self.options[name] for name in self.options if name.startswith(("print_ir", "debug_counter", "timing"))):
            from gradopt.tools.instruments import debug_counters, instruments

            self.counters = debug_counters(self.options["debug_counter"])
            self.instruments = instruments(self.options, self._show, self.timer)

    def _chunks(self, text: str) -> list[Source]:
        """The parts of a split input; lines keep their numbers."""
        marker = self.options["split_input_file"]
        if not marker:
            return [Source(self.name, text)]
        from gradopt.parser import split_input

        return split_input(text, self.name, marker)

    # --- one chunk

    def _process(self, chunk: Source, items: Sequence[Item]) -> str | None:
        """The output for a chunk; None where something was wrong (which has been reported)."""
        before = len(self.diagnostics or ())
        try:
            output: str | None = self._transform(chunk, items)
        except GradoptError as error:
            for diagnostic in error.diagnostics:
                self._emit(self._explained(diagnostic, error))
            self._reproduce(chunk, items, self.options["crash_reproducer"], None)
            if self.diagnostics is None:
                self.status = max(self.status, WRONG_INPUT)
            output = None
        except (FileError, UsageError, KeyboardInterrupt, MemoryError, OSError):
            raise
        except Exception as error:
            self._internal_error(chunk, items, error)
            return None
        if self.diagnostics is not None:
            self._check_expectations(chunk, self.diagnostics[before:])
        return output

    def _transform(self, chunk: Source, items: Sequence[Item]) -> str:
        self.module = None
        module = self._parse(chunk)
        if self.options["run_reproducer"]:
            from gradopt.ir.resources import external_resources
            from gradopt.tools.reproducer import stored_pipeline

            items = self._build(stored_pipeline(chunk))
            external_resources(module).pop("mlir_reproducer", None)
        if items:
            self._run_passes(module, items)
        if self.options["generate_reproducer"]:
            self._write_reproducer(chunk, items, self.options["generate_reproducer"], None)
        with self._timed("Output"):
            return self._print(module)

    def _parse(self, chunk: Source) -> Operation:
        import gradopt.dialects  # noqa: F401  (registers them)
        from gradopt.ir.verifier import verify
        from gradopt.parser import parse_module

        with self._timed("Parser"):
            module: Operation = parse_module(chunk, allow_unregistered=self.options["allow_unregistered_dialect"])
        self.module = module
        if self.options["no_implicit_module"]:
            require_module(module, chunk)
        with self._timed("Verifier"):
            diagnostics = verify(module)
        if diagnostics:
            raise GradoptError(diagnostics)
        return module

    def _run_passes(self, module: Operation, items: Sequence[Item]) -> None:
        from gradopt.ir.diagnostics import DiagnosticEngine
        from gradopt.lowering.passes import PassContext, PassManager

        context = PassContext(diagnostics=DiagnosticEngine(self._emit), counters=self.counters)
        manager = PassManager(items, verify_each=self.options["verify_each"], instruments=self.instruments, context=context)
        try:
            manager.run(module)
        finally:
            for key, number in context.statistics.items():
                self.statistics[key] = self.statistics.get(key, 0) + number

    def _show(self, op: Operation) -> str:
        from gradopt.tools.printing import print_with

        return print_with(self.options, op)

    def _print(self, module: Operation) -> str:
        if self.options["verify_roundtrip"]:
            from gradopt.tools.roundtrip import check_roundtrip

            check_roundtrip(module, self.options["allow_unregistered_dialect"])
        form = "dot" if self.options["view_op_graph"] else self.options["emit"]
        if form != "mlir":
            from gradopt.tools.emit import EMITTERS

            return EMITTERS[form](module)
        if self.options["elide_elements_larger"] is not None:
            from gradopt.tools.elide import elide_elements

            elide_elements(module, self.options["elide_elements_larger"])
        if self.options["print_hex_larger"] is not None:
            from gradopt.tools.printing import print_hex_larger

            print_hex_larger(module, self.options["print_hex_larger"])
        text = self._show(module)
        return text if text.endswith("\n") or not text else text + "\n"

    # --- what is wrong

    def _emit(self, diagnostic: Diagnostic) -> None:
        if self.diagnostics is not None:
            self.diagnostics.append(diagnostic)
        else:
            show_diagnostics("gradopt", [diagnostic], self.color)

    def _explained(self, diagnostic: Diagnostic, error: GradoptError) -> Diagnostic:
        """The diagnostic with the notes that options ask for."""
        if self.options["print_op_on_diagnostic"] and self.module is not None:
            from gradopt.tools.printing import OptionPrinter

            for op in self.module.walk():
                if op.location is diagnostic.location:
                    printer = OptionPrinter({**self.options, "print_skip_regions": True}, generic=True, debug_info=False)
                    printer.print(op)
                    diagnostic.note(op.location, f"see current operation: {printer.text().strip()}")
                    break
        if self.options["print_stacktrace_on_diagnostic"]:
            import traceback

            trace = "".join(traceback.format_tb(error.__traceback__))
            diagnostic.note(diagnostic.location, f"diagnostic emitted with trace:\n{trace.rstrip()}")
        return diagnostic

    def _check_expectations(self, chunk: Source, found: Sequence[Diagnostic]) -> None:
        from gradopt.tools.expectations import unmet

        for diagnostic in unmet(chunk, found, self.options["verify_diagnostics"] == "only-expected"):
            sys.stderr.write(render(diagnostic, [chunk], color=self.color) + "\n")
            self.status = max(self.status, WRONG_INPUT)

    def _internal_error(self, chunk: Source, items: Sequence[Item], error: Exception) -> None:
        import traceback

        sys.stderr.write(f"{self.name}: internal error: {error if type(error).__name__ == 'InternalError' else repr(error)}\n")
        self.status = INTERNAL_ERROR
        path = "gradopt-reproducer.ir" if self.options["shrink"] is None else None
        self._reproduce(chunk, items, self.options["crash_reproducer"] or path,
                        "".join(traceback.format_exception(type(error), error, error.__traceback__)))

    def _reproduce(self, chunk: Source, items: Sequence[Item], path: str | None, trace: str | None) -> None:
        """Leaves a reproducer of what went wrong, if one is asked for; that it cannot be written is no more than a second mistake."""
        if path:
            try:
                self._write_reproducer(chunk, items, path, trace)
            except FileError as error:
                sys.stderr.write(f"gradopt: error: {error}\n")

    def _write_reproducer(self, chunk: Source, items: Sequence[Item], path: str, trace: str | None) -> None:
        """Writes the chunk and the pipeline to a file, from which `--run-reproducer` starts again. Raises FileError."""
        from gradopt.lowering.passes import pipeline_text
        from gradopt.tools.reproducer import reproducer_text

        write_text(path, reproducer_text(chunk.text, pipeline_text(items), self.options["verify_each"], trace))
        if self.diagnostics is None:
            sys.stderr.write(f"note: a reproducer is in '{path}'; run it with: gradopt --run-reproducer {path}\n")

    # --- output

    def _write(self, outputs: Sequence[str]) -> None:
        marker = self.options["output_split_marker"]
        text = f"{marker}\n".join(outputs) if self.options["split_input_file"] else "".join(outputs)
        path = self.options["output"]
        if path is None or path == "-":
            stream = getattr(sys.stdout, "buffer", None)
            if text.isascii() or stream is None:
                sys.stdout.write(text)
            else:
                sys.stdout.flush()
                stream.write(text.encode("utf-8", "surrogateescape"))
        elif self.status == OK:
            write_text(path, text)

    def _report(self) -> None:
        if self.options["pass_statistics"]:
            from gradopt.tools.instruments import statistics_report

            sys.stderr.write(statistics_report(self.statistics))
        if self.timer is not None:
            from gradopt.lowering.passes.timing import timing_report

            self.timer.seconds = time_now() - self.timer.seconds
            sys.stderr.write(timing_report(self.timer, self.options["timing"]))

    def _start_timing(self) -> None:
        from gradopt.lowering.passes.timing import Timer

        self.timer = Timer("gradopt")
        self.timer.seconds = time_now()  # the start, until the report

    def _timed(self, name: str) -> Any:
        if self.timer is None:
            from contextlib import nullcontext

            return nullcontext()
        return self.timer.measure(name)


def require_module(module: Operation, chunk: Source) -> None:
    """Raises GradoptError where the module is not written in the text."""
    place = module.location
    text, offset = (place.source.text, place.offset) if isinstance(place, SourceLocation) else (chunk.text, -1)
    if offset < 0 or not text.startswith(("module", "builtin.module", '"builtin.module"'), offset):
        raise GradoptError.at(module.location, "expected a module at the top level (there is none, and --no-implicit-module is given)")


def time_now() -> float:
    """Seconds of a monotonic clock."""
    import time

    return time.perf_counter()


if __name__ == "__main__":
    sys.exit(main())
