"""Matrix products by register tiles: C = A B, with A or B transposed in memory, as routines that kernels call.

    sproduct14(context, trans_a, trans_b, m, n, k, a, lda, b, ldb, c, ldc, scratch)

The number is the height R of the tile, R x W sums kept in registers (registers.py).  Blocks of A are packed as
[tile][k][R] and blocks of B as [panel][k][W], so that a tile reads both from front to back (Goto and van de Geijn,
Anatomy of high-performance matrix multiplication, 2008); sums beyond the edges are made of what lies there by chance and
never stored.
A routine is a kernel like any other, compiled once a machine and called through the context's table of routines, so
that the kernels that call it stay small.  A product of many rows that a caller cuts into chunks packs B in each chunk.

The order of the sums depends on k alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gradopt.lowering.native.context import PRODUCT_HEIGHTS
from gradopt.lowering.native.program import KernelSource
from gradopt.lowering.native.registers import registers

__all__ = ["calls", "height", "routine", "scratch_elements"]

VECTORS = 2
"""Vectors in a row of a tile."""
DEPTH = 256
"""Steps of k that are packed at once."""
PANELS = 4
"""Panels of B that are packed at once: with a block of A they fill a good part of a second-level cache."""
MOST_TILES = 10
"""Tiles of A that are packed at once."""
WORTH_ANOTHER = 1.03
"""From which ratio of costs on another height than the largest is chosen: each is a routine that must be compiled."""
TILE_OVERHEAD = 3
"""What a step of a tile costs beside its products, in products."""

_CALLS = re.compile(r"\b([sd])product(\d+)\(")


def highest(size: int) -> int:
    """The largest height of a tile for elements of `size` bytes."""
    return min(registers(size).sums // VECTORS, PRODUCT_HEIGHTS[-1])


def height(rows: int | None, size: int) -> int:
    """The height of the tiles for a product of `rows` rows (None: not known): the one that wastes least, the larger of equals."""
    most = highest(size)
    if rows is None:
        return most
    heights = range(most, max(most // 2, PRODUCT_HEIGHTS[0]) - 1, -1)
    cost = {h: -(-rows // h) * (h * VECTORS + TILE_OVERHEAD) for h in heights}
    return most if cost[most] <= WORTH_ANOTHER * min(cost.values()) else min(cost, key=cost.__getitem__)


def panel_width(size: int) -> int:
    """Columns of a tile."""
    return VECTORS * registers(size).lanes


def scratch_elements(size: int) -> int:
    """Elements of scratch that a routine needs, whatever its height."""
    most = highest(size)
    return DEPTH * (MOST_TILES * most + PANELS * panel_width(size)) + most * panel_width(size)


def calls(kernels: Iterable[KernelSource]) -> list[str]:
    """The names of the routines that kernels call, sorted."""
    return sorted({match.group(0)[:-1] for kernel in kernels for match in _CALLS.finditer(kernel.source)})


def routine(name: str) -> KernelSource:
    """The kernel behind a name such as `sproduct14`: operands a, b, c; parameters as in the call, without the pointers."""
    kind, rows = name[0], int(name.removeprefix(name[0] + "product"))
    return KernelSource(name, _text("f32" if kind == "s" else "f64", rows, 4 if kind == "s" else 8), vectorise=False)


def _text(element: str, height: int, size: int) -> str:
    """The kernel: for each block of A and of B, both are packed and the tiles computed."""
    panels, packed = PANELS * panel_width(size), MOST_TILES * height
    offset_b = DEPTH * packed * size
    offset_c = offset_b + DEPTH * panels * size
    return f"""def kernel(lo, hi, context):
    a = pointer_{element}(context, 0)
    b = pointer_{element}(context, 1)
    c = pointer_{element}(context, 2)
    transposed_a = parameter(context, 0)
    transposed_b = parameter(context, 1)
    m = parameter(context, 2)
    n = parameter(context, 3)
    k = parameter(context, 4)
    lda = parameter(context, 5)
    ldb = parameter(context, 6)
    ldc = parameter(context, 7)
    pa = scratch_{element}(context, 0, 0)
    pb = scratch_{element}(context, {offset_b}, 1)
    pc = scratch_{element}(context, {offset_c}, 2)
    for m0 in range(0, m, {packed}):
        rows = minimum({packed}, m - m0)
        for k0 in range(0, maximum(k, 1), {DEPTH}):
            depth = minimum({DEPTH}, k - k0)
            whole = depth - index_modulo(depth, {_side(size)})
            full = rows - index_modulo(rows, {height})
{_pack_left(element, height, size)}
            for n0 in range(0, n, {panels}):
                columns = minimum({panels}, n - n0)
{_pack_right(element, size)}
{_tiles(element, height, size)}
    return 0
