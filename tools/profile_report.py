"""The table of `gradopt-run --profile`."""

from __future__ import annotations

from gradopt.lowering.profile.collect import KernelProfile, Profile
from gradopt.lowering.profile.costs import Cost
from gradopt.lowering.profile.places import line_text
from gradopt.lowering.profile.roofline import Roofline
from gradopt.tools.tables import count_text, format_table, seconds_text, size_text

__all__ = ["profile_report"]

MOST_ROWS = 40
HEAD = ["kernel", "lines", "derivative of", "runs", "time", "share", "FLOPs", "bytes", "roofline", "bound by"]


def profile_report(profile: Profile, roofline: Roofline, file: str) -> str:
    """A row for each kernel, the longest first; lines without a file's name are those of `file`."""
    total = sum(kernel.seconds for kernel in profile.kernels)
    shown, rest = profile.kernels[:MOST_ROWS], profile.kernels[MOST_ROWS:]
    rows = [[kernel.name, line_text(kernel.lines, file), line_text(kernel.derivative_of, file), *_numbers([kernel], total, roofline),
             _bound(kernel, roofline)] for kernel in shown]
    if rest:
        rows.append([f"{len(rest)} more", "", "", *_numbers(rest, total, roofline), ""])
    rows.append(["all", "", "", *_numbers(profile.kernels, total, roofline), ""])
    text = f"{seconds_text(profile.call_seconds)} a call (median of {profile.calls}); the machine with {roofline.threads} thread"
    text += f"{'s' * (roofline.threads != 1)}: {count_text(round(roofline.single), 'FLOP/s')} on f32, "
    text += f"{count_text(round(roofline.double), 'FLOP/s')} on f64, {size_text(round(roofline.bandwidth))}/s of memory\n"
    return text + format_table(HEAD, rows)


def _numbers(kernels: list[KernelProfile], total: float, roofline: Roofline) -> list[str]:
    """Runs, time, share, FLOPs, bytes and share of the roofline of some kernels together."""
    seconds = sum(kernel.seconds for kernel in kernels)
    known = [cost for cost in (kernel.call_cost for kernel in kernels) if cost is not None]
    exact = "" if len(known) == len(kernels) else "≥ "
    least = sum(roofline.least_seconds(cost) for cost in known)
    share = f"{100 * least / seconds:.0f}%" if seconds and known and least else ""
    return [f"{sum(kernel.runs for kernel in kernels):.10g}", seconds_text(seconds), f"{100 * seconds / (total or 1):.1f}%",
            exact + count_text(sum(cost.flops for cost in known), ""), exact + size_text(sum(cost.moved for cost in known)), share]


def _bound(kernel: KernelProfile, roofline: Roofline) -> str:
    return roofline.bound(kernel.cost) if kernel.cost is not None and kernel.cost != Cost() else ""
