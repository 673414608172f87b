"""A zero cotangent wins (semantics 0.3): lanes that a mask cut off contribute exactly 0, in both modes and at every order, and
programs without masks do not pay for it."""

import numpy as np
import pytest

V = "tensor<3xf64>"
PREDICATE = "(tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>"
CHOICE = "(tensor<3xi1>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>"


def masked(op):
    """sum(where(x > 0, op(x), 0))."""
    return f"""
func.func @f(%x: {V}) -> tensor<f64> {{
  %zero = prim.constant dense<0.0> : {V}
  %m = prim.cmp %x, %zero {{predicate = "gt"}} : {PREDICATE}
  {op}
  %w = prim.select %m, %y, %zero : {CHOICE}
  %t = prim.reduce %w {{kind = "sum", axes = [0]}} : ({V}) -> tensor<f64>
  return %t : tensor<f64>
}}
"""


CASES = {
    "sqrt": (f"%y = prim.sqrt %x : {V}", lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5),
    "log": (f"%y = prim.log %x : {V}", lambda x: 1 / x, lambda x: -1 / x**2),
    "recip": (f"%y = prim.recip %x : {V}", lambda x: -1 / x**2, lambda x: 2 / x**3),
    "rsqrt": (f"%y = prim.rsqrt %x : {V}", lambda x: -0.5 * x**-1.5, lambda x: 0.75 * x**-2.5),
    "product with infinity": (f"%i = prim.recip %zero : {V}\n  %l = prim.select %m, %x, %i : {CHOICE}\n"
                              f"  %y = prim.mul %x, %l : {V}",
                              lambda x: 2 * x, lambda x: np.full_like(x, 2.0)),
    "pow": (f"%h = prim.constant dense<0.5> : {V}\n  %y = prim.pow %x, %h : {V}", lambda x: 0.5 / np.sqrt(x),
            lambda x: -0.25 * x**-1.5),
    "div": (f"%one = prim.constant dense<1.0> : {V}\n  %y = prim.div %one, %x : {V}", lambda x: -1 / x**2, lambda x: 2 / x**3),
    "atan2": (f"%y = prim.atan2 %x, %x : {V}", lambda x: 0 * x, lambda x: 0 * x),
    "asin": (f"%one = prim.constant dense<1.0> : {V}\n  %s = prim.sub %one, %x : {V}\n  %y = prim.asin %s : {V}",
             lambda x: -1 / np.sqrt(1 - (1 - x)**2), lambda x: (1 - x) / (1 - (1 - x)**2)**1.5),
}


@pytest.mark.parametrize("name", CASES)
def test_lanes_that_where_cut_off(kit, name):
    op, first, second = CASES[name]
    x, v = np.array([0.0, 0.4, 0.9]), np.array([1.0, 0.5, -2.0])
    expected = np.array([0.0, *first(x[1:])])
    module = kit.autodiff(masked(op), func="f")
    np.testing.assert_allclose(kit.run(module, "f_grad", [x])[0], expected)
    forward = kit.autodiff(masked(op), func="f", mode="jvp")
    np.testing.assert_allclose(kit.run(forward, "f_jvp", [x, v])[1], (expected * v).sum())
    hessian = kit.autodiff(masked(op), func="f", mode="hvp")
    np.testing.assert_allclose(kit.run(hessian, "f_hvp", [x, v])[2], np.array([0.0, *(second(x[1:]) * v[1:])]))


