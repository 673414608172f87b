"""Random texts: `mlir-opt` and this project accept the same and print the same, with and without locations."""

from __future__ import annotations

import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.printer import print_operation
from gradopt.ir.verifier import verify
from gradopt.parser import parse_module
from mlir_support import needs_mlir, run_mlir_opt
from random_text import RandomText

SAMPLES = 250
MARKER = "// -----\n"


def printed(text: str, debug_info: bool) -> str:
    """A text as this project prints it; nothing where it refuses it."""
    try:
        module = parse_module(text, "-", allow_unregistered=True)
    except GradoptError:
        return ""
    return "" if verify(module) else print_operation(module, generic=True, debug_info=debug_info).rstrip("\n")


@needs_mlir
@pytest.mark.parametrize("debug_info", [False, True], ids=["plain", "locations"])
def test_the_same_as_the_tool(debug_info: bool) -> None:
    texts = [RandomText(seed).module() for seed in range(SAMPLES)]
    options = ["--mlir-print-debuginfo"] if debug_info else []
    _, output, _ = run_mlir_opt(MARKER.join(texts), "--split-input-file", *options)
    parts = output.split(MARKER)
    assert len(parts) == len(texts)
    assert sum(1 for part in parts if part.strip()) > SAMPLES * 0.8  # most texts are valid
    for text, part in zip(texts, parts):
        assert printed(text, debug_info) == part.rstrip("\n"), text
