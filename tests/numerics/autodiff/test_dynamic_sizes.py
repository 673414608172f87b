"""Derivatives of every `prim` op where sizes are known only at run time: values to second order for anonymous sizes, types for
named ones (whose programs run compiled or bound)."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from gradopt.ir.sizes import UNKNOWN, named_size
from gradopt.ir.types import tensor

_SPEC = importlib.util.spec_from_file_location("prim_cases", Path(__file__).parent / "test_prim_closed.py")
cases = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(cases)


def flat_cases():
    for name, entries in cases.CASES.items():
        for number, (arrays, attributes) in enumerate(entries):
            if name == "expand" and number == 1:
                continue  # stretches an axis whose size 1 has to be known
            yield pytest.param(name, arrays, attributes, id=f"{name}-{number}")


def argument_type(kit, name, index, array, size):
    """The type of an argument, its sizes replaced where the op does not need them."""
    array = np.asarray(array)
    static = kit.type_of(array)
    keep = set()
    if name == "conv":
        # strides over a dynamic axis leave a remainder, so their second derivative needs static sizes: only the batch varies
        keep = set(range(1, array.ndim)) if index == 0 else set(range(array.ndim))
    if name.endswith("_nd") and index == 1:
        keep = {array.ndim - 1}  # the length of the index vectors
    return tensor([own if axis in keep else size(index, axis) for axis, own in enumerate(array.shape)], static.element)


def program(kit, name, arrays, attributes, size):
    attributes = dict(attributes)
    result_types = attributes.pop("result_types", None)

    def build(b, *arguments):
        return b.create(f"prim.{name}", arguments, result_types, **attributes).results
    types = [argument_type(kit, name, index, array, size) for index, array in enumerate(arrays)]
    return kit.Program.build(types, build)


@pytest.mark.parametrize("name, arrays, attributes", list(flat_cases()))
def test_anonymous_sizes(kit, name, arrays, attributes):
    rng = np.random.default_rng(1)
    made = program(kit, name, arrays, attributes, lambda index, axis: UNKNOWN)
    for derived, inputs in (kit.check_vjp(made, arrays, rng), kit.check_jvp(made, arrays, rng)):
        kit.check_vjp(derived, inputs, rng)
        kit.check_jvp(derived, inputs, rng)


@pytest.mark.parametrize("name, arrays, attributes", list(flat_cases()))
def test_anonymous_batch(kit, name, arrays, attributes):
    rng = np.random.default_rng(1)
    made = program(kit, name, arrays, attributes, lambda index, axis: UNKNOWN)
    kit.check_batch(made, arrays, [True] * len(arrays), rng)
    derived = kit.vjp(made)
    results = made.run(*arrays)
    inputs = [*arrays, *(rng.standard_normal(value.shape) for value in results if value.dtype.kind == "f")]
    kit.check_batch(derived, inputs, [True] * len(inputs), rng)


# sizes that operands share carry one name; where they are computed from each other the test would need run-time checks
SHARED = {name for name in cases.CASES if name in (
    "neg", "sin", "add", "mul", "div", "max", "pow", "select", "reduce", "cumulative", "sort", "permute", "flip", "slice", "pad",
    "gather", "dynamic_slice", "unfold", "mul_zero", "atan2", "rem")}


@pytest.mark.parametrize("name, arrays, attributes", [
    pytest.param(*case.values, id=case.id) for case in flat_cases() if case.values[0] in SHARED])
def test_named_sizes_keep_their_names(kit, name, arrays, attributes):
    """Every gradient has exactly the type of its argument, names included, up to second order."""
    made = program(kit, name, arrays, attributes,
                   lambda index, axis: named_size(f"{'i' if name == 'gather' and index else 'n'}{axis}"))
    count = len(made.block.arguments)
    for derive in (kit.vjp, kit.jvp):
        derived = derive(made)
        tail = derived.outputs[len(made.outputs):]
        if derive is kit.vjp:
            wanted = [argument.type for argument in made.block.arguments if argument.type.element.is_float]
        else:
            wanted = [value.type for value in made.outputs if value.type.element.is_float]
        assert [value.type for value in tail] == wanted
        assert len(derived.block.arguments) > count
        for again in (kit.vjp(derived), kit.jvp(derived)):
            assert again.outputs
