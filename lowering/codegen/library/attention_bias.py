"""The gradient of attention's bias: the rows of dS that the backward kernel has anyway, summed to the bias's shape.

A bias as large as the scores has one writer for each element. One that is repeated along an axis is added up: what one point of the
backward kernel walks over is added in place, in its order; points that would meet in an element write copies, whose number follows from
the shape alone, and the copies are added in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradopt.dialects.hl.neural.attention import mask_kind_of
from gradopt.ir.sizes import Size, ceildiv, multiply
from gradopt.lowering.codegen.library import Launch
from gradopt.lowering.codegen.library.attention_shape import Shape, mask_strides
from gradopt.lowering.codegen.library.source import Source, blocks, dims_of, element_of, temporary, times
from gradopt.lowering.codegen.scalars import converted

MOST_PARTS = 4
WANTED_POINTS = 8
BATCH, HEADS, QUERIES, KEYS = range(4)


@dataclass(frozen=True)
class Split:
    """How the backward kernel is cut into points: batch b belongs to slot b mod `batches`, key head h to h mod `heads`, block of keys k
    to k mod `parts`. Without a bias that is repeated, each batch and key head is a slot of its own."""

    batches: Size
    heads: int
    parts: int


def reduced_axes(op: Any, shape: Shape) -> frozenset[int]:
    """The axes of the scores that the wanted gradient of a bias is summed over."""
    if 3 not in op.wrt:
        return frozenset()
    dims = dims_of(op.mask_or_bias)
    if mask_kind_of(op) == "QK":
        dims = (1, 1, *dims)
    whole = (shape.batch, shape.heads, shape.queries, shape.keys)
    return frozenset(axis for axis, (size, full) in enumerate(zip(dims, whole)) if size == 1 and full != 1)


def split_of(op: Any, shape: Shape) -> Split:
    """Some points for the threads: batch, key heads, then parts of the keys, then slots of what a bias is repeated along."""
    reduced, number = reduced_axes(op, shape), shape.key_blocks
    batches: Size = 1 if BATCH in reduced else shape.batch
    heads = 1 if HEADS in reduced else shape.key_heads
    own = multiply(batches, heads)
    if not isinstance(own, int):
        return Split(batches, heads, 1)
    wanted = -(-WANTED_POINTS // max(own, 1))
    parts = max(1, min(MOST_PARTS, wanted, number)) if isinstance(number, int) else 1
    wanted = -(-wanted // parts)
    if HEADS in reduced:
        heads = min(wanted, shape.key_heads)
        wanted = -(-wanted // heads)
    if BATCH in reduced:
        batches = max(1, min(wanted, shape.batch)) if isinstance(shape.batch, int) else wanted
    return Split(batches, heads, parts)


class BiasGradient:
    """Where dS goes, and the launches around the backward kernel."""

    def __init__(self, op: Any, shape: Shape, split: Split) -> None:
        self.op, self.shape, self.split = op, shape, split
        self.result = op.results[op.wrt.index(3)]
        self.element = element_of(self.result)
        self.reduced = reduced_axes(op, shape)
        self.count: Size = times(*dims_of(self.result))
        self.copies: Size = times(split.batches if BATCH in self.reduced else 1, split.heads if HEADS in self.reduced else 1,
                                  split.parts if KEYS in self.reduced else 1)
        direct = not self.reduced or (self.copies == 1 and self.element is shape.element)
        self.target = self.result if direct else temporary((self.copies, *dims_of(self.result)), shape.element)

    def before(self) -> list[Launch]:
        """Zeros where values are added up."""
        if not self.reduced:
            return []
        source = Source()
        out = source.pointer(self.target)
        with source.loop("point", "hi", "lo"):
            source.line(f"store({out}, point, {self.shape.kind}(0.0))")
        extent = multiply(self.copies, self.count)
        return [source.launch(extent, blocks(extent, 64, 4096))]

    def after(self) -> list[Launch]:
        """The copies added in order, in the bias's element type."""
        if self.target is self.result:
            return []
        source = Source()
        given, out = source.pointer(self.target), source.pointer(self.result)
        count, copies = source.size(self.count), source.size(self.copies)
        value = converted("total", self.shape.element, self.element)
        with source.loop("first", "hi", "lo"):
            source.line(f"last = minimum({count}, first * 16 + 16)")
            with source.loop("i", "last", "first * 16"):
                source.line(f"total = load({given}, i)")
                with source.loop("copy", copies, "1"):
                    source.line(f"total = add(total, load({given}, copy * {count} + i))")
                source.line(f"store({out}, i, {value})")
        extent = ceildiv(self.count, 16)
        return [source.launch(extent, blocks(extent, 64, 256))]

    def begin(self, source: Source) -> None:
        """What the backward kernel needs before its first loop."""
        self.source, self.out = source, source.pointer(self.target)
        self.strides = [source.size(stride) for stride in mask_strides(self.op)]
        self.step = source.size(self.count)
        self.row = source.scratch(self.shape.kind, self.shape.key_block) if self.op.softcap is not None else ""

    def start(self) -> None:
        """Lines that find the point's copy."""
        slots = [(self.split.heads, "slot_h", HEADS), (self.split.parts, "part", KEYS)]
        copy = "slot_b" if BATCH in self.reduced else "0"
        for number, name, axis in slots:
            if axis in self.reduced and number > 1:
                copy = f"({copy}) * {number} + {name}"
        self.source.line(f"copy_at = ({copy}) * {self.step}")

    def add_row(self, row: str, at: str) -> None:
        """Lines for query q0 + r, whose dS lies in `row` from `at` on (0 for keys that do not exist)."""
        source, kind = self.source, self.shape.kind
        b, h, q, k = self.strides
        source.line(f"bias_at = copy_at + b * {b} + h * {h} + (q0 + r) * {q} + k0 * {k}")
        if KEYS in self.reduced:
            source.add(f"""
                total = {kind}(0.0)
                for j in range(0, {self.shape.key_block}):
                    total = accumulate_add(total, load({row}, {at} + j))
                store({self.out}, bias_at, add(load({self.out}, bias_at), total))
            """)
            return
        value = f"load({row}, {at} + j)"
        if self.reduced:
            value = f"add(load({self.out}, bias_at + j), {value})"
        else:
            value = converted(value, self.shape.element, self.element)
        with source.loop("j", "nk"):
            source.line(f"store({self.out}, bias_at + j, {value})")
