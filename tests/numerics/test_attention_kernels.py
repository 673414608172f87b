"""The attention kernels against the NumPy meaning: layouts, masks, grouped heads, sizes, element types, and what must not leak."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from gradopt.dialects.arrays import numpy_dtype
from gradopt.ir.types import BF16, F16, F32, F64, I1, tensor

sys.path.insert(0, str(Path(__file__).parent))
from library_harness import check

import gradopt

RNG = np.random.default_rng(3)
ROUNDING = {"f16": 4e-3, "bf16": 3e-2, "f32": 1e-5, "f64": 1e-12}


def stored(layout, batch, heads, length, width):
    return {"BHSD": (batch, heads, length, width), "BSHD": (batch, length, heads, width), "BS(HD)": (batch, length, heads * width)}[layout]


def operands(batch=2, heads=2, key_heads=None, queries=5, keys=5, width=8, layout="BHSD", element=F32, mask=None,
             mask_kind="none"):
    """(types, arrays) of q, k, v and a mask."""
    key_heads = key_heads or heads
    shapes = [stored(layout, batch, heads, queries, width), *[stored(layout, batch, key_heads, keys, width)] * 2]
    types = [tensor(shape, element) for shape in shapes]
    arrays = [RNG.standard_normal(shape).astype(numpy_dtype(element)) for shape in shapes]
    if mask is not None:
        types.append(tensor(mask, I1 if mask_kind == "custom" else element))
        noise = RNG.standard_normal(mask)
        arrays.append(noise > -0.5 if mask_kind == "custom" else np.where(noise > -1, noise, -np.inf).astype(numpy_dtype(element)))
    return types, arrays


def forward(types, arrays, element=F32, width=8, heads=2, **attributes):
    check(types, lambda b, *values: b.create("kernel.attention", list(values), num_heads=heads, head_dim=width,
                                             **attributes).results,
          arrays, ROUNDING[element.text])


CASES = [
    {}, {"queries": 1, "keys": 1}, {"queries": 70, "keys": 130, "width": 16}, {"queries": 130, "keys": 70, "width": 64},
    {"queries": 65, "keys": 64, "width": 33}, {"batch": 0}, {"queries": 0}, {"keys": 0}, {"heads": 6, "key_heads": 2, "queries": 20, "keys": 30},
    {"heads": 4, "key_heads": 1, "width": 80, "queries": 9, "keys": 100},
]
MASKS = [{"mask_kind": "none"}, {"mask_kind": "causal"}, {"mask_kind": "sliding_window", "window": 0},
         {"mask_kind": "sliding_window", "window": 37}]


LAYOUTS = ["BHSD", "BSHD", "BS(HD)"]
PAIRS = [(case, (case + step) % len(MASKS)) for case in range(len(CASES)) for step in (0, 1)]  # each case with two masks


@pytest.mark.parametrize("case, mask", PAIRS)
def test_forward(case, mask):
    options, layout = {"width": 8, "heads": 2, **CASES[case]}, LAYOUTS[(case + mask) % 3]
    types, arrays = operands(layout=layout, **options)
    forward(types, arrays, width=options["width"], heads=options["heads"], layout=layout, **MASKS[mask])


@pytest.mark.parametrize("kind", ["custom", "bias"])
@pytest.mark.parametrize("mask", [(70, 90), (2, 3, 70, 90), (1, 3, 70, 90), (2, 1, 1, 90), (1, 1, 70, 1)])
def test_forward_with_a_mask(mask, kind):
    types, arrays = operands(heads=3, queries=70, keys=90, mask=mask, mask_kind=kind)
    forward(types, arrays, heads=3, mask_kind=kind)
    forward(types, arrays, heads=3, mask_kind=kind, softcap=1.5, scale=0.7)


def test_forward_with_a_mask_of_keys():
    types, arrays = operands(queries=70, keys=90, mask=(2, 90), mask_kind="custom")
    forward(types, arrays, mask_kind="custom")


@pytest.mark.parametrize("element", [F16, BF16, F64])
def test_forward_elements(element):
    for mask in MASKS[:3]:
        types, arrays = operands(queries=70, keys=90, element=element)
        forward(types, arrays, element, softcap=2.0, **mask)
    types, arrays = operands(queries=70, keys=90, element=element, mask=(70, 90), mask_kind="bias")
    forward(types, arrays, element, mask_kind="bias")


def spoiled(mask_kind, queries=70, keys=90):
    """Operands with inf and NaN in some keys and values, and a mask that cuts most of them off."""
    mask = (queries, keys) if mask_kind in ("custom", "bias") else None
    types, arrays = operands(queries=queries, keys=keys, mask=mask, mask_kind=mask_kind)
    arrays[1][0, 0, 80, 3], arrays[1][1, 1, 85, 0] = np.nan, np.inf
    arrays[2][0, 0, 82, 3], arrays[2][0, 1, 70, 1], arrays[2][1, 0, 5, 1] = np.inf, np.nan, -np.inf
    if mask is not None:
        arrays[3][:60, [5, 70, 80, 82, 85]] = False if mask_kind == "custom" else -np.inf
    return types, arrays


@pytest.mark.parametrize("mask_kind", ["causal", "custom"])
def test_cut_off_keys_do_not_leak(mask_kind):
    types, arrays = spoiled(mask_kind)
    forward(types, arrays, mask_kind=mask_kind)


def backward(types, arrays, element=F32, width=8, heads=2, wrt=(0, 1, 2), masked=None, **attributes):
    """The adjoint through both kernels, against `bwd.attention`."""
    from gradopt.dialects.bwd.neural.attention import AttentionOp
    from gradopt.lowering.interpreter import run_region
    from library_harness import function_of, run_both

    dy = RNG.standard_normal(types[0].shape).astype(numpy_dtype(element))
    options = dict(num_heads=heads, head_dim=width, **attributes)
    split = [*types[:3], types[0], *types[3:]]
    values = [*arrays[:3], dy, *arrays[3:]]

    def body(b, q, k, v, dy, *mask):
        y, lse = b.create("kernel.attention", [q, k, v, *mask], **options).results
        return b.create("kernel.attention_backward", [q, k, v, dy, y, lse, *mask], wrt=list(wrt), masked=masked, **options).results

    found, _ = run_both(split, body, values)
    reference = function_of(split, lambda b, *given: b.create(AttentionOp.name, list(given), wrt=list(wrt), masked=masked, **options).results)
    with np.errstate(all="ignore"):
        expected = run_region(reference.regions[0], values)
    for one, other in zip(found, expected):
        assert one.shape == other.shape and one.dtype == other.dtype
        a, b = one.astype(np.float64), other.astype(np.float64)
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        error = np.abs(a - b) / (1 + np.abs(b))
        assert error.size == 0 or not np.nanmax(np.nan_to_num(error)) > 2 * ROUNDING[element.text], np.nanmax(error)


@pytest.mark.parametrize("case, mask", PAIRS)
def test_backward(case, mask):
    options, layout = {"width": 8, "heads": 2, **CASES[case]}, LAYOUTS[(case + mask + 1) % 3]
    types, arrays = operands(layout=layout, **options)
    backward(types, arrays, width=options["width"], heads=options["heads"], layout=layout, **MASKS[mask])


@pytest.mark.parametrize("kind", ["custom", "bias"])
@pytest.mark.parametrize("mask", [(70, 90), (2, 1, 1, 90)])
def test_backward_with_a_mask(mask, kind):
    types, arrays = operands(heads=4, key_heads=2, queries=70, keys=90, mask=mask, mask_kind=kind)
    backward(types, arrays, heads=4, mask_kind=kind)
    backward(types, arrays, heads=4, mask_kind=kind, softcap=1.5, scale=0.7, masked=True)


BIASES = [(70, 90), (1, 70), (2, 4, 70, 90), (1, 4, 70, 90), (2, 1, 70, 90), (1, 1, 70, 90), (2, 1, 1, 90), (1, 4, 1, 90), (1, 1, 1, 90),
          (2, 4, 70, 1), (1, 4, 70, 1), (1, 1, 70, 1), (2, 4, 1, 1), (1, 1, 1, 1)]


@pytest.mark.parametrize("shape", BIASES)
def test_gradient_of_a_bias(shape):
    """Repeated along any axes; with two query heads for each key head."""
    queries, keys = shape if len(shape) == 2 else (70, 90)
    types, arrays = operands(heads=4, key_heads=2, queries=queries, keys=keys, mask=shape, mask_kind="bias")
    backward(types, arrays, heads=4, mask_kind="bias", wrt=(0, 1, 2, 3))
    backward(types, arrays, heads=4, mask_kind="bias", softcap=1.5, scale=0.7, masked=True, wrt=(3,))


@pytest.mark.parametrize("sizes", [{"batch": 0}, {"queries": 0}, {"keys": 0}, {"batch": 1, "heads": 1}, {"batch": 1, "keys": 1}, {"batch": 11},
                                   {"heads": 1, "keys": 400}, {"batch": 3, "heads": 6, "key_heads": 3}])
@pytest.mark.parametrize("full", [(), (2, 3), (0, 1), (0, 1, 2, 3)])
def test_gradient_of_a_bias_of_some_sizes(sizes, full):
    sizes = {"batch": 2, "heads": 2, "queries": 17, "keys": 90, **sizes}
    whole = (sizes["batch"], sizes["heads"], sizes["queries"], sizes["keys"])
    types, arrays = operands(**sizes, mask=tuple(size if axis in full else 1 for axis, size in enumerate(whole)), mask_kind="bias")
    backward(types, arrays, heads=sizes["heads"], mask_kind="bias", wrt=(1, 3))


@pytest.mark.parametrize("element", [F16, BF16, F64])
@pytest.mark.parametrize("shape", [(70, 90), (2, 2, 70, 90), (2, 1, 1, 90), (1, 2, 70, 1)])
def test_gradient_of_a_bias_elements(element, shape):
    types, arrays = operands(queries=70, keys=90, element=element, mask=shape, mask_kind="bias")
    backward(types, arrays, element, mask_kind="bias", wrt=(0, 3), softcap=2.0)
    backward(types, arrays, element, mask_kind="bias", wrt=(3,))


@pytest.mark.parametrize("wrt", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_backward_of_some_operands(wrt):
    types, arrays = operands(queries=70, keys=90)
    backward(types, arrays, wrt=wrt, mask_kind="causal")


@pytest.mark.parametrize("element", [F16, BF16, F64])
def test_backward_elements(element):
    types, arrays = operands(queries=70, keys=90, element=element)
    backward(types, arrays, element, mask_kind="causal")


@pytest.mark.parametrize("mask_kind", ["causal", "custom", "bias"])
def test_backward_of_cut_off_keys_does_not_leak(mask_kind):
    types, arrays = spoiled(mask_kind)
    backward(types, arrays, mask_kind=mask_kind)
    if mask_kind == "bias":
        arrays[3][3], arrays[3][5, 7], arrays[3][7, 2] = -np.inf, np.nan, np.inf
        backward(types, arrays, mask_kind=mask_kind, wrt=(0, 1, 2, 3), masked=True)
        backward(types, arrays, mask_kind=mask_kind, wrt=(0, 1, 2, 3))


def beyond_results(length):
    """The bytes that a causal attention of 8 heads of width 64 and its gradients need beside arguments and results."""
    type = f"tensor<1x8x{length}x64xf32>"
    text = f"""func.func @f(%q: {type}, %k: {type}, %v: {type}) -> {type} {{
  %y = hl.attention %q, %k, %v {{head_dim = 64, mask_kind = "causal", num_heads = 8}} : ({type}, {type}, {type}) -> {type}
  return %y : {type}
}}"""
    results = 4 * 8 * length * 64 * 4
    return gradopt.compile(text, "f_vjp").peak_bytes() - results


def test_memory_grows_with_the_length_and_not_with_its_square():
    """Planned memory, which is what the process uses (tests/unit/remat): scores of one head alone would be 256 MiB."""
    short, long = beyond_results(4096), beyond_results(8192)
    assert long < 600e6
    assert long < 2.2 * short
