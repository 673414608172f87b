"""The text of a pipeline: `a,b{x=1 y="s" z=1,2 w={3,4}},builtin.module(c,func.func(d))`, read and written.

An element is a pass with options, or an operation's name with a pipeline that runs on each such operation. Values are bare,
"quoted" or {braced}; a list is `1,2` or `{1,2}`, and a repeated key appends to it. `-` and `_` are the same in names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeAlias

from gradopt.ir.diagnostics import Diagnostic, GradoptError
from gradopt.ir.dialect import find_dialect, near_miss, operation_class
from gradopt.ir.locations import Source, SourceLocation
from gradopt.lowering.passes.base import Pass
from gradopt.lowering.passes.options import OutOfRange, PassOption, natural, option_text, pass_options
from gradopt.lowering.passes.registry import find_pass, pass_names

__all__ = ["Item", "Nested", "PipelineError", "build_pipeline", "pipeline_text"]

ANY = "any"  # an anchor that stands for every operation
MAX_DEPTH = 64  # of nested anchors


class PipelineError(GradoptError):
    """A mistake in the text of a pipeline."""


@dataclass(frozen=True)
class Nested:
    """A pipeline that runs on each operation called `anchor` directly inside (or on the operation itself)."""

    anchor: str
    items: tuple[Item, ...]


Item: TypeAlias = Pass | Nested


class Part(NamedTuple):
    """A piece of an option's value: how it was written ("bare", "quoted" or "braced"), its text, and where it stands."""

    form: str
    text: str
    offset: int


class Scanner:
    """A pipeline's text and a position in it; whether it may name operations that no dialect declares."""

    def __init__(self, text: str, allow_unregistered: bool = False) -> None:
        self.text, self.position, self.allow_unregistered = text, 0, allow_unregistered
        self.source = Source("<pipeline>", text)

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        """Raises PipelineError at an offset (the present one by default)."""
        place = SourceLocation(self.source, self.position if offset is None else offset)
        raise PipelineError(Diagnostic(place, message))

    def skip(self) -> str:
        """Skips blanks and returns the next character, `""` at the end."""
        text = self.text
        while self.position < len(text) and text[self.position].isspace():
            self.position += 1
        return text[self.position: self.position + 1]

    def word(self) -> str:
        """A name made of letters, digits and `_.-`; may be empty."""
        start = self.position
        text = self.text
        while self.position < len(text) and (text[self.position].isalnum() or text[self.position] in "_.-"):
            self.position += 1
        return text[start: self.position]

    def quoted(self) -> str:
        """A string in `"` or `'`; a backslash keeps the next character."""
        start, quote = self.position, self.text[self.position]
        pieces: list[str] = []
        self.position += 1
        while self.position < len(self.text):
            character = self.text[self.position]
            self.position += 1
            if character == quote:
                return "".join(pieces)
            if character == "\\" and self.position < len(self.text):
                character = self.text[self.position]
                self.position += 1
            pieces.append(character)
        self.fail(f"missing closing {quote}", start)

    def braced(self) -> str:
        """The text between balanced braces."""
        start, depth = self.position, 0
        while self.position < len(self.text):
            character = self.text[self.position]
            if character in "\"'":
                self.quoted()
                continue
            self.position += 1
            if character == "{":
                depth += 1
            elif character == "}":
                depth -= 1
                if not depth:
                    return self.text[start + 1: self.position - 1]
        self.fail("missing closing '}'", start)

    def bare(self) -> str:
        """Everything up to a blank, a comma or a closing brace (balanced braces and parentheses included)."""
        start, depth = self.position, 0
        while self.position < len(self.text):
            character = self.text[self.position]
            if not depth and (character.isspace() or character in ",}"):
                break
            depth += (character in "{(") - (character in "})")
            self.position += 1
        return self.text[start: self.position]


def build_pipeline(text: str, allow_unregistered: bool = False) -> list[Item]:
    """The passes of a pipeline. Raises PipelineError, which points into the text."""
    scanner = Scanner(text, allow_unregistered)
    if not scanner.skip():
        return []
    items = _items(scanner, ())
    if scanner.skip():
        scanner.fail(f"unexpected '{scanner.skip()}', expected ',' or the end of the pipeline")
    return items


def _items(scanner: Scanner, anchors: tuple[str, ...]) -> list[Item]:
    """The items up to the end, or to the parenthesis that closes the innermost of `anchors`."""
    items: list[Item] = []
    if scanner.skip() == ")":
        return items
    while True:
        scanner.skip()
        items.append(_item(scanner, anchors))
        if scanner.skip() != ",":
            return items
        scanner.position += 1


def _item(scanner: Scanner, anchors: tuple[str, ...]) -> Item:
    start = scanner.position
    name = scanner.word()
    if not name:
        scanner.fail("expected the name of a pass")
    following = scanner.skip()
    if following == "(":
        if len(anchors) == MAX_DEPTH:
            scanner.fail(f"pipelines are nested more than {MAX_DEPTH} deep", start)
        _check_anchor(scanner, name, start)
        scanner.position += 1
        items = _items(scanner, (*anchors, name))
        if scanner.skip() != ")":
            scanner.fail("missing closing ')'" if not scanner.skip() else f"unexpected '{scanner.skip()}', expected ',' or ')'")
        scanner.position += 1
        return Nested(name, tuple(items))
    cls = find_pass(name)
    if cls is None:
        if "." in name:
            scanner.fail(f"'{name}' is not a pass; to run passes on operations of that name write '{name}(…)'", start)
        scanner.fail(f"unknown pass '{name}'{near_miss(name.replace('_', '-'), pass_names())}", start)
    if anchors and cls.anchor not in (None, anchors[-1]) and anchors[-1] != ANY:
        scanner.fail(f"pass '{cls.name}' runs on '{cls.anchor}', not on '{anchors[-1]}'", start)
    values = _options(scanner, cls) if following == "{" else {}
    return cls(**values)


