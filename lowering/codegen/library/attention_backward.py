"""The kernel of attention's adjoint: blocks of keys walk over blocks of queries; scores are made again from the log-sum-exp.

P = exp(S - lse), dP = dy v^T, dS = P * (dP - rowsum(dy * y)); dv = P^T dy, dk = dS^T (scale * q), dq = scale * dS k. A chunk owns some
blocks of keys of one key head (all its query heads), so dk and dv have one writer; each part of the keys adds up a dq of its own, and
those are added in order. The gradient of a bias is dS (attention_bias.py).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from gradopt.ir.sizes import Size, ceildiv
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.attention import careful_product, packed_strides
from gradopt.lowering.codegen.library.attention_bias import BATCH, HEADS, BiasGradient, Split, reduced_axes, split_of
from gradopt.lowering.codegen.library.attention_pack import flags, pack_rows, pack_transposed, rows, transposed
from gradopt.lowering.codegen.library.attention_shape import Keys, Shape, load_text, shape_of, strides_of
from gradopt.lowering.codegen.library.source import Source, blocks, element_of, temporary, times
from gradopt.lowering.codegen.scalars import converted


class Inputs:
    """What the main kernel reads, and the launches that make it."""

    def __init__(self, op: Any, shape: Shape) -> None:
        masked = op.mask_kind != "none"
        queries, keys = strides_of(op, shape.heads, shape.queries), strides_of(op, shape.key_heads, shape.keys)
        self.q, self.dy = (rows(shape, shape.heads, shape.query_blocks, shape.query_block) for _ in range(2))
        self.delta = temporary((shape.batch, shape.heads, shape.query_blocks, shape.query_block), shape.element)
        self.kt, self.vt = transposed(shape), transposed(shape)
        self.flags = flags(shape) if masked and 0 in op.wrt else None
        self.k, self.k_strides = op.k, keys
        packed: Value | None = None
        if 0 in op.wrt and (element_of(op.k) is not shape.element or shape.width != shape.features):
            self.k = packed = rows(shape, shape.key_heads, shape.key_blocks, shape.key_block)
            self.k_strides = packed_strides(shape, shape.key_heads, shape.key_blocks, shape.key_block)
        self.launches = [
            pack_rows(shape, op.q, shape.heads, shape.queries, shape.query_block, shape.query_blocks, queries, self.q, op.score_scale),
            pack_rows(shape, op.dy, shape.heads, shape.queries, shape.query_block, shape.query_blocks, queries, self.dy),
            row_products(op, shape, self.dy, self.delta),
            pack_transposed(shape, op.k, keys, self.kt, masked), pack_transposed(shape, op.v, keys, self.vt, masked)]
        if packed is not None or self.flags is not None:
            self.launches.append(pack_rows(shape, op.k, shape.key_heads, shape.keys, shape.key_block, shape.key_blocks, keys, packed,
                                           flag=self.flags))


def row_products(op: Any, shape: Shape, dy: Value, delta: Value) -> Launch:
    """rowsum(dy * y) for each query. A point is a block of queries."""
    source = Source()
    strides = strides_of(op, shape.heads, shape.queries)
    given, y, out = source.pointer(dy), source.pointer(op.y), source.pointer(delta)
    number, queries = source.size(shape.query_blocks), source.size(shape.queries)
    b, h, s = (source.size(stride) for stride in (strides.batch, strides.head, strides.position))
    block, kind = shape.query_block, shape.kind
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            rest = index_divide(point, {number})
            q0 = (point - rest * {number}) * {block}
            b = index_divide(rest, {shape.heads})
            h = rest - b * {shape.heads}
            for i in range(0, minimum({block}, {queries} - q0)):
                from_ = b * {b} + h * {h} + (q0 + i) * {s}
                at = (point * {block} + i) * {shape.width}
                total = {kind}(0.0)
                for d in range(0, {shape.features}):
                    total = accumulate_add(total, multiply(load({given}, at + d), {load_text(op.y, y, 'from_ + d', shape)}))
                store({out}, point * {block} + i, total)
        """)
    extent = times(shape.batch, shape.heads, shape.query_blocks)
    return source.launch(extent, blocks(extent, 64, 2))


