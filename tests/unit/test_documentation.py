"""docs/ops holds what the declarations say now, and the stages in README.md are what the commands print now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = dict(load("make_ops").pages())


@pytest.mark.parametrize("page", PAGES)
def test_page_is_current(page: str) -> None:
    stored = (ROOT / "docs" / "ops" / page).read_text(encoding="utf-8")
    assert stored.rstrip("\n") == PAGES[page].rstrip("\n"), "run `make docs`"


def test_readme_is_current() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert load("make_readme").renewed(text) == text, "run `make readme`"
