"""Fit the minimax polynomials of gradopt.lowering.native.math and print its file `coefficients.py`.

    python benchmarks/fit_polynomials.py > lowering/native/math/coefficients.py

Each fit minimises max |weight(x) * (target(x) - p(variable(x)))| by Remez' exchange algorithm in multiple precision.
`weight` turns the polynomial's error into the relative error of the function that uses it. Where the variable has one
sign, the first coefficients are rounded to the format one after the other, each time refitting the rest, so that their
rounding costs nothing (with both signs the powers without the constant are no Chebyshev system).
The largest weighted error is printed in units of 2**-24 (f32) or 2**-53 (f64), half a unit in the last place of 1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
from mpmath import mp, mpf

Real = Callable[[mpf], mpf]


def identity(x: mpf) -> mpf:
    return x


@dataclass
class Fit:
    """One polynomial. `low` and `high` bound x; `variable` maps x to the polynomial's variable.

    With `split_constant` the table begins with the constant term as two floats.
    """

    name: str
    meaning: str
    format: str
    degree: int
    low: float
    high: float
    target: Real
    weight: Real
    variable: Real = identity
    split_constant: bool = False


def round_to(format: str, value: mpf) -> float:
    """`value` rounded to the format, as a Python float."""
    if format == "f64":
        return float(value)
    return float(struct.unpack("f", struct.pack("f", float(value)))[0])


def exchange(values: list[mpf], wanted: int) -> list[int]:
    """Indices of `wanted` alternating extrema of `values`: the largest of each run of one sign, worst ends dropped."""
    runs: list[int] = []
    for index, value in enumerate(values):
        if runs and (values[runs[-1]] > 0) == (value > 0):
            if abs(value) > abs(values[runs[-1]]):
                runs[-1] = index
        else:
            runs.append(index)
    while len(runs) > wanted:
        runs.pop(0 if abs(values[runs[0]]) < abs(values[runs[-1]]) else -1)
    return runs


def remez(u: list[mpf], target: list[mpf], weight: list[mpf], size: int) -> list[mpf]:
    """The `size` coefficients in u that minimise max |weight (target - p(u))| over the grid."""
    count = len(u)
    points = [round((count - 1) * (1 - mpmath.cos(mpmath.pi * k / size)) / 2) for k in range(size + 1)]
    coefficients: list[mpf] = []
    for _ in range(12):
        rows = [[*(u[i] ** k for k in range(size)), (-1) ** j / weight[i]] for j, i in enumerate(points)]
        solution = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([target[i] for i in points]))
        coefficients, level = list(solution)[:size], abs(solution[size])
        errors = [
            w * (t - mpmath.polyval(coefficients[::-1], x)) for x, t, w in zip(u, target, weight, strict=True)
        ]
        found = exchange(errors, size + 1)
        if max(abs(e) for e in errors) <= level * mpf("1.001") or len(found) <= size:
            break
        points = found
    return coefficients


def solve(fit: Fit, carefully: int = 3) -> tuple[list[float], mpf]:
    """The rounded coefficients, constant term first, and the largest weighted error with them."""
    count = 24 * (fit.degree + 2)
    middle, half = (mpf(fit.high) + mpf(fit.low)) / 2, (mpf(fit.high) - mpf(fit.low)) / 2
    grid = [middle - half * mpmath.cos(mpmath.pi * (k + mpf("0.37")) / count) for k in range(count)]
    u = [fit.variable(x) for x in grid]
    target, weight = [fit.target(x) for x in grid], [abs(fit.weight(x)) for x in grid]
    rest, scale = list(target), list(weight)
    chosen: list[mpf] = []
    if u[0] * u[-1] < 0:
        carefully = 0
    for size in range(fit.degree + 1, 0, -1):
        if len(chosen) > carefully:
            break
        coefficients = remez(u, rest, scale, size)
        exact = fit.split_constant and not chosen
        chosen.append(coefficients[0] if exact else round_to(fit.format, coefficients[0]))
        rest = [(t - chosen[-1]) / x for t, x in zip(rest, u, strict=True)]
        scale = [w * abs(x) for w, x in zip(scale, u, strict=True)]
    chosen += [round_to(fit.format, c) for c in coefficients[1:]]
    error = max(
        w * abs(t - mpmath.polyval([mpf(c) for c in chosen[::-1]], x))
        for x, t, w in zip(u, target, weight, strict=True)
    )
    if fit.split_constant:
        chosen[:1] = rounded_pair(chosen[0], 24 if fit.format == "f32" else 53)
    return chosen, error * 2 ** (24 if fit.format == "f32" else 53)


def root(function: Real) -> Real:
    """z -> function(sqrt(z))."""
    return lambda z: function(mpmath.sqrt(z))


LN2, QUARTER_PI = mpmath.ln2, mpmath.pi / 4


def exp_fits() -> list[Fit]:
    def fit(name: str, format: str, degree: int) -> Fit:
        return Fit(
            name, "(exp(r) - 1 - r) / r**2, |r| <= ln(2)/2", format, degree, -0.3468, 0.3468,
            lambda r: (mpmath.expm1(r) - r) / r**2, lambda r: r**2 / mpmath.expm1(r),
        )

    return [
        fit("EXP_F32", "f32", 4), fit("EXP_F64", "f64", 9),
        Fit("EXP2_OF_POW_F32", "2**r, |r| <= 1/2, for f32 results", "f64", 7, -0.5001, 0.5001,
            lambda r: mpf(2) ** r, lambda r: mpf(2) ** -r),
    ]


def log_fits() -> list[Fit]:
    low, high = mpmath.sqrt(mpf(1) / 2) - 1 - mpf("1e-6"), mpmath.sqrt(mpf(2)) - 1 + mpf("1e-6")
    z = (high / (2 + high)) ** 2 * mpf("1.0001")
    return [
        Fit("LOG_F32", "(log(1+f) - f + f**2/2) / f**3, sqrt(1/2) <= 1+f <= sqrt(2)", "f32", 7, low, high,
            lambda f: (mpmath.log1p(f) - f + f**2 / 2) / f**3, lambda f: f**3 / mpmath.log1p(f)),
        Fit("LOG_F64", "(2 atanh(s)/s - 2) / z, z = s**2, s = f/(2+f)", "f64", 6, 0, z,
            root(lambda s: (2 * mpmath.atanh(s) / s - 2) / s**2), lambda z: z / 2),
        Fit("LOG_OF_POW_F64", "(atanh(s)/s - 1 - z/3) / z**2, z = s**2", "f64", 8, 0, z,
            root(lambda s: (mpmath.atanh(s) / s - 1 - s**2 / 3) / s**4), lambda z: z**2),
        Fit("LOG_OF_POW_F32", "(2 atanh(s)/s - 2) / z, z = s**2, for f32 results", "f64", 4, 0, z,
            root(lambda s: (2 * mpmath.atanh(s) / s - 2) / s**2), lambda z: z / 2),
    ]


def circular_fits() -> list[Fit]:
    def pair(format: str, sin_degree: int, cos_degree: int) -> list[Fit]:
        end = (QUARTER_PI * mpf("1.001")) ** 2
        return [
            Fit(f"SIN_{format.upper()}", "(sin(r)/r - 1) / z, z = r**2, |r| <= pi/4", format, sin_degree, 0, end,
                root(lambda r: (mpmath.sin(r) / r - 1) / r**2), root(lambda r: r**3 / mpmath.sin(r))),
            Fit(f"COS_{format.upper()}", "(cos(r) - 1 + z/2) / z**2, z = r**2, |r| <= pi/4", format, cos_degree, 0, end,
                root(lambda r: (mpmath.cos(r) - 1 + r**2 / 2) / r**4), root(lambda r: r**4 / mpmath.cos(r))),
        ]

    return pair("f32", 2, 2) + pair("f64", 5, 5)


def odd(name: str, meaning: str, format: str, degree: int, end: float, function: Real) -> Fit:
    """A fit of (function(x)/x - 1)/z over z = x**2 up to `end`, with small relative error of function(x)."""
    return Fit(
        name, meaning, format, degree, 0, end,
        root(lambda x: (function(x) / x - 1) / x**2), root(lambda x: x**3 / function(x)),
    )


def odd_fits() -> list[Fit]:
    asin, atan = "(asin(x)/x - 1) / z, z = x**2 <= 1/4", "(atan(x)/x - 1) / z, z = x**2 <= 1"
    sinh = "(sinh(x)/x - 1) / z, z = x**2 <= 1"
    return [
        odd("ASIN_F32", asin, "f32", 4, 0.2501, mpmath.asin), odd("ASIN_F64", asin, "f64", 11, 0.2501, mpmath.asin),
        odd("ATAN_F32", atan, "f32", 7, 1, mpmath.atan), odd("ATAN_F64", atan, "f64", 18, 1, mpmath.atan),
        odd("SINH_F32", sinh, "f32", 3, 1, mpmath.sinh), odd("SINH_F64", sinh, "f64", 7, 1, mpmath.sinh),
    ]


def error_function_fits() -> list[Fit]:
    def small(format: str, degree: int) -> Fit:
        return Fit(
            f"ERF_SMALL_{format.upper()}", "erf(x)/x - 1, z = x**2 <= 1", format, degree, 0, 1,
            root(lambda x: mpmath.erf(x) / x - 1), root(lambda x: x / mpmath.erf(x)),
        )

    def tail(format: str, degree: int, end: float) -> Fit:
        return Fit(
            f"ERF_TAIL_{format.upper()}", f"log(erfc(x)), 1 <= x <= {end}", format, degree, 1, end,
            lambda x: mpmath.log(mpmath.erfc(x)), lambda x: mpmath.erfc(x) / mpmath.erf(x),
        )

    def scaled(format: str, degree: int, end: float) -> Fit:
        def target(x: mpf) -> mpf:
            return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)

        return Fit(
            f"ERFC_{format.upper()}", f"(1+2x) exp(x**2) erfc(x) in (x-4)/(x+4), 0.8 <= x <= {end}", format, degree,
            -mpf(2) / 3 - mpf("1e-6"), (end - 4) / (end + 4), lambda t: target(4 * (1 + t) / (1 - t)),
            lambda t: 1 / target(4 * (1 + t) / (1 - t)), split_constant=True,
        )

    return [
        small("f32", 6), small("f64", 12), tail("f32", 8, 3.95), tail("f64", 20, 5.95),
        scaled("f32", 9, 10.1), scaled("f64", 20, 27.3),
    ]


def inverse_error_function_fits() -> list[Fit]:
    def ratio(w: mpf) -> mpf:
        x = mpmath.sqrt(-mpmath.expm1(-w))
        return mpmath.erfinv(x) / x

    def fit(name: str, format: str, degree: int, low: float, high: float, shift: float, rooted: bool) -> Fit:
        target: Real = (lambda s: ratio(s * s)) if rooted else ratio
        letter = "s = sqrt(w)" if rooted else "w = -log(1 - x**2)"
        return Fit(
            f"ERFINV_{name}_{format.upper()}", f"erfinv(x)/x in {letter[0]} - {shift}, {letter}, {low} <= {letter[0]}"
            f" <= {high}", format, degree, low, high, target, lambda t: 1 / target(t), lambda t: t - shift,
            split_constant=True,
        )

    return [
        fit("CENTRE", "f32", 9, 1e-9, 5, 2.5, False), fit("TAIL", "f32", 9, 2.236, 4.17, 3, True),
        Fit("ERFINV_SMALL_F64", "erfinv(x)/x in z = x**2 <= 1/4", "f64", 13, 0, 0.2501,
            root(lambda x: mpmath.erfinv(x) / x), root(lambda x: x / mpmath.erfinv(x)), split_constant=True),
        fit("CENTRE", "f64", 23, 1e-9, 6.25, 3.125, False), fit("MIDDLE", "f64", 18, 2.5, 4, 3.25, True),
        fit("TAIL", "f64", 16, 4, 6.01, 5, True),
    ]


def parts(value: mpf, *widths: int) -> list[float]:
    """`value` as a sum of floats of `widths` significant bits, most significant first, each truncated but the last."""
    result = []
    for index, width in enumerate(widths):
        unit = mpf(2) ** (mpmath.floor(mpmath.log(abs(value), 2)) + 1 - width)
        quotient = value / unit
        whole = mpmath.nint(quotient) if index == len(widths) - 1 else mpmath.sign(value) * mpmath.floor(abs(quotient))
        result.append(float(whole * unit))
        value -= whole * unit
    return result


def rounded_pair(value: mpf, width: int) -> list[float]:
    """`value` rounded to nearest with `width` bits, and the rest rounded."""
    format = "f32" if width == 24 else "f64"
    high = round_to(format, value)
    return [high, round_to(format, value - high)]


def print_constants() -> None:
    turns = 1 / (2 * mpmath.pi)

    def window(offset: int) -> list[float]:
        """The 29 bits of 1/(2 pi) after the first `offset` bits, three times 29 and then 53."""
        rest, result, position = turns - mpmath.floor(turns * mpf(2) ** offset) / mpf(2) ** offset, [], offset
        for width in (29, 29, 29, 53):
            position += width
            piece = mpmath.floor(rest * mpf(2) ** position) / mpf(2) ** position
            result.append(float(piece))
            rest -= piece
        return result

    half_pi = mpmath.pi / 2
    table: dict[str, tuple[str, list[float]]] = {
        "LN2_F32": ("log(2) = high + low; high times an exponent is exact", parts(+mpmath.ln2, 15, 24)),
        "LN2_F64": ("the same", parts(+mpmath.ln2, 41, 53)),
    }
    for name, value in (("LOG2_E", 1 / LN2), ("HALF_PI", half_pi), ("PI", mpmath.pi), ("THIRD", mpf(1) / 3)):
        table[f"{name}_F32"] = (f"{name.lower()} = high + low", rounded_pair(value, 24))
        table[f"{name}_F64"] = ("the same", rounded_pair(value, 53))
    table["TWO_LOG2_E_F64"] = ("2 log2(e) = high + low", rounded_pair(2 / LN2, 53))
    table["HALF_PI_FMA_F32"] = ("pi/2 in three parts", parts(half_pi, 24, 24, 24))
    table["HALF_PI_FMA_F64"] = ("pi/2 in three parts", parts(half_pi, 53, 53, 53))
    table["HALF_PI_SHORT_F64"] = ("pi/2 in four parts; an integer below 2**26 times one is exact",
                                  parts(half_pi, 27, 27, 27, 53))
    print("# Constants.\n")
    for name, (meaning, values) in table.items():
        print(f"# {meaning}.\n{name} = (" + ", ".join(repr(value) for value in values) + ")\n")
    print("# 1/(2 pi): 29, 29, 29 and 53 bits after the first 0 and 59 bits.\nTURNS_F32 = (")
    for offset in (0, 59):
        print("    (" + ", ".join(repr(value) for value in window(offset)) + "),")
    print(")\n\n# The bits of 2/pi after the point, 64 a word, behind one word of zeros.\nTWO_OVER_PI_WORDS = (")
    words = [0, *(int(mpmath.floor(2 / mpmath.pi * mpf(2) ** (64 * k))) % 2**64 for k in range(1, 21))]
    for start in range(0, len(words), 4):
        print("    " + " ".join(f"0x{word:016X}," for word in words[start : start + 4]))
    print(")\n")


def main() -> None:
    mp.dps = 60
    print('"""Constants and minimax polynomials, constant term first. Made by benchmarks/fit_polynomials.py: see there."""\n')
    with mpmath.workdps(450):
        print_constants()
    fits = [*exp_fits(), *log_fits(), *circular_fits(), *odd_fits(), *error_function_fits()]
    for fit in [*fits, *inverse_error_function_fits()]:
        coefficients, error = solve(fit)
        print(f"# {fit.meaning}; largest error {mpmath.nstr(error, 2)}.")
        print(f"{fit.name} = (")
        for start in range(0, len(coefficients), 4):
            print("    " + " ".join(f"{c!r}," for c in coefficients[start : start + 4]))
        print(")\n")


if __name__ == "__main__":
    main()
