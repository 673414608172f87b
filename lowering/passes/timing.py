"""How long each part took: a tree of named timers, and the reports made from it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gradopt.ir.operation import Operation
from gradopt.lowering.passes.base import Pass
from gradopt.lowering.passes.manager import Instrument

__all__ = ["Timer", "TimingInstrument", "timing_report"]


class Timer:
    """Seconds spent under one name, and the timers inside."""

    def __init__(self, name: str) -> None:
        self.name, self.seconds = name, 0.0
        self.children: dict[str, Timer] = {}

    def child(self, name: str) -> Timer:
        """The timer of that name inside this one (made if need be)."""
        return self.children.setdefault(name, Timer(name))

    @contextmanager
    def measure(self, name: str) -> Iterator[Timer]:
        """Adds the time of a `with` block to a child."""
        timer, start = self.child(name), time.perf_counter()
        try:
            yield timer
        finally:
            timer.seconds += time.perf_counter() - start


class TimingInstrument(Instrument):
    """Times passes and verifications under `root`, nested pipelines in timers of their own."""

    def __init__(self, root: Timer) -> None:
        self.stack = [root]
        self.starts: list[float] = []

    def _begin(self, name: str) -> None:
        self.stack.append(self.stack[-1].child(name))
        self.starts.append(time.perf_counter())

    def _end(self) -> None:
        self.stack.pop().seconds += time.perf_counter() - self.starts.pop()

    def before_pass(self, item: Pass, op: Operation) -> None:
        self._begin(item.name)

    def after_pass(self, item: Pass, op: Operation) -> None:
        self._end()

    def after_failure(self, item: Pass, op: Operation) -> None:
        if self.starts:
            self._end()

    def before_verification(self, item: Pass, op: Operation) -> None:
        self._begin("(verify)")

    def after_verification(self, item: Pass, op: Operation) -> None:
        self._end()

    def before_nested(self, anchor: str, op: Operation) -> None:
        self._begin(f"'{anchor}' pipeline")

    def after_nested(self, anchor: str, op: Operation) -> None:
        self._end()


def _rows(timer: Timer, depth: int = 0) -> Iterator[tuple[int, str, float]]:
    """(depth, name, seconds), parents first; nesting is bounded by the pipeline's."""
    for child in timer.children.values():
        yield depth, child.name, child.seconds
        yield from _rows(child, depth + 1)


def timing_report(root: Timer, form: str = "tree") -> str:
    """The report as "tree" (nested, in order), "list" (flat, longest first, equal names added up) or "json"."""
    total = root.seconds
    rest = max(total - sum(child.seconds for child in root.children.values()), 0.0)
    if form == "json":
        return json.dumps({"total": total, "rest": rest, "timers": _json(root)}, indent=2) + "\n"
    rows = list(_rows(root))
    if form == "list":
        sums: dict[str, float] = {}
        for _, name, seconds in rows:
            sums[name] = sums.get(name, 0.0) + seconds
        rows = [(0, name, seconds) for name, seconds in sorted(sums.items(), key=lambda entry: -entry[1])]
    rows += [(0, "Rest", rest), (0, "Total", total)]
    bar = "===" + "-" * 73 + "==="
    lines = [bar, "                         ... Execution time report ...", bar,
             f"  Total Execution Time: {total:.4f} seconds", "", "  ----Wall Time----  ----Name----"]
    for depth, name, seconds in rows:
        share = 100 * seconds / total if total else 0.0
        lines.append(f"  {seconds:8.4f} ({share:5.1f}%)  {'  ' * depth}{name}")
    return "\n".join(lines) + "\n"


def _json(timer: Timer) -> list[dict[str, object]]:
    return [{"name": child.name, "seconds": child.seconds, **({"timers": _json(child)} if child.children else {})}
            for child in timer.children.values()]
