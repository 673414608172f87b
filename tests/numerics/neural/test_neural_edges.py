"""Edge cases of the neural-network ops, and where the seeds are wrong (numbers AD… are those of the public reports)."""

from __future__ import annotations

import numpy as np
import pytest
from neural_support import evaluate, gradients, parsed, run

import gradopt

NAN, INF = np.nan, np.inf


def same(found: object, expected: object, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


# --- losses

SCE = "hl.softmax_cross_entropy %0, %1 : (tensor<2x4xf64>, tensor<2xi32>) -> (tensor<2xf64>)"


def test_softmax_cross_entropy_gradient_is_at_the_label_of_the_row() -> None:  # AD126
    [found] = gradients(SCE, [np.zeros((2, 4)), np.array([1, 3], np.int32)], [np.ones(2)])
    same(found, [[0.25, -0.75, 0.25, 0.25], [0.25, 0.25, 0.25, -0.75]])


def test_softmax_cross_entropy_does_not_overflow() -> None:
    logits = np.array([[1e4, 0.0, -1e4, 9e3], [-INF, 2.0, 1.0, -INF]])
    [loss] = evaluate(SCE, logits, np.array([0, 2], np.int32))
    same(loss, [0.0, np.log(np.exp(2) + np.exp(1)) - 1])
    [found] = gradients(SCE, [logits, np.array([0, 2], np.int32)], [np.ones(2)])
    odds = 1 / (1 + np.exp(-1))
    same(found, [[0, 0, 0, 0], [0, odds, -odds, 0]])


@pytest.mark.parametrize("label", [-1, 4, 100])
@pytest.mark.parametrize("passes", ["", "decompose"])
def test_a_label_out_of_range_is_named(label: int, passes: str) -> None:
    with pytest.raises(gradopt.GradoptError, match=rf"label out of range \[0, 4\).* {label}\b"):
        run(parsed(SCE, passes=passes), [np.zeros((2, 4)), np.array([1, label], np.int32)])


@pytest.mark.parametrize("passes", ["", ",decompose"])
def test_the_gradient_alone_checks_the_label(passes: str) -> None:
    module = parsed(SCE, passes="autodiff{func=f mode=vjp}" + passes)
    with pytest.raises(gradopt.GradoptError, match="label out of range"):
        run(module, [np.zeros((2, 4)), np.array([1, 7], np.int32), np.ones(2)], "f_vjp")


def nll(reduction: str, ignore: int = -100, weighted: bool = False) -> str:
    extra, more = (", %2", ", tensor<2xf64>") if weighted else ("", "")
    result = "tensor<2xf64>" if reduction == "none" else "tensor<f64>"
    return (f'hl.nll_loss %0, %1{extra} {{reduction = "{reduction}", ignore_index = {ignore}}} : '
            f"(tensor<2x2xf64>, tensor<2xi64>{more}) -> ({result})")


LOGP = np.array([[-1.0, -2.0], [-3.0, -4.0]])


def test_nll_loss_ignores_the_default_index() -> None:  # AD088
    targets = np.array([0, -100])
    same(evaluate(nll("mean"), LOGP, targets)[0], 1.0)
    same(gradients(nll("mean"), [LOGP, targets], [np.array(1.0)])[0], [[-1, 0], [0, 0]])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss_with_every_target_ignored(reduction: str, weighted: bool) -> None:
    operands = [LOGP, np.array([-7, -7]), *([np.array([2.0, 3.0])] if weighted else [])]
    text = nll(reduction, -7, weighted)
    [value] = evaluate(text, *operands)
    same(value, np.zeros_like(value))
    for gradient in gradients(text, operands, [np.ones_like(value)]):
        same(gradient, np.zeros_like(gradient))


def test_nll_loss_ignores_a_class() -> None:  # AD084 ignores class 0 of the targets, not of the softmax
    targets = np.array([1, 0])
    same(evaluate(nll("mean", 0), LOGP, targets)[0], 2.0)
    same(gradients(nll("mean", 0), [LOGP, targets], [np.array(1.0)])[0], [[0, -1], [0, 0]])


def test_nll_loss_does_not_read_an_ignored_row() -> None:
    values = np.array([[-1.0, -2.0], [NAN, -INF]])
    same(evaluate(nll("sum"), values, np.array([0, -100]))[0], 1.0)


@pytest.mark.parametrize("passes", ["", "decompose"])
def test_nll_loss_names_a_target_out_of_range(passes: str) -> None:  # AD086
    with pytest.raises(gradopt.GradoptError, match=r"label out of range \[0, 2\) and not ignore_index \(-100\).*-4"):
        run(parsed(nll("sum"), passes=passes), [LOGP, np.array([0, -4])])


def test_nll_loss_of_f16_sums_in_f32() -> None:
    count = 4096
    text = f"hl.nll_loss %0, %1 : (tensor<{count}x1xf16>, tensor<{count}xi64>) -> (tensor<f16>)"
    [value] = evaluate(text, np.full((count, 1), -100.0, np.float16), np.zeros(count, np.int64))
    assert value == 100.0 and value.dtype == np.float16


# --- normalisations


def test_layer_norm_of_one_element_is_constant() -> None:  # AD123
    text = "hl.layer_norm %0, %1, %2 : (tensor<1x1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<1x1xf32>)"
    operands = [np.array([[1e6]], np.float32), np.array([2.0], np.float32), np.array([3.0], np.float32)]
    same(evaluate(text, *operands)[0], [[3.0]])
    dx, dgamma, dbeta = gradients(text, operands, [np.ones((1, 1), np.float32)])
    assert dx == 0 and dgamma == 0 and dbeta == 1


def test_layer_norm_gamma_lies_along_the_features_of_a_square() -> None:
    text = "hl.layer_norm %0, %1 {eps = 0.0} : (tensor<2x2xf64>, tensor<2xf64>) -> (tensor<2x2xf64>)"
    same(evaluate(text, np.array([[1.0, 3.0], [5.0, 9.0]]), np.array([10.0, 100.0]))[0], [[-10, 100], [-10, 100]])


def test_rms_norm_gradient() -> None:  # AD124
    text = "hl.rms_norm %0, %1 {eps = 0.0} : (tensor<1x4xf64>, tensor<4xf64>) -> (tensor<1x4xf64>)"
    dx, _ = gradients(text, [np.array([[1.0, 2, 3, 4]]), np.ones(4)], [np.array([[1.0, 0, 0, 0]])])
    same(dx, [[0.3529767593, -0.02434322478, -0.03651483717, -0.04868644956]], 1e-9)


def test_group_norm_parameters_sum_over_the_batch() -> None:  # AD125
    text = ("hl.group_norm %0, %1, %2 {num_groups = 1} : (tensor<2x2x1x1xf64>, tensor<2xf64>, tensor<2xf64>) -> "
            "(tensor<2x2x1x1xf64>)")
    x = np.array([1.0, 3.0, 7.0, 5.0]).reshape(2, 2, 1, 1)
    _, dgamma, dbeta = gradients(text, [x, np.ones(2), np.zeros(2)], [np.arange(4.0).reshape(2, 2, 1, 1)])
    same(dbeta, [2.0, 4.0])
    same(dgamma, [0 * -1 + 2 * 1, 1 * 1 + 3 * -1], 1e-4)


def test_batch_norm_evaluation_gradient() -> None:  # AD121
    c = "tensor<1xf64>"
    text = (f'hl.batch_norm %0, %1, %2, %3, %4 {{layout = "NC"}} : (tensor<3x1xf64>, {c}, {c}, {c}, {c}) -> '
            f"(tensor<3x1xf64>, {c}, {c})")
    one, zero = np.ones(1), np.zeros(1)
    found = gradients(text, [np.array([[1.0], [2], [4]]), one, zero, zero, one], [np.ones((3, 1)), zero, zero])
    same(found[0], np.full((3, 1), 0.999995), 1e-9)


def test_batch_norm_running_statistics() -> None:
    c = "tensor<1xf64>"
    text = (f'hl.batch_norm %0, %1, %2, %3, %4 {{training = true, momentum = 0.25, layout = "NC"}} : '
            f"(tensor<3x1xf64>, {c}, {c}, {c}, {c}) -> (tensor<3x1xf64>, {c}, {c})")
    one, zero = np.ones(1), np.zeros(1)
    _, mean, var = evaluate(text, np.array([[1.0], [2], [6]]), one, zero, np.array([7.0]), np.array([2.0]))
    same(mean, [0.75 * 7 + 0.25 * 3])
    same(var, [0.75 * 2 + 0.25 * 7])  # ((1-3)^2 + (2-3)^2 + (6-3)^2) / 2


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_norms_of_16_bit_floats_compute_in_f32(element: str) -> None:
    text = "hl.layer_norm %0 : (tensor<1x4xf32>) -> (tensor<1x4xf32>)"
    x = np.array([[300.0, 301.0, 302.0, 303.0]], np.float32)  # the squares do not fit f16, nor the differences bf16's sums
    dtype = np.float16 if element == "f16" else __import__("ml_dtypes").bfloat16
    rounded = x.astype(dtype)
    [exact] = evaluate(text, rounded.astype(np.float32))
    found = run(parsed(text.replace("f32", element)), [rounded])[0]
    assert found.dtype == dtype
    same(found.astype(np.float32), exact.astype(dtype).astype(np.float32), 1e-7)
    same(run(parsed(text.replace("f32", element), passes="decompose"), [rounded])[0].astype(np.float32),
         exact.astype(dtype).astype(np.float32), 1e-7)


@pytest.mark.parametrize("name,extra", [("layer_norm", ""), ("rms_norm", ""), ("group_norm", 'num_groups = 1, layout = "NC"')])
@pytest.mark.parametrize("passes", ["", "decompose"])
def test_masked_rows_contribute_nothing(name: str, extra: str, passes: str) -> None:
    x, dy = np.array([[1.0, 2.0, 4.0], [NAN, INF, 1.0]]), np.array([[1.0, -1.0, 2.0], [0.0, 0.0, 0.0]])
    braces = ", ".join(filter(None, (extra, "masked")))
    types = "(tensor<2x3xf64>, tensor<2x3xf64>)"
    dx = run(parsed(f"bwd.{name}_input %0, %1 {{{braces}}} : {types} -> (tensor<2x3xf64>)", passes=passes), [x, dy])
    dgamma = run(parsed(f"bwd.{name}_gamma %0, %1 {{{braces}}} : {types} -> (tensor<3xf64>)", passes=passes), [x, dy])
    assert np.isfinite(dx[0]).all() and (dx[0][1] == 0).all() and np.isfinite(dgamma[0]).all()


# --- convolutions


def conv(x: str, w: str, y: str, attributes: str = "") -> str:
    return f"hl.conv2d %0, %1 {{{attributes}}} : (tensor<{x}xf64>, tensor<{w}xf64>) -> (tensor<{y}xf64>)"


def test_depthwise_weight_gradient_with_stride() -> None:  # AD110
    text = conv("1x2x4x4", "2x1x3x3", "1x2x2x2", "strides = [2, 2], padding = [[1, 1], [1, 1]], groups = 2")
    _, dw = gradients(text, [np.arange(32.0).reshape(1, 2, 4, 4), np.arange(18.0).reshape(2, 1, 3, 3)], [np.ones((1, 2, 2, 2))])
    same(dw, [[[[5, 10, 12], [10, 20, 24], [18, 36, 40]]], [[[21, 42, 44], [42, 84, 88], [50, 100, 104]]]])


def test_weight_gradient_sums_over_the_batch() -> None:  # AD112
    text = conv("2x1x2x2", "2x1x1x1", "2x2x2x2")
    _, dw = gradients(text, [np.arange(8.0).reshape(2, 1, 2, 2), np.ones((2, 1, 1, 1))], [np.arange(16.0).reshape(2, 2, 2, 2)])
    same(dw.reshape(-1), [228.0, 340.0])


def test_input_gradient_reads_the_kernel_reversed() -> None:  # AD113
    text = conv("1x1x3x3", "1x1x3x3", "1x1x3x3", "padding = [[1, 1], [1, 1]]")
    delta = np.zeros((1, 1, 3, 3))
    delta[0, 0, 1, 1] = 1
    dx, _ = gradients(text, [np.zeros((1, 1, 3, 3)), np.arange(1.0, 10.0).reshape(1, 1, 3, 3)], [delta])
    same(dx[0, 0], np.arange(1.0, 10.0).reshape(3, 3))


def test_gradients_with_dilation() -> None:  # AD114
    text = conv("1x1x5x5", "1x1x3x3", "1x1x1x1", "dilation = [2, 2]")
    dx, dw = gradients(text, [np.arange(25.0).reshape(1, 1, 5, 5), np.ones((1, 1, 3, 3))], [np.ones((1, 1, 1, 1))])
    row, gap = [1, 0, 1, 0, 1], [0] * 5
    same(dx[0, 0], [row, gap, row, gap, row])
    same(dw[0, 0], [[0, 2, 4], [10, 12, 14], [20, 22, 24]])


def test_element_type_of_the_result() -> None:
    text = "hl.conv2d %0, %1 : (tensor<1x1x1x2xf16>, tensor<1x1x1x2xf16>) -> (tensor<1x1x1x1xf32>)"
    big = np.array([300.0, 300.0], np.float16).reshape(1, 1, 1, 2)
    [y] = evaluate(text, big, big)
    assert y.dtype == np.float32 and y == 180000.0  # beyond f16


# --- pooling


def pool(kind: str, x: str, y: str, attributes: str) -> str:
    return f"hl.{kind}_pool2d %0 {{{attributes}}} : (tensor<{x}xf64>) -> (tensor<{y}xf64>)"


def test_average_of_a_window_that_hangs_over_the_end() -> None:  # AD115, AD117
    text = pool("avg", "1x1x1x5", "1x1x1x3", "pool_size = [1, 2], strides = [1, 2], ceil_mode = true, count_include_pad = true")
    [dx] = gradients(text, [np.arange(1.0, 6.0).reshape(1, 1, 1, 5)], [np.ones((1, 1, 1, 3))])
    same(dx.reshape(-1), [0.5, 0.5, 0.5, 0.5, 1.0])
    text = pool("avg", "1x1x7x7", "1x1x3x3", "pool_size = [2, 2], strides = [3, 3], ceil_mode = true")
    [y] = evaluate(text, np.arange(49.0).reshape(1, 1, 7, 7))
    same(y[0, 0], [[4, 7, 9.5], [25, 28, 30.5], [42.5, 45.5, 48]])


def test_nan_wins_the_maximum() -> None:  # AD119
    text = pool("max", "1x1x1x2", "1x1x1x1", "pool_size = [1, 2]")
    x = np.array([NAN, 0.0]).reshape(1, 1, 1, 2)
    assert np.isnan(evaluate(text, x)[0]).all()
    same(gradients(text, [x], [np.full((1, 1, 1, 1), 3.0)])[0].reshape(-1), [3, 0])


def test_the_first_maximum_gets_the_gradient_and_overlaps_add() -> None:
    text = pool("max", "1x1x1x4", "1x1x1x3", "pool_size = [1, 2]")
    [dx] = gradients(text, [np.array([1.0, 2, 2, 0]).reshape(1, 1, 1, 4)], [np.array([1.0, 10, 100]).reshape(1, 1, 1, 3)])
    same(dx.reshape(-1), [0, 11, 100, 0])


def test_all_minus_infinity_chooses_an_element_and_not_the_padding() -> None:
    text = pool("max", "1x1x2x2", "1x1x2x2", "pool_size = [2, 2], strides = [2, 2], padding = [[1, 1], [1, 1]]")
    x = np.full((1, 1, 2, 2), -INF)
    assert (evaluate(text, x)[0] == -INF).all()
    same(gradients(text, [x], [np.arange(1.0, 5.0).reshape(1, 1, 2, 2)])[0].reshape(-1), [1, 2, 3, 4])


def test_a_window_in_the_padding_alone() -> None:
    attributes = "pool_size = [1, 1], strides = [1, 1], padding = [[0, 0], [1, 1]]"
    x = np.array([5.0]).reshape(1, 1, 1, 1)
    same(evaluate(pool("max", "1x1x1x1", "1x1x1x3", attributes), x)[0].reshape(-1), [-INF, 5, -INF])
    same(gradients(pool("max", "1x1x1x1", "1x1x1x3", attributes), [x], [np.array([1.0, 2, 4]).reshape(1, 1, 1, 3)])[0], [[[[2]]]])
    same(evaluate(pool("avg", "1x1x1x1", "1x1x1x3", attributes), x)[0].reshape(-1), [0, 5, 0])


# --- fake quantisation


def quantize(shape: str, attributes: str, scale: str = "") -> str:
    extra, more = (", %1", f", tensor<{scale}>") if scale else ("", "")
    return f"hl.fake_quantize %0{extra} {{{attributes}}} : (tensor<{shape}xf64>{more}) -> (tensor<{shape}xf64>)"


def test_clipped_masks_by_the_rounded_level() -> None:  # AD091, AD093: a fixed scale can be exceeded
    text = quantize("4", 'bits = 4, ste = "clipped", scale_mode = "fixed"', "f64")
    x = np.array([7.3, 6.9, -8.4, 10.0])
    same(evaluate(text, x, 1.0)[0], [7, 7, -7, 7])
    same(gradients(text, [x, np.array(1.0)], [np.ones(4)])[0], [1, 1, 0, 0])
    text = quantize("2", 'ste = "clipped", scale_mode = "fixed"', "f64")
    same(gradients(text, [np.array([100.0, 200.0]), np.array(1.0)], [np.ones(2)])[0], [1, 0])


@pytest.mark.parametrize("ste", ["identity", "clipped", "tanh", "hard_tanh"])
def test_per_channel_steps_and_an_empty_channel(ste: str) -> None:  # AD094
    text = quantize("2x2", f'axis = 0, ste = "{ste}"')
    x = np.array([[1.0, -2.0], [0.0, 0.0]])
    same(evaluate(text, x)[0], [[1.007874016, -2.0], [0, 0]])
    [dx] = gradients(text, [x], [np.ones((2, 2))])
    step = 2 / 127
    same(dx, {"identity": [[1, 1], [1, 1]], "clipped": [[1, 1], [1, 1]], "hard_tanh": [[0.5, 0], [1, 1]],
              "tanh": [[1 - np.tanh(1 / step) ** 2, 1 - np.tanh(2 / step) ** 2], [1, 1]]}[ste], 1e-9)


def test_the_scale_gets_no_gradient_and_halves_round_to_even() -> None:
    text = quantize("4", 'scale_mode = "fixed"', "f64")
    dx, dscale = gradients(text, [np.array([0.5, 1.5, -2.5, NAN]), np.array(1.0)], [np.ones(4)])
    same(evaluate(text, np.array([0.5, 1.5, -2.5, NAN]), 1.0)[0], [0, 2, -2, NAN])
    assert dscale == 0
    same(dx[:3], [1, 1, 1])


# --- dropout


def test_dropout_keeps_the_expected_share_and_depends_on_the_key() -> None:
    text = "hl.dropout %0, %1 {rate = 0.25} : (tensor<40x50xf64>, tensor<2xui32>) -> (tensor<40x50xf64>)"
    x = np.ones((40, 50))
    [first] = evaluate(text, x, np.array([1, 2], np.uint32))
    [again] = evaluate(text, x, np.array([1, 2], np.uint32))
    [other] = evaluate(text, x, np.array([1, 3], np.uint32))
    assert (first == again).all() and (first != other).any()
    assert set(np.unique(first)) == {0.0, 1 / 0.75}
    assert abs((first != 0).mean() - 0.75) < 0.04
    [dx] = gradients(text, [x, np.array([1, 2], np.uint32)], [np.full((40, 50), 2.0)])
    same(dx, 2 * first)


def test_dropout_drops_nan() -> None:
    text = "hl.dropout %0, %1 {rate = 0.5} : (tensor<64xf64>, tensor<2xui32>) -> (tensor<64xf64>)"
    [y] = evaluate(text, np.full(64, NAN), np.array([5, 6], np.uint32))
    assert set(np.unique(np.nan_to_num(y, nan=1.0))) == {0.0, 1.0}


# --- warps


def test_identity_maps_of_two_images() -> None:  # AD160
    text = "hl.warp_affine %0, %1 : (tensor<2x3x3x1xf64>, tensor<2x2x3xf64>) -> (tensor<2x3x3x1xf64>)"
    x = np.random.default_rng(3).standard_normal((2, 3, 3, 1))
    identity = np.tile(np.eye(2, 3), (2, 1, 1))
    same(evaluate(text, x, identity)[0], x)
    dy = np.random.default_rng(4).standard_normal((2, 3, 3, 1))
    same(gradients(text, [x, identity], [dy])[0], dy)


def test_the_border_has_slope_zero() -> None:  # AD164: row 0 of a column ramp, by the coordinate of each point
    text = "hl.warp_affine %0, %1 : (tensor<1x1x5x1xf64>, tensor<1x2x3xf64>) -> (tensor<1x1x1x1xf64>)"
    ramp = np.arange(5.0).reshape(1, 1, 5, 1)
    slopes = []
    for column in range(5):
        matrix = np.array([[[1.0, 0, column], [0, 1, 0]]])
        slopes.append(gradients(text, [ramp, matrix], [np.ones((1, 1, 1, 1))])[1][0, 0, 2])
    same(slopes, [1, 1, 1, 1, 0])


@pytest.mark.parametrize("border,expected", [("replicate", 3.0), ("constant", -1.0)])
def test_a_point_at_infinity_lies_outside(border: str, expected: float) -> None:
    text = (f'hl.warp_perspective %0, %1 {{border_mode = "{border}", border_value = -1.0}} : '
            "(tensor<1x2x2x1xf64>, tensor<1x3x3xf64>) -> (tensor<1x1x1x1xf64>)")
    x = np.arange(4.0).reshape(1, 2, 2, 1)
    matrix = np.array([[[1.0, 0, 1], [0, 1, 1], [0, 0, 0]]])  # denominator 0
    same(evaluate(text, x, matrix)[0], [[[[expected]]]])
    for gradient in gradients(text, [x, matrix], [np.ones((1, 1, 1, 1))]):
        assert np.isfinite(gradient).all()


# --- rotary embedding


def test_rope_tables_must_have_half_a_head_for_each_position() -> None:
    with pytest.raises(gradopt.GradoptError, match=r"operand 'cos' has shape \[2\], expected \[2, 2\]"):
        parsed("hl.rope %0, %1, %2 {head_dim = 4, n_rot = 4} : (tensor<1x2x4xf64>, tensor<2xf64>, tensor<2xf64>) -> "
               "(tensor<1x2x4xf64>)")


def test_rope_turns_by_the_angle_of_the_position() -> None:
    text = ("hl.rope %0, %1, %2 {head_dim = 2, n_rot = 2} : (tensor<1x3x2xf64>, tensor<3x1xf64>, tensor<3x1xf64>) -> "
            "(tensor<1x3x2xf64>)")
    angles = np.array([[0.0], [0.3], [1.1]])
    [y] = evaluate(text, np.tile([1.0, 0.0], (1, 3, 1)), np.cos(angles), np.sin(angles))
    same(y[0], np.hstack([np.cos(angles), np.sin(angles)]), 1e-12)
