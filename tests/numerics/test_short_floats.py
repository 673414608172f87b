"""A cast to 16-bit floats rounds, also where what it gives is never stored: compiled results are the interpreter's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from gradopt.lowering.interpreter import run_function

import gradopt

BODIES = {
    "there and back": """  %a = hl.cast %x : (tensor<64xf32>) -> tensor<64xE>
  %y = hl.cast %a : (tensor<64xE>) -> tensor<64xf32>""",
    "and added to": """  %a = hl.cast %x : (tensor<64xf32>) -> tensor<64xE>
  %b = hl.cast %a : (tensor<64xE>) -> tensor<64xf32>
  %y = hl.subtract %x, %b : tensor<64xf32>""",
    "of one format in the other": """  %a = hl.cast %x : (tensor<64xf32>) -> tensor<64xE>
  %b = hl.cast %a : (tensor<64xE>) -> tensor<64xbf16>
  %c = hl.cast %b : (tensor<64xbf16>) -> tensor<64xf16>
  %y = hl.cast %c : (tensor<64xf16>) -> tensor<64xf32>""",
    "of integers": """  %i = hl.cast %x : (tensor<64xf32>) -> tensor<64xi32>
  %a = hl.cast %i : (tensor<64xi32>) -> tensor<64xE>
  %y = hl.cast %a : (tensor<64xE>) -> tensor<64xf32>""",
}


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("name", BODIES)
def test_a_cast_in_a_kernel_rounds(name: str, element: str) -> None:
    text = f"func.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {{\n{BODIES[name]}\n  return %y : tensor<64xf32>\n}}"
    module = gradopt.parse(text.replace("xE>", f"x{element}>"))
    x = np.random.default_rng(0).normal(scale=3000, size=64).astype(np.float32)
    x[:4] = np.nan, np.inf, -0.0, np.finfo(np.float32).max
    if name == "of integers":
        x[:4] = 65535, 65519, 4097, -4099  # NaN and infinities have no integer; to the largest numbers of f16, and between two of bf16
    (expected,) = run_function(module, "f", [x])
    found = gradopt.compile(module, "f")(x)
    np.testing.assert_array_equal(found, expected)
    assert np.any(found != x)
