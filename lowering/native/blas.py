"""A private, single-threaded OpenBLAS (the package scipy-openblas32) and the table of its routines' addresses.

The library has names of its own (`scipy_…`), so its thread count is nobody else's.  It is loaded when the first
program whose kernels call it is made; until then the table holds zeros.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from pathlib import Path

from gradopt.lowering.native import locks
from gradopt.lowering.native.context import BLAS_NAMES, ROUTINE_NAMES
from gradopt.lowering.native.program import KernelSource

_TABLE = (ctypes.c_int64 * len(ROUTINE_NAMES))()
_LIBRARIES: list[ctypes.CDLL] = []
_CALLS = re.compile(r"\b(?:" + "|".join(ROUTINE_NAMES) + r")\(")
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_TABLE))  # parked workers may read it until the process ends


def table_address() -> int:
    """The address of the table, in the order of context.ROUTINE_NAMES; it never moves."""
    return ctypes.addressof(_TABLE)


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
        for position, name in enumerate(ROUTINE_NAMES):
            symbol = f"scipy_cblas_{name}" if name in BLAS_NAMES else f"scipy_{name}_"
            _TABLE[position] = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
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
