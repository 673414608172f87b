"""Small float formats: every bit pattern against its definition, and rounding against a search through all values."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from fractions import Fraction
from functools import lru_cache

import pytest
from gradopt.ir.float_formats import decode_float, encode_float
from gradopt.ir.types import FloatType

# name: (largest finite value, least positive value, pattern of NaN or None, pattern of infinity or None), from the OCP and IEEE texts
LIMITS = {
    "f8E5M2": (57344.0, 2.0**-16, 0x7E, 0x7C), "f8E4M3": (240.0, 2.0**-9, 0x7C, 0x78), "f8E3M4": (15.5, 2.0**-6, 0x78, 0x70),
    "f8E4M3FN": (448.0, 2.0**-9, 0x7F, None), "f8E5M2FNUZ": (57344.0, 2.0**-17, 0x80, None),
    "f8E4M3FNUZ": (240.0, 2.0**-10, 0x80, None), "f8E4M3B11FNUZ": (30.0, 2.0**-13, 0x80, None),
    "f4E2M1FN": (6.0, 0.5, None, None), "f6E2M3FN": (7.5, 0.125, None, None), "f6E3M2FN": (28.0, 0.0625, None, None),
    "bf16": ((2 - 2.0**-7) * 2.0**127, 2.0**-133, 0x7FC0, 0x7F80), "f16": (65504.0, 2.0**-24, 0x7E00, 0x7C00),
}


@lru_cache
def finite_values(type: FloatType) -> list[tuple[Fraction, int]]:
    """(value, pattern) of each finite number, negative zero left out."""
    found = []
    for bits in range(1 << type.width):
        value = decode_float(type, bits)
        if math.isfinite(value) and not (value == 0 and bits):
            found.append((Fraction(value), bits))
    return sorted(found)


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str) -> None:
    type = FloatType(name)
    largest, least, nan, infinity = LIMITS[name]
    values = finite_values(type)
    assert values[-1][0] == largest
    assert min(value for value, _ in values if value > 0) == least
    assert values[0][0] == -largest
    for pattern, expected in ((nan, math.nan), (infinity, math.inf)):
        if pattern is not None:
            assert decode_float(type, pattern) == expected or (math.isnan(expected) and math.isnan(decode_float(type, pattern)))
            assert encode_float(type, expected) == pattern


@pytest.mark.parametrize("name", LIMITS)
def test_every_value_is_its_own_pattern(name: str) -> None:
    type = FloatType(name)
    for value, bits in finite_values(type):
        assert encode_float(type, float(value)) == bits


@pytest.mark.parametrize("name", LIMITS)
def test_rounding_goes_to_the_nearest_and_to_the_even_of_two(name: str) -> None:
    type = FloatType(name)
    values = finite_values(type)
    numbers = [value for value, _ in values]
    chance = random.Random(7)
    samples = [Fraction(chance.uniform(float(numbers[0]), float(numbers[-1]))) for _ in range(100)]
    samples += [Fraction(chance.choice([-1, 1]) * 2.0 ** chance.uniform(math.log2(LIMITS[name][1]) - 3, math.log2(LIMITS[name][0])))
                for _ in range(100)]
    samples += [(numbers[i] + numbers[i + 1]) / 2 for i in chance.sample(range(len(numbers) - 1), min(100, len(numbers) - 1))]
    for sample in samples:
        place = bisect_left(numbers, sample)
        around = values[max(place - 1, 0): place + 1]
        near = min(abs(value - sample) for value, _ in around)
        candidates = [bits for value, bits in around if abs(value - sample) == near]
        expected = candidates[0] if len(candidates) == 1 else next(bits for bits in candidates if bits % 2 == 0)
        found = encode_float(type, float(sample))
        if expected == 0 and sample < 0:
            assert found == (0 if type.special == "fnuz" else 1 << (type.width - 1))
        else:
            assert found == expected, (name, float(sample))


def test_powers_of_two() -> None:
    type = FloatType("f8E8M0FNU")
    values = {bits: Fraction(2) ** (bits - 127) for bits in range(255)}
    for sample in (1.0, 1.49, 1.5, 2.9, 3.0, 5.8, 5.999, 6.0, 100.0, 2.0**-130, 0.0, 2.0**127):
        near = min(abs(value - Fraction(sample)) for value in values.values())
        assert encode_float(type, sample) == max(bits for bits, value in values.items() if abs(value - Fraction(sample)) == near)
    assert encode_float(type, math.nan) == 0xFF
    assert encode_float(type, 2.0**128) == 0xFF


@pytest.mark.parametrize(("name", "value", "bits"), [
    ("f80", 1.0, 0x3FFF8000000000000000), ("f80", -0.1, 0xBFFBCCCCCCCCCCCCD000), ("f128", 1.0, 0x3FFF << 112),
    ("f128", 0.1, 0x3FFB999999999999A000000000000000), ("tf32", 1.5, 0x1FE00), ("bf16", 3.14159265, 0x4049),
])
def test_wide_formats(name: str, value: float, bits: int) -> None:
    type = FloatType(name)
    assert encode_float(type, value) == bits
    assert encode_float(type, decode_float(type, bits)) == bits
