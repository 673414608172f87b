"""docs/ holds what the sources say now, README.md what the commands print now, and what both tell people to type works."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROSE = ("README.md", "docs/architecture.md", "docs/new_operation.md", "docs/performance.md", "editors/README.md")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = dict(load("make_pages").pages())


@pytest.mark.parametrize("page", PAGES)
def test_page_is_current(page: str) -> None:
    stored = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert stored.rstrip("\n") == PAGES[page].rstrip("\n"), "run `make docs`"


def test_every_module_says_what_it_is() -> None:
    assert not re.findall(r"^- `\S+`: *$|^## `\S+`\n\n\n", PAGES["modules.md"], re.MULTILINE)


def test_readme_is_current() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert load("make_readme").renewed(text) == text, "run `make readme`"


@pytest.mark.parametrize("page", PROSE)
def test_what_is_named_is_there(page: str) -> None:
    """Links, and files of the project in backquotes."""
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [target for target in re.findall(r"\]\(([^)#\s]+)\)", text) if "://" not in target]
    missing = [target for target in links if not (ROOT / page).parent.joinpath(target).exists()]
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
    for name in re.findall(rf"`((?:{folders})/[\w./*-]*)`", text):
        if not list(ROOT.glob(name.rstrip("/"))) and name != "tests/lit/tensor/softsign.ir":  # which the reader is to write
            missing.append(name)
    assert not missing


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def python(code: str) -> str:
    """What a program prints that runs in the project's folder."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ)
    assert not done.returncode, done.stderr
    return done.stdout


def test_the_program_of_the_readme_runs() -> None:
    block, = blocks("README.md", "python")
    printed = python(block)
    assert "func.func @loss_grad(" in printed and "prim.dot" in printed
    assert "f.ir:2:10: error: use of undeclared SSA value name '%y'\n  return %y : tensor<f32>\n         ^\n" in printed


@pytest.mark.parametrize("own_rule", [False, True])
def test_the_new_operation_works(own_rule: bool) -> None:
    """Value, both derivatives and the lit test of docs/new_operation.md, without and with a derivative rule of its own."""
    declaration, decomposition, rule = blocks("docs/new_operation.md", "python")
    text, = blocks("docs/new_operation.md", "mlir")
    check = f"""
import numpy as np, gradopt
from gradopt.ir.dialect import find_dialect
{declaration}
find_dialect("hl").operations["hl.softsign"] = SoftsignOp
{decomposition}
{rule if own_rule else ""}
text = {text!r}
x = np.array([-2, -0.5, 0.5, 3], np.float32)
np.testing.assert_allclose(gradopt.compile(text, "f")(x), np.sum(x / (1 + np.abs(x))), rtol=1e-6)
np.testing.assert_allclose(gradopt.compile(text, "f_grad")(x), 1 / (1 + np.abs(x)) ** 2, rtol=1e-6)
np.testing.assert_allclose(gradopt.compile(text, "f_hvp")(x, np.ones(4, np.float32))[-1], -2 * np.sign(x) / (1 + np.abs(x)) ** 3, rtol=1e-6)
print(gradopt.run_passes(gradopt.parse(text), "autodiff,decompose,canonicalize,cse,dce"))
"""
    printed = python(check)
    assert "prim.abs %x" in printed and ("prim.sign %x" in printed) != own_rule
