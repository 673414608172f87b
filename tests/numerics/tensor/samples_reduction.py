"""Samples of creation, element types, reductions and ops along one axis."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as special
from gradopt.dialects.arrays import to_elements
from gradopt.ir.types import F64, I1, I32, tensor
from tensor_support import Sample, given, integers, op

KEY = {0: given(np.array([7, 11], np.uint32))}


def constant(values: Any, element: Any) -> Sample:
    array = np.array(values)
    return op(
        "constant",
        results=(f"{'x'.join(map(str, array.shape))}:{element.text}",),
        exact=True,
        reference=lambda: array,
        value=to_elements(array, tensor(array.shape, element)),
    )


def creation() -> list[Sample]:
    like = {"zeros_like": np.zeros_like, "ones_like": np.ones_like}
    samples = [
        constant([[1.5, -2.0, 1 / 3]], F64),
        constant([True, False], I1),
        constant(7, I32),
        constant(np.zeros((0, 2)), F64),
        *(op(name, x, reference=rule) for name, rule in like.items() for x in ("Nx2", "", "0x2")),
        op("zeros_like", "N:i8", exact=True, reference=np.zeros_like),
        op("ones_like", "N:i1", exact=True, reference=np.ones_like),
        op("full_like", "Nx4", "", reference=lambda x, v: v + 0 * x),
        op("full_like", "0x2", "", reference=lambda x, v: v + 0 * x),
        op("full_like", "N:ui16", ":ui16", exact=True, reference=lambda x, v: v + 0 * x),
    ]
    for target in ("Nx4", "2xN", "", "0x3", "Nx2:i32", "N:i1"):
        shape = tuple(3 if size == "N" else int(size) for size in target.partition(":")[0].split("x") if size)
        samples += [
            op("zeros", results=target, reference=lambda *n, shape=shape: np.zeros(shape)),
            op("ones", results=target, reference=lambda *n, shape=shape: np.ones(shape)),
            op(
                "full",
                ":" + target.partition(":")[2] if ":" in target else "",
                results=target,
                reference=lambda value, *n, shape=shape: np.tile(value, shape),
            ),
        ]
    for axis, target in ((0, "N"), (-1, "2xN"), (1, "2xNx4:i32"), (0, "0x2:i64"), (2, "2x1xN:ui8")):
        shape = tuple(3 if size == "N" else int(size) for size in target.partition(":")[0].split("x"))
        count = np.cumsum(np.ones(shape), axis=axis) - 1
        samples.append(op("iota", results=target, axis=axis, reference=lambda *n, count=count: count))
    samples += [
        op("eye", results="Nx3", reference=lambda *n: np.diag(np.ones(3))),
        op("eye", results="2x4:i32", reference=lambda *n: np.tri(2, 4) - np.tri(2, 4, -1)),
        op("eye", results="2x3x2", reference=lambda *n: np.stack([np.tri(3, 2) - np.tri(3, 2, -1)] * 2)),
    ]
    for name, k in itertools.product(("tril", "triu"), (-4, -1, 0, 1, 5)):

        def reference(x: Any, name: str = name, k: int = k) -> Any:
            low = np.tri(*x.shape[-2:], k if name == "tril" else k - 1)
            return x * (low if name == "tril" else 1 - low)

        samples.append(op(name, "2xNx4" if k else "Nx3", reference=reference, k=k))
    samples.append(op("tril", "0x2", reference=lambda x: x))
    return samples


def one_hot(axis: int) -> Callable[[Any], Any]:
    return lambda indices: np.moveaxis(
        np.where((indices >= 0) & (indices < 4), 1, 0)[..., None] * np.eye(4)[np.clip(indices, 0, 3)], -1, axis
    )


def element_types() -> list[Sample]:

    samples = [
        op("one_hot", "Nx2:i64", results=target, data={0: integers(-1, 6)}, depth=4, axis=axis, reference=one_hot(axis))
        for axis, target in ((-1, "Nx2x4"), (0, "4xNx2"), (1, "Nx4x2:i32"))
    ]
    samples += [
        op("one_hot", ":i32", results="4", data={0: given(2)}, depth=4, reference=lambda i: np.array([0, 0, 1, 0])),
        op(
            "one_hot",
            "2:ui64",
            results="2x4:i1",
            depth=4,
            data={0: given(np.array([1, 2**64 - 1], np.uint64))},
            reference=lambda i: np.array([[0, 1, 0, 0], [0, 0, 0, 0]]),
        ),
    ]
    samples += [
        op(name, "2:ui32", results=target, data=KEY)
        for name in ("random_uniform", "random_normal")
        for target in ("Nx4", "", "0", "2xN:f16", "5:bf16")
    ]
    nan, inf = np.nan, np.inf
    floats = {0: given([0.0, -0.0, 1.5, -1.5, 2.5, 300.7, -300.7, 1e30, -1e30, inf, -inf, nan])}
    bounds = {"i8": (-128, 127), "ui8": (0, 255), "i32": (-(2**31), 2**31 - 1), "ui32": (0, 2**32 - 1)}
    for element, (low, high) in bounds.items():
        samples.append(
            op(
                "cast",
                "12",
                results=f"12:{element}",
                data=floats,
                exact=True,
                reference=lambda x, low=low, high=high: np.array(
                    [0 if v != v else min(max(int(v), low), high) if abs(v) < inf else high if v > 0 else low for v in x.tolist()]
                ),
            )
        )
    samples += [
        op("cast", "12", results="12:i1", data=floats, exact=True, reference=lambda x: (x > 0) | (x < 0) | np.isnan(x)),
        op("cast", "Nx4", results="Nx4:f16", smooth=False),
        op("cast", "Nx4:f16", results="Nx4", smooth=False),
        op("cast", "Nx4:bf16", results="Nx4", smooth=False),
        op("cast", "Nx4", results="Nx4:bf16", smooth=False),
        op("cast", "N:f32", results="N:f64", smooth=False),
        op("cast", "N:f64", results="N:f32", smooth=False),
        op("cast", "Nx4", results="Nx4"),
        op("cast", "Nx4:i32", results="Nx4", reference=lambda x: x / 1),
        op("cast", "N:i1", results="N", reference=lambda x: np.where(x, 1, 0)),
        op(
            "cast",
            "4:ui64",
            results="4:f64",
            data={0: given(np.array([0, 1, 2**63, 2**64 - 1], np.uint64))},
            reference=lambda x: np.array([0, 1, 2.0**63, 2.0**64]),
        ),
        op(
            "cast",
            "4:i64",
            results="4:i8",
            exact=True,
            data={0: given([300, -129, 127, -1])},
            reference=lambda x: np.array([44, 127, 127, -1]),
        ),
        op("cast", "4:i64", results="4:ui16", exact=True, data={0: given([-1, 65536, 7, 70000])}, reference=lambda x: x % 65536),
        op(
            "bitcast",
            "Nx2:f32",
            results="Nx2:i32",
            exact=True,
            reference=lambda x: np.frombuffer(x.tobytes(), np.int32).reshape(x.shape),
        ),
        op("bitcast", "2:i64", results="2:f64", reference=lambda x: np.frombuffer(x.tobytes(), np.float64)),
        op("bitcast", "4:ui16", results="4:f16", reference=lambda x: np.frombuffer(x.tobytes(), np.float16)),
        op("shape_cast", "Nx4", results="3x4", reference=lambda x: x),
        op("shape_cast", "3x4", results="Nx4", reference=lambda x: x),
        *(op("dim", "2xNx4", axis=axis, exact=True, reference=lambda x, axis=axis: np.int64([2, 3, 4][axis])) for axis in (0, 1, -1)),
    ]
    return samples


def subsets(rank: int) -> list[tuple[int, ...]]:
    """Every choice of axes."""
    return [axes for count in range(rank + 1) for axes in itertools.combinations(range(rank), count)]


def two_pass(x: Any, power: float, **how: Any) -> Any:
    """variance (power 1) or std (power 1/2) by E[(x - E x)^2]."""
    centre = x.mean(axis=how["axis"], keepdims=True)
    return (((x - centre) ** 2).mean(**how)) ** power


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.add.reduce,
    "prod": np.multiply.reduce,
    "mean": lambda x, **how: np.add.reduce(x / x.dtype.type(1), **how) * (np.add.reduce(x, **how).size / x.size),
    "variance": lambda x, **how: two_pass(x, 1, **how),
    "std": lambda x, **how: two_pass(x, 0.5, **how),
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "logsumexp": lambda x, **how: np.log(np.add.reduce(np.exp(x), **how)),
    "norm": lambda x, **how: np.sqrt((x * x).sum(**how)),
}


def reductions() -> list[Sample]:
    samples = []
    for name, rule in REDUCTIONS.items():
        for axes, keepdims in itertools.product(subsets(3), (False, True)):
            if name == "std" and not axes:  # of one element each: 0, where its derivative is a convention
                continue
            samples.append(
                op(
                    name,
                    "2xNx4",
                    axes=list(axes),
                    keepdims=keepdims,
                    smooth=not (name == "std" and axes == ()),
                    reference=lambda x, rule=rule, axes=axes, keepdims=keepdims: rule(x, axis=axes, keepdims=keepdims),
                )
            )
        samples += [op(name, shape, reference=lambda x, rule=rule: rule(x, axis=None)) for shape in ("Nx4", "2x1xNx1x2")]
        samples += [
            op(name, "Nx1x4", axes=[-2, 0], reference=lambda x, rule=rule: rule(x, axis=(0, 1))),
            op(name, "", smooth=name != "std", reference=lambda x, rule=rule: rule(x, axis=()) if name not in ("std",) else 0 * x),
        ]
        if name in ("sum", "prod", "logsumexp", "norm"):
            for axes in ([0], [1], [0, 1]):
                samples.append(
                    op(
                        name,
                        "0xN",
                        axes=axes,
                        reference=lambda x, name=name, axes=axes: np.full(
                            [size for axis, size in enumerate(x.shape) if axis not in axes],
                            {"sum": 0, "prod": 1, "logsumexp": -np.inf, "norm": 0}[name],
                        ),
                    )
                )
    samples += [
        op("max", "0x4", axes=[0], reference=lambda x: np.full(4, -np.inf)),
        op("min", "Nx0", axes=[1], reference=lambda x: np.full(3, np.inf)),
        op("mean", "0x4", axes=[0], smooth=False, reference=lambda x: np.full(4, np.nan)),
        op("mean", "0x4", axes=[1], reference=lambda x: np.zeros(0)),
    ]
    for order in (1.0, 3.0, 1.5, float("inf")):
        samples.append(op("norm", "Nx4", axes=[1], ord=order, reference=lambda x, order=order: np.linalg.norm(x, order, axis=1)))
    integer = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
    samples += [
        op(
            name,
            f"Nx4:{element}",
            axes=axes,
            exact=True,
            data={0: integers(1, 90)},
            reference=lambda x, rule=rule, axes=axes: rule.reduce(x, axis=None if axes is None else tuple(axes), dtype=x.dtype),
        )
        for name, rule in integer.items()
        for element, axes in (("i8", [0]), ("ui32", [1]), ("i64", None), ("i32", []))
    ]
    samples += [
        op(
            name,
            "Nx4:i1",
            axes=axes,
            exact=True,
            reference=lambda x, rule=rule, axes=axes: rule(x, axis=None if axes is None else axes[0]),
        )
        for name, rule in (("all", np.min), ("any", np.max))
        for axes in (None, [0], [1])
    ]
    samples += [
        op("all", "0x4:i1", axes=[0], exact=True, reference=lambda x: np.ones(4, bool)),
        op("any", "0:i1", exact=True, reference=lambda x: np.False_),
    ]
    for name, rule in (("argmax", np.argmax), ("argmin", np.argmin)):
        samples += [
            op(
                name,
                "2xNx4",
                axis=axis,
                keepdims=keepdims,
                exact=True,
                reference=lambda x, rule=rule, axis=axis, keepdims=keepdims: rule(x, axis=axis, keepdims=keepdims),
            )
            for axis in (None, 0, 1, -1)
            for keepdims in (False, True)
        ]
        samples += [
            op(name, "", exact=True, reference=lambda x: np.int64(0)),
            op(name, "Nx0", axis=0, exact=True, reference=lambda x: np.zeros(0, np.int64)),
            op(name, "Nx4:i32", axis=1, data={0: integers(0, 3)}, exact=True, reference=lambda x, rule=rule: rule(x, axis=1)),
        ]
    return samples


def by_steps(x: Any, axis: int, rule: Callable[[list[Any]], Any], exclusive: bool = False, reverse: bool = False) -> Any:
    """rule(elements so far) at each place along an axis, one place after the other."""
    moved = np.moveaxis(x, axis, 0)
    count, out = len(moved), np.empty_like(moved)
    for place in range(count):
        out[place] = rule(list(moved[place + exclusive :] if reverse else moved[: place + (not exclusive)]))
    return np.moveaxis(out, 0, axis)


def axis_ops() -> list[Sample]:
    samples = []
    for name, rule in (("cumsum", sum), ("cumprod", lambda parts: np.multiply.reduce(parts) if parts else 1)):
        for axis, exclusive, reverse in itertools.product((0, -2, 2), (False, True), (False, True)):
            samples.append(
                op(
                    name,
                    "2xNx4",
                    axis=axis,
                    exclusive=exclusive,
                    reverse=reverse,
                    reference=lambda x, axis=axis, e=exclusive, r=reverse, rule=rule: by_steps(x, axis, rule, e, r),
                )
            )
        samples += [
            op(name, "2xN", exclusive=e, reference=lambda x, e=e, rule=rule: by_steps(x.reshape(-1), 0, rule, e)) for e in (False, True)
        ]
        samples += [
            op(name, "", reference=lambda x: x.reshape(1)),
            op(name, "0x2", axis=0, reference=lambda x: x),
            op(name, "Nx1", axis=1, reference=lambda x: x),
            op(
                name,
                "Nx4:i8",
                axis=1,
                exact=True,
                data={0: integers(-99, 99)},
                reference=lambda x, rule=rule: by_steps(x, 1, lambda parts: rule([0] * 0 + list(parts))),
            ),
        ]
    along: dict[str, Callable[[Any, int], Any]] = {
        "cummax": lambda x, axis: by_steps(x, axis, np.maximum.reduce),
        "cummin": lambda x, axis: by_steps(x, axis, np.minimum.reduce),
        "logcumsumexp": lambda x, axis: by_steps(x, axis, lambda parts: special.logsumexp(parts, axis=0)),
        "softmax": special.softmax,
        "log_softmax": special.log_softmax,
        "sort": lambda x, axis: np.sort(x, axis),
    }
    for name, rule in along.items():
        samples += [
            op(name, shape, axis=axis, reference=lambda x, rule=rule, axis=axis: rule(x, axis))
            for shape, axis in (("2xNx4", 0), ("2xNx4", 1), ("2xNx4", -1), ("N", 0), ("Nx1", 1), ("2x1xNx2x2", 2), ("0x4", 1))
        ]
        samples.append(op(name, "0x4", axis=0, reference=lambda x: x))
    samples += [
        op("softmax", "Nx4", reference=lambda x: special.softmax(x, -1)),
        op("log_softmax", "N", reference=special.log_softmax),
        op("cummax", "Nx4:i32", axis=1, exact=True, reference=lambda x: np.maximum.accumulate(x, 1)),
        op("sort", "Nx4", descending=True, reference=lambda x: -np.sort(-x, -1)),
        op("sort", "Nx4:i32", axis=0, exact=True, reference=lambda x: np.sort(x, 0)),
    ]
    for descending in (False, True):
        sign = -1 if descending else 1
        samples += [
            op(
                "argsort",
                "Nx4",
                axis=axis,
                descending=descending,
                exact=True,
                reference=lambda x, axis=axis, sign=sign: np.argsort(sign * x, axis, kind="stable"),
            )
            for axis in (0, -1)
        ]
        samples.append(
            op(
                "argsort",
                "2x6:i64",
                descending=descending,
                exact=True,
                data={0: integers(0, 3)},
                reference=lambda x, sign=sign: np.argsort(sign * x, -1, kind="stable"),
            )
        )
    for k, axis in ((2, -1), (4, 2), (0, 1), (1, 1), (2, 0)):

        def top(x: Any, k: int = k, axis: int = axis) -> tuple[Any, Any]:
            order = np.take(np.argsort(-x, axis, kind="stable"), range(k), axis)
            return np.take_along_axis(x, order, axis), order

        samples.append(op("topk", "2xNx4", k=k, axis=axis, reference=top))
    return samples


SAMPLES = [*creation(), *element_types(), *reductions(), *axis_ops()]
