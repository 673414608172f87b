"""Every tensor op of `hl`, generated from the declarations and the samples: types, text, NumPy meaning, decomposition, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradopt.dialects.bwd import tensor as bwd_tensor
from gradopt.dialects.hl import axis, creation, elementwise, indexing, linear, reduction, shape, slices
from gradopt.ir.declare import InvalidOperation
from gradopt.ir.dialect import declared_operations
from gradopt.ir.printer import print_operation
from samples import SAMPLES
from tensor_support import (
    DYNAMIC,
    NAMED,
    STATIC,
    TOLERANCE,
    Sample,
    arrays_of,
    close,
    leftovers,
    meaning,
    module_of,
    run,
    size_arrays,
)

import gradopt

MODULES = (elementwise, creation, reduction, axis, shape, slices, indexing, linear, bwd_tensor)
OPERATIONS = [cls.name for module in MODULES for cls in declared_operations(vars(module))]
every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.label)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def elements(sample: Sample) -> tuple[str, ...]:
    """The float types that a sample is run in."""
    return ("f64", "f32") if sample.has_float else ("f64",)


def all_close(found: list[Any], expected: list[Any], sample: Sample, what: str, element: str) -> None:
    assert len(found) == len(expected)
    for index, (one, two) in enumerate(zip(found, expected)):
        close(one, two, f"{sample.label}, {element}: result {index}, {what}", 0.0 if sample.exact else TOLERANCE[element])


@pytest.mark.parametrize("name", OPERATIONS)
def test_op_has_a_sample(name: str) -> None:
    assert any(sample.name == name for sample in SAMPLES), f"{name} has no sample"


@pytest.mark.parametrize("name", OPERATIONS)
def test_op_has_documentation(name: str) -> None:
    cls = next(cls for module in MODULES for cls in declared_operations(vars(module)) if cls.name == name)
    assert len(cls.definition.documentation) > 4
    assert cls.__doc__ is not None and cls.__doc__.strip()[-1] in ".)", f"{name}: {cls.__doc__}"


def test_samples_name_declared_ops() -> None:
    assert {sample.name for sample in SAMPLES} == set(OPERATIONS)


@every_sample
def test_text_round_trip(sample: Sample) -> None:
    for variant in (STATIC, DYNAMIC, NAMED) if sample.is_dynamic else (STATIC,):
        module = module_of(sample, variant)
        for generic in (False, True):
            text = print_operation(module, generic=generic)
            assert print_operation(gradopt.parse(text), generic=generic) == text


@every_sample
def test_numpy_meaning(sample: Sample) -> None:
    """Against an independent computation of the same."""
    if sample.reference is None:
        assert sample.name in ("hl.random_uniform", "hl.random_normal", "hl.cast") or any("0" in text for text in sample.operands)
        return
    for element in elements(sample):
        arrays, found = meaning(sample, element)
        with np.errstate(all="ignore"):
            expected = sample.reference(*arrays)
        listed = expected if isinstance(expected, (tuple, list)) else [expected]
        all_close(
            found,
            [np.asarray(value).astype(one.dtype) for value, one in zip(listed, found, strict=True)],
            sample,
            "meaning",
            element,
        )


@every_sample
def test_decomposition(sample: Sample) -> None:
    for element in elements(sample):
        arrays, expected = meaning(sample, element)
        module = module_of(sample, STATIC, element, "decompose")
        assert not leftovers(module)
        all_close(run(module, arrays), expected, sample, "decomposed", element)


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.is_dynamic], ids=lambda sample: sample.label)
def test_dynamic_sizes(sample: Sample) -> None:
    """Sizes that only run time knows, and sizes that have names until they are bound."""
    for element in elements(sample):
        arrays, expected = meaning(sample, element)
        given = [*arrays, *size_arrays(sample, DYNAMIC)]
        all_close(run(module_of(sample, DYNAMIC, element), given), expected, sample, "dynamic", element)
        decomposed = module_of(sample, DYNAMIC, element, "decompose")
        assert not leftovers(decomposed)
        all_close(run(decomposed, given), expected, sample, "dynamic, decomposed", element)
        for passes in ("bind{n=3}", "bind{n=3},decompose"):
            all_close(run(module_of(sample, NAMED, element, passes), arrays), expected, sample, passes, element)


HALVES = [
    sample
    for sample in SAMPLES
    if all(":" not in text or ":i" in text or ":u" in text for text in (*sample.operands, *(sample.results or ())))
    and sample.has_float
    and not sample.name.startswith(("hl.random", "hl.cast", "hl.argsort", "hl.topk", "hl.det"))
]


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("sample", HALVES[::2], ids=lambda sample: sample.label)
def test_sixteen_bits(sample: Sample, element: str) -> None:
    """Meaning and decomposition in f32, rounded once (or a few times), and near the result in f32."""
    arrays, found = meaning(sample, element)
    decomposed = run(module_of(sample, STATIC, element, "decompose"), arrays)
    all_close(decomposed, found, sample, "decomposed", element)


def test_names_of_sizes_are_inferred() -> None:
    """An op on named sizes infers names, so that equal sizes are known to be equal afterwards."""
    for sample in SAMPLES:
        if sample.results is None and sample.is_dynamic and sample.operands and sample.name not in ("hl.dim", "hl.shape_cast"):
            module = module_of(sample, NAMED)
            for op in module.walk():
                if op.name == sample.name:
                    assert not any(str(size) == "_" for value in op.results for size in value.type.dims), sample.label


def test_complex_arithmetic_is_one_clear_error() -> None:
    with pytest.raises((gradopt.GradoptError, InvalidOperation), match=r"complex<f32>"):
        gradopt.parse(
            "func.func @f(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {\n"
            "  %y = hl.add %x, %x : tensor<2xcomplex<f32>>\n  return %y : tensor<2xcomplex<f32>>\n}\n"
        )


def test_random_numbers_have_their_distribution() -> None:
    """Moments of 30,000 numbers of one key, and no number outside [0, 1)."""
    from gradopt.lowering.interpreter import run_function

    for element, tolerance in (("f64", 0.02), ("f32", 0.02), ("f16", 0.02), ("bf16", 0.02)):
        text = "\n".join(
            [
                "func.func @f(%k: tensor<2xui32>) -> (tensor<30000xT>, tensor<30000xT>) {",
                "  %u = hl.random_uniform %k : (tensor<2xui32>) -> tensor<30000xT>",
                "  %n = hl.random_normal %k : (tensor<2xui32>) -> tensor<30000xT>",
                "  return %u, %n : tensor<30000xT>, tensor<30000xT>",
                "}",
            ]
        ).replace("xT", "x" + element)
        uniform, normal = (array.astype(np.float64) for array in run_function(gradopt.parse(text), "f", [np.array([3, 4], np.uint32)]))
        assert uniform.min() >= 0 and uniform.max() < 1
        assert abs(uniform.mean() - 0.5) < tolerance and abs(uniform.var() - 1 / 12) < tolerance
        assert abs(normal.mean()) < tolerance and abs(normal.var() - 1) < tolerance
        assert abs((normal**4).mean() - 3) < 0.2 and np.isfinite(normal).all()


def test_arrays_of_a_sample_are_the_same_each_time() -> None:
    for one, two in zip(arrays_of(SAMPLES[0]), arrays_of(SAMPLES[0])):
        assert (one == two).all()
