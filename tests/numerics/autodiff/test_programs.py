"""Hessian-vector products, full Hessians by `batch`, and third derivatives of whole programs, against central differences."""

import numpy as np
import pytest
from gradopt.lowering.interpreter import run_function

import gradopt

M22, V4, S = "tensor<2x2xf64>", "tensor<4xf64>", "tensor<f64>"


def function(shape, body, extra=""):
    """@f of one argument %x, whose body ends with a value %y that is summed with weights 1, 2, 3 … after a sine."""
    dims = "x".join(str(size) for size in shape)
    return f"func.func @f(%x: tensor<{dims}xf64>) -> tensor<f64> {{\n{body}\n  return %loss : tensor<f64>\n}}\n{extra}"


def summed(shape, value="%y"):
    """The sum of a value's squares, to make a loss."""
    dims = "x".join(str(size) for size in shape)
    return (f"  %sq = hl.multiply {value}, {value} : tensor<{dims}xf64>\n"
            f"  %loss = hl.sum %sq : (tensor<{dims}xf64>) -> tensor<f64>")


PROGRAMS = {
    "polynomial": function([4], f"  %a = hl.multiply %x, %x : {V4}\n  %y = hl.multiply %a, %x : {V4}\n" + summed([4])),
    "elementwise": function([4], f"  %a = hl.sin %x : {V4}\n  %b = hl.exp %a : {V4}\n  %c = hl.tanh %x : {V4}\n"
                                 f"  %y = hl.divide %c, %b : {V4}\n" + summed([4])),
    "activations": function([4], f"  %a = hl.gelu %x {{approximate = \"tanh\"}} : {V4}\n  %b = hl.silu %a : {V4}\n"
                                 f"  %c = hl.softplus %b : {V4}\n  %y = hl.sigmoid %c : {V4}\n" + summed([4])),
    "matmul": function([2, 3], "  %t = hl.permute_dims %x {axes = [1, 0]} : (tensor<2x3xf64>) -> tensor<3x2xf64>\n"
                               f"  %p = hl.matmul %x, %t : (tensor<2x3xf64>, tensor<3x2xf64>) -> {M22}\n"
                               f"  %y = hl.tanh %p : {M22}\n" + summed([2, 2])),
    "softmax": function([2, 3], "  %y = hl.softmax %x {axis = 1} : tensor<2x3xf64>\n" + summed([2, 3])),
    "cross entropy": function([2, 3], "  %i = hl.constant dense<[2, 0]> : tensor<2xi64>\n"
                                      "  %l = hl.softmax_cross_entropy %x, %i : "
                                      "(tensor<2x3xf64>, tensor<2xi64>) -> tensor<2xf64>\n"
                              + summed([2], "%l")),
    "layer norm": function([2, 4], "  %n = hl.layer_norm %x : (tensor<2x4xf64>) -> tensor<2x4xf64>\n"
                                   "  %y = hl.multiply %n, %x : tensor<2x4xf64>\n" + summed([2, 4])),
    "logsumexp": function([2, 3], "  %y = hl.logsumexp %x {axes = [1]} : (tensor<2x3xf64>) -> tensor<2xf64>\n" + summed([2])),
    "masked": function([4], f"  %z = hl.constant dense<0.0> : {V4}\n  %c = hl.constant dense<0.3> : {V4}\n"
                            f"  %m = hl.greater %x, %c : ({V4}, {V4}) -> tensor<4xi1>\n  %d = hl.subtract %x, %c : {V4}\n"
                            f"  %r = hl.sqrt %d : {V4}\n  %s = hl.multiply %r, %x : {V4}\n"
                            f"  %y = hl.where %m, %s, %z : (tensor<4xi1>, {V4}, {V4}) -> {V4}\n" + summed([4])),
    "convolution": function([1, 1, 4, 4], """  %w = hl.constant dense<[[[[0.5, -1.0], [2.0, 0.3]]]]> : tensor<1x1x2x2xf64>
  %c = hl.conv2d %x, %w {strides = [1, 1], padding = [[1, 0], [0, 1]], dilation = [1, 1]} :
      (tensor<1x1x4x4xf64>, tensor<1x1x2x2xf64>) -> tensor<1x1x4x4xf64>
  %t = hl.tanh %c : tensor<1x1x4x4xf64>
  %y = hl.conv2d %t, %t {strides = [1, 1], padding = [[0, 0], [0, 0]], dilation = [1, 1]} :
      (tensor<1x1x4x4xf64>, tensor<1x1x4x4xf64>) -> tensor<1x1x1x1xf64>
""" + summed([1, 1, 1, 1])),
    "attention": function([1, 1, 3, 2], "  %y = hl.attention %x, %x, %x {num_heads = 1, head_dim = 2, mask_kind = \"causal\"} : "
                                        "(tensor<1x1x3x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x3x2xf64>) -> tensor<1x1x3x2xf64>\n"
                          + summed([1, 1, 3, 2])),
    "scan": function([4], f"""  %y = hl.scan %x, %x {{length = 3, num_carry = 1}} ({{
  ^bb0(%c: {V4}, %w: {V4}):
    %a = hl.sin %c : {V4}
    %b = hl.multiply %a, %w : {V4}
    hl.yield %b : ({V4}) -> ()
  }}) : ({V4}, {V4}) -> {V4}
""" + summed([4])),
    "scan with rows": function([3, 2], """  %i = hl.constant dense<0.5> : tensor<2xf64>
  %c:2 = hl.scan %i, %x {length = 3, num_carry = 1, num_xs = 1, reverse = true} ({
  ^bb0(%c: tensor<2xf64>, %r: tensor<2xf64>):
    %a = hl.multiply %c, %r : tensor<2xf64>
    %b = hl.tanh %a : tensor<2xf64>
    hl.yield %b, %a : (tensor<2xf64>, tensor<2xf64>) -> ()
  }) : (tensor<2xf64>, tensor<3x2xf64>) -> (tensor<2xf64>, tensor<3x2xf64>)
""" + summed([3, 2], "%c#1")),
    "scan with checkpoints": function([4], f"""  %y = hl.scan %x, %x {{length = 5, num_carry = 1, checkpoints = 2}} ({{
  ^bb0(%c: {V4}, %w: {V4}):
    %a = hl.sin %c : {V4}
    %b = hl.multiply %a, %w : {V4}
    hl.yield %b : ({V4}) -> ()
  }}) : ({V4}, {V4}) -> {V4}
""" + summed([4])),
    "while": function([4], f"""  %i = hl.constant dense<0> : tensor<i64>
  %r:2 = hl.while %i, %x, %x {{num_carry = 2, max_trip_count = 5}} ({{
  ^bb0(%k: tensor<i64>, %c: {V4}, %w: {V4}):
    %n = hl.constant dense<3> : tensor<i64>
    %t = hl.less %k, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
    hl.yield %t : (tensor<i1>) -> ()
  }}, {{
  ^bb0(%k: tensor<i64>, %c: {V4}, %w: {V4}):
    %one = hl.constant dense<1> : tensor<i64>
    %k2 = hl.add %k, %one : tensor<i64>
    %a = hl.sin %c : {V4}
    %b = hl.multiply %a, %w : {V4}
    hl.yield %k2, %b : (tensor<i64>, {V4}) -> ()
  }}) : (tensor<i64>, {V4}, {V4}) -> (tensor<i64>, {V4})
""" + summed([4], "%r#1")),
    "for": function([4], f"""  %l = hl.constant dense<1> : tensor<i64>
  %u = hl.constant dense<4> : tensor<i64>
  %y = hl.for %l, %u, %x, %x {{num_carry = 1}} ({{
  ^bb0(%k: tensor<i64>, %c: {V4}, %w: {V4}):
    %f = hl.cast %k : (tensor<i64>) -> tensor<f64>
    %a = hl.multiply %c, %w : {V4}
    %b = hl.multiply %a, %f : ({V4}, tensor<f64>) -> {V4}
    %d = hl.sin %b : {V4}
    hl.yield %d : ({V4}) -> ()
  }}) : (tensor<i64>, tensor<i64>, {V4}, {V4}) -> {V4}
""" + summed([4])),
    "if": function([4], f"""  %s = hl.sum %x : ({V4}) -> tensor<f64>
  %z = hl.constant dense<0.0> : tensor<f64>
  %p = hl.greater %s, %z : (tensor<f64>, tensor<f64>) -> tensor<i1>
  %y = hl.if %p, %x ({{
  ^bb0(%a: {V4}):
    %b = hl.sin %a : {V4}
    %c = hl.multiply %b, %a : {V4}
    hl.yield %c : ({V4}) -> ()
  }}, {{
  ^bb0(%a: {V4}):
    %b = hl.exp %a : {V4}
    hl.yield %b : ({V4}) -> ()
  }}) : (tensor<i1>, {V4}) -> {V4}
""" + summed([4])),
    "call": function([4], f"  %a = func.call @g(%x) : ({V4}) -> {V4}\n  %y = func.call @g(%a) : ({V4}) -> {V4}\n" + summed([4]),
                     f"func.func private @g(%x: {V4}) -> {V4} {{\n  %a = hl.cos %x : {V4}\n  %b = hl.multiply %a, %x : {V4}\n"
                     f"  return %b : {V4}\n}}\n"),
    "cumulative product": function([4], f"  %y = hl.cumprod %x {{axis = 0}} : ({V4}) -> {V4}\n" + summed([4])),
    "cholesky": function([2, 2], "  %e = hl.constant dense<[[3.0, 0.0], [0.0, 4.0]]> : tensor<2x2xf64>\n"
                                 f"  %a = hl.add %x, %e : {M22}\n  %l = hl.cholesky %a : {M22}\n"
                                 f"  %y = hl.triangular_solve %l, %x : ({M22}, {M22}) -> {M22}\n" + summed([2, 2])),
    "sort and gather": function([4], "  %i = hl.constant dense<[0, 2, 2]> : tensor<3xi64>\n"
                                     f"  %s = hl.sort %x {{axis = 0}} : {V4}\n"
                                     f"  %g = hl.take %s, %i {{axis = 0}} : ({V4}, tensor<3xi64>) -> tensor<3xf64>\n"
                                     "  %y = hl.exp %g : tensor<3xf64>\n" + summed([3])),
    "norms": function([2, 3], "  %n = hl.norm %x {axes = [1], keepdims = true} : (tensor<2x3xf64>) -> tensor<2x1xf64>\n"
                              "  %y = hl.divide %x, %n : (tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<2x3xf64>\n"
                              "  %v = hl.variance %y {axes = [0]} : (tensor<2x3xf64>) -> tensor<3xf64>\n" + summed([3], "%v")),
}



