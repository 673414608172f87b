"""asin, acos, atan, atan2: an odd polynomial after a reduction that ends in base + m (1 + z p(z))."""

from __future__ import annotations

from gradopt.lowering.native.math import coefficients as table
from gradopt.lowering.native.math.double import Pair, fast_two_sum
from gradopt.lowering.native.math.lane import Lane, copysign, pick, polynomial, select, sqrt


def _arc(base: Pair, m: Lane, cubic: Lane) -> Lane:
    """base + m + m * cubic for |base| >= |m| or base 0: the sum base + m is kept exactly until the last addition."""
    total = fast_two_sum(base.high, m)
    return total.high + (total.low + (base.low + m * cubic))


def _half_pi(x: Lane) -> tuple[float, float]:
    high, low = pick(x, table.HALF_PI_F32, table.HALF_PI_F64)
    return high, low


def _pi(x: Lane) -> tuple[float, float]:
    high, low = pick(x, table.PI_F32, table.PI_F64)
    return high, low


def _arcsine_reduction(x: Lane) -> tuple[Lane, Lane, Lane]:
    """(|x| > 1/2, s, z p(z)): asin(s) = s + s z p(z) with s = |x|, or s = sqrt((1 - |x|)/2) above 1/2."""
    magnitude = abs(x)
    large = magnitude > 0.5
    z = select(large, (1.0 - magnitude) * 0.5, x * x)
    s = select(large, sqrt(z), magnitude)
    return large, s, z * polynomial(z, pick(x, table.ASIN_F32, table.ASIN_F64))


def asin(x: Lane) -> Lane:
    """asin(|x|) = pi/2 - 2 asin(sqrt((1 - |x|)/2)) above 1/2; NaN beyond 1."""
    large, s, cubic = _arcsine_reduction(x)
    high, low = _half_pi(x)
    zero = x.constant(0.0)
    base = Pair(select(large, high, zero), select(large, low, zero))
    return copysign(_arc(base, select(large, -2.0 * s, s), cubic), x)


def acos(x: Lane) -> Lane:
    """pi/2 - asin(x), or above 1/2 in magnitude 2 asin(s) or pi - 2 asin(s) with s = sqrt((1 - |x|)/2)."""
    large, s, cubic = _arcsine_reduction(x)
    negative = x < 0.0
    bases = []
    for whole, half in zip(_pi(x), _half_pi(x), strict=True):
        bases.append(select(large, select(negative, x.constant(whole), 0.0), half))
    return _arc(Pair(bases[0], bases[1]), select(large, copysign(s + s, x), -x), cubic)


def _arctangent(base: Pair, negate: Lane, t: Lane) -> Lane:
    """base + atan(t), or base - atan(t), for 0 <= t <= 1."""
    z = t * t
    return _arc(base, select(negate, -t, t), z * polynomial(z, pick(t, table.ATAN_F32, table.ATAN_F64)))


def atan(x: Lane) -> Lane:
    """A polynomial in x**2 up to 1, pi/2 - atan(1/|x|) beyond."""
    magnitude = abs(x)
    large = magnitude > 1.0
    t = select(large, 1.0 / magnitude, magnitude)
    high, low = _half_pi(x)
    zero = x.constant(0.0)
    return copysign(_arctangent(Pair(select(large, high, zero), select(large, low, zero)), large, t), x)


def atan2(y: Lane, x: Lane) -> Lane:
    """The angle of the point (x, y), with the signed zeros and infinities of C99 (annex F.9.1.4)."""
    rise, run = abs(y), abs(x)
    steep = rise > run
    small, large = select(steep, run, rise), select(steep, rise, run)
    t = select(small.equal(large), select(large.equal(0.0), large, 1.0), small / large)
    leftward = x.bits() < 0
    bases = []
    for whole, half in zip(_pi(x), _half_pi(x), strict=True):
        bases.append(select(steep, half, select(leftward, x.constant(whole), 0.0)))
    result = copysign(_arctangent(Pair(bases[0], bases[1]), steep ^ leftward, t), y)
    return select(rise.is_nan() | run.is_nan(), x + y, result)
