"""Kernels of `prim.conv` and of the convolutions' adjoints against their NumPy meaning."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from gradopt.ir.types import BF16, F16, F32, F64, tensor

sys.path.insert(0, str(Path(__file__).parent))
from library_harness import check, random_array

RNG = np.random.default_rng(11)
ROUNDING = {"f16": 4e-3, "bf16": 3e-2, "f32": 2e-5, "f64": 1e-12}


def conv_case(x, w, strides=None, padding=None, lhs=None, rhs=None, groups=1, element=F32):
    spatial = len(x) - 2
    ones = [1] * spatial
    types = [tensor(x, element), tensor(w, element)]
    arrays = [random_array(RNG, type) for type in types]
    attributes = {"strides": strides or ones, "padding": padding or [[0, 0]] * spatial, "lhs_dilation": lhs or ones,
                  "rhs_dilation": rhs or ones, "groups": groups}
    scale = max(1, np.prod(w[1:])) ** 0.5
    arrays[1] = (arrays[1] / scale).astype(arrays[1].dtype)
    check(types, lambda b, x, w: b.create("prim.conv", [x, w], **attributes).results, arrays, ROUNDING[element.text])


CASES = [
    ((2, 3, 9, 9), (5, 3, 3, 3), {}),
    ((2, 3, 9, 9), (5, 3, 3, 3), {"padding": [[1, 1], [1, 1]]}),
    ((2, 3, 9, 11), (5, 3, 3, 2), {"padding": [[2, 0], [0, 3]], "strides": [2, 1]}),
    ((2, 3, 9, 11), (5, 3, 3, 2), {"padding": [[-1, 2], [1, -2]], "strides": [1, 2]}),
    ((1, 4, 12, 30), (33, 4, 5, 5), {"padding": [[2, 2], [2, 2]]}),
    ((3, 8, 14, 14), (64, 8, 5, 5), {"padding": [[2, 2], [2, 2]]}),
    ((2, 1, 28, 28), (32, 1, 5, 5), {"padding": [[2, 2], [2, 2]]}),
    ((2, 6, 10, 10), (9, 2, 3, 3), {"groups": 3}),
    ((2, 7, 10, 40), (7, 1, 3, 3), {"groups": 7, "padding": [[1, 1], [1, 1]]}),
    ((2, 4, 9, 9), (8, 1, 3, 3), {"groups": 4, "rhs": [2, 2]}),
    ((2, 16, 7, 7), (20, 16, 1, 1), {}),
    ((2, 16, 8, 8), (20, 16, 1, 1), {"strides": [2, 2]}),
    ((2, 4, 5, 6), (3, 4, 3, 3), {"lhs": [2, 2], "padding": [[2, 2], [2, 3]]}),
    ((2, 4, 5, 6), (3, 4, 4, 3), {"lhs": [2, 3], "padding": [[1, 2], [2, 3]], "rhs": [1, 2], "strides": [1, 2]}),
    ((1, 2, 4, 4), (3, 2, 2, 2), {"lhs": [4, 4], "padding": [[1, 1], [1, 1]], "rhs": [2, 4]}),
    ((2, 3, 20), (4, 3, 5), {"padding": [[2, 2]]}),
    ((2, 3, 100), (40, 3, 5), {"strides": [3]}),
    ((2, 3, 5, 6, 7), (4, 3, 2, 3, 2), {"padding": [[1, 0], [1, 1], [0, 1]], "strides": [1, 2, 1]}),
    ((32, 10, 18, 18), (24, 10, 14, 14), {}),
    ((3, 70, 40, 40), (20, 70, 30, 30), {"padding": [[1, 1], [1, 1]]}),
    ((2, 0, 4, 4), (3, 0, 2, 2), {}),
    ((0, 3, 4, 4), (3, 3, 2, 2), {}),
    ((2, 3, 4, 4), (0, 3, 2, 2), {}),
    ((2, 3, 2, 4), (3, 3, 3, 2), {}),
    ((2, 3), (4, 3), {}),
    ((1, 3, 200, 31), (2, 3, 3, 3), {"padding": [[1, 1], [1, 1]]}),
    ((1, 40, 64, 64), (6, 40, 3, 3), {"padding": [[1, 1], [1, 1]]}),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_conv(case):
    x, w, options = CASES[case]
    conv_case(x, w, **options)


@pytest.mark.parametrize("element", [F16, BF16, F64])
@pytest.mark.parametrize("case", [1, 3, 4, 6, 8, 10, 13, 15, 17])
def test_conv_elements(case, element):
    x, w, options = CASES[case]
    conv_case(x, w, element=element, **options)


def test_conv_random_attributes():
    for _ in range(16):
        groups = int(RNG.integers(1, 4))
        x = (int(RNG.integers(1, 4)), groups * int(RNG.integers(1, 5)), int(RNG.integers(1, 12)), int(RNG.integers(1, 40)))
        w = (groups * int(RNG.integers(1, 20)), x[1] // groups, int(RNG.integers(1, 4)), int(RNG.integers(1, 4)))
        pairs = RNG.integers(-1, 4, (2, 2)).tolist()
        conv_case(x, w, RNG.integers(1, 4, 2).tolist(), pairs, RNG.integers(1, 4, 2).tolist(), RNG.integers(1, 3, 2).tolist(), groups)


def test_conv_keeps_nan_and_infinity_where_they_are():
    x = np.ones((1, 2, 8, 8), np.float32)
    x[0, 0, 2, 3], x[0, 1, 6, 6] = np.nan, np.inf
    w = np.ones((3, 2, 3, 3), np.float32)
    check([tensor(x.shape, F32), tensor(w.shape, F32)], lambda b, x, w: b.create(
        "prim.conv", [x, w], strides=[1, 1], padding=[[1, 1], [1, 1]], lhs_dilation=[1, 1], rhs_dilation=[1, 1]).results, [x, w], 1e-6)


LAYERS = [  # x, weight, attributes of hl.conv2d
    ((2, 3, 9, 9), (5, 3, 3, 3), {}),
    ((2, 3, 9, 9), (5, 3, 3, 3), {"padding": [[1, 1], [1, 1]]}),
    ((2, 4, 11, 9), (6, 2, 3, 2), {"padding": [[2, 0], [0, 1]], "strides": [2, 1], "groups": 2}),
    ((4, 8, 14, 14), (32, 8, 5, 5), {"padding": [[2, 2], [2, 2]]}),
    ((3, 5, 12, 13), (5, 1, 3, 3), {"padding": [[1, 1], [1, 1]], "groups": 5, "dilation": [2, 1]}),
    ((2, 3, 17, 17), (16, 3, 7, 7), {"padding": [[3, 3], [3, 3]], "strides": [2, 2]}),
    ((2, 3, 8, 8), (4, 3, 2, 2), {"strides": [3, 3]}),
    ((3, 8, 6, 6), (9, 8, 1, 1), {}),
    ((3, 40, 6, 7), (20, 40, 1, 1), {"strides": [2, 3]}),
    ((3, 8, 6, 6), (20, 4, 1, 1), {"groups": 2}),
    ((3, 5, 12, 33), (5, 1, 3, 4), {"padding": [[1, 0], [2, 1]], "groups": 5, "dilation": [2, 1]}),
]


def layer_case(case, kind, layout="NCHW", kernel_layout="OIHW", element=F32, result=None):
    from gradopt.dialects.hl.neural.common import layout_axes, permuted

    x, w, attributes = LAYERS[case]
    result = result or element
    strides, dilation, padding = (attributes.get(name, default) for name, default in (
        ("strides", [1, 1]), ("dilation", [1, 1]), ("padding", [[0, 0], [0, 0]])))
    counts = [(x[a + 2] + sum(padding[a]) - dilation[a] * (w[a + 2] - 1) - 1) // strides[a] + 1 for a in range(2)]
    places = [layout.index(letter) for letter in "NCHW"], [kernel_layout.index(letter) for letter in "OIHW"]

    def stored(dims, axes):
        return tuple(dims[axes.index(axis)] for axis in range(4))

    image, weight = stored(x, places[0]), stored(w, places[1])
    dy = stored((x[0], w[0], *counts), places[0])
    options = {**attributes, "layout": layout, "kernel_layout": kernel_layout}
    shapes = {"conv2d": (image, weight, dy), "conv2d_input": (dy, weight, image), "conv2d_weight": (image, dy, weight)}[kind]
    types = [tensor(shape, element) for shape in shapes[:2]]
    arrays = [random_array(RNG, type) for type in types]
    name = f"hl.{kind}" if kind == "conv2d" else f"bwd.{kind}"
    assert layout_axes(layout, "NCHW") and permuted
    check(types, lambda b, p, q: b.create(name, [p, q], [tensor(shapes[2], result)], **options).results, arrays,
          {"f32": 1e-4, "f64": 1e-11, "f16": 4e-3}[element.text])


@pytest.mark.parametrize("kind", ["conv2d", "conv2d_input", "conv2d_weight"])
@pytest.mark.parametrize("case", range(len(LAYERS)))
def test_layers(case, kind):
    layer_case(case, kind)
    layer_case(case, kind, "NHWC", "HWIO")


@pytest.mark.parametrize("kind", ["conv2d", "conv2d_input", "conv2d_weight"])
def test_layers_of_mixed_elements(kind):
    layer_case(1, kind, element=F64)
    layer_case(1, kind, element=F16)
    if kind == "conv2d":
        layer_case(1, kind, element=F16, result=F32)
        layer_case(3, kind, element=F32, result=F64)


@pytest.mark.parametrize("options", [{}, {"strides": [2, 2], "padding": [[1, 1], [1, 1]], "output_padding": [1, 1]},
                                     {"strides": [2, 3], "dilation": [2, 1], "groups": 2}])
def test_conv2d_transpose(options):
    groups = options.get("groups", 1)
    types = [tensor((2, 4, 5, 6), F32), tensor((4, 6 // groups, 3, 3), F32)]
    arrays = [random_array(RNG, type) for type in types]
    check(types, lambda b, x, w: b.create("hl.conv2d_transpose", [x, w], **options).results, arrays, 1e-4)


@pytest.mark.parametrize("spatial", [1, 3])
def test_layers_of_other_ranks(spatial):
    x, w = (2, 3, *[6, 7, 8][:spatial]), (4, 3, *[3, 2, 3][:spatial])
    counts = [a - b + 1 for a, b in zip(x[2:], w[2:])]
    for name, shapes in ((f"hl.conv{spatial}d", (x, w, (2, 4, *counts))), (f"bwd.conv{spatial}d_input", ((2, 4, *counts), w, x)),
                         (f"bwd.conv{spatial}d_weight", (x, (2, 4, *counts), w))):
        types = [tensor(shape, F32) for shape in shapes[:2]]
        check(types, lambda b, p, q: b.create(name, [p, q], [tensor(shapes[2], F32)]).results,
              [random_array(RNG, type) for type in types], 1e-4)
