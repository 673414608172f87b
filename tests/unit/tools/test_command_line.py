"""The parts of the command line that lit tests do not reach: statuses of broken passes, files, options, expectations."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gradopt.ir.diagnostics import Diagnostic
from gradopt.ir.locations import Source, SourceLocation
from gradopt.ir.operation import Operation
from gradopt.lowering.simplify import cse
from gradopt.tools.expectations import find_expectations, unmet
from gradopt.tools.files import FileError, read_text, write_text
from gradopt.tools.gradopt import main
from gradopt.tools.gradopt_options import OPTIONS
from gradopt.tools.options import UsageError, parse_arguments
from gradopt.tools.reproducer import reproducer_text, stored_pipeline

PROGRAM = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = prim.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A file with a program, in a folder of its own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.ir").write_text(PROGRAM)
    yield "program.ir"


def break_cse(monkeypatch: pytest.MonkeyPatch, replacement: object) -> None:
    monkeypatch.setattr(cse, "merge_common_subexpressions", replacement)


def test_a_pass_that_raises_leaves_a_reproducer(program: str, monkeypatch: pytest.MonkeyPatch,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    def fail(op: Operation, context: object) -> None:
        raise KeyError("oops")

    break_cse(monkeypatch, fail)
    assert main(["--pass=dce,cse", program]) == 3
    output = capsys.readouterr()
    assert output.out == ""
    assert "program.ir: internal error: pass 'cse' failed: KeyError: 'oops'" in output.err
    assert "Traceback" not in output.err
    text = Path("gradopt-reproducer.ir").read_text()
    assert "// Traceback (most recent call last):" in text and PROGRAM in text
    assert main(["--run-reproducer", "gradopt-reproducer.ir"]) == 3


def test_shrink_is_the_test_of_a_reducer(program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0 only for what the reducer is to keep; nothing is printed, nothing is left behind."""
    def fail(op: Operation, context: object) -> None:
        if any(inner.name == "prim.exp" for inner in op.walk()):
            raise KeyError("oops")

    break_cse(monkeypatch, fail)
    assert main(["--pass=cse", "--shrink", program]) == 0
    assert main(["--pass=dce", "--shrink", program]) == 1
    assert main(["--pass=cse", "--shrink=KeyError: 'oops'", program]) == 0
    assert main(["--pass=cse", "--shrink=ValueError", program]) == 1
    Path("wrong.ir").write_text("func.func @f() {\n  hl.ad\n  return\n}\n")
    assert main(["--shrink", "wrong.ir"]) == 1
    assert main(["--shrink=has no operation", "wrong.ir"]) == 0
    assert capsys.readouterr() == ("", "")
    assert sorted(path.name for path in Path().iterdir()) == ["program.ir", "wrong.ir"]


