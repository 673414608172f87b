"""Sizes that only run time knows (of every data axis, not the batch alone), and sizes with names."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from neural_samples import Sample, given, integers, op
from neural_support import VJP, arrays_for, leftovers, parsed, result_types, run

import gradopt

# `7?`: a size of 7 that the dynamic variant does not know
IMAGE, X3, C4 = "tensor<2?x4x7?x8?xf64>", "tensor<2?x3?x4?xf64>", "tensor<4?xf64>"
PAIR = "tensor<2?x2x3?x3xf64>"
CASES: list[Sample] = [
    op("hl.softmax_cross_entropy", "", "tensor<3?x4?xf64> tensor<3?xi64>", "tensor<3?xf64>", {1: integers(0, 4, 3)}),
    op("hl.cross_entropy_with_logits", "", "tensor<3?x4?xf64> tensor<3?x4?xf64>", "tensor<f64>"),
    op("hl.nll_loss", "", "tensor<3?x4?xf64> tensor<3?xi64> tensor<4?xf64>", "tensor<f64>", {1: given([0, -100, 3])}),
    op("hl.layer_norm", "", f"{X3} {C4} {C4}", X3),
    op("hl.rms_norm", "axis = 1", f"{X3} tensor<3?xf64> tensor<3?xf64>", X3),
    op("hl.group_norm", "num_groups = 2", f"tensor<2?x4?x3?x2?xf64> {C4} {C4}", "tensor<2?x4?x3?x2?xf64>"),
    op("hl.batch_norm", "training = true", f"tensor<2?x4?x3?xf64> {C4} {C4} {C4} {C4}", f"tensor<2?x4?x3?xf64> {C4} {C4}"),
    op("hl.conv2d", "padding = [[1, 0], [2, 1]]", f"{IMAGE} tensor<3x4x2x3xf64>", "tensor<2?x3x7?x9?xf64>"),
    op("hl.conv2d", "strides = [2, 3], padding = [[1, 0], [2, 1]], dilation = [2, 1], groups = 2", f"{IMAGE} tensor<6x2x2x3xf64>",
       "tensor<2?x6x3?x3?xf64>"),
    op("hl.conv2d", "strides = [3, 2], groups = 4", f"{IMAGE} tensor<4x1x1x2xf64>", "tensor<2?x4x3?x4?xf64>"),
    op("hl.conv1d", "strides = [2]", "tensor<2?x3?x6?xf64> tensor<4?x3?x3xf64>", "tensor<2?x4?x2?xf64>"),
    op("hl.conv2d_transpose", "strides = [2, 3], output_padding = [1, 0], padding = [[1, 0], [0, 0]]",
       "tensor<2?x4x3?x2?xf64> tensor<4x3x2x3xf64>", "tensor<2?x3x6?x6?xf64>"),
    op("hl.max_pool2d", "pool_size = [2, 3], strides = [2, 2], padding = [[1, 0], [1, 1]]", IMAGE, "tensor<2?x4x4?x4?xf64>"),
    op("hl.max_pool2d", "pool_size = [3, 2], strides = [2, 3], ceil_mode = true", IMAGE, "tensor<2?x4x3?x3?xf64>"),
    op("hl.avg_pool2d", "pool_size = [2, 3], strides = [3, 2], padding = [[1, 0], [1, 1]]", IMAGE, "tensor<2?x4x3?x4?xf64>"),
    op("hl.avg_pool2d", "pool_size = [2, 2], strides = [3, 4], padding = [[0, 1], [1, 0]], ceil_mode = true, "
       "count_include_pad = true", IMAGE, "tensor<2?x4x3?x3?xf64>"),
    op("hl.attention", "num_heads = 2, head_dim = 3", f"{PAIR} tensor<2?x2x5?x3xf64> tensor<2?x2x5?x3xf64>", PAIR),
    op("hl.attention", 'num_heads = 2, head_dim = 3, mask_kind = "sliding_window", window = 1',
       f"{PAIR} tensor<2?x1x5?x3xf64> tensor<2?x1x5?x3xf64>", PAIR),
    op("hl.attention", 'num_heads = 2, head_dim = 3, layout = "BS(HD)", mask_kind = "bias"',
       "tensor<2?x3?x6xf64> tensor<2?x5?x6xf64> tensor<2?x5?x6xf64> tensor<2?x1x3?x5?xf64>", "tensor<2?x3?x6xf64>"),
    op("hl.rope", "head_dim = 4, n_rot = 2", "tensor<2?x5?x8?xf64> tensor<5?x2xf64> tensor<5?x2xf64>", "tensor<2?x5?x8?xf64>"),
    op("hl.fake_quantize", 'ste = "clipped", axis = 0', "tensor<3?x4?xf64>", "tensor<3?x4?xf64>"),
    op("hl.dropout", "rate = 0.5", "tensor<3?x4?xf64> tensor<2xui32>", "tensor<3?x4?xf64>", {1: given([3, 4], np.uint32)}),
    op("hl.pixel_shuffle", "factor = 2", "tensor<2?x8?x3?x2?xf64>", "tensor<2?x2?x6?x4?xf64>"),
]


def variant(sample: Sample, dynamic: bool) -> str:
    return re.sub(r"(\d+)\?", "?" if dynamic else r"\1", sample.text)


@pytest.mark.parametrize("sample", CASES, ids=lambda sample: sample.text[:70])
def test_sizes_known_at_run_time(sample: Sample) -> None:
    fixed = parsed(variant(sample, False))
    arrays = arrays_for(sample, fixed)
    expected = run(fixed, arrays)
    random = np.random.default_rng(0)
    upstream = [random.standard_normal(result.shape) for result in expected]
    gradients = run(parsed(variant(sample, False), passes=VJP), [*arrays, *upstream], "f_vjp")[len(expected):]
    for passes in ("", "decompose", VJP, f"{VJP},decompose", f"decompose,{VJP}"):
        module = parsed(variant(sample, True), passes=passes)
        assert "decompose" not in passes or not leftovers(module)
        name, operands = ("f_vjp", [*arrays, *upstream]) if VJP in passes else ("f", arrays)
        for one, two in zip(run(module, operands, name), [*expected, *gradients] if VJP in passes else expected):
            np.testing.assert_allclose(one, two, 1e-9, 1e-10, err_msg=f"{passes}: {sample.text}")


def named(entries: str) -> str:
    """A tensor type by its sizes, names in quotes."""
    parts = [part.strip() for part in entries.split(",")]
    shape = "".join("?x" if part.startswith('"') else part + "x" for part in parts)
    return f"tensor<{shape}f32, #ir.dims<[{entries}]>>"


NAMES = [
    ("hl.conv2d %x, %w {strides = [2, 1], padding = [[1, 1], [0, 0]]}", '"n", 3, "h", "w"', "4x3x3x3",
     '"n", 4, "(h - 1) floordiv 2 + 1", "w - 2"'),
    ("hl.conv2d_transpose %x, %w {strides = [2, 2]}", '"n", 4, "h", "w"', "4x3x3x3", '"n", 3, "h * 2 + 1", "w * 2 + 1"'),
    ("hl.max_pool2d %x {pool_size = [2, 2], strides = [2, 2]}", '"n", 3, "h", "w"', "1", '"n", 3, "(h - 2) floordiv 2 + 1", '
     '"(w - 2) floordiv 2 + 1"'),
    ("hl.avg_pool2d %x {pool_size = [3, 3], strides = [2, 2], ceil_mode = true}", '"n", 3, "h", "w"', "1",
     '"n", 3, "(h - 2) floordiv 2 + 1", "(w - 2) floordiv 2 + 1"'),
    ("hl.pixel_shuffle %x {factor = 2}", '"n", 8, "h", "w"', "1", '"n", 2, "h * 2", "w * 2"'),
    ("hl.layer_norm %x", '"n", "d"', "1", '"n", "d"'),
]


@pytest.mark.parametrize("text,x,w,expected", NAMES)
def test_names_of_results_are_inferred(text: str, x: str, w: str, expected: str) -> None:
    module = gradopt.parse(f"func.func @f(%x: {named(x)}, %w: tensor<{w}xf32>) {{\n  %y = {text}\n  return\n}}\n")
    [operation] = [op for op in module.walk() if op.name == text.split(" ")[0]]
    assert [str(size) for size in operation.results[0].type.dims] == [part.strip().strip('"') for part in expected.split(",")]


def test_named_sizes_survive_the_derivative_and_decomposition() -> None:
    x, y = named('"n", 3, "h", "w"'), named('"n", 4, "(h - 1) floordiv 2 + 1", "w - 2"')
    text = (f"func.func @f(%x: {x}, %w: tensor<4x3x3x3xf32>) -> {y} {{\n"
            f"  %y = hl.conv2d %x, %w {{strides = [2, 1], padding = [[1, 1], [0, 0]]}} : ({x}, tensor<4x3x3x3xf32>) -> {y}\n"
            f"  return %y : {y}\n}}\n")
    module: Any = gradopt.parse(text)
    gradopt.run_passes(module, f"{VJP},decompose")
    gradopt.verify(module)
    assert [type.text for type in result_types(module, "f_vjp")] == [y, x, "tensor<4x3x3x3xf32>"]
    random = np.random.default_rng(0)
    for height in (5, 6):  # one more row may leave a remainder
        bound = gradopt.run_passes(gradopt.parse(text), f"bind{{n=2 h={height} w=5}}")
        arrays = [random.standard_normal(shape).astype(np.float32) for shape in ((2, 3, height, 5), (4, 3, 3, 3))]
        dy = random.standard_normal((2, 4, (height - 1) // 2 + 1, 3)).astype(np.float32)
        expected = run(gradopt.run_passes(bound, VJP), [*arrays, dy], "f_vjp")
        late = gradopt.run_passes(gradopt.parse(text), f"{VJP},decompose,bind{{n=2 h={height} w=5}}")
        for one, two in zip(run(late, [*arrays, dy], "f_vjp"), expected):
            np.testing.assert_allclose(one, two, 1e-4, 1e-5)