@library("kernel.attention_backward")
def attention_backward(op: Any) -> list[Launch]:
    """Packed operands, the blocks of keys, and dq and a bias's gradient from their parts."""
    shape = shape_of(op)
    inputs = Inputs(op, shape)
    split = split_of(op, shape)
    bias = BiasGradient(op, shape, split) if 3 in op.wrt else None
    dq = temporary((split.parts, shape.batch, shape.heads, shape.query_blocks, shape.query_block, shape.width), shape.element)
    launches = [*inputs.launches, *(bias.before() if bias else ()), _Backward(op, shape, inputs, split, dq, bias).launch()]
    if 0 in op.wrt:
        launches.append(collect(op, shape, split.parts, dq))
    return [*launches, *(bias.after() if bias else ())]


def collect(op: Any, shape: Shape, parts: int, dq: Value) -> Launch:
    """dq: the sum of its parts times the scale. A point is a block of queries."""
    source = Source()
    result = op.results[op.wrt.index(0)]
    strides = strides_of(op, shape.heads, shape.queries)
    given, out = source.pointer(dq), source.pointer(result)
    number, queries = source.size(shape.query_blocks), source.size(shape.queries)
    b, h, s = (source.size(stride) for stride in (strides.batch, strides.head, strides.position))
    block, kind = shape.query_block, shape.kind
    step = source.size(times(shape.batch, shape.heads, shape.query_blocks, block, shape.width))
    total = f"load({given}, at + d)"
    for part in range(1, parts):
        total = f"add({total}, load({given}, at + {part} * {step} + d))"
    value = converted(f"multiply({total}, {kind}({op.score_scale!r}))", shape.element, element_of(result))
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            rest = index_divide(point, {number})
            q0 = (point - rest * {number}) * {block}
            b = index_divide(rest, {shape.heads})
            h = rest - b * {shape.heads}
            for i in range(0, minimum({block}, {queries} - q0)):
                to = b * {b} + h * {h} + (q0 + i) * {s}
                at = (point * {block} + i) * {shape.width}
                for d in range(0, {shape.features}):
                    store({out}, to + d, {value})
        """)
    extent = times(shape.batch, shape.heads, shape.query_blocks)
    return source.launch(extent, blocks(extent, 64, 2))


class _Backward:
    """Writes the main kernel."""

    def __init__(self, op: Any, shape: Shape, inputs: Inputs, split: Split, dq: Value, bias: BiasGradient | None) -> None:
        self.op, self.shape, self.split, self.bias = op, shape, split, bias
        source = self.source = Source()
        source.line("keep_loops()")
        self.q, self.dy, self.delta, self.kt, self.vt, self.lse = (source.pointer(value) for value in (
            inputs.q, inputs.dy, inputs.delta, inputs.kt, inputs.vt, op.lse))
        self.outputs = {index: source.pointer(result) for index, result in zip(op.wrt, op.results) if index in (1, 2)}
        if 0 in op.wrt:
            self.k, self.dq = source.pointer(inputs.k), source.pointer(dq)
            self.k_strides = [source.size(stride) for stride in (
                inputs.k_strides.batch, inputs.k_strides.head, inputs.k_strides.position)]
            self.part_step = source.size(times(shape.batch, shape.heads, shape.query_blocks, shape.query_block, shape.width))
        self.flags = "" if inputs.flags is None else source.pointer(inputs.flags)
        self.rules = Keys(op, shape, source)
        self.query_blocks, self.key_blocks = source.size(shape.query_blocks), source.size(shape.key_blocks)
        strides = strides_of(op, shape.key_heads, shape.keys)
        self.out_strides = [source.size(stride) for stride in (strides.batch, strides.head, strides.position)]
        block, keys, width, kind = shape.query_block, shape.key_block, shape.width, shape.kind
        self.s, self.t = (source.scratch(kind, block * keys) for _ in range(2))
        self.sums = {index: source.scratch(kind, keys * width) for index in self.outputs}
        self.batch, self.slots = source.size(shape.batch), source.size(split.batches)
        if bias is not None:
            bias.begin(source)

    def launch(self) -> Launch:
        """A point is a slot of the batch, one of the key heads, and a part of the blocks of keys."""
        source, split = self.source, self.split
        reduced = reduced_axes(self.op, self.shape)
        with source.loop("point", "hi", "lo"), ExitStack() as loops:
            source.add(f"""
                rest = index_divide(point, {split.parts})
                part = point - rest * {split.parts}
                slot_b = index_divide(rest, {split.heads})
                slot_h = rest - slot_b * {split.heads}
            """)
            if self.bias is not None:
                self.bias.start()
            for name, slot, end, step, several in (("b", "slot_b", self.batch, self.slots, BATCH in reduced),
                                                   ("hk", "slot_h", self.shape.key_heads, split.heads, HEADS in reduced)):
                source.line(f"{name} = {slot}")
                if several:
                    loops.enter_context(source.steps(name, str(end), str(step)))
            self._head()
        extent: Size = times(split.batches, split.heads, split.parts)
        return source.launch(extent, 1 if isinstance(extent, int) and extent <= 256 else ceildiv(extent, 256))

    def _head(self) -> None:
        """A part of the blocks of keys of one key head."""
        source, shape = self.source, self.shape
        block, width = shape.query_block, shape.width
        if 0 in self.op.wrt:
            source.add(f"""
                to = part * {self.part_step} + (b * {shape.heads} + hk * {shape.groups}) * {self.query_blocks} * {block * width}
                for i in range(to, to + {shape.groups * block * width} * {self.query_blocks}):
                    store({self.dq}, i, {shape.kind}(0.0))
            """)
        source.line("kb = part")
        with source.steps("kb", self.key_blocks, str(self.split.parts)):
            self._keys()

    def _keys(self) -> None:
        """One block of keys: its sums over all queries that may attend to it."""
        source, shape = self.source, self.shape
        block, width = shape.query_block, shape.width
        source.add(f"""
            k0 = kb * {shape.key_block}
            nk = minimum({shape.key_block}, {self.rules.keys} - k0)
            place = (b * {shape.key_heads} + hk) * {self.key_blocks} + kb
            kp = place * {shape.features * shape.key_block}
        """)
        for sums in self.sums.values():
            source.add(f"""
                for i in range(0, {shape.key_block * width}):
                    store({sums}, i, {shape.kind}(0.0))
            """)
        self.rules.query_range()
        with source.loop("g", str(shape.groups)):
            source.line(f"h = hk * {shape.groups} + g")
            with source.loop("qb", "last_qb", "first_qb"):
                source.add(f"""
                    q0 = qb * {block}
                    nq = minimum({block}, {self.rules.queries} - q0)
                    line = ((b * {shape.heads} + h) * {self.query_blocks} + qb) * {block}
                    qp = line * {width}
                """)
                self._pair()
        b, h, s = self.out_strides
        for index, sums in self.sums.items():
            result = self.op.results[self.op.wrt.index(index)]
            value = converted(f"load({sums}, i * {width} + d)", shape.element, element_of(result))
            source.add(f"""
                to = b * {b} + hk * {h} + k0 * {s}
                for i in range(0, nk):
                    for d in range(0, {shape.features}):
                        store({self.outputs[index]}, to + i * {s} + d, {value})
            """)

    def _pair(self) -> None:
        """One block of queries against the block of keys."""
        source, shape = self.source, self.shape
        block, kind = shape.key_block, shape.kind
        for rows_, columns, target in ((self.q, self.kt, self.s), (self.dy, self.vt, self.t)):
            source.add(f"""
                for i in range(0, {shape.query_block}, {shape.rows}):
                    for j in range(0, {block}, {shape.lanes * shape.key_vectors}):
                        tile_{kind}(1, {shape.rows}, {shape.key_vectors}, {shape.lanes}, 0, 1, 1, 1, {shape.features}, offset({rows_}, qp + i * {shape.width}), 0, 0, 0, 1, 0, {shape.width}, offset({columns}, kp + j), 0, 0, 0, {block}, {shape.lanes}, offset({target}, i * {block} + j), 0, {block}, {shape.lanes})
            """)
        self.rules.edge()
        with source.loop("r", "nq"):
            source.line(f"at = r * {block}")
            source.line(f"lse = load({self.lse}, (b * {shape.heads} + h) * {self.rules.queries} + q0 + r)")
            source.line(f"delta = load({self.delta}, line + r)")
            with source.block("if edge"):
                self.rules.cut_row()
                self._row(True)
            with source.block("else"):
                self._row(False)
            if self.bias is not None:
                self.bias.add_row(*((self.bias.row, "0") if self.bias.row else (self.t, "at")))
        if 2 in self.sums:
            self._keys_product(self.s, self.dy, self.sums[2])
        if 1 in self.sums:
            self._keys_product(self.t, self.q, self.sums[1])
        if 0 in self.op.wrt:
            self._queries_product()

    def _row(self, edge: bool) -> None:
        """P in place of the scores, dS in place of dP."""
        source, kind = self.source, self.shape.kind
        with source.loop("j", str(self.shape.key_block)):
            source.line(f"v = load({self.s}, at + j)")
            if self.op.softcap is not None:
                cap = f"{kind}({self.op.softcap!r})"
                source.line(f"w = divide(v, {cap})")
                source.line(f"v = multiply(tanh(w), {cap})")
                source.line(f"u = exp(multiply({kind}(-2.0), absolute(w)))")  # 4 u / (1 + u)^2 is 1 - tanh^2 with its tails
                source.line(f"w = divide({kind}(2.0), add({kind}(1.0), u))")
                source.line("u = multiply(u, multiply(w, w))")
            if edge:
                source.line(f"c = load({self.rules.cut}, j)")
                source.line("v = add(v, c)")
            source.line("p = exp(subtract(v, lse))")
            if edge:
                source.line(f"p = select(eq(c, {kind}(-INFINITY)), {kind}(0.0), p)")
            source.line(f"e = subtract(load({self.t}, at + j), delta)")
            zero = f"eq(p, {kind}(0.0))"
            if self.op.masked:
                zero = f"bit_or({zero}, eq(e, {kind}(0.0)))"
            if self.bias is not None and self.bias.row:  # the bias is added after the cap
                source.line(f"store({self.bias.row}, j, select({zero}, {kind}(0.0), multiply(p, e)))")
            source.line("e = multiply(p, e)" if self.op.softcap is None else "e = multiply(multiply(p, e), u)")
            source.line(f"store({self.t}, at + j, select({zero}, {kind}(0.0), e))")
            source.line(f"store({self.s}, at + j, p)")

    def _keys_product(self, weights: str, values: str, out: str) -> None:
        """out [keys, width] += weights^T values over the block's queries."""
        shape, kind, block, width = self.shape, self.shape.kind, self.shape.key_block, self.shape.width
        self.source.add(f"""
            for i in range(0, {block}, {shape.rows}):
                for d in range(0, {width}, {shape.lanes * shape.feature_vectors}):
                    tile_{kind}(1, {shape.rows}, {shape.feature_vectors}, {shape.lanes}, 1, 1, 1, 1, nq, offset({weights}, i), 0, 0, 0, {block}, 0, 1, offset({values}, qp + d), 0, 0, 0, {width}, {shape.lanes}, offset({out}, i * {width} + d), 0, {width}, {shape.lanes})
        """)

    def _queries_product(self) -> None:
        """dq [queries, width] += dS k."""
        source, shape = self.source, self.shape
        kind, block, width = shape.kind, shape.key_block, shape.width
        kb, kh, ks = self.k_strides
        source.line(f"from_ = b * {kb} + hk * {kh} + k0 * {ks}")
        source.line(f"to = part * {self.part_step} + qp")
        tiles = f"""
            for i in range(0, {shape.query_block}, {shape.rows}):
                for d in range(0, {width}, {shape.lanes * shape.feature_vectors}):
                    tile_{kind}(1, {shape.rows}, {shape.feature_vectors}, {shape.lanes}, 1, 1, 1, 1, nk, offset({self.t}, i * {block}), 0, 0, 0, 1, 0, {block}, offset({self.k}, from_ + d), 0, 0, 0, {ks}, {shape.lanes}, offset({self.dq}, to + i * {width} + d), 0, {width}, {shape.lanes})
        """
        if not self.flags:
            source.add(tiles)
            return
        with source.block(f"if eq(load({self.flags}, place), ui8(0))"):
            source.add(tiles)
        with source.block("else"):
            careful_product(source, shape, (self.t, block), (self.k, "from_", ks), f"offset({self.dq}, to)")
