"""Every pass states what it needs and guarantees, and the example in its docstring is what it does."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from gradopt.lowering.passes import Pass
from gradopt.lowering.passes.options import pass_options
from gradopt.lowering.passes.registry import find_pass, pass_names

from gradopt import parse, run_passes

REPORTS = {"print-op-stats", "view-op-graph"}  # they change nothing, so there is no after
_BLOCK = re.compile(r"^(Before|After)(?: \(`(?P<pipeline>[^`]+)`\))?:\n\n(?P<text>(?:    .*\n|\n)+)", re.MULTILINE)


class Example(NamedTuple):
    """A pipeline with the IR before and after."""

    pipeline: str
    before: str
    after: str


def examples(cls: type[Pass]) -> list[Example]:
    """The before and after blocks of a docstring, in pairs."""
    blocks = list(_BLOCK.finditer(cls.documentation() + "\n"))
    assert [block[1] for block in blocks] == ["Before", "After"] * (len(blocks) // 2), "Before and After take turns"
    return [Example(before["pipeline"] or cls.name, before["text"], after["text"])
            for before, after in zip(blocks[::2], blocks[1::2])]


def pass_class(name: str) -> type[Pass]:
    cls = find_pass(name)
    assert cls is not None
    return cls


@pytest.mark.parametrize("name", pass_names())
def test_documentation(name: str) -> None:
    cls = pass_class(name)
    text = " ".join(cls.documentation().split())
    assert cls.name == name
    assert re.search(r"\bNeeds: \S", text), "what does the pass need?"
    assert re.search(r"\bGuarantees: \S", text), "what does the pass guarantee?"
    assert all(option.help for option in pass_options(cls)), "each option has a line of help"
    assert cls.summary().endswith(".")


@pytest.mark.parametrize("name", [name for name in pass_names() if name not in REPORTS])
def test_example(name: str) -> None:
    found = examples(pass_class(name))
    assert found, "the docstring has no Before and After"
    for example in found:
        module = parse(example.before)
        run_passes(module, example.pipeline)
        assert str(module) == str(parse(example.after))
