"""Reduction of large f64 arguments by pi/2 in integer arithmetic, for a scalar out-of-line function.

Payne and Hanek's method: x = m * 2**k with a 53-bit integer m, and the 192 bits of 2/pi that begin where m * 2**k times
a bit is below 4. Their product modulo 2**192 has the quadrant in its two top bits and then the fraction of a quarter
turn; no double comes closer to a multiple of pi/2 than 2**-62 or so, hence more than 60 bits are left of 128.
"""

from __future__ import annotations

import math

from gradopt.lowering.native.math import coefficients as table
from gradopt.lowering.native.math.double import Pair, fast_two_sum, multiply, pair_constant
from gradopt.lowering.native.math.lane import F64, Lane, select
from llvmlite import ir

_WORD, _DOUBLE_WORD, _INDEX = ir.IntType(64), ir.IntType(128), ir.IntType(32)


def _table(module: ir.Module) -> ir.GlobalVariable:
    """The words of 2/pi as a constant of the module."""
    name = "gradopt.two_over_pi"
    if name in module.globals:
        return module.globals[name]
    array = ir.ArrayType(_WORD, len(table.TWO_OVER_PI_WORDS))
    constant = ir.GlobalVariable(module, array, name)
    constant.linkage, constant.global_constant = "internal", True
    words = [word - (1 << 64) if word >> 63 else word for word in table.TWO_OVER_PI_WORDS]
    constant.initializer = ir.Constant(array, words)
    return constant


def _wide_product(a: Lane, b: Lane) -> tuple[Lane, Lane]:
    """The high and the low word of the unsigned product."""
    builder = a.builder
    product = builder.mul(builder.zext(a.value, _DOUBLE_WORD), builder.zext(b.value, _DOUBLE_WORD))
    high = builder.trunc(builder.lshr(product, _DOUBLE_WORD(64)), _WORD)
    return a.like(high), a.like(builder.trunc(product, _WORD))


def _bits_of_two_over_pi(position: Lane) -> list[Lane]:
    """Three words of 2/pi from bit `position` of the table, which begins with 64 zeros."""
    builder = position.builder
    constant = _table(builder.module)
    index, shift = position >> 6, position & 63
    words = []
    for offset in range(4):
        address = builder.gep(constant, [_INDEX(0), (index + offset).value], inbounds=True)
        words.append(position.like(builder.load(address)))
    # A shift by 64 - 0 would be undefined: shift by one and then by the rest.
    return [(words[k] << shift) | ((words[k + 1] >> 1) >> (63 - shift)) for k in range(3)]


def _to_float(word: Lane) -> Lane:
    """An unsigned word as a float, rounded."""
    return word.like(word.builder.uitofp(word.value, F64.type))


def reduce_large(x: Lane) -> tuple[Lane, Pair]:
    """Quadrant (its low bits) and rest of |x| >= 2**20, in f64; the rest is NaN for infinity."""
    exponent = (x.bits() >> F64.fraction_bits) & 0x7FF
    significand = (x.bits() & ((1 << 52) - 1)) | (1 << 52)
    # x = significand * 2**(exponent - 1075): bits of 2/pi from weight 2**-(exponent - 1076) on can give less than 4.
    top, middle, bottom = _bits_of_two_over_pi(exponent - (1077 - 64))
    middle_high, middle_low = _wide_product(significand, middle)
    bottom_high, _ = _wide_product(significand, bottom)
    low = middle_low + bottom_high
    carry = select((low ^ (-(1 << 63))) < (middle_low ^ (-(1 << 63))), low.integer(1), 0)
    high = significand * top + middle_high + carry
    # high:low is the argument in quarter turns modulo 4, the point after two bits; round to the nearest quarter turn.
    quadrant = (high + (1 << 61)) >> 62
    high, low = (high << 2) | (low >> 62), low << 2
    negative = high < 0
    magnitude_high = select(negative, ~high, high)
    magnitude_low = select(negative, ~low, low)
    # Normalise so that 53 and 53 bits of the fraction survive however small it is.
    zeros = magnitude_high.like(x.builder.ctlz(magnitude_high.value, ir.Constant(ir.IntType(1), 0)))
    shift = select(zeros < 63, zeros, 63)
    magnitude_high = (magnitude_high << shift) | ((magnitude_low >> 1) >> (63 - shift))
    magnitude_low = magnitude_low << shift
    scale = ((1023 - shift) << F64.fraction_bits).as_float()
    fraction = fast_two_sum(
        _to_float(magnitude_high & -2048) * 2.0**-64 * scale,
        (_to_float(magnitude_high & 2047) * 2.0**-64 + _to_float(magnitude_low) * 2.0**-128) * scale,
    )
    half_pi = pair_constant(x, (table.HALF_PI_F64[0], table.HALF_PI_F64[1]))
    rest = multiply(fraction, half_pi)
    flip = negative ^ (x.bits() < 0)
    rest = Pair(select(flip, -rest.high, rest.high), select(flip, -rest.low, rest.low))
    quadrant = select(x.bits() < 0, -quadrant, quadrant)
    return quadrant, Pair(select(abs(x) < math.inf, rest.high, math.nan), rest.low)
