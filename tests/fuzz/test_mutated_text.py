"""Thousands of damaged texts: each is refused with located errors, or prints as a text that prints the same again. Seeded, so that every
run sees the same texts."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import gradopt.dialects  # noqa: F401  (registers them)
import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.printer import print_operation
from gradopt.ir.verifier import verify
from gradopt.parser import parse_module

TESTS = Path(__file__).parents[1]
LARGEST = 6000
PIECES = ["(", ")", "{", "}", "[", "]", "<", ">", ":", "=", ",", "->", '"', "%", "^", "#", "!", "@", "\\", "//", "0x", "-", "1", ".", "\n",
          "99999999999999999999", "tensor<", "memref<", "loc(", "dense<", "affine_map<", "array<", "{-#", "#-}", "::", "\0", "\x80", "é",
          "\udcff", "%0", "^bb0", "i32", "f32", "?", "*", "x", "unknown", "fused[", "module {", "func.func @f(", "attributes {"]


def corpus() -> list[str]:
    """The parts of all test files, and programs that hold the attributes of the conformance tests."""
    parts: list[str] = []
    for path in sorted([*TESTS.rglob("*.ir"), *TESTS.rglob("*.mlir")]):
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        parts += [part for part in text.split("// -----") if len(part) < LARGEST]
    lines = (TESTS / "conformance" / "attributes.txt").read_text(encoding="utf-8").splitlines()[1:]
    attributes = [line.split(" => ")[0].split(" !! ")[0] for line in lines]
    for start in range(0, len(attributes), 4):
        parts.append("\n".join(f'"t.a"() <{{p = {a}}}> {{a = {a}}} : () -> ()' for a in attributes[start:start + 4]))
    return parts


CORPUS = corpus()
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|[%^#!@][\w$.\-]*|[A-Za-z_][\w$.]*|0x[0-9A-Fa-f]+|\d+|->|::|\{-#|#-\}|\s+|.', re.DOTALL)


def damaged(text: str, generator: random.Random) -> str:
    """A text with some characters removed, put in, changed, copied or moved."""
    for _ in range(generator.choice([1, 1, 1, 2, 3, 6])):
        place, kind = generator.randrange(len(text) + 1), generator.random()
        if kind < 0.25:
            text = text[:place] + text[place + generator.choice([1, 1, 2, 5, 20]):]
        elif kind < 0.55:
            text = text[:place] + generator.choice(PIECES) + text[place:]
        elif kind < 0.7:
            text = text[:place] + chr(generator.randrange(256)) + text[place + 1:]
        elif kind < 0.8:
            target = generator.randrange(len(text) + 1)
            text = text[:target] + text[place:place + generator.randrange(1, 40)] + text[target:]
        elif kind < 0.9:
            lines = text.split("\n")
            first, second = generator.randrange(len(lines)), generator.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            text = "\n".join(lines)
        else:
            other = generator.choice(CORPUS)
            begin = generator.randrange(len(other) + 1)
            text = text[:place] + other[begin:begin + generator.randrange(60)] + text[place:]
    return text


def shuffled(text: str, generator: random.Random) -> str:
    """A text with some tokens removed, doubled, exchanged or taken from another text, or with another text's end."""
    tokens, other = TOKEN.findall(text), TOKEN.findall(generator.choice(CORPUS))
    for _ in range(generator.choice([1, 1, 1, 2, 3, 5])):
        place, from_other = generator.randrange(len(tokens) + 1), generator.randrange(len(other) + 1)
        count, kind = generator.choice([1, 1, 1, 2, 4]), generator.random()
        if kind < 0.2:
            del tokens[place:place + count]
        elif kind < 0.4:
            tokens[place:place] = tokens[place:place + count]
        elif kind < 0.6:
            target = generator.randrange(len(tokens) + 1)
            tokens[place:place + 1], tokens[target:target + 1] = tokens[target:target + 1], tokens[place:place + 1]
        elif kind < 0.75:
            tokens[place:place + 1] = other[from_other:from_other + 1]
        elif kind < 0.85:
            tokens[place:place] = other[from_other:from_other + generator.choice([1, 3, 10, 40])]
        elif kind < 0.93:
            tokens[place:place + 1] = generator.choices(tokens) if tokens else []
        else:
            tokens[place:] = other[from_other:]
    return "".join(tokens)


def without_empty(text: str) -> str:
    """Generic text without lists of empty dictionaries for arguments and results, which MLIR's form of a function does not keep either."""
    return re.sub(r"\b(arg|res)_attrs = \[(\{\}(, )?)*\](, )?", "", text)


