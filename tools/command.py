"""What the command-line tools share: `--help`, `--version`, colours, and exit statuses for what goes wrong."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gradopt.ir.diagnostics import Diagnostic, render
from gradopt.ir.locations import UNKNOWN_LOCATION
from gradopt.tools.files import FileError
from gradopt.tools.options import Option, UsageError, help_text

__all__ = ["INTERNAL_ERROR", "INTERRUPTED", "OK", "WRONG_INPUT", "WRONG_USAGE", "inform", "print_version", "run_tool",
           "show_diagnostics", "uses_color"]

OK, WRONG_INPUT, WRONG_USAGE, INTERNAL_ERROR, INTERRUPTED = 0, 1, 2, 3, 130


def run_tool(tool: str, work: Callable[[], int]) -> int:
    """The exit status of `work`; what it raises becomes a message on standard error and a status. Never raises."""
    _prepare_streams()
    try:
        status = work()
        sys.stdout.flush()
        return status
    except UsageError as error:
        return _complain(f"{tool}: error: {error}", WRONG_USAGE)
    except FileError as error:
        return _complain(f"{tool}: error: {error}", WRONG_INPUT)
    except BrokenPipeError:  # nobody reads any more
        _abandon_output()
        return OK
    except OSError as error:
        what = "write to standard output" if error.filename is None else f"open '{error.filename}'"
        _abandon_output()
        return _complain(f"{tool}: error: cannot {what}: {error.strerror or error}", WRONG_INPUT)
    except KeyboardInterrupt:
        return _complain(f"{tool}: interrupted", INTERRUPTED)
    except MemoryError as error:
        return _complain(f"{tool}: error: not enough memory{f': {error}' if str(error) else ''}", WRONG_INPUT)
    except Exception as error:
        return _complain(f"{tool}: internal error: {type(error).__name__}: {error}", INTERNAL_ERROR)


def _complain(message: str, status: int) -> int:
    with suppress(OSError, ValueError):  # where nobody can be told, the status is what is left
        sys.stderr.write(message + "\n")
        sys.stderr.flush()
    return status


class _ClosedOutput(io.TextIOBase):
    """Standard output where a process was started without one."""

    def write(self, text: str) -> int:
        """Raises OSError."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _prepare_streams() -> None:
    """Makes the streams take any text whatever the locale, and stand for themselves where they are closed."""
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    if sys.stderr is None:
        sys.stderr = io.StringIO()
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper) and (stream.encoding or "").lower().replace("-", "") != "utf8":
            stream.reconfigure(encoding="utf-8", errors=errors)


def _abandon_output() -> None:
    """Keeps the interpreter from writing at its end what could not be written, and from saying so."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def uses_color(choice: str = "auto") -> bool:
    """Whether messages are coloured: as `choice` (auto, always, never) says, and for `auto` as the terminal and NO_COLOR do."""
    if choice != "auto":
        return choice == "always"
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stderr.isatty()


def show_diagnostics(tool: str, diagnostics: Iterable[Diagnostic], color: bool) -> None:
    """Writes diagnostics to standard error; one without a place says which tool it comes from."""
    for diagnostic in diagnostics:
        prefix = f"{tool}: " if diagnostic.location is UNKNOWN_LOCATION else ""
        sys.stderr.write(f"{prefix}{render(diagnostic, color=color)}\n")


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
