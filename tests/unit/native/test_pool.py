"""The pool under load, after forks, in spawned processes, and at the end of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gradopt.lowering.native import driver, layout, pool
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import Argument, KernelSource, LoopBegin, LoopEnd, Program, Result, Run, SizeRef, Variable

STEP = """
def kernel(lo, hi, context):
    x = pointer_i64(context, 0)
    out = pointer_i64(context, 1)
    t = parameter(context, 0)
    for i in range(lo, hi):
        store(out, i, load(x, i) * t + load(out, i) + chunk(context))
    return 0
"""


def regions(count: int, extent: int, grain: int) -> Program:
    """`count` regions one after the other, each reading what the one before wrote; a lost or doubled chunk changes the result."""
    return Program(
        "regions", [KernelSource("step", STEP)], [Variable()],
        [Argument("i64", (extent,)), Result("i64", (extent,))],
        [
            Run(0, extent, grain, (0, 1), (0,)),
            LoopBegin(count, SizeRef(0)),
            Run(0, extent, grain, (0, 1), (SizeRef(0),)),
            LoopEnd(),
        ],
    )  # fmt: skip


def reference(x: Any, count: int, grain: int, before: Any) -> Any:
    chunks = np.arange(len(x)) // grain
    return before + chunks * (count + 1) + x * (count * (count - 1) // 2)


class Cleared:
    """Runs a program whose result starts as zeros (a Fill comes first)."""

    def __init__(self, count: int, extent: int, grain: int) -> None:
        from gradopt.lowering.native.program import Fill

        program = regions(count, extent, grain)
        program.instructions = [Fill(1, 0, 8 * extent), *program.instructions]
        self.count, self.grain, self.run = count, grain, Executable(program)

    def check(self, x: Any) -> None:
        np.testing.assert_array_equal(self.run(x), reference(x, self.count, self.grain, 0))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_tens_of_thousands_of_regions(threads: Callable[[int], None], count: int) -> None:
    """Regions of 2 to 64 chunks, far smaller than the time a worker takes to wake."""
    threads(count)
    for extent, grain in ((2, 1), (7, 1), (64, 1), (1000, 300)):
        Cleared(10000, extent, grain).check(np.arange(extent) + 3)


def test_workers_sleep_and_wake(threads: Callable[[int], None]) -> None:
    """Pauses long enough for the workers to fall asleep between calls."""
    threads(3)
    run = Cleared(50, 100, 1)
    pause = threading.Event()
    for _ in range(30):
        run.check(np.arange(100))
        pause.wait(0.003)


def test_callers_share_and_do_without(threads: Callable[[int], None]) -> None:
    """Several callers at once: one has the pool, the others work alone."""
    threads(3)
    runs = [Cleared(2000, extent, 1) for extent in (3, 8, 17)]
    failures: list[str] = []

    def work(run: Cleared, seed: int) -> None:
        x = np.random.default_rng(seed).integers(0, 100, run.run.program.buffers[0].shape)
        try:
            for _ in range(5):
                run.check(x)
        except AssertionError as error:
            failures.append(str(error))

    callers = [threading.Thread(target=work, args=(runs[i % 3], i)) for i in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures


def test_thread_count_changes_while_programs_run(threads: Callable[[int], None]) -> None:
    run = Cleared(500, 16, 1)
    failures: list[str] = []
    done = threading.Event()

    def work() -> None:
        try:
            while not done.is_set():
                run.check(np.arange(16))
        except AssertionError as error:
            failures.append(str(error))

    callers = [threading.Thread(target=work) for _ in range(2)]
    for caller in callers:
        caller.start()
    for count in (1, 2, 4, 3) * 5:
        threads(count)
        run.check(np.arange(16))
    done.set()
    for caller in callers:
        caller.join()
    assert not failures


SUM = """
def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    partial = pointer_f32(context, 1)
    total = f32(0.0)
    for i in range(lo, hi):
        total = accumulate_add(total, load(x, i))
    store(partial, chunk(context), total)
    return 0
