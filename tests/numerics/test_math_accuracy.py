"""Accuracy of the native math functions over the whole range. `pytest -s` prints the table of worst errors.

References: float64 NumPy and SciPy for f32, mpmath for f64, and at zeros, infinities and NaN NumPy's own results, signs
of zeros included. Errors are in units in the last place of the exact result, 0.5 being correct rounding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from gradopt.lowering.native.math import EMITTERS
from gradopt.lowering.native.math.loop import Loop, compile_loop
from numpy.typing import NDArray

Array = NDArray[Any]

# The largest error allowed in f32 and in f64; the project's own limits are 4 and 2.
BOUNDS = {
    "exp": (1.1, 1.1), "exp2": (1.2, 1.2), "expm1": (1.8, 1.8), "sigmoid": (2.5, 1.7),
    "log": (1.0, 1.0), "log2": (1.1, 1.0), "log1p": (1.6, 1.5),
    "sin": (1.6, 1.2), "cos": (1.6, 1.6), "tan": (3.5, 1.8),
    "asin": (1.3, 1.3), "acos": (1.3, 1.3), "atan": (1.5, 1.4), "atan2": (1.9, 1.8),
    "sinh": (1.8, 1.8), "cosh": (1.6, 1.6), "tanh": (2.5, 1.4),
    "asinh": (1.7, 1.7), "acosh": (1.6, 1.6), "atanh": (1.7, 1.6),
    "erf": (1.2, 1.2), "erfc": (1.8, 1.6), "erfinv": (2.2, 1.8),
    "pow": (0.51, 1.4), "fmod": (0, 0), "floor_mod": (0.51, 0.51),
    "sqrt": (0.51, 0.51), "rsqrt": (1.51, 1.51), "recip": (0.51, 0.51),
    "floor": (0, 0), "ceil": (0, 0), "round": (0, 0), "trunc": (0, 0),
}  # fmt: skip

WORST: dict[tuple[str, str], tuple[float, list[float]]] = {}


def sigmoid(x: Array) -> Array:
    """1/(1 + e**-x) without overflow or cancellation."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


NUMPY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sigmoid": sigmoid, "log": np.log, "log2": np.log2,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": scipy.special.erf, "erfc": scipy.special.erfc,
    "erfinv": lambda x: np.copysign(scipy.special.erfinv(x), x), "pow": np.power, "fmod": np.fmod,
    "floor_mod": np.remainder, "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "recip": lambda x: 1.0 / x, "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "trunc": np.trunc,
}  # fmt: skip


def exact_fmod(x: Any, y: Any) -> Any:
    """fmod of exact rationals."""
    with mpmath.workprec(2300):
        return mpmath.mpf(x) - mpmath.mpf(y) * mpmath.mpf(int(mpmath.mpf(x) / mpmath.mpf(y)))


def exact_floor_mod(x: Any, y: Any) -> Any:
    """floor_mod of exact rationals."""
    with mpmath.workprec(2300):
        return mpmath.mpf(x) - mpmath.mpf(y) * mpmath.floor(mpmath.mpf(x) / mpmath.mpf(y))


EXACT: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mpmath.mpf(2) ** x, "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "log2": lambda x: mpmath.log(x, 2), "pow": mpmath.power, "fmod": exact_fmod, "floor_mod": exact_floor_mod,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x), "recip": lambda x: 1 / x, "round": lambda x: mpmath.nint(x),
    "trunc": lambda x: mpmath.mpf(int(x)), "erfc": lambda x: mpmath.erfc(max(-40, min(40, x))),
}  # fmt: skip

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, np.inf, -np.inf, np.nan]


def special_values(dtype: Any) -> Array:
    """Zeros, small integers and halves, infinities, NaN, and the ends of the normal and subnormal range."""
    info = np.finfo(dtype)
    ends = [info.max, info.tiny, np.nextafter(info.tiny, 0), info.smallest_subnormal, 1 + info.eps, 1 - info.epsneg]
    return np.array([*SPECIAL, *ends, *(-end for end in ends)], dtype)


