"""The house rules that a program can check: which folder imports which, what importing costs, how long files are."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "dialects", "parser", "lowering", "tools")
# folder -> the folders that it may import (besides itself)
ALLOWED = {
    "ir": set(),
    "dialects": {"ir"},
    "parser": {"ir", "dialects"},
    "lowering": {"ir", "dialects"},
    "tools": {"ir", "dialects", "parser", "lowering"},
}
LONG_FILES: dict[str, str] = {}  # file -> why it may be longer than LONGEST
LONGEST = 500


def sources() -> Iterator[Path]:
    """All source files of the package."""
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))
    yield from sorted((ROOT / "src").rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import statement in a file, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.lineno, node.module or ""
            if node.module == "gradopt":
                for alias in node.names:
                    yield node.lineno, f"gradopt.{alias.name}"


def test_there_are_sources() -> None:
    assert len(list(sources())) > 50


def test_imports_point_one_way() -> None:
    wrong = []
    for path in sources():
        folder = path.relative_to(ROOT).parts[0]
        for line, module in imported(path):
            parts = module.split(".")
            if parts[0] == "gradopt" and len(parts) > 1 and parts[1] in FOLDERS and folder in FOLDERS \
                    and parts[1] != folder and parts[1] not in ALLOWED[folder]:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {folder} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_no_folder_is_imported_by_its_bare_name() -> None:
    others = (path for folder in ("tests", "examples", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py"))
    files = [*sources(), *others]
    wrong = [f"{path.relative_to(ROOT)}:{line}: {module}" for path in files for line, module in imported(path)
             if module.split(".")[0] in FOLDERS]
    assert not wrong, "\n".join(wrong)


def test_no_file_is_too_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    wrong = [f"{name}: {length} lines" for name, length in lengths.items() if length > LONGEST and name not in LONG_FILES]
    assert not wrong, "\n".join(wrong)
    assert not [name for name in LONG_FILES if lengths.get(name, 0) <= LONGEST], "a reason that is no longer needed"


@pytest.mark.parametrize(("statement", "banned"), [
    ("import gradopt", {"numpy", "numba", "lark", "scipy"}),
    ("import gradopt.dialects", {"numpy", "numba"}),
    ("import gradopt.dialects as d; from gradopt.ir import dialect; list(map(dialect.find_dialect, dialect.dialect_names()))",
     {"numpy", "numba"}),
    ("import gradopt.tools.gradopt", {"numpy", "numba", "argparse"}),
    ("from gradopt.lowering.passes.registry import find_pass, pass_names; [find_pass(n) for n in pass_names()]", {"numba"}),
])
def test_imports_are_lazy(statement: str, banned: set[str]) -> None:
    code = f"import sys; {statement}; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not banned & set(loaded)