def test_hessian_at_zero_residual(kit):
    """The Hessian of 1/2 sum where(m, sin x - t, 0)^2 at t = sin x is cos^2 x on the kept lanes: a zero cotangent must not look
    like a cut-off lane when it is differentiated again."""
    text = f"""
func.func @f(%x: {V}, %t: {V}, %m: tensor<3xi1>) -> tensor<f64> {{
  %zero = prim.constant dense<0.0> : {V}
  %half = prim.constant dense<0.5> : tensor<f64>
  %s = prim.sin %x : {V}
  %r = prim.sub %s, %t : {V}
  %k = prim.select %m, %r, %zero : {CHOICE}
  %q = prim.mul %k, %k : {V}
  %u = prim.reduce %q {{kind = "sum", axes = [0]}} : ({V}) -> tensor<f64>
  %l = prim.mul %u, %half : tensor<f64>
  return %l : tensor<f64>
}}
"""
    x, m = np.array([0.3, 1.1, -0.8]), np.array([True, False, True])
    forward_over_reverse = kit.autodiff(text, func="f", mode="hvp", wrt=(0,))
    nested = kit.autodiff(text + f"""
func.func @g(%x: {V}, %t: {V}, %m: tensor<3xi1>) -> {V} {{
  %g = ad.grad @f(%x, %t, %m) {{wrt = [0]}} : ({V}, {V}, tensor<3xi1>) -> {V}
  return %g : {V}
}}
func.func @h(%x: {V}, %t: {V}, %m: tensor<3xi1>, %v: {V}) -> {V} {{
  %y, %g = ad.vjp @g(%x, %t, %m, %v) {{wrt = [0]}} : ({V}, {V}, tensor<3xi1>, {V}) -> ({V}, {V})
  return %g : {V}
}}
""")
    for row in range(3):
        v = np.eye(3)[row]
        expected = np.where(m, np.cos(x) ** 2, 0) * v
        np.testing.assert_allclose(kit.run(forward_over_reverse, "f_hvp", [x, np.sin(x), m, v])[2], expected, atol=1e-15)
        np.testing.assert_allclose(kit.run(nested, "h", [x, np.sin(x), m, v])[0], expected, atol=1e-15)


