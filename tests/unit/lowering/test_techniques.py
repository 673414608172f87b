"""What makes compiled functions fast, each technique by its effect on kernels, memory traffic or machine code (docs/performance.md)."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gradopt.lowering.codegen.library.attention_shape import Keys, shape_of
from gradopt.lowering.codegen.library.source import Source
from gradopt.lowering.compile import CompiledFunction
from gradopt.lowering.native import codegen, kernels
from gradopt.lowering.native.program import Copy, LoopBegin, LoopEnd, Run, Swap, Temporary
from gradopt.lowering.profile.costs import Cost, cost_of

import gradopt

X86 = codegen.host().triple.startswith("x86_64") and "+avx2" in codegen.host().features and "+fma" in codegen.host().features


def compiled(arguments: str, body: str, result: str, entry: str = "f", wrt: list[str] | None = None) -> CompiledFunction:
    """@f whose body ends in %r, or a derivative of it."""
    return gradopt.compile(f"func.func @f({arguments}) -> {result} {{\n{body}\n  return %r : {result}\n}}\n", entry, wrt=wrt)


def costs(function: CompiledFunction) -> list[Cost]:
    """What each kernel costs."""
    return [cost_of(op, {}) for op in dict.fromkeys(function.program.origins)]


def moved(function: CompiledFunction) -> int:
    """Bytes that all kernels read and write."""
    return sum(cost.moved for cost in costs(function))


def assembly(function: CompiledFunction, number: int = 0) -> str:
    """The machine code of a kernel."""
    kernel = function.program.kernels[number]
    return codegen.assembly(kernels.FRONT_ENDS["direct"](kernel), kernel.vectorise)


def vector_instructions(text: str, instruction: str) -> int:
    """How many such instructions on vector registers there are."""
    return len(re.findall(rf"^\s*{instruction}\w*\s.*%[yz]mm\d+", text, re.MULTILINE))


# --- one pass over memory

MATRIX, ROWS = 256 * 512 * 4, 256 * 4
X = "%x: tensor<256x512xf32>"


def summed(body: str, value: str = "%y") -> str:
    """A body whose result is the sum of `value` times the weights %w."""
    return (f"{body}\n  %p = hl.multiply {value}, %w : tensor<256x512xf32>\n"
            "  %r = hl.sum %p : (tensor<256x512xf32>) -> tensor<f32>")


@pytest.mark.parametrize(("arguments", "body", "wrt", "arrays"), [
    # forward: x in, y out
    (X, "  %r = hl.softmax %x {axis = 1} : tensor<256x512xf32>", None, 2),
    (X, "  %r = hl.log_softmax %x {axis = 1} : tensor<256x512xf32>", None, 2),
    (f"{X}, %g: tensor<512xf32>, %b: tensor<512xf32>",
     "  %r = hl.layer_norm %x, %g, %b : (tensor<256x512xf32>, tensor<512xf32>, tensor<512xf32>) -> tensor<256x512xf32>", None, 2),
    # value and gradient together: x and the weights in, dx out
    (f"{X}, %w: tensor<256x512xf32>", summed("  %y = hl.softmax %x {axis = 1} : tensor<256x512xf32>"), ["x"], 3),
    (f"{X}, %w: tensor<256x512xf32>", summed("  %y = hl.gelu %x : tensor<256x512xf32>"), ["x"], 3),
    (f"{X}, %w: tensor<256x512xf32>, %g: tensor<512xf32>, %b: tensor<512xf32>", summed(
        "  %y = hl.layer_norm %x, %g, %b : (tensor<256x512xf32>, tensor<512xf32>, tensor<512xf32>) -> tensor<256x512xf32>"),
     ["x", "g", "b"], 3),
    (f"{X}, %l: tensor<256xi32>", "  %c = hl.softmax_cross_entropy %x, %l : (tensor<256x512xf32>, tensor<256xi32>) -> tensor<256xf32>\n"
     "  %r = hl.mean %c : (tensor<256xf32>) -> tensor<f32>", ["x"], 2),
])
def test_a_row_wise_chain_is_one_pass(arguments: str, body: str, wrt: list[str] | None, arrays: int) -> None:
    """Nothing of the operand's size is read or written twice, and none of it is kept in memory between kernels."""
    result = "tensor<256x512xf32>" if wrt is None else "tensor<f32>"
    function = compiled(arguments, body, result, "f" if wrt is None else "f_value_and_grad", wrt)
    assert arrays * MATRIX <= moved(function) <= arrays * MATRIX + 0.3 * MATRIX  # the rest: rows, labels, partial sums
    assert sum(cost.moved >= MATRIX for cost in costs(function)) == 1
    assert function.executable.temporary_bytes() < MATRIX / 2


