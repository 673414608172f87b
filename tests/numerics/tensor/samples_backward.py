"""Samples of the `bwd` ops of tensors, with and without `masked`. Adjoints of linear ops come from the ops' own references, element by
element; slopes of activations from complex steps or central differences of many digits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
from gradopt.dialects.bwd.activations import SLOPES
from samples_indexing import AWRY, MODES, along, multi, take
from tensor_support import Sample, between, given, integers, op

HALF = mpmath.mpf(1) / 2
PI_ROOT = mpmath.sqrt(2 / mpmath.pi)


def unit(x: Any, alpha: float, width: float, scale: float = 1.0) -> Any:
    """scale * x above 0, scale * alpha (e**(x / width) - 1) elsewhere."""
    return scale * (x if x > 0 else alpha * mpmath.expm1(x / width))


# kind -> (the function in any precision, attributes)
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], dict[str, float]]] = {
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), {}),
    "log_sigmoid": (lambda x: -mpmath.log1p(mpmath.exp(-x)), {}),
    "tanh": (mpmath.tanh, {}),
    "gelu": (lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2, {}),
    "gelu_tanh": (lambda x: x / (1 + mpmath.exp(-2 * PI_ROOT * (x + mpmath.mpf("0.044715") * x**3))), {}),
    "silu": (lambda x: x / (1 + mpmath.exp(-x)), {}),
    "mish": (lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))), {}),
    "softplus": (lambda x: mpmath.log1p(mpmath.exp(2 * x)) / 2 if 2 * x <= 15 else x, {"beta": 2.0, "threshold": 15.0}),
    "elu": (lambda x: unit(x, 0.75, 1), {"alpha": 0.75}),
    "celu": (lambda x: unit(x, 0.5, 0.5), {"alpha": 0.5}),
    "selu": (lambda x: unit(x, mpmath.mpf("1.6732632423543772848170429916717"), 1, mpmath.mpf("1.0507009873554804934193349852946")), {}),
    "leaky_relu": (lambda x: x if x > 0 else x / 4, {"alpha": 0.25}),
    "relu6": (lambda x: min(max(x, 0), 6), {}),
    "hard_sigmoid": (lambda x: min(max(x / 6 + HALF, 0), 1), {}),
    "hard_tanh": (lambda x: min(max(x, -2), 1), {"min": -2.0, "max": 1.0}),
    "hard_swish": (lambda x: x * min(max(x / 6 + HALF, 0), 1), {}),
}


def slope(function: Callable[[Any], Any], x: Any) -> Any:
    """The derivative of a function at each element, by a central difference in 60 digits."""
    with mpmath.workdps(60):
        step = mpmath.mpf(10) ** -20
        values = [(function(mpmath.mpf(float(v)) + step) - function(mpmath.mpf(float(v)) - step)) / (2 * step) for v in x.flat]
        return np.array([float(value) for value in values]).reshape(x.shape)


def adjoint(function: Callable[[Any], Any], shape: Sequence[int], dy: Any) -> Any:
    """The adjoint of a linear function at dy: its component at e is <dy, function(e)>."""
    out = np.zeros(shape)
    for place in np.ndindex(*shape):
        basis = np.zeros(shape)
        basis[place] = 1
        out[place] = np.sum(np.where(dy == 0, 0, dy * np.nan_to_num(function(basis))))
    return out


def complex_step(function: Callable[[Any], Any], x: Any, dy: Any) -> Any:
    """The adjoint at dy of the derivative of an analytic function at x."""
    return adjoint(lambda e: function(x + 1e-30j * e).imag * 1e30, x.shape, dy)


def activations() -> list[Sample]:
    samples = []
    for number, (kind, (function, attributes)) in enumerate(FUNCTIONS.items()):
        for masked in (None, True):
            shape = ["Nx4", "2xNx3", "", "N", "0x2"][(number + bool(masked)) % 5]
            samples.append(
                op(
                    "bwd.activation",
                    shape,
                    shape,
                    data={0: between(-7, 9)},
                    kind=kind,
                    masked=masked,
                    **attributes,
                    reference=lambda x, dy, function=function: dy * slope(function, x),
                )
            )
    samples += [
        op("bwd.relu", shape, shape, masked=masked, reference=lambda x, dy: dy * (np.sign(x) + 1) / 2)
        for shape, masked in (("Nx4", None), ("2xNx1", True), ("", None), ("0", None))
    ]
    assert set(FUNCTIONS) == set(SLOPES)
    return samples


def softmax_adjoints(shape: str, axis: int, **attributes: Any) -> list[Sample]:
    """The adjoints of softmax and log_softmax, from their results."""
    return [
        op(
            "bwd.softmax",
            shape,
            shape,
            axis=axis,
            **attributes,
            data={0: between(0, 1)},
            reference=lambda y, dy: (
                dy * y - y * np.expand_dims(np.einsum("...i,...i", np.moveaxis(dy, axis, -1), np.moveaxis(y, axis, -1)), axis)
            ),
        ),
        op(
            "bwd.log_softmax",
            shape,
            shape,
            axis=axis,
            **attributes,
            data={0: between(-3, 0)},
            reference=lambda y, dy: dy - np.exp(y) * np.expand_dims(np.add.reduce(dy, axis), axis),
        ),
    ]


def rows() -> list[Sample]:
    samples = []
    for shape, axis in (("Nx4", -1), ("2xNx4", 1), ("N", 0), ("0x4", 1), ("Nx1x2", 0)):
        for masked in (None, True):
            samples += softmax_adjoints(shape, axis, masked=masked)
    for exclusive, reverse in itertools.product((False, True), (False, True)):
        how = {"exclusive": exclusive, "reverse": reverse}
        for shape, axis in (((3, 4), 1), ((2, 3, 2), 0), ((3, 2), None)):
            source = "x".join("N" if size == 3 else str(size) for size in shape)
            target = source if axis is not None else "6"
            run = {"axis": axis, **how}
            samples.append(
                op(
                    "bwd.cumsum",
                    target if axis is not None or exclusive else "6",
                    results="3x2" if axis is None else source,
                    masked=True if reverse else None,
                    **run,
                    reference=lambda dy, shape=shape, run=run: adjoint(lambda e: running(np.add, e, **run), shape, dy),
                )
            )
            samples.append(
                op(
                    "bwd.cumprod",
                    source if axis is not None else "3x2",
                    target,
                    masked=True if exclusive else None,
                    **run,
                    reference=lambda x, dy, run=run: complex_step(lambda z: running(np.multiply, z, **run), x, dy),
                )
            )
    zeros = given([[0.0, 2.0, 0.0, 3.0], [1.0, 0.0, 2.0, 4.0], [0.0, 0.0, 0.0, 1.0]])
    samples.append(
        op("bwd.cumprod", "3x4", "3x4", axis=1, data={0: zeros}, reference=lambda x, dy: complex_step(lambda z: np.cumprod(z, 1), x, dy))
    )
    return samples


def running(rule: Any, x: Any, axis: int | None, exclusive: bool, reverse: bool) -> Any:
    """A running sum or product."""
    x = x.reshape(-1) if axis is None else x
    moved = np.moveaxis(x, axis or 0, 0)
    moved = moved[::-1] if reverse else moved
    total = rule.accumulate(moved, 0)
    if exclusive:
        total = np.concatenate([np.full_like(total[:1], rule.identity), total[:-1]])
    return np.moveaxis(total[::-1] if reverse else total, 0, axis or 0)


def scatters() -> list[Sample]:
    awry, samples = given(AWRY), []
    for mode in MODES:
        for name in ("bwd.take", "bwd.gather"):
            samples += [
                op(
                    name,
                    "7x4",
                    "7:i64",
                    results="Nx4",
                    data={1: awry},
                    axis=0,
                    mode=mode,
                    masked=True if mode == "nan" else None,
                    reference=lambda dy, i, *n, mode=mode: adjoint(lambda e: take(0, mode)(e, i), (3, 4), dy),
                ),
                op(
                    name,
                    "2x2",
                    "2x2:i32",
                    results="3x4",
                    data={1: integers(-15, 15)},
                    mode=mode,
                    reference=lambda dy, i, *n, mode=mode: adjoint(lambda e: take(None, mode)(e, i), (3, 4), dy),
                ),
            ]
        samples += [
            op(
                "bwd.put_along_axis",
                "Nx5",
                "Nx5:i64",
                results="Nx4",
                data={1: integers(-7, 8)},
                axis=-1,
                mode=mode,
                reference=lambda dy, i, *n, mode=mode: adjoint(lambda e: along(1, mode)(e, i), (3, 4), dy),
            ),
            op(
                "bwd.take_multi",
                "2x3x2",
                "3:i64",
                "2x1:i64",
                results="Nx4x2",
                data={1: integers(-5, 6), 2: integers(-6, 8)},
                axes=[0, 1],
                mode=mode,
                reference=lambda dy, i, j, *n, mode=mode: adjoint(lambda e: multi([0, 1], mode)(e, i, j), (3, 4, 2), dy),
            ),
            op(
                "bwd.take_multi",
                "2x5x4",
                "5:i32",
                results="2x3x4",
                data={1: integers(-5, 6)},
                axes=[-2],
                mode=mode,
                reference=lambda dy, i, mode=mode: adjoint(lambda e: multi([1], mode)(e, i), (2, 3, 4), dy),
            ),
        ]
    samples += [
        op(
            "bwd.indexing_one_hot",
            "Nx1",
            "N:i64",
            results="Nx4",
            data={1: integers(0, 4)},
            axis=1,
            reference=lambda dy, i, *n: adjoint(lambda e: along(1, "clip")(e, i[:, None]), (3, 4), dy),
        ),
        op(
            "bwd.indexing_one_hot",
            "1xNx2",
            "Nx2:i8",
            results="4xNx2",
            data={1: integers(-4, 4)},
            axis=0,
            masked=True,
            reference=lambda dy, i, *n: adjoint(lambda e: along(0, "clip")(e, i[None]), (4, 3, 2), dy),
        ),
        op("bwd.take", "0x4", "0:i64", results="Nx4", axis=0, reference=lambda dy, i, *n: np.zeros((3, 4))),
    ]
    return samples


SAMPLES = [*activations(), *rows(), *scatters()]
