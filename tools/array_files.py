"""Arrays in .npy and .npz files. Nothing in such a file is ever run: pickled objects are refused."""

from __future__ import annotations

from typing import Any

from gradopt.tools.files import FileError
from gradopt.tools.options import UsageError

__all__ = ["is_array_file", "read_array"]

Array = Any


def is_array_file(text: str) -> bool:
    """True for `x.npy`, `x.npz` and `x.npz:key`."""
    return text.endswith((".npy", ".npz")) or ".npz:" in text


def read_array(text: str) -> Array:
    """The array of `x.npy`, of `x.npz` where it holds one, or of `x.npz:key`, in this machine's byte order.

    Raises FileError for a file that cannot be read, UsageError for a key that the file does not have."""
    import numpy as np

    path, _, key = text.rpartition(":") if ".npz:" in text else (text, "", "")
    try:
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray) == path.endswith(".npz"):
                raise ValueError("it is " + ("one array (.npy)" if path.endswith(".npz") else "an archive (.npz)"))
            array = loaded if isinstance(loaded, np.ndarray) else loaded[_key(path, key, loaded.files)]
        if not isinstance(array, np.ndarray):
            raise ValueError("what it holds there is no array")
    except UsageError:
        raise
    except OSError as error:
        raise FileError(f"cannot read '{path}': {error.strerror or error}") from None
    except (ValueError, EOFError, MemoryError) as error:
        reason = str(error).split("\n")[0]
        if "pickle" in reason:  # NumPy's advice is to load them all the same
            reason = "it holds pickled Python objects, which are never loaded"
        raise FileError(f"cannot read '{path}': {reason or 'not enough memory'}") from None
    except Exception as error:  # a damaged archive raises whatever zipfile or zlib do
        raise FileError(f"cannot read '{path}': {type(error).__name__}: {error}") from None
    if array.dtype.fields is not None:
        raise FileError(f"cannot read '{path}': it holds records of {', '.join(array.dtype.fields)}, expected numbers")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _key(path: str, key: str, keys: list[str]) -> str:
    """The array of an archive that is meant. Raises UsageError."""
    if not key and len(keys) == 1:
        return keys[0]
    if not key and keys:
        raise UsageError(f"'{path}' has several arrays: write {path}:{keys[0]}; it has {', '.join(keys)}")
    if key not in keys:
        raise UsageError(f"'{path}' has no array '{key}'; it has {', '.join(keys) or 'none'}")
    return key
