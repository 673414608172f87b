"""The parser's tables are built once, loaded after that, and built again where the file is damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import lark
built = []
make = lark.Lark.__init__
lark.Lark.__init__ = lambda self, *arguments, **keywords: (built.append(1), make(self, *arguments, **keywords))[1]
import gradopt
assert str(gradopt.parse("func.func private @f(tensor<2xf32>)")).count("tensor<2xf32>") == 1
print(len(built))
"""


def run(folder: Path) -> int:
    """How often a new process builds the tables."""
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True,
                             env={**os.environ, "GRADOPT_CACHE_DIR": str(folder)})
    return int(process.stdout)


def test_built_once_and_again_where_damaged(tmp_path: Path) -> None:
    assert run(tmp_path) == 1
    [stored] = (tmp_path / "tables").iterdir()
    assert run(tmp_path) == 0
    content = stored.read_bytes()
    for damaged in (b"", content[:1000], content[:-1] + bytes([content[-1] ^ 1]), b"x" * len(content)):
        stored.write_bytes(damaged)
        assert run(tmp_path) == 1
        assert len(stored.read_bytes()) > 10_000  # mended
    assert run(tmp_path) == 0


def test_no_folder_to_keep_them(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert run(file) == 1 and run(file) == 1
