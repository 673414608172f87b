"""Text to IR: `parse_module`, `parse_type`, `parse_attribute`, `split_input`. All raise GradoptError with located diagnostics."""

from __future__ import annotations

import gc
import re
from typing import TYPE_CHECKING, Any

from gradopt.ir.diagnostics import Diagnostic, GradoptError
from gradopt.ir.locations import Source, SourceLocation
from gradopt.ir.operation import Operation

if TYPE_CHECKING:
    from gradopt.ir.attributes import Attribute
    from gradopt.ir.types import Type

__all__ = ["parse_attribute", "parse_module", "parse_type", "split_input"]


def parse_module(text: str | Source, name: str = "<string>", *, allow_unregistered: bool = False, fast: bool = True) -> Operation:
    """The module that a text holds (one is made around several top-level operations). Does not verify.

    `fast=False` reads flat lines by the grammar, like all others: the IR is the same. Raises GradoptError."""
    source = _without_mark(text if isinstance(text, Source) else Source(name, text))
    enabled = gc.isenabled()
    gc.disable()  # a parse makes many objects and no garbage
    try:
        from gradopt.parser.builder import IRBuilder
        from gradopt.parser.metadata import read_metadata

        metadata = _located(source, lambda: read_metadata(source.text))
        items, callbacks = _read(source, "start", fast, metadata.resources)
        token = callbacks.metadata_token
        if token is not None and token.start_pos != metadata.offset:
            raise _error(source, token.start_pos, "file metadata must stand at the end of the file")
        module = IRBuilder(source, callbacks, allow_unregistered).build(items)
        if metadata.external:
            module.external_resources = metadata.external  # type: ignore[attr-defined]
        return module
    finally:
        if enabled:
            gc.enable()


def _without_mark(source: Source) -> Source:
    """The source without the byte order mark that some editors put first. Raises GradoptError for UTF-16."""
    if source.text.startswith("\ufeff"):
        return Source(source.name, source.text[1:], source.first_line)
    if source.text.startswith(("\udcff\udcfe", "\udcfe\udcff")):
        raise _error(source, 0, "the text begins with the byte order mark of UTF-16, expected UTF-8")
    return source


def parse_type(text: str) -> Type:
    """A type. Raises GradoptError."""
    type: Type = _read(Source("<type>", text), "type")[0]
    return type


def parse_attribute(text: str) -> Attribute:
    """An attribute. Raises GradoptError."""
    attribute: Attribute = _read(Source("<attribute>", text), "attribute")[0]
    return attribute


def split_input(text: str, name: str, marker: str = "// -----") -> list[Source]:
    """The parts of a text between lines that begin with `marker` (blanks before it aside), each with its line numbers in the whole."""
    sources, start, line = [], 0, 1
    for match in re.finditer(rf"^[ \t]*{re.escape(marker)}.*$\n?", text, re.MULTILINE):
        sources.append(Source(name, text[start: match.start()], line))
        line += text.count("\n", start, match.end())
        start = match.end()
    sources.append(Source(name, text[start:], line))
    return sources


def _read(source: Source, rule: str, fast: bool = True, resources: dict[str, bytes] | None = None) -> Any:
    from gradopt.parser.reader import read

    return _located(source, lambda: read(source.text, rule, fast=fast, resources=resources))


def _located(source: Source, call: Any) -> Any:
    """What a call returns; its SyntaxFault becomes a GradoptError."""
    from gradopt.parser.brackets import SyntaxFault

    try:
        return call()
    except SyntaxFault as fault:
        raise _error(source, fault.offset, fault.message) from None


def _error(source: Source, offset: int, message: str) -> GradoptError:
    return GradoptError(Diagnostic(SourceLocation(source, max(offset, 0)), message))
