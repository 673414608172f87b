"""Writes docs/ops/ (a page a dialect and one of the passes, from the declarations) and docs/modules.md (a line a module)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import gradopt.dialects  # noqa: F401  (registers them)
from gradopt.ir.dialect import Dialect, dialect_names, find_dialect
from gradopt.lowering.passes.registry import find_pass, pass_names
from gradopt.tools.documentation import operation_signature, operation_text, pass_text

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
CODE = ("ir", "dialects", "parser", "lowering", "tools")


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


def modules_page() -> str:
    """The Markdown page of all modules: the first sentence of each."""
    lines = ["# The modules", "", "Folder by folder; [architecture.md](architecture.md) says where to begin.", ""]
    for folder in CODE:
        for package in sorted({path.parent for path in (ROOT / folder).rglob("*.py")}):
            lines += [f"## `{package.relative_to(ROOT).as_posix()}/`", "", first_sentence(package / "__init__.py"), ""]
            lines += [f"- `{path.name}`: {first_sentence(path)}" for path in sorted(package.glob("*.py")) if path.name != "__init__.py"]
            lines.append("")
    return "\n".join(lines)


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, or all of it up to a colon that a listing follows."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return sentence + stop.strip()


def pages() -> Iterator[tuple[str, str]]:
    """(file in docs/, text) of each page."""
    for name in dialect_names():
        dialect = find_dialect(name)
        assert dialect is not None
        yield f"ops/{name}.md", dialect_page(dialect)
    yield "ops/passes.md", passes_page()
    yield "modules.md", modules_page()


def main() -> int:
    """Writes the pages."""
    (FOLDER / "ops").mkdir(exist_ok=True)
    for name, text in pages():
        (FOLDER / name).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
