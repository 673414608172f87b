"""Dialects and where they are found. A dialect's module is imported when one of its ops is first met."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from typing import Any

from gradopt.ir.operation import Operation

__all__ = ["Dialect", "dialect_names", "find_dialect", "near_miss", "operation_class", "register_dialect"]


class Dialect:
    """A name and the classes of its operations, in the order in which they are documented."""

    def __init__(self, name: str, operations: Iterable[type[Operation]], documentation: str = "") -> None:
        self.name, self.documentation = name, documentation
        self.operations: dict[str, type[Operation]] = {}
        for cls in operations:
            assert cls.name.startswith(name + "."), f"{cls.name} does not belong to dialect {name}"
            assert cls.name not in self.operations, f"{cls.name} is declared twice"
            self.operations[cls.name] = cls


def declared_operations(namespace: dict[str, Any]) -> list[type[Operation]]:
    """The op classes (those with a `name`) that a module defines, in order."""
    return [value for value in namespace.values()
            if isinstance(value, type) and issubclass(value, Operation) and isinstance(vars(value).get("name"), str)
            and value.__module__ == namespace["__name__"]]


_PLACES: dict[str, str] = {}  # dialect name -> "module:variable"
_LOADED: dict[str, Dialect] = {}


def register_dialect(name: str, place: str) -> None:
    """Says where a dialect is found: `"package.module:VARIABLE"`."""
    _PLACES[name] = place
    _LOADED.pop(name, None)


def dialect_names() -> list[str]:
    """All registered dialects."""
    return list(_PLACES)


def find_dialect(name: str) -> Dialect | None:
    """The dialect of that name, imported if need be; None if it is not registered."""
    dialect = _LOADED.get(name)
    if dialect is None and name in _PLACES:
        module, variable = _PLACES[name].split(":")
        dialect = _LOADED[name] = getattr(importlib.import_module(module), variable)
    return dialect


def operation_class(name: str) -> type[Operation] | None:
    """The class of an op by its full name; None if no registered dialect declares it."""
    dialect = find_dialect(name.split(".", 1)[0])
    return None if dialect is None else dialect.operations.get(name)


def near_miss(word: str, words: Iterable[str]) -> str:
    """`, did you mean 'x'?` for the nearest of `words`, or nothing."""
    found = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f", did you mean '{found[0]}'?" if found else ""