def near_points(dtype: Any, generator: np.random.Generator, count: int) -> Array:
    """Values near those where some function changes its method, at distances from an ulp to as much as the value."""
    centres = [1, 0.5, 0.75, 0.3466, 0.7071, 1.4142, np.pi / 4, np.pi / 2, np.pi, 2, 4, 5.95, 19.5, 26.5, 37, 88.7, 103.9,
               709.78, 745.1, 1.0e8, 1e22]  # fmt: skip
    shape = (len(centres), count // len(centres))
    distance = np.ldexp(generator.uniform(-1, 1, shape), -generator.integers(0, np.finfo(dtype).nmant + 2, shape))
    values: Array = (np.array(centres)[:, None] * (1 + distance)).astype(dtype).ravel()
    return np.concatenate([values, -values])


def uniform(dtype: Any, generator: np.random.Generator, count: int) -> Array:
    """Uniform values in ranges where most functions neither vanish nor saturate."""
    widths = (0.1, 1, 3, 10, 30, 100, 800)
    return np.concatenate([generator.uniform(-w, w, count // len(widths)).astype(dtype) for w in widths])


@cache
def grid(element_type: str, scale: int = 1) -> Array:
    """f32: every 1021st bit pattern and more; f64: a few thousand values of all sizes. `scale` divides their number."""
    generator = np.random.default_rng(1)
    dtype: Any
    patterns: Array
    if element_type == "f32":
        patterns = np.arange(0, 2**32, 1021 * scale, dtype=np.uint64).astype(np.uint32).view(np.float32)
        count, dtype = 700_000 // scale, np.dtype(np.float32)
    else:
        patterns = generator.integers(0, 2**64, 500 // scale, dtype=np.uint64).view(np.float64)
        count, dtype = 1000 // scale, np.dtype(np.float64)
    parts = [patterns, near_points(dtype, generator, count), uniform(dtype, generator, count)]
    return np.concatenate([*parts, special_values(dtype)])


def operands(name: str, element_type: str, scale: int = 1) -> list[Array]:
    """The arrays to evaluate the function on; for two operands also all pairs of special values."""
    values = grid(element_type, scale)
    if EMITTERS[name].arity == 1:
        return [values]
    generator = np.random.default_rng(2)
    other = generator.permutation(values)
    base = np.exp(generator.uniform(-20, 20, values.size)).astype(values.dtype)
    limit = 88.0 if element_type == "f32" else 709.0
    exponent = generator.uniform(-limit, limit, values.size) / np.maximum(np.abs(np.log(base)), 1e-3)
    moderate = uniform(values.dtype, generator, values.size)
    small = generator.integers(-9, 9, moderate.size).astype(values.dtype)
    firsts, seconds = np.meshgrid(special_values(values.dtype), special_values(values.dtype))
    return [
        np.concatenate([values, base, moderate, firsts.ravel()]),
        np.concatenate([other, exponent.astype(values.dtype), small, seconds.ravel()]),
    ]


def report(name: str, element_type: str, errors: Array, inputs: list[Array]) -> float:
    """Record the worst error for the table and return it."""
    worst = int(np.argmax(errors))
    WORST[name, element_type] = (float(errors[worst]), [float(array[worst]) for array in inputs])
    return float(errors[worst])


def assert_same_kind(name: str, inputs: list[Array], got: Array, expected: Array) -> None:
    """NaN exactly where the reference has it, and zeros with its sign."""
    for what, wrong in (
        ("NaN", np.isnan(got) != np.isnan(expected)),
        ("sign of zero", (got == 0) & (expected == 0) & (np.signbit(got) != np.signbit(expected))),
    ):
        at = int(np.argmax(wrong))
        found = f"{[array[at] for array in inputs]}: found {got[at]!r}, expected {expected[at]!r}"
        assert not wrong.any(), f"{name}: {what} at {found}"


def errors_f32(name: str, inputs: list[Array], got: Array) -> Array:
    """Errors in ulp against the float64 function; fmod and floor_mod of f32 values are exact in float64."""
    with np.errstate(all="ignore"):
        exact = NUMPY[name](*(array.astype(np.float64) for array in inputs))
        expected = exact.astype(np.float32)
        assert_same_kind(name, inputs, got, expected)
        ulp = np.spacing(np.minimum(np.abs(expected), np.finfo(np.float32).max)).astype(np.float64)
        # Infinity stands for the first number that is not representable.
        value = np.clip(got.astype(np.float64), -(2.0**128), 2.0**128)
        error = np.abs(value - np.clip(exact, -(2.0**128), 2.0**128)) / ulp
    return np.where(np.isnan(expected), 0.0, error)


def exact_error(name: str, point: tuple[float, ...], got: float) -> float:
    """The error of one f64 result in ulp of the exact one."""
    with mpmath.workprec(240):
        function = EXACT.get(name) or getattr(mpmath, name)
        exact = function(*(mpmath.mpf(value) for value in point))
        largest = mpmath.mpf(2) ** 1024
        value = largest * (1 if got > 0 else -1) if np.isinf(got) else mpmath.mpf(got)
        exact = max(-largest, min(largest, exact))
        exponent = max(int(mpmath.floor(mpmath.log(abs(exact), 2))) if exact else -1074, -1022)
        return float(abs(value - exact) * mpmath.mpf(2) ** (52 - min(exponent, 1023)))


def errors_f64(name: str, inputs: list[Array], got: Array) -> Array:
    """Errors in ulp against mpmath; where an operand or the result is special, NumPy's result must come out."""
    with np.errstate(all="ignore"):
        expected = NUMPY[name](*inputs)
    assert_same_kind(name, inputs, got, expected)
    ordinary = ~np.isnan(expected)
    for array in inputs:
        ordinary &= np.isfinite(array) & (array != 0)
    ordinary &= ~(np.isinf(expected) & (np.abs(inputs[0]) == 1))
    special = ~ordinary & ~np.isnan(expected)
    with np.errstate(all="ignore"):
        errors = np.where(special & (got != expected), np.abs(got - expected) / np.spacing(np.abs(expected)), 0.0)
    for index in np.nonzero(ordinary)[0]:
        errors[index] = exact_error(name, tuple(float(array[index]) for array in inputs), float(got[index]))
    return np.asarray(errors)


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """Print the worst errors after the module's last test."""
    yield
    print(f"\n{'function':10} {'f32 ulp':>8} {'f64 ulp':>8}   at")
    for name in BOUNDS:
        cells = [WORST.get((name, kind)) for kind in ("f32", "f64")]
        texts = [f"{cell[0]:8.3f}" if cell else f"{'-':>8}" for cell in cells]
        print(f"{name:10} {' '.join(texts)}   {[cell[1] for cell in cells if cell]}")


def test_every_function_has_bounds_within_the_limits() -> None:
    assert set(BOUNDS) == set(EMITTERS) == set(NUMPY)
    assert all(f32 <= 4 and f64 <= 2 for f32, f64 in BOUNDS.values())


@pytest.mark.parametrize("name", EMITTERS)
def test_f32(name: str) -> None:
    # SciPy's erfinv is slow; two operands make the list longer.
    inputs = operands(name, "f32", 4 if name == "erfinv" else EMITTERS[name].arity)
    got = compile_loop(name, "f32")(np.empty_like(inputs[0]), *inputs)
    assert report(name, "f32", errors_f32(name, inputs, got), inputs) <= BOUNDS[name][0]


@pytest.mark.parametrize("name", EMITTERS)
def test_f64(name: str) -> None:
    inputs = operands(name, "f64")
    got = compile_loop(name, "f64")(np.empty_like(inputs[0]), *inputs)
    assert report(name, "f64", errors_f64(name, inputs, got), inputs) <= BOUNDS[name][1]


def least_machine(name: str, element_type: str) -> Loop:
    """The function without fma and rounding instructions; on x86 it is also compiled for plain SSE2."""
    import llvmlite.binding as llvm

    x86 = llvm.get_default_triple().startswith("x86_64")
    return compile_loop(name, element_type, "x86-64" if x86 else None, "")


@pytest.mark.parametrize("name", EMITTERS)
def test_without_fma(name: str) -> None:
    for element_type, errors in (("f32", errors_f32), ("f64", errors_f64)):
        inputs = operands(name, element_type, 10)
        got = least_machine(name, element_type)(np.empty_like(inputs[0]), *inputs)
        assert float(errors(name, inputs, got).max()) <= BOUNDS[name][element_type == "f64"]


@pytest.mark.parametrize("element_type", ["f32", "f64"])
@pytest.mark.parametrize("name", EMITTERS)
def test_loop_is_vectorised_and_calls_no_library(name: str, element_type: str) -> None:
    for loop in (compile_loop(name, element_type), least_machine(name, element_type)):
        scalar = {"f32": "float", "f64": "double"}[element_type]
        body = loop.optimised[loop.optimised.index("vector.body:") :]
        assert re.search(rf"<\d+ x {scalar}>", body)
        symbols = re.findall(r"^\s+(?:callq?|bl|movabsq)\s+\$?([A-Za-z_.][\w.]*)", loop.assembly, re.MULTILINE)
        assert all(symbol.startswith((".L", "gradopt.")) for symbol in symbols), symbols


@pytest.mark.parametrize("element_type", ["f32", "f64"])
@pytest.mark.parametrize("name", EMITTERS)
def test_an_element_alone_has_the_same_bits(name: str, element_type: str) -> None:
    inputs = [array[::997] for array in operands(name, element_type, 10)]
    inputs = [np.ascontiguousarray(array) for array in inputs]
    loop = compile_loop(name, element_type)
    together = loop(np.empty_like(inputs[0]), *inputs)
    for index in range(together.size):
        alone = loop(np.empty(1, together.dtype), *(array[index : index + 1] for array in inputs))
        np.testing.assert_array_equal(alone, together[index : index + 1])


@pytest.mark.parametrize(("name", "element_type"), [("exp", "f32"), ("log2", "f64"), ("sin", "f64"), ("sin", "f32")])
def test_flags_of_a_numba_kernel_change_nothing(name: str, element_type: str) -> None:
    import llvmlite.binding as llvm
    from numba import njit, types
    from numba.extending import intrinsic

    features = llvm.get_host_cpu_features().flatten()
    element: Any = {"f32": types.float32, "f64": types.float64}[element_type]

    def typed(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
            return EMITTERS[name].emit(builder, operands, element_type, features)

        return element(element), generate

    function: Any = intrinsic(typed)

    def loop(output: Array, x: Array) -> None:
        for index in range(x.size):
            output[index] = function(x[index])

    x = grid(element_type, 10)
    got = np.empty_like(x)
    njit(fastmath={"reassoc", "contract"})(loop)(got, x)
    np.testing.assert_array_equal(got, compile_loop(name, element_type)(np.empty_like(x), x))


def test_error_messages() -> None:
    with pytest.raises(ValueError, match=r"exp: element type 'f16', expected one of \['f32', 'f64'\]"):
        EMITTERS["exp"].emit(None, [None], "f16", "")
    with pytest.raises(ValueError, match="pow: 1 operands, expected 2"):
        EMITTERS["pow"].emit(None, [None], "f32", "")
