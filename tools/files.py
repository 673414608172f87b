"""Reading and writing whole files as the tools do: bytes that are not UTF-8 survive, and a failed write loses nothing."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress

__all__ = ["FileError", "read_text", "write_text"]


class FileError(Exception):
    """A file that cannot be read or written; the message names it and says why."""


def read_text(path: str) -> str:
    """The text of a file, or of standard input for `-`. Raises FileError."""
    try:
        if path == "-":
            stream = getattr(sys.stdin, "buffer", None)
            return sys.stdin.read() if stream is None else stream.read().decode("utf-8", "surrogateescape")
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from None


def write_text(path: str, text: str) -> None:
    """Writes a file beside its place and renames it there, so that the old one stays until the new one is whole.

    Raises FileError."""
    data = text.encode("utf-8", "surrogateescape")
    try:
        target = os.path.realpath(path)
        if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
            with open(target, "wb") as file:  # a pipe or a device cannot be renamed over
                file.write(data)
            return
        _replace(target, data)
    except (OSError, ValueError) as error:
        raise FileError(f"cannot write '{path}': {getattr(error, 'strerror', None) or error}") from None


def _replace(target: str, data: bytes) -> None:
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target) or ".", prefix="." + os.path.basename(target)[:50] + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            mode = stat.S_IMODE(os.stat(target).st_mode)
        except FileNotFoundError:
            mask = os.umask(0)
            os.umask(mask)
            mode = 0o666 & ~mask
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
