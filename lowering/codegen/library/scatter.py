"""Kernels of `prim.scatter` and `prim.scatter_nd`: whoever owns a block of target rows applies the updates that fall into it, in order.

The target is [outer, rows, inner], the update [outer, count, inner]; a block of rows is copied from x (or filled) and updated
while it is in the cache. Sums and products of 16-bit floats are kept in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.ir.sizes import Size, ceildiv
from gradopt.ir.types import I1, IntegerType, Type
from gradopt.ir.values import Value
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
from gradopt.lowering.fuse.fill import fill_value

MOST_ROW_BLOCKS = 16
LEAST_INNER = 8
LEAST_BLOCK_ELEMENTS = 1 << 13
MOST_CHUNKS = 64
IN_PLACE = "kernel.in_place"  # marks an op whose result was given the memory of its first operand
COMBINE = {"add": "add", "max": "maximum", "min": "minimum", "mul": "multiply"}
COMBINE_I1 = {"add": "bit_or", "max": "bit_or", "min": "bit_and", "mul": "bit_and"}


def resolve_index(source: Source, name: str, value: str, element: Type, size: str, mode: str, otherwise: str) -> None:
    """Lines that set `name` to the row that an index means, or run `otherwise` where it is dropped (see `prim.gather`)."""
    if isinstance(element, IntegerType) and element.is_unsigned:
        if element.text == "ui64":  # what i64 cannot hold is out of range anyway
            value = f"minimum({value}, ui64({(1 << 63) - 1}))"
        source.line(f"{name} = i64({value})")
    else:
        source.line(f"{name} = {value}" if element.text == "i64" else f"{name} = i64({value})")
        source.add(f"""
            if {name} < 0:
                {name} = {name} + {size}
        """)
    if mode == "wrap":
        source.line(f"{name} = modulo({name}, {size})")
    elif mode in ("fill", "nan"):
        source.add(f"""
            if {name} < 0 or {name} >= {size}:
                {otherwise}
        """)
    else:
        source.line(f"{name} = minimum(maximum({name}, 0), {size} - 1)")


@library("prim.scatter")
def scatter(op: Any) -> list[Launch]:
    """Rows along one axis."""
    dims, axis = dims_of(op.x), op.axis
    sizes = (volume(dims[:axis]), dims[axis], volume(dims[axis + 1:]), volume(dims_of(op.indices)))
    element = element_of(op.indices)

    def row(source: Source, rows: str) -> None:
        indices = source.pointer(op.indices)
        resolve_index(source, "k", f"load({indices}, i)", element, rows, op.mode, "continue")

    return _launches(op, sizes, row, [op.indices])


@library("prim.scatter_nd")
def scatter_nd(op: Any) -> list[Launch]:
    """Rows at index vectors."""
    dims, index_dims = dims_of(op.x), dims_of(op.indices)
    depth = index_dims[-1]
    assert isinstance(depth, int)
    sizes = (1, volume(dims[:depth]), volume(dims[depth:]), volume(index_dims[:-1]))
    element = element_of(op.indices)

    def row(source: Source, rows: str) -> None:
        indices = source.pointer(op.indices)
        for axis in range(depth):
            resolve_index(source, f"k{axis}", f"load({indices}, i * {depth} + {axis})", element, source.size(dims[axis]), op.mode,
                          "continue")
        text = "0"
        for axis in range(depth):
            text = f"k{axis}" if axis == 0 else f"({text}) * {source.size(dims[axis])} + k{axis}"
        source.line(f"k = {text}")

    return _launches(op, sizes, row, [op.indices], [size for size in dims[:depth] if not isinstance(size, int)])


def _launches(op: Any, sizes: tuple[Size, Size, Size, Size], row: Any, before: Sequence[Value],
              names: Sequence[Size] = ()) -> list[Launch]:
    """The kernel; for 16-bit sums and products a copy in f32 that is rounded in the end."""
    element, out = element_of(op.x), op.results[0]
    wide = accumulation_element(element)
    rounded = wide is not element and op.kind in ("add", "mul")
    target = temporary(sizes[:3], wide) if rounded else out
    outer, rows, inner, count = sizes
    shape = _row_blocks(outer, rows, inner, count)
    launches = []
    if IN_PLACE in op.attributes and not rounded:  # the result lies where x lies: only the updates are written
        return [_kernel(op, sizes, shape, row, target, before, names, copied=True)]
    apart = outer == 1 and shape == (rows, inner) and (
        not isinstance(rows, int) or not isinstance(inner, int) or rows * inner > LEAST_BLOCK_ELEMENTS)
    if apart:  # one chunk applies the updates: at least the copy is made by all threads
        launches.append(convert(op.x, target))
    launches.append(_kernel(op, sizes, shape, row, target, before, names, apart))
    return [*launches, convert(target, out)] if rounded else launches


def convert(source_value: Value, target: Value) -> Launch:
    """Copies a value (or writes a fill), element by element, into one whose element type has the same kernel type."""
    source = Source()
    filled, out = fill_value(source_value), source.pointer(target)
    value = f"load({source.pointer(source_value)}, i)" if filled is None else literal(filled, element_of(source_value))
    with source.loop("i", "hi", "lo"):
        source.line(f"store({out}, i, {value})")
    count = volume(dims_of(target))
    return source.launch(count, blocks(count, MOST_CHUNKS, 1 << 14))


def _row_blocks(outer: Size, rows: Size, inner: Size, count: Size) -> tuple[Size, Size]:
    """(rows in a block, columns in a block): blocks fit a cache, and reading all indices for each of them costs little."""
    if isinstance(inner, int) and inner < LEAST_INNER:  # to find out who owns a row costs more than to update it
        return rows, inner
    if not (isinstance(rows, int) and isinstance(inner, int)):
        return blocks(rows, 8, 16), inner
    if isinstance(outer, int) and outer >= 16 and rows * inner <= 1 << 18:
        return rows, inner
    if not isinstance(count, int):
        return max(-(-rows // 8), 1), inner
    work = (rows + count) * inner
    if rows < 16 and inner >= 256 and work > 2 * LEAST_BLOCK_ELEMENTS:
        return rows, max(64, -(-inner // 512) * 64)
    number = min(MOST_ROW_BLOCKS, max(4, work // (8 * max(count, 1))), -(-work // LEAST_BLOCK_ELEMENTS), rows)
    return max(-(-rows // max(number, 1)), 1), inner


def _kernel(op: Any, sizes: tuple[Size, Size, Size, Size], shape: tuple[Size, Size], row: Any, target: Value,
            before: Sequence[Value], names: Sequence[Size], copied: bool) -> Launch:
    outer, rows, inner, count = sizes
    block_rows, block_columns = shape
    row_blocks, column_blocks = (ceildiv(size, 1 if block == 0 else block) for size, block in ((rows, block_rows), (inner, block_columns)))
    source = Source()
    filled = 0 if copied else fill_value(op.x)
    out, update = source.pointer(target), source.pointer(op.update)
    x = source.pointer(op.x) if filled is None else ""
    for value in before:
        source.pointer(value)
    n_rows, n_inner, n_count, n_block, n_columns, n_row_blocks, n_column_blocks = (
        source.size(size) for size in (rows, inner, count, block_rows, block_columns, row_blocks, column_blocks))
    for size in names:
        source.size(size)
    with source.loop("point", "hi", "lo"):
        _decode(source, n_row_blocks, n_column_blocks, n_columns, n_inner, column_blocks == 1)
        source.add(f"""
            first = block * {n_block}
            last = minimum(first + {n_block}, {n_rows})
        """)
        if not copied:
            _copy(source, out, x, filled, element_of(op.x), n_rows, n_inner, column_blocks == 1)
        with source.loop("i", n_count):
            row(source, n_rows)
            owned = source.block("if k >= first and k < last") if row_blocks != 1 else source.block("if i >= 0")
            with owned:
                _apply(source, op, out, update, n_rows, n_inner, n_count, inner == 1, column_blocks == 1)
    total = times(outer, row_blocks, column_blocks)
    return source.launch(total, blocks(total, MOST_CHUNKS, 1))


def _decode(source: Source, row_blocks: str, column_blocks: str, columns: str, inner: str, whole_rows: bool) -> None:
    if whole_rows:
        source.line("rest = point")
    else:
        source.add(f"""
            rest = index_divide(point, {column_blocks})
            left = (point - rest * {column_blocks}) * {columns}
            right = minimum(left + {columns}, {inner})
        """)
    if row_blocks == "1":
        source.add("a = rest\nblock = 0")
    else:
        source.add(f"""
            a = index_divide(rest, {row_blocks})
            block = rest - a * {row_blocks}
        """)


def _copy(source: Source, out: str, x: str, filled: float | int | None, element: Type, rows: str, inner: str,
          whole_rows: bool) -> None:
    """The block of x, into the target."""
    if whole_rows:
        value = f"load({x}, z)" if filled is None else literal(filled, element)
        source.add(f"""
            for z in range((a * {rows} + first) * {inner}, (a * {rows} + last) * {inner}):
                store({out}, z, {value})
        """)
        return
    value = f"load({x}, base + z)" if filled is None else literal(filled, element)
    source.add(f"""
        for r in range(first, last):
            base = (a * {rows} + r) * {inner}
            for z in range(left, right):
                store({out}, base + z, {value})
    """)


def _apply(source: Source, op: Any, out: str, update: str, rows: str, inner: str, count: str, single: bool,
           whole_rows: bool) -> None:
    """One row of the update."""
    source.add(f"""
        target = (a * {rows} + k) * {inner}
        origin = (a * {count} + i) * {inner}
    """)
    element = element_of(op.x)
    new = f"load({update}, origin + z)"
    if op.kind != "set":
        combine = (COMBINE_I1 if element is I1 else COMBINE)[op.kind]
        new = f"{combine}(load({out}, target + z), {new})"
    if single:
        source.line(f"store({out}, target, {new.replace(' + z', '')})")
        return
    begin, end = ("0", inner) if whole_rows else ("left", "right")
    source.add(f"""
        for z in range({begin}, {end}):
            store({out}, target + z, {new})
    """)


