"""Kernels to addresses: from this process, from the cache, or compiled now.

The cache's key is a hash of the kernel's source, this package's binary interface, the front end and its version,
LLVM's, and the processor.  Kernels that are missing are compiled one LLVM module each, in this process: measured on
two cores, starting a second process and importing LLVM there costs as much as eight kernels, so it pays only from
`PARALLEL_FROM` missing kernels on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradopt.lowering.native import cache, locks
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.program import KernelSource
from gradopt.lowering.native.symbols import ObjectFormatError

INTERFACE = "gradopt native 1"
"""Changes with the binary interface of kernels (context.py) or with what the front ends make of the same text."""

_LOADED: dict[str, int] = {}


@dataclass
class Timings:
    """Where the time of a compilation went, in seconds, and how many kernels came from where."""

    importing: float = 0.0
    typing: float = 0.0
    llvm: float = 0.0
    loading: float = 0.0
    reading: float = 0.0
    in_process: int = 0
    from_cache: int = 0
    compiled: int = 0

    @property
    def total(self) -> float:
        return self.importing + self.typing + self.llvm + self.loading + self.reading


@dataclass
class CompiledKernels:
    """The address of each kernel, in the order asked for."""

    addresses: list[int]
    timings: Timings = field(default_factory=Timings)


def front_end_name(name: str | None = None) -> str:
    """The front end to use: the one asked for, else GRADOPT_FRONT_END, else the direct one."""
    name = name or os.environ.get("GRADOPT_FRONT_END") or "direct"
    if name not in ("direct", "numba"):
        raise ValueError(f"front end {name!r}: expected direct or numba")
    return name


def _identity(front_end: str) -> str:
    from gradopt.lowering.native.codegen import host

    version = ""
    if front_end == "numba":
        from importlib.metadata import version as installed

        version = installed("numba")
    return f"{INTERFACE}|{front_end} {version}|{host().identity()}"


def compile_kernels(kernels: Sequence[KernelSource], front_end: str | None = None, folder: Path | None = None) -> CompiledKernels:
    """Make every kernel callable in this process.

    Raises KernelError for source outside the language of kernels or whose code would need a symbol that kernels may
    not use.
    """
    timings = Timings()
    front_end = front_end_name(front_end)
    start = time.perf_counter()
    from gradopt.lowering.native import codegen

    identity = _identity(front_end)
    timings.importing = time.perf_counter() - start
    keys = [cache.key(identity, kernel.source) for kernel in kernels]
    with locks.COMPILE:
        timings.in_process = sum(key in _LOADED for key in dict.fromkeys(keys))
        missing = {key: kernel for key, kernel in zip(keys, kernels, strict=True) if key not in _LOADED}
        if missing:
            objects = _objects(missing, front_end, cache.open_folder(folder), timings)
            start = time.perf_counter()
            symbols = {key: "gradopt_" + kernel.digest()[:40] for key, kernel in missing.items()}
            loaded = codegen.load(objects.values(), symbols.values())
            _LOADED.update((key, loaded[symbol]) for key, symbol in symbols.items())
            timings.loading = time.perf_counter() - start
        return CompiledKernels([_LOADED[key] for key in keys], timings)


def _objects(missing: dict[str, KernelSource], front_end: str, folder: Path | None, timings: Timings) -> dict[str, bytes]:
    """Object code for every missing kernel, from the cache where it holds it."""
    objects: dict[str, bytes] = {}
    for key, kernel in missing.items():
        start = time.perf_counter()
        data = cache.read(folder, key)
        timings.reading += time.perf_counter() - start
        if data is None:
            data = _compile(key, kernel, front_end, folder, timings)
        else:
            timings.from_cache += 1
        objects[key] = data
    return objects


def _compile(key: str, kernel: KernelSource, front_end: str, folder: Path | None, timings: Timings) -> bytes:
    start = time.perf_counter()
    from gradopt.lowering.native import codegen, kernels

    if front_end == "numba":
        from gradopt.lowering.native import numba_frontend  # noqa: F401
    imported = time.perf_counter()
    text = kernels.FRONT_ENDS[front_end](kernel)
    typed = time.perf_counter()
    data = codegen.object_code(text)
    timings.importing += imported - start
    timings.typing += typed - imported
    timings.llvm += time.perf_counter() - typed
    timings.compiled += 1
    try:
        cache.write(folder, key, data, kernel.source)
    except ObjectFormatError as error:
        raise KernelError(f"{kernel.name}: {error}") from None
    return data