def _check_anchor(scanner: Scanner, name: str, start: int) -> None:
    """Fails for a name that no operation has."""
    dialect = find_dialect(name.split(".", 1)[0])
    if name == ANY or operation_class(name) is not None or (dialect is None and "." in name and scanner.allow_unregistered):
        return
    if find_pass(name) is not None:
        scanner.fail(f"'{name}' is a pass, expected an operation before '('; a pass takes its options in braces: {name}{{…}}", start)
    known = ["builtin.module", "func.func", ANY] if dialect is None else dialect.operations
    scanner.fail(f"there is no operation '{name}'{near_miss(name, known)}", start)


def _options(scanner: Scanner, cls: type[Pass]) -> dict[str, Any]:
    """`{name=value name=value …}` as arguments of the pass's class."""
    start = scanner.position
    known = {option.name: option for option in pass_options(cls)}
    found: dict[str, Any] = {}
    scanner.position += 1
    while scanner.skip() != "}":
        if not scanner.skip():
            scanner.fail("missing closing '}'", start)
        offset = scanner.position
        key = scanner.word()
        if not key:
            scanner.fail(f"unexpected '{scanner.skip()}', expected the name of an option")
        parts: list[Part] = []
        if scanner.skip() == "=":
            scanner.position += 1
            parts = _value(scanner)
        option = known.get(key.replace("_", "-"))
        if option is not None and option.field != cls.collects:
            value = _read(scanner, cls, option, parts, offset)
            found[option.field] = (*found.get(option.field, ()), *value) if option.kind.is_list else value
        elif cls.collects is not None:
            found[cls.collects] = (*found.get(cls.collects, ()), (key, _collected(scanner, key, parts, offset)))
        else:
            names = [name for name, item in known.items() if item.field != cls.collects]
            listed = f"; it has {', '.join(names)}" if names else "; it has no options"
            scanner.fail(f"pass '{cls.name}' has no option '{key}'{near_miss(key.replace('_', '-'), names) or listed}", offset)
    scanner.position += 1
    return found


def _value(scanner: Scanner) -> list[Part]:
    """The comma-separated parts of a value."""
    parts = []
    while True:
        character, offset = scanner.skip(), scanner.position
        if character in ("'", '"') and character:
            parts.append(Part("quoted", scanner.quoted(), offset))
        elif character == "{":
            parts.append(Part("braced", scanner.braced(), offset + 1))
        else:
            text = scanner.bare()
            if not text:
                scanner.fail("expected a value")
            parts.append(Part("bare", text, offset))
        if scanner.text[scanner.position: scanner.position + 1] != ",":
            return parts
        scanner.position += 1


def _read(scanner: Scanner, cls: type[Pass], option: PassOption, parts: Sequence[Part], offset: int) -> Any:
    """The value of an option. Errors point at the part that does not fit."""
    kind, subject = option.kind, f"option '{option.name}' of pass '{cls.name}'"
    if not parts:
        if kind.description == "true or false":
            return True
        scanner.fail(f"{subject} takes {kind.description}: write {option.name}=…", offset)
    if kind.is_list:
        parts = [piece for part in parts for piece in (_split(part) if part.form == "braced" else [part])]
    elif len(parts) > 1:
        scanner.fail(f"{subject} takes {kind.description}, found {len(parts)} values", parts[1].offset)
    values = []
    for part in parts:
        try:
            value = kind.read(part.text)
        except OutOfRange:
            scanner.fail(f"{subject} is {part.text}, expected an integer from 0 to 2^63 - 1", part.offset)
        except ValueError:
            scanner.fail(f"{subject} takes {kind.description}, found '{part.text}'", part.offset)
        if option.choices and value not in option.choices:
            alike = [choice for choice in option.choices if choice.replace("-", "_") == str(value).replace("-", "_")]
            if not alike:
                scanner.fail(f"{subject} is '{value}', expected one of {', '.join(option.choices)}"
                             f"{near_miss(str(value), option.choices)}", part.offset)
            value = alike[0]
        values.append(value)
    return tuple(values) if kind.is_list else values[0]


def _split(part: Part) -> list[Part]:
    """The items of a braced list."""
    inner = Scanner(part.text)
    items = []
    while inner.skip():
        items += [Part(piece.form, piece.text, piece.offset + part.offset) for piece in _value(inner)]
    return items


def _collected(scanner: Scanner, key: str, parts: Sequence[Part], offset: int) -> int:
    if len(parts) != 1:
        scanner.fail(f"'{key}' takes an integer: write {key}=…", offset)
    try:
        return natural(parts[0].text)
    except OutOfRange:
        scanner.fail(f"'{key}' is {parts[0].text}, expected an integer from 0 to 2^63 - 1", parts[0].offset)
    except ValueError:
        scanner.fail(f"'{key}' takes an integer, found '{parts[0].text}'", parts[0].offset)


def pipeline_text(items: Sequence[Item], defaults: bool = True) -> str:
    """The pipeline as text that reads back in; with `defaults` every option is spelt out."""
    return ",".join(f"{item.anchor}({pipeline_text(item.items, defaults)})" if isinstance(item, Nested)
                    else pass_text(item, defaults) for item in items)


def pass_text(item: Pass, defaults: bool = True) -> str:
    """A pass with its options as text."""
    texts = []
    for option in pass_options(type(item)):
        value = getattr(item, option.field)
        if option.field == item.collects:
            texts += [f"{name}={number}" for name, number in value]
        elif value is not None and (defaults or value != option.default):
            texts.append(option_text(option, value))
    return f"{item.name}{{{' '.join(texts)}}}" if texts else item.name
