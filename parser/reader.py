"""Drives lark's parser: one grammar for all texts, one set of callbacks for each, and a second pass where aliases come late."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gradopt.ir.attributes import Attribute
from gradopt.parser.brackets import SyntaxFault
from gradopt.parser.lexer import Token, tokens
from gradopt.parser.messages import acceptable, misspelt_operation, unexpected_token, unknown_operation
from gradopt.parser.places import UnknownAlias
from gradopt.parser.syntax import Callbacks

__all__ = ["read"]

MOST_NESTED = 12  # types in attributes in types …


class Work(NamedTuple):
    """What the lexer and the callbacks of the running parse belong to."""

    callbacks: Any
    text: str
    start: int
    end: int


class Machine:
    """Lark's parser, made when it is first needed; parses nest (an attribute inside a type), and threads take turns."""

    lark: Any = None
    lock = threading.RLock()
    current: list[Work] = []


class Dispatcher:
    """What lark binds its callbacks to: passes each call to the callbacks of the parse that is running."""

    def __getattr__(self, rule: str) -> Any:
        if rule.startswith("_") or not hasattr(Callbacks, rule):
            raise AttributeError(rule)
        return lambda children: getattr(Machine.current[-1].callbacks, rule)(children)


def _lexer_class() -> type:
    from lark.lexer import Lexer

    class RangeLexer(Lexer):
        """Tokens of the range that the running parse reads."""

        def __init__(self, conf: Any) -> None:
            pass

        def lex(self, data: str) -> Iterator[Token]:  # type: ignore[override]
            work = Machine.current[-1]
            callbacks = work.callbacks
            if isinstance(callbacks, AliasRanges):
                return callbacks.followed(tokens(work.text, work.start, work.end, None))
            return tokens(work.text, work.start, work.end, callbacks.flat_line if callbacks.fast else None)

    return RangeLexer


def parse_range(callbacks: Any, text: str, start: int, end: int, rule: str) -> Any:
    """What the callbacks make of `text[start:end]`, read by a rule of the grammar. Raises SyntaxFault."""
    import lark

    with Machine.lock:
        if Machine.lark is None:
            from gradopt.parser.tables import load_parser

            Machine.lark = load_parser(Path(__file__).with_name("grammar.lark"), Dispatcher(), _lexer_class())
        if len(Machine.current) > MOST_NESTED:
            raise SyntaxFault(f"types and attributes are nested more than {MOST_NESTED} deep", start)
        Machine.current.append(Work(callbacks, text, start, end))
        try:
            return Machine.lark.parse(text[start:start + 1], start=rule)
        except lark.exceptions.UnexpectedToken as error:
            misspelt = misspelt_operation(error.state)
            if misspelt is not None:
                raise SyntaxFault(unknown_operation(misspelt.text), misspelt.start_pos) from None
            offset = len(text[:end].rstrip()) if error.token.type == "$END" else error.token.start_pos
            raise SyntaxFault(unexpected_token(error.token, acceptable(error.state)), max(offset, start)) from None
        finally:
            Machine.current.pop()


class Nested(Callbacks):
    """Callbacks that can read attributes inside tokens."""

    def nested_attribute(self, text: str, start: int, end: int) -> Attribute:
        found: Attribute = parse_range(self, text, start, end, "attribute")
        return found

    def nested_dictionary(self, text: str, start: int, end: int) -> dict[str, Any]:
        found: dict[str, Any] = parse_range(self, text, start, end, "dictionary")
        return found


class AliasRanges:
    """Callbacks that only find where each alias is defined. `previous_end` is the end of the last token that the parser took."""

    def __init__(self) -> None:
        self.ranges: dict[str, tuple[int, int]] = {}
        self.previous_end = self.current_end = 0

    def followed(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens, with their ends noted."""
        for token in stream:
            self.previous_end, self.current_end = self.current_end, token.start_pos + len(token.text)
            yield token
        self.previous_end = self.current_end

    def attribute_alias(self, c: list[Any]) -> None:
        """Notes the range of a definition."""
        self.ranges.setdefault(c[0].text, (c[0].start_pos, self.previous_end))

    type_alias = location_alias = attribute_alias

    def __getattr__(self, rule: str) -> Any:
        return lambda c: c


def read(text: str, rule: str = "start", *, fast: bool = True, resources: dict[str, bytes] | None = None) -> tuple[Any, Callbacks]:
    """(what the callbacks make of a text, the callbacks). `fast=False` reads flat lines by the grammar. Raises SyntaxFault."""
    callbacks = Nested(fast)
    callbacks.resources = resources or {}
    try:
        return parse_range(callbacks, text, 0, len(text), rule), callbacks
    except UnknownAlias:
        if rule != "start":
            raise
    # an alias is used before its definition: read all definitions first, then the text again
    found = AliasRanges()
    parse_range(found, text, 0, len(text), rule)
    early = Nested(fast)
    early.resources = callbacks.resources
    read_aliases(early, found.ranges, text)
    callbacks = Nested(fast)
    callbacks.resources = early.resources
    callbacks.use_early(early)
    return parse_range(callbacks, text, 0, len(text), rule), callbacks


def read_aliases(callbacks: Callbacks, ranges: dict[str, tuple[int, int]], text: str) -> None:
    """Reads every definition, those that it needs before it. Raises SyntaxFault for one that is unknown or defined by itself."""
    done: set[str] = set()
    for name in ranges:
        waiting = [name]
        while waiting:
            last = waiting[-1]
            if last not in done:
                try:
                    parse_range(callbacks, text, *ranges[last], "alias")
                except UnknownAlias as unknown:
                    if unknown.name not in ranges:
                        raise
                    if unknown.name in waiting:
                        raise SyntaxFault(f"alias '{unknown.name}' is defined by itself", unknown.offset) from None
                    waiting.append(unknown.name)
                    continue
                done.add(last)
            waiting.pop()
