"""Compiled programs against the NumPy meaning: every bwd op alone, and every hl op with its gradients and a dynamic batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gradopt.dialects.arrays import numpy_dtype
from gradopt.ir.types import BF16, F16, F32
from gradopt.lowering.compile import compile_function
from neural_samples import SAMPLES, Sample
from neural_support import VJP, argument_types, arrays_for, parsed, program, run

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


FIRST = first_of_each(SAMPLES)
IN_F32 = [sample for sample in FIRST if sample.name.startswith("hl.")]
IN_16_BITS = {"f16": FIRST[::2], "bf16": FIRST[1::2]}
TOLERANCE = {"f32": 1e-4, "f16": 2e-2, "bf16": 1e-1}
ELEMENTS = {"f32": F32, "f16": F16, "bf16": BF16}
TWICE = [sample for sample in SAMPLES if sample.smooth and sample in IN_F32] + [
    next(sample for sample in SAMPLES if sample.name == each.name and sample.smooth)
    for each in IN_F32 if not each.smooth and any(sample.name == each.name and sample.smooth for sample in SAMPLES)]


def widened(array: Any) -> Any:
    """Floats of any type as f64."""
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


def narrowed(sample: Sample, element: str) -> tuple[Sample, list[Any]]:
    """The sample in another float type, and its arrays rounded to that."""
    other = replace(sample, text=sample.text.replace("f64", element))
    arrays = arrays_for(sample, parsed(sample))
    types = argument_types(parsed(other))
    return other, [array.astype(numpy_dtype(type.element)) for array, type in zip(arrays, types, strict=True)]


def near(found: Any, exact: list[Any], element: str, text: str) -> None:
    """Within a tolerance of the largest element of each result; `found` has the narrow type."""
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    for one, two in zip(results, exact, strict=True):
        assert one.dtype == (numpy_dtype(ELEMENTS[element]) if two.dtype.kind == "f" else two.dtype), text
        size = max(1.0, float(np.abs(two).max(initial=0)))
        np.testing.assert_allclose(widened(one), two, TOLERANCE[element], TOLERANCE[element] * size, err_msg=f"{text} in {element}")


@pytest.mark.parametrize("place, sample", list(enumerate(IN_F32)), ids=lambda value: getattr(value, "name", ""))
def test_single_floats(place: int, sample: Sample) -> None:
    """Values and gradients, with the batch size known or not, against the NumPy meaning in f64."""
    other, arrays = narrowed(sample, "f32")
    wide = [widened(array) for array in arrays]
    random = np.random.default_rng(1)
    upstream = [random.standard_normal(result.shape).astype(np.float32) for result in run(parsed(sample), wide)]
    exact = run(parsed(sample, passes=VJP), [*wide, *map(widened, upstream)], "f_vjp")
    near(compile_function(parsed(other, place % 2 == 0), "f_vjp")(*arrays, *upstream), exact, "f32", sample.text)


@pytest.mark.parametrize("element, sample", [(element, sample) for element, samples in IN_16_BITS.items() for sample in samples],
                         ids=lambda value: getattr(value, "name", value))
def test_sixteen_bit_floats(element: str, sample: Sample) -> None:
    other, arrays = narrowed(sample, element)
    exact = run(parsed(sample), [widened(array) for array in arrays])
    near(compile_function(parsed(other), "f")(*arrays), exact, element, sample.text)


@pytest.mark.parametrize("place, sample", list(enumerate(TWICE)), ids=lambda value: getattr(value, "name", ""))
def test_second_derivatives(place: int, sample: Sample) -> None:
    """The derivative of the gradients by all that they read, with the batch size known or not."""
    module = parsed(sample, place % 2 == 1, VJP)
    arrays = arrays_for(sample, parsed(sample))
    random = np.random.default_rng(2)
    operands = [*arrays, *(random.standard_normal(result.shape) for result in run(parsed(sample), arrays))]
    seeds = [random.standard_normal(result.shape) for result in run(module, operands, "f_vjp")]
    gradopt.run_passes(module, "autodiff{func=f_vjp mode=vjp}")
    expected = run(module.clone(), [*operands, *seeds], "f_vjp_vjp")
    compare(compile_function(module, "f_vjp_vjp")(*operands, *seeds), expected, sample.text)


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
