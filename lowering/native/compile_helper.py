"""A second process that compiles kernels into the cache while this one does so too.

LLVM holds one lock in a process, so threads would not help. Whoever is free takes the largest kernel that is left: a thread of this
process hands them to the helper one by one (compile_worker.py), `claim` is for this process's own. Nothing is compiled twice, and the
one that the helper still has when nothing is left is waited for.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from gradopt.lowering.native import cache
from gradopt.lowering.native.program import KernelSource

__all__ = ["HELPED_FROM", "Helper", "by_cost", "start_helper"]

HELPED_FROM = 12
"""Missing kernels from which on a helping process pays: it costs some 0.1 s to start, a kernel 0.02 to 0.04 s."""


def by_cost(kernels: Mapping[str, KernelSource]) -> list[str]:
    """The keys of kernels, the longest source (which takes the longest to compile, about) first."""
    return sorted(kernels, key=lambda key: -len(kernels[key].source))


class Helper:
    """The helping process, and what is left to do. All methods may be called from any thread."""

    def __init__(self, kernels: Mapping[str, KernelSource], front_end: str, folder: Path) -> None:
        self._front_end, self._folder = front_end, folder
        self._kernels = dict(kernels)
        self._left = dict.fromkeys(by_cost(kernels))
        self._with_helper: str | None = None
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gradopt.lowering.native.compile_worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONSAFEPATH": "1"},
        )  # fmt: skip
        self._thread = threading.Thread(target=self._feed, name="gradopt-compile-helper", daemon=True)
        self._thread.start()

    def claim(self, key: str) -> bool:
        """Whether the caller is to compile that kernel: False where the helper has had it, or has it now."""
        with self._changed:
            if key in self._left:
                del self._left[key]
                return True
            return key not in self._kernels

    def wait(self, key: str) -> None:
        """Until the helper does not have that kernel any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._with_helper != key)

    def close(self) -> None:
        """End the helper; what it may still be compiling nobody waits for."""
        with self._changed:
            self._left.clear()
        self._process.kill()
        self._thread.join()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        cache.remove_temporary_files(self._folder, self._process.pid)

    def _feed(self) -> None:
        """Hands kernels to the helper until none is left, or it has ended."""
        while (key := self._take()) is not None:
            if not self._compile(self._kernels[key]):
                break
        with self._changed:
            self._with_helper = None
            self._changed.notify_all()

    def _take(self) -> str | None:
        with self._changed:
            key = next(iter(self._left), None)
            if key is not None:
                del self._left[key]
            self._with_helper = key
            self._changed.notify_all()
            return key

    def _compile(self, kernel: KernelSource) -> bool:
        """Whether the helper has answered."""
        request = {"front_end": self._front_end, "folder": str(self._folder), "kernel": [kernel.name, kernel.source, kernel.vectorise]}
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return bool(self._process.stdout.readline())
        except (OSError, ValueError):
            return False


@contextlib.contextmanager
def start_helper(kernels: Mapping[str, KernelSource], front_end: str, folder: Path | None) -> Iterator[Helper | None]:
    """A helper for missing kernels (key -> source), which ends with the body; None where it would not pay or cannot be."""
    if len(kernels) < HELPED_FROM or folder is None or not may_start_helper():
        yield None
        return
    try:
        helper = Helper(kernels, front_end, folder)
    except OSError:
        yield None
        return
    try:
        yield helper
    finally:
        helper.close()


def may_start_helper() -> bool:
    """Whether there is a second processor and an interpreter to start (GRADOPT_COMPILE_HELPER=0 forbids it)."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    interpreter = os.path.basename(sys.executable or "").startswith("python")
    return processors > 1 and interpreter and os.environ.get("GRADOPT_COMPILE_HELPER") != "0"
