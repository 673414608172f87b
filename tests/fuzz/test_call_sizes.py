"""Functions whose sizes are known at the call only: values, adjoints and errors for many sizes, empty ones too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gradopt.ir.diagnostics import ArgumentValueError
from gradopt.lowering.interpreter import run_function
from gradopt.lowering.native.errors import GradoptRuntimeError
from test_random_programs import VJP, check_close, listed

import gradopt

Array = Any
Shapes = Callable[[int, int, int], list[tuple[int, ...]]]
SIZES = [(2, 3, 4), (1, 1, 1), (0, 3, 2), (3, 0, 2), (1, 5, 0), (0, 0, 0), (33, 17, 9)]
BATCH = 'tensor<?x4xf64, #ir.dims<["batch", 4]>>'

PROGRAMS: dict[str, tuple[str, Shapes]] = {
    "layer": ("""func.func @f(%x: tensor<?x?xf64>, %w: tensor<?x?xf64>, %b: tensor<?xf64>) -> tensor<?x?xf64> {
  %h = hl.matmul %x, %w : (tensor<?x?xf64>, tensor<?x?xf64>) -> tensor<?x?xf64>
  %a = hl.add %h, %b : (tensor<?x?xf64>, tensor<?xf64>) -> tensor<?x?xf64>
  %r = hl.softmax %a : tensor<?x?xf64>
  return %r : tensor<?x?xf64>
}""", lambda n, m, k: [(n, m), (m, k), (k,)]),
    "normalization": ("""func.func @f(%x: tensor<?x?xf64>, %g: tensor<?xf64>) -> (tensor<?x?xf64>, tensor<f64>) {
  %h = hl.layer_norm %x, %g : (tensor<?x?xf64>, tensor<?xf64>) -> tensor<?x?xf64>
  %m = hl.sum %h : (tensor<?x?xf64>) -> tensor<f64>
  return %h, %m : tensor<?x?xf64>, tensor<f64>
}""", lambda n, m, k: [(n, m), (m,)]),
    "concatenation": ("""func.func @f(%x: tensor<?x?xf64>, %y: tensor<?x?xf64>) -> tensor<?x?xf64> {
  %h = hl.concat %x, %y {axis = 0} : (tensor<?x?xf64>, tensor<?x?xf64>) -> tensor<?x?xf64>
  %t = hl.permute_dims %h : (tensor<?x?xf64>) -> tensor<?x?xf64>
  %s = hl.cumsum %t {axis = 1} : tensor<?x?xf64>
  return %s : tensor<?x?xf64>
}""", lambda n, m, k: [(n, m), (k, m)]),
    "named batch": (f"""func.func @f(%x: {BATCH}, %y: {BATCH}) -> {BATCH} {{
  %h = hl.multiply %x, %y : {BATCH}
  %s = hl.sort %h {{axis = 0}} : {BATCH}
  return %s : {BATCH}
}}""", lambda n, m, k: [(n, 4), (n, 4)]),
    "padding": ("""func.func @f(%x: tensor<?x?xf64>) -> (tensor<?x?xf64>, tensor<?xf64>, tensor<?x?xf64>) {
  %h = hl.pad %x {low = [1, 0], high = [0, 2]} : (tensor<?x?xf64>) -> tensor<?x?xf64>
  %m = hl.max %h {axes = [0]} : (tensor<?x?xf64>) -> tensor<?xf64>
  %f = hl.flip %h : tensor<?x?xf64>
  return %h, %m, %f : tensor<?x?xf64>, tensor<?xf64>, tensor<?x?xf64>
}""", lambda n, m, k: [(n, m)]),
    "attention": ("""func.func @f(%q: tensor<?x2x?x4xf64>, %k: tensor<?x2x?x4xf64>, %v: tensor<?x2x?x4xf64>) -> tensor<?x2x?x4xf64> {
  %h = hl.attention %q, %k, %v {num_heads = 2, head_dim = 4, mask_kind = "causal"} :
       (tensor<?x2x?x4xf64>, tensor<?x2x?x4xf64>, tensor<?x2x?x4xf64>) -> tensor<?x2x?x4xf64>
  return %h : tensor<?x2x?x4xf64>
}""", lambda n, m, k: [(n, 2, m, 4), (n, 2, k, 4), (n, 2, k, 4)]),
    "convolution": ("""func.func @f(%x: tensor<?x2x?x?xf64>, %w: tensor<3x2x2x2xf64>) -> tensor<?x3x?x?xf64> {
  %h = hl.conv2d %x, %w {padding = [[1, 1], [1, 1]]} : (tensor<?x2x?x?xf64>, tensor<3x2x2x2xf64>) -> tensor<?x3x?x?xf64>
  return %h : tensor<?x3x?x?xf64>
}""", lambda n, m, k: [(n, 2, m, k), (3, 2, 2, 2)]),
    "indices": ("""func.func @f(%x: tensor<?x?xf64>, %y: tensor<?x?xf64>) -> tensor<?x?xf64> {
  %i = hl.argsort %y {axis = 0} : (tensor<?x?xf64>) -> tensor<?x?xi64>
  %h = hl.take_along_axis %x, %i {axis = 0} : (tensor<?x?xf64>, tensor<?x?xi64>) -> tensor<?x?xf64>
  return %h : tensor<?x?xf64>
}""", lambda n, m, k: [(n, m), (n, m)]),
}


def arrays_of(shapes: list[tuple[int, ...]], seed: int = 0) -> list[Array]:
    """Normal arrays."""
    random = np.random.default_rng(seed)
    return [np.asarray(random.standard_normal(shape)) for shape in shapes]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_adjoints(name: str) -> None:
    """One compiled function serves all sizes."""
    text, shapes = PROGRAMS[name]
    module = gradopt.parse(text)
    derived = module.clone()
    gradopt.run_passes(derived, VJP)
    function, adjoint = gradopt.compile(module, "f"), gradopt.compile(module, "f_vjp")
    for sizes in SIZES:
        arrays = arrays_of(shapes(*sizes))
        expected = run_function(module, "f", arrays)
        check_close(listed(function(*arrays)), expected, f"values for {sizes}")
        both = [*arrays, *arrays_of([result.shape for result in expected], 1)]
        check_close(listed(adjoint(*both)), run_function(derived, "f_vjp", both), f"adjoints for {sizes}")


@pytest.mark.parametrize(("name", "shapes"), [("layer", [(2, 3), (4, 5), (5,)]), ("layer", [(2, 3), (3, 5), (4,)]),
                                              ("named batch", [(2, 4), (3, 4)]), ("concatenation", [(2, 3), (2, 4)])])
def test_sizes_that_disagree_are_errors(name: str, shapes: list[tuple[int, ...]]) -> None:
    """Never an access out of bounds."""
    function = gradopt.compile(PROGRAMS[name][0], "f")
    with pytest.raises((ArgumentValueError, GradoptRuntimeError), match=r"size|shape|axis|agree"):
        function(*arrays_of(shapes))


def test_interpreter_names_the_size_that_disagrees() -> None:
    """Arguments of different batch sizes."""
    with pytest.raises(gradopt.GradoptError, match="size 'batch' is 2, but 3 in argument 1 of '@f'"):
        run_function(gradopt.parse(PROGRAMS["named batch"][0]), "f", arrays_of([(2, 4), (3, 4)]))


def test_interpreter_reports_endless_recursion() -> None:
    """A function that calls itself."""
    module = gradopt.parse("""func.func @f(%x: tensor<3xf64>) -> tensor<3xf64> {
  %y = func.call @f(%x) : (tensor<3xf64>) -> tensor<3xf64>
  return %y : tensor<3xf64>
}""")
    with pytest.raises(gradopt.GradoptError, match="10000 calls inside each other, the innermost one of '@f'"):
        run_function(module, "f", [np.ones(3)])


@pytest.mark.parametrize("value", [3e38, -3e38, 1e4, 0.0])
def test_softmax_of_equal_numbers(value: float) -> None:
    """However large, n equal numbers give 1/n; the meaning as well as the kernel."""
    module = gradopt.parse("""func.func @f(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %s = hl.softmax %x : tensor<5xf32>
  %l = hl.log_softmax %x : tensor<5xf32>
  return %s, %l : tensor<5xf32>, tensor<5xf32>
}""")
    x = np.full(5, value, np.float32)
    for found in (run_function(module, "f", [x]), listed(gradopt.compile(module, "f")(x))):
        np.testing.assert_allclose(found[0], 0.2, rtol=1e-6)
        np.testing.assert_allclose(found[1], np.log(0.2), rtol=1e-6)
