"""Compiled programs of `prim` ops against the interpreter: fusion, schedules, products, views, control flow, dynamic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from gradopt.ir.operation import Operation
from gradopt.ir.types import TensorType
from gradopt.lowering.compile import CompiledFunction
from gradopt.lowering.interpreter import run_function
from gradopt.lowering.native import pool

import gradopt

SOFTMAX = """
  %m = prim.reduce %x {axes = [1], kind = "max"} : (tensor<ROWSx50xf32>) -> tensor<ROWSxf32>
  %mb = prim.expand %m {axes = [1]} : (tensor<ROWSxf32>) -> tensor<ROWSx50xf32>
  %d = prim.sub %x, %mb : tensor<ROWSx50xf32>
  %e = prim.exp %d : tensor<ROWSx50xf32>
  %s = prim.reduce %e {axes = [1], kind = "sum"} : (tensor<ROWSx50xf32>) -> tensor<ROWSxf32>
  %sb = prim.expand %s {axes = [1]} : (tensor<ROWSxf32>) -> tensor<ROWSx50xf32>
  %y = prim.div %e, %sb : tensor<ROWSx50xf32>
"""

PROGRAMS: dict[str, str] = {
    "elementwise": """func.func @f(%x: tensor<4x5xf32>, %y: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %a = prim.add %x, %y : tensor<4x5xf32>
  %b = prim.tanh %a : tensor<4x5xf32>
  return %b : tensor<4x5xf32>
}""",
    "transposed operand": """func.func @f(%x: tensor<4x5xf32>, %y: tensor<5x4xf32>) -> tensor<4x5xf32> {
  %t = prim.permute %y {axes = [1, 0]} : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %a = prim.mul %x, %t : tensor<4x5xf32>
  return %a : tensor<4x5xf32>
}""",
    "softmax": "func.func @f(%x: tensor<37x50xf32>) -> tensor<37x50xf32> {" + SOFTMAX.replace("ROWS", "37")
               + "  return %y : tensor<37x50xf32>\n}",
    "softmax without rows": "func.func @f(%x: tensor<0x50xf32>) -> tensor<0x50xf32> {" + SOFTMAX.replace("ROWS", "0")
                            + "  return %y : tensor<0x50xf32>\n}",
    "whole sum": """func.func @f(%x: tensor<37x50xf32>) -> tensor<f32> {
  %q = prim.mul %x, %x : tensor<37x50xf32>
  %s = prim.reduce %q {axes = [0, 1], kind = "sum"} : (tensor<37x50xf32>) -> tensor<f32>
  return %s : tensor<f32>
}""",
    "column sums": """func.func @f(%x: tensor<137x50xf32>, %w: tensor<7x500xf32>) -> (tensor<50xf32>, tensor<500xf32>) {
  %a = prim.reduce %x {axes = [0], kind = "sum"} : (tensor<137x50xf32>) -> tensor<50xf32>
  %b = prim.reduce %w {axes = [0], kind = "max"} : (tensor<7x500xf32>) -> tensor<500xf32>
  return %a, %b : tensor<50xf32>, tensor<500xf32>
}""",
    "middle axes": """func.func @f(%x: tensor<7x50x33xf32>) -> (tensor<7x33xf32>, tensor<50xf32>) {
  %a = prim.reduce %x {axes = [1], kind = "sum"} : (tensor<7x50x33xf32>) -> tensor<7x33xf32>
  %b = prim.reduce %x {axes = [0, 2], kind = "min"} : (tensor<7x50x33xf32>) -> tensor<50xf32>
  return %a, %b : tensor<7x33xf32>, tensor<50xf32>
}""",
    "empty reductions": """func.func @f(%x: tensor<0x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<0xf32>, tensor<f32>) {
  %a = prim.reduce %x {axes = [0], kind = "sum"} : (tensor<0x4xf32>) -> tensor<4xf32>
  %b = prim.reduce %x {axes = [0], kind = "max"} : (tensor<0x4xf32>) -> tensor<4xf32>
  %c = prim.reduce %x {axes = [1], kind = "prod"} : (tensor<0x4xf32>) -> tensor<0xf32>
  %d = prim.reduce %x {axes = [0, 1], kind = "prod"} : (tensor<0x4xf32>) -> tensor<f32>
  return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<0xf32>, tensor<f32>
}""",
    "product with bias": """func.func @f(%x: tensor<200x30xf32>, %w: tensor<30x20xf32>, %b: tensor<20xf32>) -> (tensor<200x20xf32>, tensor<20xf32>) {
  %p = prim.dot %x, %w {lhs_contract = [1], rhs_contract = [0]} : (tensor<200x30xf32>, tensor<30x20xf32>) -> tensor<200x20xf32>
  %e = prim.expand %b {axes = [0]} : (tensor<20xf32>) -> tensor<200x20xf32>
  %a = prim.add %p, %e : tensor<200x20xf32>
  %s = prim.reduce %a {axes = [0], kind = "sum"} : (tensor<200x20xf32>) -> tensor<20xf32>
  return %a, %s : tensor<200x20xf32>, tensor<20xf32>
}""",
    "product of transposes": """func.func @f(%x: tensor<30x64xf32>, %w: tensor<20x30xf32>) -> tensor<64x20xf32> {
  %p = prim.dot %x, %w {lhs_contract = [0], rhs_contract = [1]} : (tensor<30x64xf32>, tensor<20x30xf32>) -> tensor<64x20xf32>
  return %p : tensor<64x20xf32>
}""",
    "products of few rows": """func.func @f(%x: tensor<8x160xf64>, %w: tensor<160x1024xf64>, %y: tensor<1x2x2x512xf64>, %v: tensor<30x20x512x1xf64>) -> (tensor<8x160xf64>, tensor<1x2x2x30x20xf64>) {
  %p = prim.dot %x, %w {lhs_contract = [1], rhs_contract = [0]} : (tensor<8x160xf64>, tensor<160x1024xf64>) -> tensor<8x1024xf64>
  %e = prim.tanh %p : tensor<8x1024xf64>
  %t = prim.dot %e, %w {lhs_contract = [1], rhs_contract = [1]} : (tensor<8x1024xf64>, tensor<160x1024xf64>) -> tensor<8x160xf64>
  %h = prim.tanh %t : tensor<8x160xf64>
  %q = prim.dot %y, %v {lhs_batch = [0], lhs_contract = [3], rhs_batch = [3], rhs_contract = [2]} : (tensor<1x2x2x512xf64>, tensor<30x20x512x1xf64>) -> tensor<1x2x2x30x20xf64>
  return %h, %q : tensor<8x160xf64>, tensor<1x2x2x30x20xf64>
}""",
    "product of narrow columns": """func.func @f(%x: tensor<20000x9xf64>, %y: tensor<8x20000xf64>) -> (tensor<9x9xf64>, tensor<9x8xf64>) {
  %p = prim.dot %x, %x {lhs_contract = [0], rhs_contract = [0]} : (tensor<20000x9xf64>, tensor<20000x9xf64>) -> tensor<9x9xf64>
  %q = prim.dot %x, %y {lhs_contract = [0], rhs_contract = [1]} : (tensor<20000x9xf64>, tensor<8x20000xf64>) -> tensor<9x8xf64>
  return %p, %q : tensor<9x9xf64>, tensor<9x8xf64>
}""",
    "convolutions that make patches": """func.func @f(%x: tensor<2x5x3x4xf32>, %w: tensor<4x5x2x3xf32>, %y: tensor<3x4x6xf64>, %v: tensor<2x4x5xf64>) -> (tensor<2x4x6x14xf32>, tensor<3x2x30xf64>) {
  %a = prim.conv %x, %w {lhs_dilation = [2, 3], padding = [[1, 1], [2, 4]], rhs_dilation = [1, 1], strides = [1, 1]} : (tensor<2x5x3x4xf32>, tensor<4x5x2x3xf32>) -> tensor<2x4x6x14xf32>
  %b = prim.conv %y, %v {lhs_dilation = [5], padding = [[4, 4]], rhs_dilation = [1], strides = [1]} : (tensor<3x4x6xf64>, tensor<2x4x5xf64>) -> tensor<3x2x30xf64>
  return %a, %b : tensor<2x4x6x14xf32>, tensor<3x2x30xf64>
}""",
    "batched product": """func.func @f(%x: tensor<5x6x30xf32>, %w: tensor<30x5x7xf32>) -> tensor<5x6x7xf32> {
  %p = prim.dot %x, %w {lhs_batch = [0], lhs_contract = [2], rhs_batch = [1], rhs_contract = [0]} : (tensor<5x6x30xf32>, tensor<30x5x7xf32>) -> tensor<5x6x7xf32>
  return %p : tensor<5x6x7xf32>
}""",
    "heads": """func.func @f(%x: tensor<3x6x8xf32>, %y: tensor<3x6x8xf32>) -> tensor<3x2x6x6xf32> {
  %a = prim.reshape %x : (tensor<3x6x8xf32>) -> tensor<3x6x2x4xf32>
  %q = prim.permute %a {axes = [0, 2, 1, 3]} : (tensor<3x6x2x4xf32>) -> tensor<3x2x6x4xf32>
  %b = prim.reshape %y : (tensor<3x6x8xf32>) -> tensor<3x6x2x4xf32>
  %k = prim.permute %b {axes = [0, 2, 1, 3]} : (tensor<3x6x2x4xf32>) -> tensor<3x2x6x4xf32>
  %s = prim.dot %q, %k {lhs_batch = [0, 1], lhs_contract = [3], rhs_batch = [0, 1], rhs_contract = [3]} : (tensor<3x2x6x4xf32>, tensor<3x2x6x4xf32>) -> tensor<3x2x6x6xf32>
  return %s : tensor<3x2x6x6xf32>
}""",
    "empty product": """func.func @f(%x: tensor<3x0xf32>, %w: tensor<0x2xf32>) -> tensor<3x2xf32> {
  %p = prim.dot %x, %w {lhs_contract = [1], rhs_contract = [0]} : (tensor<3x0xf32>, tensor<0x2xf32>) -> tensor<3x2xf32>
  return %p : tensor<3x2xf32>
}""",
    "integer product": """func.func @f(%x: tensor<3x4xi32>, %w: tensor<4x2xi32>) -> tensor<3x2xi32> {
  %p = prim.dot %x, %w {lhs_contract = [1], rhs_contract = [0]} : (tensor<3x4xi32>, tensor<4x2xi32>) -> tensor<3x2xi32>
  return %p : tensor<3x2xi32>
}""",
    "matrix times vector": """func.func @f(%x: tensor<33x40xf64>, %v: tensor<40xf64>) -> tensor<33xf64> {
  %p = prim.dot %x, %v {lhs_contract = [1], rhs_contract = [0]} : (tensor<33x40xf64>, tensor<40xf64>) -> tensor<33xf64>
  return %p : tensor<33xf64>
}""",
    "pad and cut": """func.func @f(%x: tensor<5x6xf32>) -> tensor<8x16xf32> {
  %c = prim.constant dense<2.5> : tensor<f32>
  %p = prim.pad %x, %c {high = [2, 1], interior = [0, 2], low = [1, -1]} : (tensor<5x6xf32>, tensor<f32>) -> tensor<8x16xf32>
  return %p : tensor<8x16xf32>
}""",
    "gather modes": """func.func @f(%x: tensor<5x6xf32>, %i: tensor<4xi32>) -> (tensor<4x6xf32>, tensor<5x4xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %a = prim.gather %x, %i {axis = 0} : (tensor<5x6xf32>, tensor<4xi32>) -> tensor<4x6xf32>
  %b = prim.gather %x, %i {axis = 1, mode = "wrap"} : (tensor<5x6xf32>, tensor<4xi32>) -> tensor<5x4xf32>
  %c = prim.gather %x, %i {axis = 0, mode = "fill"} : (tensor<5x6xf32>, tensor<4xi32>) -> tensor<4x6xf32>
  %d = prim.gather %x, %i {axis = 0, mode = "nan"} : (tensor<5x6xf32>, tensor<4xi32>) -> tensor<4x6xf32>
  return %a, %b, %c, %d : tensor<4x6xf32>, tensor<5x4xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}""",
    "concatenation": """func.func @f(%x: tensor<5x6xf32>, %y: tensor<5x3xf32>) -> tensor<5x15xf32> {
  %e = prim.exp %x : tensor<5x6xf32>
  %c = prim.concat %e, %y, %x {axis = 1} : (tensor<5x6xf32>, tensor<5x3xf32>, tensor<5x6xf32>) -> tensor<5x15xf32>
  return %c : tensor<5x15xf32>
}""",
    "argmax": """func.func @f(%x: tensor<5x6xf32>) -> (tensor<5xi64>, tensor<6xi64>) {
  %a = prim.arg_reduce %x {axis = 1, kind = "max"} : (tensor<5x6xf32>) -> tensor<5xi64>
  %b = prim.arg_reduce %x {axis = 0, kind = "min"} : (tensor<5x6xf32>) -> tensor<6xi64>
  return %a, %b : tensor<5xi64>, tensor<6xi64>
}""",
    "reshape across": """func.func @f(%x: tensor<6x4xf32>, %y: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %e = prim.exp %x : tensor<6x4xf32>
  %r = prim.reshape %e : (tensor<6x4xf32>) -> tensor<8x3xf32>
  %a = prim.add %r, %y : tensor<8x3xf32>
  return %a : tensor<8x3xf32>
}""",
    "flip of slice": """func.func @f(%x: tensor<6x4xf32>) -> tensor<3x4xf32> {
  %s = prim.slice %x {begin = [1, 0], end = [6, 4], strides = [2, 1]} : (tensor<6x4xf32>) -> tensor<3x4xf32>
  %f = prim.flip %s {axes = [0]} : tensor<3x4xf32>
  return %f : tensor<3x4xf32>
}""",
    "arguments returned": """func.func @f(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<12xf32>, tensor<3x4xf32>, tensor<2xf32>) {
  %r = prim.reshape %x : (tensor<3x4xf32>) -> tensor<12xf32>
  %c = prim.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %x, %r, %x, %c : tensor<3x4xf32>, tensor<12xf32>, tensor<3x4xf32>, tensor<2xf32>
}""",
    "scan": """func.func @f(%h: tensor<4x8xf32>, %w: tensor<8x8xf32>, %xs: tensor<10x4x8xf32>) -> (tensor<4x8xf32>, tensor<10x4x8xf32>) {
  %c, %ys = prim.scan %h, %w, %xs {length = 10, num_carry = 1, num_xs = 1, reverse = true} ({
  ^bb0(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>, %x: tensor<4x8xf32>):
    %p = prim.dot %a, %b {lhs_contract = [1], rhs_contract = [0]} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %s = prim.add %p, %x : tensor<4x8xf32>
    %t = prim.tanh %s : tensor<4x8xf32>
    prim.yield %t, %a : tensor<4x8xf32>, tensor<4x8xf32>
  }) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<10x4x8xf32>) -> (tensor<4x8xf32>, tensor<10x4x8xf32>)
  return %c, %ys : tensor<4x8xf32>, tensor<10x4x8xf32>
}""",
    "nested scan of no steps": """func.func @f(%h: tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
  %c, %ys = prim.scan %h {length = 3, num_carry = 1} ({
  ^bb0(%a: tensor<4xf32>):
    %i, %none = prim.scan %a {length = 0, num_carry = 1} ({
    ^bb0(%b: tensor<4xf32>):
      %n = prim.neg %b : tensor<4xf32>
      prim.yield %n, %b : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<0x4xf32>)
    %s = prim.add %i, %a : tensor<4xf32>
    prim.yield %s, %i : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>)
  return %c, %ys : tensor<4xf32>, tensor<3x4xf32>
}""",
    "while and if": """func.func @f(%x: tensor<5xf32>, %y: tensor<5xf32>) -> (tensor<5xf32>, tensor<f32>) {
  %big = prim.constant dense<50.0> : tensor<f32>
  %one = prim.constant dense<1.0> : tensor<5xf32>
  %a = prim.abs %x : tensor<5xf32>
  %w = prim.while %a, %big, %one {num_carry = 1} ({
  ^bb0(%c: tensor<5xf32>, %l: tensor<f32>, %o: tensor<5xf32>):
    %s = prim.reduce %c {axes = [0], kind = "sum"} : (tensor<5xf32>) -> tensor<f32>
    %t = prim.cmp %s, %l {predicate = "lt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    prim.yield %t : tensor<i1>
  }, {
  ^bb0(%c: tensor<5xf32>, %l: tensor<f32>, %o: tensor<5xf32>):
    %n = prim.add %c, %o : tensor<5xf32>
    prim.yield %n : tensor<5xf32>
  }) : (tensor<5xf32>, tensor<f32>, tensor<5xf32>) -> tensor<5xf32>
  %s = prim.reduce %y {axes = [0], kind = "sum"} : (tensor<5xf32>) -> tensor<f32>
  %zero = prim.constant dense<0.0> : tensor<f32>
  %t = prim.cmp %s, %zero {predicate = "lt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %r = prim.if %t, %w, %s ({
  ^bb0(%c: tensor<5xf32>, %v: tensor<f32>):
    %m = prim.reduce %c {axes = [0], kind = "max"} : (tensor<5xf32>) -> tensor<f32>
    prim.yield %m : tensor<f32>
  }, {
  ^bb0(%c: tensor<5xf32>, %v: tensor<f32>):
    prim.yield %v : tensor<f32>
  }) : (tensor<i1>, tensor<5xf32>, tensor<f32>) -> tensor<f32>
  return %w, %r : tensor<5xf32>, tensor<f32>
}""",
}


def random_arguments(module: Operation, seed: int) -> list[np.ndarray]:
    """An array for each argument of @f: floats of both signs, small integers (some negative and out of range)."""
    generator = np.random.default_rng(seed)
    arrays = []
    for argument in module.regions[0].block.first.regions[0].block.arguments:
        type = argument.type
        assert isinstance(type, TensorType)
        if type.element.is_float:
            arrays.append(generator.standard_normal(type.shape).astype(f"f{type.element.width // 8}"))
        else:
            arrays.append(generator.integers(-7, 9, type.shape).astype(f"i{type.element.width // 8}"))
    return arrays


def as_tuple(results: object) -> tuple[np.ndarray, ...]:
    """The results of a call, also of one with a single result."""
    return results if isinstance(results, tuple) else (results,)  # type: ignore[return-value]


def compiled(text: str) -> tuple[Operation, CompiledFunction]:
    """The module of a text and its compiled @f."""
    module = gradopt.parse(text)
    return module, gradopt.compile(module, "f")


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_agrees_with_interpreter(name: str) -> None:
    module, function = compiled(PROGRAMS[name])
    for seed in range(2):
        arguments = random_arguments(module, seed)
        copies = [argument.copy() for argument in arguments]
        for found, expected in zip(as_tuple(function(*arguments)), run_function(module, "f", arguments)):
            assert found.shape == expected.shape and found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
        for argument, copy in zip(arguments, copies):
            np.testing.assert_array_equal(argument, copy)


@pytest.mark.parametrize("name", ["softmax", "product with bias", "whole sum", "column sums", "middle axes"])
def test_same_bits_with_any_number_of_threads(name: str) -> None:
    module, function = compiled(PROGRAMS[name])
    arguments = random_arguments(module, 3)
    before = pool.num_threads()
    try:
        outcomes = []
        for threads in (1, 2, 3):
            pool.set_num_threads(threads)
            outcomes.append([result.tobytes() for result in as_tuple(function(*arguments))])
    finally:
        pool.set_num_threads(before)
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_nan_and_infinity_survive() -> None:
    module, function = compiled(PROGRAMS["softmax"])
    x = random_arguments(module, 0)[0]
    x[3, 7], x[5, 0], x[6, :] = np.nan, np.inf, -np.inf
    out = function(x)
    for row in (3, 5, 6):
        assert np.isnan(out[row]).all()
    assert np.isfinite(np.delete(out, [3, 5, 6], axis=0)).all()


DYNAMIC = """func.func @f(%x: tensor<?x4xf32>, %w: tensor<4x?xf32>, %b: tensor<?xf32>) -> (tensor<?x?xf32>, tensor<f32>, tensor<?xf32>) {
  %y = prim.dot %x, %w {lhs_contract = [1], rhs_contract = [0]} : (tensor<?x4xf32>, tensor<4x?xf32>) -> tensor<?x?xf32>
  %n = prim.dim %x {axis = 0} : (tensor<?x4xf32>) -> tensor<i64>
  %m = prim.dim %w {axis = 1} : (tensor<4x?xf32>) -> tensor<i64>
  %bb = prim.expand %b, %n, %m {axes = [0]} : (tensor<?xf32>, tensor<i64>, tensor<i64>) -> tensor<?x?xf32>
  %z = prim.add %y, %bb : tensor<?x?xf32>
  %e = prim.exp %z : tensor<?x?xf32>
  %s = prim.reduce %e {axes = [0, 1], kind = "sum"} : (tensor<?x?xf32>) -> tensor<f32>
  %r = prim.reduce %e {axes = [1], kind = "max"} : (tensor<?x?xf32>) -> tensor<?xf32>
  return %e, %s, %r : tensor<?x?xf32>, tensor<f32>, tensor<?xf32>
}"""


def test_dynamic_sizes_compile_once() -> None:
    module, function = compiled(DYNAMIC)
    generator = np.random.default_rng(0)
    for rows, columns in ((3, 5), (1, 1), (100, 70), (0, 3), (2000, 3)):
        arguments = [generator.standard_normal(shape).astype(np.float32) for shape in ((rows, 4), (4, columns), (columns,))]
        for found, expected in zip(function(*arguments), run_function(module, "f", arguments)):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_sizes_that_must_agree_are_checked() -> None:
    _, function = compiled(DYNAMIC)
    with pytest.raises(ValueError, match=r"argument 2 \(b\): expected shape .* 5 at axis 0 .*found \(3,\)"):
        function(np.zeros((2, 4), np.float32), np.zeros((4, 5), np.float32), np.zeros(3, np.float32))


def test_softmax_is_one_pass_over_memory() -> None:
    _, function = compiled(PROGRAMS["softmax"])
    assert len(function.program.instructions) == 1


def test_equal_loops_are_compiled_once() -> None:
    text = "func.func @f(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
    value = "x"
    for step in range(6):
        text += (f"  %p{step} = prim.dot %{value}, %w {{lhs_contract = [1], rhs_contract = [0]}} : (tensor<8x8xf32>, tensor<8x8xf32>)"
                 f" -> tensor<8x8xf32>\n  %h{step} = prim.tanh %p{step} : tensor<8x8xf32>\n")
        value = f"h{step}"
    module, function = compiled(text + f"  return %{value} : tensor<8x8xf32>\n}}")
    assert len(function.program.instructions) == 6
    assert len(function.program.kernels) == 1
    arguments = random_arguments(module, 0)
    np.testing.assert_allclose(function(*arguments), run_function(module, "f", arguments)[0], rtol=1e-5, atol=1e-5)


def test_chain_of_many_operations() -> None:
    lines = ["func.func @f(%v0: tensor<16xf32>) -> tensor<16xf32> {"]
    lines += [f"  %v{i + 1} = prim.{'neg' if i % 3 else 'tanh'} %v{i} : tensor<16xf32>" for i in range(1000)]
    module, function = compiled("\n".join([*lines, "  return %v1000 : tensor<16xf32>", "}"]))
    arguments = random_arguments(module, 0)
    np.testing.assert_allclose(function(*arguments), run_function(module, "f", arguments)[0], rtol=1e-4, atol=1e-6)
