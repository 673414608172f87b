"""erf, erfc and erfinv."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradopt.lowering.native.math import coefficients as table
from gradopt.lowering.native.math.double import Pair, fast_two_sum, quotient, square_root, two_product, two_sum
from gradopt.lowering.native.math.exponential import exp_of_rest, power_of_two, reduce, scale
from gradopt.lowering.native.math.lane import F32, Lane, copysign, fma, minimum, pick, polynomial, select
from gradopt.lowering.native.math.logarithm import log_of_pair


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
    tail = fma(-power, exp_of_rest(reduced.rest), 1.0 - power)
    return select(magnitude < 1.0, small, copysign(tail, x))


def erfc(x: Lane) -> Lane:
    """e**(-x**2) g(t) / (1 + 2|x|), t = (|x| - 4)/(|x| + 4) (Shepherd and Laframboise); 2 - erfc(|x|) for x < 0.

    Up to 0.8 in magnitude it is 1 - erf(x), with 1 - x as two floats. x**2 and the quotient g/(1 + 2|x|) are
    unevaluated sums of two floats.
    """
    magnitude = minimum(10.1 if x.format is F32 else 27.3, abs(x))
    t = (magnitude - 4.0) / (magnitude + 4.0)
    numerator = _pair_polynomial(t, pick(x, table.ERFC_F32, table.ERFC_F64))
    scaled = quotient(numerator, two_sum(magnitude + magnitude, 1.0))
    square = two_product(magnitude, magnitude)
    reduced = reduce(-square.high, 2 * x.format.exponent_bias)
    growth = exp_of_rest(reduced.rest - square.low)
    result = scale(scaled.high + fma(scaled.high, growth, scaled.low), reduced.integer)
    result = select(x < 0.0, 2.0 - result, result)
    linear = fast_two_sum(1.0, -x)
    central = linear.high + fma(-x, _erf_ratio(x), linear.low)
    return select(abs(x) < 0.8, central, result)


def _pair_polynomial(x: Lane, coefficients: Sequence[Lane | float]) -> Pair:
    """A polynomial whose constant term is given in two floats and exceeds the rest; the sum is left unevaluated."""
    high, low, *others = coefficients
    rest = fma(x, polynomial(x, others), low)
    return fast_two_sum(high, rest)


def _piecewise(pieces: list[tuple[Lane, tuple[float, ...]]], otherwise: tuple[float, ...], x: Lane) -> Pair:
    """The polynomial whose condition is the first to hold: coefficients are selected, one polynomial is evaluated."""
    count = max(len(otherwise), *(len(coefficients) for _, coefficients in pieces))
    selected = []
    for index in range(count):
        coefficient = x.constant(otherwise[index] if index < len(otherwise) else 0.0)
        for condition, coefficients in reversed(pieces):
            coefficient = select(condition, coefficients[index] if index < len(coefficients) else 0.0, coefficient)
        selected.append(coefficient)
    return _pair_polynomial(x, selected)


def erfinv(x: Lane) -> Lane:
    """x p(w) with w = -log(1 - x**2), in sqrt(w) for large w (Giles, Approximating the erfinv function).

    In f64 it is x p(x**2) up to 1/2, where the polynomial in w would amplify rounding errors.
    """
    square = two_product(x, x)
    difference = two_sum(-square.high, 1.0)
    w = -log_of_pair(Pair(difference.high, difference.low - square.low))
    root = square_root(Pair(w, x.constant(0.0)))
    if x.format is F32:
        centre = w < 5.0
        variable = select(centre, w - 2.5, (root.high - 3.0) + root.low)
        factor = _piecewise([(centre, table.ERFINV_CENTRE_F32)], table.ERFINV_TAIL_F32, variable)
    else:
        centre, middle = w < 6.25, w < 16.0
        small = abs(x) < 0.5
        variable = select(centre, w - 3.125, select(middle, root.high - 3.25, root.high - 5.0) + root.low)
        variable = select(small, square.high, variable)
        pieces = [(centre, table.ERFINV_CENTRE_F64), (middle, table.ERFINV_MIDDLE_F64)]
        pieces.insert(0, (small, table.ERFINV_SMALL_F64))
        factor = _piecewise(pieces, table.ERFINV_TAIL_F64, variable)
    magnitude = abs(x)
    result = select(magnitude.equal(1.0), math.inf, fma(magnitude, factor.high, magnitude * factor.low))
    return copysign(select(magnitude <= 1.0, result, math.nan), x)
