"""sin, cos, tan for every argument, up to the largest float.

The argument is n pi/2 + r with |r| <= pi/4, and the result is a polynomial in r chosen and signed by n mod 4.

Moderate arguments are reduced by pi/2 in three or four parts. Large ones go out of line, to a scalar function that a
vectorised loop calls only for the elements that need it: in f32 it takes the bits of 1/(2 pi) that the argument's
exponent needs as f64 numbers, in f64 it works in integers (`large_argument`). In f32 without fma, where parts of pi/2
would be very short, the way for large arguments is taken for all; it has no branch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from gradopt.lowering.native.math import coefficients as table
from gradopt.lowering.native.math.double import Pair, fast_two_sum, quotient, two_product
from gradopt.lowering.native.math.lane import F32, F64, Lane, fma, pick, polynomial, select
from gradopt.lowering.native.math.large_argument import reduce_large
from gradopt.lowering.native.math.outline import call_where
from gradopt.lowering.native.math.rounding import round_even

# From here on arguments are reduced out of line. The multiple of pi/2 must be below 2**26 in f64, and small enough for
# three parts of 24 bits to give a full result in f32 (no f32 below comes closer to a multiple of pi/2 than 2**-30).
LARGE_F32 = 1.0e5
LARGE_F64 = 1.0e8


class Angle(NamedTuple):
    """An argument is quadrant * pi/2 + rest; only the two low bits of the quadrant count."""

    quadrant: Lane
    rest: Pair


def _reduce_large_f32(x: Lane) -> Angle:
    """Multiply x (24 bits) by 1/(2 pi) in pieces of 29, 29, 29 and 53 bits: the first three products are exact in f64.

    With x < 2**(e + 1), bits of 1/(2 pi) down to the weight 2**(25 - e) only add whole turns, and those below
    2**(-57 - e) do not matter. So the 140 bits from the first on serve e <= 83, and those from the 60th on the rest.
    """
    wide = x.convert(F64)
    moderate = abs(wide) < 2.0**84
    turns = [wide * select(moderate, near, wide.constant(far)) for near, far in zip(*table.TURNS_F32, strict=True)]
    first, second, third = (_fraction(product) for product in turns[:3])
    shifted = fma((first + second) + (third + turns[3]), 4.0, 1.5 * 2.0**F64.fraction_bits)
    quarters = shifted - 1.5 * 2.0**F64.fraction_bits
    # `first` less its quarters is exact. Each following sum is exact too if it cancels down to the size of the next
    # term, which is 29 bits smaller while a product has 53.
    rest = (((fma(quarters, -0.25, first) + second) + third) + turns[3]) * (2.0 * math.pi)
    narrow = rest.convert(F32)
    quadrant = Lane(x.builder, x.builder.trunc(shifted.bits().value, F32.integer), F32, x.target)
    return Angle(quadrant, Pair(narrow, x.constant(0.0)))


def _fraction(x: Lane) -> Lane:
    """x less the nearest integer, exactly, for any x."""
    return x - round_even(x)


def _reduce_f32(x: Lane) -> Angle:
    """Cody and Waite's reduction for |x| < LARGE_F32, with fma: the first difference is exact."""
    magic = 1.5 * 2.0**F32.fraction_bits
    shifted = fma(x, 2.0 / math.pi, magic)
    n = shifted - magic
    rest = x
    for part in table.HALF_PI_FMA_F32:
        rest = fma(n, -part, rest)
    return Angle(shifted.bits(), Pair(rest, x.constant(0.0)))


def _reduce_f64(x: Lane) -> Angle:
    """Cody and Waite's reduction for |x| < LARGE_F64; the rest has two parts.

    The products of n with the leading parts are exact (by fma or by their length), and so are the differences.
    """
    parts = table.HALF_PI_FMA_F64 if x.target.has_fma else table.HALF_PI_SHORT_F64
    magic = 1.5 * 2.0**F64.fraction_bits
    shifted = fma(x, 2.0 / math.pi, magic)
    n = shifted - magic
    rest = x
    for part in parts[:-2]:
        rest = fma(n, -part, rest)
    product = two_product(n, parts[-2])
    difference = fast_two_sum(rest, -product.high)
    low = fma(n, -parts[-1], difference.low - product.low)
    return Angle(shifted.bits(), fast_two_sum(difference.high, low))