def test_a_pass_that_breaks_the_ir_is_found(program: str, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    def damage(op: Operation, context: object) -> None:
        for inner in op.walk():
            if inner.name == "prim.exp":
                inner.operands = ()

    break_cse(monkeypatch, damage)
    assert main(["--pass=cse", program, "--crash-reproducer=crash.ir"]) == 3
    assert "pass 'cse' left invalid IR behind" in capsys.readouterr().err
    assert Path("crash.ir").exists() and not Path("gradopt-reproducer.ir").exists()
    assert main(["--pass=cse", "--verify-each=0", program]) == 0
    assert "prim.exp" in capsys.readouterr().out


def test_statuses(program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([program]) == 0
    assert main(["--pass=nothing", program]) == 2
    assert main(["--nothing", program]) == 2
    assert main(["missing.ir"]) == 1
    monkeypatch.setattr(sys, "stdin", io.StringIO("func.func @f( {"))
    assert main(["-"]) == 1
    capsys.readouterr()


def test_a_failed_write_loses_nothing(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.ir").write_text("precious")

    def fail(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert main([program, "-o", "out.ir"]) == 1
    assert Path("out.ir").read_text() == "precious"
    assert sorted(os.listdir()) == ["out.ir", "program.ir"]


def test_files(tmp_path: Path) -> None:
    target, link = tmp_path / "a.ir", tmp_path / "link.ir"
    write_text(str(target), "bytes \udcff stay")
    assert read_text(str(target)) == "bytes \udcff stay"
    os.chmod(target, 0o640)
    link.symlink_to(target)
    write_text(str(link), "through a link")
    assert link.is_symlink() and target.read_text() == "through a link"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    with pytest.raises(FileError, match="No such file or directory"):
        read_text(str(tmp_path / "missing"))
    with pytest.raises(FileError, match="cannot read 'a\x00b'"):
        read_text("a\x00b")


@pytest.mark.parametrize(("arguments", "key", "value"), [
    (["--print-op-generic"], "print_op_generic", True),
    (["-print_op_generic"], "print_op_generic", True),
    (["--mlir-print-op-generic"], "print_op_generic", True),
    (["--verify-each=0"], "verify_each", False),
    ([], "verify_each", True),
    (["-o", "x"], "output", "x"),
    (["-o=x"], "output", "x"),
    (["--pass=a", "-p", "b"], "pass", ["a", "b"]),
    (["--timing"], "timing", "tree"),
    (["--timing=json"], "timing", "json"),
    (["--elide-elements-larger=7"], "elide_elements_larger", 7),
    (["--split-input-file"], "split_input_file", "// -----"),
])
def test_options(arguments: list[str], key: str, value: object) -> None:
    values, positional = parse_arguments(OPTIONS, [*arguments, "--", "-strange name.ir"])
    assert values[key] == value
    assert positional == ["-strange name.ir"]


@pytest.mark.parametrize("arguments", [["--timing=x"], ["--elide-elements-larger=many"], ["--verify-each=perhaps"], ["--pass"],
                                       ["-x"]])
def test_wrong_options(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_arguments(OPTIONS, arguments)


def test_every_option_has_help() -> None:
    assert all(option.help for option in OPTIONS)
    spellings = [spelling for option in OPTIONS for spelling in (option.name, *option.aliases)]
    assert len(spellings) == len(set(spellings))


def diagnostic(source: Source, line: int, message: str, severity: str = "error") -> Diagnostic:
    offset = sum(len(text) + 1 for text in source.text.split("\n")[: line - source.first_line])
    return Diagnostic(SourceLocation(source, offset), message, severity)


def test_expectations() -> None:
    source = Source("a.ir", "x // expected-error {{one {{of}} them}} expected-warning{{w}}\n"
                            "// expected-note@-1 {{n}}\n// expected-error-re @below {{size {{[0-9]+}} is bad}}\n"
                            "// expected-error@+1 {{}}}}}\ny", first_line=10)
    found, errors = find_expectations(source)
    assert not errors
    assert [(item.severity, item.line, item.text) for item in found] == [
        ("error", 10, "one {{of}} them"), ("warning", 10, "w"), ("note", 10, "n"), ("error", 14, "size {{[0-9]+}} is bad"),
        ("error", 14, "}}}")]
    came = [diagnostic(source, 10, "one {{of}} them, say").note(diagnostic(source, 10, "").location, "n"),
            diagnostic(source, 10, "w", "warning"), diagnostic(source, 14, "size 12 is bad"), diagnostic(source, 14, "a }}} b")]
    assert not unmet(source, came)
    assert [error.message for error in unmet(source, came[1:])] == [
        'expected error "one {{of}} them" was not produced', 'expected note "n" was not produced']
    assert [error.message for error in unmet(source, [*came, diagnostic(source, 14, "more")])] == ["unexpected error: more"]
    assert not unmet(source, [*came, diagnostic(source, 14, "more")], only_expected=True)


def test_malformed_expectations() -> None:
    source = Source("a.ir", "// expected-error {{never ends\n// expected-error-re {{a {{[}} b}}")
    _, errors = find_expectations(source)
    assert [error.message.split(":")[0] for error in errors] == [
        "expected-error has no closing '}}'", "'a {{[}} b' is no regular expression"]


@pytest.mark.parametrize("pipeline", ["cse", 'a{text="say \\"hi\\" \\\\ {x}"}', "a{text=é}"])
def test_reproducers_hold_any_pipeline(pipeline: str) -> None:
    text = reproducer_text(PROGRAM, pipeline, True, "Traceback\n  line")
    assert stored_pipeline(Source("r.ir", text)) == f"builtin.module({pipeline})"
    from gradopt.parser import parse_module

    assert str(parse_module(text)).startswith(str(parse_module(PROGRAM)))
