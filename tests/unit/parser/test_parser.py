"""Text to IR: the fast path builds what the grammar builds, depth and length do not matter, names, forms, locations."""

from __future__ import annotations

import threading

import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.ir.printer import print_operation
from gradopt.ir.verifier import verify
from gradopt.parser import parse_attribute, parse_module, parse_type, split_input

import gradopt

FLAT = """
#loc1 = loc("x.py":1:2)
!t = tensor<4xf32>
func.func @f(%a: tensor<4xf32>, %b: !t) -> tensor<4xf32> {
  %0 = prim.add %a, %b : tensor<4xf32>
  %x = prim.mul %0, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>   // a comment
  %y = "prim.exp"(%x) : (!t) -> !t loc(#loc1)
  %z = prim.reduce %y {axes = [0], kind = "sum"} : (tensor<4xf32>) -> tensor<f32>
  %w = "prim.reduce"(%y) <{axes = [0], kind = "max"}> {note.x = "a } b"} : (tensor<4xf32>) -> tensor<f32> loc(#loc2)
  %i = prim.iota {axis = 0} : tensor<4xi32>
  %k = prim.neg %y
    : tensor<4xf32>
  %l = prim.neg %y : (tensor<4xf32>)
    -> tensor<4xf32>
  %n = prim.neg   %k :   tensor<4xf32>
  %m = prim.neg %y : tensor<4xf32>  loc("here")
  %p, %q = "t.two"(%y) : (tensor<4xf32>) -> (f32, f32)
  return %n : tensor<4xf32>
}
#loc2 = loc("late"(#loc1))
"""


def both_ways(text: str) -> tuple[Operation, Operation]:
    """The IR by the fast path and by the grammar alone."""
    return parse_module(text, "f", allow_unregistered=True), parse_module(text, "f", allow_unregistered=True, fast=False)


def test_the_fast_path_builds_the_same() -> None:
    fast, slow = both_ways(FLAT)
    for generic in (True, False):
        for debug_info in (True, False):
            assert print_operation(fast, generic=generic, debug_info=debug_info) == print_operation(
                slow, generic=generic, debug_info=debug_info)
    assert verify(fast) == verify(slow) == []


@pytest.mark.parametrize("line", [
    "%0 = prim.exp %b : tensor<4xf32>", "%0 = prim.exp %a : tensor<5xf32>", "%0 = prim.exq %a : tensor<4xf32>", "%a = prim.exp %a : tensor<4xf32>",
    "%0 = prim.exp %a, %a : (tensor<4xf32>) -> tensor<4xf32>", "%0 = prim.exp %a {axes = 1} : tensor<4xf32>", "%0 = prim.exp %a : tensor<4xg32>",
    "%0 = \"prim.exp\"(%a) : tensor<4xf32>", "%0 = prim.exp(%a) : tensor<4xf32>", "%0 = prim.exp %a : (tensor<4xf32>) -> ()", "%0 = prim.exp %a#1 : tensor<4xf32>",
    "%0 = \"t.a\"(%a) {x = 1, x = 2} : (tensor<4xf32>) -> i1", "%0 = prim.exp %a : tensor<4xf32> loc(#nowhere)", "%0 = prim.exp %a : (tensor<4xf32>) -> (f32, f32)"])
def test_the_fast_path_gives_the_same_errors(line: str) -> None:
    text = f"func.func @f(%a: tensor<4xf32>) {{\n  {line}\n  return\n}}\n"
    messages = []
    for fast in (True, False):
        with pytest.raises(GradoptError) as error:
            parse_module(text, "f", allow_unregistered=True, fast=fast)
        messages.append(str(error.value))
        assert error.value.diagnostics[0].location.text.startswith('"f":2:')
    assert messages[0] == messages[1]


def test_a_thousand_nested_regions() -> None:
    depth = 1000
    text = "".join(f'"t.n"() ({{\n^bb0(%a{i}: i32):\n' for i in range(depth)) + f'"t.use"(%a0, %a{depth - 1}) : (i32, i32) -> ()\n' + "}) : () -> ()\n" * depth
    module = parse_module(text, allow_unregistered=True)
    assert verify(module) == []
    for generic in (True, False):
        printed = print_operation(module, generic=generic)
        assert print_operation(parse_module(printed, allow_unregistered=True), generic=generic) == printed
    assert sum(1 for _ in module.walk()) == depth + 2


