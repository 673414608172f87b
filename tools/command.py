"""What the command-line tools share: `--help`, `--version`, and exit statuses for what goes wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gradopt.tools.files import FileError
from gradopt.tools.options import Option, UsageError, help_text

__all__ = ["INTERNAL_ERROR", "INTERRUPTED", "OK", "WRONG_INPUT", "WRONG_USAGE", "inform", "print_version", "run_tool"]

OK, WRONG_INPUT, WRONG_USAGE, INTERNAL_ERROR, INTERRUPTED = 0, 1, 2, 3, 130


def run_tool(tool: str, work: Callable[[], int]) -> int:
    """The exit status of `work`; what it raises becomes a message on standard error and a status. Never raises."""
    try:
        status = work()
        sys.stdout.flush()
        return status
    except UsageError as error:
        sys.stderr.write(f"{tool}: error: {error}\n")
        return WRONG_USAGE
    except FileError as error:
        sys.stderr.write(f"{tool}: error: {error}\n")
        return WRONG_INPUT
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # nobody reads any more; keep the interpreter from saying so at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        sys.stderr.write(f"{tool}: interrupted\n")
        return INTERRUPTED
    except Exception as error:
        sys.stderr.write(f"{tool}: internal error: {type(error).__name__}: {error}\n")
        return INTERNAL_ERROR


def inform(tool: str, usage: str, description: str, table: Sequence[Option], options: Mapping[str, Any]) -> bool:
    """Answers `--help` and `--version`; False where neither was given."""
    if options["help"]:
        sys.stdout.write(help_text(usage, description, table))
    elif options["version"]:
        print_version(tool)
    return bool(options["help"] or options["version"])


def print_version(tool: str) -> None:
    """The tool's name and version, on standard output."""
    from gradopt import __version__

    sys.stdout.write(f"{tool} {__version__}\n")
