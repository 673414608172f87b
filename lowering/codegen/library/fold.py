"""The kernel of `prim.fold`: the rows of windows are read in order and added to a block of planes that stays in the cache."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.prim.linear import window_size
from gradopt.ir.sizes import Size, ceildiv, product
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.scatter import convert
from gradopt.lowering.codegen.library.source import Source, accumulation_element, blocks, dims_of, element_of, literal, temporary, times

PLANES_BYTES = 1 << 17  # of the planes in a block


def _channel_block(dims: tuple[Size, ...], itemsize: int) -> int:
    plane = product([dims[2], dims[3], itemsize])
    if not isinstance(plane, int) or not isinstance(dims[1], int):
        return 4
    return min(max(1, PLANES_BYTES // max(plane, 1)), max(dims[1], 1))


@library("prim.fold")
def fold(op: Any) -> list[Launch]:
    """A point is a block of channels of one image."""
    out = op.results[0]
    dims, element = dims_of(out), element_of(out)
    wide = accumulation_element(element)
    target = out if wide is element else temporary(dims, wide)
    images, channels, height, width = dims
    counts = [window_size(size, op.kernel[a], op.padding[a][0], op.padding[a][1], op.strides[a], 1, op.dilation[a]) for a, size in enumerate(dims[2:])]
    block = _channel_block(dims, wide.storage_bytes)
    number = ceildiv(channels, block)
    kh, kw = op.kernel
    (top, _), (left, _) = op.padding
    source = Source()
    y, x = source.pointer(op.y), source.pointer(target)
    c, h, w, ho, wo, n = (source.size(size) for size in (channels, height, width, *counts, number))
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            image = index_divide(point, {n})
            first = (point - image * {n}) * {block}
            last = minimum(first + {block}, {c})
            for z in range((image * {c} + first) * {h} * {w}, (image * {c} + last) * {h} * {w}):
                store({x}, z, {literal(0, wide)})
            for p in range(0, {ho}):
                for q in range(0, {wo}):
                    row = ((image * {ho} + p) * {wo} + q) * {c}
                    for ch in range(first, last):
                        plane = (image * {c} + ch) * {h}
                        for i in range(0, {kh}):
                            r = p * {op.strides[0]} + i * {op.dilation[0]} - {top}
                            if r >= 0 and r < {h}:
                                for j in range(0, {kw}):
                                    s = q * {op.strides[1]} + j * {op.dilation[1]} - {left}
                                    if s >= 0 and s < {w}:
                                        place = (plane + r) * {w} + s
                                        store({x}, place, add(load({x}, place), load({y}, ((row + ch) * {kh} + i) * {kw} + j)))
        """)
    extent = times(images, number)
    launches = [source.launch(extent, blocks(extent, 64, 1))]
    return launches if target is out else [*launches, convert(target, out)]