def test_a_cheap_producer_is_computed_again() -> None:
    """x * x is read by a maximum of everything and by what needs that maximum: two passes, and it is in no memory."""
    function = compiled(X, "  %e = hl.multiply %x, %x : tensor<256x512xf32>\n  %m = hl.max %e : (tensor<256x512xf32>) -> tensor<f32>\n"
                        "  %d = hl.subtract %e, %m : (tensor<256x512xf32>, tensor<f32>) -> tensor<256x512xf32>\n"
                        "  %q = hl.multiply %d, %d : tensor<256x512xf32>\n"
                        "  %r = hl.sum %q : (tensor<256x512xf32>) -> tensor<f32>", "tensor<f32>")
    assert not any(cost.written >= MATRIX for cost in costs(function)) and moved(function) < 2.2 * MATRIX


def test_a_short_sum_is_one_kernel() -> None:
    """No partial results where there is one chunk; the sine's adjoint is in the same kernel."""
    function = compiled("%x: tensor<16xf32>", "  %s = hl.sin %x : tensor<16xf32>\n  %p = hl.multiply %s, %x : tensor<16xf32>\n"
                        "  %r = hl.sum %p : (tensor<16xf32>) -> tensor<f32>", "tensor<f32>", "f_value_and_grad", ["x"])
    assert len(costs(function)) == 1 and function.executable.temporary_bytes() == 0
    x = np.linspace(-2, 2, 16, dtype=np.float32)
    value, gradient = function(x)
    np.testing.assert_allclose(value, np.sum(np.sin(x) * x), rtol=1e-5)
    np.testing.assert_allclose(gradient, np.cos(x) * x + np.sin(x), rtol=1e-5, atol=1e-6)


# --- machine code


@pytest.mark.skipif(not X86, reason="counts AVX2 instructions")
def test_a_reduction_over_leading_axes_is_vectorised() -> None:
    """A row of partial results is added to, vector by vector, as the rows go by."""
    function = compiled("%x: tensor<1024x256xf32>", "  %r = hl.sum %x {axes = [0]} : (tensor<1024x256xf32>) -> tensor<256xf32>", "tensor<256xf32>")
    first, second = costs(function)
    assert first.read == 1 << 20 and second.read == first.written <= 16 * 256 * 4
    assert vector_instructions(assembly(function), "vaddps") >= 2


@pytest.mark.skipif(not X86, reason="counts AVX2 instructions")
@pytest.mark.parametrize("operation", ["gelu", "tanh", "exp", "sigmoid", "log1p", "sin"])
def test_transcendental_functions_are_vectorised(operation: str) -> None:
    text = assembly(compiled("%x: tensor<65536xf32>", f"  %r = hl.{operation} %x : tensor<65536xf32>", "tensor<65536xf32>"))
    assert vector_instructions(text, "vfmadd") >= 4
    assert not re.search(r"call\w*\s+(expf?|tanhf?|logf?|sinf?|log1pf?)\b", text)


@pytest.mark.skipif(not X86, reason="counts AVX2 instructions")
def test_a_sum_has_several_accumulators() -> None:
    text = assembly(compiled("%x: tensor<64x4096xf32>", "  %r = hl.sum %x {axes = [1]} : (tensor<64x4096xf32>) -> tensor<64xf32>", "tensor<64xf32>"))
    written = set(re.findall(r"^\s*vaddp[sd]\s.*%([yz]mm\d+)$", text, re.MULTILINE))
    assert len(written) >= 4


# --- products


