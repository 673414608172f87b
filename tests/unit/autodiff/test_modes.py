"""The modes of the pass and the `ad` ops: signatures, values, calls and custom derivatives."""

import numpy as np
import pytest

MIXED = """
func.func @f(%x: tensor<3xf64>, %n: tensor<i64>, %w: tensor<3xf64>, %unused: tensor<2xf64>)
    -> (tensor<3xf64>, tensor<i64>, tensor<f64>) {
  %s = prim.sin %x : tensor<3xf64>
  %y = prim.mul %s, %w : tensor<3xf64>
  %t = prim.reduce %y {kind = "sum", axes = [0]} : (tensor<3xf64>) -> tensor<f64>
  return %y, %n, %t : tensor<3xf64>, tensor<i64>, tensor<f64>
}
"""
X, N, W, U = np.array([0.1, 0.7, -0.4]), np.asarray(5, np.int64), np.array([2.0, -1.0, 0.5]), np.zeros(2)
LOSS = """
func.func @f(%x: tensor<3xf64>, %w: tensor<3xf64>) -> tensor<f64> {
  %s = prim.sin %x : tensor<3xf64>
  %y = prim.mul %s, %w : tensor<3xf64>
  %t = prim.reduce %y {kind = "sum", axes = [0]} : (tensor<3xf64>) -> tensor<f64>
  return %t : tensor<f64>
}
"""


def test_grad_of_a_scalar_takes_no_cotangent(kit):
    module = kit.autodiff(LOSS, func="f")
    assert kit.names(module) == ["f", "f_grad"]
    dx, dw = kit.run(module, "f_grad", [X, W])
    np.testing.assert_allclose(dx, np.cos(X) * W)
    np.testing.assert_allclose(dw, np.sin(X))


def test_value_and_grad(kit):
    module = kit.autodiff(LOSS, func="@f", mode="value_and_grad", wrt=("w",))
    value, dw = kit.run(module, "f_value_and_grad", [X, W])
    np.testing.assert_allclose(value, (np.sin(X) * W).sum())
    np.testing.assert_allclose(dw, np.sin(X))


def test_vjp_takes_a_cotangent_for_each_float_result(kit):
    module = kit.autodiff(MIXED, func="f", mode="vjp")
    dy, dt = np.array([1.0, 2.0, 3.0]), np.asarray(0.5)
    y, n, _, dx, dw, unused = kit.run(module, "f_vjp", [X, N, W, U, dy, dt])
    np.testing.assert_allclose(y, np.sin(X) * W)
    assert n == 5
    np.testing.assert_allclose(dx, (dy + 0.5) * np.cos(X) * W)
    np.testing.assert_allclose(dw, (dy + 0.5) * np.sin(X))
    np.testing.assert_array_equal(unused, np.zeros(2))


def test_grad_of_several_results_takes_cotangents_too(kit):
    module = kit.autodiff(MIXED, func="f", wrt=(2,))
    dy, dt = np.array([1.0, 2.0, 3.0]), np.asarray(0.5)
    (dw,) = kit.run(module, "f_grad", [X, N, W, U, dy, dt])
    np.testing.assert_allclose(dw, (dy + 0.5) * np.sin(X))


def test_jvp(kit):
    module = kit.autodiff(MIXED, func="f", mode="jvp", wrt=("x", 2))
    tx, tw = np.array([1.0, 0.0, -1.0]), np.array([0.0, 2.0, 1.0])
    _, _, _, ty, tt = kit.run(module, "f_jvp", [X, N, W, U, tx, tw])
    np.testing.assert_allclose(ty, np.cos(X) * tx * W + np.sin(X) * tw)
    np.testing.assert_allclose(tt, ty.sum())


def test_hvp(kit):
    module = kit.autodiff(LOSS, func="f", mode="hvp")
    tx, tw = np.array([1.0, 0.0, -1.0]), np.array([0.0, 2.0, 1.0])
    _, dx, _, hx, hw = kit.run(module, "f_hvp", [X, W, tx, tw])
    np.testing.assert_allclose(dx, np.cos(X) * W)
    np.testing.assert_allclose(hx, -np.sin(X) * W * tx + np.cos(X) * tw)
    np.testing.assert_allclose(hw, np.cos(X) * tx)


def test_split(kit):
    module = kit.autodiff(LOSS, func="f", split=True)
    assert kit.names(module) == ["f", "f_fwd", "f_bwd"]
    value, *residuals = kit.run(module, "f_fwd", [X, W])
    np.testing.assert_allclose(value, (np.sin(X) * W).sum())
    dx, dw = kit.run(module, "f_bwd", [*residuals, np.asarray(2.0)])
    np.testing.assert_allclose(dx, 2 * np.cos(X) * W)
    np.testing.assert_allclose(dw, 2 * np.sin(X))


