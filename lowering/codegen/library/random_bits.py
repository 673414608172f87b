"""The kernel of `prim.random_bits`: Threefry-2x32 with 20 rounds, a vector of blocks at a time."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.prim.data import THREEFRY_ROTATIONS
from gradopt.ir.sizes import ceildiv
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.source import Source, blocks, dims_of, element_of, volume

LEAST_BLOCKS = 1 << 12


@library("prim.random_bits")
def random_bits(op: Any) -> list[Launch]:
    """A point is a block of two words: one ui64 element, or two ui32 elements."""
    out = op.results[0]
    count, wide = volume(dims_of(out)), element_of(out).text == "ui64"
    source = Source()
    key, bits = source.pointer(op.key), source.pointer(out)
    total = source.size(count)
    source.add(f"""
        key0 = load({key}, 0)
        key1 = load({key}, 1)
        key2 = bit_xor(bit_xor(key0, key1), ui32({0x1BD11BDA}))
    """)
    if wide:
        with source.loop("i", "hi", "lo"):
            _rounds(source)
            source.line(f"store({bits}, i, bit_or(ui64(a), shift_left(ui64(b), ui64(32))))")
        return [source.launch(count, blocks(count, 64, LEAST_BLOCKS))]
    source.line(f"whole = minimum(hi, index_divide({total}, 2))")
    with source.loop("i", "whole", "lo"):
        _rounds(source)
        source.line(f"store({bits}, 2 * i, a)")
        source.line(f"store({bits}, 2 * i + 1, b)")
    with source.loop("i", "hi", "whole"):  # the first word of the last block of an odd count
        _rounds(source)
        source.line(f"store({bits}, 2 * i, a)")
    extent = ceildiv(count, 2)
    return [source.launch(extent, blocks(extent, 64, LEAST_BLOCKS))]


def _rounds(source: Source) -> None:
    """Lines that set a and b to the words of block i."""
    source.line("a = add(ui32(i), key0)")
    source.line("b = add(ui32(shift_right_logical(i, 32)), key1)")
    for group in range(5):
        for rotation in THREEFRY_ROTATIONS[group % 2]:
            source.line("a = add(a, b)")
            source.line(f"b = bit_xor(bit_or(shift_left(b, ui32({rotation})), shift_right_logical(b, ui32({32 - rotation}))), a)")
        source.line(f"a = add(a, key{(group + 1) % 3})")
        source.line(f"b = add(add(b, key{(group + 2) % 3}), ui32({group + 1}))")
