"""Kernels of `prim.cumulative`: along a column block where the axis is not last, eight rows at a time or in blocks where it is.

Sums and products of 16-bit floats run in f32 and each element is rounded once.
"""

from __future__ import annotations

from typing import Any

from gradopt.dialects.prim.reduction import identity_of
from gradopt.ir.sizes import Size, ceildiv
from gradopt.ir.types import Type
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.source import (
    Source,
    accumulation_element,
    blocks,
    dims_of,
    element_of,
    literal,
    temporary,
    times,
    volume,
)
from gradopt.lowering.codegen.scalars import ACCUMULATE, value_type

COMBINE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
COLUMNS = 256  # running totals in scratch, one cache's worth of rows
LANES = 8  # rows that advance together, to hide the latency of each one's chain
LONG_ROW = 1 << 15  # a row from this length on is cut into blocks
MOST_BLOCKS = 16


@library("prim.cumulative")
def cumulative(op: Any) -> list[Launch]:
    """The launches."""
    dims, axis = dims_of(op.x), op.axis
    outer, size, inner = volume(dims[:axis]), dims[axis], volume(dims[axis + 1:])
    if inner != 1:
        return [_columns(op, outer, size, inner)]
    if isinstance(outer, int) and outer < 4 and isinstance(size, int) and size >= LONG_ROW:
        return _long_rows(op, outer, size)
    return [_rows(op, outer, size)]


def _identity(op: Any) -> str:
    element = element_of(op.x)
    return literal(identity_of(op.kind, element), accumulation_element(element))


def _position(op: Any, step: str, size: str) -> str:
    """The position of step t along the axis."""
    return f"{size} - 1 - {step}" if op.reverse else step


def _columns(op: Any, outer: Size, size: Size, inner: Size) -> Launch:
    source = Source()
    x, out = source.pointer(op.x), source.pointer(op.results[0])
    width = min(inner, COLUMNS) if isinstance(inner, int) else COLUMNS
    number = ceildiv(inner, max(width, 1))
    n_size, n_inner, n_blocks = source.size(size), source.size(inner), source.size(number)
    total = source.scratch(value_type(element_of(op.x)), max(width, 1))
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            a = index_divide(point, {n_blocks})
            left = (point - a * {n_blocks}) * {width}
            width = minimum({width}, {n_inner} - left)
            for z in range(0, width):
                store({total}, z, {_identity(op)})
        """)
        with source.loop("t", n_size):
            source.line(f"base = (a * {n_size} + {_position(op, 't', n_size)}) * {n_inner} + left")
            step = f"{COMBINE[op.kind]}(load({total}, z), load({x}, base + z))"
            with source.loop("z", "width"):
                if op.exclusive:
                    source.line(f"v = {step}")
                    source.line(f"store({out}, base + z, load({total}, z))")
                    source.line(f"store({total}, z, v)")
                else:
                    source.line(f"v = {step}")
                    source.line(f"store({total}, z, v)")
                    source.line(f"store({out}, base + z, v)")
    extent = times(outer, number)
    return source.launch(extent, blocks(extent, 64, 1))


def _advance(op: Any, source: Source, x: str, out: str, place: str, total: str) -> None:
    """One element of a running total."""
    step = f"{total} = {COMBINE[op.kind]}({total}, load({x}, {place}))"
    write = f"store({out}, {place}, {total})"
    source.line(write if op.exclusive else step)
    source.line(step if op.exclusive else write)


def _rows(op: Any, outer: Size, size: Size) -> Launch:
    source = Source()
    x, out = source.pointer(op.x), source.pointer(op.results[0])
    n_size = source.size(size)
    source.line("row = lo")
    with source.block(f"while row + {LANES} <= hi"):
        for lane in range(LANES):
            source.line(f"v{lane} = {_identity(op)}")
        with source.loop("t", n_size):
            source.line(f"place = row * {n_size} + {_position(op, 't', n_size)}")
            for lane in range(LANES):
                _advance(op, source, x, out, f"place + {lane} * {n_size}", f"v{lane}")
        source.line(f"row = row + {LANES}")
    with source.block("while row < hi"):
        source.line(f"v = {_identity(op)}")
        with source.loop("t", n_size):
            source.line(f"place = row * {n_size} + {_position(op, 't', n_size)}")
            _advance(op, source, x, out, "place", "v")
        source.line("row = row + 1")
    if isinstance(outer, int) and isinstance(size, int):
        rows = max(-(-outer // 64), -(-(1 << 13) // max(size, 1)), 1)
        grain: Size = -(-rows // LANES) * LANES if outer >= 4 * LANES else rows
    else:
        grain = blocks(outer, 32, LANES)
    return source.launch(outer, grain)


def _long_rows(op: Any, outer: int, size: int) -> list[Launch]:
    """Few long rows: totals of blocks, then each block from the total of the blocks before it."""
    block = -(-size // MOST_BLOCKS)
    number = -(-size // block)
    element: Type = accumulation_element(element_of(op.x))
    totals = temporary((outer, number), element)
    first = Source()
    x, sums = first.pointer(op.x), first.pointer(totals)
    with first.loop("point", "hi", "lo"):
        _block_bounds(first, size, block, number)
        first.add(f"""
            v = {_identity(op)}
            for t in range(begin, end):
                v = {ACCUMULATE[op.kind]}(v, load({x}, row + {_position(op, 't', str(size))}))
            store({sums}, point, v)
        """)
    second = Source()
    x, sums, out = second.pointer(op.x), second.pointer(totals), second.pointer(op.results[0])
    with second.loop("point", "hi", "lo"):
        _block_bounds(second, size, block, number)
        second.add(f"""
            v = {_identity(op)}
            for c in range(0, part):
                v = {COMBINE[op.kind]}(v, load({sums}, a * {number} + c))
        """)
        with second.loop("t", "end", "begin"):
            second.line(f"place = row + {_position(op, 't', str(size))}")
            _advance(op, second, x, out, "place", "v")
    return [first.launch(outer * number, 1), second.launch(outer * number, 1)]


def _block_bounds(source: Source, size: int, block: int, number: int) -> None:
    source.add(f"""
        a = index_divide(point, {number})
        part = point - a * {number}
        begin = part * {block}
        end = minimum(begin + {block}, {size})
        row = a * {size}
    """)
