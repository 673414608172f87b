"""The programs of all lit tests and examples, printed generically: a fixed point of `mlir-opt`, one run a file."""

from __future__ import annotations

from pathlib import Path

import gradopt.dialects  # noqa: F401  (registers them)
import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.printer import print_operation
from gradopt.ir.verifier import verify
from gradopt.parser import parse_module
from mlir_support import generic, mlir_opt, run_mlir_opt

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
MARKER = "// -----\n"

PATHS = sorted([*(ROOT / "tests" / "lit").rglob("*.ir"), *(ROOT / "examples").rglob("*.ir"), *(ROOT / "benchmarks").rglob("*.ir")])


def printed_programs(path: Path) -> list[str]:
    """The generic text of each part of a file that is a right program."""
    programs = []
    for part in path.read_text(encoding="utf-8", errors="surrogateescape").split("// -----"):
        try:
            module = parse_module(part, path.name, allow_unregistered=True)
        except GradoptError:
            continue  # a test of an error
        if not verify(module):
            programs.append(print_operation(module, generic=True))
    return programs


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_generic_print(path: Path) -> None:
    programs = printed_programs(path)
    for program in programs:
        assert generic(program) == program
    if programs and mlir_opt() is not None:
        status, output, errors = run_mlir_opt(MARKER.join(programs), "--split-input-file", f"--output-split-marker={MARKER.strip()}")
        assert status == 0, errors
        found = [part.strip("\n") for part in output.split(MARKER.strip())]
        assert found == [program.strip("\n") for program in programs]
