"""The inverse error function for machines without SciPy."""

from __future__ import annotations

import math

__all__ = ["inverse_error_function"]


def inverse_error_function(y: float) -> float:
    """x with erf(x) = y, by Halley's steps on erf (or on erfc, where erf has lost its digits) from Winitzki's approximation (2008)."""
    y = float(y)
    if math.isnan(y) or abs(y) > 1:
        return math.nan
    if abs(y) == 1:
        return math.copysign(math.inf, y)
    if y == 0:
        return y
    magnitude = abs(y)
    logarithm = math.log1p(-magnitude * magnitude)
    middle = 2 / (math.pi * 0.147) + logarithm / 2
    x = math.sqrt(math.sqrt(middle * middle - logarithm / 0.147) - middle)
    rest = 1 - magnitude  # exact for magnitudes of at least 1/2
    for _ in range(3):
        error = math.erf(x) - magnitude if magnitude < 0.5 else rest - math.erfc(x)
        step = error / (2 / math.sqrt(math.pi) * math.exp(-x * x))
        x -= step / (1 + x * step)
    return math.copysign(x, y)
