"""The locks of the back end, in the one order in which they may be taken together, and what a fork does with them.

A fork takes them all first, so that no other thread is inside what they guard when memory is copied: a child may
compile and run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

POOL = threading.Lock()
PROCESS = threading.Lock()
COMPILE = threading.RLock()
BLAS = threading.Lock()
LLVM = threading.RLock()
"""LLVM's global context, which llvmlite uses for every module, is not safe for two threads."""

ORDER = (POOL, PROCESS, COMPILE, BLAS, LLVM)

CHILD_ACTIONS: list[Callable[[], None]] = []
"""Called in a forked child before the locks are released."""


def _before() -> None:
    for lock in ORDER:
        lock.acquire()


def _after() -> None:
    for lock in reversed(ORDER):
        lock.release()


def _in_child() -> None:
    for action in CHILD_ACTIONS:
        action()
    _after()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
