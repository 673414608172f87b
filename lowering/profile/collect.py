"""Runs a compiled function under the driver's clock and gathers what each kernel took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import SizeExpression
from gradopt.ir.types import TensorType
from gradopt.lowering.compile import CompiledFunction
from gradopt.lowering.native.executable import ProfileEvent
from gradopt.lowering.profile.costs import Cost, UnknownSizeError, cost_of
from gradopt.lowering.profile.places import kernel_name, source_lines

__all__ = ["KernelProfile", "Profile", "profile_function"]

FEWEST_CALLS, MOST_CALLS = 3, 100_000


@dataclass(frozen=True)
class KernelProfile:
    """One op of the kernels' function: what it is, what one run costs (None: a size is not known), and a call's runs and seconds.

    A library kernel may take several launches (packing, products); its runs count the op once each time."""

    name: str
    lines: list[tuple[str, int]]
    derivative_of: list[tuple[str, int]]
    runs: float
    launches: int
    seconds: float
    cost: Cost | None

    @property
    def call_cost(self) -> Cost | None:
        """What all runs of a call cost together."""
        if self.cost is None:
            return None
        cost = self.cost
        return Cost(round(cost.flops * self.runs), round(cost.read * self.runs), round(cost.written * self.runs), cost.double)


@dataclass(frozen=True)
class Profile:
    """The kernels, the longest first; how many calls were made and what one took from outside (the median); and single executions:
    `kernel_of[event.instruction]` is the kernel of one."""

    kernels: list[KernelProfile]
    calls: int
    call_seconds: float
    events: list[ProfileEvent]
    kernel_of: list[KernelProfile]


def size_names(compiled: CompiledFunction, arrays: Sequence[Any]) -> dict[str, int]:
    """The sizes that the arrays give to the names in the argument types."""
    found: dict[str, int] = {}
    for type, array in zip(compiled.argument_types, arrays):
        assert isinstance(type, TensorType)
        for size, actual in zip(type.dims, numpy.shape(array)):
            if isinstance(size, SizeExpression) and str(size) in size.names:
                found.setdefault(str(size), actual)
    return found


def profile_function(compiled: CompiledFunction, arrays: Sequence[Any], seconds: float, events: int = 0) -> Profile:
    """Calls the function for about so many seconds (at least three times), and keeps the first `events` executions one by one."""
    compiled(*arrays)
    times: list[float] = []
    compiled.executable.start_profile(events)
    end = time.perf_counter() + seconds
    while len(times) < FEWEST_CALLS or (time.perf_counter() < end and len(times) < MOST_CALLS):
        start = time.perf_counter()
        compiled(*arrays)
        times.append(time.perf_counter() - start)
    entries, kept = compiled.executable.stop_profile()
    sizes = size_names(compiled, arrays)
    origins: Sequence[Operation] = compiled.program.origins
    groups: dict[Operation, list[tuple[int, int]]] = {}  # op -> (count, nanoseconds) of each of its instructions
    for entry in entries:
        groups.setdefault(origins[entry.instruction], []).append((entry.count, entry.nanoseconds))
    kernels = {op: _kernel(op, group, len(times), sizes) for op, group in groups.items()}
    ordered = sorted((kernel for kernel in kernels.values() if kernel.runs), key=lambda kernel: -kernel.seconds)
    return Profile(ordered, len(times), sorted(times)[len(times) // 2], kept, [kernels[op] for op in origins])


def _kernel(op: Operation, group: list[tuple[int, int]], calls: int, sizes: dict[str, int]) -> KernelProfile:
    try:
        cost = cost_of(op, sizes)
    except UnknownSizeError:
        cost = None
    lines, derivative_of = source_lines(op)
    runs = max(count for count, _ in group) / calls
    return KernelProfile(kernel_name(op), lines, derivative_of, runs, len(group), sum(spent for _, spent in group) * 1e-9 / calls, cost)
