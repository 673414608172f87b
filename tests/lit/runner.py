"""Runs lit tests inside this process: RUN lines of `gradopt … | filecheck …` without starting a Python for each.

Understood: `|`, `&&`, `;`, `<`, `>`, `>>`, `2>`, `2>&1`, `not`, quotes, `%s %S %t %T %%`, `%mlir-opt`, a backslash at the end
of a line, REQUIRES, UNSUPPORTED, XFAIL. The project's tools and filecheck run in the process, any other program outside.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Outcome", "Script", "features", "read_script", "run_script"]

TOOLS = {
    "gradopt": "gradopt.tools.gradopt",
    "gradopt-run": "gradopt.tools.run",
    "gradopt-reduce": "gradopt.tools.reduce",
    "gradopt-filecheck-update": "gradopt.tools.filecheck_update",
}
_DIRECTIVE = re.compile(r"\b(RUN|REQUIRES|UNSUPPORTED|XFAIL):(.*)")
_TOKEN = re.compile(r"""\s*(2>&1|2>|&&|\|\||\||>>|>|<|;|(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s|&;<>"'\\]|&(?!&))+)""")


class Outcome(NamedTuple):
    """What a program left behind."""

    status: int
    output: str
    errors: str


class Script(NamedTuple):
    """The directives of a test file."""

    lines: list[str]
    requires: list[str]
    unsupported: list[str]
    fails: bool


class ShellError(Exception):
    """A RUN line that this runner does not understand."""


def features() -> set[str]:
    """The features that REQUIRES may name."""
    return {"mlir"} if _mlir_opt() is not None else set()


def _mlir_opt() -> str | None:
    return next(filter(None, map(shutil.which, ("mlir-opt-22", "mlir-opt"))), None)


def read_script(path: Path) -> Script:
    """The directives of a file; a RUN line that ends in a backslash goes on in the next."""
    script = Script([], [], [], False)
    going_on = False
    for match in _DIRECTIVE.finditer(path.read_text(encoding="utf-8", errors="surrogateescape")):
        kind, text = match[1], match[2].strip()
        if kind == "RUN":
            if going_on:
                script.lines[-1] = script.lines[-1][:-1] + text
            else:
                script.lines.append(text)
            going_on = text.endswith("\\")
        elif kind == "REQUIRES":
            script.requires.extend(part.strip() for part in text.split(","))
        elif kind == "UNSUPPORTED":
            script.unsupported.extend(part.strip() for part in text.split(","))
        elif text == "*":
            script = script._replace(fails=True)
    return script


def run_script(path: Path, script: Script) -> str | None:
    """Runs all lines of a test; None if all succeed, else a report of the one that did not."""
    with tempfile.TemporaryDirectory(prefix="gradopt-lit-") as folder:
        for line in script.lines:
            text = substitute(line, path, folder)
            try:
                outcome = run_line(text, folder)
            except ShellError as error:
                return f"{path}: RUN: {text}\n{error}"
            if outcome.status:
                return f"{path}: exit status {outcome.status} of\n  {text}\n{outcome.errors}{outcome.output}"
    return None


def substitute(line: str, path: Path, folder: str) -> str:
    """Replaces lit's `%` names."""
    names = {"%s": str(path), "%S": str(path.parent), "%t": os.path.join(folder, path.name + ".tmp"), "%T": folder, "%%": "%",
             "%mlir-opt": f"{_mlir_opt()} --allow-unregistered-dialect --mlir-print-op-generic"}
    return re.sub(r"%mlir-opt|%[sStT](?!\w)|%%", lambda match: names[match[0]], line)


class Command(NamedTuple):
    """One program of a pipe with its redirections."""

    words: list[str]
    redirections: list[tuple[str, str]]


def run_line(text: str, folder: str) -> Outcome:
    """Runs a line: pipes joined by `&&` or `;`. A pipe fails if any of its programs does."""
    outcome = Outcome(0, "", "")
    for pipe, joint in parse(text):
        outcome = run_pipe(pipe, folder)
        if outcome.status and joint == "&&":
            break
    return outcome


def parse(text: str) -> Iterator[tuple[list[Command], str]]:
    """The pipes of a line, each with what stands behind it. Raises ShellError."""
    pipe = [Command([], [])]
    tokens = list(_tokens(text))
    index = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        if token in (";", "&&"):
            yield pipe, token
            pipe = [Command([], [])]
        elif token == "||":
            raise ShellError("the runner does not know '||'")
        elif token == "|":
            pipe.append(Command([], []))
        elif token == "2>&1":
            pipe[-1].redirections.append((token, ""))
        elif token in ("<", ">", ">>", "2>"):
            if index == len(tokens):
                raise ShellError(f"nothing stands behind '{token}'")
            pipe[-1].redirections.append((token, _word(tokens[index])))
            index += 1
        else:
            pipe[-1].words.append(_word(token))
    yield pipe, ";"


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ShellError(f"the runner does not understand: {text[position:]}")
        yield match[1]
        position = match.end()


def _word(token: str) -> str:
    words = shlex.split(token)
    return words[0] if words else ""


def run_pipe(pipe: Sequence[Command], folder: str) -> Outcome:
    """Runs the programs of a pipe one after the other, each on the whole output of the one before."""
    given, errors, status = "", "", 0
    for command in pipe:
        into_output = ("2>&1", "") in command.redirections
        for kind, target in command.redirections:
            if kind == "<":
                given = Path(target).read_text(encoding="utf-8", errors="surrogateescape")
        outcome = run_command(command.words, given, folder)
        output, error = outcome.output, outcome.errors
        if into_output:
            output, error = error + output, ""
        for kind, target in command.redirections:
            if kind in (">", ">>"):
                with open(target, "a" if kind == ">>" else "w", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(output)
                output = ""
            elif kind == "2>":
                Path(target).write_text(error, encoding="utf-8", errors="surrogateescape")
                error = ""
        given, errors, status = output, errors + error, status or outcome.status
    return Outcome(status, given, errors)


def run_command(words: Sequence[str], given: str, folder: str) -> Outcome:
    """Runs one program: a tool of the project or filecheck in this process, another one outside."""
    if not words:
        raise ShellError("a command is missing")
    name = words[0]
    if name in ("not", "!"):
        outcome = run_command(words[1:], given, folder)
        return outcome._replace(status=int(outcome.status == 0))
    if name in TOOLS:
        main: Callable[[list[str]], int] = importlib.import_module(TOOLS[name]).main
        return call(lambda: main(list(words[1:])), given)
    if name in ("filecheck", "FileCheck"):
        from filecheck.main import main as filecheck

        return call(lambda: filecheck([name, *words[1:]]), given)
    environment = {**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")}
    try:
        process = subprocess.run(words, input=given.encode("utf-8", "surrogateescape"), capture_output=True, cwd=folder,
                                 check=False, env=environment)
    except OSError as error:
        raise ShellError(f"cannot run '{name}': {error.strerror}") from None
    return Outcome(process.returncode, process.stdout.decode("utf-8", "surrogateescape"),
                   process.stderr.decode("utf-8", "surrogateescape"))


def call(main: Callable[[], int | None], given: str) -> Outcome:
    """Calls a `main` with standard streams of its own."""
    output, errors, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(given)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = main() or 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdin = before
    return Outcome(status, output.getvalue(), errors.getvalue())