def test_default_is_every_public_function_that_returns_a_float(kit):
    text = LOSS + LOSS.replace("@f", "private @hidden") + """
func.func @count(%n: tensor<i64>) -> tensor<i64> {
  return %n : tensor<i64>
}
"""
    assert kit.names(kit.autodiff(text)) == ["f", "f_grad", "hidden", "count"]


def test_names_that_are_taken(kit):
    text = LOSS + LOSS.replace("@f", "@f_grad")
    assert kit.names(kit.autodiff(text, func="f")) == ["f", "f_grad_1", "f_grad"]


def test_results_that_are_arguments_and_one_value_twice(kit):
    module = kit.autodiff("""
func.func @f(%x: tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) {
  %y = prim.exp %x : tensor<2xf64>
  return %x, %y, %y : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
}
""", func="f", mode="vjp")
    x = np.array([0.3, -1.0])
    cotangents = [np.array([1.0, 2.0]), np.array([3.0, 5.0]), np.array([7.0, 11.0])]
    gradient = kit.run(module, "f_vjp", [x, *cotangents])[3]
    np.testing.assert_allclose(gradient, cotangents[0] + (cotangents[1] + cotangents[2]) * np.exp(x))


def test_requests_nest(kit):
    """x^4: the fourth derivative is 24, taken as jvp of hvp-like nests across calls."""
    module = kit.autodiff("""
func.func @f(%x: tensor<f64>) -> tensor<f64> {
  %2 = prim.mul %x, %x : tensor<f64>
  %3 = prim.mul %2, %2 : tensor<f64>
  return %3 : tensor<f64>
}
func.func @d1(%x: tensor<f64>) -> tensor<f64> {
  %g = ad.grad @f(%x) : (tensor<f64>) -> tensor<f64>
  return %g : tensor<f64>
}
func.func @d2(%x: tensor<f64>) -> tensor<f64> {
  %g = ad.grad @d1(%x) : (tensor<f64>) -> tensor<f64>
  return %g : tensor<f64>
}
func.func @d3(%x: tensor<f64>) -> tensor<f64> {
  %one = prim.constant dense<1.0> : tensor<f64>
  %v, %g = ad.jvp @d2(%x, %one) : (tensor<f64>, tensor<f64>) -> (tensor<f64>, tensor<f64>)
  return %g : tensor<f64>
}
func.func @d4(%x: tensor<f64>) -> tensor<f64> {
  %g = ad.grad @d3(%x) {wrt = [0]} : (tensor<f64>) -> tensor<f64>
  return %g : tensor<f64>
}
""")
    x = np.asarray(1.5)
    for name, expected in (("d1", 4 * x**3), ("d2", 12 * x**2), ("d3", 24 * x), ("d4", 24.0)):
        np.testing.assert_allclose(kit.run(module, name, [x])[0], expected)
    assert not [op for op in module.walk() if op.name.startswith("ad.")]


def test_no_perturbation_confusion(kit):
    """d/dx (x d/dy (x + y)) = 1, and d/dx (x d/dy (x y)) = 2 x (Siskind and Pearlmutter)."""
    module = kit.autodiff("""
func.func @inner(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  %s = prim.mul %x, %y : tensor<f64>
  return %s : tensor<f64>
}
func.func @outer(%x: tensor<f64>) -> tensor<f64> {
  %one = prim.constant dense<1.0> : tensor<f64>
  %v, %t = ad.jvp @inner(%x, %x, %one) {wrt = [1]} : (tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<f64>, tensor<f64>)
  %r = prim.mul %x, %t : tensor<f64>
  return %r : tensor<f64>
}
func.func @top(%x: tensor<f64>) -> tensor<f64> {
  %one = prim.constant dense<1.0> : tensor<f64>
  %v, %t = ad.jvp @outer(%x, %one) : (tensor<f64>, tensor<f64>) -> (tensor<f64>, tensor<f64>)
  return %t : tensor<f64>
}
""")
    np.testing.assert_allclose(kit.run(module, "top", [np.asarray(3.0)])[0], 6.0)


def test_gradient_of_scalar_sizes_stays_exact_in_float32(kit):
    module = kit.autodiff(LOSS.replace("f64", "f32"), func="f")
    dx, _ = kit.run(module, "f_grad", [X.astype(np.float32), W.astype(np.float32)])
    assert dx.dtype == np.float32
    np.testing.assert_allclose(dx, np.cos(X) * W, rtol=1e-6)


