"""Places of temporaries: those that live at different times share memory, and a result's memory serves until the result is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ALIGNMENT", "Host", "Interval", "assign_offsets", "host_intervals"]

ALIGNMENT = 64


@dataclass
class Interval:
    """A temporary: its bytes and the first and last instruction that touch it (both included)."""

    nbytes: int
    first: int
    last: int


@dataclass
class Host:
    """A result: its bytes, and the first instruction that touches it."""

    nbytes: int
    first: int


LEAST_HOSTED = 4096  # what is smaller lies in the arena: every hosted temporary costs a call an instruction


class _Region:
    """Memory whose parts are taken by intervals."""

    def __init__(self) -> None:
        self.placed: list[tuple[int, int, Interval]] = []  # (offset, end, interval), sorted

    def lowest(self, interval: Interval, size: int) -> int:
        """The lowest offset where `size` bytes are free while an interval lives."""
        offset = 0
        for start, end, other in self.placed:
            if other.last < interval.first or interval.last < other.first:
                continue
            if start - offset >= size:
                break
            offset = max(offset, end)
        return offset

    def take(self, interval: Interval, offset: int, size: int) -> None:
        """Takes a place."""
        self.placed.append((offset, offset + size, interval))
        self.placed.sort(key=lambda place: place[0])


def padded(nbytes: int) -> int:
    """Bytes rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def largest_first(intervals: Sequence[Interval]) -> list[int]:
    """The order in which places are given."""
    return sorted(range(len(intervals)), key=lambda i: (-intervals[i].nbytes, intervals[i].first))


def assign_offsets(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """(an offset for each temporary, bytes of the arena): the largest first, each at the lowest place that is free while it lives."""
    offsets = [0] * len(intervals)
    region, total = _Region(), 0
    for index in largest_first(intervals):
        size = padded(intervals[index].nbytes)
        offsets[index] = region.lowest(intervals[index], size)
        region.take(intervals[index], offsets[index], size)
        total = max(total, offsets[index] + size)
    return offsets, total


def host_intervals(intervals: Sequence[Interval], hosts: Sequence[Host]) -> dict[int, tuple[int, int]]:
    """interval -> (host, offset) for temporaries that fit into a result which is touched only after their last use."""
    found: dict[int, tuple[int, int]] = {}
    regions = [_Region() for _ in hosts]
    for index in largest_first(intervals):
        interval, size = intervals[index], padded(intervals[index].nbytes)
        for number, (host, region) in enumerate(zip(hosts, regions)):
            if size < LEAST_HOSTED or interval.last >= host.first:
                continue
            offset = region.lowest(interval, size)
            if offset + size <= host.nbytes:
                region.take(interval, offset, size)
                found[index] = (number, offset)
                break
    return found
