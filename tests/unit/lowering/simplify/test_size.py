"""Long and deep programs go through every simplifying pass without recursion."""

from __future__ import annotations

from itertools import pairwise

import pytest
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.types import F32, I1, tensor
from gradopt.lowering.interpreter import run_function
from gradopt.lowering.passes import run_passes
from gradopt.lowering.simplify.canonicalize import apply_patterns
from gradopt.lowering.simplify.cse import merge_common_subexpressions
from gradopt.lowering.simplify.dce import eliminate_dead_code
from gradopt.lowering.simplify.fold import fold_constants
from gradopt.lowering.simplify.licm import hoist_invariants

from gradopt import parse

NUMBER = tensor((), F32)
PASSES = (merge_common_subexpressions, eliminate_dead_code, apply_patterns, fold_constants, hoist_invariants)


def module_with(text: str) -> tuple[Operation, Block]:
    """A module of one function and its body, which is without a terminator."""
    module = parse(text)
    function = module.regions[0].block.first
    assert function is not None
    body = function.regions[0].block
    assert body.last is not None
    body.last.erase()
    return module, body


def test_a_chain_of_100000() -> None:
    module, body = module_with("func.func @f(%x: tensor<f32>) -> tensor<f32> {\n return %x : tensor<f32>\n}")
    builder = Builder(body)
    value = body.arguments[0]
    for _ in range(25_000):
        once, again = builder.prim.sin(value), builder.prim.sin(value)
        builder.prim.exp(again)  # read by nobody
        value = builder.prim.add(once, again)
    builder.func.return_(value)
    assert merge_common_subexpressions(module) == 25_000
    assert eliminate_dead_code(module) == 25_000
    assert apply_patterns(module) == 0
    assert fold_constants(module) == 0
    assert len(body) == 50_001


def nested(depth: int) -> Operation:
    """`depth` ifs inside each other; all pass on a value that is doubled innermost, and one that nobody reads."""
    module, body = module_with("func.func @f(%c: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {\n return %x : tensor<f32>\n}")
    blocks = [body]
    for _ in range(depth):
        blocks.append(Block([tensor((), I1), NUMBER, NUMBER]))
    builder = Builder(blocks[-1])
    value = builder.prim.add(blocks[-1].arguments[1], blocks[-1].arguments[1])
    builder.create("prim.yield", [value, value])
    for outer, inner in reversed(list(pairwise(blocks))):
        other = Block([tensor((), I1), NUMBER, NUMBER])
        Builder(other).create("prim.yield", other.arguments[1:])
        condition, *rest = outer.arguments
        builder = Builder(outer)
        op = builder.create("prim.if", [condition, condition, rest[0], rest[-1]], regions=[Region([inner]), Region([other])])
        if outer is body:
            builder.func.return_(op.results[0])
        else:
            builder.create("prim.yield", op.results)
    return module


@pytest.mark.parametrize("function", PASSES)
def test_1000_nested_regions(function: object) -> None:
    import numpy as np

    small = nested(20)
    expected = run_function(small, "f", [np.asarray(True), np.float32(3)])
    function(small)  # type: ignore[operator]
    assert run_function(small, "f", [np.asarray(True), np.float32(3)]) == expected == [np.float32(6)]
    function(nested(1000))  # type: ignore[operator]


def test_unread_values_leave_every_level() -> None:
    module = nested(1000)
    run_passes(module, "dce")
    ifs = [op for op in module.walk() if op.name == "prim.if"]
    assert len(ifs) == 1000
    assert all(len(op.results) == 1 for op in ifs)
    assert all(len(op.operands) == 3 for op in ifs[:-1])
