"""The text of pipelines: what is written comes back, defaults included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
from gradopt.ir.operation import Operation
from gradopt.lowering.passes import Nested, Pass, PassContext, PipelineError, build_pipeline, option, pipeline_text, registry
from gradopt.lowering.passes.manager import PassManager


@dataclass(frozen=True)
class ExamplePass(Pass):
    """A pass with an option of every kind."""

    name: ClassVar[str] = "example"
    flag: bool = option(False, "a flag")
    number: int = option(3, "an integer")
    limit: int | None = option(None, "an integer or nothing")
    rate: float = option(0.5, "a float")
    text: str = option("", "a string")
    mode: str = option("first-mode", "a choice", choices=("first-mode", "second_mode"))
    numbers: tuple[int, ...] = option((), "integers")
    names: tuple[str, ...] = option((), "strings")
    mixed: tuple[int | str, ...] = option((), "integers or names")

    def run(self, op: Operation, context: PassContext) -> None:
        context.count("runs")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The example pass under its name, for the time of a test."""
    find = registry._PLACES
    find["example"] = f"{__name__}:ExamplePass"
    registry.pass_names.cache_clear()
    import sys

    sys.modules.setdefault(__name__, sys.modules[ExamplePass.__module__])
    yield
    del find["example"]
    registry.pass_names.cache_clear()


def only(text: str) -> ExamplePass:
    (item,) = build_pipeline(text)
    assert isinstance(item, ExamplePass)
    return item


@pytest.mark.parametrize(("text", "field", "value"), [
    ("example", "number", 3),
    ("example{number=0x10}", "number", 16),
    ("example{ number=-7  flag }", "flag", True),
    ("example{flag=false}", "flag", False),
    ("example{limit=4}", "limit", 4),
    ("example{rate=1e-3}", "rate", 1e-3),
    ('example{text="a, b}"}', "text", "a, b}"),
    ("example{text={a b {c}}}", "text", "a b {c}"),
    (r'example{text="say \"hi\""}', "text", 'say "hi"'),
    ("example{mode=second-mode}", "mode", "second_mode"),
    ("example{mode=first_mode}", "mode", "first-mode"),
    ("example{numbers=1,2,3}", "numbers", (1, 2, 3)),
    ("example{numbers={1, 2,3}}", "numbers", (1, 2, 3)),
    ("example{numbers=1 numbers=2}", "numbers", (1, 2)),
    ("example{names=bwd.conv2d_input,x}", "names", ("bwd.conv2d_input", "x")),
    ("example{names={}}", "names", ()),
    ("example{mixed=0,w,2}", "mixed", (0, "w", 2)),
])
def test_options(text: str, field: str, value: object) -> None:
    item = only(text)
    assert getattr(item, field) == value
    for defaults in (True, False):
        assert build_pipeline(pipeline_text([item], defaults)) == [item]


def test_nesting() -> None:
    items = build_pipeline("cse , builtin.module( example{number=1}, func.func(any(dce)) )")
    assert isinstance(items[1], Nested) and items[1].anchor == "builtin.module"
    assert pipeline_text(items, defaults=False) == "cse,builtin.module(example{number=1},func.func(any(dce)))"
    assert build_pipeline("") == build_pipeline("  ") == []
    with pytest.raises(PipelineError, match="nested more than"):
        build_pipeline("any(" * 10_000 + ")" * 10_000)


@pytest.mark.parametrize(("text", "column", "message"), [
    ("exampel", 1, "unknown pass 'exampel', did you mean 'example'?"),
    ("example{nmber=1}", 9, "no option 'nmber', did you mean 'number'?"),
    ("example{number=x}", 16, "takes an integer, found 'x'"),
    ("example{number}", 9, "takes an integer: write number="),
    ("example{number=1,2}", 18, "found 2 values"),
    ("example{flag=maybe}", 14, "takes true or false, found 'maybe'"),
    ("example{mode=third}", 14, "is 'third', expected one of first-mode, second_mode"),
    ("example{numbers={1,x}}", 20, "takes a list of integers, found 'x'"),
    ("example{number=1", 8, "missing closing '}'"),
    ('example{text="a}', 14, 'missing closing "'),
    ("example{=1}", 9, "expected the name of an option"),
    ("example{number=}", 16, "expected a value"),
    ("any(example", 12, "missing closing ')'"),
    ("any(example}", 12, "unexpected '}', expected ',' or ')'"),
    ("example,", 9, "expected the name of a pass"),
    ("example example", 9, "unexpected 'e', expected ',' or the end"),
])
def test_mistakes_are_located(text: str, column: int, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        build_pipeline(text)
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.location.text == f'"<pipeline>":1:{column}'


def test_statistics_and_anchors() -> None:
    from gradopt import parse

    module = parse("func.func @f() {\n return\n}\nfunc.func @g() {\n return\n}")
    manager = PassManager("example,func.func(example),func.func(any(example))")
    manager.run(module)
    assert manager.context.statistics == {("example", "runs"): 5}
