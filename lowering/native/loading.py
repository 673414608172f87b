"""Object code in this process: loaded, given addresses, and unloaded when nothing needs it any more.

`Code` is what one `load` brought in. Whoever may still run it holds a reference: an executable holds its kernels, and a thread inside
a call holds the executable. The driver is held for ever, since destructors of results and parked workers need it until the last
moment of the process; at the end of the process nothing is unloaded at all.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm
from gradopt.lowering.native import locks
from gradopt.lowering.native.codegen import LARGE, SMALL, initialise, stands_alone, target_machine

__all__ = ["Code", "live_modules", "load"]

_LIVE: set[int] = set()
_RETIRED: deque[tuple[int, list[Any]]] = deque()
"""Engines that nothing needs, to be closed under LLVM's lock. A collection may happen in any thread and at any time, also while another
one holds that lock, and must not wait: then the next one to unload or load closes them."""


class Code:
    """Object files that were loaded together, and where each name lies. They are unloaded when this object is collected."""

    def __init__(self, engines: list[Any], addresses: dict[str, int]) -> None:
        self.addresses = addresses
        number = id(engines)
        _LIVE.add(number)
        weakref.finalize(self, _retire, number, engines).atexit = False


def live_modules() -> int:
    """How many loaded `Code` objects have not been unloaded yet (the driver is one of them)."""
    return len(_LIVE)


def load(objects: Iterable[bytes], names: Iterable[str]) -> Code:
    """Load object files into this process and give the address of each name.

    Raises RuntimeError when a name is missing.
    """
    groups: dict[bool, list[bytes]] = {}
    for data in objects:
        groups.setdefault(stands_alone(data), []).append(data)
    with locks.LLVM:
        _close_retired()
        initialise()
        engines = [_engine(group, small) for small, group in groups.items()]
        code = Code(engines, {name: _address_in(engines, name) for name in names})
    missing = [name for name, address in code.addresses.items() if address == 0]
    if missing:
        raise RuntimeError(f"object code without the symbol {missing[0]}")
    return code


def _engine(objects: Iterable[bytes], small: bool) -> Any:
    options = {"use_lmm": True} if small else {}
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(None, SMALL if small else LARGE), **options)
    for data in objects:
        engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return engine


def _address_in(engines: Iterable[Any], name: str) -> int:
    return next((int(address) for engine in engines if (address := engine.get_function_address(name))), 0)


def _retire(number: int, engines: list[Any]) -> None:
    _RETIRED.append((number, engines))
    if locks.LLVM.acquire(blocking=False):
        try:
            _close_retired()
        finally:
            locks.LLVM.release()


def _close_retired() -> None:
    """With the lock held."""
    while _RETIRED:
        number, engines = _RETIRED.popleft()
        for engine in engines:
            engine.close()
        _LIVE.discard(number)
