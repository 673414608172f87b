"""Single attributes and types: the text each prints as, the error each gives, and the same from `mlir-opt`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.types import FloatType
from gradopt.parser import parse_attribute
from mlir_support import needs_mlir, run_mlir_opt

FOLDER = Path(__file__).parent
ONLY_HERE = ("distinct", "loc(")  # mlir-opt prints these through an alias: see files/

LINES = [line for line in (FOLDER / "attributes.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("//")]
GOOD = [tuple(line.split(" => ")) for line in LINES if " => " in line]
BAD = [tuple(line.split(" !! ")) for line in LINES if " !! " in line]


@pytest.mark.parametrize(("text", "expected"), GOOD)
def test_prints_as(text: str, expected: str) -> None:
    attribute = parse_attribute(text)
    assert attribute.text == expected
    assert parse_attribute(expected) is attribute


@pytest.mark.parametrize(("text", "message"), BAD)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(GradoptError) as error:
        parse_attribute(text)
    assert [diagnostic.message for diagnostic in error.value.diagnostics] == [message]


@needs_mlir
def test_the_tool_prints_the_same() -> None:
    """As properties, where mlir-opt uses no aliases for operations that it does not know."""
    good = [(text, expected) for text, expected in GOOD if not any(word in text for word in ONLY_HERE)]
    program = "".join(f'"t.a"() <{{a = {text}}}> : () -> ()\n' for text, _ in good)
    status, output, errors = run_mlir_opt(program)
    assert status == 0, errors
    lines = output.split("\n")[1:]
    for (text, expected), line in zip(good, lines):
        suffix = {"unit": "", "1 : i1": " = true"}.get(text)
        printed = line.strip().removeprefix('"t.a"() <{a').removesuffix("}> : () -> ()")
        assert printed in ({suffix} if suffix is not None else {f" = {expected}"}), text


@needs_mlir
@pytest.mark.parametrize(("text", "message"), BAD)
def test_the_tool_refuses_as_well(text: str, message: str) -> None:
    status, _, errors = run_mlir_opt(f'"t.a"() {{a = {text}}} : () -> ()\n')
    assert status == 1 and "error:" in errors


FORMATS = {"f16": 16, "bf16": 16, "tf32": 19, "f32": 32, "f64": 64, "f8E5M2": 8, "f8E4M3": 8, "f8E3M4": 8, "f8E4M3FN": 8,
           "f8E5M2FNUZ": 8, "f8E4M3FNUZ": 8, "f8E4M3B11FNUZ": 8, "f8E8M0FNU": 8, "f4E2M1FN": 4, "f6E2M3FN": 6, "f6E3M2FN": 6}


def random_floats() -> list[str]:
    """Bit patterns of every format, and decimals of every size."""
    generator = random.Random(20261201)
    texts = []
    for name, width in FORMATS.items():
        patterns = range(1 << width) if width <= 8 else [generator.getrandbits(width) for _ in range(120)]
        texts += [f"0x{bits:0{(width + 3) // 4}X} : {name}" for bits in patterns]
    for _ in range(300):
        digits = "".join(generator.choice("0123456789") for _ in range(generator.randint(1, 18)))
        point = generator.randint(1, len(digits))
        exponent = generator.choice(["", f"e{generator.randint(-45, 38)}", f"e{generator.randint(-320, 300)}"])
        texts.append(f"{digits[:point]}.{digits[point:]}{exponent} : {generator.choice(['f32', 'f64', 'f16', 'bf16'])}")
    return texts


def test_every_float_comes_back_to_the_same_bits() -> None:
    for text in random_floats():
        attribute = parse_attribute(text)
        assert parse_attribute(attribute.text) is attribute, text
        if text.startswith("0x"):
            assert attribute.bits == int(text.split()[0], 16) and isinstance(attribute.type, FloatType)  # type: ignore[attr-defined]


@needs_mlir
def test_the_tool_spells_floats_the_same() -> None:
    texts = random_floats()
    status, output, errors = run_mlir_opt("".join(f'"t.a"() <{{a = {text}}}> : () -> ()\n' for text in texts))
    assert status == 0, errors
    for text, line in zip(texts, output.split("\n")[1:]):
        assert line.strip() == f'"t.a"() <{{a = {parse_attribute(text).text}}}> : () -> ()', text


@needs_mlir
def test_the_tool_spells_long_elements_the_same() -> None:
    texts = [f"dense<[{', '.join(str(i - 7) for i in range(count))}]> : tensor<{count}x{element}>"
             for count in (99, 100, 101, 300) for element in ("i16", "i64", "si32", "index", "i12")]
    texts += [f"dense<[{', '.join('true' if i % 3 else 'false' for i in range(count))}]> : tensor<{count}xi1>" for count in (100, 101, 104)]
    texts += [f"dense<[{', '.join(f'{i}.5' for i in range(count))}]> : tensor<{count}xf32>" for count in (100, 101)]
    texts += [f"dense<[{', '.join(f'({i}.5,-1.0)' for i in range(count))}]> : tensor<{count}xcomplex<f32>>" for count in (100, 101)]
    status, output, errors = run_mlir_opt("".join(f'"t.a"() <{{a = {text}}}> : () -> ()\n' for text in texts))
    assert status == 0, errors
    for text, line in zip(texts, output.split("\n")[1:]):
        attribute = parse_attribute(text)
        assert line.strip() == f'"t.a"() <{{a = {attribute.text}}}> : () -> ()'
        assert parse_attribute(attribute.text) is attribute
