"""A private, single-threaded OpenBLAS (the package scipy-openblas32).

The library has names of its own (`scipy_…`), so its thread count is nobody else's.  It is loaded when the first
program whose kernels call it is made; until then the table of routines holds zeros for it.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from pathlib import Path

from gradopt.lowering.native import locks, routines
from gradopt.lowering.native.context import BLAS_NAMES, LAPACK_NAMES
from gradopt.lowering.native.program import KernelSource

_NAMES = BLAS_NAMES + LAPACK_NAMES
_LIBRARIES: list[ctypes.CDLL] = []
_CALLS = re.compile(r"\b(?:" + "|".join(_NAMES) + r")\(")


def needed_by(kernels: Iterable[KernelSource]) -> bool:
    """Whether a kernel calls one of the routines."""
    return any(_CALLS.search(kernel.source) for kernel in kernels)


def library_path() -> Path:
    """The shared library inside the package.  Raises RuntimeError when it is not there."""
    import scipy_openblas32

    folder = Path(scipy_openblas32.get_lib_dir())
    found = sorted(path for pattern in ("*.so*", "*.dylib", "*.dll") for path in folder.glob(pattern))
    if not found:
        raise RuntimeError(f"scipy-openblas32 holds no shared library (looked in {folder.name}); reinstall it")
    return found[0]


def load() -> None:
    """Load the library and fill the table; does nothing the second time."""
    with locks.BLAS:
        if _LIBRARIES:
            return
        library = _open(library_path())
        library.scipy_openblas_set_num_threads(1)
        symbols = {name: f"scipy_cblas_{name}" if name in BLAS_NAMES else f"scipy_{name}_" for name in _NAMES}
        routines.fill((name, ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0) for name, symbol in symbols.items())
        _LIBRARIES.append(library)


def _open(path: Path) -> ctypes.CDLL:
    """Load with one thread asked for, so that OpenBLAS starts no threads of its own."""
    kept = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        return ctypes.CDLL(str(path))
    finally:
        if kept is None:
            del os.environ["OPENBLAS_NUM_THREADS"]
        else:
            os.environ["OPENBLAS_NUM_THREADS"] = kept
