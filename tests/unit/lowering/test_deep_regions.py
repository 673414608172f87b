"""Regions inside regions: any depth works in every pass, compiled and interpreted, and costs work linear in the depth.

Work is counted in calls of Python functions, which does not depend on the machine."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from gradopt.lowering.interpreter import run_function

import gradopt

DEEP = 1000


def nested_branches(depth: int, dialect: str = "prim", reads: bool = False) -> str:
    """`depth` branches inside each other around a sine. `reads`: each multiplies what comes from inside by its argument."""
    scalar = "tensor<f64>"
    lines = [f"func.func @f(%p: tensor<i1>, %x: {scalar}) -> {scalar} {{"]
    p, x = "%p", "%x"
    for k in range(depth):
        lines.append(f"%r{k} = {dialect}.if {p}, {p}, {x} ({{\n^bb0(%p{k}: tensor<i1>, %x{k}: {scalar}):")
        p, x = f"%p{k}", f"%x{k}"
    lines.append(f"%s = {dialect}.sin {x} : {scalar}")
    value = "%s"
    for k in reversed(range(depth)):
        if reads:
            multiply = "mul" if dialect == "prim" else "multiply"
            lines.append(f"%m{k} = {dialect}.{multiply} {value}, %x{k} : {scalar}")
            value = f"%m{k}"
        lines.append(f"{dialect}.yield {value} : ({scalar}) -> ()\n}}, {{\n^bb0(%q{k}: tensor<i1>, %e{k}: {scalar}):\n"
                     f"{dialect}.yield %e{k} : ({scalar}) -> ()\n}}) : (tensor<i1>, tensor<i1>, {scalar}) -> {scalar}")
        value = f"%r{k}"
    return "\n".join([*lines, f"return {value} : {scalar}", "}"])


def nested_loops(depth: int, kind: str) -> str:
    """`depth` loops of two trips inside each other around x * 0.9 (kind: scan, or for with bounds that are known only at run time)."""
    scalar = "tensor<f64>"
    lines = [f"func.func @f(%two: tensor<i64>, %x: {scalar}) -> {scalar} {{", "%zero = hl.constant dense<0> : tensor<i64>"]
    two, x, zero = "%two", "%x", "%zero"
    for k in range(depth):
        head = (f"%r{k} = hl.scan {x}, {two}, {zero} {{length = 2, num_carry = 1}} ({{\n^bb0(" if kind == "scan" else
                f"%r{k} = hl.for {zero}, {two}, {x}, {two}, {zero} {{num_carry = 1, max_trip_count = 2}} ({{\n^bb0(%i{k}: tensor<i64>, ")
        lines.append(head + f"%x{k}: {scalar}, %t{k}: tensor<i64>, %z{k}: tensor<i64>):")
        two, x, zero = f"%t{k}", f"%x{k}", f"%z{k}"
    lines.append(f"%c = hl.constant dense<0.9> : {scalar}\n%s = hl.multiply {x}, %c : {scalar}")
    value = "%s"
    for k in reversed(range(depth)):
        types = f"({scalar}, tensor<i64>, tensor<i64>)" if kind == "scan" else f"(tensor<i64>, tensor<i64>, {scalar}, tensor<i64>, tensor<i64>)"
        lines.append(f"hl.yield {value} : ({scalar}) -> ()\n}}) : {types} -> {scalar}")
        value = f"%r{k}"
    return "\n".join([*lines, f"return {value} : {scalar}", "}"])


def work(text: str, passes: str) -> int:
    """How many Python functions a pipeline calls."""
    module = gradopt.parse(text)
    gradopt.run_passes(module.clone(), passes)  # what is imported and registered once
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        gradopt.run_passes(module, passes)
    finally:
        sys.setprofile(before)
    return count


PASSES = ["canonicalize", "cse", "dce", "fold", "licm", "inline", "symbol-dce", "infer-shapes", "remat{budget=1000}", "checkpoint", "decompose",
          "fuse", "fuse,plan", "batch{func=f}", "batch{func=f axes=-,0}", "autodiff{func=f}", "autodiff{func=f mode=jvp}",
          "autodiff{func=f mode=hvp}", "autodiff{func=f split=true}", "autodiff{func=f mode=vjp},decompose,canonicalize,cse,dce"]


@pytest.mark.parametrize("passes", PASSES)
def test_every_pass_is_linear_in_the_depth(passes: str) -> None:
    """Twice the depth is twice the work."""
    one, two, four = (work(nested_branches(depth), passes) for depth in (40, 80, 160))
    assert four - two <= 2.2 * (two - one)


@pytest.mark.parametrize("passes", ["decompose", "autodiff{func=f mode=jvp}", "autodiff{func=f}", "decompose,batch{func=f axes=-,0}"])
def test_branches_of_hl(passes: str) -> None:
    """Decomposition takes regions instead of copying them."""
    one, two, four = (work(nested_branches(depth, "hl"), passes) for depth in (40, 80, 160))
    assert four - two <= 2.2 * (two - one)


@pytest.mark.parametrize("passes", [name for name in PASSES if "hvp" not in name])
def test_a_thousand_branches(passes: str) -> None:
    """Nothing is recursive; the result is verified, printed and read back."""
    module = gradopt.parse(nested_branches(DEEP))
    gradopt.run_passes(module, passes)
    text = str(module)
    assert str(gradopt.parse(text)) == text


def test_a_thousand_branches_compiled_and_interpreted() -> None:
    """With values that are read on the way out."""
    text, x, yes, no = nested_branches(DEEP, reads=True), np.asarray(0.999), np.asarray(True), np.asarray(False)
    expected = np.sin(x) * x ** DEEP
    compiled = gradopt.compile(text, "f")
    np.testing.assert_allclose(compiled(yes, x), expected, rtol=1e-12)
    np.testing.assert_array_equal(compiled(no, x), x)
    module = gradopt.parse(text)
    np.testing.assert_allclose(run_function(module, "f", [yes, x])[0], expected, rtol=1e-12)
    slope = gradopt.compile(text, "f_jvp")(yes, x, np.asarray(1.0))[1]
    np.testing.assert_allclose(slope, np.cos(x) * x ** DEEP + DEEP * np.sin(x) * x ** (DEEP - 1), rtol=1e-12)
    gradient = gradopt.compile(nested_branches(DEEP), "f_grad")
    np.testing.assert_allclose(gradient(yes, x), np.cos(x), rtol=1e-12)


@pytest.mark.parametrize("kind", ["scan", "for"])
def test_loops_inside_loops(kind: str) -> None:
    """Fourteen loops inside each other: nothing tries both ways at every level."""
    depth = 14
    for passes in ("decompose,batch{func=f axes=-,0}", "decompose,batch{func=f}", "autodiff{func=f mode=jvp},decompose"):
        less, more = (work(nested_loops(n, kind), passes) for n in (depth // 2, depth))
        assert more <= 6 * less
    x, two = np.asarray([0.5, 0.7]), np.asarray(2)
    module = gradopt.parse(nested_loops(3, kind))
    gradopt.run_passes(module, "decompose,batch{func=f axes=-,0 size=2},autodiff{func=f_batch mode=vjp}")
    value, gradient = run_function(module, "f_batch_vjp", [two, x, np.ones(2)])
    np.testing.assert_allclose(value, x * 0.9 ** 8)
    np.testing.assert_allclose(gradient, np.full(2, 0.9 ** 8))
