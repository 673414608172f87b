"""Library kernels where sizes are names: one program serves several sizes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from gradopt.ir.sizes import named_size
from gradopt.ir.types import F32, I32, tensor
from gradopt.lowering.interpreter import run_region

sys.path.insert(0, str(Path(__file__).parent))
from library_harness import compiled, function_of

RNG = np.random.default_rng(9)
N, M = named_size("n"), named_size("m")
CONV = {"strides": [1, 1], "padding": [[1, 1], [1, 1]], "lhs_dilation": [1, 1], "rhs_dilation": [1, 1]}
HEADS = {"num_heads": 2, "head_dim": 8, "mask_kind": "causal"}


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


PROGRAMS = {
    "scatter": ([[N, 12], (M,), [M, 12]], lambda b, x, i, u: b.create("prim.scatter", [x, i, u], axis=0, kind="add", mode="wrap"),
                lambda n, m: (floats(n, 12), RNG.integers(-50, 50, m).astype(np.int32), floats(m, 12))),
    "scatter_nd": ([[N, 5, 3], (M, 2), [M, 3]], lambda b, x, i, u: b.create("prim.scatter_nd", [x, i, u], kind="max", mode="fill"),
                   lambda n, m: (floats(n, 5, 3), RNG.integers(-9, 9, (m, 2)).astype(np.int32), floats(m, 3))),
    "cumulative_row": ([[M, N]], lambda b, x: b.create("prim.cumulative", [x], kind="sum", axis=1), lambda n, m: (floats(m, n),)),
    "cumulative_column": ([[M, N]], lambda b, x: b.create("prim.cumulative", [x], kind="max", axis=0, reverse=True),
                          lambda n, m: (floats(m, n),)),
    "sort": ([[N, M]], lambda b, x: b.create("prim.sort", [x], axis=0), lambda n, m: (floats(n, m),)),
    "cholesky": ([[N, 4, 4]], lambda b, a: b.create("prim.cholesky", [a]), lambda n, m: (floats(n, 4, 4) * 0.1 + 2 * np.eye(4, dtype="f4"),)),
    "triangular_solve": ([[N, N], [N, M]], lambda b, a, y: b.create("prim.triangular_solve", [a, y]),
                         lambda n, m: (floats(n, n) * 0.02 + 2 * np.eye(n, dtype="f4"), floats(n, m))),
    "conv": ([[N, 3, 9, 9], [17, 3, 3, 3]], lambda b, x, w: b.create("prim.conv", [x, w], **CONV), lambda n, m: (floats(n, 3, 9, 9), floats(17, 3, 3, 3))),
    "conv_channels": ([[4, N, 9, 9], [6, N, 7, 7]], lambda b, x, w: b.create("prim.conv", [x, w], **CONV),
                      lambda n, m: (floats(4, n, 9, 9), floats(6, n, 7, 7) * 0.1)),
    "conv_image": ([[2, 3, N, M], [4, 3, 3, 3]], lambda b, x, w: b.create("prim.conv", [x, w], **CONV),
                   lambda n, m: (floats(2, 3, n, m), floats(4, 3, 3, 3))),
    "attention": ([[2, 2, N, 8], [2, 2, M, 8], [2, 2, M, 8]], lambda b, q, k, v: b.create("kernel.attention", [q, k, v], **HEADS),
                  lambda n, m: (floats(2, 2, n, 8), floats(2, 2, m, 8), floats(2, 2, m, 8))),
    "max_pool": ([[N, 3, 8, 8]], lambda b, x: b.create("kernel.max_pool2d", [x], pool_size=[2, 2], strides=[2, 2]),
                 lambda n, m: (floats(n, 3, 8, 8),)),
}


def test_attention_backward_of_dynamic_lengths():
    types = [tensor([N, 2, M, 8], F32)] * 4

    def body(b, q, k, v, dy):
        y, lse = b.create("kernel.attention", [q, k, v], **HEADS).results
        return b.create("kernel.attention_backward", [q, k, v, dy, y, lse], wrt=[0, 1, 2], **HEADS).results

    _compare(types, body, lambda n, m: tuple(floats(n, 2, m, 8) for _ in range(4)), 1e-4)


@pytest.mark.parametrize("shape", [[N, 2, M, M], [M, M], [1, 2, M, 1], [1, 1, 1, M], [N, 2, 1, 1]])
def test_gradient_of_a_bias_of_dynamic_lengths(shape):
    types, heads = [*[tensor([N, 2, M, 8], F32)] * 4, tensor(shape, F32)], {**HEADS, "mask_kind": "bias"}

    def body(b, q, k, v, dy, bias):
        y, lse = b.create("kernel.attention", [q, k, v, bias], **heads).results
        return b.create("kernel.attention_backward", [q, k, v, dy, y, lse, bias], wrt=[0, 3], **heads).results

    _compare(types, body, lambda n, m: (*(floats(n, 2, m, 8) for _ in range(4)), floats(*({N: n, M: m}.get(size, size) for size in shape))), 2e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_dynamic(name):
    shapes, body, make = PROGRAMS[name]
    types = [tensor(list(shape), I32 if isinstance(shape, tuple) else F32) for shape in shapes]
    _compare(types, lambda b, *values: body(b, *values).results, make, 2e-4)


def _compare(types, body, make, tolerance):
    reference, run = function_of(types, body), compiled(function_of(types, body))
    for n, m in ((1, 1), (7, 40), (100, 33)):
        arrays = make(n, m)
        with np.errstate(all="ignore"):
            expected = run_region(reference.regions[0], list(arrays))
        found = run(*arrays)
        for one, other in zip(found if isinstance(found, tuple) else (found,), expected):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
