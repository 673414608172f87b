"""Branches of which each example of a batch takes its own: all are computed, but nothing fails or hangs for an example that does not
take them."""

from __future__ import annotations

import numpy as np
import pytest
from gradopt.ir.operation import Operation
from gradopt.lowering.interpreter import run_function

import gradopt

S, N = "tensor<f64>", "tensor<i64>"
CHECKED = f"""func.func @f(%p: tensor<i1>, %x: {S}, %w: {S}) -> {S} {{
  %r = prim.if %p, %x, %w ({{
  ^bb0(%a: {S}, %b: {S}):
    %c = func.call @root(%a) : ({S}) -> {S}
    %d = prim.mul %c, %b : {S}
    prim.yield %d : ({S}) -> ()
  }}, {{
  ^bb0(%a: {S}, %b: {S}):
    prim.yield %a : ({S}) -> ()
  }}) : (tensor<i1>, {S}, {S}) -> {S}
  return %r : {S}
}}
func.func private @root(%x: {S}) -> {S} {{
  %z = prim.constant dense<0.0> : {S}
  %c = prim.cmp %x, %z {{predicate = "gt"}} : ({S}, {S}) -> tensor<i1>
  prim.check %c {{message = "x must be positive"}} : (tensor<i1>) -> ()
  %y = prim.sqrt %x : {S}
  return %y : {S}
}}
"""
HALVED = f"""func.func @f(%i: {N}, %x: {S}) -> {S} {{
  %r = prim.switch %i, %x ({{
  ^bb0(%a: {S}):
    prim.yield %a : ({S}) -> ()
  }}, {{
  ^bb0(%a: {S}):
    %h = prim.while %a {{num_carry = 1, max_trip_count = 6}} ({{
    ^bb1(%b: {S}):
      %one = prim.constant dense<1.0> : {S}
      %c = prim.cmp %b, %one {{predicate = "gt"}} : ({S}, {S}) -> tensor<i1>
      prim.yield %c : (tensor<i1>) -> ()
    }}, {{
    ^bb1(%b: {S}):
      %half = prim.constant dense<0.5> : {S}
      %c = prim.mul %b, %half : {S}
      prim.yield %c : ({S}) -> ()
    }}) : ({S}) -> {S}
    prim.yield %h : ({S}) -> ()
  }}, {{
  ^bb0(%a: {S}):
    %s = prim.sin %a : {S}
    prim.yield %s : ({S}) -> ()
  }}) : ({N}, {S}) -> {S}
  return %r : {S}
}}
"""


def batches(text: str, function: str, size: str, axes: str, passes: str = "") -> Operation:
    """The module with the batch of a function."""
    module = gradopt.parse(text)
    gradopt.run_passes(module, f"{passes}batch{{func={function} size={size} axes={axes}}}")
    return module


@pytest.mark.parametrize("size", ["3", "n"])
def test_a_check_holds_only_for_examples_that_take_its_branch(size: str) -> None:
    """With values, with derivatives, where no example takes the branch, and where one does that fails."""
    module = batches(CHECKED, "f", size, "0,0,-")
    x, w = np.array([-4.0, 9.0, -1.0]), np.asarray(2.0)
    compiled = gradopt.compile(module, "f_batch")
    for taken, expected in (([False, True, False], [-4.0, 6.0, -1.0]), ([False, False, False], x)):
        mask = np.array(taken)
        np.testing.assert_array_equal(compiled(mask, x, w), expected)
        np.testing.assert_array_equal(run_function(module, "f_batch", [mask, x, w])[0], expected)
    with pytest.raises(gradopt.GradoptRuntimeError, match="x must be positive"):
        compiled(np.array([True, True, False]), x, w)
    gradients = batches(CHECKED, "f_vjp", size, "0,0,-,0", "autodiff{func=f mode=vjp},")
    found = gradopt.compile(gradients, "f_vjp_batch")(np.array([False, True, False]), x, w, np.ones(3))
    np.testing.assert_allclose(found[1], [1, 2 / 6, 1])
    np.testing.assert_allclose(found[2], [0, 3, 0])


@pytest.mark.parametrize("size", ["4", "n"])
def test_a_loop_ends_for_examples_that_do_not_take_its_branch(size: str) -> None:
    """1e9 takes thirty halvings, and six are allowed: but it takes another branch."""
    module = batches(HALVED, "f", size, "0,0")
    numbers, x = np.array([-2, 1, 7, 0]), np.array([1e9, 40.0, 1e9, 3.0])
    expected = [1e9, 0.625, np.sin(1e9), 3.0]
    np.testing.assert_allclose(run_function(module, "f_batch", [numbers, x])[0], expected, rtol=1e-12)
    np.testing.assert_allclose(gradopt.compile(module, "f_batch")(numbers, x), expected, rtol=1e-12)
    gradients = batches(HALVED, "f_grad", size, "0,0", "autodiff{func=f},")
    np.testing.assert_allclose(gradopt.compile(gradients, "f_grad_batch")(numbers, x), [1, 2.0 ** -6, np.cos(1e9), 1], rtol=1e-9)
