"""Profiles: what a kernel costs, which lines and ops it comes from, the roofline, the table, the trace. Nothing here reads a clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gradopt.dialects.hl.neural.attention import AttentionAttributes
from gradopt.ir.operation import Operation
from gradopt.lowering.codegen.library import LIBRARY as KERNELS
from gradopt.lowering.native import cache, pool
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.profile import costs, roofline
from gradopt.lowering.profile.collect import KernelProfile, Profile, profile_function, size_names
from gradopt.lowering.profile.costs import Cost, UnknownSizeError, cost_of
from gradopt.lowering.profile.places import kernel_name, line_text, source_lines
from gradopt.lowering.profile.roofline import Roofline, machine_roofline
from gradopt.lowering.profile.trace import trace_text
from gradopt.tools.profile_report import profile_report
from gradopt.tools.run import main

import gradopt

MACHINE = Roofline(2, 1e11, 5e10, 2e10)
LAYER = """func.func @loss(%x: tensor<8x4xf32>, %w: tensor<4x3xf32>) -> tensor<f32> {
  %h = hl.matmul %x, %w : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
  %a = hl.gelu %h : tensor<8x3xf32>
  %s = hl.mean %a : (tensor<8x3xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
"""


def kernels(text: str, entry: str = "f", **options: Any) -> list[Operation]:
    """The ops that the instructions of a compiled function belong to, each once."""
    return list(dict.fromkeys(gradopt.compile(gradopt.parse(text, "in.ir"), entry, **options).program.origins))


def function(arguments: str, body: str, result: str) -> str:
    """A function @f whose body ends in %r."""
    return f"func.func @f({arguments}) -> {result} {{\n{body}\n  return %r : {result}\n}}\n"


# --- costs


@pytest.mark.parametrize(("arguments", "body", "result", "expected"), [
    # one product and one sum an element: two arrays in, one out
    ("%x: tensor<64x32xf32>, %y: tensor<64x32xf32>",
     "  %a = prim.mul %x, %y : tensor<64x32xf32>\n  %r = prim.add %a, %x : tensor<64x32xf32>", "tensor<64x32xf32>",
     Cost(2 * 2048, 2 * 8192, 8192)),
    # a sum of each row, a transcendental function (12) and a root (4) on f64
    ("%x: tensor<64x32xf64>", "  %e = prim.exp %x : tensor<64x32xf64>\n  %q = prim.sqrt %e : tensor<64x32xf64>\n"
     '  %r = prim.reduce %q {axes = [1], kind = "sum"} : (tensor<64x32xf64>) -> tensor<64xf64>', "tensor<64xf64>",
     Cost(2048 * (12 + 4 + 1), 16384, 512, True)),
    # integers are no floating-point operations
    ("%x: tensor<64xi32>", "  %r = prim.add %x, %x : tensor<64xi32>", "tensor<64xi32>", Cost(0, 256, 256)),
    # a product reads both sides once; its bias is added to each element, in its own memory
    ("%x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %b: tensor<16xf32>",
     "  %p = hl.matmul %x, %w : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>\n"
     "  %r = hl.add %p, %b : (tensor<64x16xf32>, tensor<16xf32>) -> tensor<64x16xf32>", "tensor<64x16xf32>",
     Cost(2 * 64 * 32 * 16 + 64 * 16, 4 * (64 * 32 + 32 * 16 + 16), 4 * 64 * 16)),
    # a slice reads what it takes, a gather at most the rows that it picks
    ("%x: tensor<64x32xf32>", "  %r = prim.slice %x {begin = [8, 0], end = [12, 32], strides = [1, 1]} : (tensor<64x32xf32>) -> tensor<4x32xf32>",
     "tensor<4x32xf32>", Cost(0, 512, 512)),
    ("%x: tensor<1000x32xf32>, %i: tensor<5xi32>",
     "  %r = hl.take %x, %i {axis = 0} : (tensor<1000x32xf32>, tensor<5xi32>) -> tensor<5x32xf32>", "tensor<5x32xf32>",
     Cost(0, 5 * 32 * 4 + 20, 5 * 32 * 4)),
    # 2 x 3 x 3 x 16 operations for each of 2 x 8 x 6 x 6 results
    ("%x: tensor<2x16x8x8xf32>, %w: tensor<8x16x3x3xf32>",
     "  %r = hl.conv2d %x, %w : (tensor<2x16x8x8xf32>, tensor<8x16x3x3xf32>) -> tensor<2x8x6x6xf32>", "tensor<2x8x6x6xf32>",
     Cost(2 * 9 * 16 * 2 * 8 * 36, 4 * (2 * 16 * 64 + 8 * 16 * 9), 4 * 2 * 8 * 36)),
    ("%x: tensor<64x32xf32>", '  %r = prim.cumulative %x {axis = 1, kind = "sum"} : tensor<64x32xf32>', "tensor<64x32xf32>",
     Cost(2048, 8192, 8192)),
    ("%x: tensor<7x32xf32>", "  %r = prim.sort %x {axis = 1} : tensor<7x32xf32>", "tensor<7x32xf32>", Cost(7 * 32 * 5, 896, 896)),
    # 2/3 n³ for the factors and 2 n² for each of 4 right-hand sides
    ("%x: tensor<6x6xf64>, %b: tensor<6x4xf64>", "  %r = hl.solve %x, %b : (tensor<6x6xf64>, tensor<6x4xf64>) -> tensor<6x4xf64>",
     "tensor<6x4xf64>", Cost(144 + 2 * 36 * 4, 8 * (36 + 24), 8 * 24, True)),
])
def test_cost(arguments: str, body: str, result: str, expected: Cost) -> None:
    found = [cost_of(op, {}) for op in kernels(function(arguments, body, result))]
    assert Cost(sum(c.flops for c in found), sum(c.read for c in found), sum(c.written for c in found), found[0].double) == expected


def test_a_scatter_into_zeros_writes_them_and_reads_the_updates() -> None:
    body = """  %z = hl.zeros : tensor<1000x32xf32>
  %r = prim.scatter %z, %i, %u {axis = 0, kind = "add"} : (tensor<1000x32xf32>, tensor<5xi32>, tensor<5x32xf32>) -> tensor<1000x32xf32>"""
    op, = kernels(function("%i: tensor<5xi32>, %u: tensor<5x32xf32>", body, "tensor<1000x32xf32>"))
    assert cost_of(op, {}) == Cost(160, 20 + 640, 128_000)


def test_a_scatter_in_place_moves_only_its_rows() -> None:
    text = """func.func @f(%x: tensor<1000x32xf32>, %i: tensor<7x5xi32>, %u: tensor<5x32xf32>) -> tensor<1000x32xf32> {
  %r = hl.scan %x, %u, %i {length = 7, num_carry = 1, num_xs = 1} ({
  ^bb0(%c: tensor<1000x32xf32>, %v: tensor<5x32xf32>, %j: tensor<5xi32>):
    %n = prim.scatter %c, %j, %v {axis = 0, kind = "add"} : (tensor<1000x32xf32>, tensor<5xi32>, tensor<5x32xf32>) -> tensor<1000x32xf32>
    hl.yield %n : tensor<1000x32xf32>
  }) : (tensor<1000x32xf32>, tensor<5x32xf32>, tensor<7x5xi32>) -> tensor<1000x32xf32>
  return %r : tensor<1000x32xf32>
}
"""
    op, = (op for op in kernels(text) if op.name == "prim.scatter")
    assert cost_of(op, {}) == Cost(160, 20 + 2 * 640, 640)


@pytest.mark.parametrize(("kind", "window", "queries", "keys"), [
    ("none", None, 5, 9), ("causal", None, 16, 16), ("causal", None, 7, 12), ("causal", None, 12, 7), ("sliding_window", 3, 16, 16),
    ("sliding_window", 2, 6, 11),
])
def test_attention_counts_the_pairs_that_a_mask_leaves(kind: str, window: int | None, queries: int, keys: int) -> None:
    attributes = "" if kind == "none" else f', mask_kind = "{kind}"' + (f", window = {window}" if window is not None else "")
    q, k = f"tensor<2x3x{queries}x8xf32>", f"tensor<2x3x{keys}x8xf32>"
    text = function(f"%q: {q}, %k: {k}, %v: {k}", f"  %a = hl.attention %q, %k, %v {{num_heads = 3, head_dim = 8{attributes}}} : "
                    f"({q}, {k}, {k}) -> {q}\n  %r = hl.sum %a : ({q}) -> tensor<f32>", "tensor<f32>")
    forward, backward = (op for op in kernels(text, "f_grad", wrt=["q", "k", "v"]) if op.name.startswith("kernel.attention"))
    assert isinstance(forward, AttentionAttributes)
    pairs = 6 * int(np.broadcast_to(forward.allowed(queries, keys, None, ""), (1, 1, queries, keys)).sum())
    assert cost_of(forward, {}).flops == pairs * (4 * 8 + costs.SOFTMAX_WEIGHT)
    assert cost_of(backward, {}).flops == pairs * (10 * 8 + costs.ADJOINT_WEIGHT)


def test_every_library_kernel_has_a_cost() -> None:
    assert set(KERNELS) <= set(costs.LIBRARY)


def test_adjoints_of_a_convolution_cost_what_it_costs() -> None:
    text = function("%x: tensor<2x16x8x8xf32>, %w: tensor<8x4x3x3xf32>",
                    "  %c = hl.conv2d %x, %w {groups = 4, strides = [2, 2]} : (tensor<2x16x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<2x8x3x3xf32>\n"
                    "  %r = hl.sum %c : (tensor<2x8x3x3xf32>) -> tensor<f32>", "tensor<f32>")
    module = gradopt.parse(text)
    gradopt.run_passes(module, "autodiff{func=f wrt=x,w mode=value_and_grad}")
    found = {op.name: cost_of(op, {}).flops for op in module.walk() if "conv2d" in op.name}
    assert found == dict.fromkeys(("hl.conv2d", "bwd.conv2d_input", "bwd.conv2d_weight"), 2 * 9 * 4 * 2 * 8 * 9)


def test_sizes_come_from_the_arguments() -> None:
    compiled = gradopt.compile("""func.func @f(%x: tensor<?x4xf32, #ir.dims<["batch", 4]>>) -> tensor<?x4xf32, #ir.dims<["batch", 4]>> {
  %r = prim.exp %x : tensor<?x4xf32, #ir.dims<["batch", 4]>>
  return %r : tensor<?x4xf32, #ir.dims<["batch", 4]>>
}
""", "f")
    op, = dict.fromkeys(compiled.program.origins)
    assert size_names(compiled, [np.zeros((7, 4), np.float32)]) == {"batch": 7}
    assert cost_of(op, {"batch": 7}) == Cost(12 * 28, 112, 112)
    with pytest.raises(UnknownSizeError, match="batch"):
        cost_of(op, {})


# --- lines and names


def test_lines_of_a_value_and_its_gradient() -> None:
    first, combined, weights = kernels(LAYER, "loss_value_and_grad", wrt=["w"])
    lines = [("in.ir", line) for line in range(6)]
    assert source_lines(first) == ([lines[2], lines[3], lines[4]], [lines[3], lines[4]])
    assert source_lines(combined) == ([lines[4]], [])
    assert source_lines(weights) == ([], [lines[2]])
    assert kernel_name(first) == "matmul+mean+gelu+d(mean)+…"
    assert kernel_name(combined) == "mean" and kernel_name(weights) == "d(matmul)"


def test_lines_inside_a_called_function_and_a_loop() -> None:
    text = """func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = hl.tanh %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = hl.scan %x {length = 3, num_carry = 1, num_xs = 0} ({
  ^bb0(%c: tensor<4xf32>):
    %n = func.call @g(%c) : (tensor<4xf32>) -> tensor<4xf32>
    hl.yield %n : tensor<4xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""
    by_name = {kernel_name(op): source_lines(op) for op in kernels(text)}
    assert by_name["tanh"] == ([("in.ir", 2)], []) and by_name["driver (scan)"] == ([("in.ir", 6)], [])


def test_a_kernel_that_only_moves_is_a_copy() -> None:
    op, = kernels(function("%x: tensor<4x3xf32>", "  %r = hl.permute_dims %x {axes = [1, 0]} : (tensor<4x3xf32>) -> tensor<3x4xf32>", "tensor<3x4xf32>"))
    assert kernel_name(op) == "copy(permute_dims)" and source_lines(op) == ([("in.ir", 2)], [])


@pytest.mark.parametrize(("lines", "text"), [
    ([], ""), ([("a.ir", 2)], "2"), ([("a.ir", 2), ("a.ir", 3), ("a.ir", 4), ("a.ir", 7)], "2-4,7"),
    ([("a.ir", 2), ("b.ir", 1), ("b.ir", 2)], "2 b.ir:1-2"),
])
def test_line_text(lines: list[tuple[str, int]], text: str) -> None:
    assert line_text(lines, "a.ir") == text


# --- the roofline


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_the_peak_kernel_multiplies(element: str) -> None:
    program, size, flops = roofline.tile_program(element, 2)
    found = Executable(program)(np.ones(size, np.float32 if element == "f32" else np.float64))
    assert (found == roofline.DEPTH * roofline.TILES).all() and flops == 2 * roofline.DEPTH * roofline.TILES * found.size


def test_the_best_roofline_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "cache"))
    threads = pool.num_threads()
    measured = [Roofline(threads, 3.0, 2.0, 1.0), Roofline(threads, 2.0, 5.0, 1.0)]
    monkeypatch.setattr(roofline, "measure", lambda threads: measured.pop(0) if measured else Roofline(threads, 1.0, 1.0, 0.5))
    assert machine_roofline() == Roofline(threads, 3.0, 2.0, 1.0)
    assert machine_roofline() == machine_roofline() == Roofline(threads, 3.0, 5.0, 1.0)
    stored, = (tmp_path / "cache").glob("roofline-*.json")
    fields = json.loads(stored.read_text())
    for damaged in ("{", "[]", '{"threads": 1}', json.dumps({**fields, "single": 0}), json.dumps({**fields, "double": "fast"}),
                    json.dumps({**fields, "bandwidth": 1e300}), json.dumps({**fields, "other": 1})):
        stored.write_text(damaged)
        assert machine_roofline() == Roofline(threads, 1.0, 1.0, 0.5)


def test_least_time() -> None:
    product, copy = Cost(flops=10**9, read=1000), Cost(flops=10, read=10**7, written=10**7)
    assert MACHINE.least_seconds(product) == 0.01 and MACHINE.bound(product) == "compute"
    assert MACHINE.least_seconds(copy) == 0.001 and MACHINE.bound(copy) == "memory"
    assert MACHINE.least_seconds(Cost(flops=10**9, double=True)) == 0.02


# --- the whole


def layer_profile(events: int = 0) -> Profile:
    compiled = gradopt.compile(gradopt.parse(LAYER, "in.ir"), "loss_value_and_grad", wrt=["w"])
    return profile_function(compiled, [np.ones((8, 4), np.float32), np.ones((4, 3), np.float32)], 1e-9, events)


def test_profile_of_a_function() -> None:
    profile = layer_profile()
    assert profile.calls == 3 and [kernel.runs for kernel in profile.kernels] == [1, 1, 1]
    assert [kernel.seconds for kernel in profile.kernels] == sorted((kernel.seconds for kernel in profile.kernels), reverse=True)
    assert {kernel.name for kernel in profile.kernels} >= {"mean", "d(matmul)"} and not profile.events


def test_runs_of_a_loop_count() -> None:
    text = function("%x: tensor<4xf32>", """  %r = hl.scan %x {length = 5, num_carry = 1, num_xs = 0} ({
  ^bb0(%c: tensor<4xf32>):
    %n = prim.exp %c : tensor<4xf32>
    hl.yield %n : tensor<4xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>""", "tensor<4xf32>")
    profile = profile_function(gradopt.compile(text, "f"), [np.zeros(4, np.float32)], 1e-9)
    kernel, = (kernel for kernel in profile.kernels if kernel.name == "exp")
    assert kernel.runs == 5 and kernel.cost == Cost(48, 16, 16) and kernel.call_cost == Cost(240, 80, 80)


def made_up(name: str, seconds: float, cost: Cost | None, runs: int = 1) -> KernelProfile:
    return KernelProfile(name, [("in.ir", 2), ("other.ir", 1)], [("in.ir", 3)], runs, 1, seconds, cost)


def test_table() -> None:
    kernels = [made_up("dot", 0.02, Cost(10**9, 1000, 0)), made_up("copy", 0.002, Cost(0, 10**6, 10**6), 10), made_up("odd", 0.002, None),
               made_up("driver", 0.001, Cost())]
    lines = profile_report(Profile(kernels, 7, 0.025, [], kernels), MACHINE, "in.ir").splitlines()
    assert lines[0] == "25 ms a call (median of 7); the machine with 2 threads: 100 GFLOP/s on f32, 50 GFLOP/s on f64, 20 GB/s of memory"
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[1:]]
    assert cells[0] == ["kernel", "lines", "derivative of", "runs", "time", "share", "FLOPs", "bytes", "roofline", "bound by"]
    assert cells[2] == ["dot", "2 other.ir:1", "3", "1", "20 ms", "80.0%", "1 G", "1 kB", "50%", "compute"]
    assert cells[3] == ["copy", "2 other.ir:1", "3", "10", "2 ms", "8.0%", "0", "20 MB", "50%", "memory"]
    assert cells[4] == ["odd", "2 other.ir:1", "3", "1", "2 ms", "8.0%", "≥ 0", "≥ 0 B"]
    assert cells[5] == ["driver", "2 other.ir:1", "3", "1", "1 ms", "4.0%", "0", "0 B"]
    assert cells[6] == ["all", "13", "25 ms", "100.0%", "≥ 1 G", "≥ 20 MB", "44%"]


def test_a_long_table_is_cut() -> None:
    kernels = [made_up(f"k{number}", 0.001, Cost(1000, 10, 10)) for number in range(45)]
    text = profile_report(Profile(kernels, 3, 0.045, [], kernels), MACHINE, "in.ir")
    assert "k39 " in text and "k40 " not in text and "5 more" in text and "\nall" in text


def test_trace() -> None:
    before = pool.num_threads()
    pool.set_num_threads(2)
    try:
        compiled = gradopt.compile(function("%x: tensor<4000000xf32>", "  %r = prim.exp %x : tensor<4000000xf32>", "tensor<4000000xf32>"), "f")
        profile = profile_function(compiled, [np.zeros(4_000_000, np.float32)], 1e-9, events=1000)
    finally:
        pool.set_num_threads(before)
    trace = json.loads(trace_text(profile, "f", MACHINE))
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert names[1] == "caller" and set(names.values()) <= {"caller", "worker 1"}
    complete = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {event["ph"] for event in trace["traceEvents"]} == {"X", "M"} and all(event["tid"] in names for event in complete)
    whole = [event for event in complete if event["cat"] == "kernel"]
    assert [event["name"] for event in whole] == ["exp"] * 3
    assert all(event["args"]["FLOPs"] == 48_000_000 and event["args"]["bound by"] == "memory" for event in whole)
    chunks = [event for event in complete if event["cat"] == "chunk"]
    assert len(chunks) % 3 == 0 and len(chunks) > 3
    for event in chunks:  # every chunk lies inside a run of its kernel (both in µs, rounded from ns)
        assert any(outer["ts"] <= event["ts"] + 1e-3 and event["ts"] + event["dur"] <= outer["ts"] + outer["dur"] + 1e-3 for outer in whole)
    assert [event["ts"] for event in complete] == sorted(event["ts"] for event in complete) and complete[0]["ts"] == 0


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(roofline, "measure", lambda threads: Roofline(threads, 1e11, 5e10, 2e10))
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "cache"))
    source, trace = tmp_path / "layer.ir", tmp_path / "trace.json"
    source.write_text(LAYER)
    arguments = [str(source), "--entry=loss_value_and_grad", "--wrt=w", "--arg=random", "--profile=0.001"]
    assert main([*arguments, f"--trace={trace}"]) == 0
    printed = capsys.readouterr().out
    assert "result 0" not in printed and "d(matmul)" in printed and "\nall " in printed
    kept = trace.read_text()
    assert {event["name"] for event in json.loads(kept)["traceEvents"]} >= {"mean", "d(matmul)"}
    assert main([*arguments, f"--trace={tmp_path}/missing/trace.json"]) == 1 and "cannot write" in capsys.readouterr().err
    assert main([*arguments, "--print=short"]) == 0 and "result 0" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "layer.ir", "trace.json"]  # no half-written file
