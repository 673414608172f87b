"""Samples of the indexing ops: repeated, negative and out-of-range indices in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tensor_support import Make, Sample, between, given, integers, op

MODES = ("clip", "wrap", "fill", "nan")
AWRY = [0, 2, -1, 2, 5, -7, 3]  # for an axis of 3: repeated, negative, beyond either end


def place(index: int, size: int, mode: str) -> int | None:
    """The element that an index means; None for one outside with "fill" or "nan"."""
    index = index + size if index < 0 else index
    if mode == "wrap":
        return index % size
    if 0 <= index < size:
        return index
    return None if mode in ("fill", "nan") else min(max(index, 0), size - 1)


def read(x: Any, position: tuple[int | None, ...], mode: str) -> Any:
    """x at a position, which may be a row of x."""
    if any(index is None for index in position):
        return np.full(x.shape[len(position) :], np.nan if mode == "nan" else 0, x.dtype)
    return x[position]


def take(axis: int | None, mode: str) -> Callable[..., Any]:
    def reference(x: Any, indices: Any) -> Any:
        moved = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
        rows = [read(moved, (place(int(index), len(moved), mode),), mode) for index in indices.flat]
        found = np.array(rows, x.dtype).reshape(indices.shape + moved.shape[1:])
        at = 0 if axis is None else axis % x.ndim
        return np.moveaxis(found, range(indices.ndim), range(at, at + indices.ndim))

    return reference


def along(axis: int, mode: str) -> Callable[..., Any]:
    def reference(x: Any, indices: Any) -> Any:
        out = np.empty(indices.shape, x.dtype)
        for at in np.ndindex(indices.shape):
            target: list[int | None] = list(at)
            target[axis] = place(int(indices[at]), x.shape[axis], mode)
            out[at] = read(x, tuple(target), mode)
        return out

    return reference


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": max,
    "min": min,
}


def put(axis: int, kind: str, mode: str) -> Callable[..., Any]:
    def reference(x: Any, indices: Any, update: Any) -> Any:
        out = x.copy()
        for at in np.ndindex(indices.shape):
            target = list(at)
            found = place(int(indices[at]), x.shape[axis], mode)
            if found is not None:
                target[axis] = found
                out[tuple(target)] = COMBINE[kind](out[tuple(target)], update[at])
        return out

    return reference


def multi(axes: list[int], mode: str, kind: str | None = None) -> Callable[..., Any]:
    """take_multi, or with a kind set_multi and add_multi."""

    def reference(x: Any, *rest: Any) -> Any:
        update, indices = (None, rest) if kind is None else (rest[0], rest[1:])
        indices = np.broadcast_arrays(*indices)
        chosen = [axis % x.ndim for axis in axes]
        others = [axis for axis in range(x.ndim) if axis not in chosen]
        moved = x.transpose(chosen + others).copy()
        before = sum(axis < chosen[0] for axis in others)
        shape = indices[0].shape
        if update is not None:
            update = np.moveaxis(update, range(before, before + len(shape)), range(len(shape)))
        rows = np.empty(shape + moved.shape[len(chosen) :], x.dtype)
        for at in np.ndindex(shape):
            target = tuple(place(int(index[at]), x.shape[axis], mode) for axis, index in zip(chosen, indices))
            if update is None:
                rows[at] = read(moved, target, mode)
            elif None not in target:
                moved[target] = COMBINE[kind or ""](moved[target], update[at])
        if update is not None:
            return moved.transpose(np.argsort(chosen + others))
        return np.moveaxis(rows, range(len(shape)), range(before, before + len(shape)))

    return reference


def nd(mode: str, kind: str | None = None) -> Callable[..., Any]:
    """gather_nd, or with a kind scatter_nd."""

    def reference(x: Any, indices: Any, update: Any = None) -> Any:
        depth, shape = indices.shape[-1], indices.shape[:-1]
        out = np.empty(shape + x.shape[depth:], x.dtype) if kind is None else x.copy()
        for at in np.ndindex(shape):
            target = tuple(place(int(index), x.shape[axis], mode) for axis, index in enumerate(indices[at]))
            if kind is None:
                out[at] = read(x, target, mode)
            elif None not in target:
                out[target] = (
                    COMBINE[kind](out[target], update[at])
                    if kind not in ("max", "min")
                    else getattr(np, kind + "imum")(out[target], update[at])
                )
        return out

    return reference


def samples() -> list[Sample]:
    awry, pairs = given(AWRY), given([[0, 2], [-1, 5], [1, -9]])
    found: list[Sample] = []
    for mode in MODES:
        found += [
            op("take", "Nx4", "7:i64", axis=0, mode=mode, data={1: awry}, reference=take(0, mode)),
            op("take", "2x3x4", "3x2:i32", axis=-2, mode=mode, data={1: pairs}, reference=take(1, mode)),
            op("take_along_axis", "Nx4", "7x4:i64", axis=0, mode=mode, data={1: integers(-6, 6)}, reference=along(0, mode)),
            op("take_along_axis", "2xNx4", "2xNx5:i8", axis=-1, mode=mode, data={1: integers(-6, 8)}, reference=along(2, mode)),
            op("gather_nd", "Nx4x2", "3x2:i64", mode=mode, data={1: pairs}, reference=nd(mode)),
            op(
                "take_multi",
                "Nx4x2",
                "3:i64",
                "2x1:i64",
                axes=[0, 1],
                mode=mode,
                data={1: integers(-5, 6), 2: integers(-6, 8)},
                reference=multi([0, 1], mode),
            ),
            op(
                "take_multi",
                "2x3x4",
                "3:i64",
                "3:i64",
                axes=[2, 0],
                mode=mode,
                data={1: integers(-5, 6), 2: integers(-3, 4)},
                reference=multi([2, 0], mode),
            ),
        ]
        for name, kind in (("set_multi", "set"), ("add_multi", "add")):
            found += [
                op(
                    name,
                    "Nx4x2",
                    "5x2",
                    "5:i64",
                    "5:i64",
                    axes=[0, 1],
                    mode=mode,
                    data={2: integers(-5, 6), 3: integers(-6, 8)},
                    smooth=True,
                    reference=multi([0, 1], mode, kind),
                ),
                op(
                    name,
                    "2x3x4",
                    "2x5x4",
                    "5:i32",
                    axes=[-2],
                    mode=mode,
                    data={2: given([0, 2, -1, 7, -8])},
                    reference=multi([-2], mode, kind),
                ),
            ]
        for kind in COMBINE:
            found += [
                op(
                    "put_along_axis",
                    "Nx4",
                    "5x4:i64",
                    "5x4",
                    axis=0,
                    kind=kind,
                    mode=mode,
                    data={1: integers(-6, 6), 2: between(0.5, 2)},
                    reference=put(0, kind, mode),
                ),
                op("scatter_nd", "Nx4", "3x2:i64", "3", kind=kind, mode=mode, data={1: pairs}, reference=nd(mode, kind)),
            ]
    fast: Make = given([0, 2, 1, 2])
    found += [
        op("take", "Nx4", "4:i64", axis=0, mode="fast", data={1: fast}, reference=take(0, "clip")),
        op("take", "Nx4", "2x2:i64", data={1: integers(-12, 12)}, reference=take(None, "clip")),
        op("take", "N", ":i64", axis=0, data={1: given(1)}, reference=take(0, "clip")),
        op("take", "Nx4", "0:i64", axis=1, reference=take(1, "clip")),
        op("take", "Nx4:i32", "7:ui8", axis=0, data={1: integers(0, 255)}, exact=True, reference=take(0, "clip")),
        op("take", "0x4", "2:i64", axis=0, reference=lambda x, i: np.zeros((2, 4))),
        op("take_along_axis", "N:i16", "2:i64", axis=0, exact=True, reference=along(0, "clip")),
        op("put_along_axis", "2x3x4", "2x1x4:i32", "2x1x4", axis=-2, data={1: integers(-4, 4)}, reference=put(1, "set", "clip")),
        op(
            "put_along_axis",
            "4:i32",
            "6:i64",
            "6:i32",
            axis=0,
            kind="add",
            data={1: integers(-6, 6)},
            exact=True,
            reference=put(0, "add", "clip"),
        ),
        op(
            "indexing_one_hot",
            "Nx4",
            "N:i64",
            axis=1,
            data={1: integers(0, 4)},
            reference=lambda x, i: np.array([[x[n, i[n]]] for n in range(3)], x.dtype),
        ),
        op(
            "indexing_one_hot",
            "2xNx4",
            "2x4:i32",
            axis=-2,
            data={1: integers(0, 3)},
            reference=lambda x, i: along(1, "clip")(x, i[:, None]),
        ),
        op(
            "set_one_hot",
            "Nx4",
            "N:i64",
            "Nx1",
            axis=1,
            data={1: integers(0, 4)},
            reference=lambda x, i, u: put(1, "set", "clip")(x, i[:, None], u),
        ),
        op(
            "set_one_hot",
            "2xNx4",
            "Nx4:i32",
            "1xNx4",
            axis=0,
            data={1: integers(-2, 2)},
            reference=lambda x, i, u: put(0, "set", "clip")(x, i[None], u),
        ),
        op("gather_nd", "Nx4", "2x0:i64", reference=lambda x, i: np.stack([x, x])),
        op("gather_nd", "4:i32", "2x1:i64", exact=True, reference=nd("clip")),
        op("gather_nd", "Nx4", "2:i64", data={1: given([1, 2])}, reference=lambda x, i: x[1, 2]),
        op("scatter_nd", "Nx4", "4x1:i64", "4x4", kind="add", data={1: given([[0], [0], [2], [0]])}, reference=nd("clip", "add")),
        op("embedding", "Nx4", "2x2:i64", data={1: integers(-3, 3)}, reference=take(0, "clip")),
        op("embedding", "5x2", "N:i32", padding_idx=-1, data={1: given([4, 0, -1])}, smooth=False, reference=take(0, "clip")),
    ]
    return found


SAMPLES = samples()
