"""Offsets of temporaries in the arena: those that live at different times share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ALIGNMENT", "Interval", "assign_offsets"]

ALIGNMENT = 64


@dataclass
class Interval:
    """A temporary: its bytes and the first and last instruction that touch it (both included)."""

    nbytes: int
    first: int
    last: int


def assign_offsets(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """(an offset for each temporary, bytes of the arena): the largest first, each at the lowest place that is free while it lives."""
    offsets = [0] * len(intervals)
    placed: list[tuple[int, int, Interval]] = []  # (offset, end, interval)
    total = 0
    for index in sorted(range(len(intervals)), key=lambda i: (-intervals[i].nbytes, intervals[i].first)):
        interval = intervals[index]
        size = -(-interval.nbytes // ALIGNMENT) * ALIGNMENT
        offset = 0
        for start, end, other in placed:  # sorted by offset
            if other.last < interval.first or interval.last < other.first:
                continue
            if start - offset >= size:
                break
            offset = max(offset, end)
        offsets[index] = offset
        total = max(total, offset + size)
        placed.append((offset, offset + size, interval))
        placed.sort(key=lambda place: place[0])
    return offsets, total
