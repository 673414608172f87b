"""`--emit=python`: the source, run, builds a module that prints as the one that was read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.ir.printer import print_operation
from gradopt.parser import parse_module, split_input
from gradopt.tools.python_source import python_source

import gradopt

ROOT = Path(__file__).resolve().parents[3]
REFUSALS = ("no builder can",)
FILES = sorted([*(ROOT / "examples").rglob("*.ir"), *(ROOT / "tests" / "lit").rglob("*.ir")])
PIPELINES = ("", "autodiff,decompose", "inline,symbol-dce,decompose,canonicalize,cse,dce,fuse,plan")


def built(module: Operation) -> Operation:
    """What the source of a module builds."""
    names: dict[str, object] = {}
    exec(compile(python_source(module), "built.py", "exec"), names)
    return names["build"]()  # type: ignore[operator,no-any-return]


def modules(path: Path) -> list[Operation]:
    """The modules of a file's parts that are right."""
    found = []
    for part in split_input(path.read_text(encoding="utf-8"), path.name):
        try:
            module = parse_module(part, allow_unregistered=True)
            gradopt.verify(module)
            found.append(module)
        except GradoptError:
            continue  # a test of what is wrong with a text
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_builds_the_module_again(path: Path) -> None:
    for module in modules(path):
        try:
            again = built(module)
        except GradoptError as error:
            assert any(text in str(error) for text in REFUSALS), error
            continue
        assert print_operation(again, generic=True) == print_operation(module, generic=True)
        assert str(again) == str(module)


def test_most_files_take_part() -> None:
    refused = 0
    everything = [module for path in FILES for module in modules(path)]
    for module in everything:
        try:
            python_source(module)
        except GradoptError:
            refused += 1
    assert len(everything) > 80 and refused < 0.2 * len(everything), (refused, len(everything))


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("name", ["digits/mlp.ir", "cnn/cnn.ir", "transformer/transformer.ir"])
def test_after_passes(name: str, pipeline: str) -> None:
    module = gradopt.parse((ROOT / "examples" / name).read_text(encoding="utf-8"), name)
    if pipeline:
        gradopt.run_passes(module, pipeline)
    again = built(module)
    gradopt.verify(again)
    assert str(again) == str(module)


def test_names_are_pythons_own() -> None:
    """Values may be named like Python's words, this source's names, or with signs; equal Python names are told apart."""
    module = gradopt.parse("""func.func @f(%lambda: tensor<f32>, %0: tensor<f32>, %block0: tensor<f32>, %a$b: tensor<f32>, %a.b: tensor<f32>) -> tensor<f32> {
  %build = hl.add %lambda, %0 : tensor<f32>
  %made = hl.add %block0, %a$b {test.note = "\\22\\0A'"} : tensor<f32>
  %r = hl.add %build, %a.b : tensor<f32>
  return %r : tensor<f32>
}""")
    again = built(module)
    assert str(again) == str(module)


@pytest.mark.parametrize(("text", "message"), [
    ('"x.y"() : () -> ()', "'x.y' op is of no dialect that is known here: no builder can make it"),
    ('"x.y"() ({\n  "x.br"()[^a] : () -> ()\n^a:\n  "x.z"() : () -> ()\n}) : () -> ()', "no builder can make it"),
])
def test_what_no_builder_can_say(text: str, message: str) -> None:
    with pytest.raises(GradoptError, match=message):
        python_source(parse_module(text, allow_unregistered=True))


def test_the_source_is_a_program(tmp_path: Path) -> None:
    """Run by itself it prints the module; nothing of the text is run as Python."""
    text = (ROOT / "examples" / "layer.ir").read_text(encoding="utf-8")
    module = gradopt.parse(text)
    script = tmp_path / "layer.py"
    script.write_text(python_source(module), encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == str(module)
