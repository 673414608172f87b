"""Every neural-network op of `hl` and `bwd`, generated from the declarations and `neural_samples`: text, NumPy meaning,
decomposition, and derivatives of both orders by independent routes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from gradopt.dialects.bwd import neural as bwd
from gradopt.dialects.hl import neural as hl
from gradopt.ir.dialect import declared_operations
from gradopt.ir.printer import print_operation
from neural_samples import SAMPLES, Sample
from neural_support import VJP, argument_types, arrays_for, floats, leftovers, parsed, read_reference, result_types, run

import gradopt

OPERATIONS = [cls.name for module in (*hl.MODULES, *bwd.MODULES) for cls in declared_operations(vars(module))]
FORWARD = [sample for sample in SAMPLES if sample.name.startswith("hl.")]
REFERENCE = read_reference()


def label(sample: Sample) -> str:
    return sample.text.split(" : ")[0][:90]


every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=label)
every_forward = pytest.mark.parametrize("sample", FORWARD, ids=label)


@functools.cache
def meaning(sample: Sample) -> tuple[list[Any], list[Any]]:
    """(operands, results by the NumPy meaning) of the static variant."""
    module = parsed(sample)
    arrays = arrays_for(sample, module)
    return arrays, run(module, arrays)


def close(found: Any, expected: Any, what: str, tolerance: float = 1e-9) -> None:
    """Asserts equal shapes, and values to a tolerance relative to the largest."""
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    assert found.dtype == expected.dtype, f"{what}: {found.dtype}, expected {expected.dtype}"
    size = float(np.abs(expected).max(initial=0.0)) or 1.0
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * max(size, 1.0), err_msg=what)


@pytest.mark.parametrize("name", OPERATIONS)
def test_op_has_a_sample(name: str) -> None:
    assert any(sample.name == name for sample in SAMPLES), f"{name} has no sample in neural_samples.py"


def test_samples_name_declared_ops() -> None:
    assert {sample.name for sample in SAMPLES} <= set(OPERATIONS)


@every_sample
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_text_round_trip(sample: Sample, dynamic: bool) -> None:
    module = parsed(sample, dynamic)
    for generic in (False, True):
        text = print_operation(module, generic=generic)
        again = gradopt.parse(text)
        assert print_operation(again, generic=generic) == text


@every_sample
def test_result_types_are_inferred(sample: Sample) -> None:
    module = parsed(sample)
    operation = next(op for op in module.walk() if op.name == sample.name)
    if operation.definition.can_infer:
        assert [type.text for type in operation.infer()] == [result.type.text for result in operation.results]
    else:
        assert "sizes" in {field.name for field in operation.definition.operands}  # only these need the result type


@every_sample
def test_dynamic_batch_has_the_same_meaning(sample: Sample) -> None:
    arrays, expected = meaning(sample)
    for one, two in zip(run(parsed(sample, dynamic=True), arrays), expected):
        close(one, two, sample.text, 0.0)


@every_sample
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_decomposition_has_the_same_meaning(sample: Sample, dynamic: bool) -> None:
    arrays, expected = meaning(sample)
    module = parsed(sample, dynamic, "decompose")
    assert not leftovers(module)
    found = run(module, arrays)
    assert len(found) == len(expected)
    for one, two in zip(found, expected):
        close(one, two, sample.text)


@pytest.mark.parametrize("name", REFERENCE)
def test_pytorch_values(name: str) -> None:
    case = REFERENCE[name]
    arrays = [case[f"in{index}"] for index in range(sum(key.startswith("in") for key in case))]
    for index, found in enumerate(run(parsed(case["text"]), arrays)):
        close(found, case[f"out{index}"], f"{name}: result {index}")


@pytest.mark.parametrize("name", REFERENCE)
def test_pytorch_gradients(name: str) -> None:
    case = REFERENCE[name]
    module = parsed(case["text"], passes=VJP)
    types = argument_types(module)
    arrays = [case[f"in{index}"] for index in range(len(types))]
    upstream = [case[f"dout{index}"] for index in range(len(result_types(module)))]
    found = run(module, [*arrays, *upstream], "f_vjp")[len(upstream):]
    for index, gradient in zip(floats(types), found):
        close(gradient, case[f"grad{index}"], f"{name}: gradient {index}", 1e-8)


def random_like(arrays: list[Any], seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(array.shape) for array in arrays]


@every_forward
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_backward_ops_are_the_derivative_of_the_decomposed_op(sample: Sample, dynamic: bool) -> None:
    arrays, results = meaning(sample)
    operands = [*arrays, *random_like(results, 1)]
    expected = run(parsed(sample, dynamic, f"decompose,{VJP}"), operands, "f_vjp")
    for passes in (VJP, f"{VJP},decompose"):
        module = parsed(sample, dynamic, passes)
        assert "decompose" not in passes or not leftovers(module)
        for one, two in zip(run(module, operands, "f_vjp"), expected):
            close(one, two, f"{passes}: {sample.text}", 1e-8)


def directional(sample: Sample, arrays: list[Any], which: int, direction: Any, upstream: list[Any]) -> float:
    """The derivative of sum(upstream * f) along a direction of one operand, by central differences."""
    module, step, totals = parsed(sample), 1e-6, []
    for sign in (1, -1):
        moved = [array + sign * step * direction if index == which else array for index, array in enumerate(arrays)]
        totals.append(sum(float((a * b).sum()) for a, b in zip(run(module, moved), upstream)))
    return (totals[0] - totals[1]) / (2 * step)


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.smooth], ids=label)
def test_gradients_are_central_differences(sample: Sample) -> None:
    """For a bwd op this is the second derivative of its hl op."""
    arrays, results = meaning(sample)
    upstream = random_like(results, 2)
    module = parsed(sample, passes=VJP)
    which = floats(argument_types(module))
    gradients = run(module, [*arrays, *upstream], "f_vjp")[len(results):]
    for index, gradient, direction in zip(which, gradients, random_like([arrays[index] for index in which], 3)):
        expected = directional(sample, arrays, index, direction, upstream)
        found = float((gradient * direction).sum())
        assert found == pytest.approx(expected, rel=2e-6, abs=2e-7), f"{sample.text}: operand {index}"


@every_sample
def test_forward_mode_agrees_with_reverse_mode(sample: Sample) -> None:
    arrays, results = meaning(sample)
    module = parsed(sample, passes=VJP)
    which, upstream = floats(argument_types(module)), random_like(results, 4)
    tangents = random_like([arrays[index] for index in which], 5)
    gradients = run(module, [*arrays, *upstream], "f_vjp")[len(results):]
    pushed = run(parsed(sample, passes="autodiff{func=f mode=jvp}"), [*arrays, *tangents], "f_jvp")[len(results):]
    forward = sum(float((a * b).sum()) for a, b in zip(upstream, pushed))
    reverse = sum(float((a * b).sum()) for a, b in zip(gradients, tangents))
    assert forward == pytest.approx(reverse, rel=1e-8, abs=1e-9), sample.text
