"""Mistakes that random changes of texts found: each text with what must come of it."""

from __future__ import annotations

import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.printer import print_operation
from gradopt.parser import parse_attribute, parse_module

WRONG = [
    # a value that is defined later, and fewer types than operands, on one line
    ('func.func @f() { %a = "a.b"(%b) : () -> i32\n %b = "a.b"() : () -> i32\n return }', "expected 1 operand types but had 0"),
    ('"a.b"() {a = memref<2xf32, strided<[1, 2]>>} : () -> ()',
     "expected the number of strides to match the rank, found 2 strides for rank 1"),
    ('"a.b"() {a = memref<2xf32, [1]>} : () -> ()', "unsupported memory space Attribute '[1]'"),
    ('"a.b"() {a = memref<*xf32, unit>} : () -> ()', "unsupported memory space Attribute 'unit'"),
    ('"a.b"() {a = [distinct[3]<5 : i32>, distinct[3]<6 : i32>]} : () -> ()',
     "referenced attribute does not match previous definition: 5 : i32"),
    ('"a.b"() {a = #d.x<a\0b>} : () -> ()', "unexpected nul or EOF in pretty dialect name"),
]
# as mlir-opt 22 prints them
SPELT = {
    "#d.": "#d<>", "!d.": "!d<>", "#d.<x>": "#d<<x>>", "#d.x.<a>": "#d.x.<a>", "sparse<[], []> : tensor<4xf32>": "sparse<> : tensor<4xf32>",
    "sparse<0, 1> : tensor<i32>": "sparse<> : tensor<i32>", "memref<f32, strided<[]>>": "memref<f32, strided<[]>>",
    "memref<2xf32, {a = 1}>": "memref<2xf32, {a = 1 : i64}>", "memref<2xf32, true>": "memref<2xf32, true>",
    "-3.0e-10 : f8E4M3FNUZ": "0.000000e+00 : f8E4M3FNUZ", "5.8 : f8E8M0FNU": "4.000000e+00 : f8E8M0FNU",
}


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(GradoptError) as caught:
        parse_module(text, allow_unregistered=True)
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == [message]


@pytest.mark.parametrize("text", SPELT)
def test_spelling(text: str) -> None:
    assert parse_attribute(text).text == SPELT[text]
    assert parse_attribute(SPELT[text]) is parse_attribute(text)


def test_values_that_are_defined_later_on_flat_lines() -> None:
    module = parse_module('"a.r"() ({\n  %a = "a.b"(%b) : (i32) -> i32\n  %b = "a.b"(%a) : (i32) -> i32\n}) : () -> ()', allow_unregistered=True)
    assert print_operation(module.regions[0].block.first, generic=True).splitlines()[1:3] == [
        '  %0 = "a.b"(%1) : (i32) -> i32', '  %1 = "a.b"(%0) : (i32) -> i32']


def test_resources_stand_in_the_order_in_which_they_print() -> None:
    text = ('"a.b"() {x = dense_resource<k> : tensor<1xi8>, a = dense_resource<"q r"> : tensor<1xi8>} : () -> ()\n'
            '{-# dialect_resources: { builtin: { k: "0x0100000005", unused: "0x0100000006", "q r": "0x0100000007" } } #-}')
    printed = print_operation(parse_module(text, allow_unregistered=True), generic=True)
    assert [line.strip() for line in printed.splitlines() if "0x" in line] == ['"q r": "0x0100000007",', 'k: "0x0100000005"']
    assert print_operation(parse_module(printed, allow_unregistered=True), generic=True) == printed


CHAINS = {
    "list": ("#a0 = 5", "#a{i} = [#a{j}]", "#a", "types and attributes are nested more than 100 deep"),
    "distinct": ("#a0 = 5", "#a{i} = distinct[{i}]<#a{j}>", "#a", "types and attributes are nested more than 100 deep"),
    "tuple": ("!a0 = i32", "!a{i} = tuple<!a{j}>", "!a", "types and attributes are nested more than 100 deep"),
    "memref": ("!a0 = i32", "!a{i} = memref<2x!a{j}>", "!a", "types and attributes are nested more than 100 deep"),
    "encoding": ("#a0 = 5\n!a0 = i32", '#a{i} = "x" : !a{j}\n!a{i} = tensor<2xi32, #a{i}>', "!a", "types and attributes are nested more than 100 deep"),
    "dialect": ("#a0 = 5\n!a0 = i32", "#a{i} = #d.x : !a{j}\n!a{i} = tensor<2xi32, #a{i}>", "!a", "types and attributes are nested more than 100 deep"),
    "metadata": ("#a0 = 5", '#a{i} = loc(fused<#a{j}>["x"])', "#a", "types and attributes are nested more than 100 deep"),
    "doubled list": ("#a0 = [1]", "#a{i} = [#a{j}, #a{j}]", "#a", "an attribute has more than 4194304 parts"),
    "doubled tuple": ("!a0 = i32", "!a{i} = tuple<!a{j}, !a{j}>", "!a", "an attribute has more than 4194304 parts"),
    "doubled location": ('#a0 = loc("f":1:2)', "#a{i} = loc(callsite(#a{j} at #a{j}))", "#a", "a location has more than 1048576 characters"),
}