def test_layers_of_products_keep_only_what_the_adjoint_reads() -> None:
    """relu(x w1) w2 with its gradients: the products are computed in the memory of what follows them, and the adjoint of relu reads its
    result. So two matrices (the hidden layer and its cotangent) are all that is kept, and none is written twice."""
    function = compiled("%x: tensor<64x32xf32>, %w1: tensor<32x256xf32>, %w2: tensor<256x8xf32>",
                        "  %p = hl.matmul %x, %w1 : (tensor<64x32xf32>, tensor<32x256xf32>) -> tensor<64x256xf32>\n"
                        "  %h = hl.relu %p : tensor<64x256xf32>\n"
                        "  %y = hl.matmul %h, %w2 : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>\n"
                        "  %q = hl.square %y : tensor<64x8xf32>\n  %r = hl.sum %q : (tensor<64x8xf32>) -> tensor<f32>",
                        "tensor<f32>", "f_value_and_grad", ["w1", "w2"])
    hidden = 64 * 256 * 4
    assert sum(cost.written >= hidden and cost.flops > 0 for cost in costs(function)) == 2
    assert sum(buffer.nbytes == hidden for buffer in function.program.buffers if isinstance(buffer, Temporary)) == 2


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
def test_the_adjoint_of_relu_from_its_result(special: float) -> None:
    """select(x <= 0, …) says the same as select(relu(x) <= 0, …) for every x."""
    function = compiled("%x: tensor<4x3xf32>, %w: tensor<3x3xf32>",
                        "  %p = hl.matmul %x, %w : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>\n  %h = hl.relu %p : tensor<4x3xf32>\n"
                        "  %r = hl.sum %h : (tensor<4x3xf32>) -> tensor<f32>", "tensor<f32>", "f_value_and_grad", ["x"])
    x = np.array([[1, 0, 0], [0, -1, 0], [0, 0, special], [0, 0, 0]], np.float32)
    value, gradient = function(x, np.eye(3, dtype=np.float32))
    with np.errstate(invalid="ignore"):
        product = x @ np.eye(3, dtype=np.float32)
    kept = ~(product <= 0)
    np.testing.assert_array_equal(gradient, kept.astype(np.float32))
    np.testing.assert_array_equal(value, np.where(product <= 0, 0, product).sum())


