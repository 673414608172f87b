"""The wheel holds every subpackage and the grammar, and works where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "dialects", "parser", "lowering", "tools")
LOSS = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = prim.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel made from a copy of the sources, so that no build folder is left in the repository."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for folder in (*FOLDERS, "src"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
                    "--disable-pip-version-check", "--wheel-dir", str(target), str(source)], check=True, cwd=source)
    return next(target.glob("*.whl"))


def expected_files() -> set[str]:
    """Each source file of the five folders as it stands in the wheel, and what is not Python."""
    files = {"gradopt/__init__.py", "gradopt/py.typed"}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".lark") and "__pycache__" not in path.parts:
                files.add(f"gradopt/{path.relative_to(ROOT).as_posix()}")
    return files


def test_every_file_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
    missing = expected_files() - found
    assert not missing, f"missing from the wheel (a folder without __init__.py?): {sorted(missing)}"
    assert any(name.endswith(".lark") for name in found)
    assert all(name.startswith(("gradopt/", "gradopt-")) for name in found)


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_the_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = ("import sys; sys.path[:0] = sys.argv[3:]; import gradopt;"
            "assert gradopt.__file__.startswith(sys.argv[1]), gradopt.__file__;"
            "print(gradopt.run_passes(gradopt.parse(sys.argv[2]), 'cse,dce'))")
    # -S -I: neither the editable install nor the working folder can stand in for the wheel; the dependencies are given by path
    paths = [str(tmp_path / "site"), *(path for path in sys.path if path.endswith("site-packages"))]
    command = [sys.executable, "-S", "-I", "-c", code, paths[0], LOSS, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "prim.exp" in done.stdout
