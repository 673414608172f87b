"""sinh, cosh, tanh and their inverses."""

from __future__ import annotations

import math

from gradopt.lowering.native.math import coefficients as table
from gradopt.lowering.native.math.double import Pair, fast_two_sum, quotient, square_root, two_product, two_sum
from gradopt.lowering.native.math.exponential import moderate_expm1, scaled_exp
from gradopt.lowering.native.math.lane import F32, Lane, copysign, fma, minimum, pick, polynomial, select
from gradopt.lowering.native.math.logarithm import log_of_pair


def sinh(x: Lane) -> Lane:
    """(e**x - e**-x)/2 from half the exponential, which overflows no earlier than the result; a polynomial below 1."""
    magnitude = abs(x)
    half = scaled_exp(magnitude, -1)
    z = x * x
    small = fma(x * z, polynomial(z, pick(x, table.SINH_F32, table.SINH_F64)), x)
    return select(magnitude < 1.0, small_or_itself(x, small), copysign(half - 0.25 / half, x))


def small_or_itself(x: Lane, small: Lane) -> Lane:
    """x itself where its cube does not matter: keeps -0.0 and subnormals as they are."""
    return select(x.equal(0.0), x, small)


def cosh(x: Lane) -> Lane:
    """(e**x + e**-x)/2 from half the exponential."""
    half = scaled_exp(abs(x), -1)
    return half + 0.25 / half


def tanh(x: Lane) -> Lane:
    """E/(E + 2) with E = expm1(2|x|), so that nothing cancels; 1 to the last bit from where |x| is clamped."""
    limit = 9.25 if x.format is F32 else 19.5
    doubled = minimum(2.0 * limit, 2.0 * abs(x))
    if x.format is F32:
        e = moderate_expm1(doubled).high
        return copysign(e / (e + 2.0), x)
    numerator = moderate_expm1(doubled)
    total = fast_two_sum(numerator.high, numerator.low)
    denominator = two_sum(total.high, 2.0)
    result = quotient(total, Pair(denominator.high, denominator.low + total.low))
    return copysign(result.high + result.low, x)


def _log_with_root(x: Lane, square_plus: float) -> Lane:
    """log(x + sqrt(x**2 + square_plus)) for x >= 0, its argument as two floats; log(2x) for large x."""
    square = two_product(x, x)
    total = two_sum(square.high, square_plus)
    root = square_root(fast_two_sum(total.high, total.low + square.low))
    sum_of_both = two_sum(x, root.high)
    large = x > 2.0 ** (x.format.precision // 2 + 3)
    argument = Pair(select(large, x, sum_of_both.high), select(large, 0.0, sum_of_both.low + root.low))
    return log_of_pair(argument, select(large, x.constant(1.0), 0.0))


def asinh(x: Lane) -> Lane:
    """log(|x| + sqrt(x**2 + 1)) with the sign of x."""
    magnitude = abs(x)
    result = _log_with_root(magnitude, 1.0)
    return copysign(select(magnitude < math.inf, result, magnitude), x)


def acosh(x: Lane) -> Lane:
    """log(x + sqrt(x**2 - 1)), NaN below 1."""
    result = select(x < math.inf, _log_with_root(x, -1.0), x)
    return select(x < 1.0, math.nan, result)


def atanh(x: Lane) -> Lane:
    """log((1 + |x|)/(1 - |x|))/2 with the sign of x, the quotient as two floats; infinite at 1, NaN beyond."""
    magnitude = abs(x)
    ratio = quotient(two_sum(magnitude, 1.0), two_sum(-magnitude, 1.0))
    result = 0.5 * log_of_pair(ratio)
    result = select(magnitude < 2.0 ** -(x.format.precision // 2 + 1), magnitude, result)
    result = select(magnitude.equal(1.0), math.inf, result)
    return copysign(select(magnitude <= 1.0, result, math.nan), x)
