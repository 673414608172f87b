"""Symbolic sizes: what is printed is read back as the same, and has the value of the arithmetic that made it."""

from __future__ import annotations

import random

import pytest
from gradopt.ir.sizes import Size, SizeExpression, add, floordiv, mod, multiply, named_size, parse_size, subtract


def grow(source: random.Random, depth: int, names: dict[str, int]) -> tuple[Size, int]:
    """A random size expression and its value."""
    if depth == 0:
        name = source.choice([*names, ""])
        number = source.randint(-4, 5)
        return (named_size(name), names[name]) if name else (number, number)
    left, value = grow(source, depth - 1, names)
    right, other = grow(source, depth - 1, names)
    kind, factor = source.choice("+-*/%"), source.choice([-3, -2, -1, 2, 3])
    if kind in "+-":
        return (add(left, right), value + other) if kind == "+" else (subtract(left, right), value - other)
    if kind == "*":
        return multiply(left, factor), value * factor
    return (floordiv(left, abs(factor)), value // abs(factor)) if kind == "/" else (mod(left, abs(factor)), value % abs(factor))


def test_text_and_value_of_random_expressions() -> None:
    source = random.Random(7)
    for _ in range(3000):
        names = {"a": source.randint(0, 9), "b": source.randint(0, 9)}
        size, value = grow(source, 3, names)
        again = parse_size(str(size))
        assert again == size and str(again) == str(size)
        assert (size.evaluate(names) if isinstance(size, SizeExpression) else size) == value, str(size)


@pytest.mark.parametrize("text", ["-((a + 2) floordiv 3) + 3", "a * (b mod 2)", "-a + b", "a floordiv 2 - b floordiv 2"])
def test_a_minus_in_front_binds_closer_than_a_division(text: str) -> None:
    size = parse_size(text)
    assert isinstance(size, SizeExpression)
    expected = eval(text.replace("floordiv", "//").replace("mod", "%"), {"a": 7, "b": 4})
    assert size.evaluate({"a": 7, "b": 4}) == expected
    assert parse_size(str(size)) == size
