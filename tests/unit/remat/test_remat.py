"""Recomputing by marks and by a budget: same values, less memory, and not merged again by cse."""

import numpy as np
import pytest
from gradopt.lowering.interpreter import run_function
from gradopt.lowering.remat.budget import find_peak
from gradopt.lowering.remat.graph import FlowNetwork

import gradopt

SIZE = 1000


def chain(length):
    """A chain of sin and tanh; each needs its operand or its result on the way back."""
    lines = [f"func.func @f(%x: tensor<{SIZE}xf64>) -> tensor<f64> {{", f"  %v0 = prim.sin %x : tensor<{SIZE}xf64>"]
    lines += [f"  %v{i} = prim.{'tanh' if i % 2 else 'sin'} %v{i - 1} : tensor<{SIZE}xf64>" for i in range(1, length)]
    lines += [f"  %t = prim.reduce %v{length - 1} {{kind = \"sum\", axes = [0]}} : (tensor<{SIZE}xf64>) -> tensor<f64>",
              "  return %t : tensor<f64>", "}"]
    return "\n".join(lines)


def block_of(module, name):
    return next(op for op in module.regions[0].block.operations if op.properties["sym_name"].value == name).regions[0].block


@pytest.mark.parametrize("share, most_clones", [(0.9, 12), (0.5, 45), (0.3, 90)])
def test_budget_is_met(share, most_clones):
    module = gradopt.parse(chain(64))
    gradopt.run_passes(module, "autodiff{func=f},cse,dce")
    x = np.random.default_rng(0).standard_normal(SIZE)
    (expected,) = run_function(module, "f_grad", [x])
    before, count = find_peak(block_of(module, "f_grad")).size, len(block_of(module, "f_grad"))
    budget = int(before * share)
    gradopt.run_passes(module, f"remat{{budget={budget} func=f_grad}},cse,dce")
    assert find_peak(block_of(module, "f_grad")).size <= budget
    assert 0 < len(block_of(module, "f_grad")) - count <= 2 * most_clones
    np.testing.assert_array_equal(run_function(module, "f_grad", [x])[0], expected)


def test_a_budget_that_is_met_already_changes_nothing():
    module = gradopt.parse(chain(8))
    gradopt.run_passes(module, "autodiff{func=f}")
    text = str(module)
    gradopt.run_passes(module, "remat{budget=1000000}")
    assert str(module) == text


def test_products_run_again_only_if_need_be():
    text = """func.func @f(%x: tensor<64x64xf64>, %w: tensor<64x64xf64>) -> tensor<f64> {
  %a = prim.dot %x, %w {lhs_contract = [1], rhs_contract = [0]} : (tensor<64x64xf64>, tensor<64x64xf64>) -> tensor<64x64xf64>
  %b = prim.sin %a : tensor<64x64xf64>
  %c = prim.sin %b : tensor<64x64xf64>
  %d = prim.sin %c : tensor<64x64xf64>
  %e = prim.sin %d : tensor<64x64xf64>
  %t = prim.reduce %e {kind = "sum", axes = [0, 1]} : (tensor<64x64xf64>) -> tensor<f64>
  return %t : tensor<f64>
}
"""
    module = gradopt.parse(text)
    gradopt.run_passes(module, "autodiff{func=f wrt=x}")
    before = find_peak(block_of(module, "f_grad")).size
    gradopt.run_passes(module, f"remat{{budget={before - 1} func=f_grad}}")
    names = [op.name for op in block_of(module, "f_grad").operations]
    assert find_peak(block_of(module, "f_grad")).size < before
    assert names.count("prim.dot") == 2  # one forward, one backward


def test_dynamic_sizes_are_refused():
    module = gradopt.parse(chain(8).replace(f"tensor<{SIZE}xf64>", "tensor<?xf64>"))
    with pytest.raises(gradopt.GradoptError, match="bind its sizes"):
        gradopt.run_passes(module, "remat{budget=10}")


MARKED = """
func.func @f(%x: tensor<1000xf64>, %w: tensor<1000xf64>) -> tensor<f64> {
  %a = prim.mul %x, %w : tensor<1000xf64>
  %b = hl.checkpoint_begin %a : tensor<1000xf64>
  %c = prim.sin %b : tensor<1000xf64>
  %d = prim.mul %c, %w : tensor<1000xf64>
  %e = prim.exp %d : tensor<1000xf64>
  %g = hl.checkpoint_end %e : tensor<1000xf64>
  %h = prim.sqrt %g : tensor<1000xf64>
  %t = prim.reduce %h {kind = "sum", axes = [0]} : (tensor<1000xf64>) -> tensor<f64>
  return %t : tensor<f64>
}
"""