CALLS = """
func.func private @square(%x: tensor<3xf64>, %n: tensor<i64>) -> (tensor<3xf64>, tensor<i64>, tensor<3xf64>) {
  %y = prim.mul %x, %x : tensor<3xf64>
  %e = prim.exp %x : tensor<3xf64>
  return %y, %n, %e : tensor<3xf64>, tensor<i64>, tensor<3xf64>
}
func.func @f(%x: tensor<3xf64>, %n: tensor<i64>) -> tensor<f64> {
  %a, %m, %e = func.call @square(%x, %n) : (tensor<3xf64>, tensor<i64>) -> (tensor<3xf64>, tensor<i64>, tensor<3xf64>)
  %b, %k, %unused = func.call @square(%a, %m) : (tensor<3xf64>, tensor<i64>) -> (tensor<3xf64>, tensor<i64>, tensor<3xf64>)
  %c = prim.add %b, %e : tensor<3xf64>
  %t = prim.reduce %c {kind = "sum", axes = [0]} : (tensor<3xf64>) -> tensor<f64>
  return %t : tensor<f64>
}
"""


def test_calls_with_several_results(kit):
    module = kit.autodiff(CALLS, func="f")
    (dx,) = kit.run(module, "f_grad", [X, N])
    np.testing.assert_allclose(dx, 4 * X**3 + np.exp(X))
    forward = kit.autodiff(CALLS, func="f", mode="jvp")
    np.testing.assert_allclose(kit.run(forward, "f_jvp", [X, N, np.ones(3)])[1], (4 * X**3 + np.exp(X)).sum())


def test_calls_share_one_derivative_for_each_kind_of_call(kit):
    """The two calls seed different results, so there are two pairs; a third call like the second makes none."""
    text = CALLS.replace("%c = prim.add %b, %e", """%b3, %k3, %unused3 = func.call @square(%b, %m) :
      (tensor<3xf64>, tensor<i64>) -> (tensor<3xf64>, tensor<i64>, tensor<3xf64>)
  %c = prim.add %b3, %e""")
    module = kit.autodiff(text, func="f")
    assert sorted(name for name in kit.names(module) if "fwd" in name) == ["square_fwd", "square_fwd_1"]
    np.testing.assert_allclose(kit.run(module, "f_grad", [X, N])[0], 8 * X**7 + np.exp(X))


def test_hvp_across_calls(kit):
    module = kit.autodiff(CALLS, func="f", mode="hvp")
    v = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(kit.run(module, "f_hvp", [X, N, v])[2], (12 * X**2 + np.exp(X)) * v)


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
def test_custom_derivatives(kit, kind):
    """The rule that a function brings along is used, whatever it says: here three times the true derivative."""
    module_text = f"""
func.func private @g(%x: tensor<f64>) -> tensor<f64> attributes {{ad.{kind} = @rule}} {{
  %y = prim.sin %x : tensor<f64>
  return %y : tensor<f64>
}}
func.func private @rule(%x: tensor<f64>, %d: tensor<f64>) -> {"(tensor<f64>, tensor<f64>)" if kind == "jvp" else "tensor<f64>"} {{
  %three = prim.constant dense<3.0> : tensor<f64>
  %y = prim.sin %x : tensor<f64>
  %c = prim.cos %x : tensor<f64>
  %p = prim.mul %d, %c : tensor<f64>
  %q = prim.mul %p, %three : tensor<f64>
  return {"%y, %q : tensor<f64>, tensor<f64>" if kind == "jvp" else "%q : tensor<f64>"}
}}
func.func @f(%x: tensor<f64>) -> tensor<f64> {{
  %y = func.call @g(%x) : (tensor<f64>) -> tensor<f64>
  %z = prim.mul %y, %y : tensor<f64>
  return %z : tensor<f64>
}}
"""
    x = np.asarray(0.7)
    expected = 2 * np.sin(x) * 3 * np.cos(x)
    if kind == "vjp":
        module = kit.autodiff(module_text, func="f")
        np.testing.assert_allclose(kit.run(module, "f_grad", [x])[0], expected)
        direct = kit.autodiff(module_text, func="g")
        np.testing.assert_allclose(kit.run(direct, "g_grad", [x])[0], 3 * np.cos(x))
    else:
        module = kit.autodiff(module_text, func="f", mode="jvp")
        np.testing.assert_allclose(kit.run(module, "f_jvp", [x, np.asarray(1.0)])[1], expected)


def test_stop_gradient(kit):
    module = kit.autodiff("""
func.func @f(%x: tensor<f64>) -> tensor<f64> {
  %s = hl.stop_gradient %x : tensor<f64>
  %y = prim.mul %x, %s : tensor<f64>
  return %y : tensor<f64>
}
""", func="f")
    np.testing.assert_allclose(kit.run(module, "f_grad", [np.asarray(4.0)])[0], 4.0)