def _reduce_large_f64(x: Lane) -> Angle:
    """Payne and Hanek's reduction in integers, for a scalar function."""
    quadrant, rest = reduce_large(x)
    return Angle(quadrant, rest)


def _sin_rest(r: Pair) -> Pair:
    """sin(r) as the leading term and the rest."""
    z = r.high * r.high
    cubic = z * r.high * polynomial(z, pick(z, table.SIN_F32, table.SIN_F64))
    if z.format is F32:
        return Pair(r.high, cubic)
    return Pair(r.high, cubic + r.low * fma(z, -0.5, 1.0))


def _cos_rest(r: Pair) -> Pair:
    """cos(r) as 1 - r**2/2 rounded and the rest."""
    z = r.high * r.high
    leading = fma(z, -0.5, 1.0)
    # 1 - leading is exact; what is left of r**2/2 is the rounding error of `leading`, up to that of z.
    error = fma(z, -0.5, 1.0 - leading)
    quartic = z * z * polynomial(z, pick(z, table.COS_F32, table.COS_F64))
    if z.format is F32:
        return Pair(leading, quartic + error)
    return Pair(leading, quartic + (error - r.high * r.low))


def _odd(quadrant: Lane) -> Lane:
    return (quadrant & 1).equal(1)


def _with_sign(x: Lane, quadrant: Lane) -> Lane:
    """x negated if bit 1 of the quadrant is set."""
    return (x.bits() ^ ((quadrant & 2) << (x.format.bits - 2))).as_float()


def _either(condition: Lane, chosen: Pair, otherwise: Pair) -> Pair:
    return Pair(select(condition, chosen.high, otherwise.high), select(condition, chosen.low, otherwise.low))


def _sin_of(angle: Angle) -> Lane:
    chosen = _either(_odd(angle.quadrant), _cos_rest(angle.rest), _sin_rest(angle.rest))
    return _with_sign(chosen.high + chosen.low, angle.quadrant)


def _cos_of(angle: Angle) -> Lane:
    return _sin_of(Angle(angle.quadrant + 1, angle.rest))


def _tan_of(angle: Angle) -> Lane:
    sine, cosine = fast_two_sum(*_sin_rest(angle.rest)), fast_two_sum(*_cos_rest(angle.rest))
    odd = _odd(angle.quadrant)
    numerator, denominator = _either(odd, cosine, sine), _either(odd, sine, cosine)
    if numerator.high.format is F32:
        ratio = numerator.high / denominator.high
    else:
        result = quotient(numerator, denominator)
        ratio = result.high + result.low
    return (ratio.bits() ^ ((angle.quadrant & 1) << (ratio.format.bits - 1))).as_float()


def _circular(x: Lane, name: str, of_angle: Callable[[Angle], Lane]) -> Lane:
    """The function of an argument of any size."""
    reduce = _reduce_large_f32 if x.format is F32 else _reduce_large_f64

    def of_large(large: Lane) -> Lane:
        return of_angle(reduce(large))

    if x.format is F64:
        moderate, limit = _reduce_f64, LARGE_F64
    elif x.target.has_fma:
        moderate, limit = _reduce_f32, LARGE_F32
    else:
        return of_large(x)
    return call_where(abs(x) > limit, of_angle(moderate(x)), f"gradopt.{name}_large_{x.format.name}", of_large, [x])


def sin(x: Lane) -> Lane:
    """The sine: polynomials of degree 7 and 6 (f32) or 13 and 14 (f64) in the reduced argument."""
    return select(x.equal(0.0), x, _circular(x, "sin", _sin_of))


def cos(x: Lane) -> Lane:
    """The cosine: as `sin`, a quadrant later."""
    return _circular(x, "cos", _cos_of)


def tan(x: Lane) -> Lane:
    """sin/cos of the reduced argument, or -cos/sin in odd quadrants; one division, in f64 with its remainder."""
    return select(x.equal(0.0), x, _circular(x, "tan", _tan_of))