TOO_DEEP = {"list": ("#a{i} = [#a{j}]", "#a", "["), "dictionary": ("#a{i} = {{ x = 5, y = #a{j}, z = 1 }}", "#a", "{{"),
            "function": ("!a{i} = (i32, !a{j}) -> i32", "!a", "("), "distinct": ("#a{i} = distinct[{i}]<#a{j}>", "#a", "dist")}


@pytest.mark.parametrize("name", TOO_DEEP)
def test_what_is_too_deep_is_shown_where_it_opens(name: str) -> None:
    step, sigil, opening = TOO_DEEP[name]
    lines = ["!a0 = i32" if sigil == "!a" else "#a0 = 5", *(step.format(i=i, j=i - 1) for i in range(1, 200))]
    with pytest.raises(GradoptError) as error:
        parse_module("\n".join([*lines, f'"a.b"() {{x = {sigil}199}} : () -> ()']), "x.mlir", allow_unregistered=True)
    place = error.value.diagnostics[0].location.resolve()  # type: ignore[union-attr]
    assert place.column == lines[place.line - 1].index(opening.replace("{{", "{")) + 1


def test_registered_operations_want_a_dictionary_of_properties() -> None:
    with pytest.raises(GradoptError, match="op expects a dictionary of properties, found '5 : i32'"):
        parse_module('"func.func"() <5 : i32> ({}) : () -> ()')


@pytest.mark.parametrize("name", CHAINS)
def test_aliases_that_nest_or_double_without_end(name: str) -> None:
    first, step, sigil, message = CHAINS[name]
    steps = 60 if name.startswith("doubled") else 1500
    lines = [first, *(step.format(i=i, j=i - 1) for i in range(1, steps))]
    text = "\n".join([*lines, f'"a.b"() {{x = {sigil}{steps - 1}}} : () -> ()'])
    with pytest.raises(GradoptError) as caught:
        parse_module(text, allow_unregistered=True)
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == [message]


@pytest.mark.parametrize("backwards", [False, True])
def test_long_call_stacks(backwards: bool) -> None:
    lines = ['#loc0 = loc("f":1:2)', *(f'#loc{i} = loc(callsite("f":{i}:1 at #loc{i - 1}))' for i in range(1, 150))]
    text = "\n".join(['"a.b"() : () -> () loc(#loc149)', *(reversed(lines) if backwards else lines)])
    module = parse_module(text, allow_unregistered=True)
    printed = print_operation(module, generic=True, debug_info=True)
    assert printed.count("callsite(") == 149
    again = parse_module(printed, allow_unregistered=True)
    assert print_operation(again, generic=True, debug_info=True) == printed


@pytest.mark.parametrize("line", [
    '%0 = "func.return"() : () -> i32', '"func.return"() ({\n  }) : () -> ()', '%0 = "func.call"() <{callee = @f}> ({\n  }) : () -> i32',
    '%0 = "prim.constant"() <{value = dense<1> : tensor<i32>}> ({\n  }) : () -> tensor<i32>', '%0 = "prim.yield"() : () -> i32',
    '"builtin.module"() : () -> ()', '"builtin.module"() ({\n  }) : () -> ()', '%0 = "builtin.module"() ({\n  }) : () -> i32',
    '"func.func"() <{function_type = (i32) -> (), sym_name = "g"}> : () -> ()',
    '"func.func"() <{arg_attrs = [{a.b}, {}], function_type = (i32) -> (), sym_name = "g"}> ({\n  }) : () -> ()',
    '"func.func"() <{function_type = () -> i32, res_attrs = [1], sym_name = "g"}> ({\n  }) : () -> ()',
    '"func.func"() <{function_type = () -> i32, res_attrs = 1 : i64, sym_name = "g"}> ({\n  }) : () -> ()',
    '"func.func"() <{function_type = i32, sym_name = "g"}> ({\n  }) : () -> ()'])
def test_what_a_form_has_no_place_for_prints_generically(line: str) -> None:
    module = parse_module(f'"builtin.module"() ({{\n  {line}\n}}) : () -> ()')
    assert print_operation(module) == f"module {{\n  {line}\n}}\n"
