"""Exact remainders: C's fmod (the sign of the dividend) and Python's and NumPy's floor modulo (of the divisor).

A quotient below 2**fraction_bits is truncated to an integer q that is at most one too large, and x - q y is exact.
Larger quotients, of which the vectorised loop expects few, go out of line to division of integers, 11 bits at a time.
"""

from __future__ import annotations

import math

from gradopt.lowering.native.math.double import two_product
from gradopt.lowering.native.math.lane import F64, Lane, copysign, fma, select
from gradopt.lowering.native.math.outline import call_where
from gradopt.lowering.native.math.rounding import trunc


def _integer_remainder(x: Lane, y: Lane) -> Lane:
    """x modulo y for finite x >= y > 0 in f64, in integer arithmetic; emits a loop."""
    dividend_exponent, dividend = _integer_and_exponent(x)
    divisor_exponent, divisor = _integer_and_exponent(y)
    builder, word = x.builder, F64.integer
    start = builder.block
    body, leave = builder.append_basic_block("step"), builder.append_basic_block("done")
    first = builder.urem(dividend.value, divisor.value)
    distance = dividend_exponent - divisor_exponent
    builder.cbranch((distance > 0).value, body, leave)
    builder.position_at_end(body)
    rest, left = builder.phi(word), builder.phi(word)
    # The rest is below the divisor, at most 53 bits: 11 more fit the word.
    shift = select(x.like(left) < 11, x.like(left), 11)
    reduced = builder.urem(builder.shl(rest, shift.value), divisor.value)
    after = builder.sub(left, shift.value)
    for phi, initial, following in ((rest, first, reduced), (left, distance.value, after)):
        phi.add_incoming(initial, start)
        phi.add_incoming(following, body)
    builder.cbranch(builder.icmp_signed(">", after, word(0)), body, leave)
    builder.position_at_end(leave)
    result = builder.phi(word)
    result.add_incoming(first, start)
    result.add_incoming(reduced, body)
    # The exponent may be that of a subnormal: two exact factors, both normal.
    biased = divisor_exponent + 2 * F64.exponent_bias
    half = biased >> 1
    magnitude = x.like(builder.uitofp(result, F64.type))
    return magnitude * (half << F64.fraction_bits).as_float() * ((biased - half) << F64.fraction_bits).as_float()


def _integer_and_exponent(x: Lane) -> tuple[Lane, Lane]:
    """(e, m) with x = m * 2**e for finite x > 0, subnormal included; m is an integer below 2**53."""
    field = x.bits() >> F64.fraction_bits
    fraction = x.bits() & ((1 << F64.fraction_bits) - 1)
    subnormal = field.equal(0)
    significand = select(subnormal, fraction, fraction | (1 << F64.fraction_bits))
    exponent = select(subnormal, field.integer(1), field) - (F64.exponent_bias + F64.fraction_bits)
    return exponent, significand


def _out_of_line(x: Lane, y: Lane) -> Lane:
    return _integer_remainder(x.convert(F64), y.convert(F64)).convert(x.format)


def _magnitude(a: Lane, b: Lane) -> Lane:
    """a modulo b for a, b >= 0; NaN for infinite a or b = 0."""
    format = a.format
    ratio = a / b
    q = trunc(ratio)
    far = ratio >= 2.0**format.fraction_bits
    if a.target.has_fma:
        rest = fma(-q, b, a)
    else:
        product = two_product(q, b)
        rest = (a - product.high) - product.low
        # Where the exact product overflows or loses bits to underflow.
        range_end = format.exponent_bias - format.precision
        far = far | (a > 2.0**range_end) | (a < 2.0 ** (2 * format.precision - format.exponent_bias))
    rest = select(rest < 0.0, rest + b, rest)
    rest = select(a < b, a, rest)
    rare = far & (a >= b) & (a < math.inf) & (b > 0.0)
    return call_where(rare, rest, f"gradopt.fmod_{format.name}", _out_of_line, [a, b])


def fmod(x: Lane, y: Lane) -> Lane:
    """x - y trunc(x/y), exact, with the sign of x; NaN if x is infinite or y is 0."""
    return copysign(_magnitude(abs(x), abs(y)), x)


def floor_mod(x: Lane, y: Lane) -> Lane:
    """x - y floor(x/y), the remainder of Python and NumPy: fmod, plus y if the signs differ; 0 has the sign of y."""
    rest = fmod(x, y)
    return select(rest.equal(0.0), copysign(rest, y), select((rest < 0.0) ^ (y < 0.0), rest + y, rest))
