"""The store of object code: one file a kernel, in a folder that only its user may write to.

A file is a magic word, the SHA-256 of what follows, and an object file.  It is written under a temporary name and
renamed, so a reader never sees half of one; a damaged, foreign or truncated file counts as absent and is written
anew.  The generated source lies beside it under the same name, for people.  Nothing here is ever unpickled or
executed before its checksum and symbols are right.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
from pathlib import Path

from gradopt.ir.atomic import write_atomically
from gradopt.lowering.native.symbols import ObjectFormatError, forbidden_symbols

MAGIC = b"GRADOPT1"
ENVIRONMENT = "GRADOPT_CACHE_DIR"
TEMPORARY = ".new-"


def default_folder() -> Path:
    """GRADOPT_CACHE_DIR, else the platform's place for caches."""
    if os.environ.get(ENVIRONMENT):
        return Path(os.environ[ENVIRONMENT])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gradopt"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "gradopt" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradopt"


def _is_private(folder: Path) -> bool:
    """Whether the folder is ours and nobody else may write to it (where the system knows owners)."""
    if os.name != "posix":
        return True
    found = folder.stat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def open_folder(folder: Path | None = None) -> Path | None:
    """The cache's folder, made if need be; None when there can be none (then nothing is stored and nothing read)."""
    try:
        folder = folder or default_folder()
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if _is_private(folder) else None
    except (OSError, RuntimeError):  # no home directory is a RuntimeError
        return None


def key(*parts: str) -> str:
    """A file name for what the parts identify."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode() + part.encode())
    return digest.hexdigest()


def check_object(data: bytes) -> None:
    """Raise ObjectFormatError unless this is an object file that asks for allowed symbols only."""
    forbidden = forbidden_symbols(data)
    if forbidden:
        raise ObjectFormatError(f"object code refers to {', '.join(sorted(forbidden))}")


def holds(folder: Path | None, name: str) -> bool:
    """Whether something (perhaps damaged) is stored under a name."""
    return folder is not None and (folder / f"{name}.o").exists()


def read(folder: Path | None, name: str) -> bytes | None:
    """The object code stored under a name, or None when it is absent, damaged, or asks for what it must not."""
    if folder is None:
        return None
    try:
        data = (folder / f"{name}.o").read_bytes()
    except OSError:
        return None
    head, payload = data[:40], data[40:]
    if head != MAGIC + hashlib.sha256(payload).digest():
        return None
    try:
        check_object(payload)
    except ObjectFormatError:
        return None
    return payload


def write(folder: Path | None, name: str, data: bytes, source: str) -> None:
    """Store object code and the source it came from; a full disk or a read-only folder only means that nothing is
    stored.

    Raises ObjectFormatError for code that must not be stored.
    """
    check_object(data)
    if folder is None:
        return
    with contextlib.suppress(OSError):
        prefix = f"{TEMPORARY}{os.getpid()}-"
        write_atomically(folder / f"{name}.py", source.encode(), prefix=prefix)
        write_atomically(folder / f"{name}.o", MAGIC + hashlib.sha256(data).digest() + data, prefix=prefix)


def remove_temporary_files(folder: Path, process: int) -> None:
    """What a process that was ended left behind."""
    for path in folder.glob(f"{TEMPORARY}{process}-*"):
        with contextlib.suppress(OSError):
            path.unlink()
