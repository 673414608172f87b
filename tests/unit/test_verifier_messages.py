"""Every message of the verifiers of operations has a case in a lit test."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gradopt.ir.declare import InvalidOperation

import gradopt

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "dialects").rglob("*.py"))
# what an operand's, a result's or a region's own constraint reports first
UNREACHED = ("expects a ranked tensor, found", "takes and gives tensors, found", "takes regions of one block that ends in a yield")


def raised(path: str) -> Iterator[tuple[int, int, str]]:
    """(first line, last line, text) of each `raise InvalidOperation` in a file."""
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "InvalidOperation":
            yield node.lineno, node.end_lineno or node.lineno, ast.unparse(node.exc)


def test_every_message_has_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[str, int]] = set()
    original = InvalidOperation.__init__

    def record(self: InvalidOperation, *arguments: object) -> None:
        frame = sys._getframe(1)
        seen.add((str(Path(frame.f_code.co_filename).resolve()), frame.f_lineno))
        original(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(InvalidOperation, "__init__", record)
    for path in sorted((ROOT / "tests" / "lit").rglob("invalid*.ir")):
        for part in path.read_text(encoding="utf-8").split("// -----"):
            with pytest.raises(gradopt.GradoptError):
                gradopt.parse(part)
    missing = [
        f"{path}:{first}: {text}"
        for path in FILES
        for first, last, text in raised(path)
        if not any((str(ROOT / path), line) in seen for line in range(first, last + 1)) and not any(each in text for each in UNREACHED)
    ]
    assert not missing, "\n".join(missing)
