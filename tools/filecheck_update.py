"""`gradopt-filecheck-update`: writes the CHECK lines of a lit test from what its RUN lines print now. See `--help`."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gradopt.tools.command import OK, inform, run_tool
from gradopt.tools.files import FileError, read_text, write_text
from gradopt.tools.options import Option, UsageError, parse_arguments

__all__ = ["check_lines", "main", "run_lines", "updated"]

USAGE = "gradopt-filecheck-update [options] file…"
DESCRIPTION = ("For each `RUN: gradopt … %s | filecheck %s` of a lit test, replaces the CHECK lines of its prefix by ones made "
               "from the present output: before each function what it prints as, SSA names captured. Other lines stay.")
OPTIONS: tuple[Option, ...] = (
    Option("--check", "change nothing; exit status 1 if a file would change"),
    Option("--version", "print the version"),
    Option("--help", "print this text", aliases=("-h",)),
)
_RUN = re.compile(r"\bRUN:(.*)")
_FUNCTION = re.compile(r"^\s*(?:func\.func|\"func\.func\").*?@(\"[^\"]*\"|[\w$.]+)")
_NAME = re.compile(r"%([\w$.]+)(#\d+|:\d+)?")


class Test(NamedTuple):
    """A RUN line: the command that prints and the prefix that filecheck looks for."""

    command: list[str]
    prefix: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Updates files; exit status 1 where a command fails (or with --check a file is not current), 2 for a wrong command line."""
    def work() -> int:
        options, files = parse_arguments(OPTIONS, sys.argv[1:] if arguments is None else arguments)
        if inform("gradopt-filecheck-update", USAGE, DESCRIPTION, OPTIONS, options):
            return OK
        if not files:
            raise UsageError(f"takes at least one file: {USAGE}")
        changed = [path for path in files if update(path, options["check"])]
        for path in changed:
            sys.stderr.write(f"{path}: {'not current' if options['check'] else 'updated'}\n")
        return int(options["check"] and bool(changed))

    return run_tool("gradopt-filecheck-update", work)


def update(path: str, check: bool) -> bool:
    """Updates one file; True if it changed."""
    text = read_text(path)
    after = updated(text, path)
    if after != text and not check:
        write_text(path, after)
    return after != text


def run_lines(text: str) -> list[Test]:
    """The RUN lines of the form `gradopt … | filecheck %s`; others have no lines to update."""
    lines: list[str] = []
    for match in _RUN.finditer(text):
        if lines and lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1] + match[1].strip()
        else:
            lines.append(match[1].strip())
    tests = []
    for line in lines:
        first, *rest = (shlex.split(part) for part in _pipe_parts(line))
        if len(rest) == 1 and first[:1] == ["gradopt"] and rest[0][:1] in (["filecheck"], ["FileCheck"]) and "%s" in rest[0]:
            prefixes = [word.split("=", 1)[1] for word in rest[0] if re.match(r"-?-check-prefix(es)?=", word)]
            tests.append(Test(first[1:], (prefixes or ["CHECK"])[0].split(",")[0]))
    return tests


def _pipe_parts(line: str) -> list[str]:
    """The line cut at each `|` that is not quoted."""
    parts, quote = [""], ""
    for character in line:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "|":
            parts.append("")
            continue
        parts[-1] += character
    return parts


def output_of(command: Sequence[str], path: str) -> str:
    """What `gradopt` prints. Raises FileError where it fails."""
    from gradopt.tools.gradopt import main as gradopt

    into_output = "2>&1" in command
    words = [word.replace("%s", path).replace("%S", os.path.dirname(path) or ".") for word in command if word != "2>&1"]
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output if into_output else errors):
        status = gradopt(words)
    if status:
        raise FileError(f"'gradopt {shlex.join(words)}' fails with exit status {status}:\n{errors.getvalue()}{output.getvalue()}")
    return output.getvalue()


def updated(text: str, path: str, run: Callable[[Sequence[str], str], str] = output_of) -> str:
    """The text with new CHECK lines. Raises FileError where there is nothing to update or a command fails."""
    tests = {test.prefix: test for test in run_lines(text)}
    if not tests:
        raise FileError(f"'{path}' has no line of the form 'RUN: gradopt … %s | filecheck %s'")
    for prefix, test in tests.items():
        blocks = check_lines(run(test.command, path), prefix)
        text = _insert(_without_checks(text, prefix), blocks)
    return text


def _without_checks(text: str, prefix: str) -> str:
    pattern = re.compile(rf"^\s*(//|#|;)?\s*{re.escape(prefix)}(-[A-Z]+(-\d+)?)?:")
    return "".join(line for line in text.splitlines(keepends=True) if not pattern.match(line))


def _insert(text: str, blocks: dict[str, list[str]]) -> str:
    """Puts each function's lines before the function, and those of functions that are not in the text at its end."""
    waiting = dict(blocks)
    out: list[str] = []
    for line in text.splitlines():
        match = _FUNCTION.match(line)
        if match is not None and match[1] in waiting:
            out += waiting.pop(match[1])
        out.append(line)
    for lines in waiting.values():
        out += ["", *lines]
    return "\n".join(out) + "\n"


def check_lines(output: str, prefix: str) -> dict[str, list[str]]:
    """For each function in the output its CHECK lines: a label, the signature, then every line."""
    blocks: dict[str, list[str]] = {}
    for name, lines in _functions(output):
        names: dict[str, str] = {}
        head, _, signature = lines[0].strip().partition("(")
        block = [f"// {prefix}-LABEL: {head}(", f"// {prefix}-SAME: {_captured(signature, names)}"]
        block += [f"// {prefix}-NEXT: {_captured(line.strip(), names)}" for line in lines[1:] if line.strip()]
        blocks[name] = block
    return blocks


def _functions(output: str) -> Iterator[tuple[str, list[str]]]:
    """(name, lines) of each function: from its first line to the line that closes it at the same indentation."""
    lines = output.splitlines()
    index = 0
    while index < len(lines):
        match = _FUNCTION.match(lines[index])
        start = index
        index += 1
        if match is None:
            continue
        if lines[start].rstrip().endswith("{"):
            indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
            while index < len(lines) and not lines[index].startswith(indent + "}"):
                index += 1
            index += 1
        yield match[1], lines[start:index]


def _captured(line: str, names: dict[str, str]) -> str:
    """The line with SSA names captured where they come first and referred to after that; `[[` and `{{` are escaped."""
    pieces, end = [], 0
    for match in _NAME.finditer(line):
        pieces.append(_escaped(line[end: match.start()]))
        end = match.end()
        known = names.get(match[1])
        if known is None:
            known = match[1].upper().replace("$", "_").replace(".", "_")
            known = f"V{known}" if known[0].isdigit() else known
            while known in names.values():
                known += "_"
            names[match[1]] = known
            pieces.append(f"%[[{known}:[A-Za-z0-9_$.]+]]{match[2] or ''}")
        else:
            pieces.append(f"%[[{known}]]{match[2] or ''}")
    return "".join([*pieces, _escaped(line[end:])])


def _escaped(text: str) -> str:
    return re.sub(r"\[\[+|\{\{+", lambda match: "{{" + "".join("\\" + character for character in match[0]) + "}}", text)


if __name__ == "__main__":
    sys.exit(main())
