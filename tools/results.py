"""What `gradopt-run` does with results: prints them, saves them, and reports time and memory."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gradopt.tools.files import write_bytes, write_text
from gradopt.tools.options import UsageError
from gradopt.tools.run_options import PROFILE_SECONDS
from gradopt.tools.tables import format_table, seconds_text, size_text

if TYPE_CHECKING:
    from gradopt.lowering.compile import CompiledFunction

__all__ = ["as_list", "check_save_path", "report_memory", "report_profile", "report_time", "save", "show"]

Array = Any
TRACED_EVENTS = 50_000  # executions that a trace holds at most: some ten megabytes of text


def as_list(results: Any) -> list[Array]:
    """The results as a list."""
    return list(results) if isinstance(results, tuple) else [results]


def show(results: Sequence[Array], how: str) -> None:
    """Prints each result with its type and shape."""
    import numpy as np

    if how == "none":
        return
    limit = sys.maxsize if how == "full" else 60
    with np.printoptions(threshold=limit, edgeitems=3, linewidth=110, precision=9 if how == "full" else 6):
        for index, result in enumerate(results):
            array = np.asarray(result)
            shape = "x".join([*map(str, array.shape), array.dtype.name])
            sys.stdout.write(f"result {index}: {shape}\n{array}\n")


def check_save_path(path: str | None) -> None:
    """Raises UsageError for another ending than .npy and .npz."""
    if path is not None and not path.endswith((".npy", ".npz")):
        raise UsageError(f"option '--save' takes a file that ends in .npy or .npz, found '{path}'")


def save(results: Sequence[Array], path: str | None) -> None:
    """Writes the results, each file as a whole or not at all; bf16 as its bits in uint16, as arguments take it. Raises FileError."""
    import numpy as np

    if path is None:
        return
    arrays = [np.asarray(result) for result in results]
    arrays = [array.view(np.uint16) if array.dtype.name == "bfloat16" else array for array in arrays]
    stem, ending = os.path.splitext(path)
    if ending == ".npz":
        archive = io.BytesIO()
        np.savez(archive, **{f"result{index}": array for index, array in enumerate(arrays)})  # type: ignore[arg-type]
        write_bytes(path, archive.getvalue())
        return
    for index, array in enumerate(arrays):
        file = io.BytesIO()
        np.save(file, array)
        write_bytes(path if len(arrays) == 1 else f"{stem}_{index}.npy", file.getvalue())


def repeat(call: Callable[[], Any], seconds: float) -> list[float]:
    """The times of calls that go on for about so many seconds (at least three calls)."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 100_000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)


def report_time(compiled: CompiledFunction, arrays: Sequence[Array], compile_seconds: float, seconds: float) -> None:
    """Prints compile time by stage and run time."""
    rows: list[tuple[str, str]] = [(f"compile: {stage}", seconds_text(value)) for stage, value in compiled.timings.items()]
    times = repeat(lambda: compiled(*arrays), seconds)
    rows += [("compile: all", seconds_text(compile_seconds)), ("run: fastest", seconds_text(times[0])),
             ("run: median", seconds_text(times[len(times) // 2])), ("run: calls", str(len(times)))]
    sys.stdout.write(format_table(["time", ""], rows))


def report_memory(compiled: CompiledFunction, arrays: Sequence[Array], results: Sequence[Array]) -> None:
    """Prints what a call needs."""
    import numpy as np

    rows = [("arguments", size_text(sum(np.asarray(array).nbytes for array in arrays))),
            ("results", size_text(sum(np.asarray(result).nbytes for result in results))),
            ("peak beyond the arguments", size_text(compiled.peak_bytes(*arrays)))]
    sys.stdout.write(format_table(["memory", ""], rows))


def report_profile(compiled: CompiledFunction, arrays: Sequence[Array], options: dict[str, Any], file: str) -> None:
    """Prints what each kernel takes, the longest first, and writes the trace that was asked for. Raises FileError."""
    from gradopt.lowering.profile.collect import profile_function
    from gradopt.lowering.profile.roofline import machine_roofline
    from gradopt.lowering.profile.trace import trace_text
    from gradopt.tools.profile_report import profile_report

    traced = options["trace"] is not None
    seconds = options["profile"] or float(PROFILE_SECONDS)
    profile = profile_function(compiled, arrays, seconds, TRACED_EVENTS if traced else 0)
    roofline = machine_roofline()
    sys.stdout.write(profile_report(profile, roofline, file))
    if traced:
        write_text(options["trace"], trace_text(profile, compiled.__name__, roofline))
