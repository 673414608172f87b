"""Keys, values, queries and cotangents as the attention kernels read them.

Transposed keys: [batch, key heads, blocks, features, keys in a block], so that a register tile holds scores of many keys; a key that
holds inf or NaN becomes NaN as a whole where there is a mask (it must give NaN to the queries that attend to it). Rows:
[batch, heads, blocks, positions in a block, width]. What does not exist is 0. Flags say which blocks hold inf or NaN.
"""

from __future__ import annotations

from gradopt.ir.sizes import Size
from gradopt.ir.types import UI8
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch
from gradopt.lowering.codegen.library.attention_shape import Shape, Strides, load_text
from gradopt.lowering.codegen.library.source import Source, blocks, element_of, temporary, times

SIDE = 16  # of the blocks that are transposed in registers


def _begin(source: Source, heads: int, positions: Size, block: int, number: Size, strides: Strides) -> str:
    """Lines that decode a point: b, h, block, first, count and where the operand's rows begin; gives the rows' stride."""
    n_blocks, n_positions = source.size(number), source.size(positions)
    batch, head, position = source.size(strides.batch), source.size(strides.head), source.size(strides.position)
    source.line("for point in range(lo, hi):")
    source.depth += 1
    source.add(f"""
        rest = index_divide(point, {n_blocks})
        block = point - rest * {n_blocks}
        b = index_divide(rest, {heads})
        h = rest - b * {heads}
        first = block * {block}
        count = minimum({block}, {n_positions} - first)
        from_ = b * {batch} + h * {head} + first * {position}
    """)
    return position


def _launch(source: Source, batch: Size, heads: int, number: Size, vectorise: bool = True) -> Launch:
    source.depth = 1
    extent = times(batch, heads, number)
    return source.launch(extent, blocks(extent, 64, 2), vectorise)


def flags(shape: Shape) -> Value:
    """Memory for a flag for each block of keys."""
    return temporary((shape.batch, shape.key_heads, shape.key_blocks), UI8)


def transposed(shape: Shape) -> Value:
    """Memory for transposed keys or values."""
    return temporary((shape.batch, shape.key_heads, shape.key_blocks, shape.features, shape.key_block), shape.element)


def rows(shape: Shape, heads: int, number: Size, block: int) -> Value:
    """Memory for rows."""
    return temporary((shape.batch, heads, number, block, shape.width), shape.element)


def _bad(source: Source, value: Value, pointer: str, shape: Shape, position: str) -> None:
    """Lines that make `bad` NaN where the block holds inf or NaN: x * 0 is NaN for those alone."""
    kind = shape.kind
    source.add(f"""
        bad = {kind}(0.0)
        for i in range(0, count):
            for d in range(0, {shape.features}):
                bad = accumulate_add(bad, multiply({load_text(value, pointer, f'from_ + i * {position} + d', shape)}, {kind}(0.0)))
    """)


def pack_transposed(shape: Shape, value: Value, strides: Strides, target: Value, poison: bool) -> Launch:
    """Fills transposed keys (or values); `poison` makes NaN of those that hold inf or NaN."""
    source = Source()
    x, out = source.pointer(value), source.pointer(target)
    position = _begin(source, shape.key_heads, shape.keys, shape.key_block, shape.key_blocks, strides)
    block, features, kind = shape.key_block, shape.features, shape.kind
    source.line(f"to = point * {features * block}")
    plain_from = "0"
    in_registers = element_of(value) is shape.element and features % SIDE == 0
    if in_registers:
        plain_from = "whole"
        source.add(f"""
            whole = index_divide(count, {SIDE}) * {SIDE}
            for i in range(0, whole, {SIDE}):
                for d in range(0, {features}, {SIDE}):
                    transpose_{kind}({SIDE}, {SIDE}, offset({x}, from_ + i * {position} + d), {position}, offset({out}, to + d * {block}
                    + i), {block})
        """)
    source.add(f"""
        for i in range({plain_from}, count):
            for d in range(0, {features}):
                store({out}, to + d * {block} + i, {load_text(value, x, f'from_ + i * {position} + d', shape)})
        for d in range(0, {features}):
            for i in range(count, {block}):
                store({out}, to + d * {block} + i, {kind}(0.0))
    """)
    if poison:
        _bad(source, value, x, shape, position)
        _poison(source, out, shape)
    return _launch(source, shape.batch, shape.key_heads, shape.key_blocks, vectorise=not in_registers)


def _poison(source: Source, out: str, shape: Shape) -> None:
    source.add(f"""
        if is_nan(bad):
            for i in range(0, count):
                bad = {shape.kind}(0.0)
                for d in range(0, {shape.features}):
                    bad = add(bad, multiply(load({out}, to + d * {shape.key_block} + i), {shape.kind}(0.0)))
                for d in range(0, {shape.features}):
                    store({out}, to + d * {shape.key_block} + i, add(load({out}, to + d * {shape.key_block} + i), bad))
    """)


def pack_rows(shape: Shape, value: Value, heads: int, positions: Size, block: int, number: Size, strides: Strides,
              target: Value | None,
              scale: float = 1.0, flag: Value | None = None) -> Launch:
    """Fills rows (times `scale`) and, if wanted, the flags; without a target only the flags."""
    source = Source()
    x = source.pointer(value)
    out = "" if target is None else source.pointer(target)
    flagged = "" if flag is None else source.pointer(flag)
    position = _begin(source, heads, positions, block, number, strides)
    if out:
        loaded = load_text(value, x, f"from_ + i * {position} + d", shape)
        if scale != 1.0:
            loaded = f"multiply({loaded}, {shape.kind}({scale!r}))"
        source.add(f"""
            to = point * {block * shape.width}
            for i in range(0, count):
                for d in range(0, {shape.features}):
                    store({out}, to + i * {shape.width} + d, {loaded})
                for d in range({shape.features}, {shape.width}):
                    store({out}, to + i * {shape.width} + d, {shape.kind}(0.0))
            for i in range(count * {shape.width}, {block * shape.width}):
                store({out}, to + i, {shape.kind}(0.0))
        """)
    if flagged:
        _bad(source, value, x, shape, position)
        source.line(f"store({flagged}, point, select(is_nan(bad), ui8(1), ui8(0)))")
    return _launch(source, shape.batch, heads, number)


