"""The derivatives of every tensor op: reverse mode by its own rules and decomposed, forward mode, central differences, second order."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from samples import DIFFERENTIABLE, few
from tensor_support import (
    DYNAMIC,
    JVP,
    STATIC,
    VJP,
    Sample,
    close,
    floats,
    leftovers,
    meaning,
    module_of,
    random_like,
    run,
    size_arrays,
)

by_sample = pytest.mark.parametrize("sample", DIFFERENTIABLE, ids=lambda sample: sample.label)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@functools.cache
def gradients(sample: Sample) -> tuple[list[Any], list[Any]]:
    """(cotangents, gradients by the rules of `hl`), interpreted as they are."""
    arrays, results = meaning(sample)
    upstream = random_like(results, 1)
    return upstream, run(module_of(sample, STATIC, "f64", VJP), [*arrays, *upstream], "f_vjp")[len(results) :]


@by_sample
def test_reverse_mode_by_every_route(sample: Sample) -> None:
    """By the `bwd` ops, by what they decompose to, and by the derivative of the decomposed op."""
    arrays, results = meaning(sample)
    upstream, expected = gradients(sample)
    for passes in (f"{VJP},decompose", f"decompose,{VJP}"):
        module = module_of(sample, STATIC, "f64", passes)
        assert not leftovers(module)
        found = run(module, [*arrays, *upstream], "f_vjp")
        for index, (one, two) in enumerate(zip(found, [*results, *expected], strict=True)):
            close(one, two, f"{passes}: result {index} of {sample.label}", 1e-9)


@pytest.mark.parametrize("sample", [sample for sample in DIFFERENTIABLE if sample.is_dynamic], ids=lambda sample: sample.label)
def test_reverse_mode_with_dynamic_sizes(sample: Sample) -> None:
    arrays, results = meaning(sample)
    upstream, expected = gradients(sample)
    for passes in (VJP, f"{VJP},decompose", f"decompose,{VJP}"):
        found = run(module_of(sample, DYNAMIC, "f64", passes), [*arrays, *size_arrays(sample, DYNAMIC), *upstream], "f_vjp")
        for index, (one, two) in enumerate(zip(found[len(results) :], expected, strict=True)):
            close(one, two, f"{passes}: gradient {index} of {sample.label}", 1e-9)


def difference(function: Any, arrays: list[Any], directions: list[Any], step: float) -> list[Any]:
    """The derivative of the float results along directions of the float operands: central differences, extrapolated once."""

    def at(scale: float) -> list[Any]:
        moving = iter(directions)
        return floats(function([array + scale * next(moving) if array.dtype.kind == "f" else array for array in arrays]))

    def slope(h: float) -> list[Any]:
        # equal infinities do not move, and neither does NaN
        return [np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, a - b) / (2 * h) for a, b in zip(at(h), at(-h))]

    return [(4 * a - b) / 3 for a, b in zip(slope(step), slope(2 * step))]


def product(one: list[Any], two: list[Any]) -> float:
    """The inner product of lists of arrays."""
    return sum(float(np.sum(a * b)) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("sample", [each for each in DIFFERENTIABLE if each.smooth], ids=lambda sample: sample.label)
def test_gradients_are_central_differences(sample: Sample) -> None:
    arrays, _ = meaning(sample)
    upstream, found = gradients(sample)
    module, directions = module_of(sample), random_like(arrays, 2)
    for index, gradient in enumerate(found):
        chosen = [each if place == index else np.zeros_like(each) for place, each in enumerate(directions)]
        slopes = difference(lambda moved: run(module, moved), arrays, chosen, 1e-4)
        expected, actual = product(upstream, slopes), product([gradient], [directions[index]])
        assert actual == pytest.approx(expected, rel=1e-6, abs=1e-7), f"{sample.label}: float operand {index}"


@by_sample
def test_forward_mode_agrees_with_reverse_mode(sample: Sample) -> None:
    arrays, results = meaning(sample)
    upstream, found = gradients(sample)
    tangents = random_like(arrays, 3)
    pushed = run(module_of(sample, STATIC, "f64", JVP), [*arrays, *tangents], "f_jvp")[len(results) :]
    short = any(text.endswith("f16") for text in (*sample.operands, *(sample.results or ())))  # cotangents are rounded to 16 bits
    tolerance = {"rel": 5e-2, "abs": 5e-2} if short else {"rel": 1e-9, "abs": 1e-10}
    assert product(upstream, pushed) == pytest.approx(product(found, tangents), **tolerance), sample.label


@pytest.mark.parametrize("sample", few([each for each in DIFFERENTIABLE if each.smooth], 3), ids=lambda sample: sample.label)
def test_second_derivatives_are_differences_of_first_ones(sample: Sample) -> None:
    """The derivative of <gradients, v>, where cotangents are arguments too, so this differentiates every adjoint in all it reads."""
    arrays, results = meaning(sample)
    upstream, _ = gradients(sample)
    operands = [*arrays, *upstream]
    module = module_of(sample, STATIC, "f64", VJP)
    first = [run(module, operands, "f_vjp")[len(results) :]][0]
    seeds = [np.zeros_like(each) for each in floats(results)] + random_like(first, 4)
    twice = module_of(sample, STATIC, "f64", f"{VJP},autodiff{{func=f_vjp mode=vjp}},decompose")
    found = run(twice, [*operands, *seeds], "f_vjp_vjp")[len(results) + len(first) :]
    directions = random_like(operands, 5)
    slopes = difference(lambda moved: run(module, moved, "f_vjp")[len(results) :], operands, directions, 1e-4)
    expected = product(seeds[len(floats(results)) :], slopes)
    assert product(found, directions) == pytest.approx(expected, rel=1e-6, abs=2e-7), sample.label


@pytest.mark.parametrize("sample", few(DIFFERENTIABLE, 1), ids=lambda sample: sample.label)
def test_masked_cotangents_of_zero_win(sample: Sample) -> None:
    """Where every cotangent is 0 and the operands are infinite, so is not the gradient: a mask may have cut everything off."""
    arrays, results = meaning(sample)
    operands = [np.full_like(array, np.inf) if array.dtype.kind == "f" else array for array in arrays]
    zeros = [np.zeros_like(each) for each in floats(results)]
    if sample.name.removeprefix("hl.") in NOT_MASKED:
        return
    for passes in (VJP, f"{VJP},decompose", f"decompose,{VJP}"):
        module = module_of(sample, STATIC, "f64", passes)
        for index, gradient in enumerate(run(module, [*operands, *zeros], "f_vjp")[len(results) :]):
            assert not np.any(gradient), f"{passes}: gradient {index} of {sample.label}: {gradient}"


# sums over products of what may be infinite: not covered (semantics 0.3), and documented
NOT_MASKED = {"matmul", "dot_general", "einsum", "outer", "cholesky", "triangular_solve", "solve", "inverse", "det"}
