"""Every intrinsic against NumPy or plain Python, with both front ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
Evaluate = Callable[..., Any]


def integers(dtype: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All pairs of the values where integer arithmetic goes wrong."""
    limits = np.iinfo(dtype)
    values = [0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min + 1]
    if limits.min < 0:
        values += [-1, -2, -3, -7]
    pairs = [(a, b) for a in values for b in values]
    return np.array([a for a, _ in pairs], dtype), np.array([b for _, b in pairs], dtype)


def floats(dtype: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    values = [0.0, -0.0, 1.0, -1.0, 0.1, 3.5, -7.25, math.inf, -math.inf, math.nan, 1e30, 1e-30]
    pairs = [(a, b) for a in values for b in values]
    return np.array([a for a, _ in pairs], dtype), np.array([b for _, b in pairs], dtype)


def short(dtype: str) -> str:
    return dtype.replace("int", "i")


def wrap(value: int, dtype: str) -> int:
    bits = np.iinfo(dtype).bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.startswith("int") and value >> (bits - 1) else value


def python_reference(name: str, dtype: str, a: int, b: int) -> int:
    """What the language promises, in Python's unbounded integers."""
    bits = np.iinfo(dtype).bits
    inside = 0 <= b < bits
    truncated = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    results = {
        "add": a + b,
        "subtract": a - b,
        "multiply": a * b,
        "floor_divide": a // b if b else 0,
        "modulo": a % b if b else 0,
        "truncate_divide": truncated,
        "remainder": a - truncated * b if b else 0,
        "shift_left": a << b if inside else 0,
        "shift_right": a >> b if inside else (-1 if a < 0 else 0),
        "shift_right_logical": (a & ((1 << bits) - 1)) >> b if inside else 0,
        "bit_and": a & b,
        "bit_or": a | b,
        "bit_xor": a ^ b,
        "maximum": max(a, b),
        "minimum": min(a, b),
        "accumulate_maximum": max(a, b),
    }
    return wrap(results[name], dtype)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integer_arithmetic(evaluate: Evaluate, dtype: str) -> None:
    a, b = integers(dtype)
    names = ["add", "subtract", "multiply", "floor_divide", "modulo", "truncate_divide", "remainder", "shift_left",
             "shift_right", "shift_right_logical", "bit_and", "bit_or", "bit_xor", "maximum", "minimum",
             "accumulate_maximum"]  # fmt: skip
    for name in names:
        found = evaluate(f"v = {name}(a, b)", short(dtype), a, b)
        expected = [python_reference(name, dtype, int(x), int(y)) for x, y in zip(a, b, strict=True)]
        assert found.tolist() == expected, name


@pytest.mark.parametrize("dtype", SIGNED)
def test_integer_unary(evaluate: Evaluate, dtype: str) -> None:
    a, _ = integers(dtype)
    assert evaluate("v = absolute(a)", short(dtype), a).tolist() == [wrap(abs(int(x)), dtype) for x in a]
    assert evaluate("v = negate(a)", short(dtype), a).tolist() == [wrap(-int(x), dtype) for x in a]
    assert evaluate("v = bit_not(a)", short(dtype), a).tolist() == [~int(x) for x in a]


def test_index_division(evaluate: Evaluate) -> None:
    a = np.arange(0, 1000, 7, dtype=np.int64)
    np.testing.assert_array_equal(evaluate("v = index_divide(a, 12)", "i64", a), a // 12)
    np.testing.assert_array_equal(evaluate("v = index_modulo(a, 12)", "i64", a), a % 12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_arithmetic(evaluate: Evaluate, dtype: str) -> None:
    a, b = floats(dtype)
    element = "f32" if dtype == "float32" else "f64"
    with np.errstate(all="ignore"):
        cases = {
            "add(a, b)": a + b,
            "a + b": a + b,
            "subtract(a, b)": a - b,
            "a - b": a - b,
            "multiply(a, b)": a * b,
            "a * b": a * b,
            "divide(a, b)": a / b,
            "a / b": a / b,
            "negate(a)": -a,
            "-a": -a,
            "absolute(a)": np.abs(a),
            "maximum(a, b)": np.maximum(a, b),
            "minimum(a, b)": np.minimum(a, b),
            "accumulate_maximum(a, b)": np.maximum(a, b),
            "accumulate_minimum(a, b)": np.minimum(a, b),
            "accumulate_add(a, b)": a + b,
            "accumulate_multiply(a, b)": a * b,
            "select(a < b, a, b)": np.where(a < b, a, b),
        }
    for body, expected in cases.items():
        found = evaluate(f"v = {body}", element, a, b)
        np.testing.assert_array_equal(found, expected, err_msg=body)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "int64", "bool"])
def test_comparisons(evaluate: Evaluate, dtype: str) -> None:
    if dtype == "bool":
        a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    else:
        a, b = floats(dtype) if dtype.startswith("float") else integers(dtype)
    for name, reference in (("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal),
                            ("gt", np.greater), ("ge", np.greater_equal)):  # fmt: skip
        found = evaluate(f"v = {name}(a, b)", "i1", a, b)
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, reference(a, b), err_msg=name)
    if dtype.startswith("float"):
        np.testing.assert_array_equal(evaluate("v = is_nan(a)", "i1", a), np.isnan(a))
        np.testing.assert_array_equal(evaluate("v = a != b", "i1", a, b), a != b)


def test_boolean_logic(evaluate: Evaluate) -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    np.testing.assert_array_equal(evaluate("v = bit_xor(a, b)", "i1", a, b), a ^ b)
    np.testing.assert_array_equal(evaluate("v = a and not b", "i1", a, b), a & ~b)
    np.testing.assert_array_equal(evaluate("v = a or b", "i1", a, b), a | b)


def test_multiply_add_rounds_once(evaluate: Evaluate) -> None:
    a = np.array([1 + 2.0**-12, 3.0], np.float32)
    c = -np.array([1 + 2.0**-11, 9.0], np.float32)
    expected = (a.astype(np.float64) * a + c).astype(np.float32)
    np.testing.assert_array_equal(evaluate("v = fused_multiply_add(a, a, b)", "f32", a, c), expected)
    assert abs(evaluate("v = multiply_add(a, a, b)", "f32", a, c) - expected).max() < 1e-6


SOURCES = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]


