"""The parser's tables: built from the grammar, and kept in the user's cache folder so that the next process only loads them.

The file holds lark's own serialised form (plain data, through marshal: no pickle) behind its SHA-256. It is named by a hash of the
grammar and of the versions of lark and Python, and written beside its place before it is renamed. What cannot be read is built again.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
from pathlib import Path
from typing import Any

from gradopt.ir.atomic import write_atomically

__all__ = ["cache_folder", "load_parser"]

OPTIONS: dict[str, Any] = {
    "start": ["start", "attribute", "type", "dictionary", "alias"], "parser": "lalr", "maybe_placeholders": True,
    "propagate_positions": False}


def cache_folder() -> Path | None:
    """The user's own folder for tables (mode 0700), or None where there is no safe one."""
    root = os.environ.get("GRADOPT_CACHE_DIR")
    try:
        if root:
            folder = Path(root) / "tables"
        elif sys.platform == "win32":
            folder = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "gradopt" / "tables"
        else:
            folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradopt" / "tables"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not all(_is_private(place) for place in (folder.parent, folder)):
            return None
    except (OSError, RuntimeError):
        return None
    return folder


def _is_private(folder: Path) -> bool:
    """Whether the folder is the user's and nobody else may write to it (where the system knows owners)."""
    status = folder.stat()
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def load_parser(grammar: Path, callbacks: Any, lexer: type) -> Any:
    """A Lark object for the grammar file whose rules call the methods of `callbacks`, with tokens from a `lexer` class."""
    import lark

    text = grammar.read_text(encoding="utf-8")
    key = hashlib.sha256(f"{lark.__version__}|{sys.version_info[:2]}|{OPTIONS}|{text}".encode()).hexdigest()[:32]
    folder = cache_folder()
    path = None if folder is None else folder / f"{key}.tables"
    if path is not None and path.exists():
        with contextlib.suppress(Exception):  # damaged: built again below
            return _restore(path, callbacks, lexer)
    parser = lark.Lark(text, transformer=callbacks, lexer=lexer, **OPTIONS)
    if path is not None:
        with contextlib.suppress(OSError, TypeError, ValueError):
            _store(parser, path)
    return parser


def _store(parser: Any, path: Path) -> None:
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    data, memo = parser.memo_serialize([TerminalDef, Rule])
    data["options"] = {**data["options"], "transformer": None, "lexer": None}  # these are given anew when it is loaded
    data["parser"]["lexer_conf"]["lexer_type"] = None
    content = marshal.dumps({"data": data, "memo": memo})
    write_atomically(path, hashlib.sha256(content).digest() + content)


def _restore(path: Path, callbacks: Any, lexer: type) -> Any:
    """The parser of a stored file. Raises ValueError where the file is damaged."""
    import lark

    stored = path.read_bytes()
    checksum, content = stored[:32], stored[32:]
    if hashlib.sha256(content).digest() != checksum:
        raise ValueError(f"{path} is damaged")
    tables = marshal.loads(content)
    tables["data"]["options"]["lexer"] = tables["data"]["parser"]["lexer_conf"]["lexer_type"] = lexer
    return lark.Lark._load_from_dict(tables["data"], tables["memo"], transformer=callbacks)  # type: ignore[no-untyped-call]
