"""Lanes that are cut off (semantics 0.3): sqrt has an infinite slope at 0, which a zero cotangent has to win against."""

from __future__ import annotations

import numpy as np
import pytest
from neural_support import run

import gradopt

INF = np.inf

# name -> (op on %s = sqrt(%x), shape of x, shape of the result, x, gradient)
CUT_OFF = {
    "max_pool2d": ("hl.max_pool2d %s {pool_size = [1, 2]}", "1x1x1x2", "1x1x1x1", [0.0, 4.0], [0.0, 0.25]),
    "avg_pool2d": ("hl.avg_pool2d %s {pool_size = [1, 1], strides = [1, 2]}", "1x1x1x3", "1x1x1x2", [4.0, 0.0, 4.0],
                   [0.25, 0, 0.25]),
    "conv2d": ("hl.conv2d %s, %w {strides = [1, 2]}", "1x1x1x3", "1x1x1x2", [4.0, 0.0, 4.0], [0.5, 0, 0.5]),
    "nll_loss": ('hl.nll_loss %s, %t {reduction = "sum"}', "1x2", "", [0.0, 4.0], [0.0, -0.25]),
    "fake_quantize": ('hl.fake_quantize %s, %c {ste = "clipped", scale_mode = "fixed"}', "2", "2", [0.0, 4e4], [INF, 0.0]),
    "warp_affine": ('hl.warp_affine %s, %m {imode = "nearest"}', "1x1x2x1", "1x1x1x1", [0.0, 4.0], [0.0, 0.25]),
    "attention": ('hl.attention %q, %q, %s, %k {num_heads = 1, head_dim = 1, mask_kind = "custom"}', "1x1x2x1", "1x1x2x1",
                  [0.0, 4.0], [0.0, 0.5]),
}
EXTRA = {
    "w": (np.full((1, 1, 1, 1), 2.0), "tensor<1x1x1x1xf64>"),
    "t": (np.array([1]), "tensor<1xi64>"),
    "c": (np.array(1.0), "tensor<f64>"),
    "k": (np.array([[False, True]]), "tensor<1x2xi1>"),
    "m": (np.array([[[1.0, 0, 1], [0, 1, 0]]]), "tensor<1x2x3xf64>"),
    "q": (np.ones((1, 1, 2, 1)), "tensor<1x1x2x1xf64>"),
}


@pytest.mark.parametrize("name", CUT_OFF)
@pytest.mark.parametrize("passes", ["{ad}", "{ad},decompose", "decompose,{ad}"])
def test_what_was_not_read_contributes_nothing(name: str, passes: str) -> None:
    op, shape, result, values, expected = CUT_OFF[name]
    head, _, attributes = op.partition(" {")
    used = [letter.strip(" %,") for letter in head.split("%")[1:]]
    extra = sorted(set(used) - {"s"})
    x, y = f"tensor<{shape}xf64>", f"tensor<{result}{'x' if result else ''}f64>"
    types = ", ".join(x if letter == "s" else EXTRA[letter][1] for letter in used)
    arguments = ", ".join([f"%x: {x}", *(f"%{letter}: {EXTRA[letter][1]}" for letter in extra)])
    text = (f"func.func @f({arguments}) -> {y} {{\n  %s = prim.sqrt %x : {x}\n"
            f"  %y = {head} {{{attributes} : ({types}) -> {y}\n  return %y : {y}\n}}\n")
    module = gradopt.parse(text)
    gradopt.run_passes(module, passes.format(ad='autodiff{func=f mode=vjp wrt=x}'))
    operands = [np.array(values).reshape([int(size) for size in shape.split("x")]), *(EXTRA[letter][0] for letter in extra)]
    dy = np.ones([int(size) for size in result.split("x")] if result else [])
    np.testing.assert_allclose(run(module, [*operands, dy], "f_vjp")[1].reshape(-1), expected, 1e-9)
