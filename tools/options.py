"""Command-line options as a table: parsing, help text and shell completion follow from it.

Small, because a tool has to start fast."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from gradopt.ir.dialect import near_miss

__all__ = ["Option", "UsageError", "help_text", "parse_arguments"]


class UsageError(Exception):
    """A command line that is not understood; exit status 2."""


class Option(NamedTuple):
    """One option. `value` is what its value is called (None for a flag); if that is `optional` and left out it is `implied`.

    A value called N is an integer and one called SECONDS a positive number, between `minimum` and `maximum`. A value may be empty
    only where that means something (`empty`)."""

    name: str
    help: str
    value: str | None = None
    aliases: tuple[str, ...] = ()
    default: Any = None
    choices: tuple[str, ...] = ()
    repeats: bool = False
    optional: bool = False
    implied: str = ""
    group: str = "Options"
    minimum: int | None = None
    maximum: int | None = None
    empty: bool = False

    @property
    def key(self) -> str:
        """The name of the option among the parsed ones."""
        return self.name.lstrip("-").replace("-", "_")


MOST_SECONDS = 1e6
BOOLEANS = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}


def parse_arguments(table: Sequence[Option], arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """(option key -> value, positional arguments). One dash is as good as two, `_` as `-`. Raises UsageError."""
    names = {_plain(spelling): option for option in table for spelling in (option.name, *option.aliases)}
    values: dict[str, Any] = {option.key: ([] if option.repeats else False if option.value is None and option.default is None
                                           else option.default) for option in table}
    positional: list[str] = []
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        index += 1
        if argument == "--":
            positional += arguments[index:]
            break
        if argument == "-" or not argument.startswith("-"):
            positional.append(argument)
            continue
        spelling, equals, text = argument.partition("=")
        option = names.get(_plain(spelling))
        if option is None:
            known = [name for option in table for name in (option.name, *option.aliases)]
            raise UsageError(f"unknown option '{spelling}'{near_miss('--' + _plain(spelling), known)}")
        if option.value is not None and not equals and not option.optional:
            if index == len(arguments):
                raise UsageError(f"option '{spelling}' needs a value: {option.name}={option.value}")
            text, equals = arguments[index], "="
            index += 1
        value = _value(option, spelling, text if equals else None)
        if option.repeats:
            values[option.key].append(value)
        else:
            values[option.key] = value
    return values, positional


def _plain(spelling: str) -> str:
    return spelling.lstrip("-").replace("_", "-")


def _value(option: Option, spelling: str, text: str | None) -> Any:
    if option.value is None:
        if text is None:
            return True
        if text.lower() not in BOOLEANS:
            raise UsageError(f"option '{spelling}' is on or off, found '{text}'")
        return BOOLEANS[text.lower()]
    if text is None:
        text = option.implied
    if option.choices and text not in option.choices:
        raise UsageError(f"option '{spelling}' is '{text}', expected one of {', '.join(option.choices)}"
                         f"{near_miss(text, option.choices)}")
    if not text and not option.empty:
        raise UsageError(f"option '{spelling}' takes a value, found an empty one: {option.name}={option.value}")
    if option.value == "N":
        return _integer(option, spelling, text)
    if option.value == "SECONDS":
        return _seconds(spelling, text)
    return text


def _integer(option: Option, spelling: str, text: str) -> int:
    """An integer in the option's range. Raises UsageError."""
    low, high = option.minimum, option.maximum
    expected = "an integer" + (f" from {low} to {high}" if high is not None else f" of at least {low}" if low is not None else "")
    if not re.fullmatch("[+-]?[0-9]{1,18}", text) or (low is not None and int(text) < low) or (high is not None and int(text) > high):
        raise UsageError(f"option '{spelling}' takes {expected}, found '{text}'")
    return int(text)


def _seconds(spelling: str, text: str) -> float:
    """A number of seconds. Raises UsageError."""
    seconds = float(text) if re.fullmatch(r"[0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+", text) else 0.0
    if not 0 < seconds <= MOST_SECONDS:
        raise UsageError(f"option '{spelling}' takes a positive number of seconds, found '{text}'")
    return seconds


def help_text(usage: str, description: str, table: Sequence[Option]) -> str:
    """The text of `--help`: usage, then the options in their groups."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    lines = [f"usage: {usage}", "", *textwrap.wrap(description, width)]
    for group in dict.fromkeys(option.group for option in table):
        lines += ["", f"{group}:"]
        for option in (option for option in table if option.group == group):
            lines += _option_lines(option, width)
    return "\n".join(lines) + "\n"


def _option_lines(option: Option, width: int) -> list[str]:
    value = "" if option.value is None else f"[={option.value}]" if option.optional else f"={option.value}"
    heads = [option.name + value, *(alias + (f" {option.value}" if option.value and len(_plain(alias)) == 1 else value)
                                    for alias in option.aliases)]
    text = option.help + (f" (one of {', '.join(option.choices)})" if option.choices else "")
    head = "  " + ", ".join(heads)
    body = textwrap.wrap(text, max(width - 34, 40))
    if len(head) <= 32:
        return [f"{head:<34}{body[0]}", *(" " * 34 + line for line in body[1:])]
    return [head, *(" " * 34 + line for line in body)]
