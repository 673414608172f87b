"""Tools whose streams are closed, full or of another encoding, and that are interrupted: a status and a line, never a traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = prim.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
posix = pytest.mark.skipif(os.name != "posix", reason="file descriptors and devices of POSIX")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f.ir").write_text(PROGRAM)
    return tmp_path


def shell(command: str, folder: Path, **environment: str) -> tuple[int, str, str]:
    """Status, output and errors of a line for the shell, in which TOOL stands for `python -m gradopt.tools.`."""
    done = subprocess.run(["sh", "-c", command.replace("TOOL", f"{sys.executable} -m gradopt.tools.")], cwd=folder, capture_output=True,
                          check=False, stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@posix
@pytest.mark.parametrize(("command", "status", "error"), [
    ("TOOLgradopt f.ir >&-", 1, "gradopt: error: cannot write to standard output: Bad file descriptor\n"),
    ("TOOLgradopt f.ir -o out.ir >&-", 0, ""),
    ("TOOLgradopt - <&-", 1, "gradopt: error: cannot read standard input: it is closed\n"),
    ("TOOLgradopt missing.ir 2>&-", 1, ""),
    ("TOOLgradopt . ", 1, "gradopt: error: cannot read '.': Is a directory\n"),
    ("TOOLgradopt f.ir -o .", 1, "gradopt: error: cannot write '.': Is a directory\n"),
    ("TOOLgradopt /dev/null -o /dev/null", 0, ""),
])
def test_odd_streams(command: str, status: int, error: str, folder: Path) -> None:
    assert shell(command, folder)[::2] == (status, error)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("command", ["TOOLgradopt f.ir >/dev/full", "TOOLgradopt --list-passes >/dev/full", "TOOLgradopt f.ir -o /dev/full",
                                     "TOOLrun f.ir --arg=random >/dev/full"])
def test_a_full_disk(command: str, folder: Path) -> None:
    status, _, error = shell(command, folder)
    assert status == 1 and error.endswith(": No space left on device\n") and error.count("\n") == 1


@posix
def test_nobody_reads(folder: Path) -> None:
    lines = "".join(f"  %y{index} = prim.exp %x : tensor<4xf32>\n" for index in range(5000))
    (folder / "long.ir").write_text(PROGRAM.replace("  %y =", lines + "  %y ="))
    assert shell("TOOLgradopt long.ir | head -n 1", folder) == (0, "module {\n", "")


@posix
@pytest.mark.parametrize("environment", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "latin-1"}])
def test_other_encodings(environment: dict[str, str], folder: Path) -> None:
    """What is written is UTF-8 whatever the locale."""
    status, output, error = shell("TOOLrun f.ir --arg=random --time=0.001", folder, **environment)
    assert (status, error) == (0, "") and "µs" in output
    status, _, error = shell("TOOLrun f.ir", folder, **environment)
    assert status == 2 and error == "gradopt-run: error: no value for x: give --arg x=…, or --arg random for all\n"


@posix
@pytest.mark.parametrize("environment", [{"HOME": "/dev/null"}, {"TMPDIR": "/dev/null"}, {"GRADOPT_CACHE_DIR": "/dev/null"},
                                         {"GRADOPT_CACHE_DIR": "open", "COLUMNS": "1", "TERM": "dumb"}])
def test_odd_environments(environment: dict[str, str], folder: Path) -> None:
    """No home, no temporary folder, no cache or one that anybody may write to: all still runs, and nothing is stored there."""
    (folder / "open").mkdir()
    os.chmod(folder / "open", 0o777)
    assert shell("TOOLrun f.ir --arg=zeros --print=none && TOOLgradopt --help >/dev/null && TOOLgradopt f.ir -o out.ir", folder,
                 **environment) == (0, "", "")
    assert (folder / "out.ir").read_text().count("prim.exp") == 1
    assert not [path for path in (folder / "open").rglob("*") if path.is_file()]


@posix
def test_an_interrupt(folder: Path) -> None:
    os.mkfifo(folder / "pipe.ir")
    process = subprocess.Popen([sys.executable, "-m", "gradopt.tools.gradopt", "pipe.ir"], cwd=folder, stderr=subprocess.PIPE)
    error = None
    with open(folder / "pipe.ir", "wb"):  # returns when the tool has opened its end, and keeps it waiting
        while error is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that comes between opening and reading, Python only notes
                _, error = process.communicate(timeout=10)
    assert process.returncode == 130 and error == b"gradopt: interrupted\n"


@posix
@pytest.mark.parametrize("damage", ["echo junk > $f", ": > $f", "rm $f; mkdir $f"])
def test_a_damaged_cache(damage: str, folder: Path) -> None:
    """The parser's tables and the kernels are made again."""
    command = "TOOLrun f.ir --arg=zeros"
    cache = folder / "cache"
    first = shell(command, folder, GRADOPT_CACHE_DIR=str(cache))
    assert first[0] == 0 and any(cache.glob("*.o")) and any(cache.glob("tables/*"))
    count = len(list(cache.rglob("*")))
    shell(f"for f in cache/*.o cache/tables/*; do {damage}; done", folder)
    assert shell(command, folder, GRADOPT_CACHE_DIR=str(cache)) == first
    assert len(list(cache.rglob("*"))) == count  # nothing temporary stays
