"""Between the options of a pass (dataclass fields) and their text in a pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from gradopt.lowering.passes.base import Pass

__all__ = ["OptionKind", "OutOfRange", "PassOption", "natural", "option_text", "pass_options"]


def _boolean(text: str) -> bool:
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in values:
        raise ValueError
    return values[text.lower()]


LIMIT = 1 << 63  # as for sizes in types


class OutOfRange(ValueError):
    """An integer that no count or size can be."""


def _integer(text: str) -> int:
    return int(text, 0)


def natural(text: str) -> int:
    """An integer in [0, 2^63). Raises ValueError, of which OutOfRange is one."""
    value = int(text, 0)
    if not 0 <= value < LIMIT:
        raise OutOfRange
    return value


def _integer_or_text(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


class OptionKind(NamedTuple):
    """How one kind of option reads: what it is called in messages, one item, and whether it is a list."""

    description: str
    read: Callable[[str], Any]
    is_list: bool = False


# by the annotation of the field; `| None` is taken off first
KINDS: dict[str, OptionKind] = {
    "bool": OptionKind("true or false", _boolean),
    "int": OptionKind("an integer", _integer),
    "float": OptionKind("a number", float),
    "str": OptionKind("a string", str),
    "tuple[int, ...]": OptionKind("a list of integers", _integer, is_list=True),
    "tuple[str, ...]": OptionKind("a list of strings", str, is_list=True),
    "tuple[int | str, ...]": OptionKind("a list of integers or names", _integer_or_text, is_list=True),
    "tuple[tuple[str, int], ...]": OptionKind("names with an integer each", str, is_list=True),
}


class PassOption(NamedTuple):
    """One option of a pass."""

    field: str
    kind: OptionKind
    default: Any
    help: str
    choices: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name as it is printed: with dashes."""
        return self.field.rstrip("_").replace("_", "-")


def pass_options(cls: type[Pass]) -> list[PassOption]:
    """The options of a pass, in order. Raises TypeError for a field of a type that has no text."""
    options = []
    for field in dataclasses.fields(cls):
        annotation = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
        kind = KINDS.get(annotation.removesuffix(" | None"))
        if field.metadata.get("count"):
            kind = OptionKind("an integer", natural)
        if kind is None:
            raise TypeError(f"option '{field.name}' of pass '{cls.name}' has type {annotation}, expected one of "
                            f"{', '.join(KINDS)}")
        options.append(PassOption(field.name, kind, field.default, field.metadata.get("help", ""),
                                  field.metadata.get("choices", ())))
    return options


def _item_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if text and not any(character in text for character in " ,{}()\"'=\t\n"):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def option_text(option: PassOption, value: Any) -> str:
    """`name=value`, as a pipeline holds it."""
    if option.kind.is_list:
        return f"{option.name}={','.join(_item_text(item) for item in value)}" if value else f"{option.name}={{}}"
    return f"{option.name}={_item_text(value)}"
