"""What an editor asks about a text: what is wrong, what a name means, where it is defined and used. Used by the language server."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

import gradopt.dialects  # noqa: F401  (registers them)
from gradopt.ir.diagnostics import Diagnostic, GradoptError
from gradopt.ir.dialect import dialect_names, find_dialect, operation_class
from gradopt.ir.locations import Source, SourceLocation
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import symbol_name
from gradopt.ir.values import OperationResult, Value
from gradopt.tools.documentation import operation_signature, operation_text

__all__ = ["Document", "Mention", "Outline"]

_TOKEN = re.compile(r'//[^\n]*|%(?P<value>[\w$.-]+)(?:#\d+|:\d+)?|@(?P<symbol>[\w$.]+|"[^"\n]*")|"(?:\\.|[^"\\\n])*"|'
                    r"(?P<word>[A-Za-z_][\w$]*(?:\.[\w$]+)*)")


class Mention(NamedTuple):
    """A place in the text that names a value or a symbol."""

    start: int
    end: int
    target: Value | Operation  # a value, or the operation that defines a symbol
    defines: bool


class Outline(NamedTuple):
    """A function for the list of a document's symbols."""

    name: str
    detail: str
    start: int
    end: int


class Document:
    """A text, parsed once. Unregistered operations are kept, so that files of other dialects can be read."""

    def __init__(self, name: str, text: str) -> None:
        self.source = Source(name, text)
        self.diagnostics: list[Diagnostic] = []
        self.module: Operation | None = None
        self._parse()
        self.mentions: list[Mention] = [] if self.module is None else _mentions(self.module, text)
        self._starts = [mention.start for mention in self.mentions]

    def _parse(self) -> None:
        from gradopt.ir.verifier import verify
        from gradopt.parser import parse_module

        try:
            self.module = parse_module(self.source, allow_unregistered=True)
        except GradoptError as error:
            self.diagnostics = error.diagnostics
            return
        self.diagnostics = verify(self.module)

    def mention_at(self, offset: int) -> Mention | None:
        """The value or symbol named at an offset."""
        index = bisect_right(self._starts, offset) - 1
        if index >= 0 and self.mentions[index].start <= offset <= self.mentions[index].end:
            return self.mentions[index]
        return None

    def definition(self, offset: int) -> Mention | None:
        """Where what is named at an offset is defined."""
        return next((mention for mention in self.references(offset) if mention.defines), None)

    def references(self, offset: int) -> list[Mention]:
        """All places that name the same thing."""
        mention = self.mention_at(offset)
        if mention is None:
            return []
        key = self._named_by(mention.target)
        return [other for other in self.mentions if self._named_by(other.target) is key]

    def _named_by(self, target: Value | Operation) -> Value | Operation:
        """Of a pack `%x:2` the first result, because one name stands for all."""
        if isinstance(target, OperationResult):
            named = [other.target for other in self.mentions if other.defines and isinstance(other.target, OperationResult)
                     and other.target.owner is target.owner and other.target.index <= target.index]
            return max(named, key=lambda result: result.index, default=target)
        return target

    def hover(self, offset: int) -> str | None:
        """Markdown about a value (its type), a symbol (its type) or an operation (its documentation)."""
        mention = self.mention_at(offset)
        if mention is not None:
            text = self.source.text[mention.start: mention.end]
            if isinstance(mention.target, Value):
                return f"```mlir\n{text.split('#')[0].split(':')[0]} : {mention.target.type.text}\n```"
            return f"```mlir\n{_function_text(mention.target)}\n```"
        word = self.word_at(offset)
        cls = operation_class(_FULL_NAMES.get(word, word)) if word else None
        if cls is None:
            return None
        return f"```\n{operation_signature(cls)}\n```\n\n{operation_text(cls).split(chr(10), 2)[2]}"

    def word_at(self, offset: int) -> str:
        """The operation name at an offset, also in quotes; empty for none."""
        text = self.source.text
        start = end = offset
        while start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_.$"):
            start -= 1
        while end < len(text) and (text[end].isalnum() or text[end] in "_.$"):
            end += 1
        return text[start:end]

    def completions(self, offset: int) -> list[tuple[str, str]]:
        """(name, signature) of the operations that the word before an offset may become."""
        start = offset
        text = self.source.text
        while start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_."):
            start -= 1
        prefix = text[start:offset]
        found = []
        for name in dialect_names():
            if prefix.startswith(name + ".") or name.startswith(prefix):
                dialect = find_dialect(name)
                operations = dialect.operations if dialect is not None else {}
                found += [(op, operation_signature(cls)) for op, cls in operations.items() if op.startswith(prefix)]
        return found

    def outline(self) -> list[Outline]:
        """The functions in order."""
        found = []
        for mention in self.mentions:
            if mention.defines and isinstance(mention.target, Operation):
                found.append(Outline(symbol_name(mention.target) or "", _function_text(mention.target), mention.start, mention.end))
        return found


_FULL_NAMES = {"return": "func.return", "call": "func.call", "module": "builtin.module"}


def _function_text(op: Operation) -> str:
    type = op.attribute("function_type")
    return f"{op.name} @{symbol_name(op)}" + (f" : {type.text}" if type is not None else "")


def _mentions(module: Operation, text: str) -> list[Mention]:
    """All names in the text with what they mean. Operations stand in the text in walking order, each at its location; between two
    of them the text holds the first one's results and operands, then the arguments of the block that the second one begins."""
    operations = [op for op in module.walk() if isinstance(op.location, SourceLocation)]
    symbols = {name: op for op in operations if (name := symbol_name(op)) is not None}
    mentions: list[Mention] = []
    for position, op in enumerate(operations):
        following = operations[position + 1] if position + 1 < len(operations) else None
        start = op.location.offset  # type: ignore[union-attr]
        end = following.location.offset if following is not None else len(text)  # type: ignore[union-attr]
        mentions += _mentions_between(text, start, end, op, following, symbols)
    return sorted(mentions)


def _mentions_between(text: str, start: int, end: int, op: Operation, following: Operation | None,
                      symbols: dict[str, Operation]) -> list[Mention]:
    values: list[tuple[Value, bool]] = _result_names(text, start, op)
    values += [(operand, False) for operand in op.operands]
    if following is not None and following.previous is None and following.parent is not None and following.parent_op is not None:
        values += [(argument, True) for argument in following.parent.arguments]
    mentions: list[Mention] = []
    names_itself = symbol_name(op) is not None
    expected = iter(values)
    for match in _TOKEN.finditer(text, start, end):
        if match["value"] is not None:
            value = next(expected, None)
            if value is not None:
                mentions.append(Mention(match.start(), match.end(), *value))
        elif match["symbol"] is not None:
            target = op if names_itself else symbols.get(match["symbol"].strip('"'))
            if target is not None:
                mentions.append(Mention(match.start(), match.end(), target, names_itself))
            names_itself = False
    return mentions


def _result_names(text: str, start: int, op: Operation) -> list[tuple[Value, bool]]:
    """The results as they are named: a pack `%x:2` stands for several."""
    named: list[tuple[Value, bool]] = []
    position = start
    index = 0
    while index < len(op.results):
        match = re.compile(r"\s*,?\s*%[\w$.-]+(?::(\d+))?").match(text, position)
        if match is None:
            break
        named.append((op.results[index], True))
        index += int(match[1] or 1)
        position = match.end()
    return named
