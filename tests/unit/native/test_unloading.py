"""Machine code lives as long as somebody may run it, and no longer."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gradopt.lowering.native import loading, locks, product, routines

import gradopt


def compiled(number: float, shared: bool = False) -> Any:
    """A function with a kernel of its own for each number; `shared`: and one that all have."""
    rows = f"""  %s = hl.cumsum %x {{axis = 0}} : tensor<7x5xf64>
  %c = hl.constant dense<{number}> : tensor<f64>
  %y = hl.multiply %s, %c : (tensor<7x5xf64>, tensor<f64>) -> tensor<7x5xf64>
  return %y : tensor<7x5xf64>""" if shared else f"""  %c = hl.constant dense<{number}> : tensor<f64>
  %y = hl.multiply %x, %c : (tensor<7x5xf64>, tensor<f64>) -> tensor<7x5xf64>
  return %y : tensor<7x5xf64>"""
    return gradopt.compile(f"func.func @f(%x: tensor<7x5xf64>) -> tensor<7x5xf64> {{\n{rows}\n}}", "f")


@pytest.fixture
def before() -> Iterator[int]:
    """How many modules live when the test starts; as many must live when it has ended."""
    compiled(0.125)  # the driver stays
    gc.collect()
    count = loading.live_modules()
    yield count
    gc.collect()
    assert loading.live_modules() == count


X = np.arange(35.0).reshape(7, 5)


def test_a_collected_function_is_unloaded(before: int) -> None:
    """One after the other, as a program that makes many functions does."""
    for number in range(5):
        function = compiled(number + 0.0625)
        np.testing.assert_array_equal(function(X), X * (number + 0.0625))
        assert loading.live_modules() == before + 1
        del function
        gc.collect()
        assert loading.live_modules() == before


def test_shared_kernels_live_as_long_as_the_last_function(before: int) -> None:
    """The second function uses a kernel that came with the first, and outlives it."""
    first, second = compiled(1.0625, shared=True), compiled(2.0625, shared=True)
    shared = set(map(id, first.executable._kernels)) & set(map(id, second.executable._kernels))
    assert shared and loading.live_modules() == before + 2
    del first
    gc.collect()
    assert loading.live_modules() == before + 2
    np.testing.assert_array_equal(second(X), np.cumsum(X, axis=0) * 2.0625)
    third = compiled(1.0625, shared=True)  # the shared kernel again, and its own one anew
    assert set(map(id, third.executable._kernels)) & shared and loading.live_modules() == before + 3
    del second
    gc.collect()
    np.testing.assert_array_equal(third(X), np.cumsum(X, axis=0) * 1.0625)


def test_results_outlive_their_code(before: int) -> None:
    """Their memory goes back to the driver, which stays."""
    result = compiled(3.0625)(X)
    gc.collect()
    assert loading.live_modules() == before
    view = result[2:, ::2]
    del result
    np.testing.assert_array_equal(view, (X * 3.0625)[2:, ::2])


def held_up(executable: Any, inside: threading.Event, go_on: threading.Event) -> None:
    """Makes calls of an executable say that they are inside, and wait."""
    native = executable._native

    def slow(*arguments: Any) -> Any:
        inside.set()
        assert go_on.wait(60)
        return native(*arguments)

    executable._native = slow


def test_a_thread_inside_a_call_keeps_the_code(before: int) -> None:
    """The thread holds the last reference while it runs."""
    function = compiled(4.0625)
    inside, go_on, results = threading.Event(), threading.Event(), []
    held_up(function.executable, inside, go_on)
    owner = weakref.ref(function)
    thread = threading.Thread(target=lambda call: results.append(call.pop()(X)), args=([function],))
    del function
    thread.start()
    assert inside.wait(60)
    gc.collect()
    assert owner() is not None and loading.live_modules() == before + 1
    go_on.set()
    thread.join()
    np.testing.assert_array_equal(results[0], X * 4.0625)
    gc.collect()
    assert owner() is None and loading.live_modules() == before


def test_unloading_waits_for_no_lock(before: int) -> None:
    """A collection while another thread compiles leaves the code to the next one who loads or unloads."""
    function = compiled(5.0625)
    held, release = threading.Event(), threading.Event()

    def compiling() -> None:
        with locks.LLVM:
            held.set()
            assert release.wait(60)

    thread = threading.Thread(target=compiling)
    thread.start()
    assert held.wait(60)
    del function
    gc.collect()
    assert loading.live_modules() == before + 1
    release.set()
    thread.join()
    compiled(6.0625)
    gc.collect()
    assert loading.live_modules() == before


def test_routines_that_kernels_share_stay() -> None:
    """A product's routine is called through a table that other functions read too."""
    text = """func.func @f(%x: tensor<128x128xf32>, %y: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %z = hl.matmul %x, %y : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %z : tensor<128x128xf32>
}"""
    ones, expected = np.ones((128, 128), np.float32), np.full((128, 128), 128, np.float32)
    first = gradopt.compile(text, "f")
    called = product.calls(first.program.kernels)
    addresses = [routines.address_of(name) for name in called]
    assert called and all(addresses)
    np.testing.assert_array_equal(first(ones, ones), expected)
    count = loading.live_modules()
    del first
    gc.collect()
    assert loading.live_modules() == count - 1
    again = gradopt.compile(text, "f")
    assert [routines.address_of(name) for name in called] == addresses and loading.live_modules() == count
    np.testing.assert_array_equal(again(ones, ones), expected)
