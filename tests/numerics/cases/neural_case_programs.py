"""The programs of the rows of `gradients.jsonl` about neural-network ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from case_programs import Array, Case, const, named, second, total
from gradopt.ir.builder import Builder
from gradopt.ir.values import Value

NAN = np.nan


def summed(name: str, **attributes: Any) -> Callable[..., Value]:
    """sum(op(operands)) of the first result."""
    return lambda b, *operands: total(b, plain(name, **attributes)(b, *operands))


def plain(name: str, **attributes: Any) -> Callable[..., Value]:
    """op(operands), the first result."""
    return lambda b, *operands: b.create(f"hl.{name}", list(operands), **attributes).results[0]


def nll(targets: Any, **attributes: Any) -> Callable[..., Value]:
    """The mean loss of log-probabilities."""
    return lambda b, p: b.hl.nll_loss(p, const(b, np.array(targets)), **attributes)


def cross_entropy(b: Builder, x: Value) -> Value:
    """Class 0 is ignored among the targets, and stays in the softmax."""
    return nll([1], ignore_index=0)(b, b.hl.log_softmax(x))


def masked_attention(b: Builder, q: Value, mask: Value) -> Value:
    return b.hl.attention(q, q, q, mask, num_heads=1, head_dim=1, mask_kind="custom")


def evaluated_batch_norm(b: Builder, x: Value, gamma: Value, mean: Value, variance: Value) -> Value:
    return summed("batch_norm", layout="NC", eps=1e-5)(b, x, gamma, mean, mean, variance)


def layer_norm_of_one(b: Builder, x: Value, w: Value, shift: Value) -> Value:
    return total(b, b.hl.layer_norm(x, w, shift))


def counted(*shape: int, start: float = 0) -> Array:
    """start, start + 1, …"""
    return start + np.arange(np.prod(shape), dtype=np.float64).reshape(shape)


ONE_STEP = {"ste": "clipped", "scale_mode": "fixed"}
DELTA = np.eye(9)[4].reshape(1, 1, 3, 3)
NEURAL_CASES: dict[str, Case] = {
    "AD082": Case(masked_attention, [np.ones((1, 1, 1, 1)), np.array([[False]])], "value"),
    "AD084": Case(cross_entropy, [np.ones((1, 3))]),
    "AD086": Case(nll([-4]), [np.zeros((1, 5))], "error"),
    "AD088": Case(nll([0, -100]), [np.array([[-1.0, -2], [-3, -4]])]),
    "AD091": Case(summed("fake_quantize", bits=4, **ONE_STEP), [np.array([7.3, 6.9, -8.4, 10]), np.array(1.0)]),
    "AD093": Case(summed("fake_quantize", bits=8, **ONE_STEP), [np.array([100.0, 200]), np.array(1.0)]),
    "AD094": Case(plain("fake_quantize", axis=0), [np.array([[1.0, -2], [0, 0]])], "vjp", [np.ones((2, 2))],
                  named(out=0, dx_identity=1)),
    "AD110": Case(summed("conv2d", strides=[2, 2], padding=[[1, 1], [1, 1]], groups=2), [counted(1, 2, 4, 4), counted(2, 1, 3, 3)],
                  pick=second),
    "AD112": Case(plain("conv2d"), [counted(2, 1, 2, 2), np.ones((2, 1, 1, 1))], "vjp", [counted(2, 2, 2, 2)],
                  lambda y, dx, dw: dw),
    "AD113": Case(plain("conv2d", padding=[[1, 1], [1, 1]]), [np.zeros((1, 1, 3, 3)), counted(1, 1, 3, 3, start=1)], "vjp", [DELTA],
                  lambda y, dx, dw: dx),
    "AD114": Case(summed("conv2d", dilation=[2, 2]), [counted(1, 1, 5, 5), np.ones((1, 1, 3, 3))], pick=named(dx=0, dw=1)),
    "AD115": Case(summed("avg_pool2d", pool_size=[1, 2], strides=[1, 2], ceil_mode=True, count_include_pad=True),
                  [counted(1, 1, 1, 5, start=1)]),
    "AD117": Case(plain("avg_pool2d", pool_size=[2, 2], strides=[3, 3], ceil_mode=True), [counted(1, 1, 7, 7)], "value"),
    "AD119": Case(plain("max_pool2d", pool_size=[1, 2]), [np.array([[[[NAN, 0]]]])], "value"),
    "AD121": Case(evaluated_batch_norm, [np.array([[7.0]]), *map(np.array, ([1.0], [0.0], [1.0]))]),
    "AD123": Case(layer_norm_of_one, [np.array([[1e6]], np.float32), np.array([2], np.float32), np.array([3], np.float32)],
                  pick=lambda dx, dw, dshift: [dw, dx]),
    "AD124": Case(plain("rms_norm", eps=0.0), [np.array([[1.0, 2, 3, 4]]), np.ones(4)], "vjp", [np.array([[1.0, 0, 0, 0]])],
                  lambda y, dx, dgamma: dx),
    "AD125": Case(plain("group_norm", num_groups=1), [counted(2, 2, 1, 1), np.ones(2), np.zeros(2)], "vjp", [counted(2, 2, 1, 1)],
                  lambda y, dx, dgamma, dbeta: dbeta),
    "AD126": Case(lambda b, x: total(b, b.hl.softmax_cross_entropy(x, const(b, np.array([1, 3])))), [np.zeros((2, 4))]),
    "AD160": Case(lambda b, x, matrix: total(b, b.hl.warp_affine(x, matrix, result_types=[x.type])), [counted(2, 3, 3, 1), np.tile(np.eye(2, 3), (2, 1, 1))],
                  pick=lambda dx, dmat: np.unique(dx)),
}
