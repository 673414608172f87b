"""Answers to the options of `gradopt` that ask for information."""

from __future__ import annotations

from typing import Any

import gradopt.dialects  # noqa: F401  (registers them)
from gradopt.ir.dialect import dialect_names, find_dialect, near_miss
from gradopt.lowering.passes.registry import find_pass, pass_names
from gradopt.tools.documentation import dialect_text, operation_text, pass_text
from gradopt.tools.options import UsageError

__all__ = ["inform", "list_passes"]


def inform(options: dict[str, Any]) -> str:
    """The text that the first such option asks for. Raises UsageError for a name that is not there."""
    if options["list_passes"]:
        return list_passes()
    if options["help_pass"]:
        return help_pass(options["help_pass"])
    if options["show_dialects"]:
        return "\n".join(dialect_text(dialect) for dialect in map(find_dialect, dialect_names()) if dialect is not None)
    if options["help_op"]:
        return help_op(options["help_op"])
    from gradopt.tools.completion import completion_script

    return completion_script(options["completion"])


def list_passes() -> str:
    """Each pass with its summary."""
    lines = []
    for name in pass_names():
        cls = find_pass(name)
        if cls is not None:
            lines.append(f"  {name:<18} {cls.summary()}")
    return "\n".join(lines) + "\n"


def help_pass(name: str) -> str:
    """A pass's documentation."""
    cls = find_pass(name)
    if cls is None:
        raise UsageError(f"unknown pass '{name}'{near_miss(name, pass_names())}")
    return pass_text(cls)


def help_op(name: str) -> str:
    """An operation's documentation, or a dialect's."""
    dialect = find_dialect(name.split(".", 1)[0])
    if dialect is None:
        raise UsageError(f"no dialect declares '{name}'{near_miss(name, dialect_names())}")
    if "." not in name:
        return dialect_text(dialect)
    cls = dialect.operations.get(name)
    if cls is None:
        raise UsageError(f"dialect '{dialect.name}' has no operation '{name}'{near_miss(name, dialect.operations)}")
    return operation_text(cls)