"""


def test_same_bits_for_any_number_of_threads(threads: Callable[[int], None]) -> None:
    n, grain = 100_003, 1000
    chunks = -(-n // grain)
    program = Program(
        "sum", [KernelSource("partial", SUM)], [], [Argument("f32", (n,)), Result("f32", (chunks,))], [Run(0, n, grain, (0, 1))]
    )
    run = Executable(program)
    x = np.random.default_rng(0).normal(size=n).astype(np.float32)
    found = []
    for count in (1, 2, 3):
        threads(count)
        found += [run(x).tobytes() for _ in range(20)]
    assert len(set(found)) == 1
    np.testing.assert_allclose(np.frombuffer(found[0], np.float32).sum(dtype=np.float64), x.sum(dtype=np.float64), rtol=1e-4)


def test_one_chunk_does_not_touch_the_pool(threads: Callable[[int], None], map_program: Callable[..., Program]) -> None:
    threads(2)
    run = Executable(map_program("v = a", ["f32"], "f32", 100))
    process = driver.process()
    before = process.word(layout.POOL_EPOCH)
    run(np.ones(100, np.float32))
    assert process.word(layout.POOL_READY) == 0 and process.word(layout.POOL_EPOCH) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork(threads: Callable[[int], None]) -> None:
    """A child of a process whose pool runs has a pool of its own; a grandchild too; the parent's goes on."""
    threads(3)
    run = Cleared(200, 50, 1)
    x = np.arange(50)
    run.check(x)
    for _ in range(5):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for _ in range(20):
                    run.check(x)
                grandchild = os.fork()
                if grandchild == 0:
                    run.check(x)
                    os._exit(0)
                status = os.waitpid(grandchild, 0)[1]
                assert len(pool._STATE.threads) == 2
            finally:
                os._exit(status)
        run.check(x)
        assert os.waitpid(child, 0)[1] == 0
    run.check(x)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_while_other_threads_call(threads: Callable[[int], None]) -> None:
    threads(2)
    run = Cleared(300, 20, 1)
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            run.check(np.arange(20))

    callers = [threading.Thread(target=work) for _ in range(3)]
    for caller in callers:
        caller.start()
    statuses = []
    for _ in range(10):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run.check(np.arange(20))
                status = 0
            finally:
                os._exit(status)
        statuses.append(os.waitpid(child, 0)[1])
    done.set()
    for caller in callers:
        caller.join()
    assert statuses == [0] * 10


PROLOGUE = """
import numpy as np
from gradopt.lowering.native import pool
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import *
SOURCE = '''
def kernel(lo, hi, context):
    out = pointer_i64(context, 0)
    for i in range(lo, hi):
        store(out, i, i * parameter(context, 0))
    return 0
'''
program = Program("p", [KernelSource("k", SOURCE)], [], [Result("i64", (100,))], [Run(0, 100, 1, (0,), (3,))] * 50)
run = Executable(program)
assert run().tolist() == list(range(0, 300, 3))
"""


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROLOGUE + textwrap.dedent(code)],
        env=os.environ | {"GRADOPT_NUM_THREADS": "3"} | environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


