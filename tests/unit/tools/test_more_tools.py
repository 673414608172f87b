"""gradopt-reduce, gradopt-filecheck-update, the Pygments lexer, completion scripts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gradopt.tools import filecheck_update
from gradopt.tools import reduce as reduce_tool
from gradopt.tools.completion import completion_script
from gradopt.tools.gradopt import main as gradopt

ROOT = Path(__file__).resolve().parents[3]
BIG = """func.func @unrelated(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = prim.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>, %c: tensor<i1>) -> (tensor<4xf32>, tensor<i1>) {
  %a = prim.exp %x : tensor<4xf32>
  %b = prim.add %a, %y : tensor<4xf32>
  %d = prim.sub %b, %a : tensor<4xf32>
  prim.check %c {message = "odd"} : (tensor<i1>) -> ()
  %e = prim.mul %d, %d : tensor<4xf32>
  return %e, %c : tensor<4xf32>, tensor<i1>
}
"""
SMALL = """module {
  func.func @f(%x: tensor<4xf32>) {
    %d = prim.sub %x, %x : tensor<4xf32>
    return
  }
}
"""


def test_ddmin() -> None:
    asked: list[list[int]] = []

    def holds(kept: list[int]) -> bool:
        asked.append(kept)
        return {3, 17, 40} <= set(kept)

    assert reduce_tool.minimised(range(64), holds) == [3, 17, 40]
    assert len(asked) < 150
    assert reduce_tool.minimised([1, 2], lambda kept: True) == []


def test_reduction_by_operations() -> None:
    assert reduce_tool.keep_failing(BIG, lambda text: "prim.sub" in text) == SMALL
    both = reduce_tool.keep_failing(BIG, lambda text: "prim.sub" in text and "prim.exp" in text)
    assert both.count("prim.") == 2


def test_reduction_by_lines() -> None:
    broken = "one\ntwo {\nthree\nfour\n"
    assert reduce_tool.keep_failing(broken, lambda text: "two" in text and "four" in text) == "two {\nfour"


def test_reduce_runs_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, script = tmp_path / "big.ir", tmp_path / "fails.py"
    file.write_text(BIG)
    script.write_text("import sys\ntext = open(sys.argv[1]).read()\nif 'prim.sub' in text:\n    sys.exit(f'error: {len(text)} has sub')\n"
                      "if 'prim.mul' not in text:\n    sys.exit('error: another one')\n")
    assert reduce_tool.main([str(file), "--quiet", "-o", str(tmp_path / "small.ir"), "--", sys.executable, str(script), "{}"]) == 0
    assert (tmp_path / "small.ir").read_text() == SMALL
    assert reduce_tool.main([str(file), "-q", "--match=no such text", "--", sys.executable, str(script)]) == 1
    assert reduce_tool.main([str(file), "-q", "--match=(", "--", sys.executable, str(script)]) == 2
    assert "does not print" in capsys.readouterr().err
    assert reduce_tool.main([str(file), "--", sys.executable, "-c", "pass"]) == 1
    assert "does not fail" in capsys.readouterr().err
    assert reduce_tool.main([str(file)]) == 2
    assert reduce_tool.main([str(file), "--", "/no/such/program"]) == 1
    assert "cannot run '/no/such/program'" in capsys.readouterr().err


TEST = """// RUN: gradopt --pass=cse %s | filecheck %s
// RUN: gradopt %s | filecheck %s --check-prefix=PLAIN

// A comment that stays.
// CHECK: something old
// CHECK-NEXT: and older
func.func @f(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = prim.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %1 = prim.exp %x : tensor<2x2xf32>
  %2 = prim.exp %x : tensor<2x2xf32>
  %3 = prim.add %1, %2 : tensor<2x2xf32>
  %4 = prim.add %3, %0 : tensor<2x2xf32>
  return %4 : tensor<2x2xf32>
}
"""


def test_filecheck_update(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "test.ir"
    file.write_text(TEST)
    assert filecheck_update.main(["--check", str(file)]) == 1
    assert file.read_text() == TEST
    assert filecheck_update.main([str(file)]) == 0
    text = file.read_text()
    assert "something old" not in text and "// A comment that stays." in text
    assert text.count("CHECK-LABEL: func.func @f(") == 1 and text.count("PLAIN-LABEL: func.func @f(") == 1
    assert "dense<{{\\[\\[}}1.000000e+00" in text
    assert filecheck_update.main(["--check", str(file)]) == 0
    capsys.readouterr()
    for arguments, prefix in ((["--pass=cse"], "CHECK"), ([], "PLAIN")):
        assert gradopt([*arguments, str(file)]) == 0
        output = capsys.readouterr().out
        checker = [sys.executable, "-m", "filecheck", str(file), f"--check-prefix={prefix}"]
        done = subprocess.run(checker, input=output, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        damaged = subprocess.run(checker, input=output.replace("prim.add", "prim.mul"), text=True, capture_output=True, check=False)
        assert damaged.returncode != 0


def test_filecheck_update_needs_a_run_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "test.ir"
    file.write_text("// RUN: cat %s\n")
    assert filecheck_update.main([str(file)]) == 1
    assert "has no line of the form" in capsys.readouterr().err


def test_the_lexer_knows_every_test_file() -> None:
    from gradopt.tools.pygments_lexer import MlirLexer
    from pygments.token import Error, Keyword, Name, String

    files = sorted((ROOT / "tests" / "lit").rglob("*.ir"))
    assert files
    for file in files:
        text = file.read_text()
        tokens = list(MlirLexer().get_tokens(text))
        assert "".join(value for _, value in tokens).strip() == text.strip()
        assert not [value for kind, value in tokens if kind is Error], file
    tokens = list(MlirLexer().get_tokens('%a = hl.add %x : tensor<2x?xf32, #ir.dims<["n", 2]>>'))
    assert (Name.Variable, "a") in tokens and (Name.Builtin, "hl.add") in tokens
    assert (Keyword.Type, "tensor") in tokens and (Keyword.Type, "f32") in tokens and (String.Double, '"n"') in tokens


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    script = completion_script(shell)
    assert "print-op-generic" in script and "canonicalize" in script
    program = shutil.which(shell)
    if program is not None:  # the shell that is here says whether it is well formed
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_bash_completes() -> None:
    program = shutil.which("bash")
    if program is None:
        pytest.skip("no bash here")
    script = completion_script("bash") + """
complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _gradopt 2>/dev/null; echo "${COMPREPLY[@]}"; }
complete_line gradopt --print-op-g
complete_line gradopt --pass = cse,canon
"""
    lines = subprocess.run([program], input=script, text=True, check=True, capture_output=True).stdout.splitlines()
    assert lines == ["--print-op-generic", "cse,canonicalize"]
