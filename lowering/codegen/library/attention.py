"""The kernel of attention: blocks of queries walk over blocks of keys and keep a running maximum and sum for each row.

(Online softmax: Milakov and Gimelshein 2018; tiles: Dao et al. 2022.) Scores exist for one block at a time, so memory is linear.
"""

from __future__ import annotations

from typing import Any

from gradopt.ir.sizes import Size
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.attention_pack import flags, pack_rows, pack_transposed, rows, transposed
from gradopt.lowering.codegen.library.attention_shape import Keys, Shape, Strides, load_text, shape_of, strides_of
from gradopt.lowering.codegen.library.source import Source, blocks, element_of, times
from gradopt.lowering.codegen.scalars import converted


@library("kernel.attention")
def attention(op: Any) -> list[Launch]:
    """Keys transposed, flags of the values, then the blocks of queries."""
    shape = shape_of(op)
    if 0 in (shape.batch, shape.queries):
        return []
    key_strides = strides_of(op, shape.key_heads, shape.keys)
    keys, masked = transposed(shape), op.mask_kind != "none"
    value_flags = flags(shape) if masked else None
    launches = [pack_transposed(shape, op.k, key_strides, keys, masked)]
    values, value_strides = op.v, key_strides
    native = element_of(op.v) is shape.element and shape.width == shape.features
    target = None
    if not native:
        values = target = rows(shape, shape.key_heads, shape.key_blocks, shape.key_block)
        value_strides = packed_strides(shape, shape.key_heads, shape.key_blocks, shape.key_block)
    if target is not None or value_flags is not None:
        launches.append(pack_rows(shape, op.v, shape.key_heads, shape.keys, shape.key_block, shape.key_blocks, key_strides, target,
                                  flag=value_flags))
    return [*launches, _Forward(op, shape, keys, values, value_strides, value_flags).launch()]


def packed_strides(shape: Shape, heads: int, number: Size, block: int) -> Strides:
    """The strides of packed rows."""
    return Strides(times(heads, number, block, shape.width), times(number, block, shape.width), shape.width)


