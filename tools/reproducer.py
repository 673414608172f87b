"""Reproducers: an input with the pipeline that fails on it, in one file that `gradopt --run-reproducer` runs again."""

from __future__ import annotations

import re

from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.locations import Source, SourceLocation
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


_PIPELINE = re.compile(r'\{-#.*?\bmlir_reproducer\s*:\s*\{[^{}"]*?\bpipeline\s*:\s*"((?:[^"\\\n]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)")
_NAMED = {b"n": b"\n", b"t": b"\t"}


def stored_pipeline(source: Source) -> str:
    """The pipeline of a reproducer. Raises GradoptError where there is none."""
    match = _PIPELINE.search(source.text)
    if match is None:
        raise GradoptError.at(SourceLocation(source, 0), "there is no mlir_reproducer section with a pipeline in the input")
    return _ESCAPE.sub(_unescaped, match[1].encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _unescaped(escape: re.Match[bytes]) -> bytes:
    text = escape[1]
    return bytes([int(text, 16)]) if len(text) == 2 else _NAMED.get(text, text)
