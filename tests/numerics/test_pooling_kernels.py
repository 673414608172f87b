"""The kernels of maximum pooling against the NumPy meaning, and their adjoint against `bwd.max_pool2d`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from gradopt.dialects.arrays import numpy_dtype
from gradopt.ir.types import BF16, F16, F32, F64, tensor

sys.path.insert(0, str(Path(__file__).parent))
from gradopt.lowering.interpreter import run_region
from library_harness import check, function_of, run_both

RNG = np.random.default_rng(5)
CASES = [
    ((2, 3, 8, 8), {"pool_size": [2, 2], "strides": [2, 2]}),
    ((2, 3, 9, 11), {"pool_size": [2, 2], "strides": [2, 2]}),
    ((2, 3, 9, 40), {"pool_size": [3, 3], "strides": [2, 2], "padding": [[1, 1], [1, 1]]}),
    ((1, 5, 7, 6), {"pool_size": [3, 2], "strides": [1, 1], "dilation": [2, 3]}),
    ((2, 2, 7, 7), {"pool_size": [3, 3], "strides": [2, 2], "ceil_mode": True, "padding": [[1, 0], [0, 1]]}),
    ((1, 2, 4, 4), {"pool_size": [2, 2], "strides": [3, 3], "padding": [[3, 3], [3, 3]]}),
    ((1, 2, 20, 20), {"pool_size": [17, 17]}),
    ((2, 1, 6, 6), {"pool_size": [6, 6]}),
    ((0, 2, 6, 6), {"pool_size": [2, 2]}),
]


def image(shape, layout, element, ties=True):
    stored = tuple(shape["NCHW".index(letter)] for letter in layout)
    x = RNG.standard_normal(stored)
    if ties:
        x = np.round(x * 2)
        x[RNG.random(stored) < 0.05] = np.nan
        x[RNG.random(stored) < 0.1] = -np.inf
    return tensor(stored, element), x.astype(numpy_dtype(element))


def both(case, layout, element):
    shape, options = CASES[case]
    options = {**options, "layout": layout}
    type, x = image(shape, layout, element)
    check([type], lambda b, x: b.create("kernel.max_pool2d", [x], **options).results, [x])
    y_type = function_of([type], lambda b, x: b.create("hl.max_pool2d", [x], **options).results).regions[0].block.last.operands[0].type
    dy = RNG.standard_normal(y_type.shape).astype(numpy_dtype(element))

    def adjoint(b, x, dy):
        position = b.create("kernel.max_pool2d", [x], **options).results[1]
        return b.create("kernel.max_pool2d_backward", [dy, position], [type], **options).results

    found, expected = run_both([type, y_type], adjoint, [x, dy])
    reference = function_of([type, y_type], lambda b, x, dy: b.create("bwd.max_pool2d", [x, dy], **options).results)
    wanted = run_region(reference.regions[0], [x, dy])[0].astype(np.float64)
    tolerance = {"f16": 2e-3, "bf16": 2e-2, "f32": 1e-6, "f64": 1e-14}[element.text]
    np.testing.assert_allclose(found[0].astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(expected[0].astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_max_pool(case, layout):
    both(case, layout, F32)


@pytest.mark.parametrize("element", [F16, BF16, F64])
def test_max_pool_elements(element):
    both(2, "NCHW", element)
    both(4, "NHWC", element)
