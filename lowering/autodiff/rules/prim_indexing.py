"""Derivatives of gather and scatter, along an axis and by index vectors, for every kind and mode.

Both families share the rules: `Place` says how to read and write at the op's indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.sizes import UNKNOWN, Size, product
from gradopt.ir.types import I32, I64, Type, tensor
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import ForwardContext, ReverseContext
from gradopt.lowering.autodiff.helpers import (
    accumulation_element,
    cast_to,
    full_like,
    full_of,
    not_a_number,
    scalar,
    size_operands,
    size_value,
    zeros_like,
)
from gradopt.lowering.autodiff.registry import Gradients, Tangents, forward_rule, reverse_rule


class Place:
    """The indices of a gather or scatter: along `axis` of the operand, or as vectors over its first `depth` axes."""

    def __init__(self, b: Builder, op: Any) -> None:
        self.b, self.x, self.indices, self.mode = b, op.operands[0], op.operands[1], op.mode
        self.by_vectors = op.name.endswith("_nd")
        self.axis = 0 if self.by_vectors else op.axis
        self.depth = tensor_type(self.indices).dims[-1] if self.by_vectors else 1
        # reading with "nan" is for the caller's own values; inside the rules a dropped lane reads 0
        self.safe_mode = "fill" if self.mode == "nan" else self.mode

    @property
    def is_single(self) -> bool:
        """True for one index (vector), which nothing else can overwrite."""
        dims = tensor_type(self.indices).dims
        return all(size == 1 for size in (dims[:-1] if self.by_vectors else dims))

    @property
    def index_axes(self) -> list[int]:
        """The axes of an update (a gathered value) over which the indices run."""
        rank = tensor_type(self.indices).rank - self.by_vectors
        return list(range(self.axis, self.axis + rank))

    def read(self, x: Value, mode: str | None = None) -> Value:
        """What stands in `x` at the indices."""
        mode = mode or self.safe_mode
        if self.by_vectors:
            return self.b.prim.gather_nd(x, self.indices, mode=mode)
        return self.b.prim.gather(x, self.indices, axis=self.axis, mode=mode)

    def write(self, x: Value, update: Value, kind: str) -> Value:
        """`x` with `update` combined in at the indices."""
        if self.by_vectors:
            return self.b.prim.scatter_nd(x, self.indices, update, kind=kind, mode=self.safe_mode)
        return self.b.prim.scatter(x, self.indices, update, axis=self.axis, kind=kind, mode=self.safe_mode)

    def _flat(self, kind: str, target: Value, update: Value | None = None) -> Value:
        """Reads or writes a target that has the indexed axes only."""
        operands = [target, self.indices] if update is None else [target, self.indices, update]
        attributes: dict[str, Any] = {"mode": self.safe_mode} if update is None else {"mode": self.safe_mode, "kind": kind}
        if not self.by_vectors:
            attributes["axis"] = 0
        name = ("prim.gather" if update is None else "prim.scatter") + ("_nd" if self.by_vectors else "")
        return self.b.create(name, operands, **attributes).results[0]

    def indexed_dims(self) -> tuple[list[Size], list[int]]:
        """The sizes of the operand's indexed axes, and which axes they are."""
        axes = list(range(self.depth)) if self.by_vectors else [self.axis]  # type: ignore[arg-type]
        return [tensor_type(self.x).dims[axis] for axis in axes], axes

    def indexed(self, value: int) -> Value:
        """i64 `value` over the operand's indexed axes only."""
        dims, axes = self.indexed_dims()
        return full_of(self.b, value, dims, size_operands(self.b, self.x, axes), I64)

    def counter(self) -> Value:
        """i64, one number a written slice (the indices' shape), in the order in which they are written."""
        type = tensor_type(self.indices)
        dims = type.dims[:-1] if self.by_vectors else type.dims
        sizes = size_operands(self.b, self.indices, range(len(dims)))
        return row_major(self.b, self.indices, dims, sizes)

    def position(self) -> Value:
        """i64, one number a slice: 1 + where it reads or writes, equal for equal places; 0 where it is dropped."""
        dims, axes = self.indexed_dims()
        places = row_major(self.b, self.x, dims, size_operands(self.b, self.x, axes), axes)
        places = self.b.prim.add(places, full_like(self.b, places, 1, I64))
        return self._flat("", places)

    def last_writers(self) -> Value:
        """i1 over the indices' shape: which slice is the last one written to its place."""
        number = self.counter()
        latest = self._flat("set", self.indexed(-1), number)
        return self.b.prim.cmp(self._flat("", latest), number, predicate="eq")

    def spread(self, mask: Value, like: Value) -> Value:
        """A value over the indices' shape repeated over the rest of an update's axes."""
        target = tensor_type(like).with_element(tensor_type(mask).element)
        axes = [axis for axis in range(target.rank) if axis not in self.index_axes]
        if not axes:
            return mask
        return self.b.create("prim.expand", [mask, *size_operands(self.b, like)], [target], axes=axes).results[0]


