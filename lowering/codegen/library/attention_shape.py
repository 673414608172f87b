"""What the attention kernels share: sizes, strides of the layouts, block sizes, and the blocks of keys that a block of queries meets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradopt.dialects.hl.neural.attention import mask_kind_of
from gradopt.ir.sizes import Size, ceildiv, multiply
from gradopt.ir.types import F32, F64, Type
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library.source import Source, dims_of, element_of, times
from gradopt.lowering.codegen.scalars import converted
from gradopt.lowering.native.registers import registers

__all__ = ["Shape", "Strides", "load_text", "shape_of"]

BLOCK = 64  # queries, and keys, in a block
ROWS = 16  # a block of queries is a multiple of it: so many rows are turned into vectors at a time


@dataclass(frozen=True)
class Strides:
    """Of an operand: batch, head, position (features are dense)."""

    batch: Size
    head: Size
    position: Size


@dataclass(frozen=True)
class Shape:
    """The sizes of one attention op. `features` is head_dim, `width` that rounded up to whole tiles."""

    batch: Size
    heads: int
    key_heads: int
    queries: Size
    keys: Size
    features: int
    width: int
    query_block: int
    key_block: int
    lanes: int
    rows: int
    key_vectors: int
    feature_vectors: int
    element: Type

    @property
    def groups(self) -> int:
        """Query heads for each key head."""
        return self.heads // self.key_heads

    @property
    def query_blocks(self) -> Size:
        """Their number."""
        return ceildiv(self.queries, self.query_block)

    @property
    def key_blocks(self) -> Size:
        """Their number."""
        return ceildiv(self.keys, self.key_block)

    @property
    def kind(self) -> str:
        """The kernel type that is computed in."""
        return self.element.text


def shape_of(op: Any) -> Shape:
    """The sizes of an attention op or its adjoint."""
    batch, key_heads, queries, keys = op.check_heads(op.q, op.k, op.v)
    assert isinstance(key_heads, int)
    element = F64 if element_of(op.q) is F64 else F32
    register = registers(8 if element is F64 else 4)
    lanes = register.lanes
    features = op.head_dim
    vectors = -(-features // lanes)
    pair = 2 if vectors > 1 else 1
    vectors = -(-vectors // pair) * pair
    rows = 8 if register.sums >= 20 else 4
    step = lanes * 2
    key_block = min(BLOCK, -(-keys // step) * step) if isinstance(keys, int) and keys > 0 else BLOCK
    query_block = min(BLOCK, -(-queries // ROWS) * ROWS) if isinstance(queries, int) and queries > 0 else BLOCK
    return Shape(batch, op.num_heads, key_heads, queries, keys, features, vectors * lanes, query_block, key_block, lanes,
                 rows, 2, pair,
                 element)


def strides_of(op: Any, heads: int, positions: Size) -> Strides:
    """Where the elements of an operand with that many heads stand in the op's layout."""
    width = op.head_dim
    if op.layout == "BHSD":
        return Strides(times(heads, positions, width), multiply(positions, width), width)
    return Strides(times(heads, positions, width), width, heads * width)


def mask_strides(op: Any) -> tuple[Size, Size, Size, Size]:
    """Strides of the mask or bias along batch, heads, queries, keys (0 where it is broadcast)."""
    dims, kind = dims_of(op.mask_or_bias), mask_kind_of(op)
    if kind == "BK":
        return dims[1], 0, 0, 1
    if kind == "QK":
        return 0, 0, dims[1], 1
    strides: list[Size] = [0 if dims[axis] == 1 else times(*dims[axis + 1:]) for axis in range(4)]
    return strides[0], strides[1], strides[2], strides[3]


def load_text(value: Value, pointer: str, place: str, shape: Shape) -> str:
    """An element of an operand as a number of the type that is computed in."""
    return converted(f"load({pointer}, {place})", element_of(value), shape.element)


