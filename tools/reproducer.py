"""Reproducers: an input with the pipeline that fails on it, in one file that `gradopt --run-reproducer` runs again."""

from __future__ import annotations

from typing import Any

from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.ir.text import escape_string

__all__ = ["reproducer_text", "stored_pipeline"]


def reproducer_text(text: str, pipeline: str, verify_each: bool, trace: str | None = None) -> str:
    """The input, the traceback as comments, and the pipeline in a section at the end (MLIR's form)."""
    comments = "" if trace is None else "".join(f"// {line}\n" for line in trace.splitlines())
    section = ("\n{-#\n  external_resources: {\n    mlir_reproducer: {\n"
               f"      pipeline: {escape_string(f'builtin.module({pipeline})')},\n"
               "      disable_threading: true,\n"
               f"      verify_each: {'true' if verify_each else 'false'}\n"
               "    }\n  }\n#-}\n")
    if "{-#" in text:  # there can be only one such section; the pipeline is then kept as a comment
        section = "".join(f"\n// {line}" for line in section.splitlines()) + "\n"
    return comments + text + section


def stored_pipeline(module: Operation) -> str:
    """The pipeline of a reproducer. Raises GradoptError where there is none."""
    resources: dict[str, Any] = getattr(module, "external_resources", {})
    pipeline = resources.get("mlir_reproducer", {}).get("pipeline")
    if not isinstance(pipeline, str):
        raise GradoptError.at(module.location, "there is no mlir_reproducer section with a pipeline in the input")
    return pipeline
