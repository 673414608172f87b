"""What a user may get wrong on a command line: statuses and messages. 1: the input is wrong; 2: the command line is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gradopt.lowering.passes import PipelineError, build_pipeline
from gradopt.tools.gradopt import main as gradopt
from gradopt.tools.gradopt_options import OPTIONS as GRADOPT_OPTIONS
from gradopt.tools.options import UsageError, parse_arguments
from gradopt.tools.reduce import OPTIONS as REDUCE_OPTIONS
from gradopt.tools.run import main as run
from gradopt.tools.run_options import OPTIONS as RUN_OPTIONS

PROGRAM = """func.func @f(%x: tensor<?xf32, #ir.dims<["n"]>>, %k: tensor<i8>) -> tensor<f32> {
  %s = prim.reduce %x {axes = [0], kind = "sum"} : (tensor<?xf32, #ir.dims<["n"]>>) -> tensor<f32>
  return %s : tensor<f32>
}
func.func private @declared()
"""
TABLES = {"gradopt": GRADOPT_OPTIONS, "gradopt-run": RUN_OPTIONS, "gradopt-reduce": REDUCE_OPTIONS}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("program.ir").write_text(PROGRAM)
    return "program.ir"


def numeric() -> list[tuple[str, str, int | None]]:
    """(tool, option, least value) for every option that takes a number."""
    return [(tool, option.name, option.minimum) for tool, table in TABLES.items() for option in table
            if option.value in ("N", "SECONDS")]


@pytest.mark.parametrize(("tool", "name", "minimum"), numeric())
@pytest.mark.parametrize("text", ["", "many", "1_0", " 3", "²", "0x10", "1e400", "nan", "-7", "9" * 30])
def test_every_number_has_a_range(tool: str, name: str, minimum: int | None, text: str) -> None:
    with pytest.raises(UsageError, match=f"option '{name}' takes "):
        parse_arguments(TABLES[tool], [f"{name}={text}"])


def test_numbers_in_their_range() -> None:
    assert len(numeric()) >= 7 and all(minimum is not None for tool, name, minimum in numeric() if name not in (
        "--time", "--profile", "--timeout"))
    values, _ = parse_arguments(GRADOPT_OPTIONS, ["--print-hex-larger=-1", "--elide-elements-larger=0"])
    assert (values["print_hex_larger"], values["elide_elements_larger"]) == (-1, 0)
    values, _ = parse_arguments(RUN_OPTIONS, ["--time", "--profile=0.25", "--threads=2"])
    assert (values["time"], values["profile"], values["threads"]) == (0.5, 0.25, 2)


@pytest.mark.parametrize(("tool", "name"), [(tool, option.name) for tool, table in TABLES.items() for option in table
                                            if option.value is not None and not option.empty])
def test_an_empty_value_is_none(tool: str, name: str) -> None:
    with pytest.raises(UsageError):
        parse_arguments(TABLES[tool], [f"{name}="])


@pytest.mark.parametrize(("pipeline", "message"), [
    ("builtin.module(func.func(autodiff))", "pass 'autodiff' runs on 'builtin.module', not on 'func.func'"),
    ("func.func(inline)", "pass 'inline' runs on 'builtin.module', not on 'func.func'"),
    ("func.func(symbol-dce)", "pass 'symbol-dce' runs on 'builtin.module', not on 'func.func'"),
    ("func.func(remat{budget=8})", "pass 'remat' runs on 'builtin.module', not on 'func.func'"),
    ("builtin.modul(cse)", "there is no operation 'builtin.modul', did you mean 'builtin.module'"),
    ("func.fnc(cse)", "there is no operation 'func.fnc', did you mean 'func.func'"),
    ("function(cse)", "there is no operation 'function'"),
    ("foo.bar(cse)", "there is no operation 'foo.bar'"),
    ("cse(dce)", "'cse' is a pass, expected an operation before"),
    ("remat{budget=-1}", "option 'budget' of pass 'remat' is -1, expected an integer from 0 to"),
    ("fold{limit=-1}", "option 'limit' of pass 'fold' is -1, expected an integer from 0 to"),
    ("inline{max-operations=-1}", "option 'max-operations' of pass 'inline' is -1, expected an integer from 0 to"),
    ("canonicalize{max-rewrites=-1}", "option 'max-rewrites' of pass 'canonicalize' is -1, expected an integer from 0 to"),
    ("view-op-graph{max-label=-1}", "option 'max-label' of pass 'view-op-graph' is -1, expected an integer from 0 to"),
])
def test_pipelines(pipeline: str, message: str, program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PipelineError, match=message):
        build_pipeline(pipeline)
    for main in (gradopt, run):
        assert main([f"--pass={pipeline}", program]) == 2
        assert message in capsys.readouterr().err


def test_anchors_that_are_right() -> None:
    build_pipeline("builtin.module(func.func(cse),hl.scan(any(dce)),any(autodiff),builtin.module(inline))")
    build_pipeline("foo.bar(cse)", allow_unregistered=True)
    with pytest.raises(PipelineError):
        build_pipeline("func.bar(cse)", allow_unregistered=True)  # dialect func is known


@pytest.mark.parametrize(("arguments", "status", "message"), [
    (["--arg=random"], 2, "size 0 of argument 'x' (tensor<?xf32, #ir.dims<[\"n\"]>>) is open: give --size n=…"),
    (["--arg=random", "--size=n=3", "--size=m=3"], 2, "option '--size': no argument has an open size 'm'; there are n"),
    (["--arg=random", "--size=n=3", "--size=n=4"], 2, "size 'n' is given twice: 3 and 4"),
    (["--arg=random", "--size=n=²"], 2, "option '--size' takes NAME=N, found 'n=²'"),
    (["--arg=random", "--size=n=-3"], 2, "option '--size' takes NAME=N, found 'n=-3'"),
    (["--arg=random", "--size=n=99999999999999999"], 2, "argument 'x' of shape (99999999999999999,) cannot be made"),
    (["--arg=q=1"], 2, "there is no argument 'q'; there are x, k"),
    (["--arg=²=1"], 2, "there is no argument '²'"),
    (["--arg=x=1", "--arg=0=2"], 2, "argument 'x' is given twice: '1' and '2'"),
    (["--arg=random", "--arg=zeros"], 2, "all other arguments are 'random' and then 'zeros'"),
    (["--arg=k=300", "--arg=1", "--size=n=1"], 2, "argument 'k' is '300', expected an integer from -128 to 127 for i8"),
    (["--arg=k=1.5", "--arg=1", "--size=n=1"], 2, "argument 'k' is '1.5', expected an integer from -128 to 127 for i8"),
    (["--arg=zeros:3", "--size=n=1"], 2, "argument 'x' is 'zeros:3', expected zeros alone"),
    (["--arg=normal:0:1", "--size=n=1"], 2, "argument 'x' is 'normal:0:1', expected normal alone"),
    (["--arg=random:-inf:inf", "--size=n=1"], 2, "expected random:LOW:HIGH with LOW < HIGH"),
    (["--arg=random:1", "--size=n=1"], 2, "expected random:LOW:HIGH with LOW < HIGH"),
    (["--wrt=x"], 2, "option '--wrt' is for derivatives, and '@f' is a function of the file: ask for --entry=f_grad"),
    (["--wrt=q", "--entry=f_grad"], 2, "option '--wrt': '@f' has no argument 'q'; it has x, k"),
    (["--wrt=9", "--check-grad"], 2, "option '--wrt': '@f' has no argument '9'; it has x, k"),
    (["--wrt=x,", "--check-grad"], 2, "option '--wrt' takes names or positions with a comma between them, found 'x,'"),
    (["--wrt=k", "--check-grad", "--arg=1", "--size=n=1"], 1, "error: wrt is 1, but that argument of '@f' is tensor<i8>"),
    (["--entry=g"], 2, "there is no function '@g' with a body; there are f"),
    (["--entry=f_gradd"], 2, "there is no function '@f_gradd' with a body, did you mean 'f_grad'?"),
    (["--entry=declared", "--interpret"], 2, "there is no function '@declared' with a body"),
    (["--interpret", "--time"], 2, "option '--time' is about a compiled function"),
    (["--interpret", "--check-grad"], 2, "option '--check-grad' is about a compiled function"),
    (["--save=out.txt"], 2, "option '--save' takes a file that ends in .npy or .npz, found 'out.txt'"),
    (["--allow-unregistered-dialect", "--pass=foo.bar(cse)", "--entry=g"], 2, "there is no function '@g'"),
])
def test_running(arguments: list[str], status: int, message: str, program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([program, *arguments]) == status
    error = capsys.readouterr().err
    assert message in error and "internal error" not in error


def test_a_file_without_functions(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("none.ir").write_text("func.func private @declared()")
    assert run(["none.ir"]) == 1
    assert capsys.readouterr().err.startswith("none.ir:1:1: error: there is no public function to run")


BLOCKS = """func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  cf.br ^bb1(%x : tensor<3xf32>)
^bb1(%y: tensor<3xf32>):
  return %y : tensor<3xf32>
}
func.func @g(%x: tensor<f32>) -> tensor<f32> {
  %zero = prim.constant dense<0.0> : tensor<f32>
  %c = prim.cmp %x, %zero {predicate = "gt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  prim.check %c {message = "x is not positive"} : (tensor<i1>) -> ()
  return %x : tensor<f32>
}"""


@pytest.mark.parametrize(("arguments", "message"), [
    (["--entry=f"], "blocks.ir:1:1: error: 'func.func' op has a region of 2 blocks, expected 1\nfunc.func @f("),
    (["--entry=g", "--arg=x=-1"], "x is not positive"),
])
@pytest.mark.parametrize("how", [[], ["--interpret"]])
def test_errors_have_a_place(arguments: list[str], message: str, how: list[str], program: str,
                             capsys: pytest.CaptureFixture[str]) -> None:
    """Compiled and interpreted."""
    Path("blocks.ir").write_text(BLOCKS)
    assert run(["blocks.ir", "--allow-unregistered-dialect", "--arg=random", *arguments, *how]) == 1
    error = capsys.readouterr().err
    assert message in error and error.startswith("blocks.ir:") and "\n" + " " * 2 * (arguments[0] == "--entry=g") + "^" in error


def test_a_reproducer_that_cannot_be_written(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gradopt([program, "--generate-reproducer=missing/x"]) == 1
    output = capsys.readouterr()
    assert output.err == "gradopt: error: cannot write 'missing/x': No such file or directory\n" and not output.out
    Path("wrong.ir").write_text("func.func @f( {")
    assert gradopt(["wrong.ir", "--crash-reproducer=missing/x"]) == 1
    assert "cannot write 'missing/x'" in capsys.readouterr().err


def test_a_gradient_is_checked_and_timed(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As the first page says: both tables, and no results."""
    np.save("x.npy", np.ones(3, np.float32))
    assert run([program, "--entry=f_grad", "--arg=x=x.npy", "--arg=k=1", "--check-grad", "--time=0.001", "--memory", "--save=g.npy"]) == 0
    output = capsys.readouterr().out
    assert "x         reverse         3" in output and "run: median" in output and "peak beyond the arguments" in output
    assert "result 0" not in output and np.load("g.npy").tolist() == [1, 1, 1]