def check(text: str) -> bool:
    """Parses, verifies, prints and comes back the same; True if the text was accepted."""
    try:
        module = parse_module(text, "damaged", allow_unregistered=True)
    except GradoptError as error:
        assert error.diagnostics and "damaged:" in str(error)
        return False
    verify(module)
    meaning = without_empty(print_operation(module, generic=True))
    for generic in (True, False):
        printed = print_operation(module, generic=generic)
        again = parse_module(printed, "printed", allow_unregistered=True)
        assert print_operation(again, generic=generic) == printed
        assert without_empty(print_operation(again, generic=True)) == meaning
        assert print_operation(parse_module(printed, "slow", allow_unregistered=True, fast=False), generic=generic) == printed
    return True


@pytest.mark.parametrize(("damage", "seed"), [(damaged, seed) for seed in range(8)] + [(shuffled, seed) for seed in range(4)])
def test_damaged_texts(damage: Callable[[str, random.Random], str], seed: int) -> None:
    generator = random.Random(seed)
    accepted = sum(check(damage(generator.choice(CORPUS), generator)) for _ in range(700))
    assert 50 < accepted < 600  # both ways are well visited


@pytest.mark.parametrize("text", [
    '"a"() {x = ' + "[" * 50_000, '"a"() {x = ' + "[" * 5000 + "]" * 5000 + "} : () -> ()", '"a"() {x = ' + "{a = " * 3000 + "1" + "}" * 3001 + " : () -> ()",
    '"a"() : () -> ' + "tensor<1x" * 3000 + "f32" + ">" * 3000, '"a"() : () -> ' + "tuple<" * 500 + ">" * 500,
    '"a"() : () -> ' + "(() -> " * 4000 + "i1" + ")" * 4000, '"a"() : () -> tensor<1xf32, ' + "[tensor<1xf32, " * 60 + "1" + ">]" * 60 + ">",
    '"a"() : () -> () loc(' + "callsite(" * 5000, '"a"() : () -> () loc(' + '"x"(' * 3000 + '"y"' + ")" * 3001,
    '"a"() {x = ' + "-" * 9999 + "1} : () -> ()", '"a"() {x = ' + "9" * 20_000 + "} : () -> ()", '"a"() {x = ' + "9" * 20_000 + " : i90000} : () -> ()",
    '"a"() {x = 0x' + "F" * 20_000 + " : i90000} : () -> ()", '"a"() {x = affine_map<(d0) -> (' + "(" * 4000 + "d0" + ")" * 4000 + ")>} : () -> ()",
    '"a"() {x = affine_map<(d0) -> (d0' + " + d0 floordiv 3" * 4000 + ")>} : () -> ()", '"a"() {x = dense<' + "[" * 4000 + "]" * 4000 + "> : tensor<0xf32>} : () -> ()",
    '"a"() {x = #d.x<' + "<[(" * 20_000 + ")]>" * 20_000 + ">} : () -> ()", '"a"(' + "%a, " * 20_000, "%a:99999999999999999999 = ", "%a:4000000 = \"a\"() : () -> ()",
    '"a"() {x = tensor<' + "1" * 9000 + "xf32>} : () -> ()", '"a"() {x = i' + "9" * 9000 + "} : () -> ()", 'loc("x":' + "9" * 9000 + ":1)",
    '"a"() : () -> () loc("x":' + "9" * 9000 + ":1)", "#a = #a", "!a = !b\n!b = !a\n\"x\"() : () -> !a", "#loc = loc(#loc)\n\"x\"() : () -> () loc(#loc)",
    "#a = [#b]\n#b = [#a]\n\"x\"() {y = #a} : () -> ()", "{-#", "{-# #-}", "{-# dialect_resources: { builtin: { a: \"0x\" } } #-}", "{-# a: { #-}", "\ufeff", "\0", "\udc80",
    "module attributes {", "func.func @f(%a: i32, %a: i32) { return }", '"a"()[^x] : () -> ()', "^bb0:", '"a"() ({^a:^a:}) : () -> ()', "%0 = \"a\"() : () -> ()",
    "\n".join(f"#l{i} = loc(\"x\"(#l{i + 1}))" for i in range(3000)) + "\n#l3000 = loc(\"y\")\n\"a\"() : () -> () loc(#l0)",
    "\n".join(f"#l{i} = [#l{i + 1}]" for i in range(3000)) + "\n#l3000 = 1\n\"a\"() {x = #l0} : () -> ()"],
    ids=lambda text: text[:24] + str(len(text)))
def test_texts_made_to_break(text: str) -> None:
    check(text)
