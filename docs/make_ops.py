"""Writes docs/ops/: a page a dialect and one of the passes, from the declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import gradopt.dialects  # noqa: F401  (registers them)
from gradopt.ir.dialect import Dialect, dialect_names, find_dialect
from gradopt.lowering.passes.registry import find_pass, pass_names
from gradopt.tools.documentation import operation_signature, operation_text, pass_text

FOLDER = Path(__file__).resolve().parent / "ops"


def dialect_page(dialect: Dialect) -> str:
    """The Markdown page of a dialect."""
    lines = [f"# The dialect `{dialect.name}`", "", dialect.documentation.strip(), ""]
    for cls in dialect.operations.values():
        lines += [f"## `{cls.name}`", "", "```", operation_signature(cls), "```", "", "```text",
                  operation_text(cls).split("\n", 2)[2].strip("\n"), "```", ""]
    return "\n".join(lines)


def passes_page() -> str:
    """The Markdown page of all passes."""
    lines = ["# The passes", ""]
    for name in pass_names():
        cls = find_pass(name)
        assert cls is not None
        lines += [f"## `{name}`", "", pass_text(cls).split("\n", 2)[2].strip("\n"), ""]
    return "\n".join(lines)


def pages() -> Iterator[tuple[str, str]]:
    """(file name, text) of each page."""
    for name in dialect_names():
        dialect = find_dialect(name)
        assert dialect is not None
        yield f"{name}.md", dialect_page(dialect)
    yield "passes.md", passes_page()


def main() -> int:
    """Writes the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages():
        (FOLDER / name).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
