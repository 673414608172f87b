"""Kernels to addresses: from this process, from the cache, or compiled now.

The cache's key is a hash of the kernel's source, this package's own compiler, the front end and its version,
LLVM's, and the processor.  Each kernel is an object file of its own, so that programs share them; loading one takes a
tenth of a millisecond.  When many kernels are missing a second process helps (compile_helper.py).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gradopt.ir.diagnostics import ArgumentValueError
from gradopt.lowering.native import cache, locks
from gradopt.lowering.native.compile_helper import Helper, by_cost, start_helper
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.program import KernelSource
from gradopt.lowering.native.symbols import ObjectFormatError

if TYPE_CHECKING:
    from gradopt.lowering.native.loading import Code

_COMPILER_MODULES = (
    "context",
    "elements",
    "values",
    "intrinsics*",
    "half",
    "function_compiler",
    "unrolling",
    "*frontend",
    "kernels",
    "codegen",
    "math/*",
)
"""What decides the code that is made of a kernel's text."""


class LoadedKernel:
    """A kernel's address, and the code that it lies in."""

    __slots__ = ("__weakref__", "address", "code")

    def __init__(self, address: int, code: Code) -> None:
        self.address, self.code = address, code


_LOADED: weakref.WeakValueDictionary[str, LoadedKernel] = weakref.WeakValueDictionary()
"""Every kernel that somebody holds, by its key."""


@dataclass
class Timings:
    """Where the time of a compilation went, in seconds, and how many kernels came from where."""

    driver: float = 0.0
    importing: float = 0.0
    typing: float = 0.0
    llvm: float = 0.0
    loading: float = 0.0
    reading: float = 0.0
    in_process: int = 0
    from_cache: int = 0
    compiled: int = 0
    helped: bool = False

    @property
    def total(self) -> float:
        return self.driver + self.importing + self.typing + self.llvm + self.loading + self.reading


@dataclass
class CompiledKernels:
    """The kernels in the order asked for; they are callable for as long as this list lives."""

    kernels: list[LoadedKernel]
    timings: Timings = field(default_factory=Timings)

    @property
    def addresses(self) -> list[int]:
        """The address of each kernel."""
        return [kernel.address for kernel in self.kernels]


def front_end_name(name: str | None = None) -> str:
    """The front end to use: the one asked for, else GRADOPT_FRONT_END, else the direct one."""
    name = name or os.environ.get("GRADOPT_FRONT_END") or "direct"
    if name not in ("direct", "numba"):
        raise ArgumentValueError(f"the front end is {name!r}, expected direct or numba")
    return name


@functools.cache
def compiler_digest() -> str:
    """A hash of this package's own compiler, so that no release and no edit of it ever runs code that another one made."""
    folder, digest = Path(__file__).parent, hashlib.sha256()
    for pattern in _COMPILER_MODULES:
        for path in sorted(folder.glob(f"{pattern}.py")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _identity(front_end: str) -> str:
    from gradopt.lowering.native.codegen import host

    version = ""
    if front_end == "numba":
        from importlib.metadata import version as installed

        version = installed("numba")
    return f"{compiler_digest()}|{front_end} {version}|{host().identity()}"


def compile_kernels(kernels: Sequence[KernelSource], front_end: str | None = None, folder: Path | None = None,
                    timings: Timings | None = None, helper: Helper | None = None) -> CompiledKernels:
    """Make every kernel callable in this process. What is missing is loaded together, and unloaded when none of it is needed. The times
    are added to `timings`; a `helper` (see `helped`) compiles some of it.

    Raises KernelError for source outside the language of kernels or whose code would need a symbol that kernels may not
    use.
    """
    timings = timings or Timings()
    front_end = front_end_name(front_end)
    start = time.perf_counter()
    from gradopt.lowering.native import loading

    identity = _identity(front_end)
    timings.importing += time.perf_counter() - start
    keys = [cache.key(identity, kernel.source) for kernel in kernels]
    with locks.COMPILE:
        found = {key: kernel for key in keys if (kernel := _LOADED.get(key)) is not None}
        timings.in_process += len(found)
        missing = {key: kernel for key, kernel in zip(keys, kernels, strict=True) if key not in found}
        if missing:
            objects = _objects(missing, front_end, cache.open_folder(folder), timings, helper)
            start = time.perf_counter()
            symbols = {key: "gradopt_" + kernel.digest()[:40] for key, kernel in missing.items()}
            code = loading.load(objects.values(), symbols.values())
            found.update((key, LoadedKernel(code.addresses[symbol], code)) for key, symbol in symbols.items())
            _LOADED.update(found)
            timings.loading += time.perf_counter() - start
        return CompiledKernels([found[key] for key in keys], timings)


def missing_kernels(kernels: Sequence[KernelSource], front_end: str | None = None, folder: Path | None = None) -> dict[str, KernelSource]:
    """The kernels, by their keys, that are neither loaded nor in the cache."""
    folder = cache.open_folder(folder)
    identity = _identity(front_end_name(front_end))
    keys = {cache.key(identity, kernel.source): kernel for kernel in kernels}
    return {key: kernel for key, kernel in keys.items() if key not in _LOADED and not cache.holds(folder, key)}


@contextlib.contextmanager
def helped(kernels: Sequence[KernelSource], front_end: str | None = None, folder: Path | None = None) -> Iterator[Helper | None]:
    """A helping process for what is missing of kernels, while they are compiled in the body; None where it would not pay."""
    missing = missing_kernels(kernels, front_end, folder)
    with start_helper(missing, front_end_name(front_end), cache.open_folder(folder)) as helper:
        yield helper


def _objects(missing: dict[str, KernelSource], front_end: str, folder: Path | None, timings: Timings,
             helper: Helper | None) -> dict[str, bytes]:
    """Object code for every missing kernel, from the cache where it holds it."""
    start = time.perf_counter()
    objects = {key: data for key in missing if (data := cache.read(folder, key)) is not None}
    timings.reading += time.perf_counter() - start
    timings.from_cache += len(objects)
    absent = {key: kernel for key, kernel in missing.items() if key not in objects}
    timings.helped |= helper is not None and bool(absent)
    elsewhere = []
    for key in by_cost(absent):
        if helper is None or helper.claim(key):
            objects[key] = _compile(key, absent[key], front_end, folder, timings)
        else:
            elsewhere.append(key)
    for key in elsewhere:
        assert helper is not None
        helper.wait(key)
        data = cache.read(folder, key)
        objects[key] = _compile(key, absent[key], front_end, folder, timings) if data is None else data
    return objects


def _compile(key: str, kernel: KernelSource, front_end: str, folder: Path | None, timings: Timings) -> bytes:
    start = time.perf_counter()
    from gradopt.lowering.native import codegen, kernels

    if front_end == "numba":
        from gradopt.lowering.native import numba_frontend  # noqa: F401
    imported = time.perf_counter()
    text = kernels.FRONT_ENDS[front_end](kernel)
    typed = time.perf_counter()
    data = codegen.object_code(text, kernel.vectorise)
    timings.importing += imported - start
    timings.typing += typed - imported
    timings.llvm += time.perf_counter() - typed
    timings.compiled += 1
    try:
        cache.write(folder, key, data, kernel.source)
    except ObjectFormatError as error:
        raise KernelError(f"{kernel.name}: {error}") from None
    return data


def fill_cache(kernel: KernelSource, front_end: str, folder: Path) -> None:
    """Compile one kernel into the cache unless it is there (for compile_worker.py)."""
    key = cache.key(_identity(front_end), kernel.source)
    if cache.read(folder, key) is None:
        _compile(key, kernel, front_end, folder, Timings())
