"""Compiled tensor ops against the interpreter: samples are put together into functions of many, which compile as one program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from samples import DIFFERENTIABLE, FAMILIES, few
from tensor_support import DYNAMIC, NAMED, STATIC, TOLERANCE, VJP, Sample, close, meaning, module_of, random_like, run, size_arrays

import gradopt

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def chunks(samples: list[Sample], size: int = 40) -> list[list[Sample]]:
    """Groups of at most `size`."""
    return [samples[start : start + size] for start in range(0, len(samples), size)]


def groups(element: str) -> list[Any]:
    """A few samples of each op (of a family) that have the float type; in f64 also those that have none."""
    found = []
    for family, samples in FAMILIES.items():
        chosen = few([sample for sample in samples if sample.has_float], 2 if element == "f64" else 1)
        if element == "f64":
            chosen += few([sample for sample in samples if not sample.has_float], 2)
        if element in ("f16", "bf16"):  # half of the ops in each
            chosen = [each for each in chosen if not each.name.startswith("hl.random")][element == "bf16" :: 2]
        found += [pytest.param(group, element, id=f"{family} {number} {element}") for number, group in enumerate(chunks(chosen))]
    return found


def compiled(module: Any, entry: str, arrays: list[Any]) -> list[Any]:
    found = gradopt.compile(module, entry)(*arrays)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("group, element", [*groups("f64"), *groups("f32"), *groups("f16"), *groups("bf16")])
def test_values(group: list[Sample], element: str) -> None:
    operands = [array for sample in group for array in meaning(sample, element)[0]]
    expected = [(sample, value) for sample in group for value in meaning(sample, element)[1]]
    found = compiled(module_of(group, STATIC, element), "f", operands)
    for one, (sample, two) in zip(found, expected, strict=True):
        close(one, two, f"{sample.label}, compiled in {element}", 0.0 if sample.exact else TOLERANCE[element])


@pytest.mark.parametrize("family, variant", list(zip(FAMILIES, [DYNAMIC, NAMED] * 3)))
def test_dynamic_sizes(family: str, variant: str) -> None:
    """A sample of each op, with sizes that the compiled program does not know."""
    chosen = few([sample for sample in FAMILIES[family] if sample.is_dynamic and any("N" in text for text in sample.operands)], 1)
    for group in chunks(chosen):
        operands = [array for sample in group for array in (*meaning(sample)[0], *size_arrays(sample, variant))]
        expected = [(sample, value) for sample in group for value in meaning(sample)[1]]
        found = compiled(module_of(group, variant), "f", operands)
        for one, (sample, two) in zip(found, expected, strict=True):
            close(one, two, f"{sample.label}, compiled, {variant}", 0.0 if sample.exact else TOLERANCE["f64"])


@pytest.mark.parametrize("number", range(len(chunks(few(DIFFERENTIABLE, 1), 25))))
def test_gradients(number: int) -> None:
    """A sample of each op."""
    group = chunks(few(DIFFERENTIABLE, 1), 25)[number]
    operands = [array for sample in group for array in meaning(sample)[0]]
    upstream = random_like([value for sample in group for value in meaning(sample)[1]], 1)
    expected = run(module_of(group, STATIC, "f64", VJP), [*operands, *upstream], "f_vjp")
    found = compiled(module_of(group), "f_vjp", [*operands, *upstream])
    for index, (one, two) in enumerate(zip(found, expected, strict=True)):
        close(one, two, f"result {index} of f_vjp of {[sample.label for sample in group]}", 1e-9)


def test_special_values_of_elementwise_ops() -> None:
    """NaN, infinities, zeros of both signs, huge and tiny numbers through every elementwise op of one and two float operands."""
    numbers = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-310, -1e308, 1e308, 37.0, -37.0, 800.0, -800.0, np.inf, -np.inf, np.nan])
    chosen = [each for each in few(FAMILIES["elementwise"], 1) if each.has_float and len(each.operands) <= 2]
    samples = [Sample(each.name, ("16x1", "1x16")[: len(each.operands)], each.attributes) for each in chosen]
    operands = [numbers.reshape(16, 1) if place == 0 else numbers.reshape(1, 16) for each in samples for place in range(len(each.operands))]
    module = module_of(samples)
    expected = run(module, operands)
    found, decomposed = compiled(module, "f", operands), run(module_of(samples, STATIC, "f64", "decompose"), operands)
    for sample, want, *routes in zip(samples, expected, found, decomposed, strict=True):
        for got in routes:
            assert (np.isnan(got) == np.isnan(want)).all() if got.dtype.kind == "f" else (got == want).all(), sample.label
            with np.errstate(invalid="ignore"):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300, err_msg=sample.label)
