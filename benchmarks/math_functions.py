"""Nanoseconds an element of the native math functions and of NumPy or SciPy, in cache: python benchmarks/math_functions.py

Runs of the two are interleaved and the best of each is printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import scipy.special
from gradopt.lowering.native.math import EMITTERS
from gradopt.lowering.native.math.loop import compile_loop

SIZE = 2048
NUMPY_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "pow": "power", "recip": "reciprocal", "round": "rint", "floor_mod": "remainder",
}
INTERVALS = {"acosh": (1.0, 9.0), "log": (0.01, 9.0), "log2": (0.01, 9.0), "sqrt": (0.0, 9.0), "rsqrt": (0.01, 9.0),
             "pow": (0.01, 9.0)}
UNIT = ("asin", "acos", "atanh", "erfinv", "log1p")


def reference(name: str) -> Callable[..., object] | None:
    """NumPy's or SciPy's function of that name."""
    if name == "sigmoid":
        return scipy.special.expit  # type: ignore[no-any-return]
    return getattr(np, NUMPY_NAMES.get(name, name), None) or getattr(scipy.special, name, None)


def nanoseconds(call: Callable[[], object], repeat: int) -> float:
    """Time of one call for one element."""
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat / SIZE * 1e9


def main() -> None:
    chosen = sys.argv[1:] or list(EMITTERS)
    generator = np.random.default_rng(0)
    print(f"{'function':10} {'f32':>7} {'numpy':>7} {'f64':>7} {'numpy':>7}   ns an element")
    for name in chosen:
        row = f"{name:10}"
        for element_type, dtype in (("f32", np.float32), ("f64", np.float64)):
            low, high = (-0.99, 0.99) if name in UNIT else INTERVALS.get(name, (-9.0, 9.0))
            operands = [generator.uniform(low, high, SIZE).astype(dtype) for _ in range(EMITTERS[name].arity)]
            output, loop, numpy = np.empty(SIZE, dtype), compile_loop(name, element_type), reference(name)
            bound = loop.bind(output, *operands)
            ours, theirs = [], []
            for _ in range(15):
                ours.append(nanoseconds(bound, 100))
                if numpy is not None:
                    theirs.append(nanoseconds(lambda: numpy(*operands, out=output), 5))  # noqa: B023
            row += f" {min(ours):7.3f} {min(theirs):7.3f}" if theirs else f" {min(ours):7.3f} {'-':>7}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
