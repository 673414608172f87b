"""Every attribute of every operation that the lit tests show, before and after passes, changed to each of many odd values: the verifier
accepts it or says what is wrong, and never breaks."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.dialect import dialect_names
from gradopt.ir.operation import Operation, UnregisteredOp
from gradopt.ir.verifier import verify
from gradopt.parser import parse_attribute

import gradopt

LIT = Path(__file__).resolve().parents[1] / "lit"
PASSES = ("", "autodiff", "autodiff{mode=vjp},decompose", "decompose,canonicalize,fuse,plan",
          "decompose{preserve=default},select-kernels,canonicalize,fuse,plan",
          "autodiff{mode=vjp},decompose{preserve=default},select-kernels,canonicalize,fuse,plan")
# operations that no lit test has
MORE = """
func.func @g(%x: tensor<3xf32>) -> tensor<f32> {
  %s = prim.reduce %x {axes = [0], kind = "sum"} : (tensor<3xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
func.func @more(%x: tensor<3xf32>, %i: tensor<2x3x4x5xf32>, %p: tensor<i1>) {
  %a, %b = ad.value_and_grad @g(%x) {wrt = [0]} : (tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>)
  %c = ad.hvp @g(%x, %x) {wrt = [0]} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %d = prim.unfold %i {kernel = [2, 2], strides = [1, 2], padding = [[0, 1], [1, 0]], dilation = [1, 2]} : (tensor<2x3x4x5xf32>) -> tensor<16x12xf32>
  %e = prim.fold %d {kernel = [2, 2], strides = [1, 2], padding = [[0, 1], [1, 0]], dilation = [1, 2]} : (tensor<16x12xf32>) -> tensor<2x3x4x5xf32>
  %h = hl.copy %x {device = "d"} : tensor<3xf32>
  %j, %k = hl.shard %i {axis = 0, devices = ["l", "r"]} : (tensor<2x3x4x5xf32>) -> (tensor<1x3x4x5xf32>, tensor<1x3x4x5xf32>)
  %l = hl.unshard %j, %k {axis = 0} : (tensor<1x3x4x5xf32>, tensor<1x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  hl.check %p, %x {message = "m"} : (tensor<i1>, tensor<3xf32>) -> ()
  %m = prim.call @g(%x) : (tensor<3xf32>) -> tensor<f32>
  %n = ad.vjp @g(%x) {wrt = [0]} : (tensor<3xf32>) -> tensor<3xf32>
  return
}
// -----
func.func @attention(%q: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %a = hl.attention %q, %q, %q {num_heads = 2, head_dim = 8} : tensor<1x2x4x8xf32>
  return %a : tensor<1x2x4x8xf32>
}
// -----
func.func @pool(%x: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %y, %p = kernel.max_pool2d %x {pool_size = [2, 2]} : (tensor<1x2x4x8xf32>) -> (tensor<1x2x3x7xf32>, tensor<1x2x3x7xui8>)
  %d = kernel.max_pool2d_backward %y, %p {pool_size = [2, 2]} : (tensor<1x2x3x7xf32>, tensor<1x2x3x7xui8>) -> tensor<1x2x4x8xf32>
  return %d : tensor<1x2x4x8xf32>
}
// -----
func.func @loop(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = prim.scan %x {length = 3, num_carry = 1} ({
  ^bb0(%c: tensor<4xf32>):
    %s = prim.sin %c : tensor<4xf32>
    prim.yield %s : tensor<4xf32>
  }) : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
ODD = [parse_attribute(text) for text in (
    "[]", "[[]]", "[[1]]", "[[1, 2, 3]]", "[[], []]", "[[0, 0], [0]]", "[0]", "[0, 0]", "[-1]", "[-1, -1]", "[5]", "[1, 1]", "[7, 7]",
    "[0, 1]", "[0, 1, 2]", "[9223372036854775807]", "[-9223372036854775808, 9223372036854775807]", "0", "-1", "7", "1000000",
    "9223372036854775807", "-9223372036854775808", "0.0", "0x7FF8000000000000 : f64", '""', '"x"', '"n n"', '"?"', '"abc,cd->ad"', '"i i"',
    '["", ""]', '["sum"]', '["n floordiv 0"]', "true", "unit", "@f", "@nowhere::@x", "{}", "f32", "tensor<2xf32>", "() -> ()",
    "dense<1.0> : tensor<2xf32>", "affine_map<(d0) -> (d0)>", "affine_map<() -> ()>", "affine_map<(d0, d1)[s0] -> (d0 floordiv s0, d1 mod 0)>",
    "1 : i128", "-1 : i8")]


def programs() -> Iterator[Operation]:
    """The right programs of the lit tests, before and after passes."""
    texts = MORE.split("// -----")
    for path in sorted(LIT.rglob("*.ir")):
        texts += path.read_text(encoding="utf-8", errors="surrogateescape").split("// -----")
    for text in texts:
        for passes in PASSES:
            try:
                module = gradopt.run_passes(gradopt.parse(text, allow_unregistered=True), passes)
            except GradoptError:
                continue  # a test of an error, or not a program for these passes
            yield module


@functools.cache
def samples() -> dict[tuple[str, str], Operation]:
    """(operation, attribute) -> a program that has it."""
    found: dict[tuple[str, str], Operation] = {}
    for module in programs():
        for op in module.walk():
            if not isinstance(op, UnregisteredOp):
                for name in op.definition.attributes:
                    found.setdefault((op.name, name), module)
    return found


def test_most_operations_are_covered() -> None:
    assert len({name for name, _ in samples()}) > 180


@pytest.mark.parametrize("dialect", dialect_names())
def test_odd_attributes(dialect: str) -> None:
    for (op_name, name), module in samples().items():
        if not op_name.startswith(dialect + "."):
            continue
        op = next(op for op in module.walk() if op.name == op_name)
        before = op.properties
        for odd in [None, *ODD]:
            op.properties = {key: value for key, value in before.items() if key != name}
            if odd is not None:
                op.properties[name] = odd
            try:
                verify(module)
            except Exception as error:
                raise AssertionError(f"{op_name} with {name} = {odd and odd.text}") from error
        op.properties = before
