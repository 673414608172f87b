"""Samples of the ops that change shapes, cut, join and surround."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from tensor_support import Sample, given, op

END = (1 << 63) - 1
START = -(1 << 63)


def views() -> list[Sample]:
    samples = []
    for source, target in (
        ("Nx4", "Nx2x2"),
        ("2xNx4", "2xNx2x2x1"),
        ("", "1x1"),
        ("1", ""),
        ("0x3", "3x0x2"),
        ("2x6", "12"),
        ("Nx2x2", "Nx4"),
        ("4xN:i8", "2x2xN:i8"),
    ):
        shape = tuple(3 if size == "N" else int(size) for size in target.partition(":")[0].split("x") if size)
        samples.append(op("reshape", source, results=target, reference=lambda x, *n, shape=shape: np.array(x.tolist()).reshape(shape)))
    for shape in ("2xNx4", "", "N", "0x3", "2x1xNx1x2:i32"):
        samples.append(op("flatten", shape, reference=lambda x: np.array(list(x.flat))))
    for shape, axes in (("Nx4", [0]), ("Nx4", [-1, 0]), ("Nx4", [1, 2]), ("", [0, 1]), ("0x2", [1]), ("Nx4", [])):

        def expand(x: Any, axes: list[int] = axes) -> Any:
            for axis in sorted(axis % (x.ndim + len(axes)) for axis in axes):
                x = x[(slice(None),) * axis + (None,)]
            return x

        samples.append(op("expand_dims", shape, axes=axes, reference=expand))
    for shape, axes in (
        ("Nx1x4", [1]),
        ("1xNx1", [0, -1]),
        ("1xNx1", None),
        ("1x1", None),
        ("Nx4", []),
        ("0x1", [1]),
        ("Nx1x1", [-1]),
    ):
        samples.append(
            op(
                "squeeze",
                shape,
                axes=axes,
                reference=lambda x, axes=axes: x.reshape(
                    [
                        size
                        for axis, size in enumerate(x.shape)
                        if not (size == 1 if axes is None else axis in axes or axis - x.ndim in axes)
                    ]
                ),
            )
        )
    for shape, axes in (
        ("Nx4", None),
        ("2xNx4", [1, 2, 0]),
        ("2xNx4", [-1, 0, 1]),
        ("", None),
        ("0x3", [1, 0]),
        ("2x1xNx4x2", [4, 0, 3, 1, 2]),
    ):
        samples.append(
            op(
                "permute_dims",
                shape,
                axes=axes,
                reference=lambda x, axes=axes: np.einsum(
                    x, list(range(x.ndim)), list(reversed(range(x.ndim))) if axes is None else [axis % x.ndim for axis in axes]
                ),
            )
        )
    for source, target in (
        ("4", "Nx4"),
        ("Nx1", "2xNx4"),
        ("", "2x2"),
        ("Nx4", "Nx4"),
        ("1", "0"),
        ("2x1x4", "2xNx4"),
        ("1x1", "2x1x3x1"),
    ):
        shape = tuple(3 if size == "N" else int(size) for size in target.split("x"))
        samples += [
            op("broadcast_to", source, results=target, reference=lambda x, *n, shape=shape: x + np.zeros(shape, x.dtype)),
            op("collapse_sum_to", target, results=source, reference=collapse(source)),
        ]
    samples += [
        op(
            "flip",
            shape,
            axes=axes,
            reference=lambda x, axes=axes: x[
                tuple(slice(None, None, -1 if axes is None or axis in axes or axis - x.ndim in axes else 1) for axis in range(x.ndim))
            ],
        )
        for shape, axes in (("2xNx4", None), ("2xNx4", [1]), ("2xNx4", [-1, 0]), ("", None), ("0x2", [0]), ("N", []))
    ]
    samples += [
        op("roll", shape, shifts=shifts, axes=axes, reference=rolled(shifts, axes))
        for shape, shifts, axes in (
            ("Nx4", [1], [0]),
            ("2xNx4", [-7, 2], [1, -1]),
            ("Nx4", [0], [1]),
            ("0x2", [1], [0]),
            ("N", [8], [0]),
            ("Nx2", [], []),
        )
    ]
    samples += [
        op("tile", shape, repeats=repeats, reference=tiled(repeats))
        for shape, repeats in (
            ("Nx4", [2, 3]),
            ("Nx4", [2]),
            ("4", [2, 1]),
            ("", [3]),
            ("Nx2", [0, 1]),
            ("2xNx1", [1, 2, 1, 3]),
            ("N", []),
        )
    ]
    return samples


def collapse(source: str) -> Any:
    """Sums to a shape, one element at a time."""
    shape = tuple(3 if size == "N" else int(size) for size in source.split("x") if size)

    def reference(x: Any, *sizes: Any) -> Any:
        out = np.zeros(shape, x.dtype)
        for place in np.ndindex(x.shape):
            own = place[len(place) - len(shape) :]
            out[tuple(0 if size == 1 else index for size, index in zip(shape, own))] += x[place]
        return out

    return reference


def rolled(shifts: list[int], axes: list[int]) -> Any:
    def reference(x: Any) -> Any:
        for shift, axis in zip(shifts, axes):
            size = x.shape[axis]
            x = np.take(x, [(place - shift) % size for place in range(size)], axis) if size else x
        return x

    return reference


def tiled(repeats: list[int]) -> Any:
    def reference(x: Any) -> Any:
        x = x.reshape((1,) * (len(repeats) - x.ndim) + x.shape)
        for axis, count in enumerate([1] * (x.ndim - len(repeats)) + repeats):
            x = np.concatenate([x] * count, axis) if count else np.take(x, [], axis)
        return x

    return reference


def joins() -> list[Sample]:
    samples = []
    for axis, shapes in (
        (0, ("Nx4", "2x4")),
        (-1, ("Nx4", "Nx0", "Nx1")),
        (1, ("2xNx4", "2xNx4")),
        (0, ("N",)),
        (0, ("0x2", "1x2")),
        (0, ("2:i1", "N:i1")),
    ):

        def concat(*parts: Any, axis: int = axis) -> Any:
            return np.moveaxis(
                np.array([row for part in parts for row in np.moveaxis(part, axis, 0)], parts[0].dtype).reshape(
                    sum(part.shape[axis] for part in parts), *np.moveaxis(parts[0], axis, 0).shape[1:]
                ),
                0,
                axis,
            )

        samples.append(op("concat", *shapes, axis=axis, reference=concat))
    samples += [
        op("stack", *shapes, axis=axis, reference=lambda *parts, axis=axis: np.moveaxis(np.array(parts), 0, axis))
        for axis, shapes in (
            (0, ("Nx4", "Nx4")),
            (-1, ("Nx4",) * 3),
            (1, ("N", "N")),
            (0, ("", "")),
            (0, ("2:i8",)),
            (1, ("0x2", "0x2")),
        )
    ]
    samples += [
        op(
            "split",
            shape,
            reference=lambda x, how=how: np.split(x, how.get("sections") or np.cumsum(how["sizes"])[:-1], how["axis"]),
            **how,
        )
        for shape, how in (
            ("2xNx6", {"axis": -1, "sizes": [1, 0, 5]}),
            ("2xNx6", {"axis": 2, "sections": 3}),
            ("Nx2", {"axis": 0, "sections": 3}),
            ("Nx2", {"axis": 0, "sizes": [1, 2]}),
            ("Nx2", {"axis": 0, "sections": 1}),
            ("0x2", {"axis": 0, "sections": 2}),
            ("4:i32", {"axis": 0, "sections": 2}),
        )
    ]
    return samples


def slices() -> list[Sample]:
    samples = []
    bounds: list[tuple[str, list[int], list[int], list[int] | None]] = [
        ("Nx4", [0, 1], [3, 3], None),
        ("2xNx4", [0, 1, 0], [2, 3, 4], [1, 1, 2]),
        ("2xNx4", [1, 2, 3], [START, START, 0], [-1, -1, -2]),
        ("2xNx6", [-2, -1, -2], [END, START, 1], [1, -2, -2]),
        ("5x7", [-100, 90], [100, -100], [2, -3]),
        ("4x4", [3, 2], [1, 2], [1, 1]),
        ("0x4", [0, 0], [END, 2], [1, 1]),
        ("9", [7], [1], [-3]),
        ("Nx4", [0, 0], [END, END], [2, 3]),
        ("", [], [], None),
    ]
    for shape, begin, end, strides in bounds:
        how: dict[str, Any] = {"begin": begin, "end": end, "strides": strides}
        index = tuple(slice(*each) for each in zip(begin, end, strides or [1] * len(begin)))
        samples.append(op("strided_slice", shape, reference=lambda x, index=index: x[index], **how))
        static = tuple(3 if size == "N" else int(size) for size in shape.split("x") if size)
        taken = np.zeros(static)[index].shape
        samples.append(op("set_slice", shape.replace("N", "3"), "x".join(map(str, taken)), reference=overwritten(index), **how))
    samples += [
        op("set_slice", "Nx4", "Nx2", begin=[0, 1], end=[END, 3], reference=overwritten((slice(None), slice(1, 3)))),
        op("set_slice", "Nx4", "2x4", begin=[1, 0], end=[3, 4], reference=overwritten((slice(1, 3),))),
        op(
            "set_slice",
            "Nx4:i16",
            "Nx2:i16",
            begin=[0, 3],
            end=[END, START],
            strides=[1, -2],
            reference=overwritten((slice(None), slice(3, None, -2))),
        ),
        op("strided_slice", "Nx4:i1", begin=[0, 1], end=[2, 3], exact=True, reference=lambda x: x[:2, 1:3]),
    ]
    for starts in ((0, 0), (1, 2), (-5, 1), (9, 9)):
        data = {1: given(starts[0]), 2: given(starts[1])}
        low = [min(max(start, 0), size - taken) for start, size, taken in zip(starts, (3, 4), (2, 3))]
        index = tuple(slice(start, start + taken) for start, taken in zip(low, (2, 3)))
        samples.append(op("dynamic_slice", "Nx4", ":i64", ":i32", data=data, sizes=[2, 3], reference=lambda x, i, j, index=index: x[index]))
        moved = {2: data[1], 3: data[2]}
        samples.append(
            op(
                "dynamic_update_slice",
                "Nx4",
                "2x3",
                ":i64",
                ":i64",
                data=moved,
                reference=lambda x, u, i, j, index=index: overwritten(index)(x, u),
            )
        )
    samples += [
        op("dynamic_slice", "", sizes=[], reference=lambda x: x),
        op("dynamic_slice", "0x2", ":i64", ":i64", sizes=[0, 1], reference=lambda x, i, j: x[:, :1]),
        op(
            "dynamic_update_slice",
            "Nx4:i32",
            "1x1:i32",
            ":i8",
            ":i8",
            data={2: given(1), 3: given(2)},
            exact=True,
            reference=lambda x, u, i, j: overwritten((slice(1, 2), slice(2, 3)))(x, u),
        ),
    ]
    return samples


def overwritten(index: Any) -> Any:
    def reference(x: Any, update: Any) -> Any:
        places = np.arange(x.size).reshape(x.shape)[index]
        flat = x.reshape(-1).tolist()
        for place, value in zip(places.flat, update.flat):
            flat[place] = value
        return np.array(flat, x.dtype).reshape(x.shape)

    return reference


def pads() -> list[Sample]:
    samples = []
    for shape, low, high, value in (
        ("Nx4", [1, 0], [0, 2], 0.0),
        ("Nx4", [2, -1], [-1, 1], 1.5),
        ("2xNx4", [0, 1, 0], [0, 0, 1], -3.0),
        ("", [], [], 1.0),
        ("0x2", [1, 0], [1, 0], 2.0),
        ("Nx4", [-3, 0], [0, -4], 0.0),
        ("N:i8", [1], [2], 7.0),
    ):

        def constant(x: Any, low: list[int] = low, high: list[int] = high, value: float = value) -> Any:
            out = np.full([size + a + b for size, a, b in zip(x.shape, low, high)], value, x.dtype)
            for place in np.ndindex(x.shape):
                target = tuple(index + shift for index, shift in zip(place, low))
                if all(0 <= index < size for index, size in zip(target, out.shape)):
                    out[target] = x[place]
            return out

        samples.append(op("pad", shape, low=low, high=high, value=value, reference=constant))
    reflect = {
        "reflect": lambda place, size: size - 1 - abs(size - 1 - abs(place)),
        "edge": lambda place, size: min(max(place, 0), size - 1),
    }
    for (mode, rule), (shape, low, high) in itertools.product(
        reflect.items(), (("Nx4", [1, 3], [2, 0]), ("2x5", [0, 4], [1, 4]), ("N:i32", [2], [2]))
    ):

        def border(x: Any, rule: Any = rule, low: list[int] = low, high: list[int] = high) -> Any:
            for axis, size in enumerate(x.shape):
                x = np.take(x, [rule(place, size) for place in range(-low[axis], size + high[axis])], axis)
            return x

        samples.append(op("pad", shape, low=low, high=high, mode=mode, reference=border))
    return samples


SAMPLES = [*views(), *joins(), *slices(), *pads()]
