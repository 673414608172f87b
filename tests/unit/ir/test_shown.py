"""How messages show text: nothing invisible, nothing that commands a terminal, and the caret under its character."""

from __future__ import annotations

import pytest
from gradopt.ir.diagnostics import Diagnostic, GradoptError, render
from gradopt.ir.locations import Source, SourceLocation
from gradopt.ir.shown import character_name, columns, excerpt, shown
from gradopt.tools.command import uses_color

from gradopt import parse


@pytest.mark.parametrize(("text", "expected"), [
    ("plain, é, 中", "plain, é, 中"), ("a\tb", "a\tb"), ("\ufeffa", "<U+FEFF>a"), ("a\u200bb", "a<U+200B>b"), ("\x1b[31m", "<U+001B>[31m"),
    ("\udcff", "<FF>"), ("\ud800", "<U+D800>"), ("\u202e", "<U+202E>"), ("a\rb", "a<U+000D>b"), ("\x00", "<U+0000>"),
])
def test_shown(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(("character", "name"), [
    ("$", "character '$'"), ("\u200b", "character U+200B (zero width space)"), ("\x00", "character U+0000"),
    ("\xa0", "character U+00A0 (no-break space)"), ("\udcff", "byte 0xFF, which is no UTF-8"),
])
def test_names(character: str, name: str) -> None:
    assert character_name(character) == name


def test_columns() -> None:
    assert [columns(text) for text in ("", "abc", "中文", "e\u0301", "é")] == [0, 3, 4, 1, 1]
    assert excerpt("\t中\x1b!", 4) == ("\t中<U+001B>!", "\t" + " " * 10)
    line, indent = excerpt("a" * 4000 + "!" + "b" * 4000, 4001)
    assert len(line) == 1002 and line[0] == line[-1] == "…" and line[len(indent)] == "!"
    assert excerpt("ab", 3) == ("ab", "  ")


def test_messages_command_no_terminal() -> None:
    text = render(Diagnostic(SourceLocation(Source("a\x1b.ir", "x\x1b[31m"), 0), "no '\x1b[31m'\nnor this"))
    assert text == "a<U+001B>.ir:1:1: error: no '<U+001B>[31m'\nnor this\nx<U+001B>[31m\n^"


@pytest.mark.parametrize(("text", "place"), [
    ('\ufeff"a.b"() : ! () -> ()', (1, 11, "invalid type identifier")),
    ('"a.b"() : () -> ()\n\ufeff"a.b"() : () -> ()', (2, 1, "unexpected character U+FEFF (zero width no-break space)")),
    ("\udcff\udcfem\x00", (1, 1, "the text begins with the byte order mark of UTF-16, expected UTF-8")),
    ('"a.b"()\r\n : ! ()', (2, 4, "invalid type identifier")),
])
def test_byte_order_marks_and_line_ends(text: str, place: tuple[int, int, str]) -> None:
    """A mark at the start of a text is skipped, which some editors put there; mlir-opt refuses it."""
    with pytest.raises(GradoptError) as caught:
        parse(text, allow_unregistered=True)
    diagnostic = caught.value.diagnostics[0]
    assert isinstance(diagnostic.location, SourceLocation)
    assert (*diagnostic.location.source.position(diagnostic.location.offset), diagnostic.message) == place
    assert str(parse('\ufeff"a.b"() : () -> ()', allow_unregistered=True)) == 'module {\n  "a.b"() : () -> ()\n}\n'


def test_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert uses_color() and uses_color("always") and not uses_color("never")
    monkeypatch.setenv("NO_COLOR", "")
    assert uses_color()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not uses_color() and uses_color("always")
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not uses_color()
