"""Fixtures of the native back end's tests: a cache of their own, and kernels run as one-instruction programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from gradopt.lowering.native import pool
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import Argument, KernelSource, Program, Result, Run


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Kernels of these tests are cached in a folder that dies with them."""
    kept = os.environ.get("GRADOPT_CACHE_DIR")
    folder = str(tmp_path_factory.mktemp("cache"))
    os.chmod(folder, 0o700)
    os.environ["GRADOPT_CACHE_DIR"] = folder
    yield folder
    if kept is None:
        del os.environ["GRADOPT_CACHE_DIR"]
    else:
        os.environ["GRADOPT_CACHE_DIR"] = kept


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of threads for one test."""
    before = pool.num_threads()
    yield pool.set_num_threads
    pool.set_num_threads(before)


def indented(body: str) -> str:
    return "def kernel(lo, hi, context):\n" + "\n".join("    " + line for line in body.strip("\n").splitlines()) + "\n"


@pytest.fixture
def map_program() -> Callable[..., Program]:
    """A program with one elementwise kernel: `body` sets `v` from a, b, c (the loaded arguments at index i)."""

    def make(body: str, arguments: Sequence[str], result: str, count: int, grain: int | None = None) -> Program:
        names = "abcdef"[: len(arguments)]
        pointers = [
            f"p{name} = pointer_{element}(context, {slot})"
            for slot, (name, element) in enumerate(zip(names, arguments, strict=True))
        ]
        loads = [f"    {name} = load(p{name}, i)" for name in names]
        lines = [*pointers, f"out = pointer_{result}(context, {len(arguments)})", "for i in range(lo, hi):", *loads]
        lines += ["    " + line for line in body.strip().splitlines()] + ["    store(out, i, v)", "return 0"]
        buffers = [Argument(element, (count,), name) for name, element in zip(names, arguments, strict=True)]
        run = Run(0, count, grain or max(count, 1), tuple(range(len(arguments) + 1)))
        kernel = KernelSource("map", indented("\n".join(lines)))
        return Program("map", [kernel], [], [*buffers, Result(result, (count,))], [run])

    return make


@pytest.fixture(params=["direct", "numba"])
def evaluate(request: pytest.FixtureRequest, map_program: Callable[..., Program]) -> Callable[..., Any]:
    """Evaluates an elementwise body on arrays, once with each front end."""

    def run(body: str, result: str, *arrays: Any, elements: Sequence[str] | None = None) -> Any:
        elements = elements or [element_of(array) for array in arrays]
        program = map_program(body, elements, result, len(arrays[0]))
        return Executable(program, front_end=request.param)(*arrays)

    return run


def element_of(array: Any) -> str:
    name = str(array.dtype)
    short = {"bool": "i1", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16"}
    return short.get(name) or name.replace("int", "i")
