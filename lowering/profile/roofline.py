"""The machine's roofline: how fast it multiplies and how fast it copies, measured by two kernels of our own.

(Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009.) A kernel of F operations and B bytes takes at
least max(F / peak, B / bandwidth) seconds; its share of the roofline is that time over the measured one. Data that stays in a cache moves
faster than memory, so a share can pass 100%. Other work on the machine only makes the numbers lower: they are measured for each profile (a
fifth of a second), and the best ever found is kept beside the kernels.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
from gradopt.ir.atomic import write_atomically
from gradopt.lowering.native import cache, pool
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import Argument, Buffer, KernelSource, Program, Result, Run
from gradopt.lowering.native.registers import registers
from gradopt.lowering.profile.costs import Cost

__all__ = ["Roofline", "machine_roofline"]

DEPTH, TILES, CHUNKS = 128, 500, 4  # products of a sum, tiles of a chunk, chunks a thread
COPIED = 1 << 24  # f32 elements: 64 MB, more than a cache holds
TIMES = 7  # the best of so many runs, after one that does not count
MOST = 1e18  # a stored number above it is damage
VERSION = 1  # of the stored numbers; a change of the two kernels raises it


@dataclass(frozen=True)
class Roofline:
    """Peak operations a second on f32 and f64, and bytes a second (read and written), with `threads` threads."""

    threads: int
    single: float
    double: float
    bandwidth: float

    def least_seconds(self, cost: Cost) -> float:
        """What a kernel of that cost takes at least."""
        return max(cost.flops / (self.double if cost.double else self.single), cost.moved / self.bandwidth)

    def bound(self, cost: Cost) -> str:
        """Which of the two it is that bounds a kernel: `compute` or `memory`."""
        return "compute" if cost.flops / (self.double if cost.double else self.single) > cost.moved / self.bandwidth else "memory"


def machine_roofline() -> Roofline:
    """The roofline for the threads that compute now: the best of what was ever measured on this machine with this cache."""
    from gradopt.lowering.native.codegen import host

    threads = pool.num_threads()
    folder = cache.open_folder()
    path = None if folder is None else folder / f"roofline-{cache.key(str(VERSION), str(threads), host().identity())[:16]}.json"
    found = measure(threads)
    if path is not None:
        stored = read(path)
        if stored is not None and stored.threads == threads:
            found = Roofline(threads, max(found.single, stored.single), max(found.double, stored.double),
                             max(found.bandwidth, stored.bandwidth))
        if found != stored:
            with suppress(OSError):  # a full disk or a read-only folder only means that it is measured again
                write_atomically(path, json.dumps(asdict(found)).encode())
    return found


def read(path: Path) -> Roofline | None:
    """Stored numbers; None where they are absent or damaged."""
    try:
        found = Roofline(**json.loads(path.read_text(encoding="utf-8")))
        return found if all(isinstance(value, (int, float)) and 0 < value < MOST for value in asdict(found).values()) else None
    except (OSError, ValueError, TypeError):
        return None


def measure(threads: int) -> Roofline:
    """Both measurements."""
    return Roofline(threads, _peak("f32", threads), _peak("f64", threads), _bandwidth())


def _seconds(run: Executable, argument: Any) -> float:
    run(argument)
    best = float("inf")
    for _ in range(TIMES):
        start = time.perf_counter()
        run(argument)
        best = min(best, time.perf_counter() - start)
    return best


def tile_program(element: str, threads: int) -> tuple[Program, int, int]:
    """(a program that multiplies in registers and in the nearest cache, elements of its argument, operations of a call)."""
    register = registers(4 if element == "f32" else 8)
    rows, width = register.sums // 2, 2 * register.lanes
    panel = DEPTH * (rows + width)
    tile = f"tile_{element}(1, {rows}, 2, {register.lanes}, {{}}, 1, 1, 1, {DEPTH}, a, 0, 0, 0, {rows}, 0, 1, b, 0, 0, 0, {width}, "
    tile += f"{register.lanes}, c, 0, {width}, {register.lanes})"
    source = f"""def kernel(lo, hi, context):
    a = pointer_{element}(context, 0)
    b = offset(a, {DEPTH * rows})
    c = offset(pointer_{element}(context, 1), lo * {rows * width})
    {tile.format(0)}
    for turn in range(1, {TILES}):
        {tile.format(1)}
    return 0
"""
    chunks = CHUNKS * threads
    buffers: list[Buffer] = [Argument(element, (panel,)), Result(element, (chunks * rows * width,))]
    program = Program("roofline_peak", [KernelSource("peak", source)], [], buffers, [Run(0, chunks, 1, (0, 1))])
    return program, panel, 2 * rows * width * DEPTH * TILES * chunks


def _peak(element: str, threads: int) -> float:
    """Operations a second of register tiles on zeros that the nearest cache holds."""
    program, size, flops = tile_program(element, threads)
    return flops / _seconds(Executable(program), numpy.zeros(size, numpy.float32 if element == "f32" else numpy.float64))


def _bandwidth() -> float:
    """Bytes a second, read and written, of adding one to a long vector."""
    source = """def kernel(lo, hi, context):
    a = pointer_f32(context, 0)
    c = pointer_f32(context, 1)
    for i in range(lo, hi):
        store(c, i, load(a, i) + f32(1.0))
    return 0
"""
    buffers: list[Buffer] = [Argument("f32", (COPIED,)), Result("f32", (COPIED,))]
    program = Program("roofline_copy", [KernelSource("copy", source)], [], buffers, [Run(0, COPIED, 1 << 16, (0, 1))])
    return 8 * COPIED / _seconds(Executable(program), numpy.zeros(COPIED, numpy.float32))