class Keys:
    """Lines about which keys a query attends to, shared by both directions."""

    def __init__(self, op: Any, shape: Shape, source: Source) -> None:
        self.op, self.shape, self.source = op, shape, source
        self.kind = op.mask_kind
        self.by_row = self.kind in ("custom", "bias")
        self.queries, self.keys = source.size(shape.queries), source.size(shape.keys)
        self.cut = source.scratch(shape.kind, shape.key_block)
        if self.by_row:
            self.mask = source.pointer(op.mask_or_bias)
            self.strides = [source.size(stride) for stride in mask_strides(op)]

    def key_range(self) -> None:
        """Lines that set first_kb and last_kb, the blocks of keys that queries q0 … q0 + nq - 1 may attend to."""
        block = self.shape.key_block
        self.source.line("first_kb = 0")
        self.source.line(f"last_kb = index_divide({self.keys} + {block - 1}, {block})")
        if self.kind in ("causal", "sliding_window"):
            self.source.line(f"last_kb = minimum(last_kb, floor_divide(q0 + nq - 1 + {self.keys} - {self.queries}, {block}) + 1)")
        if self.kind == "sliding_window":
            self.source.line(f"first_kb = maximum(0, floor_divide(q0 + {self.keys} - {self.queries} - {self.op.window}, {block}))")

    def query_range(self) -> None:
        """Lines that set first_qb and last_qb, the blocks of queries that may attend to keys k0 … k0 + nk - 1."""
        block = self.shape.query_block
        self.source.line("first_qb = 0")
        self.source.line(f"last_qb = index_divide({self.queries} + {block - 1}, {block})")
        if self.kind in ("causal", "sliding_window"):
            self.source.line(f"first_qb = maximum(0, floor_divide(k0 - {self.keys} + {self.queries}, {block}))")
        if self.kind == "sliding_window":
            self.source.line(f"last_qb = minimum(last_qb, floor_divide(k0 + nk - 1 - {self.keys} + {self.queries} + {self.op.window}, {block}) + 1)")

    def edge(self) -> None:
        """A line that sets `edge`: whether some key of the block is cut off from some query of the block."""
        tests = [f"nk < {self.shape.key_block}"]
        if self.by_row:
            tests = ["nk >= 0"]
        if self.kind in ("causal", "sliding_window"):
            tests.append(f"k0 + nk - 1 > q0 + {self.keys} - {self.queries}")
        if self.kind == "sliding_window":
            tests.append(f"k0 < q0 + nq - 1 + {self.keys} - {self.queries} - {self.op.window}")
        self.source.line(f"edge = {' or '.join(tests)}")

    def cut_row(self) -> None:
        """Lines that set the row `cut` for query q0 + r: what is added to each score, -inf for a key that is cut off."""
        source, kind, block = self.source, self.shape.kind, self.shape.key_block
        source.add("""
            low = 0
            high = nk
        """)
        if self.kind in ("causal", "sliding_window"):
            source.line(f"high = minimum(nk, q0 + r + {self.keys} - {self.queries} - k0 + 1)")
        if self.kind == "sliding_window":
            source.line(f"low = maximum(0, q0 + r + {self.keys} - {self.queries} - {self.op.window} - k0)")
        if not self.by_row:
            source.add(f"""
                for j in range(0, {block}):
                    store({self.cut}, j, select(j >= low and j < high, {kind}(0.0), {kind}(-INFINITY)))
            """.replace("j >= low and j < high", "bit_and(ge(j, low), lt(j, high))"))
            return
        b, h, q, k = self.strides
        element = f"load({self.mask}, row + j * {k})"
        if self.kind == "custom":
            element = f"select({element}, {kind}(0.0), {kind}(-INFINITY))"
        else:
            element = converted(element, element_of(self.op.mask_or_bias), self.shape.element)
        source.add(f"""
            row = b * {b} + h * {h} + (q0 + r) * {q} + k0 * {k}
            for j in range(0, nk):
                store({self.cut}, j, {element})
            for j in range(nk, {block}):
                store({self.cut}, j, {kind}(-INFINITY))
        """)
