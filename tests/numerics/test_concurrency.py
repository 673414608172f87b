"""One compiled gradient called from many threads, after a fork, in a spawned process and with any number of workers: always the same bits."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from gradopt.lowering.native import pool

import gradopt

TEXT = """
func.func @loss(%x: tensor<96x32xf32>, %w: tensor<32x24xf32>, %b: tensor<24xf32>, %labels: tensor<96xi32>) -> tensor<f32> {
  %p = hl.matmul %x, %w : (tensor<96x32xf32>, tensor<32x24xf32>) -> tensor<96x24xf32>
  %z = hl.add %p, %b : (tensor<96x24xf32>, tensor<24xf32>) -> tensor<96x24xf32>
  %h = hl.gelu %z : tensor<96x24xf32>
  %l = hl.softmax_cross_entropy %h, %labels : (tensor<96x24xf32>, tensor<96xi32>) -> tensor<96xf32>
  %m = hl.mean %l : (tensor<96xf32>) -> tensor<f32>
  return %m : tensor<f32>
}
"""


def arguments() -> list[np.ndarray]:
    generator = np.random.default_rng(5)
    return [generator.standard_normal((96, 32)).astype(np.float32), generator.standard_normal((32, 24)).astype(np.float32),
            generator.standard_normal(24).astype(np.float32), generator.integers(0, 24, 96).astype(np.int32)]


def digest(results: tuple[np.ndarray, ...]) -> str:
    return hashlib.sha256(b"".join(result.tobytes() for result in results)).hexdigest()


@pytest.fixture(scope="module")
def function() -> object:
    return gradopt.compile(TEXT, "loss_value_and_grad")


def test_sixteen_threads_a_thousand_calls_each(function) -> None:
    expected = digest(function(*arguments()))
    wrong: list[str] = []

    def work() -> None:
        mine = arguments()
        for _ in range(1000):
            if digest(function(*mine)) != expected:
                wrong.append("bits differ")
                return

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_call_in_a_forked_child(function) -> None:
    expected = digest(function(*arguments()))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, digest(function(*arguments())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    found = os.read(reading, 64).decode()
    os.close(reading)
    assert os.waitpid(child, 0)[1] == 0
    assert found == expected


def test_call_in_a_spawned_process(function) -> None:
    expected = digest(function(*arguments()))
    script = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); from test_concurrency import *; " \
             "print(digest(gradopt.compile(TEXT, 'loss_value_and_grad')(*arguments())))"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == expected


def test_one_two_and_three_workers(function) -> None:
    before = pool.num_threads()
    found = set()
    try:
        for workers in (1, 2, 3):
            pool.set_num_threads(workers)
            found.add(digest(function(*arguments())))
    finally:
        pool.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("op, attributes", [("relu", ""), ("softmax", ""), ("max", "")])
def test_nan_comes_out(op: str, attributes: str) -> None:
    result = "tensor<f32>" if op == "max" else "tensor<64xf32>"
    text = (f"func.func @f(%x: tensor<64xf32>) -> {result} {{\n  %y = hl.{op} %x {attributes} : (tensor<64xf32>) -> {result}\n"
            f"  return %y : {result}\n}}")
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    x[17] = np.nan
    out = np.asarray(gradopt.compile(text, "f")(x))
    assert np.isnan(out if op == "max" else out[17])