SOURCES = {
    "gather": "%i = prim.constant dense<[1, 2]> : tensor<2xi64>\n  "
              "%p = prim.gather %y, %i {axis = 0} : (tensor<3xf64>, tensor<2xi64>) -> tensor<2xf64>",
    "slice": "%p = prim.slice %y {begin = [1], end = [3], strides = [1]} : (tensor<3xf64>) -> tensor<2xf64>",
    "negative padding": "%c = prim.constant dense<0.0> : tensor<f64>\n"
                        "  %p = prim.pad %y, %c {low = [-1], high = [0], interior = [0]} : "
                        "(tensor<3xf64>, tensor<f64>) -> tensor<2xf64>",
    "overwrite": "%i = prim.constant dense<[0]> : tensor<1xi64>\n  %u = prim.constant dense<[4.0]> : tensor<1xf64>\n"
                 "  %p = prim.scatter %y, %i, %u {axis = 0, kind = \"set\"} : "
                 "(tensor<3xf64>, tensor<1xi64>, tensor<1xf64>) -> tensor<3xf64>",
    "dynamic update": "%i = prim.constant dense<0> : tensor<i64>\n  %u = prim.constant dense<[4.0]> : tensor<1xf64>\n"
                      "  %p = prim.dynamic_update_slice %y, %u, %i : "
                      "(tensor<3xf64>, tensor<1xf64>, tensor<i64>) -> tensor<3xf64>",
    "maximum": "%b = prim.constant dense<0.1> : tensor<3xf64>\n  %p = prim.max %y, %b : tensor<3xf64>",
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_of_cut_off_lanes(kit, source):
    rank1 = "tensor<2xf64>" if "tensor<2xf64>" in SOURCES[source] else V
    text = f"""
func.func @f(%x: {V}) -> tensor<f64> {{
  %y = prim.sqrt %x : {V}
  {SOURCES[source]}
  %t = prim.reduce %p {{kind = "sum", axes = [0]}} : ({rank1}) -> tensor<f64>
  return %t : tensor<f64>
}}
"""
    x = np.array([0.0, 0.4, 0.9])
    module = kit.autodiff(text, func="f")
    np.testing.assert_allclose(kit.run(module, "f_grad", [x])[0], np.array([0.0, *(0.5 / np.sqrt(x[1:]))]))


def test_programs_without_masks_pay_nothing(kit):
    text = f"""
func.func @f(%x: {V}, %w: {V}) -> tensor<f64> {{
  %a = prim.sqrt %x : {V}
  %b = prim.mul %a, %w : {V}
  %c = prim.div %b, %x : {V}
  %t = prim.reduce %c {{kind = "sum", axes = [0]}} : ({V}) -> tensor<f64>
  return %t : tensor<f64>
}}
"""
    assert "prim.mul_zero" not in kit.ops(kit.autodiff(text, func="f"), "f_grad")
    assert "prim.mul_zero" in kit.ops(kit.autodiff(text, func="f", mode="vjp"), "f_vjp")  # a caller's cotangent may be masked


def test_a_sum_with_an_unmasked_cotangent_is_not_masked(kit):
    """x is read by a select and by a plain product: no lane of its cotangent is cut off."""
    text = f"""
func.func @f(%x: {V}, %m: tensor<3xi1>) -> tensor<f64> {{
  %zero = prim.constant dense<0.0> : {V}
  %y = prim.exp %x : {V}
  %k = prim.select %m, %y, %zero : {CHOICE}
  %s = prim.add %k, %y : {V}
  %t = prim.reduce %s {{kind = "sum", axes = [0]}} : ({V}) -> tensor<f64>
  return %t : tensor<f64>
}}
"""
    assert "prim.mul_zero" not in kit.ops(kit.autodiff(text, func="f"), "f_grad")


def test_masks_pass_through_calls(kit):
    text = masked(f"%y = func.call @root(%x) : ({V}) -> {V}") + f"""
func.func private @root(%x: {V}) -> {V} {{
  %y = prim.sqrt %x : {V}
  return %y : {V}
}}
"""
    x = np.array([0.0, 0.4, 0.9])
    module = kit.autodiff(text, func="f")
    np.testing.assert_allclose(kit.run(module, "f_grad", [x])[0], np.array([0.0, *(0.5 / np.sqrt(x[1:]))]))
    forward = kit.autodiff(text, func="f", mode="jvp")
    assert np.isfinite(kit.run(forward, "f_jvp", [x, np.ones(3)])[1])


@pytest.mark.parametrize("dialect", ["hl", "prim"])
def test_the_last_carry_of_a_scan_that_nothing_reads(kit, dialect):
    """The zeros that the reverse loop begins with are cut-off lanes: the last step's slope, which is infinite, is multiplied with them."""
    text = f"""
func.func @f(%x: {V}) -> tensor<f64> {{
  %one = prim.constant dense<1.0> : tensor<f64>
  %r:2 = {dialect}.scan %one, %x {{length = 3, num_carry = 1, num_xs = 1}} ({{
  ^bb0(%c: tensor<f64>, %t: tensor<f64>):
    %y = prim.mul %c, %t : tensor<f64>
    %n = prim.sqrt %t : tensor<f64>
    {dialect}.yield %n, %y : tensor<f64>, tensor<f64>
  }}) : (tensor<f64>, {V}) -> (tensor<f64>, {V})
  %s = prim.reduce %r#1 {{axes = [0], kind = "sum"}} : ({V}) -> tensor<f64>
  return %s : tensor<f64>
}}
"""
    x = np.array([1.0, 4.0, 0.0])  # x0 + sqrt(x0) x1 + sqrt(x1) x2
    np.testing.assert_array_equal(kit.run(kit.autodiff(text, func="f"), "f_grad", [x])[0], [3.0, 1.0, 2.0])
    forward = kit.autodiff(text, func="f", mode="jvp")
    np.testing.assert_array_equal([kit.run(forward, "f_jvp", [x, v])[1] for v in np.eye(3)], [3.0, 1.0, 2.0])
