"""Compiled tensor ops against the interpreter: samples are put together into functions of many, which compile as one program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradopt.dialects.arrays import numpy_dtype
from gradopt.dialects.constraints import FLOAT_TENSOR, NUMBER_TENSOR
from gradopt.dialects.prim.elementwise import BINARY, UNARY
from gradopt.ir.types import BF16, F16, F32, F64
from gradopt.lowering.compile import compile_function
from samples import DIFFERENTIABLE, FAMILIES, SAMPLES, few, one_a_rank
from tensor_support import DYNAMIC, NAMED, STATIC, TOLERANCE, VJP, Sample, close, meaning, module_of, random_like, run, size_arrays

import gradopt

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def chunks(samples: list[Sample], size: int = 40) -> list[list[Sample]]:
    """Groups of at most `size`."""
    return [samples[start : start + size] for start in range(0, len(samples), size)]


def values_of(element: str) -> list[Sample]:
    """What is compiled in a float type: in f64 and f32 each op at every rank, these by turns, and in f64 also samples without floats; half
    of the ops in each 16-bit type."""
    floats = [sample for sample in SAMPLES if sample.has_float]
    if element in ("f16", "bf16"):
        return [each for each in few(floats, 1) if not each.name.startswith("hl.random")][element == "bf16" :: 2]
    chosen = [*few(floats, 1), *one_a_rank(floats)[element == "f64" :: 2]]
    if element == "f64":
        others = [sample for sample in SAMPLES if not sample.has_float]
        chosen += [*few(others, 2), *one_a_rank(others)]
    return list(dict.fromkeys(chosen))


def dynamic_of(element: str) -> list[Sample]:
    """What is compiled with sizes that the program does not know: each op at every other rank, in f64 and f32 by turns."""
    return list(dict.fromkeys([*one_a_rank(UNKNOWN)[::4], *few(UNKNOWN, 1)])) if element == "f64" else one_a_rank(UNKNOWN)[2::4]


UNKNOWN = [sample for sample in SAMPLES if any("N" in text for text in sample.operands)]
GRADIENTS = {("f64", STATIC): few(DIFFERENTIABLE, 1), ("f32", DYNAMIC): few([each for each in UNKNOWN if each in DIFFERENTIABLE], 1)}


def groups(samples: list[Sample], *rest: str, size: int = 40) -> list[Any]:
    """Samples as chunks, with names."""
    parts = chunks(samples, size)
    return [pytest.param(part, *rest, id=f"{part[0].name} to {part[-1].name} {' '.join(rest)}") for part in parts]


def compiled(module: Any, entry: str, arrays: list[Any]) -> list[Any]:
    found = gradopt.compile(module, entry)(*arrays)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize(
    "group, element", [each for element in ("f64", "f32", "f16", "bf16") for each in groups(values_of(element), element)]
)
def test_values(group: list[Sample], element: str) -> None:
    operands = [array for sample in group for array in meaning(sample, element)[0]]
    expected = [(sample, value) for sample in group for value in meaning(sample, element)[1]]
    found = compiled(module_of(group, STATIC, element), "f", operands)
    for one, (sample, two) in zip(found, expected, strict=True):
        close(one, two, f"{sample.label}, compiled in {element}", 0.0 if sample.exact else TOLERANCE[element])


@pytest.mark.parametrize("group, element, variant", [
    *groups(dynamic_of("f64"), "f64", NAMED), *groups(dynamic_of("f32"), "f32", DYNAMIC)])  # fmt: skip
def test_dynamic_sizes(group: list[Sample], element: str, variant: str) -> None:
    """Sizes that the compiled program does not know."""
    operands = [array for sample in group for array in (*meaning(sample, element)[0], *size_arrays(sample, variant))]
    expected = [(sample, value) for sample in group for value in meaning(sample, element)[1]]
    found = compiled(module_of(group, variant, element), "f", operands)
    for one, (sample, two) in zip(found, expected, strict=True):
        close(one, two, f"{sample.label}, compiled, {variant}", 0.0 if sample.exact else TOLERANCE[element])


@pytest.mark.parametrize("group, element, variant", [
    each for (element, variant), samples in GRADIENTS.items() for each in groups(samples, element, variant, size=25)])  # fmt: skip
def test_gradients(group: list[Sample], element: str, variant: str) -> None:
    """A sample of each op."""
    operands = [array for sample in group for array in (*meaning(sample, element)[0], *size_arrays(sample, variant))]
    upstream = random_like([value for sample in group for value in meaning(sample, element)[1]], 1)
    expected = run(module_of(group, variant, element, VJP), [*operands, *upstream], "f_vjp")
    found = compiled(module_of(group, variant, element), "f_vjp", [*operands, *upstream])
    for index, (one, two) in enumerate(zip(found, expected, strict=True)):
        close(one, two, f"result {index} of f_vjp of {[sample.label for sample in group]}", 1e-9 if element == "f64" else 5e-5)


WHOLE = [each for each in few(SAMPLES, 1) if not each.name.startswith("hl.random")]


@pytest.mark.parametrize("group", groups(WHOLE))
def test_preserved_operations(group: list[Sample]) -> None:
    """Kept whole by `decompose`, each has the same results."""
    operands = [array for sample in group for array in meaning(sample)[0]]
    found = compile_function(module_of(group), "f", preserve=sorted({sample.name for sample in group}))(*operands)
    expected = [(sample, value) for sample in group for value in meaning(sample)[1]]
    for one, (sample, two) in zip(found, expected, strict=True):
        close(one, two, f"{sample.label}, preserved", 0.0 if sample.exact else TOLERANCE["f64"])


SHORT = {"f16": (GRADIENTS["f64", STATIC][::2], 2e-2), "bf16": (GRADIENTS["f64", STATIC][1::2], 0.15)}


@pytest.mark.parametrize("group, element", [each for element, (samples, _) in SHORT.items() for each in groups(samples, element, size=25)])
def test_gradients_in_16_bits(group: list[Sample], element: str) -> None:
    """A sample of each op, against gradients in f64 at the rounded operands."""
    operands = [array for sample in group for array in meaning(sample, element)[0]]
    upstream = random_like([value for sample in group for value in meaning(sample, element)[1]], 1)
    wide = [array if array.dtype.kind in "iub" else array.astype(np.float64) for array in (*operands, *upstream)]
    expected = run(module_of(group, STATIC, "f64", VJP), wide, "f_vjp")
    found = compiled(module_of(group, STATIC, element), "f_vjp", [*operands, *upstream])
    tolerance = SHORT[element][1]
    for index, (one, two) in enumerate(zip(found, expected, strict=True)):
        size = max(1.0, float(np.abs(two[np.isfinite(two)]).max(initial=0)))
        np.testing.assert_allclose(one.astype(np.float64), two, tolerance, tolerance * size, err_msg=f"result {index}")


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 37.0, -37.0, 800.0, -800.0, np.inf, -np.inf, np.nan]
ENDS = {"f64": [1e-310, -1e308, 1e308], "f32": [1e-40, -3e38, 3e38], "f16": [1e-7, -6e4, 6e4], "bf16": [1e-40, -3e38, 3e38]}
SMALLEST = {"f64": 1e-300, "f32": 2e-38, "f16": 2e-7, "bf16": 2e-38}
UNITS = {"f64": 1e-12, "f32": 2e-6, "f16": 4e-3, "bf16": 3e-2}


@pytest.mark.parametrize("element", UNITS)
def test_special_values_of_elementwise_ops(element: str) -> None:
    """NaN, infinities, zeros of both signs, huge and tiny numbers through every elementwise op of one and two float operands."""
    chosen = [each for each in few(FAMILIES["elementwise"], 1) if each.has_float and len(each.operands) <= 2]
    samples = [Sample(each.name, ("16x1", "1x16")[: len(each.operands)], each.attributes) for each in chosen]
    module = module_of(samples, STATIC, element)
    numbers = np.array([*SPECIAL, *ENDS[element]]).astype(numpy_dtype({"f64": F64, "f32": F32, "f16": F16, "bf16": BF16}[element]))
    operands = [numbers.reshape(16, 1) if place == 0 else numbers.reshape(1, 16) for each in samples for place in range(len(each.operands))]
    expected = run(module, operands)
    found, decomposed = compiled(module, "f", operands), run(module_of(samples, STATIC, element, "decompose"), operands)
    for sample, want, *routes in zip(samples, expected, found, decomposed, strict=True):
        for got in routes:
            assert got.dtype == want.dtype
            if want.dtype.kind in "iub":
                assert (got == want).all(), sample.label
                continue
            one, two = got.astype(np.float64), want.astype(np.float64)
            assert (np.isnan(one) == np.isnan(two)).all(), sample.label
            with np.errstate(invalid="ignore"):
                np.testing.assert_allclose(one, two, rtol=UNITS[element], atol=SMALLEST[element], err_msg=sample.label)


@pytest.mark.parametrize("element", UNITS)
def test_special_values_of_primitive_ops(element: str) -> None:
    """Zeros of the right sign, and NaN where it belongs, for each pair of them and of infinities and ordinary numbers."""
    element_type = {"f64": F64, "f32": F32, "f16": F16, "bf16": BF16}[element]
    numbers = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.25, -0.25, 2.5, -2.5]).astype(numpy_dtype(element_type))
    x, y = (array.ravel() for array in np.meshgrid(numbers, numbers))
    names = [name for name, (_, constraint, _) in (UNARY | BINARY).items() if constraint in (FLOAT_TENSOR, NUMBER_TENSOR)]
    type = f"tensor<{x.size}x{element}>"
    lines = [f"  %{name} = prim.{name} {'%x' if name in UNARY else '%x, %y'} : {type}" for name in names]
    results = ", ".join([type] * len(names))
    text = "\n".join([f"func.func @f(%x: {type}, %y: {type}) -> ({results}) {{", *lines,
                      f"  return {', '.join(f'%{name}' for name in names)} : {results}", "}"])
    module = gradopt.parse(text)
    for name, one, two in zip(names, compiled(module, "f", [x, y]), run(module, [x, y]), strict=True):
        got, want = one.astype(np.float64), two.astype(np.float64)
        assert (np.isnan(got) == np.isnan(want)).all(), name
        assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all(), name
