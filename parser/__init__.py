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


def parse_module(text: str | Source, name: str = "<string>", *, allow_unregistered: bool = False) -> Operation:
    """The module that a text holds (one is made around several top-level operations). Does not verify.

    Raises GradoptError."""
    source = text if isinstance(text, Source) else Source(name, text)
    enabled = gc.isenabled()
    gc.disable()  # a parse makes many objects and no garbage
    try:
        from gradopt.parser.builder import IRBuilder
        from gradopt.parser.syntax import Callbacks

        callbacks = Callbacks()
        items = _read(source, "start", callbacks)
        return IRBuilder(source, callbacks, allow_unregistered).build(items)
    finally:
        if enabled:
            gc.enable()


def parse_type(text: str) -> Type:
    """A type. Raises GradoptError."""
    from gradopt.parser.syntax import Callbacks

    type: Type = _read(Source("<type>", text), "type", Callbacks())
    return type


def parse_attribute(text: str) -> Attribute:
    """An attribute. Raises GradoptError."""
    from gradopt.parser.syntax import Callbacks, Place, resolve_place

    value = _read(Source("<attribute>", text), "attribute", Callbacks())
    return resolve_place(value, {}) if isinstance(value, Place) else value


def split_input(text: str, name: str, marker: str = "// -----") -> list[Source]:
    """The parts of a text between lines that begin with `marker`, each with its line numbers in the whole."""
    sources, start, line = [], 0, 1
    for match in re.finditer(rf"^{re.escape(marker)}.*$\n?", text, re.MULTILINE):
        sources.append(Source(name, text[start: match.start()], line))
        line += text.count("\n", start, match.end())
        start = match.end()
    sources.append(Source(name, text[start:], line))
    return sources


def _read(source: Source, start: str, callbacks: Any) -> Any:
    import lark
    from gradopt.parser.syntax import SyntaxFault, SyntaxReader

    try:
        return SyntaxReader.read(source.text, start, callbacks)
    except lark.exceptions.VisitError as error:
        fault = error.orig_exc
        if isinstance(fault, SyntaxFault):
            raise _error(source, fault.offset, fault.message) from None
        raise
    except SyntaxFault as fault:
        raise _error(source, fault.offset, fault.message) from None
    except lark.exceptions.UnexpectedCharacters as error:
        offset = error.pos_in_stream or 0
        raise _error(source, offset, _unexpected_character(source.text, offset)) from None
    except lark.exceptions.UnexpectedToken as error:
        place: int | None = getattr(error.token, "start_pos", None)
        if error.token.type == "$END":
            raise _error(source, len(source.text.rstrip()), f"unexpected end of file{_expected(error)}") from None
        raise _error(source, place or 0, f"unexpected '{_short(str(error.token))}'{_expected(error)}") from None


def _error(source: Source, offset: int, message: str) -> GradoptError:
    return GradoptError(Diagnostic(SourceLocation(source, max(offset, 0)), message))


def _short(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 30 else line[:30] + "…"


def _unexpected_character(text: str, offset: int) -> str:
    rest = text[offset:]
    if rest.startswith('"'):
        return "expected '\"' at the end of a string literal"
    return f"unexpected character {rest[:1]!r}" if rest else "unexpected end of file"


TERMINALS = {"LPAR": "'('", "RPAR": "')'", "LBRACE": "'{'", "RBRACE": "'}'", "LSQB": "'['", "RSQB": "']'", "COLON": "':'",
             "COMMA": "','", "EQUAL": "'='", "VALUE_ID": "an SSA value", "SYMBOL": "a symbol", "TYPE": "a type", "STRING": "a string",
             "INTEGER": "an integer", "OP_NAME": "an operation name", "CARET_ID": "a block name"}


def _expected(error: Any) -> str:
    """`, expected …` for the few terminals that could have come."""
    names = sorted({TERMINALS[name] for name in error.accepts or error.expected if name in TERMINALS}) if hasattr(error, "accepts") else []
    return f", expected {' or '.join(names)}" if 0 < len(names) <= 4 else ""
