"""The kernel of `prim.sort`: rows in parallel, each by a stable radix sort of (key, position), or by insertion where it is short.

A key becomes an unsigned number in the same order: floats by their bits (the sign decides whether all bits turn or one; -0 is made
0, so that equal keys stay in order; NaN is the greatest), signed integers by their sign bit, and all bits turned where the order
descends. Keys of up to 32 bits are sorted as the upper half of a word whose lower half is the position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradopt.ir.sizes import Size, ceildiv
from gradopt.ir.types import I1, I64, UI64, FloatType, IntegerType, Type
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.source import Source, blocks, dims_of, element_of, temporary, times, volume
from gradopt.lowering.codegen.scalars import value_type

SHORT_ROW = 40
MOST_CHUNKS = 16
LEAST_CHUNK = 1 << 10  # elements
DIGIT = 8
BUCKETS = 1 << DIGIT


def key_text(source: Source, value: str, element: Type, descending: bool) -> int:
    """Lines that set `u` (ui64) to a key's number; gives its bits."""
    if isinstance(element, FloatType):
        kind, bits = value_type(element), 64 if element.width == 64 else 32
        sign, full = 1 << (bits - 1), (1 << bits) - 1
        turned = f"bit_xor(w, ui{bits}({full if descending else 0}))"
        source.add(f"""
            x = {value}
            w = bitcast_ui{bits}(select(eq(x, {kind}(0.0)), {kind}(0.0), x))
            w = bit_xor(w, select(ge(w, ui{bits}({sign})), ui{bits}({full}), ui{bits}({sign})))
            u = ui64(select(is_nan(x), ui{bits}({full}), {turned}))
        """)
        return bits
    assert isinstance(element, IntegerType)
    bits = 8 if element is I1 else element.width
    if element is I1:
        number = f"select({value}, ui64(1), ui64(0))"
    elif element.is_unsigned:
        number = f"ui64({value})"
    else:
        number = f"ui64(bit_xor(bitcast_ui{bits}({value}), ui{bits}({1 << (bits - 1)})))"
    source.line(f"u = bit_xor({number}, ui64({(1 << bits) - 1 if descending else 0}))")
    return bits


@dataclass
class Row:
    """Names in the source of the arrays of one row: keys (packed with their positions, or alone), positions, and room for both."""

    key: str
    other_key: str
    order: str
    other_order: str
    size: str
    bits: int

    @property
    def packed(self) -> bool:
        """True where key and position share a word."""
        return self.bits <= 32


