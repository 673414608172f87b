"""Scans whose products and residuals moved: the same values as before, fewer products in the loops, and the same bits where a value is
only read instead of computed."""

import numpy as np
import pytest
from gradopt.lowering.interpreter import run_function
from scan_programs import PROGRAMS, program

import gradopt

PREPARE = "decompose,canonicalize,cse,dce"
MOTION = "scan-residuals,scan-fission"


def arguments(module, name):
    function = next(op for op in module.regions[0].block.operations if op.properties["sym_name"].value == name)
    rng = np.random.default_rng(0)
    return [np.asarray(2, np.int64) if argument.type.element.text == "i64" else np.asarray(rng.uniform(-0.5, 0.5, argument.type.shape))
            for argument in function.regions[0].block.arguments]


def derived(text, mode):
    module = gradopt.parse(text)
    gradopt.run_passes(module, f"autodiff{{func=f mode={mode}}},{PREPARE}")
    return module


def products_in_loops(module, name, product="prim.dot"):
    function = next(op for op in module.regions[0].block.operations if op.properties["sym_name"].value == name)
    return [sum(inner.name == product for inner in op.walk()) for op in function.regions[0].block.operations if op.name == "prim.scan"]


@pytest.mark.parametrize("mode", ["value_and_grad", "hvp", "jvp"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_values_stay(name, length, reverse, mode):
    module = derived(program(name, length, reverse), mode)
    arrays = arguments(module, f"f_{mode}")
    expected = run_function(module, f"f_{mode}", arrays)
    gradopt.run_passes(module, "scan-residuals")
    for found, value in zip(run_function(module, f"f_{mode}", arrays), expected, strict=True):
        np.testing.assert_array_equal(found, value)
    gradopt.run_passes(module, "scan-fission")
    for found, value in zip(run_function(module, f"f_{mode}", arrays), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", ["value_and_grad", "hvp"])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_compiled_equals_interpreted(name, mode):
    module = derived(program(name, 5), mode)
    arrays = arguments(module, f"f_{mode}")
    compiled = gradopt.compile(module, f"f_{mode}")
    for _ in range(2):
        for found, value in zip(compiled(*arrays), run_function(module, f"f_{mode}", arrays), strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name, before, after", [
    ("rnn", [2, 6], [1, 1]),  # the step's product, and its transpose for the cotangent
    ("lstm", [2, 6], [1, 1]),
    ("gru", [5, 15], [3, 3]),
    ("vectors", [3, 9], [1, 1]),
    ("integrator", [2, 6], [2, 2]),
    ("mixed", [2, 6], [1, 1]),
])
def test_products_that_remain_in_the_loops(name, before, after):
    module = derived(program(name, 5), "value_and_grad")
    assert products_in_loops(module, "f_value_and_grad") == before
    gradopt.run_passes(module, MOTION)
    assert products_in_loops(module, "f_value_and_grad") == after


def test_the_default_pipeline_moves_them():
    compiled = gradopt.compile(gradopt.parse(program("rnn", 5)), "f_value_and_grad")
    assert products_in_loops(compiled.module, "f_value_and_grad", "kernel.gemm") == [1, 1]


def test_a_batch_of_unknown_size():
    text = program("rnn", 5).replace("tensor<2x4xf64>", 'tensor<?x4xf64, #ir.dims<["n", 4]>>')
    text = text.replace("tensor<5x2x3xf64>", 'tensor<5x?x3xf64, #ir.dims<[5, "n", 3]>>').replace(
        "tensor<2x3xf64>", 'tensor<?x3xf64, #ir.dims<["n", 3]>>')
    static = derived(program("rnn", 5), "value_and_grad")
    module = derived(text, "value_and_grad")
    arrays = arguments(static, "f_value_and_grad")
    gradopt.run_passes(module, MOTION)
    assert products_in_loops(module, "f_value_and_grad") == [1, 1]
    compiled = gradopt.compile(module, "f_value_and_grad")
    for found, value in zip(compiled(*arrays), run_function(static, "f_value_and_grad", arrays), strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-12)


def test_what_all_steps_share_is_computed_and_differentiated_once():
    text = """func.func @f(%h: tensor<3x2xf64>, %w: tensor<3x3xf64>) -> tensor<f64> {
      %r = hl.scan %h, %w {length = 6, num_carry = 1} ({
      ^bb0(%c: tensor<3x2xf64>, %v: tensor<3x3xf64>):
        %0 = hl.matmul %v, %v {transpose_b = true}
        %1 = hl.tanh %0
        %2 = hl.matmul %1, %c
        %3 = hl.sin %2
        hl.yield %3
      })
      %y = hl.sum %r
      return %y : tensor<f64>
    }"""
    module = gradopt.parse(text)
    gradopt.run_passes(module, "autodiff{func=f mode=value_and_grad}")
    arrays = arguments(module, "f_value_and_grad")
    compiled = gradopt.compile(gradopt.parse(text), "f_value_and_grad")
    assert products_in_loops(compiled.module, "f_value_and_grad", "kernel.gemm") == [1, 1]
    for found, value in zip(compiled(*arrays), run_function(module, "f_value_and_grad", arrays), strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-10, atol=1e-12)
