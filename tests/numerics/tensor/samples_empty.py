"""Samples of tensors without elements, where the other lists have none."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensor_support import Sample, given, op


def zeros_of(*shape: int) -> Any:
    """A reference without elements, or of zeros."""
    return lambda *operands: np.zeros(shape)


def empty() -> list[Sample]:
    """One or more an op."""
    i1 = [op(f"logical_{name}", "0xN:i1", "N:i1", reference=zeros_of(0, 3)) for name in ("and", "or", "xor")]
    i8 = [op(f"bitwise_{name}", "Nx0:i8", "1:i8", reference=zeros_of(3, 0)) for name in ("and", "or", "xor")]
    shifts = [op(f"shift_{way}", "0:i32", "0:i32", reference=zeros_of(0)) for way in ("left", "right")]
    return [
        *i1,
        *i8,
        *shifts,
        op("logical_not", "0xN:i1", reference=zeros_of(0, 3)),
        op("bitwise_not", "0xN:i8", reference=zeros_of(0, 3)),
        op("eye", results="0xN", reference=zeros_of(0, 3)),
        op("triu", "Nx0", reference=zeros_of(3, 0)),
        op("one_hot", "0xN:i64", results="0xNx4", depth=4, reference=zeros_of(0, 3, 4)),
        op("cast", "0xN", results="0xN:i32", reference=zeros_of(0, 3)),
        op("bitcast", "0xN:f32", results="0xN:i32", reference=zeros_of(0, 3)),
        op("shape_cast", "0xN", results="0x3", reference=zeros_of(0, 3)),
        op("dim", "0xN", axis=0, reference=zeros_of()),
        op("variance", "0xN", axes=[1], reference=zeros_of(0)),
        op("std", "0xN", axes=[1], reference=zeros_of(0)),
        op("argsort", "0xN", axis=1, reference=zeros_of(0, 3)),
        op("topk", "0x3", k=2, reference=lambda x: (np.zeros((0, 2)), np.zeros((0, 2)))),
        op("tile", "0xN", repeats=[2, 2], reference=lambda x: np.zeros((0, 2 * x.shape[1]))),
        op("dynamic_update_slice", "Nx4", "0x4", ":i64", ":i64", data={2: given(1), 3: given(0)}, reference=lambda x, u, i, j: x),
        op("take_along_axis", "Nx4", "0x4:i64", axis=0, reference=zeros_of(0, 4)),
        op("put_along_axis", "Nx4", "0x4:i64", "0x4", axis=0, kind="add", reference=lambda x, i, u: x),
        op("indexing_one_hot", "0x4", "0:i64", axis=1, reference=zeros_of(0, 1)),
        op("set_one_hot", "0x4", "0:i64", "0x1", axis=1, reference=zeros_of(0, 4)),
        op("take_multi", "Nx4", "0:i64", axes=[0], reference=zeros_of(0, 4)),
        op("set_multi", "Nx4", "0x4", "0:i64", axes=[0], reference=lambda x, u, i: x),
        op("add_multi", "Nx4", "0x4", "0:i64", axes=[0], reference=lambda x, u, i: x),
        op("scatter_nd", "Nx4", "0x1:i64", "0x4", kind="add", reference=lambda x, i, u: x),
        op("embedding", "Nx4", "0:i64", reference=zeros_of(0, 4)),
        op("bwd.cumsum", "0xN", results="0xN", axis=1, reference=zeros_of(0, 3)),
        op("bwd.cumprod", "0xN", "0xN", axis=1, reference=zeros_of(0, 3)),
        op("bwd.gather", "0x4", "0:i64", results="Nx4", axis=0, reference=zeros_of(3, 4)),
        op("bwd.put_along_axis", "0x4", "0x4:i64", results="Nx4", axis=0, reference=zeros_of(3, 4)),
        op("bwd.indexing_one_hot", "0x1", "0:i64", results="0x4", axis=1, reference=zeros_of(0, 4)),
        op("bwd.take_multi", "0x4", "0:i64", results="Nx4", axes=[0], reference=zeros_of(3, 4)),
        op("squeeze", "", axes=[], reference=lambda x: x),
    ]


SAMPLES = empty()
