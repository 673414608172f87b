"""Unevaluated sums of two floats: about twice the precision of the format.

The algorithms are Knuth's and Dekker's (see Muller et al., Handbook of Floating-Point Arithmetic, chapters 4 and 14).
They are exact only in the given order of operations, without contraction, and while nothing overflows; without an fma
instruction `two_product` also needs operands below 2**(bias - precision/2) and a product that is not subnormal.
"""

from __future__ import annotations

from typing import NamedTuple

from gradopt.lowering.native.math import lane
from gradopt.lowering.native.math.lane import Lane, fma, select


class Pair(NamedTuple):
    """high + low, where high is the sum rounded to nearest (or close to it)."""

    high: Lane
    low: Lane


def fast_two_sum(a: Lane | float, b: Lane) -> Pair:
    """a + b exactly, if |a| >= |b| or a is 0."""
    total = a + b
    return Pair(total, b - (total - a))


def two_sum(a: Lane, b: Lane | float) -> Pair:
    """a + b exactly."""
    total = a + b
    shadow = total - a
    return Pair(total, (a - (total - shadow)) + (b - shadow))


def _split(a: Lane) -> Pair:
    """a as two floats of half the precision (Veltkamp)."""
    shifted = a * float((1 << (a.format.precision + 1) // 2) + 1)
    high = shifted - (shifted - a)
    return Pair(high, a - high)


def two_product(a: Lane, b: Lane | float) -> Pair:
    """a * b exactly."""
    product = a * b
    if a.target.has_fma:
        return Pair(product, fma(a, b, -product))
    right = a._coerce(b)
    left_part = _split(a)
    right_part = left_part if right is a else _split(right)
    error = left_part.high * right_part.high - product
    error = error + left_part.high * right_part.low + left_part.low * right_part.high
    return Pair(product, error + left_part.low * right_part.low)


def multiply(a: Pair, b: Pair) -> Pair:
    """a * b."""
    product = two_product(a.high, b.high)
    return fast_two_sum(product.high, product.low + fma(a.high, b.low, a.low * b.high))


def quotient(a: Pair, b: Pair) -> Pair:
    """a / b with one division."""
    inverse = 1.0 / b.high
    first = a.high * inverse
    product = two_product(first, b.high)
    rest = (a.high - product.high) - product.low
    rest = rest + a.low - first * b.low
    return fast_two_sum(first, rest * inverse)


def square_root(a: Pair) -> Pair:
    """The square root of a >= 0; 0 where a.high is 0."""
    root = lane.sqrt(a.high)
    square = two_product(root, root)
    rest = ((a.high - square.high) - square.low) + a.low
    correction = rest / (root + root)
    return fast_two_sum(root, select(root.equal(0.0), 0.0, correction))


def pair_constant(like: Lane, value: tuple[float, float]) -> Pair:
    """A constant given as its two parts."""
    return Pair(like.constant(value[0]), like.constant(value[1]))
