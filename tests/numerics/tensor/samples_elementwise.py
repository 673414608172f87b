"""Samples of the elementwise ops. Each op meets shapes of every rank."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as special
import scipy.stats as stats
from tensor_support import Make, Sample, between, booleans, given, integers, normal, op, positive

SHAPES = ["Nx4", "", "2xNx3", "N", "2x1xNx2", "Nx0x2", "1x2xNx1x2"]
PAIRS = [
    ("Nx4", "Nx4"),
    ("2xNx4", "4"),
    ("Nx1", "1x4"),
    ("2x1x4", "Nx1"),
    ("", "Nx2"),
    ("2xNx1x4", "2x1x3x1"),
    ("1x4", "Nx4"),
    ("0x4", "1x4"),
    ("2x1x2x1xN", "3x1x2x1"),
    ("N", "2x1"),
    ("", ""),
]
TRIPLES = [
    ("Nx4", "Nx4", "Nx4"),
    ("2x1x4", "Nx1", ""),
    ("Nx1", "1x4", "2x1x1"),
    ("", "", "1"),
    ("", "N", "2x1"),
    ("0x1", "1x4", "4"),
    ("N", "", "N"),
    ("2x1x4", "Nx1", "1x1x4"),
    ("2x1xNx2", "1x2", ""),
    ("2x1xNx1x2", "4x1", "2"),
]

unit, above_one = between(-0.9, 0.9), between(1.2, 3.0)

# name -> (range, independent reference or None); a reference is another way to compute the op than its NumPy meaning has
UNARY: dict[str, tuple[Make, Callable[[Any], Any] | None]] = {
    "abs": (normal, lambda x: np.sqrt(x * x)),
    "neg": (normal, lambda x: 0 - x),
    "sign": (normal, lambda x: x / np.abs(x)),
    "floor": (normal, lambda x: x - np.mod(x, 1)),
    "ceil": (normal, lambda x: x + np.mod(-x, 1)),
    "trunc": (normal, lambda x: x - np.fmod(x, 1)),
    "reciprocal": (positive, lambda x: x**-1),
    "square": (normal, lambda x: x**2),
    "sqrt": (positive, lambda x: x**0.5),
    "rsqrt": (positive, lambda x: x**-0.5),
    "exp": (normal, lambda x: np.e**x),
    "exp2": (normal, lambda x: 2**x),
    "expm1": (normal, lambda x: np.e**x - 1),
    "log": (positive, lambda x: np.log2(x) / np.log2(np.e)),
    "log2": (positive, lambda x: np.log(x) / np.log(2)),
    "log1p": (positive, lambda x: np.log(1 + x)),
    "sin": (normal, lambda x: np.exp(1j * x).imag),
    "cos": (normal, lambda x: np.exp(1j * x).real),
    "tan": (unit, lambda x: np.sin(x) / np.cos(x)),
    "asin": (unit, lambda x: np.arctan2(x, np.sqrt(1 - x * x))),
    "acos": (unit, lambda x: np.arctan2(np.sqrt(1 - x * x), x)),
    "atan": (normal, lambda x: np.arctan2(x, 1)),
    "sinh": (normal, lambda x: (np.exp(x) - np.exp(-x)) / 2),
    "cosh": (normal, lambda x: (np.exp(x) + np.exp(-x)) / 2),
    "tanh": (normal, lambda x: np.sinh(x) / np.cosh(x)),
    "asinh": (normal, lambda x: np.log(x + np.sqrt(x * x + 1))),
    "acosh": (above_one, lambda x: np.log(x + np.sqrt(x * x - 1))),
    "atanh": (unit, lambda x: np.log((1 + x) / (1 - x)) / 2),
    "sinc": (normal, lambda x: np.sin(np.pi * x) / (np.pi * x)),
    "erf": (normal, lambda x: 2 * stats.norm.cdf(x * 2**0.5) - 1),
    "erfc": (normal, lambda x: 2 * stats.norm.sf(x * 2**0.5)),
    "erfinv": (unit, lambda x: stats.norm.ppf((x + 1) / 2) / 2**0.5),
    "sigmoid": (normal, special.expit),
    "log_sigmoid": (normal, special.log_expit),
    "relu": (normal, lambda x: (x + np.abs(x)) / 2),
    "relu6": (between(-4, 10), lambda x: np.clip(x, 0, 6)),
    "silu": (normal, lambda x: x * special.expit(x)),
    "selu": (normal, lambda x: np.where(x > 0, 1.0507009873554805 * x, 1.7580993408473766 * np.expm1(x))),
    "mish": (normal, lambda x: x * np.tanh(np.log(1 + np.exp(x)))),
    "hard_sigmoid": (between(-5, 5), lambda x: np.clip(x + 3, 0, 6) / 6),
    "hard_swish": (between(-5, 5), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "isnan": (normal, lambda x: x != x),
    "isfinite": (normal, lambda x: np.abs(x) < np.inf),
}

# name, attributes, range, reference
PARAMETRIC: list[tuple[str, dict[str, Any], Make, Callable[[Any], Any]]] = [
    ("softplus", {}, normal, lambda x: np.log(1 + np.exp(x))),
    (
        "softplus",
        {"beta": 2.0, "threshold": 1.0},
        between(-3, 3),
        lambda x: np.where(2 * x > 1, x, np.log(1 + np.exp(2 * x)) / 2),
    ),
    ("leaky_relu", {}, normal, lambda x: np.maximum(x, 0.01 * x)),
    ("leaky_relu", {"alpha": -0.5}, normal, lambda x: x * np.where(x > 0, 1, -0.5)),
    ("elu", {}, normal, lambda x: np.where(x > 0, x, np.exp(x) - 1)),
    ("elu", {"alpha": 0.3}, normal, lambda x: np.where(x > 0, x, 0.3 * (np.exp(x) - 1))),
    ("celu", {"alpha": 2.0}, normal, lambda x: np.where(x > 0, x, 2 * (np.exp(x / 2) - 1))),
    ("gelu", {}, normal, lambda x: x * stats.norm.cdf(x)),
    ("gelu", {"approximate": "tanh"}, normal, lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    ("hard_tanh", {}, normal, lambda x: np.clip(x, -1, 1)),
    ("hard_tanh", {"min": -0.3, "max": 0.4}, normal, lambda x: np.clip(x, -0.3, 0.4)),
    ("clip", {"min": -0.5, "max": 0.7}, normal, lambda x: np.clip(x, -0.5, 0.7)),
    ("round", {}, between(-4, 4), lambda x: np.round(x)),
    ("celu", {}, normal, lambda x: np.where(x > 0, x, np.exp(x) - 1)),
]



def off_grid(random: Any, shape: tuple[int, ...]) -> Any:
    """Floats whose quotient by 1 or 2 is not near a whole number."""
    return random.integers(-9, 9, shape) + random.uniform(0.4, 0.6, shape)


def one_or_two(random: Any, shape: tuple[int, ...]) -> Any:
    """1.0 and 2.0."""
    return random.integers(1, 3, shape) * 1.0


# name -> (ranges of the operands, reference)
BINARY: dict[str, tuple[tuple[Make, Make], Callable[[Any, Any], Any]]] = {
    "add": ((normal, normal), lambda x, y: x - -y),
    "subtract": ((normal, normal), lambda x, y: x + -y),
    "multiply": ((normal, normal), lambda x, y: ((x + y) ** 2 - (x - y) ** 2) / 4),
    "divide": ((normal, positive), lambda x, y: x * y**-1.0),
    "floor_divide": ((off_grid, one_or_two), lambda x, y: np.floor(x / y)),
    "mod": ((off_grid, one_or_two), lambda x, y: x - y * np.floor(x / y)),
    "fmod": ((off_grid, one_or_two), lambda x, y: x - y * np.trunc(x / y)),
    "power": ((positive, normal), lambda x, y: np.exp(y * np.log(x))),
    "maximum": ((normal, normal), lambda x, y: np.where(x > y, x, y)),
    "minimum": ((normal, normal), lambda x, y: np.where(x > y, y, x)),
    "atan2": ((normal, normal), lambda x, y: np.angle(y + 1j * x)),
    "logaddexp": ((normal, normal), lambda x, y: np.log(np.exp(x) + np.exp(y))),
    "xlogy": ((normal, positive), special.xlogy),
    "xlog1py": ((normal, positive), special.xlog1py),
    "prelu": ((normal, normal), lambda x, a: np.where(x > 0, x, a * x)),
    "equal": ((normal, normal), lambda x, y: ~(x != y)),
    "not_equal": ((normal, normal), lambda x, y: ~(x == y)),
    "less": ((normal, normal), lambda x, y: y > x),
    "less_equal": ((normal, normal), lambda x, y: y >= x),
    "greater": ((normal, normal), lambda x, y: y < x),
    "greater_equal": ((normal, normal), lambda x, y: y <= x),
}


def float_samples() -> list[Sample]:
    samples = []
    for name, (data, reference) in UNARY.items():
        samples += [op(name, shape, data=data, reference=reference) for shape in SHAPES]
    for name, attributes, data, reference in PARAMETRIC:
        samples += [op(name, shape, data=data, reference=reference, **attributes) for shape in SHAPES]
    samples.append(op("round", "Nx4", data=between(-4, 4), smooth=False, reference=np.round, ste=True))
    for name, ((left, right), reference) in BINARY.items():
        samples += [op(name, x, y, data={0: left, 1: right}, reference=reference) for x, y in PAIRS]
    for x, y, z in TRIPLES:
        samples += [
            op("where", x + ":i1", y, z, reference=lambda c, x, y: np.choose(c * 1, np.broadcast_arrays(c, y, x)[1:])),
            op("clamp", x, y, z, data={1: between(-1, 0), 2: between(0, 1)}, reference=np.clip),
            op("fma", x, y, z, reference=lambda x, y, z: np.add(z, np.multiply(y, x))),
        ]
    return samples


def exact_c(x: Any, y: Any, rule: Callable[[int, int], int]) -> Any:
    """An integer op on Python integers, wrapped to the type."""
    bits, signed = 8 * x.dtype.itemsize, x.dtype.kind == "i"
    grid = np.broadcast_arrays(x, y)
    out = np.empty(grid[0].shape, x.dtype)
    for place in np.ndindex(out.shape):
        value = rule(int(grid[0][place]), int(grid[1][place])) & ((1 << bits) - 1)
        out[place] = value - (1 << bits) if signed and value >> (bits - 1) else value
    return out


def truncated(x: int, y: int) -> int:
    """x / y towards zero; 0 for y = 0."""
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


INTEGER_RULES: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": truncated,
    "floor_divide": lambda x, y: x // y if y else 0,
    "mod": lambda x, y: x % y if y else 0,
    "fmod": lambda x, y: x - y * truncated(x, y) if y else 0,
    "maximum": max,
    "minimum": min,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
}
WIDTHS = ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64")


def corners(element: str) -> Any:
    """0, small numbers and the bounds of an integer type."""
    info = np.iinfo(np.dtype(("u" if element[0] == "u" else "i") + str(int(element.lstrip("ui")) // 8)))
    negative = {-1, -7, info.min + 1} if info.min else set()
    return np.array(sorted({info.min, 0, 1, 2, 7, info.max - 1, info.max} | negative), info.dtype)


def integer_samples() -> list[Sample]:
    samples = []
    for name, rule in INTEGER_RULES.items():
        for element in WIDTHS:
            values = corners(element)
            samples.append(
                op(
                    name,
                    f"{len(values)}x1:{element}",
                    f"{len(values)}:{element}",
                    exact=True,
                    data={0: given(values[:, None]), 1: given(values)},
                    reference=lambda x, y, rule=rule: exact_c(x, y, rule),
                )
            )
    for element, (name, shift) in itertools.product(WIDTHS, (("shift_left", lambda x, y: x << y), ("shift_right", lambda x, y: x >> y))):
        width, values = int(element.lstrip("ui")), corners(element)[:, None]
        samples.append(
            op(
                name,
                f"{len(values)}x1:{element}",
                f"4:{element}",
                exact=True,
                data={0: given(values), 1: given([0, 1, width // 2, width - 1])},
                reference=lambda x, y, shift=shift: exact_c(x, y, shift),
            )
        )
    one = {
        "neg": lambda x, y: -x,
        "abs": lambda x, y: abs(x),
        "square": lambda x, y: x * x,
        "bitwise_not": lambda x, y: ~x,
        "sign": lambda x, y: (x > 0) - (x < 0),
    }
    for (name, rule), element in itertools.product(one.items(), WIDTHS):
        values = corners(element)[:, None]
        samples.append(
            op(
                name,
                f"{len(values)}x1:{element}",
                data={0: given(values)},
                exact=True,
                reference=lambda x, rule=rule: exact_c(x, x, rule),
            )
        )
    samples += [
        op("power", "Nx2:i32", "2:i32", data={1: integers(0, 5)}, exact=True, reference=lambda x, y: exact_c(x, y, pow)),
        op("clip", "Nx4:i16", exact=True, reference=lambda x: np.clip(x, -2, 3), min=-2.0, max=3.0),
        op("clamp", "Nx4:i64", "4:i64", ":i64", data={2: integers(2, 3)}, exact=True, reference=np.clip),
        op("fma", "Nx4:i8", "4:i8", ":i8", exact=True, reference=lambda x, y, z: x * y + z),
        op("where", "Nx1:i1", "4:i32", "Nx4:i32", exact=True, reference=np.where),
        op("where", "Nx1:i1", "4:i1", "Nx4:i1", exact=True, reference=lambda c, x, y: c & x | ~c & y),
    ]
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        compare = {"equal": np.equal, "not_equal": np.not_equal}.get(name) or getattr(np, name)
        for element in ("i8", "ui64", "i1"):
            samples.append(op(name, f"Nx1:{element}", f"4:{element}", exact=True, reference=compare))
    return samples


def logical_samples() -> list[Sample]:
    two = {"logical_and": lambda x, y: x & y, "logical_or": lambda x, y: ~(~x & ~y), "logical_xor": lambda x, y: x != y}
    samples = [op(name, "Nx1:i1", "4:i1", data={0: booleans, 1: booleans}, exact=True, reference=rule) for name, rule in two.items()]
    samples += [op(name.replace("logical", "bitwise"), "Nx4:i1", ":i1", exact=True, reference=rule) for name, rule in two.items()]
    return [
        *samples,
        op("logical_not", "2xNx1:i1", exact=True, reference=lambda x: x ^ True),
        op("bitwise_not", "N:i1", exact=True, reference=lambda x: x ^ True),
    ]


SAMPLES = [*float_samples(), *integer_samples(), *logical_samples()]
