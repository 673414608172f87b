"""Samples at the ranks that the other lists leave out, so that each op meets every rank from 0 to 5 that it takes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.linalg as linalg
import scipy.special as special
from rank_shapes import MIDDLE, SHAPES, SIZES
from samples_elementwise import exact_c
from samples_empty import SAMPLES as EMPTY
from samples_indexing import along, multi, nd, put, take
from samples_linear import brute, definite, each, regular
from samples_ranks_backward import backward
from samples_reduction import KEY, REDUCTIONS, by_steps, one_hot
from samples_shape import collapse, overwritten, rolled, tiled
from tensor_support import Sample, between, given, integers, op


def bits() -> list[Sample]:
    """Logical, bitwise and shift ops."""
    samples = []
    for shape in SHAPES.values():
        samples += [
            op("logical_not", f"{shape}:i1", exact=True, reference=lambda x: x ^ True),
            op("bitwise_not", f"{shape}:i32", exact=True, reference=lambda x: -1 - x),
            op("logical_and", f"{shape}:i1", ":i1", exact=True, reference=lambda x, y: x & y),
            op("logical_or", f"{shape}:i1", f"{shape}:i1", exact=True, reference=lambda x, y: x | y),
            op("logical_xor", f"{shape}:i1", f"{shape}:i1", exact=True, reference=lambda x, y: x != y),
            op("bitwise_and", f"{shape}:ui8", ":ui8", exact=True, reference=lambda x, y: exact_c(x, y, lambda p, q: p & q)),
            op("bitwise_or", f"{shape}:i16", f"{shape}:i16", exact=True, reference=lambda x, y: exact_c(x, y, lambda p, q: p | q)),
            op("bitwise_xor", f"{shape}:i64", f"{shape}:i64", exact=True, reference=lambda x, y: exact_c(x, y, lambda p, q: p ^ q)),
        ]
        for name, rule in (("shift_left", lambda p, q: p << q), ("shift_right", lambda p, q: p >> q)):
            samples.append(
                op(
                    name,
                    f"{shape}:i32",
                    f"{shape}:i32",
                    exact=True,
                    data={0: integers(-999, 999), 1: integers(0, 32)},
                    reference=lambda x, y, rule=rule: exact_c(x, y, rule),
                )
            )
    return samples


def creation() -> list[Sample]:
    samples = []
    for rank, shape in SHAPES.items():
        sizes = SIZES[rank]
        samples += [
            op("zeros_like", shape, reference=np.zeros_like),
            op("ones_like", shape, reference=np.ones_like),
            op("full_like", shape, "", reference=lambda x, v: v + 0 * x),
            op("zeros", results=shape, reference=lambda *n, sizes=sizes: np.zeros(sizes)),
            op("ones", results=shape, reference=lambda *n, sizes=sizes: np.ones(sizes)),
            op("full", "", results=shape, reference=lambda v, *n, sizes=sizes: np.tile(v, sizes)),
            op("random_uniform", "2:ui32", results=shape, data=KEY),
            op("random_normal", "2:ui32", results=shape, data=KEY),
            op("cast", shape, results=shape + ":i32", exact=True, data=between(-9, 9), reference=np.trunc),
            op("bitcast", shape + ":f32", results=shape + ":i32", exact=True, reference=lambda x: x.view(np.int32)),
            op("shape_cast", shape, results="x".join(map(str, sizes)), reference=lambda x: x),
            op(
                "one_hot",
                shape + ":i64",
                results=(shape + "x4").lstrip("x"),
                data={0: integers(-1, 6)},
                depth=4,
                reference=one_hot(-1),
            ),
        ]
        if rank:
            axis = MIDDLE[rank]
            count = np.cumsum(np.ones(sizes), axis) - 1
            samples += [
                op("iota", results=shape, axis=axis, reference=lambda *n, count=count: count),
                op("dim", shape, axis=axis, exact=True, reference=lambda x, axis=axis: np.int64(x.shape[axis])),
            ]
        if rank > 1:
            samples += [
                op("eye", results=shape, reference=lambda *n, sizes=sizes: np.zeros(sizes) + np.eye(*sizes[-2:])),
                op("tril", shape, reference=lambda x: np.where(np.tri(*x.shape[-2:]) > 0, x, 0)),
                op("triu", shape, k=1, reference=lambda x: np.where(np.tri(*x.shape[-2:]) > 0, 0, x)),
            ]
    return samples


def reductions() -> list[Sample]:
    samples = []
    for (name, rule), rank in itertools.product(REDUCTIONS.items(), (1, 4)):
        axes = (0,) if rank == 1 else (MIDDLE[rank], rank - 1)
        samples.append(
            op(
                name,
                SHAPES[rank],
                axes=list(axes),
                keepdims=rank > 1,
                reference=lambda x, rule=rule, axes=axes: rule(x, axis=axes, keepdims=x.ndim > 1),
            )
        )
    for rank, shape in SHAPES.items():
        axes = [MIDDLE[rank]] if rank else []
        samples += [
            op("all", shape + ":i1", axes=axes, exact=True, reference=lambda x, axes=axes: np.min(x, tuple(axes))),
            op("any", shape + ":i1", axes=axes, exact=True, reference=lambda x, axes=axes: np.max(x, tuple(axes))),
        ]
        if rank:
            samples += [
                op(name, shape, axis=axes[0], exact=True, reference=lambda x, rule=rule, axis=axes[0]: rule(x, axis))
                for name, rule in (("argmax", np.argmax), ("argmin", np.argmin))
            ]
    return samples


def along_one_axis() -> list[Sample]:
    samples = [op(name, "", reference=lambda x: x.reshape(1)) for name in ("cumsum", "cumprod")]
    rules: dict[str, Any] = {
        "cumsum": lambda x, axis: by_steps(x, axis, sum),
        "cumprod": lambda x, axis: by_steps(x, axis, np.multiply.reduce),
        "cummax": lambda x, axis: by_steps(x, axis, np.maximum.reduce),
        "cummin": lambda x, axis: by_steps(x, axis, np.minimum.reduce),
        "logcumsumexp": lambda x, axis: by_steps(x, axis, lambda parts: special.logsumexp(parts, axis=0)),
        "softmax": special.softmax,
        "log_softmax": special.log_softmax,
        "sort": lambda x, axis: np.sort(x, axis),
        "argsort": lambda x, axis: np.argsort(x, axis, kind="stable"),
        "topk": lambda x, axis: (-np.sort(-x, axis).take([0, 1], axis), np.argsort(-x, axis, kind="stable").take([0, 1], axis)),
    }
    for (name, rule), rank in itertools.product(rules.items(), range(1, 6)):
        axis = MIDDLE[rank]
        how = {"k": 2} if name == "topk" else {}
        shape = SHAPES[rank].replace("N", "3") if name == "topk" else SHAPES[rank]
        samples.append(op(name, shape, axis=axis - rank, reference=lambda x, rule=rule, axis=axis: rule(x, axis), **how))
    return samples


def joined(axis: int, *parts: Any) -> Any:
    """Parts one behind the other, row by row."""
    rows = [row for part in parts for row in np.moveaxis(part, axis, 0)]
    return np.moveaxis(np.array(rows), 0, axis)


def shapes() -> list[Sample]:
    samples = []
    for rank, shape in SHAPES.items():
        sizes = SIZES[rank]
        flat = "x".join(["1", *SHAPES[rank].split("x")]).rstrip("x")
        samples += [
            op("reshape", shape, results=flat, reference=lambda x, *n: np.array(x.tolist())[None]),
            op("flatten", shape, reference=lambda x: np.array(list(x.flat))),
            op("expand_dims", shape, axes=[0, -1], reference=lambda x: x[None, ..., None]),
            op("broadcast_to", shape, results=f"2x{shape}".rstrip("x"), reference=lambda x, *n: np.stack([x, x])),
            op("flip", shape, axes=list(range(rank)), reference=lambda x: x.reshape(-1)[::-1].reshape(x.shape)),
            op("stack", shape, shape, axis=0, reference=lambda x, y: np.array([x, y])),
            op("tile", shape, repeats=[2] * rank, reference=tiled([2] * rank)),
            op("permute_dims", shape, reference=lambda x: np.einsum(x, list(range(x.ndim)), list(range(x.ndim))[::-1])),
            op(
                "pad",
                shape,
                low=[1] * rank,
                high=[2] * rank,
                value=0.5,
                reference=lambda x: np.pad(x, [(1, 2)] * x.ndim, constant_values=0.5) if x.ndim else x,
            ),
            op("collapse_sum_to", shape, results="", reference=collapse("")),
            op("roll", shape, shifts=[1] * rank, axes=list(range(rank)), reference=rolled([1] * rank, list(range(rank)))),
        ]
        ones = "x".join(["1", *shape.split("x")]).rstrip("x") if rank < 5 else None
        if ones:
            samples.append(op("squeeze", ones, axes=[0], reference=lambda x: x.reshape(x.shape[1:])))
        index = tuple(slice(0, size, 2) for size in sizes)
        cut = {"begin": [0] * rank, "end": list(sizes), "strides": [2] * rank}
        taken = "x".join(str(-(-size // 2)) for size in sizes)
        static = "x".join(map(str, sizes))
        starts = [":i64"] * rank
        data = {place: given(0) for place in range(1, 1 + rank)}
        block = tuple(slice(0, -(-size // 2)) for size in sizes)
        samples += [
            op("strided_slice", static, reference=lambda x, index=index: x[index], **cut),
            op("set_slice", static, taken, reference=overwritten(index), **cut),
            op(
                "dynamic_slice",
                shape,
                *starts,
                data=data,
                sizes=[-(-size // 2) for size in sizes],
                reference=lambda x, *s, block=block: x[block],
            ),
            op(
                "dynamic_update_slice",
                shape,
                taken,
                *starts,
                data={place + 1: make for place, make in data.items()},
                reference=lambda x, u, *s, block=block: overwritten(block)(x, u),
            ),
        ]
        if rank:
            axis = MIDDLE[rank]
            samples += [
                op("concat", shape, shape, axis=axis, reference=lambda x, y, axis=axis: joined(axis, x, y)),
                op("split", shape, axis=axis, sizes=[1, 2], reference=lambda x, axis=axis: np.split(x, [1], axis)),
            ]
    samples.append(op("squeeze", "2x1xNx1x2", axes=[1, 3], reference=lambda x: x.reshape(2, 3, 2)))
    return samples


def indexing() -> list[Sample]:
    samples = [op("take", "", "2:i64", data={1: given([0, -1])}, reference=take(None, "clip"))]
    for rank in range(1, 6):
        shape, axis = SHAPES[rank], MIDDLE[rank]
        others = [size for place, size in enumerate(shape.split("x")) if place != axis]
        less, one = "x".join(others), "x".join("1" if size == "N" else size for size in shape.split("x"))
        swapped = "x".join(["5", *others])  # the taken axis comes first
        where = {1: integers(0, 3)}
        front = {"x".join(["N", *others])}.pop()
        samples += [
            op("take", shape, "4:i64", axis=axis, data={1: integers(-3, 3)}, reference=take(axis, "clip")),
            op("take_along_axis", shape, f"{shape}:i64", axis=axis, data={1: integers(-3, 3)}, reference=along(axis, "clip")),
            op(
                "put_along_axis",
                shape,
                f"{shape}:i64",
                shape,
                axis=axis,
                kind="add",
                data={1: integers(-3, 3)},
                reference=put(axis, "add", "clip"),
            ),
            op(
                "indexing_one_hot",
                shape,
                f"{less}:i64",
                axis=axis,
                data=where,
                reference=lambda x, i, axis=axis: along(axis, "clip")(x, np.expand_dims(i, axis)),
            ),
            op(
                "set_one_hot",
                shape,
                f"{less}:i64",
                one,
                axis=axis,
                data=where,
                reference=lambda x, i, u, axis=axis: put(axis, "set", "clip")(x, np.expand_dims(i, axis), u),
            ),
            op("take_multi", shape, "5:i64", axes=[axis], data={1: given([0, 1, 1, 0, 1])}, reference=multi([axis], "clip")),
            op("set_multi", front, front, "N:i64", axes=[0], data={2: given([2, 0, 1])}, reference=multi([0], "clip", "set")),
            op("add_multi", front, swapped, "5:i64", axes=[0], data={2: integers(-3, 3)}, reference=multi([0], "clip", "add")),
            op("gather_nd", front, "5x1:i64", data={1: integers(-3, 3)}, reference=nd("clip")),
            op("scatter_nd", front, "5x1:i64", swapped, kind="add", data={1: integers(-3, 3)}, reference=nd("clip", "add")),
        ]
    return samples


def linear() -> list[Sample]:
    samples = [
        op("einsum", "", "N", equation=",i->i", reference=lambda *x: brute(",i->i", *x)),
        op("einsum", "2x1xNx1x2", "2x4", equation="abcde,ef->fbc", reference=lambda *x: brute("abcde,ef->fbc", *x)),
    ]
    for rank in range(6):
        contract = [rank - 1] if rank else []
        samples += [
            op(
                "dot_general",
                SHAPES[rank],
                "x".join(map(str, SIZES[rank][-1:])),
                lhs_batch=[],
                rhs_batch=[],
                lhs_contract=contract,
                rhs_contract=[0] * bool(rank),
                reference=lambda a, b: np.asarray(np.tensordot(a, b, 1 if a.ndim else 0)),
            ),
            op("outer", SHAPES[rank], "2", reference=lambda a, b: np.array([[p * q for q in b.flat] for p in a.flat])),
        ]
    for lead in ("Nx2", "2x1xN"):
        square, wide = f"{lead}x2x2", f"{lead}x2x3"
        samples += [
            op("cholesky", square, data=definite, reference=each(lambda a: linalg.cholesky(a, lower=True))),
            op("inverse", square, data=regular, reference=each(linalg.inv)),
            op("det", square, data=regular, reference=each(linalg.det)),
            op("solve", square, wide, data={0: regular}, reference=each(linalg.solve)),
            op(
                "triangular_solve",
                square,
                wide,
                data={0: regular},
                reference=each(lambda a, b: linalg.solve_triangular(a, b, lower=True)),
            ),
        ]
    return samples


SAMPLES = [
    *EMPTY,
    *bits(),
    *creation(),
    *reductions(),
    *along_one_axis(),
    *shapes(),
    *indexing(),
    *linear(),
    *backward(),
]
