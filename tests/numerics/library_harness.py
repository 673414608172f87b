"""Runs small programs of `prim`, `hl` and `bwd` ops through fusion and the native back end, beside their NumPy meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradopt.dialects  # noqa: F401  (registers the ops)
import numpy as np
from gradopt.dialects.arrays import numpy_dtype
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Block, Operation, Region, UnregisteredOp
from gradopt.ir.types import TensorType
from gradopt.lowering.fuse.program import fuse_block
from gradopt.lowering.interpreter import run_region
from gradopt.lowering.native import pool
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.plan.program import make_program

Array = Any
Body = Callable[..., Any]


def function_of(types: Sequence[TensorType], body: Body) -> Operation:
    """A function whose block takes arguments of these types and yields what `body(builder, *arguments)` gives."""
    block = Block(types)
    builder = Builder(block)
    results = body(builder, *block.arguments)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    builder.prim.yield_(*results)
    return UnregisteredOp("test.func", (), (), {}, {}, [Region([block])])


def random_array(rng: np.random.Generator, type: TensorType, shape: Sequence[int] | None = None) -> Array:
    """Normal floats, small integers of both signs, random booleans."""
    dtype, shape = numpy_dtype(type.element), tuple(type.shape if shape is None else shape)
    if type.element.text == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def compiled(function: Operation) -> Executable:
    """The native program of a function (which is rewritten)."""
    fuse_block(function.regions[0].block)
    return Executable(make_program(function, "test"), front_end="direct")


def run_both(types: Sequence[TensorType], body: Body, arrays: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """(results of the native program, of the NumPy meaning). Raises AssertionError if one and two threads differ in a bit."""
    function = function_of(types, body)
    with np.errstate(all="ignore"):
        expected = run_region(function.regions[0], list(arrays))
    run = compiled(function)
    found: list[list[Array]] = []
    for threads in (1, 2):
        pool.set_num_threads(threads)
        results = run(*arrays)
        found.append(list(results) if isinstance(results, tuple) else [results])
    for one, two in zip(*found):
        assert one.tobytes() == two.tobytes(), "results depend on the number of threads"
    return found[1], expected


def check(types: Sequence[TensorType], body: Body, arrays: Sequence[Array], tolerance: float = 0.0) -> None:
    """Asserts that the native results are the NumPy meaning's, NaN for NaN; `tolerance` is relative to 1 + |value|."""
    for found, wanted in zip(*run_both(types, body, arrays)):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype, (found.shape, found.dtype, wanted.shape, wanted.dtype)
        if not tolerance or wanted.dtype.kind in "iub":
            wide = [array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array
                    for array in (found, wanted)]  # NumPy does not know bfloat16's NaN
            np.testing.assert_array_equal(*wide)
            continue
        a, b = found.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        infinite = np.isinf(b)
        np.testing.assert_array_equal(a[infinite], b[infinite])
        plain = np.isfinite(b)
        error = np.abs(a[plain] - b[plain]) / (1 + np.abs(b[plain]))
        assert error.size == 0 or error.max() <= tolerance, f"error {error.max()}, expected at most {tolerance}"
