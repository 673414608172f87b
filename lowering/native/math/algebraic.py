"""Functions that are one or two correctly rounded operations."""

from __future__ import annotations

from gradopt.lowering.native.math import lane
from gradopt.lowering.native.math.lane import Lane


def sqrt(x: Lane) -> Lane:
    """The square root, correctly rounded."""
    return lane.sqrt(x)


def rsqrt(x: Lane) -> Lane:
    """1/sqrt(x) as a division of the correctly rounded root: at most 1 ulp; rsqrt(-0.0) is -inf as in IEEE 754."""
    return 1.0 / lane.sqrt(x)


def recip(x: Lane) -> Lane:
    """1/x, correctly rounded."""
    return 1.0 / x
