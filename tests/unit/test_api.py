"""`gradopt.parse`, `run_passes`, `verify`, `compile` and compiled functions with arguments that are no such things: errors of one
family that name the argument, what was found and what was expected."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gradopt.ir.operation import Operation

import gradopt

TEXT = """func.func @f(%x: tensor<4xf32>, %w: tensor<4xf32>, %n: tensor<i32>) -> tensor<f32> {
  %y = prim.mul %x, %w : tensor<4xf32>
  %s = hl.sum %y : (tensor<4xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
func.func private @declared(%x: tensor<4xf32>) -> tensor<f32>
"""
X = np.arange(4, dtype=np.float32)
N = np.int32(0)


@pytest.fixture(scope="module")
def module() -> Operation:
    return gradopt.parse(TEXT)


@pytest.fixture(scope="module")
def function(module: Operation) -> Any:
    return gradopt.compile(module, "f")


def test_errors_are_one_family() -> None:
    for error, base in ((gradopt.ArgumentTypeError, TypeError), (gradopt.ArgumentValueError, ValueError),
                        (gradopt.GradoptRuntimeError, RuntimeError)):
        assert issubclass(error, gradopt.GradoptError) and issubclass(error, base)
    assert not issubclass(gradopt.InternalError, gradopt.GradoptError)
    with pytest.raises(AttributeError, match="module 'gradopt' has no attribute 'prase'"):
        gradopt.prase  # noqa: B018


@pytest.mark.parametrize("value", [None, 3, b"module {}", ["module {}"], np.zeros(3), object()])
def test_what_is_no_module(module: Operation, value: Any) -> None:
    found = "None" if value is None else type(value).__name__
    with pytest.raises(gradopt.ArgumentTypeError, match=rf"parse: argument 'text': expected text \(a str\), found {found}"):
        gradopt.parse(value)
    with pytest.raises(gradopt.ArgumentTypeError, match=f"compile: argument 'module': expected a module or its text, found {found}"):
        gradopt.compile(value, "f")
    with pytest.raises(gradopt.ArgumentTypeError, match=f"run_passes: argument 'module': expected a module .*, found {found}"):
        gradopt.run_passes(value, "cse")
    with pytest.raises(gradopt.ArgumentTypeError, match=f"verify: argument 'module': expected a module .*, found {found}"):
        gradopt.verify(value)
    with pytest.raises(gradopt.ArgumentTypeError, match=rf"parse: argument 'name': expected the name of a file \(a str\), found {found}"):
        gradopt.parse("", value)
    with pytest.raises(gradopt.ArgumentTypeError, match=f"compile: argument 'entry': expected the name of a function, found {found}"):
        gradopt.compile(module, value)


@pytest.mark.parametrize(("pipeline", "message"), [
    (None, "argument 'pipeline': expected the text of a pipeline, or a list of passes, found None"),
    (b"cse", "argument 'pipeline': expected the text of a pipeline, or a list of passes, found bytes"),
    (["cse"], r"argument 'pipeline\[0\]': expected a pass, found str"),
    ("csee", "unknown pass 'csee', did you mean 'cse'?"),
])
def test_what_is_no_pipeline(module: Operation, pipeline: Any, message: str) -> None:
    with pytest.raises(gradopt.GradoptError, match=message):
        gradopt.run_passes(module, pipeline)


def test_a_function_is_no_module(module: Operation) -> None:
    inner = module.regions[0].block.first
    assert inner is not None
    with pytest.raises(gradopt.GradoptError, match=r"takes a 'builtin.module' op, found 'func.func'"):
        gradopt.compile(inner, "f")


@pytest.mark.parametrize(("entry", "message"), [
    ("g", r"there is no function '@g' with a body$"),
    ("", r"there is no function '@' with a body$"),
    ("f_gradd", "there is no function '@f_gradd' with a body, did you mean 'f_grad'"),
    ("declared", "there is no function '@declared' with a body"),
])
def test_unknown_entries(module: Operation, entry: str, message: str) -> None:
    with pytest.raises(gradopt.GradoptError) as caught:
        gradopt.compile(module, entry)
    assert re.search(message, caught.value.diagnostics[0].message)


def test_an_entry_may_have_its_sign(module: Operation) -> None:
    assert gradopt.compile(module, "@f_grad", wrt=["%w"])(X, X, N).tolist() == X.tolist()


@pytest.mark.parametrize(("wrt", "error", "message"), [
    ([], gradopt.ArgumentValueError, "expected a list of positions or names, found an empty one"),
    ("x", gradopt.ArgumentTypeError, r"found 'x': write wrt=\['x'\]"),
    (0, gradopt.ArgumentTypeError, r"found 0: write wrt=\[0\]"),
    (True, gradopt.ArgumentTypeError, "found True"),
    (b"x", gradopt.ArgumentTypeError, "found bytes"),
    ({"x"}, gradopt.ArgumentTypeError, "found set"),
    ({"x": 1}, gradopt.ArgumentTypeError, "found dict"),
    (1.5, gradopt.ArgumentTypeError, "found float"),
    ([None], gradopt.ArgumentTypeError, "found an entry None of type NoneType"),
    ([True], gradopt.ArgumentTypeError, "found an entry True of type bool"),
    ([1.0], gradopt.ArgumentTypeError, "found an entry 1.0 of type float"),
    ([9], gradopt.GradoptError, "wrt is 9, but '@f' has 3 arguments"),
    ([-1], gradopt.GradoptError, "wrt is -1, but '@f' has 3 arguments"),
    ([2], gradopt.GradoptError, "wrt is 2, but that argument of '@f' is tensor<i32>, expected a float tensor"),
    (["q"], gradopt.GradoptError, "wrt names 'q', but the arguments of '@f' are '%x', '%w', '%n'"),
    (["0"], gradopt.GradoptError, "wrt names '0'"),
    (["x,w"], gradopt.GradoptError, "wrt names 'x,w'"),
    (["x mode=jvp"], gradopt.GradoptError, "wrt names 'x mode=jvp'"),
    (["x}"], gradopt.GradoptError, "wrt names 'x}'"),
    ([0, "x"], gradopt.GradoptError, "wrt names argument 0 of '@f' twice"),
])
def test_wrong_wrt(module: Operation, wrt: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gradopt.compile(module, "f_grad", wrt=wrt)


def test_wrt_where_it_means_nothing(module: Operation) -> None:
    with pytest.raises(gradopt.ArgumentValueError, match="wrt is given, but '@f' is a function of the module"):
        gradopt.compile(module, "f", wrt=["x"])


@pytest.mark.parametrize("wrt", [[np.int64(1)], np.array([1]), ("w",), ["%w"], iter([1])])
def test_right_wrt(module: Operation, wrt: Any) -> None:
    assert gradopt.compile(module, "f_grad", wrt=wrt)(X, 2 * X, N).tolist() == X.tolist()


class Lazy:
    """An array of another library."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return X


@pytest.mark.parametrize("value", [X[::-1][::-1], memoryview(X), Lazy(), list(X), np.ma.array(X)])
def test_what_is_an_array(function: Any, value: Any) -> None:
    assert function(value, X, N) == 14


@pytest.mark.parametrize(("value", "error", "message"), [
    (None, gradopt.ArgumentTypeError, r"f: argument 0 \(x\): expected an array of f32, found None"),
    (object(), gradopt.ArgumentTypeError, "expected an array of f32, found object"),
    ({"a": 1}, gradopt.ArgumentTypeError, "expected an array of f32, found dict"),
    ((i for i in range(4)), gradopt.ArgumentTypeError, "expected an array of f32, found generator"),
    ([10**400] * 4, gradopt.ArgumentTypeError, "expected an array of f32, found list"),
    ([[1], [1, 2]], gradopt.ArgumentTypeError, "expected an array of f32, found list: "),
    ([0.0, 1.0, 2.0, 3.0], gradopt.ArgumentTypeError, r"expected f32 \(float32\), found float64; .* numpy.asarray\(x, 'float32'\)"),
    (b"abcd", gradopt.ArgumentTypeError, r"expected f32 \(float32\), found \|S4"),
    (X.astype(object), gradopt.ArgumentTypeError, "found object"),
    (X.astype(">f4"), gradopt.ArgumentTypeError, "found >f4, not in this machine's byte order"),
    (X.astype("c8"), gradopt.ArgumentTypeError, "found complex64"),
    (np.zeros(4, [("a", "f4")]), gradopt.ArgumentTypeError, "found .*'a'"),
    (np.ma.array(X, mask=[1, 0, 0, 0]), gradopt.ArgumentTypeError, "found a masked array; fill it first"),
    (X[:3], gradopt.ArgumentValueError, r"expected shape \(4,\), found \(3,\)"),
    (X.reshape(2, 2), gradopt.ArgumentValueError, r"expected shape \(4,\) of rank 1, found \(2, 2\) of rank 2"),
    (np.float32(1), gradopt.ArgumentValueError, r"found \(\) of rank 0"),
])
def test_what_is_no_array(function: Any, value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        function(value, X, N)


def test_arguments_by_name(function: Any) -> None:
    assert function(X, n=N, w=X) == function(n=N, w=X, x=X) == 14
    for arguments, named, message in (
            ((X,), {}, "f takes 3 arguments, found 1"),
            ((X, X, N, N), {}, "f takes 3 arguments, found 4"),
            ((X,), {"w": X}, "f takes x, w, n; found no n"),
            ((X, X), {"w": X}, "f: argument 'w' is given twice"),
            ((X, X, N), {"q": X}, "f has no argument 'q'; it has x, w, n")):
        with pytest.raises(gradopt.ArgumentTypeError, match=message):
            function(*arguments, **named)


def test_memory_of_a_call_is_asked_for_with_arguments(module: Operation) -> None:
    size = gradopt.compile(TEXT.replace("4xf32", "?xf32"), "f")
    assert size.peak_bytes(X, X, N) > 0
    with pytest.raises(gradopt.ArgumentTypeError, match="f has dynamic sizes: expected the arguments of the call, found none"):
        size.peak_bytes()
    with pytest.raises(gradopt.ArgumentTypeError, match="f takes 3 arguments, found 1"):
        size.peak_bytes(3)
    with pytest.raises(gradopt.ArgumentValueError, match="no profile was started"):
        size.executable.stop_profile()


def test_compiled_functions_are_not_copied(function: Any) -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(gradopt.ArgumentTypeError, match="f: a compiled function cannot be copied or pickled"):
            attempt(function)
    assert repr(function) == "<compiled function @f(%x: tensor<4xf32>, %w: tensor<4xf32>, %n: tensor<i32>) -> (tensor<f32>)>"


def test_a_module_that_a_program_broke() -> None:
    module = gradopt.parse(TEXT)
    function = gradopt.compile(module, "f")
    for op in module.walk():
        if op.name == "prim.mul":
            op.operands = ()
    assert function(X, X, N) == 14
    for use in (lambda: gradopt.compile(module, "f"), lambda: gradopt.compile(module, "f_grad"),
                lambda: gradopt.run_passes(module, "cse"), lambda: gradopt.verify(module)):
        with pytest.raises(gradopt.GradoptError, match=r"'prim.mul' op takes 2 operands"):
            use()


CHECKED = """func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %zero = prim.constant dense<0.0> : tensor<f32>
  %c = prim.cmp %x, %zero {predicate = "gt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  prim.check %c {message = "x is not positive"} : (tensor<i1>) -> ()
  return %x : tensor<f32>
}"""


def test_errors_travel_between_processes() -> None:
    """What a worker of a pool raises is pickled."""
    checked = gradopt.compile(CHECKED, "f")
    for attempt in (lambda: gradopt.parse("x", "a.ir"), lambda: gradopt.run_passes(gradopt.parse(""), "csee"),
                    lambda: gradopt.compile("", "f", wrt=0), lambda: checked(), lambda: checked(-1.0)):
        with pytest.raises(gradopt.GradoptError) as caught:
            attempt()
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is type(caught.value) and str(again) == str(caught.value)
    assert str(caught.value).startswith("<string>:4:3: error: x is not positive\n  prim.check")


@pytest.mark.parametrize("name", ["GRADOPT_NUM_THREADS", "GRADOPT_FRONT_END"])
@pytest.mark.parametrize("value", ["0", "many", "-1", "99999999999", "1e3", "²"])
def test_environment(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from gradopt.lowering.native.compile import front_end_name
    from gradopt.lowering.native.pool import num_threads

    monkeypatch.setattr("gradopt.lowering.native.pool._STATE.wanted", None)
    monkeypatch.setenv(name, value)
    with pytest.raises(gradopt.ArgumentValueError, match="expected"):
        (num_threads if name.endswith("THREADS") else front_end_name)()


def test_a_program_may_turn_errors_into_statuses() -> None:
    """The names that a user writes are there without further imports."""
    code = "import gradopt\ntry:\n    gradopt.compile(None, 'f')\nexcept (gradopt.GradoptRuntimeError, gradopt.ArgumentTypeError):\n    raise SystemExit(7)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7
