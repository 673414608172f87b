"""The fixed-point check: what this project prints generically, the real `mlir-opt` reads and prints back unchanged."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from gradopt.ir.operation import Operation
from gradopt.ir.printer import print_operation
from gradopt.parser import parse_module


def mlir_opt() -> str | None:
    """The tool's path, or None where it is not installed."""
    return shutil.which("mlir-opt-22") or shutil.which("mlir-opt")


def run_mlir_opt(text: str, *options: str) -> tuple[int, str, str]:
    """(exit status, output, errors) of the tool on a text, in the generic form."""
    tool = mlir_opt()
    assert tool is not None
    process = subprocess.run([tool, "--allow-unregistered-dialect", "--mlir-print-op-generic", *options],
                             input=text.encode("utf-8", "surrogateescape"), capture_output=True, check=False)
    return process.returncode, process.stdout.decode("utf-8", "surrogateescape"), process.stderr.decode("utf-8", "replace")


def generic(text: str, debug_info: bool = False) -> str:
    """A text as this project prints it."""
    return print_operation(parse_module(text, "-", allow_unregistered=True), generic=True, debug_info=debug_info)


def check_fixed_point(module: Operation, debug_info: bool = False) -> None:
    """Prints a module; the tool, and this project itself, must print that text back (but for a trailing newline)."""
    text = print_operation(module, generic=True, debug_info=debug_info)
    assert generic(text, debug_info) == text
    if mlir_opt() is not None:
        status, output, errors = run_mlir_opt(text, *(["--mlir-print-debuginfo"] if debug_info else []))
        assert status == 0, errors
        assert output.rstrip("\n") == text.rstrip("\n")


needs_mlir = pytest.mark.skipif(mlir_opt() is None, reason="mlir-opt is not installed")
