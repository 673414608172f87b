"""Derivatives of whole programs, compiled and interpreted: control flow, calls, and second derivatives give the same values."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from gradopt.lowering.interpreter import run_function

import gradopt

HERE = Path(__file__).parent


def programs_of(path):
    spec = importlib.util.spec_from_file_location(f"programs_of_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PROGRAMS


# the number of trips, and with it the memory, follows from the data: the native program takes its memory before it starts
DATA_DEPENDENT = {"scf_for with run-time bounds", "scf_for_memref_inner_dynamic, flatten_caches"}
SHAPES = programs_of(HERE.parents[1] / "unit" / "autodiff" / "program_shapes.py")
BOUND = "num_carry = 1, max_trip_count = 6}"
CASES = [(name, text.replace("num_carry = 1}", BOUND) if name in DATA_DEPENDENT else text, "vjp") for name, text in SHAPES.items()]
CASES += [(name, text, "hvp") for name, text in programs_of(HERE / "test_programs.py").items()]


@pytest.mark.parametrize("name, text, mode", [pytest.param(*case, id=f"{case[2]} {case[0]}") for case in CASES])
def test_compiled_equals_interpreted(name, text, mode):
    module = gradopt.parse(text)
    gradopt.run_passes(module, f"autodiff{{func=f mode={mode}}}")
    function = next(op for op in module.regions[0].block.operations if op.properties["sym_name"].value == f"f_{mode}")
    rng = np.random.default_rng(len(name))
    arrays = []
    for argument in function.regions[0].block.arguments:
        element = argument.type.element.text
        if element == "f64":
            arrays.append(rng.uniform(0.3, 1.5, argument.type.shape))
        else:
            arrays.append(np.full(argument.type.shape, 4, np.int64) if element == "i64" else np.full(argument.type.shape, True))
    expected = run_function(module, f"f_{mode}", arrays)
    compiled = gradopt.compile(module, f"f_{mode}")
    for _ in range(2):  # a second call finds the memory as the first one left it
        found = compiled(*arrays)
        for value, other in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", sorted(DATA_DEPENDENT))
def test_a_loop_that_keeps_as_many_values_as_it_has_trips_asks_for_a_bound(name):
    """The error is at the loop, and a note says what helps; the same program with a bound is among the cases above."""
    with pytest.raises(gradopt.GradoptError) as caught:
        gradopt.compile(SHAPES[name], "f_grad")
    error = caught.value.diagnostics[0]
    assert "whose size follows from the elements of a tensor" in error.message and "hl.for" in str(caught.value)
    assert [note.message for note in error.notes] == [
        "this loop keeps a value for each of its trips; with a 'max_trip_count' that is a fixed size"]
    assert BOUND in SHAPES[name].replace("num_carry = 1}", BOUND)