@library("prim.sort")
def sort(op: Any) -> list[Launch]:
    """One launch; a point is a row along the axis."""
    dims, axis = dims_of(op.key), op.axis
    outer, size, inner = volume(dims[:axis]), dims[axis], volume(dims[axis + 1:])
    rows = times(outer, inner)
    least = max(1, LEAST_CHUNK // max(size, 1)) if isinstance(size, int) else 1
    grain = blocks(rows, MOST_CHUNKS, least)
    chunks = ceildiv(rows, grain)
    wide = isinstance(element_of(op.key), (FloatType, IntegerType)) and element_of(op.key).width == 64  # type: ignore[attr-defined]
    source = Source()
    keys = source.pointer(temporary((chunks, 2, size), UI64))
    orders = source.pointer(temporary((chunks, 2, size), I64)) if wide else keys
    inputs = [source.pointer(value) for value in op.operands]
    outputs = [source.pointer(value) for value in op.results]
    n, n_inner = source.size(size), source.size(inner)
    counts = source.scratch("i64", 8 * BUCKETS)
    source.line(f"room = chunk(context) * 2 * {n}")
    with source.loop("point", "hi", "lo"):
        if inner == 1:
            source.line(f"start = point * {n}")
        else:
            source.line(f"a = index_divide(point, {n_inner})")
            source.line(f"start = a * {n} * {n_inner} + point - a * {n_inner}")
        row = Row("ka", "kb", "oa", "ob", n, 64 if wide else 32)
        source.add(f"""
            ka = offset({keys}, room)
            kb = offset({keys}, room + {n})
            oa = offset({orders}, room)
            ob = offset({orders}, room + {n})
        """)
        with source.loop("i", n):
            bits = key_text(source, f"load({inputs[0]}, start + i * {n_inner})", element_of(op.key), op.descending)
            if row.packed:
                source.line("store(ka, i, bit_or(shift_left(u, ui64(32)), ui64(i)))")
            else:
                source.line("store(ka, i, u)")
                source.line("store(oa, i, i)")
        _order(source, row, bits, counts, size)
        with source.loop("i", n):
            at = "i64(bit_and(load(ka, i), ui64(4294967295)))" if row.packed else "load(oa, i)"
            source.line(f"from_ = start + {at} * {n_inner}")
            for given, sorted_ in zip(inputs, outputs):
                source.line(f"store({sorted_}, start + i * {n_inner}, load({given}, from_))")
    return [source.launch(rows, grain)]


def _order(source: Source, row: Row, bits: int, counts: str, size: Size) -> None:
    """The row in order, in the first of its two places."""
    if isinstance(size, int):
        (_insertion if size <= SHORT_ROW else lambda s, r: _radix(s, r, bits, counts))(source, row)
        return
    with source.block(f"if {row.size} <= {SHORT_ROW}"):
        _insertion(source, row)
    with source.block("else"):
        _radix(source, row, bits, counts)


def _insertion(source: Source, row: Row) -> None:
    """Insertion sort; positions make packed words distinct, and a strict comparison keeps equal keys in order."""
    with source.loop("i", row.size, "1"):
        source.line("w1 = load(ka, i)")
        if not row.packed:
            source.line("o1 = load(oa, i)")
        source.line("j = i")
        with source.block("while j > 0 and gt(load(ka, j - 1), w1)"):
            source.line("store(ka, j, load(ka, j - 1))")
            if not row.packed:
                source.line("store(oa, j, load(oa, j - 1))")
            source.line("j = j - 1")
        source.line("store(ka, j, w1)")
        if not row.packed:
            source.line("store(oa, j, o1)")


def _radix(source: Source, row: Row, bits: int, counts: str) -> None:
    """Least digit first; one pass counts all digits, and a digit that is the same everywhere is passed over."""
    digits, base = bits // DIGIT, 32 if row.packed else 0

    def digit(word: str, number: int) -> str:
        return f"i64(bit_and(shift_right_logical({word}, ui64({base + number * DIGIT})), ui64({BUCKETS - 1})))"

    with source.loop("i", str(digits * BUCKETS)):
        source.line(f"store({counts}, i, 0)")
    with source.loop("i", row.size):
        source.line("w1 = load(ka, i)")
        for number in range(digits):
            source.line(f"d = {digit('w1', number)} + {number * BUCKETS}")
            source.line(f"store({counts}, d, load({counts}, d) + 1)")
    source.add("""
        kf = ka
        kt = kb
        of = oa
        ot = ob
    """)
    with source.loop("pass_", str(digits)):
        source.add(f"""
            shift = ui64({base} + pass_ * {DIGIT})
            table = pass_ * {BUCKETS}
            d = i64(bit_and(shift_right_logical(load(kf, 0), shift), ui64({BUCKETS - 1})))
            if load({counts}, table + d) == {row.size}:
                continue
            total = 0
            for i in range(table, table + {BUCKETS}):
                count = load({counts}, i)
                store({counts}, i, total)
                total = total + count
        """)
        with source.loop("i", row.size):
            source.add(f"""
                w1 = load(kf, i)
                d = table + i64(bit_and(shift_right_logical(w1, shift), ui64({BUCKETS - 1})))
                place = load({counts}, d)
                store({counts}, d, place + 1)
                store(kt, place, w1)
            """)
            if not row.packed:
                source.line("store(ot, place, load(of, i))")
        source.add("""
            kx = kf
            kf = kt
            kt = kx
            ox = of
            of = ot
            ot = ox
        """)
    source.line("ka = kf")
    source.line("oa = of")
