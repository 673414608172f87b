"""The worker threads: Python daemon threads parked inside the driver's `worker`, started when a program first can use
them.

The number of threads (workers and the caller) is GRADOPT_NUM_THREADS, or the processors this process may use, or what
`set_num_threads` said.  Results do not depend on it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from dataclasses import dataclass, field

from gradopt.ir.diagnostics import ArgumentValueError, check_type
from gradopt.lowering.native import driver, layout, locks

MOST_THREADS = layout.MOST_THREADS


@dataclass
class _State:
    wanted: int | None = None
    threads: list[threading.Thread] = field(default_factory=list)
    areas: list[ctypes.Array[ctypes.c_char]] = field(default_factory=list)
    registered: bool = False
    closed: bool = False


_STATE = _State()


def available_processors() -> int:
    """How many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def num_threads() -> int:
    """How many threads run a program, the caller included.  Raises ArgumentValueError for a GRADOPT_NUM_THREADS that is
    no number from 1 to MOST_THREADS.
    """
    if _STATE.wanted is not None:
        return _STATE.wanted
    text = os.environ.get("GRADOPT_NUM_THREADS", "").strip()
    if not text:
        return available_processors()
    if not text.isdecimal() or not 1 <= int(text[:9]) <= MOST_THREADS:
        raise ArgumentValueError(f"GRADOPT_NUM_THREADS is {text!r}: expected a number from 1 to {MOST_THREADS}")
    return int(text)


def set_num_threads(count: int) -> None:
    """Run programs on that many threads from now on (the caller included).  Raises ArgumentValueError."""
    check_type("set_num_threads", "count", count, int, "an integer")
    if not 1 <= count <= MOST_THREADS:
        raise ArgumentValueError(f"set_num_threads: argument 'count': expected a number from 1 to {MOST_THREADS}, found {count}")
    with locks.POOL:
        _STATE.wanted = count
        _stop()


def ensure_started() -> None:
    """Start the workers unless they run already."""
    process = driver.process()
    if process.word(layout.POOL_READY):
        return
    with locks.POOL:
        if process.word(layout.POOL_READY) or _STATE.closed:
            process.set_word(layout.POOL_READY, 1)
            return
        if not _STATE.registered:
            _register()
        for number in range(num_threads() - 1):
            _start_worker(process, number)
        _place_workers(process)
        process.set_word(layout.POOL_WORKERS, len(_STATE.threads))
        process.set_word(layout.POOL_READY, 1)


def _start_worker(process: driver.Process, number: int) -> None:
    area = ctypes.create_string_buffer(layout.WORD * layout.AREA_WORDS + 128)
    address = (ctypes.addressof(area) + 127) & -128
    thread = threading.Thread(
        target=process.call, args=("worker", process.block, address), name=f"gradopt-worker-{number}", daemon=True
    )
    _STATE.areas.append(area)
    _STATE.threads.append(thread)
    thread.start()


def _place_workers(process: driver.Process) -> None:
    """Tell the driver which threads and which processors there are, where it places workers (pool_source.py says why)."""
    if driver.wait_kind() != layout.WAIT_FUTEX:
        return
    allowed = os.sched_getaffinity(0)
    for position in range(layout.AFFINITY_WORDS):
        bits = sum(1 << processor % 64 for processor in allowed if processor // 64 == position)
        process.set_word(layout.POOL_AFFINITY + position, bits)
    for number, thread in enumerate(_STATE.threads):
        process.set_word(layout.POOL_THREADS + number, thread.native_id or 0)
    process.set_word(layout.POOL_PLACED, int(len(allowed) > 1 and max(allowed) < 64 * layout.AFFINITY_WORDS))


def _stop() -> None:
    """End the workers; with locks.POOL held.  Callers that run meanwhile work alone: the pool is locked."""
    if not _STATE.threads:
        if driver._PROCESS:
            driver.process().set_word(layout.POOL_READY, 0)
        return
    process = driver.process()
    while _exchange_lock(process) != 0:
        time.sleep(0.001)
    process.set_word(layout.POOL_WORKERS, 0)
    process.call("stop_workers", process.block)
    for thread in _STATE.threads:
        thread.join()
    for area in _STATE.areas:
        _free_scratch(process, area)
    _STATE.threads.clear()
    _STATE.areas.clear()
    process.set_word(layout.POOL_STOP, 0)
    process.set_word(layout.POOL_READY, 0)
    process.set_word(layout.POOL_LOCK, 0)


def _exchange_lock(process: driver.Process) -> int:
    """Take the pool's lock as a running program does; 0 when it was free."""
    return process.call("try_pool_lock", process.block)


def _free_scratch(process: driver.Process, area: ctypes.Array[ctypes.c_char]) -> None:
    from gradopt.lowering.native.context import SCRATCH

    address = (ctypes.addressof(area) + 127) & -128
    scratch = ctypes.c_int64.from_address(address + layout.WORD * (layout.AREA_CONTEXT + SCRATCH)).value
    if scratch:
        process.call("block_free", scratch)


def _register() -> None:
    """Once: a child after a fork starts with no workers, and the interpreter ends them before it ends."""
    _STATE.registered = True
    atexit.register(_close)
    locks.CHILD_ACTIONS.append(_after_fork)


def _close() -> None:
    """At exit: the workers leave native code and end.  A program that runs even later uses its caller's thread."""
    with locks.POOL:
        _STATE.closed = True
        _stop()


def _after_fork() -> None:
    _STATE.threads.clear()
    _STATE.areas.clear()
    driver.reset_after_fork()
