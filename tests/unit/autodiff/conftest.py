"""Modules from text, the autodiff pass on them, and runs by the interpreter. Puts this folder on the path, so that its tests share
`program_shapes` and `enzyme_cases`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gradopt.ir.verifier import verify
from gradopt.lowering.autodiff.pass_ import AutodiffPass
from gradopt.lowering.interpreter import run_function
from gradopt.lowering.passes.base import PassContext
from gradopt.parser import parse_module

sys.path.insert(0, str(Path(__file__).parent))


def parse(text):
    module = parse_module(text, "test.ir")
    assert not verify(module), verify(module)
    return module


def autodiff(text, **options):
    """The module after the pass; verified before and after, and printed and read back."""
    from gradopt.ir.printer import print_operation

    module = parse(text)
    AutodiffPass(**options).run(module, PassContext())
    assert not verify(module), verify(module)
    printed = print_operation(module)
    assert print_operation(parse(printed)) == printed
    return module


def function_names(module):
    return [op.properties["sym_name"].value for op in module.regions[0].block.operations]


def ops_of(module, name):
    """The names of all operations of a function, inner ones too."""
    function = next(op for op in module.regions[0].block.operations if op.properties["sym_name"].value == name)
    return [op.name for op in function.walk()][1:]


def gradient_by_differences(module, name, arrays, argument, cotangents=None, step=1e-5):
    """d <cotangents, f> / d argument, one element after the other, in float64."""
    base = np.array(arrays[argument], np.float64)
    gradient = np.zeros_like(base)

    def value(moved):
        results = run_function(module, name, [*arrays[:argument], moved, *arrays[argument + 1:]])
        floats = [result for result in results if result.dtype.kind == "f"]
        weights = cotangents or [np.ones(result.shape) for result in floats]
        return sum(float((w * result).sum()) for w, result in zip(weights, floats))

    for index in np.ndindex(base.shape):
        plus, minus = base.copy(), base.copy()
        plus[index] += step
        minus[index] -= step
        gradient[index] = (value(plus) - value(minus)) / (2 * step)
    return gradient


@pytest.fixture
def kit():
    return SimpleNamespace(parse=parse, autodiff=autodiff, run=run_function, names=function_names, ops=ops_of,
                           differences=gradient_by_differences)
