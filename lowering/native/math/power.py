"""pow: 2**(y log2|x|), with the logarithm and its product with y as unevaluated sums of two floats.

An error of the product is multiplied by log(2) in the result's relative error, and the product goes to 1024 in f64: the
logarithm needs 11 bits more than the result. In f32 it is computed in f64.
"""

from __future__ import annotations

import math

from gradopt.lowering.native.math import coefficients as table
from gradopt.lowering.native.math.double import Pair, fast_two_sum, multiply, pair_constant, quotient, two_product
from gradopt.lowering.native.math.exponential import exp_of_rest, power_of_two, round_to_integer, scale
from gradopt.lowering.native.math.lane import F32, F64, Lane, fma, maximum, minimum, polynomial, select
from gradopt.lowering.native.math.logarithm import decompose
from gradopt.lowering.native.math.rounding import round_even


def _log2_pair(x: Lane) -> Pair:
    """log2(x) for finite x > 0 (f64) with a relative error near 2**-66: the series of atanh with its first two terms
    in two floats."""
    parts = decompose(x)
    f = parts.mantissa - 1.0
    s = quotient(Pair(f, f.constant(0.0)), fast_two_sum(2.0, f))
    z = multiply(s, s)
    third = pair_constant(x, (table.THIRD_F64[0], table.THIRD_F64[1]))
    factor = fast_two_sum(third.high, z.high * polynomial(z.high, table.LOG_OF_POW_F64))
    correction = multiply(z, Pair(factor.high, factor.low + third.low))
    series = fast_two_sum(1.0, correction.high)
    series = Pair(series.high, series.low + correction.low)
    two_log2_e = pair_constant(x, (table.TWO_LOG2_E_F64[0], table.TWO_LOG2_E_F64[1]))
    logarithm = multiply(multiply(s, series), two_log2_e)
    total = fast_two_sum(parts.exponent, logarithm.high)
    return fast_two_sum(total.high, total.low + logarithm.low)


def _magnitude_f64(x: Lane, y: Lane) -> Lane:
    """x**y for x > 0. Beyond 2**65 the size of y does not matter: even log2(1 + 2**-52) times it overflows."""
    logarithm = _log2_pair(x)
    limited = maximum(-(2.0**65), minimum(2.0**65, y))
    product = two_product(limited, logarithm.high)
    low = fma(limited, logarithm.low, product.low)
    high = maximum(-1100.0, minimum(1100.0, product.high))
    low = select(high.equal(product.high), low, 0.0)
    integer, n = round_to_integer(high, 1.0, 2 * x.format.exponent_bias)
    fraction = (high - n) + low
    ln2_high, ln2_low = table.LN2_F64
    return scale(1.0 + exp_of_rest(fma(fraction, ln2_high, fraction * ln2_low)), integer)


def _magnitude_f32(x: Lane, y: Lane) -> Lane:
    """x**y for x > 0 in f64 with polynomials of f32's needs; the conversion to f32 overflows and underflows."""
    parts = decompose(x.convert(F64), subnormal=False)
    f = parts.mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    logarithm = s * fma(z, polynomial(z, table.LOG_OF_POW_F32), 2.0)
    log2 = fma(logarithm, table.LOG2_E_F64[0], parts.exponent)
    limited = maximum(-(2.0**40), minimum(2.0**40, y.convert(F64)))
    product = maximum(-200.0, minimum(200.0, limited * log2))
    integer, n = round_to_integer(product, 1.0, F64.exponent_bias)
    return (polynomial(product - n, table.EXP2_OF_POW_F32) * power_of_two(integer)).convert(F32)


def pow(x: Lane, y: Lane) -> Lane:
    """x**y with every special case of C99 (annex F.9.4.4)."""
    magnitude = abs(x)
    result = (_magnitude_f32 if x.format is F32 else _magnitude_f64)(magnitude, y)
    # 0 and infinity have no logarithm here.
    at_zero = magnitude.equal(0.0)
    to_infinity = at_zero ^ (y > 0.0)
    extreme = at_zero | magnitude.equal(math.inf)
    result = select(extreme, select(to_infinity, x.constant(math.inf), 0.0), result)
    half = 0.5 * y
    is_integer = round_even(y).equal(y)
    is_odd = is_integer & round_even(half).not_equal(half)
    result = select(is_odd & (x.bits() < 0), -result, result)
    undefined = (x < 0.0) & (x > -math.inf) & ~is_integer
    result = select(undefined, math.nan, result)
    result = select(x.is_nan() | y.is_nan(), x + y, result)
    return select(x.equal(1.0) | y.equal(0.0), 1.0, result)
