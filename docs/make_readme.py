"""Runs the commands that README.md shows and puts in what they print, so that it is always what was really printed.

A command stands in a comment before its block:

    <!-- run: gradopt --pass=autodiff examples/loss.ir -->
    ```mlir
    …
    ```

`python docs/make_readme.py` rewrites the file; with `--check` it only says whether it is current (exit status 1 if not).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- run: (?P<command>[^\n]+?) -->\n```\w*\n)(?P<text>.*?)(?=^```$)", re.DOTALL | re.MULTILINE)


def output_of(command: str) -> str:
    """What a `gradopt` or `cat` command prints when it runs in the project's folder. Raises RuntimeError where it fails."""
    program, *arguments = shlex.split(command)
    if program == "cat":
        return "".join((ROOT / name).read_text(encoding="utf-8") for name in arguments)
    if program != "gradopt":
        raise RuntimeError(f"README.md runs '{program}', expected gradopt or cat")
    from gradopt.tools.gradopt import main

    printed, errors, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(ROOT)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            status = main(arguments)
    finally:
        os.chdir(before)
    if status:
        raise RuntimeError(f"'{command}' failed with exit status {status}:\n{errors.getvalue()}")
    return printed.getvalue()


def renewed(text: str) -> str:
    """The text with the output of each command in its block."""
    return BLOCK.sub(lambda match: match[1] + output_of(match["command"]), text)


def main(arguments: Sequence[str]) -> int:
    """Rewrites or checks README.md."""
    path = ROOT / "README.md"
    before = path.read_text(encoding="utf-8")
    after = renewed(before)
    if before == after:
        return 0
    if "--check" in arguments:
        print("README.md shows what is no longer printed: run `make readme`")
        return 1
    path.write_text(after, encoding="utf-8")
    print("README.md is new")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
