"""Plain-text tables."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["count_text", "format_table", "seconds_text", "size_text"]


def format_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with a line under its head; cells that are numbers stand to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [list(head), *cells]) for column in range(len(head))]
    right = [all(_is_measure(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for number, row in enumerate([list(head), *cells]):
        padded = (cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in zip(row, widths, right))
        lines.append("  ".join(padded).rstrip())
        if not number:
            lines.append("  ".join("-" * width for width in widths))
    return "\n".join(lines) + "\n"


def _is_measure(text: str) -> bool:
    number = text.split(" ")[0].rstrip("%")
    try:
        float(number)
    except ValueError:
        return False
    return True


def seconds_text(seconds: float) -> str:
    """`12.3 ms`, with three digits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"
    raise AssertionError


def count_text(count: int, unit: str) -> str:
    """`1.5 G`, `1.5 GFLOP/s`: a number with a decimal prefix before its unit."""
    for prefix, factor in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= factor:
            return f"{count / factor:.3g} {prefix}{unit}"
    return f"{count} {unit}".rstrip()


def size_text(count: int) -> str:
    """`1.5 MB` (a megabyte is 1,000,000 bytes)."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"
