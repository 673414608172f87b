"""`gradopt-reduce`: makes a failing file smaller while a test command keeps failing. See `gradopt-reduce --help`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from gradopt.tools.command import OK, inform, run_tool
from gradopt.tools.files import FileError, read_text, write_text
from gradopt.tools.options import Option, UsageError, parse_arguments

__all__ = ["Failure", "keep_failing", "main", "minimised"]

USAGE = "gradopt-reduce [options] file -- command [{}] …"
DESCRIPTION = ("Shrinks a file while a command keeps failing on it: `{}` in the command is the file (it stands at the end if "
               "there is no `{}`). The command fails if its exit status is not 0; by default it has to fail as it did at first, "
               "with the same status and the same first error (places and numbers aside).")
OPTIONS: tuple[Option, ...] = (
    Option("--output", "where to write the smaller file (standard output by default)", "FILE", ("-o",)),
    Option("--test", "the command as one string, instead of behind `--`", "COMMAND"),
    Option("--match", "the command has to print this text (a regular expression) instead of the same first error", "TEXT"),
    Option("--any-failure", "any failure will do"),
    Option("--timeout", "seconds after which a command is stopped, which counts as no failure", "SECONDS", default=60.0),
    Option("--quiet", "print no progress", aliases=("-q",)),
    Option("--version", "print the version"),
    Option("--help", "print this text", aliases=("-h",)),
)
Item = TypeVar("Item")


class Failure(NamedTuple):
    """How a command fails."""

    status: int
    output: str

    @property
    def first_error(self) -> str:
        """The first error message, without place and numbers; else the last line."""
        lines = self.output.strip().splitlines() or [""]
        found = next((line for line in lines if "error:" in line), lines[-1])
        message = found.split("error:", 1)[-1]
        return re.sub(r"\d+", "#", re.sub(r"%[\w$.]+(#\d+)?", "%", message)).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit status: 0, 1 if the command does not fail at first, 2 for a wrong command line."""
    def work() -> int:
        options, rest = parse_arguments(OPTIONS, sys.argv[1:] if arguments is None else arguments)
        if inform("gradopt-reduce", USAGE, DESCRIPTION, OPTIONS, options):
            return OK
        try:
            command = shlex.split(options["test"]) if options["test"] else rest[1:]
            if not rest or not command or (options["test"] and len(rest) > 1):
                raise UsageError(f"takes a file and a command: {USAGE}")
            return reduce_file(rest[0], command, options)
        except ValueError as error:  # an open quotation mark, a zero byte in a word
            raise FileError(str(error)) from None

    return run_tool("gradopt-reduce", work)


def reduce_file(path: str, command: Sequence[str], options: dict[str, Any]) -> int:
    """Reduces and writes."""
    try:
        pattern = re.compile(options["match"]) if options["match"] else None
    except re.error as error:
        raise UsageError(f"option '--match' takes a regular expression, found '{options['match']}': {error}") from None
    text = read_text(path)
    first = run(command, text, options["timeout"])
    if first is None:
        raise FileError(f"'{shlex.join(command)}' does not fail on '{path}'")
    if pattern is not None and not pattern.search(first.output):
        raise FileError(f"'{shlex.join(command)}' fails, but does not print '{options['match']}'")

    def fails(candidate: str) -> bool:
        failure = run(command, candidate, options["timeout"])
        if failure is None:
            return False
        if pattern is not None:
            return pattern.search(failure.output) is not None
        return bool(options["any_failure"]) or (failure.status == first.status and failure.first_error == first.first_error)

    if not options["quiet"]:
        sys.stderr.write(f"the failure: {first.first_error or f'exit status {first.status}'}\n")
    smaller = keep_failing(text, fails, None if options["quiet"] else report)
    if options["output"]:
        write_text(options["output"], smaller)
    else:
        sys.stdout.write(smaller)
    return 0


def report(what: str, before: int, after: int) -> None:
    """Prints a line of progress."""
    sys.stderr.write(f"{what}: {before} -> {after}\n")


def run(command: Sequence[str], text: str, timeout: float) -> Failure | None:
    """Runs the command on a text; None where it succeeds or takes too long. Raises FileError where it cannot be started."""
    environment = {**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")}
    with tempfile.TemporaryDirectory(prefix="gradopt-reduce-") as folder:
        file = os.path.join(folder, "reduced.ir")
        write_text(file, text)
        words = [word.replace("{}", file) for word in command]
        if words == list(command):
            words.append(file)
        try:
            process = subprocess.run(words, capture_output=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL,
                                     env=environment)
        except subprocess.TimeoutExpired:
            return None
        except OSError as error:
            raise FileError(f"cannot run '{words[0]}': {error.strerror or error}") from None
    if not process.returncode:
        return None
    output = (process.stderr + b"\n" + process.stdout).decode("utf-8", "surrogateescape")
    return Failure(process.returncode, output.replace(file, "FILE"))


def keep_failing(text: str, fails: Callable[[str], bool], progress: Callable[[str, int, int], None] | None = None) -> str:
    """A smaller text on which `fails` still holds: by operations where the text is IR, and by lines where it is not."""
    from gradopt.tools.reduce_ir import Candidates

    while True:
        candidates = Candidates.of(text)
        if candidates is None:
            break
        before = text
        for what, items, without in candidates.steps():
            kept = minimised(items, partial(_fails_without, fails, without))
            if len(kept) < len(items):
                smaller = without(kept)
                assert smaller is not None
                if progress is not None:
                    progress(what, len(items), len(kept))
                text = smaller
                break
        if text == before:
            return text
    lines = text.split("\n")
    kept_lines = minimised(lines, lambda chosen: fails("\n".join(chosen)))
    if progress is not None:
        progress("lines", len(lines), len(kept_lines))
    return "\n".join(kept_lines)


def _fails_without(fails: Callable[[str], bool], without: Callable[[Sequence[int]], str | None], kept: Sequence[int]) -> bool:
    candidate = without(kept)
    return candidate is not None and fails(candidate)


def minimised(items: Sequence[Item], holds: Callable[[list[Item]], bool]) -> list[Item]:
    """A sublist for which `holds` is true and from which no single item can go.

    This is Zeller and Hildebrandt's ddmin (2002), with complements only."""
    kept = list(items)
    size = max(len(kept) // 2, 1)
    while kept:
        removed = False
        for start in _starts(len(kept), size):
            candidate = kept[:start] + kept[start + size:]
            if holds(candidate):
                kept, removed = candidate, True
                break
        if removed:
            size = min(size, max(len(kept), 1))
        elif size == 1:
            break
        else:
            size = max(size // 2, 1)
    return kept


def _starts(length: int, size: int) -> Iterator[int]:
    """From the end, because later operations use earlier ones."""
    yield from range(max(length - size, 0), -1, -size)


if __name__ == "__main__":
    sys.exit(main())