class _Forward:
    """Writes the main kernel."""

    def __init__(self, op: Any, shape: Shape, keys: Value, values: Value, value_strides: Strides, value_flags: Value | None) -> None:
        self.op, self.shape = op, shape
        source = self.source = Source()
        source.line("keep_loops()")
        self.q, self.kt, self.v = (source.pointer(value) for value in (op.q, keys, values))
        self.flags = "" if value_flags is None else source.pointer(value_flags)
        self.y, self.lse = source.pointer(op.results[0]), source.pointer(op.results[1])
        self.rules = Keys(op, shape, source)
        self.query_blocks, self.key_blocks = source.size(shape.query_blocks), source.size(shape.key_blocks)
        strides = strides_of(op, shape.heads, shape.queries)
        self.q_strides = [source.size(stride) for stride in (strides.batch, strides.head, strides.position)]
        self.v_strides = [source.size(stride) for stride in (value_strides.batch, value_strides.head, value_strides.position)]
        block, keys_, width, kind = shape.query_block, shape.key_block, shape.width, shape.kind
        self.qs, self.s, self.o = (source.scratch(kind, count) for count in (block * width, block * keys_, block * width))
        self.m, self.l, self.base, self.factor = (source.scratch(kind, block) for _ in range(4))
        self.partial, self.turned = source.scratch(kind, block * shape.lanes), source.scratch(kind, 16 * shape.lanes)

    def launch(self) -> Launch:
        """A point is a block of queries of one head."""
        source, shape = self.source, self.shape
        with source.loop("point", "hi", "lo"):
            source.add(f"""
                rest = index_divide(point, {self.query_blocks})
                qb = point - rest * {self.query_blocks}
                b = index_divide(rest, {shape.heads})
                h = rest - b * {shape.heads}
                hk = index_divide(h, {shape.groups})
                q0 = qb * {shape.query_block}
                nq = minimum({shape.query_block}, {self.rules.queries} - q0)
            """)
            self._start()
            self.rules.key_range()
            with source.loop("kb", "last_kb", "first_kb"):
                self._block()
            self._finish()
        extent = times(shape.batch, shape.heads, shape.query_blocks)
        return source.launch(extent, blocks(extent, 128, 1))

    def _start(self) -> None:
        shape, kind, width = self.shape, self.shape.kind, self.shape.width
        b, h, s = self.q_strides
        loaded = load_text(self.op.q, self.q, f"from_ + i * {s} + d", shape)
        self.source.add(f"""
            from_ = b * {b} + h * {h} + q0 * {s}
            for i in range(0, nq):
                for d in range(0, {shape.features}):
                    store({self.qs}, i * {width} + d, multiply({loaded}, {kind}({self.op.score_scale!r})))
            for i in range(nq * {width}, {shape.query_block * width}):
                store({self.qs}, i, {kind}(0.0))
            for i in range(0, {shape.query_block * width}):
                store({self.o}, i, {kind}(0.0))
            for i in range(0, {shape.query_block}):
                store({self.m}, i, {kind}(-INFINITY))
                store({self.l}, i, {kind}(0.0))
        """)

    def _block(self) -> None:
        """Scores, their exponentials, and the weighted sum of the values, for one block of keys."""
        source, shape = self.source, self.shape
        block, width, kind = shape.key_block, shape.width, shape.kind
        source.add(f"""
            k0 = kb * {block}
            nk = minimum({block}, {self.rules.keys} - k0)
            place = (b * {shape.key_heads} + hk) * {self.key_blocks} + kb
            kp = place * {shape.features * block}
            for i in range(0, {shape.query_block}, {shape.rows}):
                for j in range(0, {block}, {shape.lanes * shape.key_vectors}):
                    tile_{kind}(1, {shape.rows}, {shape.key_vectors}, {shape.lanes}, 0, 1, 1, 1, {shape.features},
                                offset({self.qs}, i * {width}), 0, 0, 0, 1, 0, {width}, offset({self.kt}, kp + j), 0, 0, 0,
                                {block}, {shape.lanes}, offset({self.s}, i * {block} + j), 0, {block}, {shape.lanes})
        """)
        self._weights()
        self._values()

    def _values(self) -> None:
        """The weighted sum of the values. Where there is a mask, a value that is not finite counts as NaN, and a weight of 0 as nothing."""
        source, shape = self.source, self.shape
        block, width, kind = shape.key_block, shape.width, shape.kind
        vb, vh, vs = self.v_strides
        source.line(f"vp = b * {vb} + hk * {vh} + k0 * {vs}")
        tiles = f"""
            for i in range(0, {shape.query_block}, {shape.rows}):
                for d in range(0, {width}, {shape.lanes * shape.feature_vectors}):
                    tile_{kind}(1, {shape.rows}, {shape.feature_vectors}, {shape.lanes}, 1, 1, 1, 1, nk, offset({self.s}, i * {block}),
                    0, 0, 0, 1, 0, {block}, offset({self.v}, vp + d), 0, 0, 0, {vs}, {shape.lanes}, offset({self.o}, i * {width} + d), 0, {width}, {shape.lanes})
        """
        if not self.flags:
            source.add(tiles)
            return
        with source.block(f"if eq(load({self.flags}, place), ui8(0))"):
            source.add(tiles)
        with source.block("else"):
            careful_product(source, shape, (self.s, block), (self.v, "vp", vs), self.o)

    def _weights(self) -> None:
        """The block's scores become weights; what was summed before is scaled where the maximum rises."""
        self.rules.edge()
        with self.source.loop("r", "nq"):
            self._scores()
        self._maxima()
        self._exponentials()

    def _scores(self) -> None:
        """One row of scores: softcap, and what is cut off or added."""
        source, kind, block = self.source, self.shape.kind, self.shape.key_block
        source.line(f"at = r * {block}")
        if self.op.softcap is not None:
            cap = f"{kind}({self.op.softcap!r})"
            source.add(f"""
                for j in range(0, {block}):
                    store({self.s}, at + j, multiply(tanh(divide(load({self.s}, at + j), {cap})), {cap}))
            """)
        with source.block("if edge"):
            self.rules.cut_row()
            cut = f"load({self.rules.cut}, j)"
            source.add(f"""
                for j in range(0, {block}):
                    v = add(load({self.s}, at + j), {cut})
                    store({self.s}, at + j, select(eq({cut}, {kind}(-INFINITY)), {kind}(-INFINITY), v))
            """)

    def _maxima(self) -> None:
        """The rows' new maxima, by vectors: first over the columns that are `lanes` apart, then over transposed blocks of rows."""
        source, shape, kind = self.source, self.shape, self.shape.kind
        lanes, block = shape.lanes, shape.key_block
        largest = f"load({self.s}, r * {block} + i)"
        for first in range(lanes, block, lanes):
            largest = f"maximum({largest}, load({self.s}, r * {block} + {first} + i))"
        row = f"load({self.m}, r + i)"
        for lane in range(lanes):
            row = f"maximum({row}, load({self.turned}, {lane * 16} + i))"
        source.add(f"""
            for r in range(0, {shape.query_block}):
                for i in range(0, {lanes}):
                    store({self.partial}, r * {lanes} + i, {largest})
            for r in range(0, {shape.query_block}, 16):
                transpose_{kind}(16, {lanes}, offset({self.partial}, r * {lanes}), {lanes}, {self.turned}, 16)
                for i in range(0, 16):
                    old = load({self.m}, r + i)
                    new = {row}
                    base = select(eq(new, {kind}(-INFINITY)), {kind}(0.0), new)
                    store({self.m}, r + i, new)
                    store({self.base}, r + i, base)
                    store({self.factor}, r + i, select(eq(new, old), {kind}(1.0), exp(subtract(old, base))))
        """)

    def _exponentials(self) -> None:
        """Weights and their sums."""
        source, shape, kind = self.source, self.shape, self.shape.kind
        block, width = shape.key_block, shape.width
        source.add(f"""
            for r in range(0, nq):
                at = r * {block}
                base = load({self.base}, r)
                total = {kind}(0.0)
                for j in range(0, {block}):
                    p = exp(subtract(load({self.s}, at + j), base))
                    total = accumulate_add(total, p)
                    store({self.s}, at + j, p)
                factor = load({self.factor}, r)
                if ne(factor, {kind}(1.0)):
                    for d in range(0, {width}):
                        store({self.o}, r * {width} + d, multiply(load({self.o}, r * {width} + d), factor))
                store({self.l}, r, multiply_add(load({self.l}, r), factor, total))
        """)

    def _finish(self) -> None:
        shape, kind, width = self.shape, self.shape.kind, self.shape.width
        b, h, s = self.q_strides
        value = converted(f"multiply(load({self.o}, i * {width} + d), inverse)", shape.element, element_of(self.op.results[0]))
        self.source.add(f"""
            for i in range(0, nq):
                total = load({self.l}, i)
                inverse = {kind}(0.0)
                kept = {kind}(INFINITY)
                if ne(total, {kind}(0.0)):
                    inverse = divide({kind}(1.0), total)
                    kept = add(load({self.m}, i), log(total))
                store({self.lse}, (b * {shape.heads} + h) * {self.rules.queries} + q0 + i, kept)
                place = b * {b} + h * {h} + (q0 + i) * {s}
                for d in range(0, {shape.features}):
                    store({self.y}, place + d, {value})
        """)


def careful_product(source: Source, shape: Shape, weights: tuple[str, int], values: tuple[str, str, str], out: str) -> None:
    """Lines that add weights [nq, nk] times values [nk, features] to `out`, where a weight of 0 contributes nothing and a value that
    is not finite NaN."""
    (s, block), (v, start, stride), kind, width = weights, values, shape.kind, shape.width
    source.add(f"""
        for i in range(0, nq):
            for j in range(0, nk):
                p = load({s}, i * {block} + j)
                if ne(p, {kind}(0.0)):
                    for d in range(0, {shape.features}):
                        x = load({v}, {start} + j * {stride} + d)
                        x = add(x, multiply(x, {kind}(0.0)))
                        store({out}, i * {width} + d, multiply_add(p, x, load({out}, i * {width} + d)))
    """)
