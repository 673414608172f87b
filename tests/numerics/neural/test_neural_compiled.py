"""Compiled programs against the NumPy meaning: every bwd op alone, and every hl op with its gradients and a dynamic batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradopt.lowering.compile import compile_function
from neural_samples import SAMPLES, Sample
from neural_support import VJP, arrays_for, parsed, program, run

import gradopt


def compare(found: Any, expected: list[Any], text: str) -> None:
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    assert len(results) == len(expected)
    for index, (one, two) in enumerate(zip(results, expected)):
        one = np.asarray(one)
        assert one.shape == two.shape and one.dtype == two.dtype, f"{text}: result {index} is {one.dtype}{one.shape}"
        np.testing.assert_allclose(one, two, 1e-9, 1e-10, err_msg=f"{text}: result {index}")


def label(sample: Sample) -> str:
    return sample.text.split(" : ")[0][:90]


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.name.startswith("bwd.")], ids=label)
def test_backward_op(sample: Sample) -> None:
    module = parsed(sample)
    arrays = arrays_for(sample, module)
    compare(gradopt.compile(program(sample), "f")(*arrays), run(module, arrays), sample.text)


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.name.startswith("hl.")], ids=label)
def test_op_and_its_gradients(sample: Sample) -> None:
    module = parsed(sample)
    arrays = arrays_for(sample, module)
    results = run(module, arrays)
    random = np.random.default_rng(1)
    operands = [*arrays, *(random.standard_normal(result.shape) for result in results)]
    expected = run(parsed(sample, passes=VJP), operands, "f_vjp")
    compare(gradopt.compile(program(sample, dynamic=True), "f_vjp")(*operands), expected, sample.text)


def first_of_each(samples: list[Sample]) -> list[Sample]:
    """One sample an op, the last for those that stand at odd places."""
    names = list(dict.fromkeys(sample.name for sample in samples))
    own = {name: [sample for sample in samples if sample.name == name] for name in names}
    return [own[name][-(place % 2)] for place, name in enumerate(names)]


BACKWARD = sorted({sample.name for sample in SAMPLES if sample.name.startswith("bwd.")})


@pytest.mark.parametrize("place, sample", list(enumerate(first_of_each(SAMPLES))), ids=lambda value: getattr(value, "name", ""))
def test_preserved_operations_have_kernels_of_their_own(place: int, sample: Sample) -> None:
    """Against the derivative of the decomposed op: values by the op itself and gradients by its bwd ops, none of them decomposed."""
    module, dynamic = parsed(sample), place % 3 == 0
    arrays = arrays_for(sample, module)
    results = run(module, arrays)
    whole = compile_function(parsed(sample, dynamic), "f", preserve=[sample.name])
    compare(whole(*arrays), results, f"{sample.text}, preserved")
    if sample.name.startswith("hl."):
        random = np.random.default_rng(3)
        operands = [*arrays, *(random.standard_normal(result.shape) for result in results)]
        expected = run(parsed(sample, passes=f"decompose,{VJP}"), operands, "f_vjp")
        compare(compile_function(parsed(sample, dynamic), "f_vjp", preserve=BACKWARD)(*operands), expected, f"{sample.text}, adjoint preserved")


@pytest.mark.parametrize("text", [
    "hl.softmax_cross_entropy %0, %1 : (tensor<{N}x4xf32>, tensor<{N}xi32>) -> (tensor<{N}xf32>)",
    'hl.nll_loss %0, %1 {reduction = "sum"} : (tensor<{N}x4xf32>, tensor<{N}xi32>) -> (tensor<f32>)'])
def test_a_label_out_of_range_is_an_error_that_names_it(text: str) -> None:
    function = gradopt.compile(program(text, dynamic=True), "f")
    with pytest.raises(Exception, match=r"<string>:2:3: error: .*class label out of range \[0, 4\).* 9") as caught:
        function(np.zeros((3, 4), np.float32), np.array([0, 9, 1], np.int32))
    assert isinstance(caught.value, gradopt.GradoptError) or "Gradopt" in type(caught.value).__name__


@pytest.mark.parametrize("element", ["f16", "f32"])
def test_narrow_floats(element: str) -> None:
    """16-bit floats compute as f32 and round once, compiled as well."""
    dtype = np.dtype({"f16": np.float16, "f32": np.float32}[element])
    random = np.random.default_rng(2)
    x = random.standard_normal((2, 4, 5, 5)).astype(dtype)
    for text in (f"hl.layer_norm %0 : (tensor<2x4x5x5x{element}>) -> (tensor<2x4x5x5x{element}>)",
                 f"hl.group_norm %0 {{num_groups = 2}} : (tensor<2x4x5x5x{element}>) -> (tensor<2x4x5x5x{element}>)",
                 f"hl.max_pool2d %0 {{pool_size = [2, 2]}} : (tensor<2x4x5x5x{element}>) -> (tensor<2x4x4x4x{element}>)",
                 f"hl.avg_pool2d %0 {{pool_size = [2, 2]}} : (tensor<2x4x5x5x{element}>) -> (tensor<2x4x4x4x{element}>)"):
        [expected] = run(parsed(text), [x])
        found = gradopt.compile(program(text), "f")(x)
        assert found.dtype == dtype
        tolerance = 2e-3 if element == "f16" else 2e-6
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), tolerance, 1e-6)
