"""Derivatives that public tools got wrong (`gradients.jsonl`): each right value, interpreted and compiled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_programs import CASES as TENSOR_CASES
from case_programs import ELEMENTS, Case
from gradopt.ir.attributes import StringAttr, TypeAttr
from gradopt.ir.builder import Builder, make_operation
from gradopt.ir.dialect import operation_class
from gradopt.ir.operation import Operation, new_region
from gradopt.ir.types import FunctionType, tensor
from gradopt.lowering.compile import compile_function
from gradopt.lowering.interpreter import run_function
from neural_case_programs import NEURAL_CASES
from seed_programs import MISTAKES

import gradopt

HERE = Path(__file__).parent
RECORDS = {record["id"]: record for record in map(json.loads, (HERE / "gradients.jsonl").read_text().splitlines())}
CASES = TENSOR_CASES | NEURAL_CASES
ELSEWHERE = {  # rows that no program here has for exactly their value: the test, and why
    "AD164": ("../neural/test_neural_edges.py", "a matrix instead of a grid, and the row allows two values at the border itself"),
}
Array = Any
Call = Callable[..., Sequence[Array]]


def add_function(module: Operation, name: str, types: Sequence[Any], build: Callable[..., Any],
                 visibility: str | None = None) -> None:
    """Adds a function to a module."""
    body = new_region(types)
    found = build(Builder(body.block), *body.block.arguments)
    results = list(found) if isinstance(found, (list, tuple)) else [found]
    Builder(body.block).create("func.return", results)
    signature = FunctionType(tuple(types), tuple(value.type for value in results))
    Builder(module.regions[0].block).create("func.func", regions=[body], sym_name=name, function_type=TypeAttr(signature),
                                            sym_visibility=None if visibility is None else StringAttr(visibility))


def module_of(case: Case) -> Operation:
    """The verified module of a case: its function is @f."""
    module = make_operation(operation_class("builtin.module"), [], {}, regions=[new_region()])
    types = [tensor(array.shape, ELEMENTS[str(array.dtype)]) for array in case.arrays]
    for name, build, count in case.callees:
        add_function(module, name, [types[0]] * count, build, "private")
    add_function(module, "f", types, case.build)
    gradopt.verify(module)
    return module


def unit_vectors(like: Array) -> list[Array]:
    """One array for each element, 1 there and 0 elsewhere."""
    return list(np.eye(like.size).reshape(like.size, *like.shape))


def results_of(case: Case, call: Callable[[str], Call]) -> list[Array]:
    """What a case computes; `call(mode)` is the function in a mode of autodiff."""
    (first, *_), arrays = case.arrays, list(case.arrays)
    if case.mode == "hessian":
        columns = [call("hvp")(first, direction)[-1] for direction in unit_vectors(first)]
        return [np.stack(columns).reshape(first.shape * 2)]
    if case.mode == "jacobian":
        rows = [call("vjp")(first, cotangent)[-1] for cotangent in unit_vectors(first)]
        return [np.stack(rows)]
    return list(call(case.mode)(*arrays, *case.cotangents))


def interpreted(module: Operation, mode: str) -> Call:
    """The derivative, decomposed, by the NumPy meaning of its operations."""
    derived = module.clone()
    passes = ["autodiff"] * uses_requests(module) + [f"autodiff{{func=f mode={mode}}}"] * (mode != "value")
    gradopt.run_passes(derived, ",".join([*passes, "decompose,canonicalize,cse,dce"]))
    return lambda *arrays: run_function(derived, entry(mode), arrays)


def entry(mode: str) -> str:
    """The name of the function that a mode of autodiff makes."""
    return "f" if mode == "value" else f"f_{mode}"


def uses_requests(module: Operation) -> bool:
    """True where the module asks for derivatives itself."""
    return any(op.name.startswith("ad.") for op in module.walk())


def compiled(module: Operation, mode: str) -> Call:
    """The derivative as native code."""
    function = compile_function(module, entry(mode))

    def call(*arrays: Array) -> Sequence[Array]:
        found = function(*arrays)
        return found if isinstance(found, tuple) else (found,)
    return call


ROUTES = pytest.mark.parametrize("route", [interpreted, compiled], ids=["interpreted", "compiled"])


def check(found: Any, right: Any) -> None:
    """Compares what a case gives with its right value, which is a number, a nested list, or a dictionary of them."""
    if isinstance(right, Mapping):
        assert set(found) == set(right)
        for name in right:
            check(found[name], right[name])
    elif isinstance(found, (list, tuple)):
        assert len(found) == len(right)
        for one, value in zip(found, right):
            check(one, value)
    else:
        expected = np.array(right, dtype=np.float64)
        np.testing.assert_allclose(found, expected.reshape(np.shape(found)), rtol=2e-9 if found.dtype == np.float64 else 1e-6,
                                   atol=1e-9 * np.abs(expected[np.isfinite(expected)]).max(initial=0))


@pytest.mark.parametrize("number", CASES)
@ROUTES
def test_right_value(number: str, route: Callable[[Operation, str], Call]) -> None:
    case = CASES[number]
    module = module_of(case)
    if case.mode == "error":
        assert RECORDS[number]["right_value"] == "error"
        for mode in ("value", "grad"):
            with pytest.raises(gradopt.GradoptError, match="out of range"):
                route(module, mode)(*case.arrays)
        return
    found = results_of(case, lambda mode: route(module, mode))
    check(case.pick(*found), RECORDS[number]["right_value"])


def test_every_case_is_a_test() -> None:
    """Here, or where `ELSEWHERE` says."""
    assert set(RECORDS) == {*CASES, *ELSEWHERE}
    for number, (path, _) in ELSEWHERE.items():
        assert number in (HERE / path).read_text()


@pytest.mark.parametrize("mistake", MISTAKES, ids=": ".join)
@ROUTES
def test_mistakes_of_the_seeds(mistake: tuple[str, str], route: Callable[[Operation, str], Call]) -> None:
    """What another system gets wrong is right here."""
    entry = MISTAKES[mistake]
    if isinstance(entry, str):
        assert entry in CASES
        return
    case, right = entry
    module = module_of(case)
    check(case.pick(*results_of(case, lambda mode: route(module, mode))), right)