def softmax(p: np.ndarray) -> np.ndarray:
    e = np.exp(p - p.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


SQUARE = "tensor<6x6xf32>"


@pytest.mark.parametrize(("body", "results", "expected"), [
    (f"  %h = hl.tanh %p : {SQUARE}\n  %r = hl.multiply %h, %p : {SQUARE}", 1, lambda p: np.tanh(p) * p),  # read twice at one place
    (f"  %r = hl.softmax %p {{axis = 1}} : {SQUARE}", 1, softmax),  # read in three stages, written over in the last
    (f"  %h = hl.tanh %p : {SQUARE}\n  %r = hl.matmul %h, %p : {SQUARE}", 2, lambda p: np.tanh(p) @ p),  # read by another kernel
    (f"  %t = hl.flip %p {{axes = [1]}} : {SQUARE}\n  %r = hl.add %p, %t : {SQUARE}", 1, lambda p: p + p[:, ::-1]),  # and at another place
])
def test_a_product_that_only_its_nest_reads_has_no_memory_of_its_own(
        body: str, results: int, expected: Callable[[np.ndarray], np.ndarray]) -> None:
    head = "  %p = hl.matmul %x, %w : (tensor<6x4xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>\n"
    function = compiled("%x: tensor<6x4xf32>, %w: tensor<4x6xf32>", head + body, SQUARE)
    first = next(op for op in function.module.walk() if op.name == "kernel.nest")
    assert len(first.results) == results
    generator = np.random.default_rng(0)
    x, w = generator.standard_normal((6, 4)).astype(np.float32), generator.standard_normal((4, 6)).astype(np.float32)
    np.testing.assert_allclose(function(x, w), expected(x @ w), rtol=1e-4, atol=1e-5)


# --- memory


def test_temporaries_lie_in_results_that_come_later() -> None:
    """The first product's result is dead when the last product is written: it takes no memory of its own."""
    x = "tensor<64x64xf32>"
    function = compiled(f"%x: {x}", "\n".join(f"  %{to} = hl.matmul %{of}, %x : {x}" for of, to in ("xa", "ab", "br")), x)
    assert function.executable.temporary_bytes() == 64 * 64 * 4  # of two temporaries that live at once one lies in the result
    generator = np.random.default_rng(0)
    array = generator.standard_normal((64, 64)).astype(np.float32) / 8
    np.testing.assert_allclose(function(array), np.linalg.matrix_power(array.astype(np.float64), 4), rtol=1e-3, atol=1e-4)


def test_results_of_a_loop_hold_nothing_while_it_runs() -> None:
    """A step's temporaries live again in the next step, when rows of the stacked result are there; what was read before the loop may
    lie in the result until then."""
    x, xs = "tensor<64x64xf32>", "tensor<5x64x64xf32>"
    function = compiled(f"%x: {x}, %xs: {xs}", f"""  %a = hl.matmul %x, %x : {x}
  %b = hl.matmul %a, %x : {x}
  %c, %r = hl.scan %b, %xs {{length = 5, num_carry = 1, num_xs = 1}} ({{
  ^bb0(%h: {x}, %t: {x}):
    %p = hl.matmul %h, %t : {x}
    %q = hl.matmul %p, %t : {x}
    hl.yield %q, %p : {x}, {x}
  }}) : ({x}, {xs}) -> ({x}, {xs})""", xs)
    generator = np.random.default_rng(0)
    array, rows = ((generator.standard_normal(shape) / 8).astype(np.float32) for shape in ((64, 64), (5, 64, 64)))
    carry, expected = array @ array @ array, []
    for row in rows:
        expected.append(carry @ row)
        carry = expected[-1] @ row
    np.testing.assert_allclose(function(array, rows), np.stack(expected), rtol=1e-3, atol=1e-4)


# --- library kernels


def test_a_convolution_is_never_unfolded() -> None:
    """Value and gradients: all temporaries together are smaller than the unfolded batch of one convolution."""
    x, w, y = "tensor<8x16x32x32xf32>", "tensor<32x16x3x3xf32>", "tensor<8x32x32x32xf32>"
    function = compiled(f"%x: {x}, %w: {w}", f"  %y = hl.conv2d %x, %w {{padding = [[1, 1], [1, 1]]}} : ({x}, {w}) -> {y}\n"
                        f"  %q = hl.square %y : {y}\n  %r = hl.sum %q : ({y}) -> tensor<f32>", "tensor<f32>", "f_value_and_grad", ["x", "w"])
    unfolded = 8 * 32 * 32 * 16 * 9 * 4
    result = 8 * 32 * 32 * 32 * 4
    assert function.executable.temporary_bytes() + function.executable.scratch_bytes() < unfolded and 2 * result < unfolded


def test_attention_keeps_no_scores() -> None:
    q = "tensor<1x2x512x16xf32>"
    function = compiled(f"%q: {q}, %k: {q}, %v: {q}", f"  %y = hl.attention %q, %k, %v {{head_dim = 16, num_heads = 2}} : {q}\n"
                        f"  %r = hl.sum %y : ({q}) -> tensor<f32>", "tensor<f32>", "f_value_and_grad", ["q", "k", "v"])
    assert function.executable.temporary_bytes() < 2 * 512 * 512 * 4 / 2


@pytest.mark.parametrize("bias", ["1x2x512x512", "512x512", "1x2x1x512", "1x1x512x1"])
def test_the_gradient_of_a_bias_computes_no_scores_again(bias: str) -> None:
    """The two kernels of attention, and what follows; no scores in memory but a gradient that is as large."""
    q, b = "tensor<1x2x512x16xf32>", f"tensor<{bias}xf32>"
    function = compiled(f"%q: {q}, %k: {q}, %v: {q}, %b: {b}",
                        f'  %y = hl.attention %q, %k, %v, %b {{head_dim = 16, mask_kind = "bias", num_heads = 2}} : ({q}, {q}, {q}, {b}) -> {q}\n'
                        f"  %r = hl.sum %y : ({q}) -> tensor<f32>", "tensor<f32>", "f_value_and_grad", ["q", "k", "v", "b"])
    names = [op.name for op in dict.fromkeys(function.program.origins)]
    assert names.count("kernel.attention") == names.count("kernel.attention_backward") == 1
    assert not any(op.name == "prim.dot" or "kernel.gemm" in str(op) for op in function.module.walk())
    sums = 2 * 512 * 512 * 4 if bias == "512x512" else 0  # two points' sums over the heads
    assert function.executable.temporary_bytes() - sums < 2 * 512 * 512 * 4 / 2


@pytest.mark.parametrize(("mask", "queries", "visited"), [
    ("", 512, 8 * 8), (', mask_kind = "causal"', 512, 8 * 9 // 2), (', mask_kind = "causal"', 128, 7 + 8),
    (', mask_kind = "sliding_window", window = 64', 512, 8 + 7),
])
def test_attention_skips_blocks_that_a_mask_cuts_off(mask: str, queries: int, visited: int) -> None:
    """The blocks of 64 x 64 that the kernels' own lines walk over, forward (keys of a block of queries) and backward (the converse)."""
    q, k = f"tensor<1x1x{queries}x16xf32>", "tensor<1x1x512x16xf32>"
    module = gradopt.parse(f"func.func @f(%q: {q}, %k: {k}, %v: {k}) -> {q} {{\n"
                           f"  %r = hl.attention %q, %k, %v {{head_dim = 16, num_heads = 1{mask}}} : ({q}, {k}, {k}) -> {q}\n  return %r : {q}\n}}\n")
    op = next(op for op in module.walk() if op.name == "hl.attention")
    keys_of = _lines(op, Keys.key_range)
    queries_of = _lines(op, Keys.query_range)
    forward, backward = set(), set()
    for block in range(queries // 64):
        found = keys_of(q0=64 * block, nq=64)
        forward |= {(block, other) for other in range(found["first_kb"], found["last_kb"])}
    for other in range(8):
        found = queries_of(k0=64 * other, nk=64)
        backward |= {(block, other) for block in range(found["first_qb"], found["last_qb"])}
    assert len(forward) == visited and forward == backward


def _lines(op: Any, rule: Callable[[Keys], None]) -> Callable[..., dict[str, int]]:
    """Runs the lines that a rule of the attention kernels writes, as Python."""
    source = Source()
    rules = Keys(op, shape_of(op), source)
    source.lines = []
    rule(rules)
    text = textwrap.dedent("\n".join(source.lines))

    def run(**names: int) -> dict[str, int]:
        found: dict[str, Any] = {"minimum": min, "maximum": max, "index_divide": lambda a, b: a // b, "floor_divide": lambda a, b: a // b, **names}
        exec(text, found)
        return found

    return run


def test_pooling_keeps_positions_of_a_byte() -> None:
    """The adjoint reads which element of each window was the largest, not the image."""
    x, y = "tensor<4x8x32x32xf32>", "tensor<4x8x16x16xf32>"
    function = compiled(f"%x: {x}", f"  %y = hl.max_pool2d %x {{pool_size = [2, 2], strides = [2, 2]}} : ({x}) -> {y}\n"
                        f"  %r = hl.sum %y : ({y}) -> tensor<f32>", "tensor<f32>", "f_grad", ["x"])
    backward, = (op for op in function.module.walk() if op.name == "kernel.max_pool2d_backward")
    windows = 4 * 8 * 16 * 16
    assert cost_of(backward, {}) == Cost(windows, windows * 4 + windows, 4 * windows * 4)


@pytest.mark.skipif(not X86, reason="the instructions are those of x86 with AVX2")
@pytest.mark.parametrize("size", [32, 48, 96, 100])
def test_a_sum_of_a_short_row_is_vectorised(size: int) -> None:
    """LLVM would write such a loop out before its vectoriser sees it, one addition an element."""
    row = f"tensor<64x{size}xf32>"
    text = assembly(compiled(f"%x: {row}", f"  %r = hl.sum %x {{axes = [1]}} : ({row}) -> tensor<64xf32>", "tensor<64xf32>"))
    assert vector_instructions(text, "vaddps")
    assert text.count("vaddss") < 8


# --- the driver


def loop(length: int) -> CompiledFunction:
    """A scan whose step scatters into a table."""
    table = "tensor<64x4xf32>"
    return compiled(f"%x: {table}, %i: tensor<{length}x3xi32>, %u: tensor<3x4xf32>", f"""  %r = hl.scan %x, %u, %i {{length = {length}, num_carry = 1, num_xs = 1}} ({{
  ^bb0(%c: {table}, %v: tensor<3x4xf32>, %j: tensor<3xi32>):
    %n = prim.scatter %c, %j, %v {{axis = 0, kind = "add"}} : ({table}, tensor<3xi32>, tensor<3x4xf32>) -> {table}
    hl.yield %n : {table}
  }}) : ({table}, tensor<3x4xf32>, tensor<{length}x3xi32>) -> {table}""", table)


def test_a_scatter_in_a_loop_touches_its_rows_only() -> None:
    instructions = list(loop(5).program.instructions)
    begin, end = (next(i for i, each in enumerate(instructions) if isinstance(each, kind)) for kind in (LoopBegin, LoopEnd))
    assert any(isinstance(each, Run) for each in instructions[begin:end])
    assert not any(isinstance(each, (Copy, Swap)) for each in instructions[begin:end])


def python_calls(function: CompiledFunction, *arguments: Any) -> int:
    """How many Python functions a call runs (its second one: the first may start threads)."""
    function(*arguments)
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return count


def test_a_call_and_its_loops_run_no_python() -> None:
    """Two Python frames (the compiled function and its executable), whatever the number of arguments and of steps."""
    simple = compiled("%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>",
                      "  %a = hl.multiply %x, %y : tensor<4xf32>\n  %r = hl.add %a, %z : tensor<4xf32>", "tensor<4xf32>")
    x = np.ones(4, np.float32)
    assert python_calls(simple, x, x, x) == 2
    for length in (2, 500):
        arrays = np.zeros((64, 4), np.float32), np.zeros((length, 3), np.int32), np.ones((3, 4), np.float32)
        assert python_calls(loop(length), *arrays) == 2
