"""What `run.py` measures of a program: steps in turn, first calls of fresh processes, memory, the overhead of a call."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from peers import WORKLOADS, Workload, jax_step, torch_step

FOLDER = Path(__file__).parent
PEERS = ("jax", "torch", "torch.compile")
LEAST_ROUNDS, MOST_ROUNDS = 5, 2000
TURN = 0.001  # seconds of timed steps in a turn (at least one step)

Step = Callable[[], Any]
Say = Callable[[str], None]


@dataclass
class Row:
    """One program: milliseconds a step, seconds of first calls, bytes of temporaries; `missing` says why a peer has no time."""

    name: str
    times: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    difference: float | None = None
    cold_process: float = 0.0
    cold_call: float = 0.0
    warm_process: float = 0.0
    jax_first: float | None = None
    temporaries: int = 0
    scratch: int = 0
    jax_temporaries: int | None = None

    @property
    def ratio(self) -> float | None:
        """The best peer's time over ours."""
        peers = [self.times[peer] for peer in PEERS if peer in self.times]
        return min(peers) / self.times["gradopt"] if peers else None


def lower_quartiles(steps: dict[str, Step], seconds: float, rest: float) -> dict[str, float]:
    """The lower quartile of each step's times in milliseconds.

    The steps take turns. A turn is a rest (threads that spin after a step, as OpenMP's do, would take a processor from whoever comes
    next), a step that is not timed, and timed steps for a millisecond, at least one.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < LEAST_ROUNDS or (time.perf_counter() < end and rounds < MOST_ROUNDS):
        for name, step in steps.items():
            time.sleep(rest)
            step()
            turn = time.perf_counter()
            while True:
                start = time.perf_counter()
                step()
                stop = time.perf_counter()
                times[name].append(stop - start)
                if stop - turn > TURN:
                    break
        rounds += 1
    return {name: 1e3 * sorted(values)[len(values) // 4] for name, values in times.items()}


def our_function(name: str, workload: Workload) -> Any:
    """Value and gradients by gradopt, compiled."""
    import gradopt

    text = (FOLDER / "programs" / f"{name}.ir").read_text(encoding="utf-8")
    return gradopt.compile(gradopt.parse(text, f"{name}.ir"), "f_value_and_grad", wrt=list(workload.wrt))


def largest_difference(ours: Any, theirs: list[np.ndarray]) -> float:
    """The largest difference of a result, relative to the largest number in it."""
    return max(float(np.max(np.abs(a - b)) / (np.max(np.abs(b)) + 1e-30)) for a, b in zip(ours, theirs, strict=True))


FIRST_CALL = """
import json, sys, time
import numpy as np, gradopt
imported = time.perf_counter()
request = json.loads(sys.argv[1])
arrays = np.load(request["arrays"], allow_pickle=False)
text = open(request["program"], encoding="utf-8").read()
gradopt.compile(text, "f_value_and_grad", wrt=request["wrt"])(*(arrays[name] for name in sorted(arrays.files)))
print(time.perf_counter() - imported)
"""


def first_calls(name: str, workload: Workload) -> tuple[float, float, float]:
    """(a whole process up to its first result with an empty cache, what the call alone took of it, a process with the filled cache)."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = os.path.join(folder, "arguments.npz")
        np.savez(arrays, **{f"a{i:02d}": argument for i, argument in enumerate(workload.arguments)})
        request = {"arrays": arrays, "program": str(FOLDER / "programs" / f"{name}.ir"), "wrt": list(workload.wrt)}
        command = [sys.executable, "-c", FIRST_CALL, json.dumps(request)]
        cache = os.path.join(folder, "cache")
        seconds, calls = [], []
        for _ in range(2):
            start = time.perf_counter()
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "GRADOPT_CACHE_DIR": cache})
            seconds.append(time.perf_counter() - start)
            calls.append(float(done.stdout))
    return seconds[0], calls[0], seconds[1]


def jax_temporaries(workload: Workload) -> int:
    """What XLA says that the program needs beside its arguments and results."""
    import jax

    compiled = jax.jit(jax.value_and_grad(workload.jax, argnums=tuple(workload.wrt))).lower(*workload.arguments).compile()
    return int(compiled.memory_analysis().temp_size_in_bytes)


class OverTime(Exception):
    """A time limit was reached."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises OverTime in the body after so many seconds (where the system has an alarm clock)."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise OverTime(f"over {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def compiled_torch_step(workload: Workload, seconds: float) -> Step | str:
    """The step through `torch.compile`, compiled; or why there is none."""
    import torch

    step = torch_step(workload, compiled=True)
    try:
        with time_limit(seconds):
            step()
        return step
    except Exception as error:  # over time, or whatever the compiler (or the C++ compiler that it needs) reports
        torch._dynamo.reset()  # nothing half compiled stays
        return str(error) if isinstance(error, OverTime) else f"failed: {type(error).__name__}"


def measure(name: str, seconds: float, rest: float, compile_seconds: float, say: Say) -> Row:
    """One row. `compile_seconds` limits `torch.compile` (0: it is left out)."""
    row, workload = Row(name), WORKLOADS[name]()
    say("compiling")
    function = our_function(name, workload)
    steps: dict[str, Step] = {"gradopt": lambda: function(*workload.arguments)}
    row.temporaries = function.executable.temporary_bytes(*workload.arguments)
    row.scratch = function.executable.scratch_bytes(*workload.arguments)
    if importlib.util.find_spec("jax"):
        say("JAX")
        steps["jax"] = jax_step(workload)
        start = time.perf_counter()
        value, gradients = steps["jax"]()
        row.jax_first = time.perf_counter() - start
        row.jax_temporaries = jax_temporaries(workload)
        row.difference = largest_difference(steps["gradopt"](), [np.asarray(part) for part in (value, *gradients)])
    else:
        row.missing["jax"] = "not installed"
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        steps["torch"] = torch_step(workload)
        if compile_seconds:
            say("torch.compile")
            step = compiled_torch_step(workload, compile_seconds)
            if isinstance(step, str):
                row.missing["torch.compile"] = step
            else:
                steps["torch.compile"] = step
        else:
            row.missing["torch.compile"] = "left out"
    else:
        row.missing.update({"torch": "not installed", "torch.compile": "not installed"})
    say("steps")
    for step in steps.values():
        step()
    row.times = lower_quartiles(steps, seconds, rest)
    say("first calls")
    row.cold_process, row.cold_call, row.warm_process = first_calls(name, workload)
    return row


def call_overhead() -> float:
    """Microseconds of a call with three arguments of 4 elements: the lower quartile of batches of a hundred."""
    import gradopt

    function = gradopt.compile("""func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %a = prim.mul %x, %y : tensor<4xf32>
  %b = prim.add %a, %z : tensor<4xf32>
  return %b : tensor<4xf32>
}""", "f")
    x, y, z = (np.ones(4, np.float32) for _ in range(3))
    times = []
    for _ in range(400):
        start = time.perf_counter()
        for _ in range(100):
            function(x, y, z)
        times.append((time.perf_counter() - start) * 1e4)
    return sorted(times)[len(times) // 4]
