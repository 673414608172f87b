"""Bit patterns of the float formats that `struct` does not know: bf16, tf32, f80, f128 and the 8, 6 and 4 bit ones.

Sources: IEEE 754-2019, the OCP 8-bit and microscaling format specifications, and the x87 extended format.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any


def decode_float(format: Any, bits: int) -> float:
    """The value of `bits` in a FloatType as a Python float (f80 and f128 are rounded to 64 bits)."""
    mantissa_bits, exponent_bits = format.mantissa_bits, format.exponent_bits
    mantissa = bits & ((1 << mantissa_bits) - 1)
    exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
    negative = bool(bits >> (mantissa_bits + exponent_bits) & 1)
    sign = -1.0 if negative else 1.0
    top = (1 << exponent_bits) - 1
    if format.special == "e8m0":
        return math.nan if bits == 0xFF else math.ldexp(1.0, exponent - format.bias)
    if format.special == "fnuz" and negative and not exponent and not mantissa:
        return math.nan
    if format.special == "fn" and exponent == top and mantissa == (1 << mantissa_bits) - 1:
        return math.nan
    if format.special in ("ieee", "x87") and exponent == top:
        fraction = mantissa & ((1 << 63) - 1) if format.special == "x87" else mantissa
        return math.nan if fraction else sign * math.inf
    fraction_bits = mantissa_bits
    if format.special == "x87":  # the leading one is explicit
        fraction_bits, significand = 63, mantissa
    else:
        significand = mantissa + ((1 << mantissa_bits) if exponent else 0)
    power = max(exponent, 1) - format.bias - fraction_bits
    try:
        return sign * float(Fraction(significand) * Fraction(2) ** power)
    except OverflowError:
        return sign * math.inf


def finite_parts(format: Any, bits: int) -> tuple[bool, int, int] | None:
    """(negative, significand, power): the value is significand * 2**power, exactly. None for NaN and infinity."""
    mantissa_bits, exponent_bits = format.mantissa_bits, format.exponent_bits
    mantissa = bits & ((1 << mantissa_bits) - 1)
    exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
    negative = bool(bits >> (mantissa_bits + exponent_bits) & 1)
    top = exponent == (1 << exponent_bits) - 1
    if format.special == "e8m0":
        return None if bits == 0xFF else (False, 1, exponent - format.bias)
    if (format.special in ("ieee", "x87") and top) or (format.special == "fnuz" and negative and not exponent and not mantissa):
        return None
    if format.special == "fn" and top and mantissa == (1 << mantissa_bits) - 1:
        return None
    fraction_bits = 63 if format.special == "x87" else mantissa_bits
    significand = mantissa if format.special == "x87" or not exponent else mantissa + (1 << mantissa_bits)
    return negative, significand, max(exponent, 1) - format.bias - fraction_bits


def decimal_text(significand: int, power: int, precision: int, most_zeros: int) -> str:
    """significand * 2**power (not 0) with at most `precision` significant digits, as LLVM's APFloat::toString spells it.

    `most_zeros` = 0 asks for `1.500000e+00` (digits filled up with zeros), else a plain number with at most so many padding zeros, or
    `1.5E+22`. Digits that are cut off first are truncated, then the rest is rounded half up: so does LLVM."""
    exponent = 0
    if power > 0:
        significand <<= power
    elif power < 0:
        shift = min((significand & -significand).bit_length() - 1, -power)
        significand, exponent = significand >> shift, power + shift
        significand *= 5 ** -exponent
    spare = significand.bit_length() - (precision * 196 + 58) // 59
    removed = spare * 59 // 196 if spare > 0 else 0
    digits = str(significand // 10 ** removed)
    exponent += removed
    exponent += len(digits) - len(digits.rstrip("0"))
    digits = digits.rstrip("0")
    if len(digits) > precision:
        kept, exponent = digits[:precision], exponent + len(digits) - precision
        if digits[precision] >= "5":
            kept = str(int(kept) + 1)
        exponent += len(kept) - len(kept.rstrip("0"))
        digits = kept.rstrip("0")
    first = exponent + len(digits) - 1  # the power of ten of the first digit
    if most_zeros == 0:
        return f"{digits[0]}.{digits[1:].ljust(precision, '0')}e{'-' if first < 0 else '+'}{abs(first):02d}"
    if exponent >= 0:
        scientific = exponent > most_zeros or len(digits) + exponent > precision
    else:
        scientific = first < 0 and -first > most_zeros
    if scientific:
        return f"{digits[0]}.{digits[1:] or '0'}E{'-' if first < 0 else '+'}{abs(first)}"
    if exponent >= 0:
        return digits + "0" * exponent
    return digits[:first + 1] + "." + digits[first + 1:] if first >= 0 else "0." + "0" * (-first - 1) + digits


def encode_float(format: Any, value: float) -> int:
    """The bit pattern of `value` rounded to nearest, ties to even; what is too large becomes infinity, or NaN, or the largest value
    where there is neither."""
    mantissa_bits, exponent_bits = format.mantissa_bits, format.exponent_bits
    negative = math.copysign(1.0, value) < 0
    sign = int(negative) << (mantissa_bits + exponent_bits)
    if format.special == "e8m0":
        return _encode_power(format, value)
    if math.isnan(value) or math.isinf(value):
        return _special_bits(format, sign, math.isnan(value))
    if value == 0:
        return 0 if format.special == "fnuz" else int(sign)
    fraction_bits = 63 if format.special == "x87" else mantissa_bits
    magnitude = abs(value)
    exponent = max(math.frexp(magnitude)[1] - 1, 1 - format.bias)
    scaled = Fraction(magnitude) / Fraction(2) ** (exponent - fraction_bits)
    significand = round(scaled)  # Python rounds halves to even
    if significand >> (fraction_bits + 1):
        significand, exponent = significand >> 1, exponent + 1
    if significand == 0 and format.special == "fnuz":
        return 0  # there is no negative zero: its pattern is NaN
    normal = significand >> fraction_bits
    biased = exponent + format.bias if normal else 0
    if format.special == "x87":
        return int(sign | biased << 64 | significand)
    bits = biased << mantissa_bits | (significand & ((1 << mantissa_bits) - 1))
    if bits > _largest_bits(format):
        return _special_bits(format, sign, False)
    return int(sign | bits)


def _encode_power(format: Any, value: float) -> int:
    """The nearest power of two, the larger of two as near; the least for zero, NaN for what is no number. There is no sign: it is lost."""
    if math.isnan(value) or math.isinf(value):
        return 0xFF
    value = abs(value)
    if value == 0:
        return 0
    mantissa, exponent = math.frexp(value)  # mantissa in [0.5, 1)
    power = exponent if mantissa >= 0.75 else exponent - 1
    return min(max(power + int(format.bias), 0), 0xFF)


def _largest_bits(format: Any) -> int:
    whole = (1 << (format.exponent_bits + format.mantissa_bits)) - 1
    if format.special == "ieee":
        return int(whole - (1 << format.mantissa_bits))
    return int(whole - 1 if format.special == "fn" else whole)


def _special_bits(format: Any, sign: int, is_nan: bool) -> int:
    whole = (1 << (format.exponent_bits + format.mantissa_bits)) - 1
    if format.special == "finite":
        return int(sign | whole)
    if format.special == "fnuz":
        return int(1 << (format.exponent_bits + format.mantissa_bits))
    if format.special == "fn":
        return int(sign | whole)
    infinity = ((1 << format.exponent_bits) - 1) << format.mantissa_bits
    if format.special == "x87":
        infinity |= 1 << 63
        return int(sign | infinity | (1 << 62 if is_nan else 0))
    return int(sign | infinity | (1 << (format.mantissa_bits - 1) if is_nan else 0))
