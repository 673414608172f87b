"""StableHLO text of the programs that JAX ran: it is still the text that was run, and JAX's values are the interpreter's."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import gradopt.ir.dialect as dialects
import numpy as np
import pytest
from gradopt.ir.printer import print_operation
from gradopt.lowering.export.stablehlo import CONTROL, to_stablehlo
from gradopt.lowering.export.stablehlo_rules import RULES
from gradopt.lowering.interpreter import run_function

import gradopt

HERE = Path(__file__).parent


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stablehlo_programs", HERE / "stablehlo_programs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAMS = _load()
REFERENCE: Any = np.load(HERE / "stablehlo_reference.npz")
NO_COUNTERPART = {"random_bits", "dim", "check", "unfold", "fold", "yield"}


@pytest.mark.parametrize("name", PROGRAMS.PROGRAMS)
def test_values_of_jax(name: str) -> None:
    module = gradopt.parse(PROGRAMS.program_text(name))
    text = print_operation(to_stablehlo(module), generic=True)
    assert hashlib.sha256(text.encode()).hexdigest() == str(REFERENCE[f"{name} text"]), "run make_stablehlo_reference.py where JAX is"
    found = run_function(module, "main", list(PROGRAMS.PROGRAMS[name][1].values()))
    for index, array in enumerate(found):
        expected = REFERENCE[f"{name} {index}"]
        assert array.dtype == expected.dtype
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_every_primitive_has_a_rule_or_none_on_purpose() -> None:
    dialect = dialects.find_dialect("prim")
    assert dialect is not None
    assert {name.removeprefix("prim.") for name in dialect.operations} == set(RULES) | set(CONTROL) | NO_COUNTERPART


@pytest.mark.parametrize(("line", "message"), [
    ("%y = hl.relu %x : tensor<3xf32>", "'hl.relu' op has no StableHLO counterpart (the pass 'decompose' comes first)"),
    ("%y = prim.pow %n, %n : tensor<3xi32>", "'prim.pow' op of integers has no StableHLO counterpart"),
    ("%y = prim.exp %d : tensor<?xf32>", "'prim.exp' op has a value of type tensor<?xf32>: StableHLO is written for sizes that are known (the "
                                         "pass 'bind' gives them)")])
def test_errors(line: str, message: str) -> None:
    module = gradopt.parse(f"func.func @f(%x: tensor<3xf32>, %n: tensor<3xi32>, %d: tensor<?xf32>) {{\n  {line}\n  return\n}}")
    with pytest.raises(gradopt.GradoptError) as error:
        to_stablehlo(module)
    assert [diagnostic.message for diagnostic in error.value.diagnostics] == [message]
    assert ":2:" in str(error.value)