def test_a_chain_of_a_hundred_thousand_operations() -> None:
    length = 100_000
    lines = [f"  %v{i + 1} = prim.{'exp' if i % 3 else 'neg'} %v{i} : tensor<4xf32>" for i in range(length)]
    text = "module {\n" + "\n".join(["  func.func @f(%v0: tensor<4xf32>) -> tensor<4xf32> {", *("  " + line for line in lines),
                                     f"    return %v{length} : tensor<4xf32>", "  }", "}", ""])
    module = parse_module(text)
    assert verify(module) == []
    assert print_operation(module) == text


def test_values_may_be_used_before_they_are_defined_across_blocks() -> None:
    text = """func.func @f(%c: i1) {
  "t.br"(%c)[^bb2] : (i1) -> ()
^bb1:
  "t.use"(%x) : (i8) -> ()
  "t.end"() : () -> ()
^bb2:
  %x = "t.def"() : () -> i8
  "t.br"()[^bb1] : () -> ()
}"""
    assert verify(parse_module(text, allow_unregistered=True)) == []
    errors = verify(parse_module(text.replace("[^bb2] : (i1)", "[^bb1] : (i1)"), allow_unregistered=True))
    assert [error.message.split(":")[0] for error in errors] == ["'t.use' op operand #0 does not dominate this use"]


def test_types_are_inferred_where_they_are_left_out() -> None:
    module = parse_module("""func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
  %0 = prim.exp %x
  %1 = prim.dot %0, %w {lhs_contract = [1], rhs_contract = [0]}
  return
}""")
    types = {op.name: op.results[0].type.text for op in module.walk() if op.results}
    assert types == {"prim.exp": "tensor<2x3xf32>", "prim.dot": "tensor<2x4xf32>"}


def test_an_operation_without_operands_leaves_the_next_line_alone() -> None:
    module = parse_module('func.func @f() {\n  %0 = prim.iota {axis = 0} : tensor<4xi32>\n  call @g()\n  : () -> ()\n  %1 = "t.a"() : () -> i8\n  return\n}\n'
                          "func.func private @g()", allow_unregistered=True)
    assert [op.name for op in module.walk()] == ["builtin.module", "func.func", "prim.iota", "func.call", "t.a", "func.return", "func.func"]


def test_names_of_values() -> None:
    module = parse_module("func.func @f(%arg0: i1, %x.y-z$: i1) {\n  %7 = \"t.a\"(%arg0) : (i1) -> i1\n  %n:2 = \"t.b\"() : () -> (i1, i1)\n  return\n}",
                          allow_unregistered=True)
    assert "%arg0: i1, %x.y-z$: i1" in print_operation(module)
    assert '%0 = "t.a"(%arg0)' in print_operation(module) and '%1:2 = "t.b"()' in print_operation(module)


def test_types_and_attributes_alone() -> None:
    assert parse_type(" tensor< 2 x ? x f32 > ").text == "tensor<2x?xf32>"
    assert parse_type("(i32) -> (f32)").text == "(i32) -> f32"
    assert parse_attribute("loc(fused[\"a\", \"a\", unknown])").text == 'loc("a")'
    with pytest.raises(GradoptError, match="undefined symbol alias id 'nothing'"):
        parse_type("!nothing")


def test_split_input_keeps_line_numbers() -> None:
    parts = split_input("a\n  // -----\nb\nc\n// ----- x\nd", "f")
    assert [(part.text, part.first_line) for part in parts] == [("a\n", 1), ("b\nc\n", 3), ("d", 6)]


def test_parsing_from_several_threads() -> None:
    texts = [f"func.func @f{i}(%a: tensor<{i}xf32>) {{\n  %0 = prim.exp %a : tensor<{i}xf32>\n  return\n}}\n" for i in range(1, 9)]
    found: dict[int, str] = {}

    def work(index: int) -> None:
        for _ in range(20):
            found[index] = str(gradopt.parse(texts[index]))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[index] for index in range(len(texts))] == [str(gradopt.parse(text)) for text in texts]


def test_an_operation_that_may_have_results_says_that_it_has_none() -> None:
    text = """func.func @f(%p: tensor<i1>) {
  hl.if %p ({
    hl.yield
  }, {
    hl.yield
  }) : (tensor<i1>) -> ()
  return
}"""
    printed = print_operation(parse_module(text))
    assert "}) : (tensor<i1>) -> ()" in printed
    assert print_operation(parse_module(printed), generic=True) == print_operation(parse_module(text), generic=True)