@pytest.mark.parametrize("source", SOURCES)
def test_conversions(evaluate: Evaluate, source: str) -> None:
    """Values that fit in every target: NumPy's astype is then the same everywhere."""
    a = np.array([0, 1, 2, 100, 77], np.float64).astype(source)
    for target in SOURCES:
        name = {"float32": "f32", "float64": "f64", "bool": "i1"}.get(target) or short(target)
        found = evaluate(f"v = {name}(a)", name, a)
        assert found.dtype == target
        np.testing.assert_array_equal(found, a.astype(target))


def test_negative_integers_and_truncation(evaluate: Evaluate) -> None:
    a = np.array([-1.9, -0.5, 1.9, -300.0, 300.0, math.nan, math.inf, -math.inf], np.float32)
    assert evaluate("v = i32(a)", "i32", a).tolist() == [-1, 0, 1, -300, 300, 0, 2**31 - 1, -(2**31)]
    assert evaluate("v = i8(a)", "i8", a).tolist() == [-1, 0, 1, -128, 127, 0, 127, -128]
    assert evaluate("v = ui8(a)", "ui8", a).tolist() == [0, 0, 1, 0, 255, 0, 255, 0]
    assert evaluate("v = i1(a)", "i1", a).tolist() == [True] * 8
    b = np.array([-1, 255, 256, -129], np.int32)
    np.testing.assert_array_equal(evaluate("v = i8(a)", "i8", b), b.astype(np.int8))
    np.testing.assert_array_equal(evaluate("v = ui64(a)", "ui64", b), b.astype(np.uint64))


def test_bitcasts(evaluate: Evaluate) -> None:
    a = np.array([1.5, -0.0, math.nan, math.inf], np.float32)
    np.testing.assert_array_equal(evaluate("v = bitcast_i32(a)", "i32", a), a.view(np.int32))
    np.testing.assert_array_equal(evaluate("v = bitcast_f32(bitcast_ui32(a))", "f32", a), a)
    b = np.array([-(2**63), 5], np.int64)
    np.testing.assert_array_equal(evaluate("v = bitcast_f64(a)", "f64", b), b.view(np.float64))


def test_half_precision(evaluate: Evaluate) -> None:
    """Every float16 and bfloat16 loads as its exact value; stores round to nearest even as NumPy and ml_dtypes do."""
    bits = np.arange(2**16, dtype=np.uint16)
    for element, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        every = bits.view(dtype)
        np.testing.assert_array_equal(evaluate("v = a", "f32", every), every.astype(np.float32))
        rng = np.random.default_rng(3)
        wide = np.concatenate([rng.integers(0, 2**32, 50000, np.uint32).view(np.float32), every.astype(np.float32)])
        with np.errstate(all="ignore"):
            expected = wide.astype(dtype)
        found = evaluate("v = a", element, wide)
        assert found.dtype == dtype
        nan = np.isnan(wide)
        assert np.isnan(found[nan].astype(np.float32)).all()
        np.testing.assert_array_equal(found[~nan].view(np.uint16), expected[~nan].view(np.uint16))


def test_constants_and_mathematics(evaluate: Evaluate) -> None:
    a = np.linspace(0.1, 4, 50, dtype=np.float32)
    np.testing.assert_array_equal(evaluate("v = select(a < f32(1.0), f32(-INFINITY), f32(NAN))", "f32", a),
                                  np.where(a < 1, np.float32(-np.inf), np.float32(np.nan)))  # fmt: skip
    np.testing.assert_array_equal(evaluate("v = sqrt(a)", "f32", a), np.sqrt(a))
    np.testing.assert_array_equal(evaluate("v = floor(a)", "f32", a), np.floor(a))


def test_control_flow(evaluate: Evaluate) -> None:
    """The length of a number's Collatz sequence: while, if, else, break, continue, nested loops."""
    body = """
v = 0
n = a
while n != 1:
    if index_modulo(n, 2) == 0:
        n = index_divide(n, 2)
    else:
        n = 3 * n + 1
    v = v + 1
    if v > 60:
        break
for j in range(3):
    if j == 1:
        continue
    for k in range(0, 10, 4):
        v = v + k
"""
    a = np.arange(1, 40, dtype=np.int64)

    def reference(n: int) -> int:
        steps = 0
        while n != 1 and steps <= 60:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps + 2 * (0 + 4 + 8)

    assert evaluate(body, "i64", a).tolist() == [reference(int(n)) for n in a]
