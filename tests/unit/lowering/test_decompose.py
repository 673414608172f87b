"""The decompose pass: what stays, what is reported, where new operations come from."""

from __future__ import annotations

import numpy as np
import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.lowering.decompose.registry import decomposition, find_decomposition
from gradopt.lowering.interpreter import run_function

import gradopt

TEXT = """
func.func @f(%x: tensor<3x4xf64>) -> tensor<3x4xf64> {
  %0 = hl.softmax %x : tensor<3x4xf64>
  %1 = hl.gelu %0 : tensor<3x4xf64>
  return %1 : tensor<3x4xf64>
}
"""

NESTED = """
func.func @f(%p: tensor<i1>, %x: tensor<4xf64>) -> tensor<4xf64> {
  %0 = hl.if %p, %x ({
  ^bb0(%a: tensor<4xf64>):
    %1 = hl.silu %a : tensor<4xf64>
    hl.yield %1 : tensor<4xf64>
  }, {
  ^bb0(%a: tensor<4xf64>):
    hl.yield %a : tensor<4xf64>
  }) : (tensor<i1>, tensor<4xf64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
"""


def names(module: gradopt.Operation) -> list[str]:
    """The names of all operations inside functions."""
    return [op.name for op in module.walk() if op.name.split(".")[0] not in ("builtin", "func")]


def test_only_prim_is_left() -> None:
    module = gradopt.parse(TEXT)
    gradopt.run_passes(module, "decompose")
    assert {name.split(".")[0] for name in names(module)} == {"prim"}


def test_regions_are_entered() -> None:
    module = gradopt.parse(NESTED)
    gradopt.run_passes(module, "decompose")
    assert "prim.if" in names(module) and all(name.startswith("prim.") for name in names(module))
    (found,) = run_function(module, "f", [np.array(True), np.array([-1.0, 0, 1, 2])])
    np.testing.assert_allclose(found, [-0.2689414213699951, 0, 0.7310585786300049, 1.7615941559557646], rtol=1e-14)


def test_preserved_operations_stay() -> None:
    module = gradopt.parse(TEXT)
    gradopt.run_passes(module, "decompose{preserve=hl.softmax}")
    assert "hl.softmax" in names(module) and "hl.gelu" not in names(module)
    inner = gradopt.parse(NESTED)
    gradopt.run_passes(inner, "decompose{preserve=hl.if}")
    assert names(inner).count("hl.yield") == 2 and "hl.silu" not in names(inner)


def test_an_unknown_name_to_preserve_is_an_error() -> None:
    with pytest.raises(GradoptError, match=r"names 'hl\.softmx', which no dialect declares, did you mean 'hl.softmax'"):
        gradopt.run_passes(gradopt.parse(TEXT), "decompose{preserve=hl.softmx}")


def test_all_operations_without_a_decomposition_are_reported_at_once() -> None:
    module = gradopt.parse("""
func.func @g(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
func.func @f(%x: tensor<f64>) -> tensor<f64> {
  %0 = ad.grad @g(%x) : (tensor<f64>) -> tensor<f64>
  %1 = hl.sin %0 : tensor<f64>
  %2 = ad.grad @g(%1) : (tensor<f64>) -> tensor<f64>
  return %2 : tensor<f64>
}
""", "in.ir")
    with pytest.raises(GradoptError) as caught:
        gradopt.run_passes(module, "decompose")
    assert [str(line.message) for line in caught.value.diagnostics] == ["'ad.grad' op has no decomposition (run autodiff first)"] * 2
    assert [line.location.text for line in caught.value.diagnostics] == ['"in.ir":6:3', '"in.ir":8:3']


def test_new_operations_remember_what_they_come_from() -> None:
    module = gradopt.parse(TEXT, "in.ir")
    gradopt.run_passes(module, "decompose")
    places = {op.location.text for op in module.walk() if op.name.startswith("prim.")}
    assert places == {'fused<"decompose">["hl.softmax"("in.ir":3:3)]', 'fused<"decompose">["hl.gelu"("in.ir":4:3)]'}


def test_a_name_has_one_rule() -> None:
    assert find_decomposition("hl.relu") is not None and find_decomposition("prim.add") is None
    with pytest.raises(ValueError, match=r"'hl\.relu' has two decompositions"):
        decomposition("hl.relu")(lambda b, op: op.x)


def test_time_is_linear_in_the_program() -> None:
    """A chain of many operations: each is visited once (a quadratic pass would not end)."""
    lines = "\n".join(f"  %{i + 1} = hl.relu %{i} : tensor<2xf32>" for i in range(5000))
    module = gradopt.parse(f"func.func @f(%0: tensor<2xf32>) -> tensor<2xf32> {{\n{lines}\n  return %5000 : tensor<2xf32>\n}}")
    gradopt.run_passes(module, "decompose")
    assert names(module).count("prim.select") == 5000


def test_bounds_from_the_end_survive_binding() -> None:
    """A slice of a dynamic axis counts from its end; once the size is bound it counts from the front."""
    named = 'tensor<?xf64, #ir.dims<["n"]>>'
    longer = 'tensor<?xf64, #ir.dims<["n + 2"]>>'
    module = gradopt.parse(f"""
func.func @f(%x: {named}) -> {longer} {{
  %y = hl.pad %x {{high = [2], low = [0], mode = "reflect"}} : ({named}) -> {longer}
  return %y : {longer}
}}
""")
    gradopt.run_passes(module, "decompose,bind{n=4}")
    (found,) = run_function(module, "f", [np.arange(4.0)])
    np.testing.assert_array_equal(found, [0, 1, 2, 3, 2, 1])
