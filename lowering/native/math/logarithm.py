"""Logarithms: log, log2, log1p, and the logarithm of a sum of two floats for the inverse hyperbolic functions.

The argument is m * 2**e with sqrt(1/2) <= m < sqrt(2), and f = m - 1. The logarithm of 1 + f is f + rest(f), where the
rest is a polynomial (f32) or, with s = f/(2 + f), the odd series of 2 atanh(s) (f64; fdlibm's e_log.c has the algebra).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gradopt.lowering.native.math import coefficients as table
from gradopt.lowering.native.math.double import Pair, fast_two_sum, two_product, two_sum
from gradopt.lowering.native.math.lane import F32, Lane, fma, pick, polynomial, select


class Decomposed(NamedTuple):
    """x = mantissa * 2**exponent; `biased` is the exponent plus the bias as an integer (without a subnormal's shift)."""

    mantissa: Lane
    exponent: Lane
    biased: Lane


def decompose(x: Lane, subnormal: bool = True) -> Decomposed:
    """Split x > 0 so that the mantissa is in [sqrt(1/2), sqrt(2)); `subnormal` says whether x may be."""
    format = x.format
    one = format.exponent_bias << format.fraction_bits
    root = x.constant(math.sqrt(0.5)).bits()
    bias = x.constant(2.0**format.fraction_bits + format.exponent_bias)
    if subnormal:
        tiny = x < 2.0 ** (1 - format.exponent_bias)
        x = select(tiny, x * 2.0**format.precision, x)
        bias = select(tiny, bias + float(format.precision), bias)
    shifted = x.bits() + (x.integer(one) - root)
    biased = shifted >> format.fraction_bits
    mantissa = ((shifted & ((1 << format.fraction_bits) - 1)) + root).as_float()
    # An integer below 2**fraction_bits becomes a float by giving it the exponent of 2**fraction_bits.
    exponent = (biased | x.constant(2.0**format.fraction_bits).bits()).as_float() - bias
    return Decomposed(mantissa, exponent, biased)


def rest_of_log1p(f: Lane) -> Lane:
    """log(1 + f) - f for sqrt(1/2) - 1 <= f <= sqrt(2) - 1."""
    square = f * f
    if f.format is F32:
        return square * fma(f, polynomial(f, table.LOG_F32), -0.5)
    s = f / (2.0 + f)
    z = s * s
    half = 0.5 * square
    return s * (half + z * polynomial(z, table.LOG_F64)) - half


def log_of(exponent: Lane, f: Lane) -> Lane:
    """exponent * log(2) + log(1 + f), smallest terms first."""
    high, low = pick(f, table.LN2_F32, table.LN2_F64)
    return fma(exponent, high, f + fma(exponent, low, rest_of_log1p(f)))


def with_special_cases(x: Lane, result: Lane) -> Lane:
    """The logarithm at x <= 0 (NaN, -inf at 0), infinity and NaN, else `result`."""
    result = select(x < 0.0, math.nan, result)
    result = select(x.equal(0.0), -math.inf, result)
    return select(x < math.inf, result, x)


def log(x: Lane) -> Lane:
    """The natural logarithm."""
    parts = decompose(x)
    return with_special_cases(x, log_of(parts.exponent, parts.mantissa - 1.0))


def log2(x: Lane) -> Lane:
    """The logarithm to base 2: log(1 + f) as an unevaluated sum, times log2(e) in two parts. Exact at powers of 2."""
    parts = decompose(x)
    f = parts.mantissa - 1.0
    natural = fast_two_sum(f, rest_of_log1p(f))
    high, low = pick(x, table.LOG2_E_F32, table.LOG2_E_F64)
    product = two_product(natural.high, high)
    total = fast_two_sum(parts.exponent, product.high)
    rest = product.low + fma(natural.high, low, natural.low * high)
    return with_special_cases(x, total.high + (total.low + rest))


def log_of_pair(x: Pair, extra_exponent: Lane | None = None) -> Lane:
    """log((high + low) * 2**extra_exponent) for high >= 1/2, with small relative error also where it is near 0.

    Near 1 the exponent is 0 and f = (high - 1) + low has one rounding; elsewhere low only corrects the last bits.
    """
    format = x.high.format
    parts = decompose(x.high, subnormal=False)
    inverse = (x.high.integer(2 * format.exponent_bias) - parts.biased) << format.fraction_bits
    # The inverse power of two is not a normal float at the top of the range, where low does not matter.
    power = select(x.high < 2.0 ** (2 * format.precision), inverse.as_float(), 0.0)
    f = fma(x.low, power, parts.mantissa - 1.0)
    exponent = parts.exponent if extra_exponent is None else parts.exponent + extra_exponent
    return log_of(exponent, f)


def log1p(x: Lane) -> Lane:
    """log(1 + x): the logarithm of the exact sum 1 + x as two floats."""
    result = with_special_cases(1.0 + x, log_of_pair(two_sum(x, 1.0)))
    return select(abs(x) < 2.0 ** -(x.format.precision + 1), x, result)
