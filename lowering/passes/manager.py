"""Runs a pipeline of passes, with verification between them and hooks for whoever wants to look on."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.lowering.passes.base import InternalError, Pass, PassContext
from gradopt.lowering.passes.pipeline import ANY, Item, Nested, build_pipeline

__all__ = ["Instrument", "PassManager", "run_passes"]


class Instrument:
    """Looks on while passes run. Every method may be left out; `op` is what the pass runs on."""

    def before_pass(self, item: Pass, op: Operation) -> None:
        """Called before a pass runs."""

    def after_pass(self, item: Pass, op: Operation) -> None:
        """Called after a pass has run (before its result is verified)."""

    def after_failure(self, item: Pass, op: Operation) -> None:
        """Called after a pass has raised."""

    def before_verification(self, item: Pass, op: Operation) -> None:
        """Called before the result of a pass is verified."""

    def after_verification(self, item: Pass, op: Operation) -> None:
        """Called after the result of a pass was verified."""

    def before_nested(self, anchor: str, op: Operation) -> None:
        """Called before a nested pipeline runs on `op`."""

    def after_nested(self, anchor: str, op: Operation) -> None:
        """Called after a nested pipeline has run on `op`."""


class PassManager:
    """A pipeline, ready to run. With `verify_each` the verifier runs after every pass."""

    def __init__(self, pipeline: str | Sequence[Item], *, verify_each: bool = True, instruments: Sequence[Instrument] = (),
                 context: PassContext | None = None) -> None:
        self.items = build_pipeline(pipeline) if isinstance(pipeline, str) else list(pipeline)
        self.verify_each = verify_each
        self.instruments = list(instruments)
        self.context = context or PassContext()

    def run(self, op: Operation) -> None:
        """Runs all passes on `op` in place.

        Raises GradoptError for what is wrong with the program, InternalError for a broken pass."""
        self._run_items(self.items, op)

    def _run_items(self, items: Sequence[Item], op: Operation) -> None:
        for item in items:
            if isinstance(item, Nested):
                self._run_nested(item, op)
            else:
                self._run_pass(item, op)

    def _run_nested(self, item: Nested, op: Operation) -> None:
        """Runs on `op` itself where the anchor names it, else on each such operation directly inside."""
        if item.anchor in (op.name, ANY):
            targets = [op]
        else:
            targets = [inner for region in op.regions for block in region.blocks for inner in block.operations
                       if inner.name == item.anchor]
        for target in targets:
            for instrument in self.instruments:
                instrument.before_nested(item.anchor, target)
            self._run_items(item.items, target)
            for instrument in self.instruments:
                instrument.after_nested(item.anchor, target)

    def _run_pass(self, item: Pass, op: Operation) -> None:
        if item.anchor is not None and item.anchor != op.name:
            raise GradoptError.at(op.location, f"pass '{item.name}' runs on '{item.anchor}', not on '{op.name}'")
        for instrument in self.instruments:
            instrument.before_pass(item, op)
        self.context.pass_name = item.name
        try:
            item.run(op, self.context)
        except Exception as error:
            for instrument in self.instruments:
                instrument.after_failure(item, op)
            if isinstance(error, (GradoptError, InternalError)):
                raise
            raise InternalError(f"pass '{item.name}' failed: {type(error).__name__}: {error}", item.name) from error
        for instrument in self.instruments:
            instrument.after_pass(item, op)
        if self.verify_each:
            self._verify(item, op)

    def _verify(self, item: Pass, op: Operation) -> None:
        from gradopt.ir.verifier import verify

        for instrument in self.instruments:
            instrument.before_verification(item, op)
        diagnostics = verify(op)
        if diagnostics:
            for instrument in self.instruments:
                instrument.after_failure(item, op)
            raise InternalError(f"pass '{item.name}' left invalid IR behind:\n{GradoptError(diagnostics)}", item.name)
        for instrument in self.instruments:
            instrument.after_verification(item, op)


def run_passes(module: Operation, pipeline: str | Sequence[Item], *, verify_each: bool = True) -> None:
    """Runs a pipeline such as `"autodiff{func=loss},decompose,cse"` on a module in place.

    Raises PipelineError for a mistake in the pipeline's text, GradoptError for what is wrong with the program."""
    PassManager(pipeline, verify_each=verify_each).run(module)
