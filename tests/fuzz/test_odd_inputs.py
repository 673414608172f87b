"""Inputs that no pass expects are errors with a place, never internal errors; kernels can be read back in and compiled."""

from __future__ import annotations

from pathlib import Path

import gradopt.ir.sizes as sizes
import numpy as np
import pytest
from gradopt.tools.gradopt import main
from gradopt.tools.run import main as run

import gradopt

BLOCKS = """func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  "cf.br"(%x)[^bb1] : (tensor<3xf32>) -> ()
^bb1(%y: tensor<3xf32>):
  return %y : tensor<3xf32>
}"""
FOREIGN = """func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = "foo.bar"(%x) ({
    "foo.end"() : () -> ()
  }) : (tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}"""
LAYER = """func.func @f(%x: tensor<8x4xf32>, %w: tensor<4x3xf32>) -> (tensor<f32>, tensor<4x4xf32>) {
  %h = hl.matmul %x, %w : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
  %a = hl.relu %h : tensor<8x3xf32>
  %s = hl.mean %a : (tensor<8x3xf32>) -> tensor<f32>
  %r = hl.strided_slice %x {begin = [7, 0], end = [-9, 4], strides = [-2, 1]} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return %s, %r : tensor<f32>, tensor<4x4xf32>
}"""


@pytest.mark.parametrize(("text", "message"), [(BLOCKS, "'func.func' op has a region of 2 blocks, expected 1"),
                                               (FOREIGN, "'foo.bar' op")])
@pytest.mark.parametrize("passes", ["fuse", "plan", "decompose,canonicalize,cse,dce,fuse,plan"])
def test_foreign_operations_have_no_kernels(text: str, message: str, passes: str) -> None:
    """Blocks that branch and operations of other dialects."""
    with pytest.raises(gradopt.GradoptError, match=message):
        gradopt.run_passes(gradopt.parse(text, allow_unregistered=True), passes)
    with pytest.raises(gradopt.GradoptError, match=message):
        gradopt.compile(gradopt.parse(text, allow_unregistered=True), "f")


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2", "i4", "ui4", "si8", "i128", "f80", "tf32", "complex<f32>"])
def test_elements_without_kernels(element: str) -> None:
    """Types that text may have and kernels do not."""
    text = f"func.func @f(%x: tensor<3x{element}>) -> tensor<3x{element}> {{\n  return %x : tensor<3x{element}>\n}}"
    with pytest.raises(gradopt.GradoptError, match="compiled functions take elements of"):
        gradopt.compile(text, "f")


@pytest.mark.parametrize("passes", ["", "fuse", "fuse,plan", "canonicalize,cse,dce,fold,licm,fuse"])
def test_kernels_are_text_too(passes: str) -> None:
    """What fuse leaves reads back in as it was printed, stays through further passes, and compiles to the same results."""
    x, w = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((8, 4), (4, 3)))
    expected = gradopt.compile(LAYER, "f")(x, w)
    module = gradopt.run_passes(gradopt.parse(LAYER), "decompose,canonicalize,cse,dce,fuse")
    text = str(module)
    module = gradopt.parse(text)
    assert str(module) == text
    if passes:
        gradopt.run_passes(module, passes)
    found = gradopt.compile(gradopt.parse(str(module)), "f")(x, w)
    for actual, wanted in zip(found, expected):
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("text", ["n * -8 + 3", "-n + 1", "m - n * 8", "(m * n) * -2", "(n floordiv 2) * -3 + 1", "-(n floordiv 2)"])
def test_sizes_print_as_they_are_read(text: str) -> None:
    """A factor below -1 at the front stands behind its name, as in MLIR's maps."""
    assert str(sizes.parse_size(text)) == text


@pytest.mark.parametrize(("arguments", "message"), [
    (["--print-ir-after-all", "--print-ir-tree-dir=program.ir", "--pass=cse"], "cannot write"),
    (["--pass=batch"], "pass 'batch' needs the option 'func'"),
    (["--pass=batch{func=g}"], "function '@g' has no body"),
    (["--pass=autodiff{func=g}"], "function '@g' has no body"),
])
def test_command_line_errors(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                             capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with a path or a function is an error of the input (1), not an internal one (3)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.ir").write_text(LAYER + "\nfunc.func private @g(tensor<3xf32>) -> tensor<3xf32>\n")
    assert main([*arguments, "program.ir"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "status", "message"), [
    (["--seed=-1"], 2, "option '--seed' takes an integer of at least 0, found '-1'"),
    ([], 1, "not enough memory"),
    (["--interpret"], 1, "not enough memory"),
])
def test_running_what_cannot_run(arguments: list[str], status: int, message: str, tmp_path: Path,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    """A result of four thousand terabytes."""
    file = tmp_path / "huge.ir"
    file.write_text("func.func @f() -> tensor<1000000000x1000000xf32> {\n  %y = hl.ones : tensor<1000000000x1000000xf32>\n"
                    "  return %y : tensor<1000000000x1000000xf32>\n}\n")
    assert run([*arguments, str(file)]) == status
    assert message in capsys.readouterr().err
