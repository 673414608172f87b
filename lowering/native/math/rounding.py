"""Rounding to an integer, exact in every case: -0.0, infinities and NaN keep their sign and kind."""

from __future__ import annotations

from gradopt.lowering.native.math.lane import Lane, copysign, select


def _round_by_addition(x: Lane) -> Lane:
    """Round half to even by adding and subtracting 2**fraction_bits, for processors without the instruction."""
    limit = 2.0**x.format.fraction_bits
    magnitude = abs(x)
    rounded = (magnitude + limit) - limit
    return copysign(select(magnitude < limit, rounded, magnitude), x)


def round_even(x: Lane) -> Lane:
    """The nearest integer, halves to the even one."""
    return x.call_intrinsic("llvm.roundeven") if x.target.has_rounding else _round_by_addition(x)


def floor(x: Lane) -> Lane:
    """The largest integer that is not above x."""
    if x.target.has_rounding:
        return x.call_intrinsic("llvm.floor")
    rounded = _round_by_addition(x)
    return copysign(select(rounded > x, rounded - 1.0, rounded), x)


def ceil(x: Lane) -> Lane:
    """The smallest integer that is not below x."""
    if x.target.has_rounding:
        return x.call_intrinsic("llvm.ceil")
    rounded = _round_by_addition(x)
    return copysign(select(rounded < x, rounded + 1.0, rounded), x)


def trunc(x: Lane) -> Lane:
    """The integer next to x towards zero."""
    if x.target.has_rounding:
        return x.call_intrinsic("llvm.trunc")
    magnitude = abs(x)
    rounded = _round_by_addition(magnitude)
    return copysign(select(rounded > magnitude, rounded - 1.0, rounded), x)