"""


def _side(size: int) -> int:
    """Lines that are transposed at once."""
    return min(registers(size).lanes, 16)


def _moved(call: str, element: str, size: int, source: str, target: str, indent: int) -> str:
    """Lines that move the vectors of a row of a tile; `source` and `target` are calls of `offset` up to their last addition."""
    lanes = registers(size).lanes
    return "\n".join(f"{'    ' * indent}{call}_{element}(1, {lanes}, {source} + {v * lanes}), 0, {target} + {v * lanes}), 0)"
                     for v in range(VECTORS))


def _pack_left(element: str, height: int, size: int) -> str:
    """Lines that pack a block of A, tile after tile."""
    side = _side(size)
    return f"""            if transposed_a == 0:
                for i in range(0, full, {height}):
                    for x in range(0, whole, {side}):
                        at = (m0 + i) * lda + k0 + x
                        transpose_{element}({height}, {side}, offset(a, at), lda, offset(pa, i * {DEPTH} + x * {height}), {height})
                    for x in range(whole, depth):
                        for r in range(0, {height}):
                            store(pa, i * {DEPTH} + x * {height} + r, load(a, (m0 + i + r) * lda + k0 + x))
                for r in range(0, rows - full):
                    for x in range(0, depth):
                        store(pa, full * {DEPTH} + x * {height} + r, load(a, (m0 + full + r) * lda + k0 + x))
            else:
                for x in range(0, depth):
                    for i in range(0, full, {height}):
                        move_{element}(1, {height}, offset(a, (k0 + x) * lda + m0 + i), 0, offset(pa, i * {DEPTH} + x * {height}), 0)
                    for r in range(0, rows - full):
                        store(pa, full * {DEPTH} + x * {height} + r, load(a, (k0 + x) * lda + m0 + full + r))"""


def _pack_right(element: str, size: int) -> str:
    """Lines that pack a block of B, panel after panel."""
    width, side = panel_width(size), _side(size)
    transposes = "\n".join(
        f"                            transpose_{element}({side}, {side}, offset(b, (n0 + p + {j}) * ldb + k0 + x), ldb, "
        f"offset(pb, p * {DEPTH} + x * {width} + {j}), {width})" for j in range(0, width, side))
    return f"""                even = columns - index_modulo(columns, {width})
                if transposed_b == 0:
                    for x in range(0, depth):
                        for p in range(0, even, {width}):
{_moved("move", element, size, "offset(b, (k0 + x) * ldb + n0 + p", f"offset(pb, p * {DEPTH} + x * {width}", 7)}
                        for j in range(even, columns):
                            store(pb, even * {DEPTH} + x * {width} + j - even, load(b, (k0 + x) * ldb + n0 + j))
                else:
                    for p in range(0, even, {width}):
                        for x in range(0, whole, {side}):
{transposes}
                        for x in range(whole, depth):
                            for j in range(0, {width}):
                                store(pb, p * {DEPTH} + x * {width} + j, load(b, (n0 + p + j) * ldb + k0 + x))
                    for j in range(even, columns):
                        for x in range(0, depth):
                            store(pb, even * {DEPTH} + x * {width} + j - even, load(b, (n0 + j) * ldb + k0 + x))"""


def _tiles(element: str, height: int, size: int) -> str:
    """Lines that compute the tiles of two packed blocks and write them to C, or add them to it after the first block of k."""
    lanes, width = registers(size).lanes, panel_width(size)

    def tile(vectors: int) -> str:
        return (f"tile_{element}({height}, 1, {vectors}, {lanes}, 0, depth, 1, 1, 1, offset(pa, i * {DEPTH}), {height}, 0, 0, 0, 1, 0, "
                f"offset(pb, p * {DEPTH}), {width}, 0, 0, 0, {lanes}, pc, {width}, 0, {lanes})")

    return f"""                for p in range(0, columns, {width}):
                    across = minimum({width}, columns - p)
                    for i in range(0, rows, {height}):
                        if across > {lanes}:
                            {tile(VECTORS)}
                        else:
                            {tile(1)}
                        down = minimum({height}, rows - i)
                        at = (m0 + i) * ldc + n0 + p
                        if across < {width}:
                            if k0 == 0:
                                for r in range(0, down):
                                    for j in range(0, across):
                                        store(c, at + r * ldc + j, load(pc, r * {width} + j))
                            else:
                                for r in range(0, down):
                                    for j in range(0, across):
                                        store(c, at + r * ldc + j, add(load(c, at + r * ldc + j), load(pc, r * {width} + j)))
                        elif k0 == 0:
                            for r in range(0, down):
{_moved("move", element, size, f"offset(pc, r * {width}", "offset(c, at + r * ldc", 8)}
                        else:
                            for r in range(0, down):
{_moved("increase", element, size, f"offset(pc, r * {width}", "offset(c, at + r * ldc", 8)}"""
