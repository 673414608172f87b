"""Whole files: each prints as the stored text, which is what `mlir-opt` prints; JAX's StableHLO prints unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from gradopt.ir.printer import print_operation
from gradopt.ir.verifier import verify
from gradopt.parser import parse_module
from mlir_support import check_fixed_point, needs_mlir, run_mlir_opt

FOLDER = Path(__file__).parent

FILES = sorted((FOLDER / "files").glob("*.mlir"))
NOT_IN_MLIR = {"early_aliases.mlir"}  # aliases before their definition


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_prints_as_stored(path: Path) -> None:
    module = parse_module(path.read_text(encoding="utf-8"), "-", allow_unregistered=True)
    assert verify(module) == []
    expected = path.with_suffix(".expected").read_text(encoding="utf-8")
    assert print_operation(module, generic=True) == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("debug_info", [False, True], ids=["plain", "locations"])
def test_fixed_point(path: Path, debug_info: bool) -> None:
    check_fixed_point(parse_module(path.read_text(encoding="utf-8"), "-", allow_unregistered=True), debug_info)


@needs_mlir
@pytest.mark.parametrize("path", [path for path in FILES if path.name not in NOT_IN_MLIR], ids=lambda path: path.name)
def test_stored_text_is_what_the_tool_prints(path: Path) -> None:
    status, output, errors = run_mlir_opt(path.read_text(encoding="utf-8"))
    assert status == 0, errors
    expected = path.with_suffix(".expected").read_text(encoding="utf-8")
    assert output.rstrip("\n") == expected.rstrip("\n")


@pytest.mark.parametrize("path", sorted((FOLDER / "stablehlo").glob("*.mlir")), ids=lambda path: path.name)
def test_stablehlo_prints_unchanged(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    module = parse_module(text, "-", allow_unregistered=True)
    assert verify(module) == []
    assert print_operation(module, generic=True) == text
    check_fixed_point(module, debug_info=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_pretty_form_comes_back(path: Path) -> None:
    module = parse_module(path.read_text(encoding="utf-8"), "-", allow_unregistered=True)
    pretty = print_operation(module)
    again = parse_module(pretty, "-", allow_unregistered=True)
    assert print_operation(again) == pretty
    assert print_operation(again, generic=True) == print_operation(module, generic=True)
