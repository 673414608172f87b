"""How much is computed: only what lies between a wanted input and a seeded output, only the gradients that are needed."""

import sys
from collections import Counter

import numpy as np
import pytest

MLP = """
func.func @f(%x: tensor<8x5xf64>, %w1: tensor<5x6xf64>, %w2: tensor<6x7xf64>, %w3: tensor<7x3xf64>) -> tensor<f64> {
  %h1 = prim.dot %x, %w1 {lhs_contract = [1], rhs_contract = [0]} : (tensor<8x5xf64>, tensor<5x6xf64>) -> tensor<8x6xf64>
  %a1 = prim.tanh %h1 : tensor<8x6xf64>
  %h2 = prim.dot %a1, %w2 {lhs_contract = [1], rhs_contract = [0]} : (tensor<8x6xf64>, tensor<6x7xf64>) -> tensor<8x7xf64>
  %a2 = prim.tanh %h2 : tensor<8x7xf64>
  %h3 = prim.dot %a2, %w3 {lhs_contract = [1], rhs_contract = [0]} : (tensor<8x7xf64>, tensor<7x3xf64>) -> tensor<8x3xf64>
  %q = prim.mul %h3, %h3 : tensor<8x3xf64>
  %l = prim.reduce %q {kind = "sum", axes = [0, 1]} : (tensor<8x3xf64>) -> tensor<f64>
  return %l : tensor<f64>
}
"""


def test_last_layer_has_nothing_of_the_first_layers_gradient(kit):
    counts = Counter(kit.ops(kit.autodiff(MLP, func="f", wrt=("w3",)), "f_grad"))
    assert counts["prim.dot"] == 3 + 1  # three forward products, one for w3
    assert counts["prim.tanh"] == 2
    counts = Counter(kit.ops(kit.autodiff(MLP, func="f", wrt=("w1",)), "f_grad"))
    assert counts["prim.dot"] == 3 + 3  # two to go back through the layers, one for w1
    counts = Counter(kit.ops(kit.autodiff(MLP, func="f"), "f_grad"))
    assert counts["prim.dot"] == 3 + 6


def test_gradient_of_the_network(kit):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in ((8, 5), (5, 6), (6, 7), (7, 3))]
    module = kit.autodiff(MLP, func="f")
    for index, gradient in enumerate(kit.run(module, "f_grad", arrays)):
        np.testing.assert_allclose(gradient, kit.differences(module, "f", arrays, index), rtol=1e-6, atol=1e-6)


def test_forward_operations_that_the_gradient_does_not_read_are_gone(kit):
    module = kit.autodiff("""
func.func @f(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<f64> {
  %a = prim.exp %y : tensor<3xf64>
  %b = prim.add %a, %x : tensor<3xf64>
  %c = prim.neg %b : tensor<3xf64>
  %t = prim.reduce %c {kind = "sum", axes = [0]} : (tensor<3xf64>) -> tensor<f64>
  return %t : tensor<f64>
}
""", func="f", wrt=("x",))
    assert set(kit.ops(module, "f_grad")) == {"prim.constant", "prim.expand", "prim.neg", "func.return"}


def test_structural_zeros(kit):
    """Nothing is computed for floor, for an integer round trip, or for a part of a concatenation that is cut off again."""
    module = kit.autodiff("""
func.func @f(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<f64> {
  %a = prim.floor %x : tensor<3xf64>
  %i = prim.cast %x : (tensor<3xf64>) -> tensor<3xi64>
  %j = prim.cast %i : (tensor<3xi64>) -> tensor<3xf64>
  %b = prim.mul %a, %j : tensor<3xf64>
  %c = prim.mul %b, %y : tensor<3xf64>
  %t = prim.reduce %c {kind = "sum", axes = [0]} : (tensor<3xf64>) -> tensor<f64>
  return %t : tensor<f64>
}
""", func="f", wrt=("x",))
    assert kit.ops(module, "f_grad") == ["prim.constant", "func.return"]


def test_unused_results_of_a_loop_are_not_carried_back(kit):
    """Of two carries only one reaches the result: the reverse loop has one cotangent."""
    module = kit.autodiff("""
func.func @f(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<f64> {
  %r:2 = prim.scan %x, %y {length = 5, num_carry = 2} ({
  ^bb0(%a: tensor<3xf64>, %b: tensor<3xf64>):
    %c = prim.sin %a : tensor<3xf64>
    %d = prim.exp %b : tensor<3xf64>
    prim.yield %c, %d : (tensor<3xf64>, tensor<3xf64>) -> ()
  }) : (tensor<3xf64>, tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>)
  %t = prim.reduce %r#0 {kind = "sum", axes = [0]} : (tensor<3xf64>) -> tensor<f64>
  return %t : tensor<f64>
}
""", func="f")
    function = next(op for op in module.regions[0].block.operations if op.properties["sym_name"].value == "f_grad")
    scans = [op for op in function.walk() if op.name == "prim.scan"]
    assert len(scans) == 2
    assert scans[1].num_carry == 1
    assert "prim.exp" not in [op.name for op in scans[1].walk()]
    assert len(scans[0].results) == 3  # two carries, and the stack of the one that the reverse loop reads


def chain(length):
    lines = ["func.func @f(%x: tensor<4xf64>) -> tensor<f64> {", "  %v0 = prim.sin %x : tensor<4xf64>"]
    for number in range(1, length):
        op = ("prim.sin %v{0}", "prim.mul %v{0}, %x", "prim.add %v{0}, %x", "prim.tanh %v{0}")[number % 4].format(number - 1)
        lines.append(f"  %v{number} = {op} : tensor<4xf64>")
    lines += [f"  %t = prim.reduce %v{length - 1} {{kind = \"sum\", axes = [0]}} : (tensor<4xf64>) -> tensor<f64>",
              "  return %t : tensor<f64>", "}"]
    return "\n".join(lines)


def calls_of(function):
    """How many Python functions a call enters."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("mode", ["grad", "jvp"])
def test_long_functions_take_linear_time(kit, mode):
    """Twice the operations, twice the Python functions entered; a quadratic pass would enter four times as many."""
    from gradopt.lowering.autodiff.pass_ import AutodiffPass
    from gradopt.lowering.passes.base import PassContext

    def cost(length):
        module = kit.parse(chain(length))
        return calls_of(lambda: AutodiffPass(func="f", mode=mode).run(module, PassContext()))
    cost(10)  # loads the rules
    assert cost(4000) < 2.3 * cost(2000)