def test_marked_stage_is_computed_again():
    plain, marked = gradopt.parse(MARKED), gradopt.parse(MARKED)
    gradopt.run_passes(plain, "autodiff{func=f},decompose,cse,dce")
    gradopt.run_passes(marked, "autodiff{func=f},checkpoint,decompose,cse,dce")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(1000), rng.standard_normal(1000)]
    for a, b in zip(run_function(plain, "f_grad", arrays), run_function(marked, "f_grad", arrays)):
        np.testing.assert_array_equal(a, b)
    names = [op.name for op in block_of(marked, "f_grad").operations]
    assert names.count("prim.exp") == 2
    assert names.count("prim.sqrt") == 1
    block = block_of(marked, "f_grad")
    block.number()
    first_exp = next(op for op in block.operations if op.name == "prim.exp")
    last_read = max((user.order for user in first_exp.results[0].users), default=0)
    root = next(op for op in block.operations if op.name == "prim.sqrt")
    assert last_read <= root.order  # the stage's own values do not live into the backward part


def test_two_stages_are_computed_again_one_at_a_time():
    text = """
func.func @f(%x: tensor<1000xf64>) -> tensor<f64> {
""" + "".join(f"""  %b{i} = hl.checkpoint_begin {"%x" if i == 0 else f"%e{i - 1}"} : tensor<1000xf64>
  %c{i} = prim.sin %b{i} : tensor<1000xf64>
  %d{i} = prim.sin %c{i} : tensor<1000xf64>
  %p{i} = prim.sin %d{i} : tensor<1000xf64>
  %e{i} = hl.checkpoint_end %p{i} : tensor<1000xf64>
""" for i in range(3)) + """
  %t = prim.reduce %e2 {kind = "sum", axes = [0]} : (tensor<1000xf64>) -> tensor<f64>
  return %t : tensor<f64>
}
"""
    plain, marked = gradopt.parse(text), gradopt.parse(text)
    gradopt.run_passes(plain, "autodiff{func=f},decompose")
    gradopt.run_passes(marked, "autodiff{func=f},checkpoint,decompose")
    x = np.random.default_rng(0).standard_normal(1000)
    np.testing.assert_array_equal(run_function(plain, "f_grad", [x])[0], run_function(marked, "f_grad", [x])[0])
    assert find_peak(block_of(marked, "f_grad")).size < find_peak(block_of(plain, "f_grad")).size


def test_minimum_cut():
    """A small network whose minimum cut is known: two ways, of capacity 3 and 2."""
    network = FlowNetwork()
    source, a, b, sink = (network.node() for _ in range(4))
    network.edge(source, a, 3)
    network.edge(source, b, 7)
    network.edge(a, sink, 5)
    network.edge(b, sink, 2)
    network.edge(a, b, 1)
    assert network.saturate(source, sink) == {source, b}



def layers(marked, stages=4, depth=4, size=64):
    """Layers of tanh(x w), in stages."""
    matrix = f"tensor<{size}x{size}xf32>"
    lines, current = [f"func.func @f(%x: {matrix}, %w: {matrix}) -> tensor<f32> {{"], "%x"
    for stage in range(stages):
        if marked:
            lines.append(f"  %b{stage} = hl.checkpoint_begin {current} : {matrix}")
            current = f"%b{stage}"
        for layer in range(depth):
            name = f"{stage}_{layer}"
            lines += [f"  %m{name} = hl.matmul {current}, %w : ({matrix}, {matrix}) -> {matrix}",
                      f"  %t{name} = hl.tanh %m{name} : {matrix}"]
            current = f"%t{name}"
        if marked:
            lines.append(f"  %e{stage} = hl.checkpoint_end {current} : {matrix}")
            current = f"%e{stage}"
    lines += [f"  %l = hl.sum {current} : ({matrix}) -> tensor<f32>", "  return %l : tensor<f32>", "}"]
    return "\n".join(lines)


def test_compiled_functions_take_less_memory():
    """What the passes save is saved in the native program too: its planned peak, with the same bits."""
    rng = np.random.default_rng(0)
    x, w = ((rng.random((64, 64)) / 32).astype(np.float32) for _ in range(2))
    plain = gradopt.compile(gradopt.parse(layers(False)), "f_grad", wrt=["x"])
    marked = gradopt.compile(gradopt.parse(layers(True)), "f_grad", wrt=["x"])
    np.testing.assert_array_equal(plain(x, w), marked(x, w))
    assert marked.peak_bytes(x, w) <= 0.55 * plain.peak_bytes(x, w)
    module = gradopt.parse(layers(False))
    gradopt.run_passes(module, "autodiff{func=f wrt=x},decompose,canonicalize,cse,dce")
    unit = 4 * 64 * 64
    gradopt.run_passes(module, f"remat{{budget={10 * unit} func=f_grad}}")
    budgeted = gradopt.compile(module, "f_grad")
    np.testing.assert_array_equal(plain(x, w), budgeted(x, w))
    assert budgeted.peak_bytes(x, w) <= 11 * unit  # a product and the tanh fused into it live at once
