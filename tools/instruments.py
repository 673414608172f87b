"""From the options of `gradopt` to what looks on while the passes run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from gradopt.ir.dialect import near_miss
from gradopt.ir.operation import Operation
from gradopt.lowering.passes.base import DebugCounter
from gradopt.lowering.passes.manager import Instrument
from gradopt.lowering.passes.printing import PrintInstrument
from gradopt.lowering.passes.registry import find_pass, pass_names
from gradopt.lowering.passes.timing import Timer, TimingInstrument
from gradopt.tools.options import UsageError

__all__ = ["COUNTERS", "debug_counters", "instruments", "statistics_report"]

COUNTERS = ("canonicalize", "cse", "dce", "decompose", "fold")


def instruments(options: Mapping[str, Any], show: Callable[[Operation], str], timer: Timer | None) -> list[Instrument]:
    """The instruments that the options ask for."""
    chain: list[Instrument] = []
    before = None if options["print_ir_before_all"] else _passes("--print-ir-before", options["print_ir_before"])
    change, failure = options["print_ir_after_change"], options["print_ir_after_failure"]
    named = _passes("--print-ir-after", options["print_ir_after"])
    after = None if options["print_ir_after_all"] or (change and not named) or options["print_ir_tree_dir"] else named
    if failure and after is None and not options["print_ir_after_all"] and not change and not options["print_ir_tree_dir"]:
        after = ()
    if before is None or before or after is None or after or failure:
        quiet = failure and not (after is None or after)
        chain.append(PrintInstrument(show, sys.stderr, before=before, after=after, on_change=change, on_failure=quiet,
                                     module_scope=options["print_ir_module_scope"], folder=options["print_ir_tree_dir"]))
    if timer is not None:
        chain.append(TimingInstrument(timer))
    return chain


def _passes(option: str, text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip().replace("_", "-") for name in (text or "").split(",") if name.strip())
    for name in names:
        if find_pass(name) is None:
            raise UsageError(f"option '{option}': unknown pass '{name}'{near_miss(name, pass_names())}")
    return names


def debug_counters(text: str | None) -> dict[str, DebugCounter]:
    """`cse-skip=3,cse-count=1`. Raises UsageError."""
    counters: dict[str, DebugCounter] = {}
    for entry in (text or "").split(",") if text else ():
        name, equals, number = entry.strip().partition("=")
        counter, _, kind = name.rpartition("-")
        if not equals or kind not in ("skip", "count") or not number.isdigit():
            raise UsageError(f"option '--debug-counter' takes NAME-skip=N and NAME-count=N, found '{entry}'")
        if counter not in COUNTERS:
            raise UsageError(f"there is no debug counter '{counter}'; there are {', '.join(COUNTERS)}")
        setattr(counters.setdefault(counter, DebugCounter()), kind, int(number))
    return counters


def statistics_report(statistics: Mapping[tuple[str, str], int]) -> str:
    """What the passes counted, by pass."""
    bar = "===" + "-" * 73 + "==="
    lines = [bar, "                         ... Pass statistics report ...", bar]
    for name in dict.fromkeys(pass_name for pass_name, _ in statistics):
        lines.append(name)
        lines += [f"  (S) {number:>7} {what}" for (pass_name, what), number in sorted(statistics.items()) if pass_name == name]
    return "\n".join(lines) + "\n"