def shape_of(module):
    return next(op for op in module.regions[0].block.operations
                if op.properties["sym_name"].value == "f").regions[0].block.arguments[0].type.shape


def point(shape, name):
    rng = np.random.default_rng(len(name))
    return np.abs(rng.standard_normal(shape)) * 0.6 + 0.35 + 0.13 * np.arange(np.prod(shape)).reshape(shape) % 1


def central(function_, x, direction, step):
    """(f(x + h v) - f(x - h v)) / 2h, extrapolated once."""
    def slope(h):
        return (function_(x + h * direction) - function_(x - h * direction)) / (2 * h)
    return (4 * slope(step) - slope(2 * step)) / 3


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * max(1, np.abs(expected).max()))


def test_there_are_twenty():
    assert len(PROGRAMS) >= 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_orders_one_to_three(name):
    module = gradopt.parse(PROGRAMS[name])
    gradopt.run_passes(module, "autodiff{func=f mode=grad},autodiff{func=f mode=hvp}")
    # f_hvp(x, v) -> f, g, H v; its jvp with respect to x gives the third derivative D3 f [v, u]
    gradopt.run_passes(module, "autodiff{func=f_hvp mode=jvp wrt=0}")
    shape = shape_of(module)
    x = point(shape, name)
    rng = np.random.default_rng(5)
    u, v = rng.standard_normal(shape), rng.standard_normal(shape)

    def gradient(at):
        return run_function(module, "f_grad", [at])[0]

    def product(at):
        return run_function(module, "f_hvp", [at, v])[2]

    def value(at):
        return run_function(module, "f", [at])[0]

    close((gradient(x) * v).sum(), central(value, x, v, 1e-4), 1e-7)
    close(product(x), central(gradient, x, v, 1e-4), 1e-6)
    close(run_function(module, "f_hvp_jvp", [x, v, u])[5], central(product, x, u, 1e-4), 1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_full_hessian_by_batch(name):
    module = gradopt.parse(PROGRAMS[name])
    gradopt.run_passes(module, "autodiff{func=f mode=grad},autodiff{func=f mode=hvp},decompose")
    shape = shape_of(module)
    count = int(np.prod(shape))
    gradopt.run_passes(module, f"batch{{func=f_hvp axes=-,0 size={count}}}")
    x = point(shape, name)
    basis = np.eye(count).reshape(count, *shape)
    hessian = run_function(module, "f_hvp_batch", [x, basis])[2].reshape(count, count)
    close(hessian, hessian.T, 1e-10)

    def gradient(at):
        return run_function(module, "f_grad", [at])[0]

    expected = np.stack([central(gradient, x, direction, 1e-4).reshape(-1) for direction in basis])
    close(hessian, expected, 1e-6)
