"""Samples of backward ops at the ranks that the other lists leave out."""

from __future__ import annotations

import numpy as np
import scipy.special as special
from rank_shapes import MIDDLE, SHAPES, SIZES
from samples_backward import adjoint, complex_step, running, softmax_adjoints
from samples_indexing import along, multi, take
from tensor_support import Sample, given, integers, op


def backward() -> list[Sample]:
    samples = [
        op("bwd.cumsum", "1", results="", reference=lambda dy, *n: dy[0]),
        op("bwd.cumprod", "", "1", reference=lambda x, dy: dy[0]),
        op("bwd.take", "2", "2:i64", results="", data={1: given([0, -1])}, reference=lambda dy, i: dy.sum()),
        op("bwd.gather", "2", "2:i64", results="", data={1: given([0, 0])}, reference=lambda dy, i: dy.sum()),
    ]
    for rank, shape in SHAPES.items():
        sizes = SIZES[rank]
        samples += [
            op("bwd.relu", shape, shape, reference=lambda x, dy: np.where(x > 0, dy, 0)),
            op("bwd.activation", shape, shape, kind="sigmoid", reference=lambda x, dy: dy * special.expit(x) * special.expit(-x)),
        ]
        if not rank:
            continue
        axis = MIDDLE[rank]
        less = "x".join(size for place, size in enumerate(shape.split("x")) if place != axis)
        one = "x".join("1" if size == "N" else size for size in shape.split("x"))
        four = shape.replace("N", "4")
        at = {1: integers(0, 3)}
        samples += [
            *softmax_adjoints(shape, axis),
            op(
                "bwd.cumsum",
                shape,
                results=shape,
                axis=axis,
                reference=lambda dy, *n, axis=axis: adjoint(lambda e: running(np.add, e, axis, False, False), dy.shape, dy),
            ),
            op(
                "bwd.cumprod",
                shape,
                shape,
                axis=axis,
                reference=lambda x, dy, axis=axis: complex_step(lambda z: running(np.multiply, z, axis, False, False), x, dy),
            ),
            *(
                op(
                    name,
                    four,
                    "4:i64",
                    results=shape,
                    axis=axis,
                    data={1: integers(-3, 3)},
                    reference=lambda dy, i, *n, axis=axis, sizes=sizes: adjoint(lambda e: take(axis, "clip")(e, i), sizes, dy),
                )
                for name in ("bwd.take", "bwd.gather")
            ),
            op(
                "bwd.put_along_axis",
                shape,
                f"{shape}:i64",
                results=shape,
                axis=axis,
                data={1: integers(-3, 3)},
                reference=lambda dy, i, *n, axis=axis, sizes=sizes: adjoint(lambda e: along(axis, "clip")(e, i), sizes, dy),
            ),
            op(
                "bwd.indexing_one_hot",
                one,
                f"{less}:i64",
                results=shape,
                axis=axis,
                data=at,
                reference=lambda dy, i, *n, axis=axis, sizes=sizes: adjoint(
                    lambda e: along(axis, "clip")(e, np.expand_dims(i, axis)), sizes, dy
                ),
            ),
            op(
                "bwd.take_multi",
                four,
                "4:i64",
                results=shape,
                axes=[axis],
                data={1: integers(-3, 3)},
                reference=lambda dy, i, *n, axis=axis, sizes=sizes: adjoint(lambda e: multi([axis], "clip")(e, i), sizes, dy),
            ),
        ]
    return samples