def row_major(b: Builder, like: Value, dims: Sequence[Size], sizes: Sequence[Value], axes: Sequence[int] | None = None) -> Value:
    """i64: each element's row-major number in a shape, whose axes are `axes` of `like` (the first ones by default)."""
    target = tensor(dims, I64)
    axes = list(range(len(dims))) if axes is None else axes
    if not dims:
        return scalar(b, 0, I64)
    total: Value | None = None
    for position in range(len(dims)):
        count = b.create("prim.iota", list(sizes), [target], axis=position).results[0]
        total = count if total is None else b.prim.add(b.prim.mul(total, spread_size(b, like, axes[position], total)), count)
    assert total is not None
    return total


def spread_size(b: Builder, like: Value, axis: int, target: Value) -> Value:
    """The size of `like` along an axis in the shape of `target`."""
    from gradopt.lowering.autodiff.helpers import expand_like

    return expand_like(b, size_value(b, like, axis), target)


# --- gather


@reverse_rule("prim.gather", "prim.gather_nd", masks=True)
def gather(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """g added into zeros at the indices; what was read outside ("fill", "nan") goes nowhere."""
    place = Place(context.builder, op)
    return place.write(zeros_like(context.builder, op.operands[0]), g, "add")


@forward_rule("prim.gather", "prim.gather_nd", masks=True)
def gather_tangent(context: ForwardContext, op: Any, t: Value, _: None) -> Tangents:
    """The tangent gathered; 0 where the value is the NaN of mode "nan"."""
    return Place(context.builder, op).read(t)


# --- scatter


@reverse_rule("prim.scatter", "prim.scatter_nd", masks=True)
def scatter(context: ReverseContext, op: Any, g: Value) -> Gradients:
    """set: x gets 0 where it was overwritten, an update gets g where it was the last to write; add: g, and g read back;
    max, min: g shared evenly by all that equal the result; mul: g times the product of all others at that place."""
    b = context.builder
    place = Place(b, op)
    x, _, update = op.operands
    if op.kind == "set":
        def last_write() -> Value:
            if place.is_single:
                return place.read(g)
            return b.prim.select(place.spread(place.last_writers(), update), place.read(g), zeros_like(b, update))
        return lambda: place.write(g, zeros_like(b, update), "set"), None, last_write
    if op.kind == "add":
        return context.keep(g), None, lambda: place.read(g)
    if op.kind == "mul":
        return (lambda: place.write(g, update, "mul"), None,
                lambda: context.scale(place.read(g), b.prim.mul(place.read(x), product_of_other_updates(place, update))))
    x_hit, update_hit, count = scatter_shares(place, op)
    wide = accumulation_element(tensor_type(x).element)
    share = cast_to(b, b.prim.div(cast_to(b, g, wide), count), tensor_type(x).element)
    return (lambda: b.prim.select(x_hit, share, zeros_like(b, x)), None,
            lambda: b.prim.select(update_hit, place.read(share), zeros_like(b, update)))


@forward_rule("prim.scatter", "prim.scatter_nd", masks=True)
def scatter_tangent(context: ForwardContext, op: Any, t: Value | None, _: None, du: Value | None) -> Tangents:
    """set, add: the same op of the tangents; max, min: the mean tangent of all that equal the result; mul: the product rule."""
    b = context.builder
    place = Place(b, op)
    x, _, update = op.operands
    dx = zeros_like(b, x) if t is None else t
    if op.kind in ("set", "add"):
        return place.write(dx, zeros_like(b, update) if du is None else du, op.kind)
    if op.kind == "mul":
        result = zeros_like(b, x) if t is None else place.write(t, update, "mul")
        if du is not None:
            others = b.prim.mul(place.read(x), product_of_other_updates(place, update))
            result = place.write(result, context.scale(du, others), "add")
        return result
    x_hit, update_hit, count = scatter_shares(place, op)
    total = b.prim.select(x_hit, dx, zeros_like(b, x))
    if du is not None:
        total = place.write(total, b.prim.select(update_hit, du, zeros_like(b, du)), "add")
    wide = accumulation_element(tensor_type(x).element)
    return cast_to(b, b.prim.div(cast_to(b, total, wide), count), tensor_type(x).element)


def scatter_shares(place: Place, op: Any) -> tuple[Value, Value, Value]:
    """For max and min: which elements of x and of the update equal the result (or are NaN), and how many they are at each place
    (counted in i32, kept in f32 or f64)."""
    b, y = place.b, op.results[0]
    x, _, update = op.operands
    x_hit = b.prim.or_(b.prim.cmp(x, y, predicate="eq"), not_a_number(b, x))
    update_hit = b.prim.or_(b.prim.cmp(update, place.read(y), predicate="eq"), not_a_number(b, update))
    count = place.write(cast_to(b, x_hit, I32), cast_to(b, update_hit, I32), "add")
    return x_hit, update_hit, cast_to(b, count, accumulation_element(tensor_type(x).element))


def product_of_other_updates(place: Place, update: Value) -> Value:
    """For each update the product of all others that are written to its place. Quadratic in the number of indices, without a
    division, so that it is right with any number of zeros and differentiable again."""
    b = place.b
    position, number = place.position(), place.counter()
    flat = flatten(b, position)
    numbers = flatten(b, number)
    count = tensor_type(flat).dims[0]
    pair = tensor([count, count], I64)
    sizes = size_operands(b, flat, [0, 0])
    mine, others = (b.create("prim.expand", [flat, *sizes], [pair], axes=[axis]).results[0] for axis in (1, 0))
    me, other = (b.create("prim.expand", [numbers, *sizes], [pair], axes=[axis]).results[0] for axis in (1, 0))
    same = b.prim.and_(b.prim.cmp(mine, others, predicate="eq"), b.prim.cmp(me, other, predicate="ne"))
    return multiply_pairs(b, place, update, same, count)


def flatten(b: Builder, x: Value) -> Value:
    """`x` as one row."""
    type = tensor_type(x)
    count = product(type.dims)
    return b.prim.reshape(x, *total_count(b, x, count), result_types=[tensor([count], type.element)])


def total_count(b: Builder, x: Value, count: Size) -> list[Value]:
    """The `sizes` operand for a dimension that holds all elements of `x`."""
    if count is not UNKNOWN:
        return []
    total = scalar(b, 1, I64)
    for axis in range(tensor_type(x).rank):
        total = b.prim.mul(total, size_value(b, x, axis))
    return [total]


def multiply_pairs(b: Builder, place: Place, update: Value, same: Value, count: Size) -> Value:
    """prod over j with same[i, j] of update row j, in the shape of the update."""
    type = tensor_type(update)
    inner = place.index_axes
    rest = [axis for axis in range(type.rank) if axis not in inner]
    order = [*inner, *rest]
    moved = update if order == list(range(type.rank)) else b.prim.permute(update, axes=order)
    rest_dims = [type.dims[axis] for axis in rest]
    rest_sizes = size_operands(b, update, rest)
    first = size_operands(b, same, [0])
    rows = b.prim.reshape(moved, *first, *rest_sizes, result_types=[tensor([count, *rest_dims], type.element)])
    whole = tensor([count, count, *rest_dims], type.element)
    table = b.create("prim.expand", [rows, *first, *first, *rest_sizes], [whole], axes=[0]).results[0]
    mask = same if not rest else b.create("prim.expand", [same, *first, *first, *rest_sizes], [whole.with_element(
        tensor_type(same).element)], axes=list(range(2, whole.rank))).results[0]
    products = b.prim.reduce(b.prim.select(mask, table, full_like(b, table, 1)), kind="prod", axes=[1])
    back: Type = tensor_type(moved)
    result = b.prim.reshape(products, *size_operands(b, moved), result_types=[back])
    return result if order == list(range(type.rank)) else b.prim.permute(
        result, axes=[order.index(axis) for axis in range(type.rank)])

