"""The table of library routines that kernels call through their context, in the order of context.ROUTINE_NAMES."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradopt.lowering.native.context import ROUTINE_NAMES

if TYPE_CHECKING:
    from gradopt.lowering.native.compile import LoadedKernel

__all__ = ["address_of", "fill", "keep", "table_address"]

_TABLE = (ctypes.c_int64 * len(ROUTINE_NAMES))()
_POSITIONS = {name: position for position, name in enumerate(ROUTINE_NAMES)}
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_TABLE))  # parked workers may read it until the process ends

_KEPT: list[LoadedKernel] = []


def table_address() -> int:
    """The address of the table; it never moves."""
    return ctypes.addressof(_TABLE)


def fill(addresses: Iterable[tuple[str, int]]) -> None:
    """Enter routines, which must stay where they are until the process ends."""
    for name, address in addresses:
        _TABLE[_POSITIONS[name]] = address


def keep(names: Iterable[str], kernels: Iterable[LoadedKernel]) -> None:
    """Enter kernels as routines; their code is never unloaded."""
    for name, kernel in zip(names, kernels, strict=True):
        if kernel not in _KEPT:
            _KEPT.append(kernel)
        fill([(name, kernel.address)])


def address_of(name: str) -> int:
    """Where a routine is; 0 when it was not loaded yet."""
    return _TABLE[_POSITIONS[name]]
