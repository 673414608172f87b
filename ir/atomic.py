"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

__all__ = ["write_atomically"]


def write_atomically(target: str | os.PathLike[str], data: bytes, *, prefix: str = ".new-", mode: int = 0o600,
                     owner: tuple[int, int] | None = None, sync: bool = False) -> None:
    """Writes a file beside its place and renames it there, so that a reader never sees half of one and a failure loses nothing.

    `prefix` begins the temporary name, `owner` is a user and a group that the file is given to where that is allowed, and `sync` waits
    for the disk. Raises OSError; the temporary file is then gone."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target) or ".", prefix=prefix)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        if owner is not None:
            with suppress(OSError, AttributeError):  # only a privileged user may give files away
                os.chown(temporary, *owner)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
