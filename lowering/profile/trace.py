"""A profile as a trace in Chrome's JSON format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

(Format: "Trace Event Format", the Chromium project.) The caller's track shows every kernel of every call; inside it, and on a track for
each worker, lie the chunks that the thread ran.
"""

from __future__ import annotations

import json
from typing import Any

from gradopt.lowering.profile.collect import KernelProfile, Profile
from gradopt.lowering.profile.places import line_text
from gradopt.lowering.profile.roofline import Roofline

__all__ = ["trace_text"]

PROCESS, CALLER = 1, 1


def trace_text(profile: Profile, name: str, roofline: Roofline) -> str:
    """The trace of the executions that a profile kept."""
    callers = {event.thread for event in profile.events if event.chunk < 0}
    workers = dict.fromkeys(event.thread for event in profile.events if event.thread not in callers)
    tracks = {**dict.fromkeys(callers, CALLER), **{thread: CALLER + 1 + number for number, thread in enumerate(workers)}}
    events: list[dict[str, Any]] = [_named("process_name", CALLER, f"gradopt {name}"), _named("thread_name", CALLER, "caller")]
    events += [_named("thread_name", tracks[thread], f"worker {number}") for number, thread in enumerate(workers, 1)]
    start = min((event.begin for event in profile.events), default=0)
    arguments = {id(kernel): _arguments(kernel, roofline) for kernel in profile.kernels}
    # a kernel before its chunks: what begins first, and of two that begin together the longer one, lies outside
    for event in sorted(profile.events, key=lambda event: (event.begin, -event.end, event.chunk)):
        kernel = profile.kernel_of[event.instruction]
        whole = event.chunk < 0
        events.append({
            "name": kernel.name if whole else f"{kernel.name} [{event.chunk}]", "cat": "kernel" if whole else "chunk", "ph": "X",
            "pid": PROCESS, "tid": tracks[event.thread], "ts": (event.begin - start) / 1e3, "dur": (event.end - event.begin) / 1e3,
            "args": arguments.get(id(kernel), {}) if whole else {"chunk": event.chunk}})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, ensure_ascii=False) + "\n"


def _named(what: str, track: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": PROCESS, "tid": track, "args": {"name": name}}


def _arguments(kernel: KernelProfile, roofline: Roofline) -> dict[str, Any]:
    """What Perfetto shows of a kernel that is chosen."""
    found: dict[str, Any] = {"lines": line_text(kernel.lines), "derivative of lines": line_text(kernel.derivative_of)}
    if kernel.cost is not None:
        found.update({"FLOPs": kernel.cost.flops, "bytes read": kernel.cost.read, "bytes written": kernel.cost.written,
                      "least µs": roofline.least_seconds(kernel.cost) * 1e6, "bound by": roofline.bound(kernel.cost)})
    return {key: value for key, value in found.items() if value != ""}