ENDINGS = {
    "plain": "",
    "result kept": "import sys\nsys.kept = run()",
    "call at exit": "import atexit\natexit.register(run)",
    "call while modules die": "class Late:\n    def __del__(self, run=run):\n        run()\nlate = Late()",
    "exit in a thread": "import threading\nthreading.Thread(target=lambda: [run() for _ in range(2000)]).start()",
    "daemon still calling": """
import threading
threading.Thread(target=lambda: [run() for _ in range(10**7)], daemon=True).start()
""",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends_cleanly(ending: str) -> None:
    done = python(ENDINGS[ending])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(
    driver.wait_kind() != layout.WAIT_FUTEX or pool.available_processors() < 2, reason="Linux on two processors places workers"
)
def test_sleeping_workers_wake_on_other_processors() -> None:
    """Who wakes the workers forbids them its own processor, and a worker that woke may run everywhere again."""
    code = """
    import ctypes, os, threading, time
    from gradopt.lowering.native import driver, layout
    calls = []
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64))
    def set_affinity(thread, size, words):
        bits = sum(words[i] << 64 * i for i in range(size // 8))
        mask = {i for i in range(8 * size) if bits >> i & 1}
        calls.append((threading.get_native_id(), thread, mask))
        os.sched_setaffinity(thread, mask)
        return 0
    replacement = callback(set_affinity)
    process = driver.process()
    table = process.word(layout.HOST_ADDRESS)
    place = ctypes.c_int64.from_address(table + layout.WORD * layout.HOST_NAMES.index("set_affinity"))
    before, place.value = place.value, ctypes.cast(replacement, ctypes.c_void_p).value
    everywhere = os.sched_getaffinity(0)
    own = min(everywhere)
    os.sched_setaffinity(0, {own})
    workers = {thread.native_id for thread in pool._STATE.threads}
    def until(condition):
        end = time.monotonic() + 60
        while not condition() and time.monotonic() < end:
            time.sleep(0.001)
    def freed():
        return {caller for caller, thread, mask in calls if thread == 0 and mask == everywhere}
    until(lambda: process.word(layout.POOL_SLEEPERS) == 2)
    calls.clear()
    run()
    until(lambda: freed() == workers)
    place.value = before
    placed = {thread for caller, thread, mask in calls if caller not in workers and mask == everywhere - {own}}
    assert placed == workers == freed(), calls
    """
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_condition_variables_instead_of_futex() -> None:
    """The portable way to sleep: the same results, with pauses for the workers to fall asleep."""
    code = """
    import time
    from gradopt.lowering.native import driver, layout
    assert driver.wait_kind() == layout.WAIT_CONDITION
    for turn in range(60):
        assert run().tolist() == list(range(0, 300, 3))
        if turn % 3 == 0:
            time.sleep(0.002)
    """
    done = python(code, GRADOPT_POOL_WAIT="condition")
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_from_the_environment() -> None:
    code = "assert pool.num_threads() == 5, pool.num_threads()\nassert len(pool._STATE.threads) == 4"
    assert python(code, GRADOPT_NUM_THREADS="5").returncode == 0
    done = python("", GRADOPT_NUM_THREADS="many")
    assert "GRADOPT_NUM_THREADS is 'many': expected a number from 1 to 1024" in done.stderr
    with pytest.raises(ValueError, match="expected a number from 1 to 1024, found 0"):
        pool.set_num_threads(0)


def test_spawned_process(tmp_path: Path) -> None:
    """A spawned child imports everything anew and finds the kernels in the cache."""
    script = tmp_path / "spawned.py"
    script.write_text(
        PROLOGUE.replace("run = ", "def make():\n    return ").split("assert")[0]
        + textwrap.dedent("""
        def child(queue):
            import sys
            found = make()()
            queue.put((found.tolist() == list(range(0, 300, 3)), 'numba' in sys.modules))

        if __name__ == "__main__":
            import multiprocessing
            make()()
            context = multiprocessing.get_context("spawn")
            queue = context.Queue()
            process = context.Process(target=child, args=(queue,))
            process.start()
            assert queue.get(timeout=60) == (True, False)
            process.join()
            assert process.exitcode == 0
    """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_keyboard_interrupt() -> None:
    """Ctrl-C ends a program that would run for hours, and the executable works afterwards."""
    code = """
    import os, signal, threading, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
    forever = Program("p", [KernelSource("k", SOURCE)], [Variable()], [Result("i64", (100,))],
                      [LoopBegin(10**12, SizeRef(0)), Run(0, 100, 1, (0,), (3,)), LoopEnd()])
    endless = Executable(forever)
    def interrupt():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        endless()
    except KeyboardInterrupt:
        print("interrupted")
    assert run().tolist() == list(range(0, 300, 3))
    """
    done = python(code)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "interrupted", "")
