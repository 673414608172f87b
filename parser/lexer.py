"""Text to tokens for lark's parser: one regular expression, scanners for bracketed bodies of any depth, and runs of flat lines.

A flat line is a whole simple operation (no region, no nested braces): the longest run of them becomes one token, which `builder.py`
takes apart without the grammar. Every line in a run has types and attributes that were read; any other line goes the long way, so that
errors come from one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from gradopt.ir.shown import character_name
from gradopt.parser.brackets import STRING, SyntaxFault, balanced_end, blank_comments
from gradopt.parser.literals import LiteralError, unescape

__all__ = ["FlatLine", "Token", "tokens"]

FlatLine = tuple[Any, Any, Any, Any]  # the match, the signature, properties, attributes
_VALUE = r"%(?:[0-9]+(?![\w$.\-])|[A-Za-z$._\-][\w$.\-]*)"
_SKIP = re.compile(r"[ \t\r\n\f\v]*(?://[^\n]*[ \t\r\n\f\v]*)*")
_TOKEN = re.compile(rf"""
  (?P<VALUE_ID>%(?:[0-9]+(?![A-Za-z_$.\-])|[A-Za-z$._\-][\w$.\-]*)(?:\#[0-9]+)?)
 |(?P<CARET_ID>\^(?:[0-9]+|[A-Za-z$._\-][\w$.\-]*))
 |(?P<STRING>{STRING})
 |(?P<SYMBOL>@(?:[A-Za-z_][\w$.]*|{STRING}))
 |(?P<WORD>[A-Za-z_][\w$.]*)
 |(?P<HEX>-?[ \t]*0x[0-9A-Fa-f]+)
 |(?P<FLOAT>-?[ \t]*[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?)
 |(?P<INTEGER>-?[ \t]*[0-9]+)
 |(?P<SIGIL>[!\#][A-Za-z_](?:[\w$.]|-(?!>))*)
 |(?P<METADATA>\{{-\#[^"\#]*(?:(?:{STRING}|\#(?!-\}}))[^"\#]*)*\#-\}})
 |(?P<PUNCTUATION>->|::|[()\[\]{{}}<>,:=])
""", re.VERBOSE | re.ASCII)
PUNCTUATION = {"->": "ARROW", "::": "SCOPE", "(": "LPAR", ")": "RPAR", "[": "LSQB", "]": "RSQB", "{": "LBRACE", "}": "RBRACE",
               "<": "LESSTHAN", ">": "MORETHAN", ",": "COMMA", ":": "COLON", "=": "EQUAL"}
WORDS = {"module": "MODULE", "builtin.module": "MODULE", "func.func": "FUNC", "func": "FUNC", "attributes": "ATTRIBUTES",
         "unit": "UNIT", "true": "TRUE", "false": "FALSE", "loc": "LOC", "private": "VISIBILITY", "public": "VISIBILITY",
         "nested": "VISIBILITY", "unknown": "UNKNOWN", "callsite": "CALLSITE", "fused": "FUSED", "at": "AT", "to": "TO",
         "cf.br": "BRANCH", "cf.cond_br": "CONDITIONAL_BRANCH", "arith.constant": "CONSTANT"}
BRACKETED = {"tensor": "TYPE", "vector": "TYPE", "memref": "TYPE", "complex": "TYPE", "tuple": "TYPE", "dense": "DENSE",
             "dense_resource": "DENSE", "sparse": "DENSE", "array": "BUILTIN_ATTR", "affine_map": "BUILTIN_ATTR",
             "affine_set": "BUILTIN_ATTR", "strided": "BUILTIN_ATTR"}
_SIMPLE_TYPE = re.compile(r"(?:index|none|[su]?i[0-9]+|bf16|tf32|f(?:16|32|64|80|128)|f[468]E[0-9]\w*)\Z", re.ASCII)
_GAP = r"(?:\s|//[^\n]*(?:\n|\Z))*"  # a comment goes to the end of its line: nothing in it may match what follows
_DISTINCT = re.compile(rf"{_GAP}\[{_GAP}(?:0x[0-9A-Fa-f]+|[0-9]+){_GAP}\]{_GAP}(?=<)", re.ASCII)
_BRACKET = re.compile(rf"{_GAP}<")
_DICTIONARY = r'\{[^{}"\n]*(?:"[^"\\\n]*"[^{}"\n]*)*\}'
_FLAT = re.compile(
    rf"[ \t\r\n]*({_VALUE})[ \t]*=[ \t]*"  # 1: the result
    r'(?:([A-Za-z_][\w$]*\.[\w$.]+)(?=[ \t])|"([A-Za-z_][\w$.]*)"\()[ \t]*'  # 2, 3: the name in the pretty and in the generic form
    rf"((?:{_VALUE}(?:#[0-9]+)?(?:,[ \t]*{_VALUE}(?:#[0-9]+)?)*)?)[ \t]*(\)?)[ \t]*"  # 4: operands, 5: `)` of the generic form
    rf"(?:<({_DICTIONARY})>)?[ \t]*({_DICTIONARY})?[ \t]*:[ \t]*([^\n]+)", re.ASCII)  # 6: properties, 7: attributes, 8: types
# the results of an operation up to `=`: without this look ahead, an operation without operands would take them as its own
_RESULT = rf"%[\w$.\-#]+{_GAP}(?::{_GAP}(?:0x[0-9A-Fa-f]+|[0-9]+){_GAP})?"
_RESULTS = re.compile(rf"{_RESULT}(?:,{_GAP}{_RESULT})*=", re.ASCII)
_CONTINUES = re.compile(rf"{_GAP}(?:[,:(<\-\[]|loc\b)", re.ASCII)
_STRINGS = re.compile(STRING)


class Token:
    """A terminal of the grammar, its text and its place. `lines`: the flat lines of a FLAT_OPS token."""

    __slots__ = ("lines", "start_pos", "text", "type")
    line = column = end_line = end_column = end_pos = None  # lark copies these to its end-of-input token

    def __init__(self, type: str, text: str, start_pos: int) -> None:
        self.type, self.text, self.start_pos = type, text, start_pos
        self.lines: list[FlatLine] = []

    def __str__(self) -> str:
        return self.text

    @property
    def value(self) -> str:
        """The text, by the name that lark uses."""
        return self.text


def tokens(text: str, start: int, end: int, flat_line: Callable[[Any], FlatLine | None] | None) -> Iterator[Token]:
    """The tokens of `text[start:end]`; `flat_line` decides about each line that looks flat (None: no line is). Raises SyntaxFault."""
    skip, match_token, match_flat = _SKIP.match, _TOKEN.match, _FLAT.match
    position = start
    previous = ""  # behind a comma, a value goes on a list: no operation begins
    defines = False  # between the first result of an operation and its `=`
    while True:
        position = skip(text, position, end).end()  # type: ignore[union-attr]
        if position >= end:
            return
        if flat_line is not None and previous != "COMMA" and text[position] == "%":
            run = _run(text, position, end, flat_line, match_flat)
            if run is not None:
                yield run
                position = run.lines[-1][0].end()
                previous = "FLAT_OPS"
                continue
        match = match_token(text, position, end)
        if match is None:
            raise SyntaxFault(_unexpected(text, position), position)
        kind, found = match.lastgroup, match.group()
        if kind == "PUNCTUATION":
            token = Token(PUNCTUATION[found], found, position)
            position += len(found)
        elif kind == "WORD" or kind == "SIGIL":
            token = _word(text, found, position, end) if kind == "WORD" else _sigil(text, found, position, end)
            position += len(token.text)
            if kind == "WORD" and token.type in ("TYPE", "DENSE", "BUILTIN_ATTR", "DISTINCT") and "//" in token.text:
                token.text = blank_comments(token.text)
        else:
            assert kind is not None
            token = Token(kind, found, position)
            if kind == "VALUE_ID":
                defines = defines or (previous not in ("COMMA", "LPAR") and _RESULTS.match(text, position, end) is not None)
                if defines:
                    token.type = "RESULT_ID"
            position = match.end()
        previous = token.type
        defines = defines and previous != "EQUAL"
        yield token


def _run(text: str, position: int, end: int, flat_line: Callable[[Any], FlatLine | None], match_flat: Any) -> Token | None:
    """The longest run of flat lines from here, or None. The last line must not go on in the next."""
    token = Token("FLAT_OPS", "", position)
    lines = token.lines
    while True:
        match = match_flat(text, position, end)
        line = None if match is None else flat_line(match)
        if line is None:
            break
        lines.append(line)
        position = match.end()
    if lines and _CONTINUES.match(text, position, end):
        lines.pop()
    return token if lines else None


def _word(text: str, word: str, position: int, end: int) -> Token:
    """A bare word: a keyword, a type, the head of a bracketed body, or a name."""
    after = position + len(word)
    kind = BRACKETED.get(word)
    if kind is not None:
        bracket = _BRACKET.match(text, after, end)
        if bracket is not None:
            stop = balanced_end(text, bracket.end() - 1, end, builtin=True)
            return Token(kind, text[position:stop], position)
    elif word in WORDS:
        return Token(WORDS[word], word, position)
    elif _SIMPLE_TYPE.match(word):
        return Token("SIMPLE_TYPE", word, position)
    elif word == "distinct":
        number = _DISTINCT.match(text, after, end)
        if number is not None:
            return Token("DISTINCT", text[position:balanced_end(text, number.end(), end, builtin=True)], position)
    return Token("BARE", word, position)


def _sigil(text: str, found: str, position: int, end: int) -> Token:
    """`!name`, `#name` (an alias), or a dialect's type or attribute with its body."""
    after = position + len(found)
    kind = "DIALECT_ATTR" if found[0] == "#" else "TYPE"
    has_body = text.startswith("<", after) and after < end
    if "-" in found and (has_body or "." in found) and "-" in (dialect := found[1:].split(".", 1)[0]):
        raise SyntaxFault(f"invalid dialect namespace '{dialect}'", position)
    if has_body:
        body = text[position:balanced_end(text, after, end)]
        if "\0" in body:
            raise SyntaxFault("unexpected nul or EOF in pretty dialect name", position + body.index("\0"))
        if "\\" in body:
            _check_escapes(body, position)
        return Token(kind, body, position)
    if "." in found:
        return Token(kind, found, position)
    return Token("HASH_ID" if found[0] == "#" else "BANG_ID", found, position)


def _check_escapes(body: str, position: int) -> None:
    """Raises SyntaxFault for an unknown escape in a string of a dialect's body."""
    for match in _STRINGS.finditer(body):
        try:
            unescape(match[0])
        except LiteralError as error:
            raise SyntaxFault(error.message, position + match.start() + error.offset) from None


def _unexpected(text: str, position: int) -> str:
    rest = text[position:position + 3]
    if rest.startswith('"') or rest.startswith('@"'):
        return "expected '\"' in string literal"
    if rest == "{-#":
        return "expected '#-}' at the end of file metadata"
    named = {"%": "invalid SSA name", "@": "@ identifier expected to start with letter or '_'", "^": "invalid block name",
             "#": "invalid attribute name", "!": "invalid type identifier", "/": "unexpected character '/': a comment starts with '//'"}
    if rest[0] in named:
        return named[rest[0]]
    return f"unexpected {character_name(rest[0])}"
