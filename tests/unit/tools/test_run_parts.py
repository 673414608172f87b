"""The parts of gradopt-run: arguments from what a command line says, float64 modules, the gradient check, tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.sizes import named_size
from gradopt.ir.types import BF16, F16, F32, I1, I32, tensor
from gradopt.tools.arguments import make_arguments, read_sizes
from gradopt.tools.check_gradient import check_gradient
from gradopt.tools.double import to_double
from gradopt.tools.files import FileError
from gradopt.tools.options import UsageError
from gradopt.tools.run import main
from gradopt.tools.tables import format_table, seconds_text, size_text

from gradopt import parse

BATCH = named_size("batch")


def test_made_up_arguments() -> None:
    names = ["x", "labels", "mask", "w", "c"]
    types = [tensor((2, 3), F32), tensor((4,), I32), tensor((3,), I1), tensor((2,), F16), tensor((), F32)]
    texts = ["labels=random:0:3", "mask=random", "3=ones", "c=-2.5", "random:5:6"]
    x, labels, mask, w, c = make_arguments(names, types, texts, {}, seed=1)
    assert x.shape == (2, 3) and x.dtype == np.float32 and ((x >= 5) & (x < 6)).all()
    assert labels.dtype == np.int32 and set(labels) <= {0, 1, 2}
    assert mask.dtype == np.bool_ and w.dtype == np.float16 and (w == 1).all() and c == -2.5
    again = make_arguments(names, types, texts, {}, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(again, (x, labels, mask, w, c)))
    other = make_arguments(names, types, texts, {}, seed=2)
    assert not np.array_equal(other[0], x)


def test_arguments_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((5, 2), np.float32))
    np.savez(tmp_path / "all.npz", a=np.zeros(2, np.float32), b=np.ones(2, np.float32))
    types = [tensor((BATCH, 2), F32), tensor((BATCH,), F32), tensor((2,), F32)]
    x, y, z = make_arguments(["x", "y", "z"], types, [f"x={tmp_path}/x.npy", "y=iota", f"z={tmp_path}/all.npz:b"], {}, 0)
    assert x.shape == (5, 2) and y.tolist() == [0, 1, 2, 3, 4] and z.tolist() == [1, 1]
    with pytest.raises(UsageError, match="has no array 'c'; it has a, b"):
        make_arguments(["z"], types[2:], [f"z={tmp_path}/all.npz:c"], {}, 0)
    (tmp_path / "bad.npy").write_bytes(b"not an array")
    with pytest.raises(FileError, match="cannot read"):
        make_arguments(["z"], types[2:], [f"z={tmp_path}/bad.npy"], {}, 0)


@pytest.mark.parametrize(("texts", "sizes", "message"), [
    ([], {}, "no value for x, y: give --arg x="),
    (["z=1"], {}, "there is no argument 'z'; there are x, y"),
    (["random"], {}, "size 0 of argument 'x' .* is open: give --size batch="),
    (["x=random:3:1", "ones"], {"batch": 2}, "'random:3:1', expected random:LOW:HIGH with LOW < HIGH"),
    (["x=onse", "ones"], {"batch": 2}, "did you mean 'ones'"),
])
def test_wrong_arguments(texts: list[str], sizes: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_arguments(["x", "y"], [tensor((BATCH,), F32), tensor((), F32)], texts, sizes, 0)
    with pytest.raises(UsageError, match="takes NAME=N"):
        read_sizes(["batch=many"])


LOSS = """func.func @f(%x: tensor<3xf32>) -> tensor<f32> {
  %h = prim.constant dense<[0.5, 1.5, -2.0]> : tensor<3xf32>
  %a = prim.mul %x, %h : tensor<3xf32>
  %b = prim.tanh %a : tensor<3xf32>
  %s = prim.reduce %b {axes = [0], kind = "sum"} : (tensor<3xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
"""


def test_double() -> None:
    for element in (F16, BF16, F32):
        double = to_double(parse(LOSS.replace("f32", element.text)))
        assert str(double) == str(parse(LOSS.replace("f32", "f64")))
    with pytest.raises(GradoptError, match=r"'prim.bitcast' op has no counterpart in float64"):
        to_double(parse("func.func @f(%x: tensor<f32>) -> tensor<i32> {\n %y = prim.bitcast %x : (tensor<f32>) -> tensor<i32>\n"
                        " return %y : tensor<i32>\n}"))


def test_gradients_agree_and_kinks_do_not() -> None:
    x = np.array([0.3, -0.2, 0.9], np.float32)
    comparisons = check_gradient(parse(LOSS), "f", [x], None)
    assert [(c.argument, c.what, c.compared, c.agrees) for c in comparisons] == [("x", "reverse", 3, True), ("x", "forward", 3, True)]
    kinked = parse(LOSS.replace("prim.tanh", "prim.abs"))
    assert all(c.agrees for c in check_gradient(kinked, "f", [x], None))
    step = LOSS.replace("prim.tanh", "prim.floor")
    assert all(c.agrees for c in check_gradient(parse(step), "f", [x], None))
    reverse = check_gradient(kinked, "f", [np.array([0.0, 1.0, 1e-6], np.float32)], None)[0]
    assert not reverse.agrees and reverse.place == "[2]"  # the difference reaches over the kink


def test_tables() -> None:
    assert format_table(["name", "time"], [("a", "1.5 ms"), ("long", "12 ms")]) == (
        "name    time\n----  ------\na     1.5 ms\nlong   12 ms\n")
    assert [seconds_text(value) for value in (2.5, 0.0123, 4.56e-5, 1e-9)] == ["2.5 s", "12.3 ms", "45.6 µs", "0.001 µs"]
    assert [size_text(value) for value in (12, 1_500, 2_000_000, 3_210_000_000)] == ["12 B", "1.5 kB", "2 MB", "3.21 GB"]


def test_results_are_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.ir"
    file.write_text(LOSS)
    for ending in ("npy", "npz"):
        assert main([str(file), "--entry=f_value_and_grad", "--arg=zeros", "--print=none", f"--save={tmp_path}/out.{ending}"]) == 0
    assert np.load(tmp_path / "out_0.npy") == 0 and np.load(tmp_path / "out_1.npy").tolist() == [0.5, 1.5, -2.0]
    assert np.load(tmp_path / "out.npz")["result1"].tolist() == [0.5, 1.5, -2.0]
    assert main([str(file), "--arg=zeros", "--save=out.txt"]) == 2
    assert main([str(file), "--arg=zeros", "--save=/does/not/exist/out.npy"]) == 1
    assert main([str(file), "--arg=zeros", "--time=never"]) == 2
    capsys.readouterr()
