"""Both front ends make the same bits of the same text, and refuse what is outside the language."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gradopt.lowering.native import intrinsics, kernels
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import Argument, KernelSource, Program, Result, Run

NORM = """
def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    out = pointer_f32(context, 1)
    n = parameter(context, 0)
    for row in range(lo, hi):
        base = row * n
        total = f32(0.0)
        square = f32(0.0)
        for i in range(n):
            v = load(x, base + i)
            total = accumulate_add(total, v)
            square = accumulate_add(square, multiply(v, v))
        mean = divide(total, f32(n))
        variance = subtract(divide(square, f32(n)), multiply(mean, mean))
        scale = rsqrt(add(variance, f32(1e-5)))
        for i in range(n):
            store(out, base + i, tanh(multiply(subtract(load(x, base + i), mean), scale)))
    return 0
"""


def test_same_bits() -> None:
    m, n = 20, 333
    program = Program(
        "norm", [KernelSource("norm", NORM)], [], [Argument("f32", (m, n)), Result("f32", (m, n))], [Run(0, m, 3, (0, 1), (n,))]
    )
    x = np.random.default_rng(0).normal(2, 3, size=(m, n)).astype(np.float32)
    direct, numba = (Executable(program, front_end=name)(x) for name in ("direct", "numba"))
    assert direct.tobytes() == numba.tobytes()
    wide = x.astype(np.float64)
    expected = np.tanh((wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5))
    np.testing.assert_allclose(direct, expected, atol=3e-6)


def body(text: str) -> KernelSource:
    return KernelSource("k", "def kernel(lo, hi, context):\n" + "".join(f"    {line}\n" for line in text.splitlines()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\nreturn 0", "line 2: Import is not part of the language of kernels: import os"),
        ("return open('x')", "constant of type str"),
        ("x = lo.real\nreturn 0", "Attribute is not part"),
        ("return unknown(lo)", "unknown is not an intrinsic"),
        ("return missing", "missing is not defined"),
        ("x = f32(lo)\nx = lo\nreturn 0", "x is f32 and cannot become i64"),
        ("return f32(lo) + lo", "expected scalars of one type, found f32, i64"),
        ("return i32(lo) + i32(hi)", "Add is not defined on i32; use an intrinsic"),
        ("return lo // hi", "FloorDiv is not defined on i64"),
        ("p = pointer_f32(context, lo)\nreturn 0", "the slot must be written as an integer, found i64"),
        ("p = pointer_f32(context, 0)\nstore(p, 0, lo)\nreturn 0", "store: argument 2 must be f32, found i64"),
        ("p = pointer_f32(context, 0)\nreturn load(p)", "load takes 2 arguments, found 1"),
        ("x = add(f32(lo), 1)\nreturn 0", "an integer literal beside f32; write f32"),
        ("x = lo", "kernel must end with a return"),
        ("return lo", "expected i32, found i64"),
        ("for i in range(0, 5, lo):\n    pass\nreturn 0", "the step of a range must be a positive integer"),
        ("for i in [1]:\n    pass\nreturn 0", "only `for name in range"),
        ("if lo:\n    return 1\nreturn 0", "expected i1, found i64"),
        ("break\nreturn 0", "outside a loop"),
        ("lo < hi < 3\nreturn 0", "an expression that does nothing"),
        ("x = lambda: 0\nreturn 0", "Lambda is not part"),
        ("x = 2 ** 70\nreturn 0", "Pow is not defined"),
        ("x = 99999999999999999999\nreturn 0", "does not fit in 64 bits"),
        ("return store(pointer_f32(context, 0), 0, f32(0.0))", "this call gives nothing"),
        ("x = sgemm(context, 0)\nreturn 0", "sgemm takes 14 arguments, found 2"),
    ],
)  # fmt: skip
def test_the_direct_front_end_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(KernelError) as caught:
        kernels.direct_module(body(text))
    assert message in str(caught.value)


@pytest.mark.parametrize("front_end", ["direct", "numba"])
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\n", "expected a function, found Assign"),
        ("def kernel(lo, hi, context):\n  return (\n", "line 2"),
        ("def other(lo, hi, context):\n  return 0\n", "expected one function named kernel"),
        ("@print\ndef kernel(lo, hi, context):\n  return 0\n", "decorators and annotations"),
        ("def kernel(lo: print(1), hi, context):\n  return 0\n", "decorators and annotations"),
        ("def kernel(lo, hi=print(1), context=2):\n  return 0\n", "only plain parameters"),
    ],
)
def test_nothing_but_a_plain_function_is_ever_executed(
    front_end: str, source: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """numba needs a real function, so what surrounds its body is checked before the text is executed."""
    with pytest.raises(KernelError, match=message):
        kernels.FRONT_ENDS[front_end](KernelSource("k", source))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("front_end", ["direct", "numba"])
@pytest.mark.parametrize(
    "text", ["return unknown(lo)", "x = f32(lo)\nstore(pointer_i32(context, 0), 0, x)\nreturn 0", "return load(lo, 0)"]
)
def test_both_front_ends_raise_kernel_errors(front_end: str, text: str) -> None:
    with pytest.raises(KernelError):
        kernels.FRONT_ENDS[front_end](body(text))


def test_every_intrinsic_is_documented() -> None:
    documentation = intrinsics.documentation()
    for name, intrinsic in intrinsics.table().items():
        assert intrinsic.summary and name in documentation


def test_an_unknown_front_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the front end is 'x', expected direct or numba"):
        Executable(Program("p", [], [], [], []), front_end="x", cache_folder=tmp_path)
