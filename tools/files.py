"""Reading and writing whole files as the tools do: bytes that are not UTF-8 survive, and a failed write loses nothing."""

from __future__ import annotations

import os
import stat
import sys

from gradopt.ir.atomic import write_atomically

__all__ = ["FileError", "read_text", "write_bytes", "write_text"]


class FileError(Exception):
    """A file that cannot be read or written; the message names it and says why."""


def read_text(path: str) -> str:
    """The text of a file, or of standard input for `-`. Raises FileError."""
    try:
        if path == "-" and sys.stdin is None:
            raise FileError("cannot read standard input: it is closed")
        if path == "-":
            stream = getattr(sys.stdin, "buffer", None)
            return sys.stdin.read() if stream is None else stream.read().decode("utf-8", "surrogateescape")
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from None


def write_text(path: str, text: str) -> None:
    """Writes a text as `write_bytes` does. Raises FileError."""
    write_bytes(path, text.encode("utf-8", "surrogateescape"))


def write_bytes(path: str, data: bytes) -> None:
    """Writes a file beside its place and renames it there, so that the old one stays until the new one is whole.

    Raises FileError."""
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
    """Puts a file in the place of another, which passes on its permissions and its owner."""
    owner = None
    try:
        old = os.stat(target)
        mode, owner = stat.S_IMODE(old.st_mode), (old.st_uid, old.st_gid)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    write_atomically(target, data, prefix=f".{os.path.basename(target)[:50]}.", mode=mode, owner=owner, sync=True)
