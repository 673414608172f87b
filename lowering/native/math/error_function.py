"""erf, erfc and erfinv."""

from __future__ import annotations

import math

from . import coefficients as table
from .double import Pair, fast_two_sum, quotient, two_product, two_sum
from .exponential import exp_of_rest, power_of_two, reduce, scale
from .lane import F32, Lane, copysign, fma, minimum, pick, polynomial, select, sqrt
from .logarithm import log_of_pair


def _erf_ratio(x: Lane) -> Lane:
    """erf(x)/x - 1 for |x| <= 1."""
    return polynomial(x * x, pick(x, table.ERF_SMALL_F32, table.ERF_SMALL_F64))


def erf(x: Lane) -> Lane:
    """An odd polynomial below 1, else 1 - e**p(|x|) where p approximates log(erfc)."""
    magnitude = abs(x)
    small = fma(x, _erf_ratio(x), x)
    clamped = minimum(3.95 if x.format is F32 else 5.95, magnitude)
    logarithm = polynomial(clamped, pick(x, table.ERF_TAIL_F32, table.ERF_TAIL_F64))
    reduced = reduce(logarithm, x.format.exponent_bias)
    power = power_of_two(reduced.integer)
    tail = (1.0 - power) - power * exp_of_rest(reduced.rest)
    return select(magnitude < 1.0, small, copysign(tail, x))


def erfc(x: Lane) -> Lane:
    """e**(-x**2) g(t) / (1 + 2|x|), t = (|x| - 4)/(|x| + 4) (Shepherd and Laframboise); 2 - erfc(|x|) for x < 0.

    Up to 1/2 in magnitude it is 1 - erf(x), with 1 - x as two floats. x**2 and the quotient g/(1 + 2|x|) are unevaluated sums of two floats.
    """
    magnitude = minimum(10.1 if x.format is F32 else 27.3, abs(x))
    t = (magnitude - 4.0) / (magnitude + 4.0)
    numerator = polynomial(t, pick(x, table.ERFC_F32, table.ERFC_F64))
    scaled = quotient(Pair(numerator, x.constant(0.0)), two_sum(magnitude + magnitude, 1.0))
    square = two_product(magnitude, magnitude)
    reduced = reduce(-square.high, 2 * x.format.exponent_bias)
    growth = exp_of_rest(reduced.rest - square.low)
    result = scale(scaled.high + fma(scaled.high, growth, scaled.low), reduced.integer)
    result = select(x < 0.0, 2.0 - result, result)
    linear = fast_two_sum(1.0, -x)
    central = linear.high + fma(-x, _erf_ratio(x), linear.low)
    return select(abs(x) < 0.5, central, result)


def _piecewise(pieces: list[tuple[Lane, tuple[float, ...]]], otherwise: tuple[float, ...], variable: Lane) -> Lane:
    """The polynomial whose condition is the first to hold: coefficients are selected, one polynomial is evaluated."""
    degree = max(len(otherwise), *(len(coefficients) for _, coefficients in pieces))
    result = variable.constant(0.0)
    for index in reversed(range(degree)):
        coefficient = variable.constant(otherwise[index] if index < len(otherwise) else 0.0)
        for condition, coefficients in reversed(pieces):
            coefficient = select(condition, coefficients[index] if index < len(coefficients) else 0.0, coefficient)
        result = fma(result, variable, coefficient)
    return result


def erfinv(x: Lane) -> Lane:
    """x p(w) with w = -log(1 - x**2), in sqrt(w) for large w (Giles, Approximating the erfinv function)."""
    square = two_product(x, x)
    difference = two_sum(-square.high, 1.0)
    w = -log_of_pair(Pair(difference.high, difference.low - square.low))
    root = sqrt(w)
    if x.format is F32:
        centre = w < 5.0
        variable = select(centre, w - 2.5, root - 3.0)
        factor = _piecewise([(centre, table.ERFINV_CENTRE_F32)], table.ERFINV_TAIL_F32, variable)
    else:
        centre, middle = w < 6.25, w < 16.0
        variable = select(centre, w - 3.125, select(middle, root - 3.25, root - 5.0))
        pieces = [(centre, table.ERFINV_CENTRE_F64), (middle, table.ERFINV_MIDDLE_F64)]
        factor = _piecewise(pieces, table.ERFINV_TAIL_F64, variable)
    result = select(abs(x).equal(1.0), copysign(x.constant(math.inf), x), x * factor)
    return select(abs(x) <= 1.0, result, math.nan)
