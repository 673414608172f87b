"""exp and what is built on its reduction: exp2, expm1, sigmoid.

The reduction is Cody and Waite's: x = n log(2) + r with n an integer and |r| <= log(2)/2. n comes from adding and
subtracting 1.5 * 2**fraction_bits, which leaves it in the low bits of the sum as an integer too.
"""

from __future__ import annotations

from typing import NamedTuple

from gradopt.lowering.native.math import coefficients as table
from gradopt.lowering.native.math.double import Pair, fast_two_sum, quotient, two_sum
from gradopt.lowering.native.math.lane import F32, Lane, fma, maximum, minimum, pick, polynomial, select


class Reduced(NamedTuple):
    """x = n * log(2) + rest; the low bits of `integer` hold n + offset."""

    integer: Lane
    rest: Lane


def round_to_integer(x: Lane, factor: float, offset: int) -> tuple[Lane, Lane]:
    """n = x * factor rounded to nearest, as an integer whose low bits are n + offset and as a float."""
    magic = 1.5 * 2.0**x.format.fraction_bits + offset
    shifted = fma(x, factor, magic)
    return shifted.bits(), shifted - magic


def reduce(x: Lane, offset: int) -> Reduced:
    """The reduction of x, which must be small enough for n to be below 2**9 (f32) or 2**12 (f64)."""
    high, low = pick(x, table.LN2_F32, table.LN2_F64)
    integer, n = round_to_integer(x, pick(x, table.LOG2_E_F32, table.LOG2_E_F64)[0], offset)
    return Reduced(integer, fma(n, -low, fma(n, -high, x)))


def curvature(r: Lane) -> Lane:
    """exp(r) - 1 - r for |r| <= log(2)/2."""
    return r * r * polynomial(r, pick(r, table.EXP_F32, table.EXP_F64))


def exp_of_rest(r: Lane) -> Lane:
    """exp(r) - 1 for |r| <= log(2)/2."""
    return fma(r * r, polynomial(r, pick(r, table.EXP_F32, table.EXP_F64)), r)


def power_of_two(integer: Lane) -> Lane:
    """2**n for a normal result, if the low bits of `integer` hold n + bias."""
    return (integer << integer.format.fraction_bits).as_float()


def scale(value: Lane, integer: Lane) -> Lane:
    """value * 2**n rounded once, subnormal and overflowing results included; `integer` holds n + 2 * bias.

    The power is split into two that are normal: 2**n = 2**(n // 2) * 2**(n - n // 2).
    """
    fraction_bits = value.format.fraction_bits
    half = (integer << (fraction_bits - 1)) & -(1 << fraction_bits)
    other = (integer << fraction_bits) - half
    return value * half.as_float() * other.as_float()


def _clamp(x: Lane) -> Lane:
    """x moved to where exp(x)/2 is still 0 or infinity but the scaling cannot wrap."""
    low, high = (-104.0, 90.0) if x.format is F32 else (-746.0, 711.0)
    return maximum(low, minimum(high, x))


def scaled_exp(x: Lane, exponent: int = 0) -> Lane:
    """exp(x) * 2**exponent for exponent 0 or -1."""
    reduced = reduce(_clamp(x), 2 * x.format.exponent_bias + exponent)
    return scale(1.0 + exp_of_rest(reduced.rest), reduced.integer)


def exp(x: Lane) -> Lane:
    """e**x: reduction by log(2) in two parts, a minimax polynomial of degree 6 (f32) or 11 (f64), two exact scalings."""
    return scaled_exp(x)


def exp2(x: Lane) -> Lane:
    """2**x: the fraction times log(2), then as `exp`. Exact at integers."""
    low, high = (-151.0, 129.0) if x.format is F32 else (-1076.0, 1025.0)
    clamped = maximum(low, minimum(high, x))
    integer, n = round_to_integer(clamped, 1.0, 2 * x.format.exponent_bias)
    fraction = clamped - n
    ln2_high, ln2_low = pick(x, table.LN2_F32, table.LN2_F64)
    return scale(1.0 + exp_of_rest(fma(fraction, ln2_high, fraction * ln2_low)), integer)


def moderate_expm1(x: Lane) -> Pair:
    """exp(x) - 1 where exp(x) neither overflows nor is subnormal: 2**n (exp(r) - 1) + (2**n - 1).

    In f64 it is the sum of the two; in f32 the second is 0.
    """
    reduced = reduce(x, x.format.exponent_bias)
    return _times_power_minus(reduced.rest, power_of_two(reduced.integer), 1.0)


def _times_power_minus(r: Lane, power: Lane, whole: float) -> Pair:
    """power * exp(r) - whole, with power = whole * 2**n.

    In f64 the part power * (1 + r) - whole is kept as two floats, because it loses a bit for n = 1.
    """
    if r.format is F32:
        return Pair(fma(power, exp_of_rest(r), power - whole), r.constant(0.0))
    linear = fast_two_sum(power - whole, power * r)
    return Pair(linear.high, fma(power, curvature(r), linear.low))


def expm1(x: Lane) -> Lane:
    """e**x - 1 without cancellation. The power of two is halved and the result doubled, so that 2**n can't overflow."""
    low, high, tiny = (-18.0, 89.0, 2.0**-26) if x.format is F32 else (-40.0, 710.0, 2.0**-55)
    reduced = reduce(maximum(low, minimum(high, x)), x.format.exponent_bias - 1)
    result = _times_power_minus(reduced.rest, power_of_two(reduced.integer), 0.5)
    total = result.high + result.low
    return select(abs(x) < tiny, x, total + total)


def sigmoid(x: Lane) -> Lane:
    """1/(1 + e**-x) with e**-|x|, which cannot overflow: 1/(1 + e) for x >= 0 and e/(1 + e) for x < 0."""
    e = scaled_exp(-abs(x))
    numerator = select(x < 0.0, e, 1.0)
    if x.format is F32:
        return numerator / (1.0 + e)
    result = quotient(Pair(numerator, x.constant(0.0)), two_sum(e, 1.0))
    return result.high + result.low
