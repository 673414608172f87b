"""Everything that the four systems name which gradopt began with is here, is differentiated and compiled.

The generated tests of the tensor and neural-network ops (see `test_coverage.py`) do that for theirs; what is left, the primitive
operations and those of control, is one program here, a result an operation.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gradopt.dialects.origins import ORIGINS
from gradopt.ir.dialect import operation_class
from gradopt.lowering.interpreter import run_function

import gradopt

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]
from test_coverage import NEURAL_OPERATIONS, TENSOR_OPERATIONS  # noqa: E402

T, S, INTEGERS, B = "tensor<2x3xf64>", "tensor<f64>", "tensor<2x3xi64>", "tensor<2x3xi1>"
IMAGE, KERNEL = "tensor<1x1x2x3xf64>", "tensor<1x1x1x2xf64>"
AS_IMAGE = f"%i = prim.reshape %x : ({T}) -> {IMAGE}\n  "
SCAN = f"""%r = {{dialect}}.scan %x {{{{length = 3, num_carry = 1}}}} ({{{{
  ^bb0(%c: {T}):
    %n = prim.sin %c : {T}
    {{dialect}}.yield %n : {T}
  }}}}) : ({T}) -> {T}"""

V = "tensor<3xf64>"
ADJOINT = f"""%c = prim.reduce %x {{{{axes = [0], kind = "sum"}}}} : ({T}) -> {V}
  {{results}} = {{name}} %c, %x, %w, %c {{{{length = 2, num_carry = 1, num_xs = 1{{wrt}}}}}} ({{{{
  ^bb0(%a: {V}, %t: {V}):
    %n = prim.mul %a, %t : {V}
    prim.yield %n : {V}
  }}}}, {{{{
  ^bb0(%a: {V}, %t: {V}, %d: {V}):
    %da = prim.mul %d, %t : {V}
    %dt = prim.mul %d, %a : {V}
    prim.yield %da, %dt : {V}, {V}
  }}}}) : ({V}, {T}, {T}, {V}) -> {{types}}"""


def unary(name: str, result: str = T, attributes: str = "") -> str:
    """%r = op(%x)."""
    return f"%r = {name} %x {attributes} : ({T}) -> {result}"


def binary(name: str, result: str = T, attributes: str = "") -> str:
    """%r = op(%x, %w)."""
    return f"%r = {name} %x, %w {attributes} : ({T}, {T}) -> {result}"


# an operation -> how %r is computed from %x, and the type of %r
PROGRAMS: dict[str, tuple[str, str]] = {
    **{name: (unary(name), T) for name in (
        "prim.recip", "prim.sin", "prim.log2", "prim.exp2", "prim.sqrt", "prim.contiguous", "prim.copy", "prim.barrier",
        "prim.stop_gradient", "hl.stop_gradient", "hl.contiguous_backward")},
    "hl.copy": (unary("hl.copy", T, '{device = "a"}'), T),
    **{name: (binary(name), T) for name in ("prim.add", "prim.mul", "prim.pow", "prim.max")},
    "prim.cast": (f"%q = prim.cast %x : ({T}) -> tensor<2x3xf32>\n  %r = prim.cast %q : (tensor<2x3xf32>) -> {T}", T),
    "prim.bitcast": (f"%q = prim.bitcast %x : ({T}) -> {INTEGERS}\n  %r = prim.bitcast %q : ({INTEGERS}) -> {T}", T),
    "prim.cmp": (f'%q = prim.cmp %x, %w {{predicate = "lt"}} : ({T}, {T}) -> {B}\n  %r = prim.cast %q : ({B}) -> {T}', T),
    "prim.select": (f'%q = prim.cmp %x, %w {{predicate = "ne"}} : ({T}, {T}) -> {B}\n  %r = prim.select %q, %x, %w : ({B}, {T}, {T}) -> {T}', T),
    "prim.reduce": (unary("prim.reduce", "tensor<3xf64>", '{axes = [0], kind = "sum"}'), "tensor<3xf64>"),
    "prim.reshape": (unary("prim.reshape", "tensor<6xf64>"), "tensor<6xf64>"),
    "prim.expand": (unary("prim.expand", "tensor<2x4x3xf64>", "{axes = [1]}"), "tensor<2x4x3xf64>"),
    "prim.pad": (f"%r = prim.pad %x, %s {{high = [1, 0], interior = [0, 0], low = [0, 2]}} : ({T}, {S}) -> tensor<3x5xf64>", "tensor<3x5xf64>"),
    "prim.slice": (unary("prim.slice", "tensor<1x2xf64>", "{begin = [1, 0], end = [2, 3], strides = [1, 2]}"), "tensor<1x2xf64>"),
    "prim.permute": (unary("prim.permute", "tensor<3x2xf64>", "{axes = [1, 0]}"), "tensor<3x2xf64>"),
    "prim.flip": (unary("prim.flip", T, "{axes = [1]}"), T),
    "prim.conv": (AS_IMAGE + "%k = prim.slice %i {begin = [0, 0, 0, 1], end = [1, 1, 1, 3], strides = [1, 1, 1, 1]} : "
                  f"({IMAGE}) -> {KERNEL}\n  %r = prim.conv %i, %k {{lhs_dilation = [1, 1], padding = [[0, 0], [1, 0]], rhs_dilation = [1, 1], "
                  f"strides = [1, 1]}} : ({IMAGE}, {KERNEL}) -> {IMAGE}", IMAGE),
    "prim.unfold": (AS_IMAGE + "%r = prim.unfold %i {dilation = [1, 1], kernel = [2, 2], padding = [[0, 0], [0, 0]], strides = [1, 1]} : "
                    f"({IMAGE}) -> tensor<2x4xf64>", "tensor<2x4xf64>"),
    "prim.scan": (SCAN.format(dialect="prim"), T),
    "hl.scan": (SCAN.format(dialect="hl"), T),
    "bwd.scan": (ADJOINT.format(name="bwd.scan", results="%q, %r", wrt="", types=f"({V}, {T})"), T),
    "bwd.scan_xs": (ADJOINT.format(name="bwd.scan_xs", results="%r", wrt=", wrt = [1]", types=T), T),
    "prim.call": (unary("prim.call", T, "{callee = @square}"), T),
    "func.call": (f"%q, %r = func.call @two(%x) : ({T}) -> ({T}, {T})", T),
    "ad.grad": (f"%r = ad.grad @loss(%x) : ({T}) -> {T}", T),
    "ad.value_and_grad": (f"%q, %r = ad.value_and_grad @loss(%x) : ({T}) -> ({S}, {T})", T),
    "hl.checkpoint_begin": (f"%q = hl.checkpoint_begin %x : {T}\n  %e = hl.sin %q : {T}\n  %r = hl.checkpoint_end %e : {T}", T),
    "hl.shard": (f'%q:2 = hl.shard %x {{axis = 0, devices = ["a", "b"]}} : ({T}) -> (tensor<1x3xf64>, tensor<1x3xf64>)\n  '
                 f"%e = hl.sin %q#1 : tensor<1x3xf64>\n  %r = hl.unshard %q#0, %e {{axis = 0}} : (tensor<1x3xf64>, tensor<1x3xf64>) -> {T}", T),
}  # fmt: skip
WITHIN = {"hl.checkpoint_end": "hl.checkpoint_begin", "hl.unshard": "hl.shard", "func.return": "func.call"}
CUT_OFF = {"prim.bitcast", "prim.stop_gradient", "hl.stop_gradient", "prim.cmp"}  # whose derivative is 0 by declaration
HELPERS = f"""
func.func private @square(%x: {T}) -> {T} {{
  %y = prim.mul %x, %x : {T}
  return %y : {T}
}}
func.func private @two(%x: {T}) -> ({T}, {T}) {{
  %y = prim.exp %x : {T}
  return %x, %y : {T}, {T}
}}
func.func private @loss(%x: {T}) -> {S} {{
  %y = prim.sin %x : {T}
  %s = prim.reduce %y {{axes = [0, 1], kind = "sum"}} : ({T}) -> {S}
  return %s : {S}
}}
"""
OURS = [(system, theirs, name) for system, names in ORIGINS.items() for theirs, ours in names.items() for name in ours.split()]


def program(name: str) -> str:
    """The function @f(%x, %w) of one operation."""
    body, result = PROGRAMS[name]
    scalar = f"  %s = prim.constant dense<1.5> : {S}\n" if "%s" in body else ""
    return f"{HELPERS}func.func @f(%x: {T}, %w: {T}) -> {result} {{\n{scalar}  {body}\n  return %r : {result}\n}}\n"


@pytest.mark.parametrize(("system", "theirs", "name"), OURS)
def test_it_is_here_and_tested(system: str, theirs: str, name: str) -> None:
    assert operation_class(name) is not None
    assert name in {*TENSOR_OPERATIONS, *NEURAL_OPERATIONS, *PROGRAMS} or WITHIN[name] in PROGRAMS


def directions(name: str) -> tuple[Any, Any, Any, Any]:
    """(x, w, a direction of each): multiples of 1/8, which stay exact in f32."""
    random = np.random.default_rng(len(name))
    x, w = (random.integers(5, 12, (2, 3)) / 8 for _ in range(2))
    return x, w + (x == w) / 8, random.integers(-4, 5, (2, 3)) / 8, random.integers(-4, 5, (2, 3)) / 8


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_differentiated_and_compiled(name: str) -> None:
    """Values against the NumPy meaning, the forward derivative against differences, the reverse one against the forward one."""
    text = program(name)
    x, w, dx, dw = directions(name)
    module = gradopt.parse(text)
    assert any(op.name == name for op in module.walk())
    if not name.startswith("ad."):
        gradopt.run_passes(module, "inline,decompose")
        [expected] = run_function(module, "f", [x, w])
        np.testing.assert_allclose(gradopt.compile(text, "f")(x, w), expected, rtol=1e-14)
    value = gradopt.compile(text, "f")
    step = 2.0**-10
    difference = (value(x + step * dx, w + step * dw) - value(x - step * dx, w - step * dw)) / (2 * step)
    _, tangent = gradopt.compile(text, "f_jvp")(x, w, dx, dw)
    if name in CUT_OFF:
        assert not tangent.any()
    else:
        np.testing.assert_allclose(tangent, difference, rtol=2e-5, atol=2e-5)
    dy = np.random.default_rng(1).integers(-8, 9, tangent.shape) / 8
    _, gx, gw = gradopt.compile(text, "f_vjp")(x, w, dy)
    np.testing.assert_allclose((gx * dx).sum() + (gw * dw).sum(), (dy * tangent).sum(), rtol=1e-12, atol=1e-13)
