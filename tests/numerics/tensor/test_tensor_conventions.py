"""Derivatives at kinks, at singular points and behind masks, as the conventions say, in reverse and forward mode, by every route."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_slopes import ROUTES, slopes, unary
from tensor_support import DYNAMIC, JVP, STATIC, Make, arrays_of, given, module_of, op, run

import gradopt

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INF, NAN = np.inf, np.nan


# op, points, derivatives, attributes: the derivative of least norm at a kink, and no NaN where the limit is known
KINKS: list[tuple[str, list[float], list[float], dict[str, Any]]] = [
    ("abs", [-1, -0.0, 0, 2, INF, -INF], [-1, 0, 0, 1, 1, -1], {}),
    ("sign", [-1, 0, 2], [0, 0, 0], {}),
    ("floor", [-1, 0, 2.5], [0, 0, 0], {}),
    ("ceil", [-1, 0, 2.5], [0, 0, 0], {}),
    ("trunc", [-1, 0, 2.5], [0, 0, 0], {}),
    ("round", [-1.5, 0, 2.5], [0, 0, 0], {}),
    ("round", [-1.5, 0, 2.5], [1, 1, 1], {"ste": True}),
    ("relu", [-1, -0.0, 0, 1, INF, -INF], [0, 0, 0, 1, 1, 0], {}),
    ("relu6", [-1, 0, 3, 6, 7, INF], [0, 0, 1, 0, 0, 0], {}),
    ("leaky_relu", [-1, 0, 1], [0.2, 0.2, 1], {"alpha": 0.2}),
    ("hard_tanh", [-2, -1, 0, 1, 2], [0, 0, 1, 0, 0], {}),
    ("hard_sigmoid", [-4, -3, 0, 3, 4], [0, 0, 1 / 6, 0, 0], {}),
    ("hard_swish", [-4, -3, 0, 3, 4], [0, 0, 0.5, 1, 1], {}),
    ("clip", [-1, 0, 0.5, 1, 2], [0, 0, 1, 0, 0], {"min": 0.0, "max": 1.0}),
    ("elu", [-INF, 0, 1, INF], [0, 0.5, 1, 1], {"alpha": 0.5}),
    ("softplus", [-INF, -800, 0, 800, INF], [0, 0, 0.5, 1, 1], {}),
    ("sigmoid", [-INF, -800, 0, 800, INF], [0, 0, 0.25, 0, 0], {}),
    ("log_sigmoid", [-INF, -800, 0, 800, INF], [1, 1, 0.5, 0, 0], {}),
    ("silu", [-INF, -800, 0, 800], [0, 0, 0.5, 1], {}),
    ("gelu", [-INF, -40, 0, 40, INF], [0, 0, 0.5, 1, 1], {}),
    ("gelu", [-INF, -1e20, 0, 1e20, INF], [0, 0, 0.5, 1, 1], {"approximate": "tanh"}),
    ("mish", [-800, 800], [0, 1], {}),
    ("tanh", [-INF, -400, 0, 400], [0, 0, 1, 0], {}),
    ("sinc", [0, 1], [0, -1], {}),
    ("atan", [-INF, 0, INF], [0, 1, 0], {}),
    ("erf", [-INF, 0, INF], [0, 2 / np.sqrt(np.pi), 0], {}),
]


@pytest.mark.parametrize("name, points, expected, attributes", KINKS, ids=lambda value: str(value)[:40])
def test_derivatives_at_kinks_and_far_away(name: str, points: list[float], expected: list[float], attributes: dict[str, Any]) -> None:
    sample = unary(name, points, **attributes)
    for passes, (found,) in zip(ROUTES, slopes(sample), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15, err_msg=f"{name}: {passes}")
    pushed = run(module_of(sample, STATIC, "f64", JVP), [np.array(points, float), np.ones(len(points))], "f_jvp")[1]
    np.testing.assert_allclose(pushed, expected, rtol=1e-12, atol=1e-15, err_msg=f"{name}: forward")


# op, (x, y), (dx, dy)
PAIRS: list[tuple[str, tuple[float, float], tuple[float, float]]] = [
    ("maximum", (1, 1), (0.5, 0.5)),
    ("minimum", (1, 1), (0.5, 0.5)),
    ("maximum", (NAN, 1), (1, 0)),
    ("maximum", (1, NAN), (0, 1)),
    ("minimum", (NAN, 1), (1, 0)),
    ("maximum", (INF, INF), (0.5, 0.5)),
    ("power", (0, 0), (0, 0)),
    ("power", (0, 2), (0, 0)),
    ("power", (0, 1), (1, 0)),
    ("power", (-2, 3), (12, NAN)),
    ("power", (0, -1), (-INF, -INF)),
    ("power", (INF, 0), (0, INF)),
    ("power", (2, 0), (0, np.log(2))),
    ("atan2", (0, 0), (0, 0)),
    ("atan2", (0, 1), (1, 0)),
    ("atan2", (1e-200, 1e-200), (5e199, -5e199)),
    ("atan2", (1e200, 1e200), (5e-201, -5e-201)),
    ("logaddexp", (2, 2), (0.5, 0.5)),
    ("logaddexp", (-INF, 1), (0, 1)),
    ("logaddexp", (1000, 0), (1, 0)),
    ("xlogy", (0, 2), (np.log(2), 0)),
    ("xlogy", (0, 0), (-INF, 0)),
    ("xlog1py", (0, 1), (np.log(2), 0)),
    ("xlog1py", (0, -1), (-INF, 0)),
    ("fmod", (-19, 3), (1, 6)),
    ("mod", (-19, 3), (1, 7)),
    ("mod", (7, 3), (1, -2)),
    ("floor_divide", (7, 2), (0, 0)),
    ("divide", (1, 1e-200), (1e200, -INF)),
    ("prelu", (0, 0.25), (0.25, 0)),
]


@pytest.mark.parametrize("name, points, expected", PAIRS, ids=str)
def test_derivatives_of_two_operands_at_ties_and_zeros(name: str, points: tuple[float, ...], expected: tuple[float, ...]) -> None:
    sample = op(name, "", "", data={0: given(float(points[0])), 1: given(float(points[1]))})
    for passes, found in zip(ROUTES, slopes(sample), strict=True):
        np.testing.assert_allclose([float(each) for each in found], expected, rtol=1e-12, err_msg=f"{name}{points}: {passes}")


# op, operands (values), gradients for a cotangent of ones, attributes
TIES: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("max", [2.0, 2, 1], [0.5, 0.5, 0], {}),
    ("min", [[1.0, 1, 1], [2, 3, 2]], [[1 / 3] * 3, [0.5, 0, 0.5]], {"axes": [1]}),
    ("max", [1.0, NAN, NAN], [0, 0.5, 0.5], {}),
    ("max", [-INF, -INF], [0.5, 0.5], {}),
    ("prod", [0.0, 2, 3], [6, 0, 0], {}),
    ("prod", [0.0, 0, 3], [0, 0, 0], {}),
    ("norm", [0.0, 0], [0, 0], {}),
    ("norm", [3.0, 4], [0.6, 0.8], {}),
    ("norm", [0.0, 0], [0, 0], {"ord": 1.0}),
    ("norm", [0.0, 0], [0, 0], {"ord": 3.0}),
    ("norm", [0.0, 0], [0, 0], {"ord": INF}),
    ("norm", [1.0, -1, 0], [0.5, -0.5, 0], {"ord": INF}),
    ("std", [5.0, 5, 5], [0, 0, 0], {}),
    ("variance", [1e8, 1e8 + 2], [-1, 1], {}),
    ("logsumexp", [-INF, 0.0], [0, 1], {}),
    ("logsumexp", [-INF, -INF], [0, 0], {}),
    ("logsumexp", [1000.0, 1000], [0.5, 0.5], {}),
    ("cummax", [1.0, 1, 0, 3], [3, 0, 0, 1], {"axis": 0}),
    ("cummin", [1.0, 1, 2, 0], [3, 0, 0, 1], {"axis": 0}),
    ("cumprod", [0.0, 2, 0], [3, 0, 0], {"axis": 0}),
    ("logcumsumexp", [-INF, 0.0, 0], [0, 1.5, 0.5], {"axis": 0}),
    ("softmax", [-INF, 0.0, 0], [0, 0, 0], {}),
    ("log_softmax", [1000.0, 0], [-1, 1], {}),
    ("sort", [2.0, 1, NAN], [1, 1, 1], {}),
]


@pytest.mark.parametrize("name, values, expected, attributes", TIES, ids=lambda value: str(value)[:40])
def test_derivatives_of_reductions_at_ties_and_zeros(name: str, values: Any, expected: Any, attributes: dict[str, Any]) -> None:
    array = np.array(values)
    sample = op(name, "x".join(map(str, array.shape)), data={0: given(array)}, **attributes)
    for passes, (found,) in zip(ROUTES, slopes(sample), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15, err_msg=f"{name}: {passes}")


def test_topk_and_sort_send_the_cotangent_to_the_first_of_equal_ones() -> None:
    sample = op("topk", "4", k=2, data={0: given([1.0, 3, 3, 3])})
    for (found,) in slopes(sample):
        np.testing.assert_array_equal(found, [0, 1, 1, 0])


def test_max_counts_ties_in_a_wide_type() -> None:
    """70,000 equal elements: their number is no f16."""
    text = """func.func @f(%x: tensor<70000xf16>) -> tensor<f16> {
  %y = hl.max %x : (tensor<70000xf16>) -> tensor<f16>
  return %y : tensor<f16>
}"""
    module = gradopt.run_passes(gradopt.parse(text), "autodiff,decompose")
    (found,) = run(module, [np.ones(70000, np.float16)], "f_grad")
    np.testing.assert_array_equal(found, np.full(70000, 1 / 70000, np.float16))


# singular derivatives at a point: op text on %x and the point where its derivative is infinite or NaN
SINGULAR: list[tuple[str, float]] = [
    ("hl.sqrt %x", 0.0),
    ("hl.rsqrt %x", 0.0),
    ("hl.log %x", 0.0),
    ("hl.log2 %x", 0.0),
    ("hl.log1p %x", -1.0),
    ("hl.reciprocal %x", 0.0),
    ("hl.asin %x", 1.0),
    ("hl.acos %x", -1.0),
    ("hl.acosh %x", 1.0),
    ("hl.atanh %x", 1.0),
    ("hl.erfinv %x", 1.0),
    ("hl.exp %x", INF),
    ("hl.exp2 %x", INF),
    ("hl.expm1 %x", INF),
    ("hl.sinh %x", INF),
    ("hl.cosh %x", INF),
    ("hl.sin %x", INF),
    ("hl.cos %x", INF),
    ("hl.tan %x", INF),
    ("hl.sinc %x", INF),
    ("hl.silu %x", NAN),
    ("hl.gelu %x", NAN),
    ("hl.mish %x", NAN),
    ("hl.softplus %x", NAN),
    ("hl.sigmoid %x", NAN),
    ("hl.tanh %x", NAN),
    ("hl.square %x", INF),
    ("hl.multiply %x, %inf", 1.0),
    ("hl.divide %x, %zero", 1.0),
    ("hl.divide %inf, %x", 0.0),
    ("hl.power %x, %half", 0.0),
    ("hl.power %half, %x", INF),
    ("hl.xlogy %x, %zero", 1.0),
    ("hl.xlogy %half, %x", 0.0),
    ("hl.xlog1py %half, %x", -1.0),
    ("hl.atan2 %x, %inf", NAN),
    ("hl.logaddexp %x, %inf", NAN),
    ("hl.mod %x, %zero", 1.0),
    ("hl.fma %x, %inf, %half", 1.0),
]
CONSTANTS = {"%inf": INF, "%zero": 0.0, "%half": 0.5}

# how the singular element (the first of two) is cut off: text after `%s = <singular op>`
MASKS: dict[str, str] = {
    "where": "%r = hl.where %mask, %two, %s : (tensor<2xi1>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>",
    "slice": "%r = hl.strided_slice %s {begin = [1], end = [2]} : (tensor<2xf64>) -> tensor<1xf64>",
    "take": "%r = hl.take %s, %one {axis = 0} : (tensor<2xf64>, tensor<1xi64>) -> tensor<1xf64>",
    "take_along_axis": "%r = hl.take_along_axis %s, %one {axis = 0} : (tensor<2xf64>, tensor<1xi64>) -> tensor<1xf64>",
    "pad": "%r = hl.pad %s {low = [-1], high = [1]} : (tensor<2xf64>) -> tensor<2xf64>",
    "set_slice": "%r = hl.set_slice %s, %single {begin = [0], end = [1]} : (tensor<2xf64>, tensor<1xf64>) -> tensor<2xf64>",
    "put_along_axis": "%r = hl.put_along_axis %s, %first, %single {axis = 0} : (tensor<2xf64>, tensor<1xi64>, tensor<1xf64>) -> tensor<2xf64>",
    "split": "%q, %r = hl.split %s {axis = 0, sizes = [1, 1]} : (tensor<2xf64>) -> (tensor<1xf64>, tensor<1xf64>)",
    "dynamic_slice": "%r = hl.dynamic_slice %s, %start {sizes = [1]} : (tensor<2xf64>, tensor<i64>) -> tensor<1xf64>",
    "relu": "%m = hl.where %mask, %minus, %s : (tensor<2xi1>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>\n"
    "  %r = hl.relu %m : tensor<2xf64>",
}


def masked_program(operation: str, mask: str) -> str:
    """f(x) = sum(mask(op(x)))."""
    size = "2" if mask in ("where", "pad", "set_slice", "put_along_axis", "relu") else "1"
    lines = [f"  {name} = hl.constant dense<{float_text(value)}> : tensor<2xf64>" for name, value in CONSTANTS.items() if name in operation]
    lines += [
        "  %mask = hl.constant dense<[true, false]> : tensor<2xi1>",
        "  %two = hl.constant dense<2.0> : tensor<2xf64>",
        "  %minus = hl.constant dense<-2.0> : tensor<2xf64>",
        "  %single = hl.constant dense<2.0> : tensor<1xf64>",
        "  %one = hl.constant dense<1> : tensor<1xi64>",
        "  %first = hl.constant dense<0> : tensor<1xi64>",
        "  %start = hl.constant dense<1> : tensor<i64>",
        f"  %s = {operation} : ({', '.join(['tensor<2xf64>'] * operation.count('%'))}) -> tensor<2xf64>",
        f"  {MASKS[mask]}",
        f"  %y = hl.sum %r : (tensor<{size}xf64>) -> tensor<f64>",
        "  return %y : tensor<f64>",
    ]
    return "func.func @f(%x: tensor<2xf64>) -> tensor<f64> {\n" + "\n".join(lines) + "\n}\n"


def float_text(value: float) -> str:
    return "0x7FF0000000000000" if value == INF else str(value)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("operation, point", SINGULAR, ids=str)
def test_a_masked_lane_contributes_nothing(operation: str, point: float, mask: str) -> None:
    """By every route in reverse mode, in forward mode, and in the second derivative."""
    x = np.array([point, 0.5])
    text = masked_program(operation, mask)
    for passes in ("autodiff", "autodiff,decompose", "decompose,autodiff"):
        (found,) = run(gradopt.run_passes(gradopt.parse(text), passes), [x], "f_grad")
        assert found[0] == 0, f"{passes}: {found}"
    module = gradopt.run_passes(gradopt.parse(text), JVP)
    assert run(module, [x, np.array([1.0, 0.0])], "f_jvp")[1] == 0
    twice = gradopt.run_passes(gradopt.parse(text), "autodiff{func=f mode=hvp}")
    product = run(twice, [x, np.array([1.0, 1.0])], "f_hvp")[-1]
    assert product[0] == 0, product


def test_the_hessian_at_zero_residual_is_not_masked_away() -> None:
    """1/2 sum where(m, sin x - t, 0)^2 with t = sin x has the Hessian cos(x)^2 on the kept lanes."""
    text = """func.func @f(%x: tensor<3xf64>, %t: tensor<3xf64>, %m: tensor<3xi1>) -> tensor<f64> {
  %s = hl.sin %x : tensor<3xf64>
  %d = hl.subtract %s, %t : tensor<3xf64>
  %z = hl.constant dense<0.0> : tensor<f64>
  %w = hl.where %m, %d, %z : (tensor<3xi1>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
  %q = hl.square %w : tensor<3xf64>
  %y = hl.sum %q : (tensor<3xf64>) -> tensor<f64>
  %h = hl.constant dense<0.5> : tensor<f64>
  %r = hl.multiply %y, %h : tensor<f64>
  return %r : tensor<f64>
}"""
    x, kept = np.array([0.3, 1.0, 2.0]), np.array([True, False, True])
    module = gradopt.run_passes(gradopt.parse(text), "autodiff{func=f mode=hvp wrt=0}")
    product = run(module, [x, np.sin(x), kept, np.ones(3)], "f_hvp")[-1]
    np.testing.assert_allclose(product, np.cos(x) ** 2 * kept, rtol=1e-14)


@pytest.mark.parametrize("name", ["cast", "argmax", "less", "floor", "stop_gradient"])
def test_what_has_no_derivative_gives_zeros(name: str) -> None:
    operands = ("3", "3") if name == "less" else ("3",)
    kind = {"cast": "3xi32", "argmax": "i64", "less": "3xi1"}.get(name, "3xf64")
    attributes = " {axis = 0}" if name == "argmax" else ""
    count = ", ".join(["%x"] * len(operands))
    types = ", ".join(["tensor<3xf64>"] * len(operands))
    float_type = "f64" if name == "argmax" else "3xf64"
    program = f"""func.func @f(%x: tensor<3xf64>) -> tensor<f64> {{
  %i = hl.{name} {count}{attributes} : ({types}) -> tensor<{kind}>
  %c = hl.cast %i : (tensor<{kind}>) -> tensor<{float_type}>
  %y = hl.sum %c : (tensor<{float_type}>) -> tensor<f64>
  return %y : tensor<f64>
}}"""
    (found,) = run(gradopt.run_passes(gradopt.parse(program), "autodiff"), [np.array([1.5, -2.0, 3.0])], "f_grad")
    np.testing.assert_array_equal(found, np.zeros(3))


@pytest.mark.parametrize("make", [given([0.0, 1.0, np.nan]), given([-0.0, np.inf, -np.inf])])
def test_dynamic_relu_keeps_nan(make: Make) -> None:
    sample = op("relu", "N", data={0: make})
    for variant in (STATIC, DYNAMIC):
        x = arrays_of(sample)
        for passes in ("", "decompose"):
            np.testing.assert_array_equal(run(module_of(sample, variant, "f64", passes), x)[0], np.maximum(x[0], 0))


@pytest.mark.parametrize("name", ["prod", "cumprod"])
def test_products_are_right_to_second_order_with_several_zeros(name: str) -> None:
    """The Hessian of sum(w * f(x)), column by column, against the sum over all pairs of factors that are left out."""
    x, weights = np.array([0.0, 2.0, 0.0, 3.0, 0.0]), np.array([0.3, -1.1, 0.7, 1.9, 0.4])
    axis = ", axis = 0" if name == "cumprod" else ""
    text = f"""func.func @f(%x: tensor<5xf64>, %w: tensor<5xf64>) -> tensor<f64> {{
  %p = hl.{name} %x {{{axis.removeprefix(", ")}}} : (tensor<5xf64>) -> {"tensor<5xf64>" if axis else "tensor<f64>"}
  %m = hl.multiply %p, %w : ({"tensor<5xf64>" if axis else "tensor<f64>"}, tensor<5xf64>) -> tensor<5xf64>
  %y = hl.sum %m : (tensor<5xf64>) -> tensor<f64>
  return %y : tensor<f64>
}}"""
    expected = np.zeros((5, 5))
    for end, weight in zip(range(1, 6) if axis else [5] * 5, weights):
        for i in range(end):
            for j in range(end):
                expected[i, j] += weight * np.prod(np.delete(x[:end], [i, j])) if i != j else 0.0
    for passes in ("autodiff{func=f mode=hvp wrt=0}", "decompose,autodiff{func=f mode=hvp wrt=0}"):
        module = gradopt.run_passes(gradopt.parse(text), passes)
        for column, direction in enumerate(np.eye(5)):
            product = run(module, [x, weights, direction], "f_hvp")[-1]
            np.testing.assert_allclose(product, expected[:, column], rtol=1e-13, atol=1e-14, err_msg=passes)


SINGULAR = [
    [[0, 1], [0, 2]],
    [[0, 0], [3, 2]],
    [[1, 2], [2, 4]],
    [[0, 1, 2], [0, 3, 4], [0, 5, 7]],
    [[1, 2, 3], [2, 4, 6], [1, 1, 1]],
    [[0, 0, 0], [1, 2, 3], [4, 5, 7]],
    [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    [[0, 0, 0], [0, 0, 0], [0, 0, 1]],
    [[0, 2, 0, 1], [0, 1, 3, 0], [0, 0, 1, 4], [0, 5, 0, 2]],
]


@pytest.mark.parametrize("matrix", SINGULAR, ids=str)
def test_the_derivative_of_det_is_the_cofactors_of_singular_matrices_too(matrix: list[list[float]]) -> None:
    """Whichever column gives the pivot of 0."""
    a = np.array(matrix, float)
    places = range(len(a))
    cofactors = [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in places] for i in places]
    sample = op("det", f"{len(a)}x{len(a)}", data={0: given(a)})
    for passes, (found,) in zip(ROUTES, slopes(sample), strict=True):
        np.testing.assert_allclose(found, cofactors, rtol=1e-12, atol=1e-12, err_msg=passes)


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.zeros((3, 3)), np.outer([1, 2, 1], [1, 2, 4]), np.zeros((4, 4)),
                                    np.outer([1, 2, 0, 4], [2, 0, 4, 8]), np.diag([0.0, 2, 0, 4]), *map(np.array, SINGULAR[-3:])], ids=str)
def test_the_second_derivative_of_det_is_the_minors_at_every_rank(matrix: np.ndarray) -> None:
    """Without two rows and two columns, also where the rank lacks two or more and a pivot of 0 comes before the last."""
    a, count = matrix.astype(float), len(matrix)
    expected = np.zeros((count,) * 4)
    for i, j, k, m in np.ndindex(expected.shape):
        if i != k and j != m:
            sign = (-1) ** (i + j + k + m + (k > i) + (m > j))
            expected[i, j, k, m] = sign * np.linalg.det(np.delete(np.delete(a, [i, k], 0), [j, m], 1))
    module = module_of(op("det", f"{count}x{count}", data={0: given(a)}), STATIC, "f64", "autodiff{func=f mode=vjp}")
    gradopt.run_passes(module, "autodiff{func=f_vjp mode=jvp wrt=0},decompose")
    one = np.ones(())
    found = [run(module, [a, one, direction], "f_vjp_jvp")[-1] for direction in np.eye(count * count).reshape(-1, count, count)]
    np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=1e-12, atol=1e-12)
