"""Ops that compute nothing: how an element of the result is found among the elements of the operands.

`VIEWS[op name](op, index, reader)` returns the node of the element at `index` (one index expression a dimension), asking the
reader for elements of operands. The reader keeps the guard under which loads are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.sizes import Size, add, multiply, subtract
from gradopt.ir.types import I64, TensorType
from gradopt.lowering.fuse.expression import Node
from gradopt.lowering.fuse.index import bounds, divide, modulo, reshape_index

if TYPE_CHECKING:
    from gradopt.lowering.fuse.reading import Reader

Indices = Sequence[Size]
View = Callable[[Any, Indices, "Reader"], Node]
VIEWS: dict[str, View] = {}


def view(*names: str) -> Callable[[View], View]:
    """Registers the reading rule of ops."""
    def register(rule: View) -> View:
        VIEWS.update(dict.fromkeys(names, rule))
        return rule
    return register


def _type(value: Any) -> TensorType:
    type = value.type
    assert isinstance(type, TensorType)
    return type


@view("prim.shape_cast", "prim.stop_gradient", "prim.copy", "prim.contiguous")
def same(op: Any, index: Indices, reader: Reader) -> Node:
    return reader.read(op.x, index)


@view("prim.reshape")
def reshape(op: Any, index: Indices, reader: Reader) -> Node:
    inner = reshape_index(index, reader.dims(op.results[0]), reader.dims(op.x), reader.ranges)
    return reader.read(op.x, inner)


@view("prim.permute")
def permute(op: Any, index: Indices, reader: Reader) -> Node:
    inner: list[Size] = [0] * len(index)
    for position, axis in enumerate(op.axes):
        inner[axis] = index[position]
    return reader.read(op.x, inner)


@view("prim.expand")
def expand(op: Any, index: Indices, reader: Reader) -> Node:
    spread = set(op.axes)
    own = iter([i for axis, (i, size) in enumerate(zip(index, reader.dims(op.results[0]))) if axis not in spread and size != 1])
    return reader.read(op.x, [0 if size == 1 else next(own, 0) for size in reader.dims(op.x)])


@view("prim.flip")
def flip(op: Any, index: Indices, reader: Reader) -> Node:
    dims = reader.dims(op.x)
    return reader.read(op.x, [subtract(add(dims[axis], -1), i) if axis in op.axes else i for axis, i in enumerate(index)])


@view("prim.slice")
def slice_(op: Any, index: Indices, reader: Reader) -> Node:
    inner = []
    for size, i, begin, stride in zip(reader.dims(op.x), index, op.begin, op.strides):
        low = add(size, begin) if begin < 0 else begin
        inner.append(add(multiply(i, stride), low))
    return reader.read(op.x, inner)


def inside(reader: Reader, index: Size, size: Size) -> Node | None:
    """The guard 0 <= index < size; None where it always holds."""
    graph = reader.graph
    low, high = bounds(index, reader.ranges)
    guard: Node | None = None
    if low is None or low < 0:
        guard = graph.compare("ge", graph.index(index), graph.index(0))
    if high is None or not isinstance(size, int) or high >= size:
        guard = graph.both(guard, graph.compare("lt", graph.index(index), graph.index(size)))
    return guard


@view("prim.pad")
def pad(op: Any, index: Indices, reader: Reader) -> Node:
    graph = reader.graph
    guard: Node | None = None
    inner: list[Size] = []
    for size, i, low, interior in zip(reader.dims(op.x), index, op.low, op.interior):
        shifted = subtract(i, low)
        guard = graph.both(guard, inside(reader, shifted, add(multiply(size, interior + 1), -interior) if interior else size))
        if interior:
            # the guard holds for non-negative positions only, where rounding down is exact
            step = modulo(shifted, interior + 1, reader.ranges)
            if step != 0:
                guard = graph.both(guard, graph.compare("eq", graph.index(step), graph.index(0)))
            shifted = divide(shifted, interior + 1, reader.ranges)
        inner.append(shifted)
    if guard is None:
        return reader.read(op.x, inner)
    return graph.select(guard, reader.read(op.x, inner, guard), reader.read(op.value, []))


@view("prim.concat")
def concat(op: Any, index: Indices, reader: Reader) -> Node:
    graph, axis = reader.graph, op.axis
    starts: list[Size] = [0]
    for value in op.operands:
        starts.append(add(starts[-1], reader.dims(value)[axis]))
    result: Node | None = None
    for value, start, end in reversed(list(zip(op.operands, starts, starts[1:]))):
        if reader.dims(value)[axis] == 0:
            continue
        inner = [subtract(i, start) if position == axis else i for position, i in enumerate(index)]
        guard = inside(reader, inner[axis], reader.dims(value)[axis])
        part = reader.read(value, inner, guard)
        result = part if result is None else graph.select(graph.compare("lt", graph.index(index[axis]), graph.index(end)), part, result)
    return result if result is not None else graph.literal(0, _type(op.results[0]).element)


@view("prim.constant")
def constant(op: Any, index: Indices, reader: Reader) -> Node:
    elements: DenseElementsAttr = op.value
    element = elements.type.element
    if not elements.is_splat and elements.data:
        return reader.load(op.results[0], index)
    bits = int.from_bytes(elements.data, "little")
    return reader.graph.literal_bits(bits if element.is_float else element.wrap(bits), element)


@view("prim.iota")
def iota(op: Any, index: Indices, reader: Reader) -> Node:
    return reader.cast(reader.graph.index(index[op.axis]), _type(op.results[0]).element)


@view("prim.dim")
def dim(op: Any, index: Indices, reader: Reader) -> Node:
    return reader.graph.index(reader.dims(op.x)[op.axis])


def resolve(reader: Reader, indices: Any, position: Indices, size: Size, mode: str) -> tuple[Size, Node | None]:
    """(index expression, guard or None) of the index that `indices` holds at `position`, by the rules of `prim.gather`."""
    graph = reader.graph
    raw = reader.cast(reader.read(indices, position), I64)
    extent, zero = graph.index(size), graph.index(0)
    if isinstance(size, int) and size == 0:
        return 0, graph.literal_bits(0, reader.truth)
    if not getattr(_type(indices).element, "is_unsigned", False):
        raw = graph.select(graph.compare("lt", raw, zero), graph.prim("add", raw, extent), raw)
    if mode == "wrap":
        rest = graph.prim("rem", raw, extent)
        wrapped = graph.select(graph.compare("lt", rest, zero), graph.prim("add", rest, extent), rest)
        return reader.bounded(wrapped, size), None
    clipped = graph.prim("min", graph.prim("max", raw, zero), graph.index(add(size, -1)))
    guard = graph.compare("eq", clipped, raw) if mode in ("fill", "nan") else None
    return reader.bounded(clipped, size), guard


def missing(reader: Reader, mode: str, element: Any) -> Node:
    """What an index out of range reads."""
    return reader.graph.literal(float("nan") if mode == "nan" else 0, element)


@view("prim.gather")
def gather(op: Any, index: Indices, reader: Reader) -> Node:
    axis, count = op.axis, _type(op.indices).rank
    at, guard = resolve(reader, op.indices, index[axis:axis + count], reader.dims(op.x)[axis], op.mode)
    inner = [*index[:axis], at, *index[axis + count:]]
    found = reader.read(op.x, inner, guard)
    return found if guard is None else reader.graph.select(guard, found, missing(reader, op.mode, _type(op.x).element))


@view("prim.gather_nd")
def gather_nd(op: Any, index: Indices, reader: Reader) -> Node:
    batch = _type(op.indices).rank - 1
    depth = _type(op.indices).dims[-1]
    assert isinstance(depth, int)
    guard: Node | None = None
    inner: list[Size] = []
    for axis in range(depth):
        at, valid = resolve(reader, op.indices, [*index[:batch], axis], reader.dims(op.x)[axis], op.mode)
        inner.append(at)
        guard = reader.graph.both(guard, valid)
    found = reader.read(op.x, [*inner, *index[batch:]], guard)
    return found if guard is None else reader.graph.select(guard, found, missing(reader, op.mode, _type(op.x).element))


def clamped_start(reader: Reader, start: Any, size: Size, taken: Size) -> Size:
    """The start of a block of `taken` elements, clamped to [0, size - taken], as an index."""
    graph = reader.graph
    raw = reader.cast(reader.read(start, []), I64)
    limit = subtract(size, taken)
    if limit == 0:
        return 0
    clamped = graph.prim("min", graph.prim("max", raw, graph.index(0)), graph.index(limit))
    return reader.bounded(clamped, add(limit, 1))


@view("prim.dynamic_slice")
def dynamic_slice(op: Any, index: Indices, reader: Reader) -> Node:
    inner = [add(i, clamped_start(reader, start, size, taken))
             for i, start, size, taken in zip(index, op.starts, reader.dims(op.x), op.sizes)]
    return reader.read(op.x, inner)


@view("prim.dynamic_update_slice")
def dynamic_update_slice(op: Any, index: Indices, reader: Reader) -> Node:
    graph = reader.graph
    guard: Node | None = None
    inner: list[Size] = []
    for i, start, size, taken in zip(index, op.starts, reader.dims(op.x), reader.dims(op.update)):
        shifted = subtract(i, clamped_start(reader, start, size, taken))
        inner.append(shifted)
        guard = graph.both(guard, inside(reader, shifted, taken))
    new = reader.read(op.update, inner, guard)
    return new if guard is None else graph.select(guard, new, reader.read(op.x, index))


@view("prim.unfold")
def unfold(op: Any, index: Indices, reader: Reader) -> Node:
    from gradopt.dialects.prim.linear import window_size
    from gradopt.lowering.fuse.index import delinearize

    graph = reader.graph
    dims = reader.dims(op.x)
    counts = [window_size(dims[a + 2], op.kernel[a], op.padding[a][0], op.padding[a][1], op.strides[a], 1, op.dilation[a])
              for a in range(2)]
    row = delinearize(index[0], [dims[0], *counts], reader.ranges)
    column = delinearize(index[1], [dims[1], *op.kernel], reader.ranges)
    guard: Node | None = None
    place: list[Size] = []
    for a in range(2):
        at = add(add(multiply(row[a + 1], op.strides[a]), multiply(column[a + 1], op.dilation[a])), -op.padding[a][0])
        guard = graph.both(guard, inside(reader, at, dims[a + 2]))
        place.append(at)
    found = reader.read(op.x, [row[0], column[0], *place], guard)
    return found if guard is None else graph.select(guard, found, graph.literal(0, _type(op.x).element))
