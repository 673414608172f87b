"""The roots of a block of `prim` ops, in clusters: for each value that is stored, reduced or multiplied, what a kernel computes of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from gradopt.ir.declare import TERMINATOR
from gradopt.ir.operation import Block, Operation
from gradopt.ir.sizes import Size, named_size, product
from gradopt.ir.types import I64, FloatType, TensorType, tensor
from gradopt.ir.values import Value
from gradopt.lowering.codegen.long_sums import partial_element
from gradopt.lowering.fuse.cluster import Clustering, Root, collect_loads, spread_index, squeezed, variables
from gradopt.lowering.fuse.expression import Graph, Node
from gradopt.lowering.fuse.index import linearize
from gradopt.lowering.fuse.products import batch_loops, dot_groups, dot_sizes, is_library_product, operand_layout, strided_operands
from gradopt.lowering.fuse.reading import Reader
from gradopt.lowering.fuse.roots import StoredValues, is_inline, is_large_constant

__all__ = ["BlockRoots", "Extern"]

FEW_ROWS = 32  # a reduction over fewer leading rows, or
ONE_CHUNK = 512  # a reduction of everything that is no longer than this is a loop of one kernel
MOST_UNROLLED = 9  # a reduction of so few elements is one expression
MOST_UNROLLED_WEIGHT = 120
WIDE_ROW = 1 << 14  # over rows wider than this, walks down the columns instead of keeping partial rows


def arg_of(graph: Graph, parts: Sequence[Node], combine: str) -> Node:
    """The number of the first best of a few nodes; the first NaN wins."""
    best, number = parts[0], graph.literal(0, I64)
    for position, part in enumerate(parts[1:], 1):
        better = graph.compare("gt" if combine == "arg_max" else "lt", part, best)
        if isinstance(part.element, FloatType):
            lost = graph.compare("ne", part, part)
            kept = graph.compare("eq", best, best)
            better = graph.prim("and", kept, graph.prim("or", better, lost))
        best, number = graph.select(better, part, best), graph.select(better, graph.literal(position, I64), number)
    return number


@dataclass
class Extern:
    """An op that stays whole: a library kernel, control flow, a check."""

    order: int
    op: Operation

class BlockRoots:
    """What a block computes and stores."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.operations = list(block.operations)
        self.graph = Graph()
        self.partial_dims: dict[Value, tuple[Size, ...]] = {}
        self.stored = StoredValues(block, strided_operands(self.operations, self.dims))
        self.reader = Reader(self.graph, self.dims, self.is_stored)
        self.clustering = Clustering()
        self.externs: list[Extern] = []
        self.partials: dict[Root, tuple[Value, str]] = {}  # accumulating root -> (its rows of partial results, name of their number)
        for op in self.operations:
            if not op.has_trait(TERMINATOR):
                self._classify(op)

    # --- facts about values

    def dims(self, value: Value) -> Sequence[Size]:
        """The sizes of a value."""
        known = self.partial_dims.get(value)
        if known is not None:
            return known
        type = value.type
        assert isinstance(type, TensorType), f"{type.text} has no sizes"
        return type.dims

    def is_stored(self, value: Value) -> bool:
        """True for values that are read from memory."""
        return value in self.stored or value in self.partial_dims

    # --- the work

    def _classify(self, op: Operation) -> None:
        if is_large_constant(op):
            return
        if op.name == "prim.reduce":
            self._add_reduction(op, op.kind, list(op.axes))  # type: ignore[attr-defined]
        elif op.name == "prim.arg_reduce":
            if self.dims(op.operands[0])[op.axis] == 1:  # type: ignore[attr-defined]
                self._add_first_index(op)
            else:
                self._add_row_reduction(op, "arg_" + op.kind, [op.axis])  # type: ignore[attr-defined]
        elif op.name == "prim.dot":
            self._add_product(op)
        elif is_inline(op) or op.name in ("prim.copy", "prim.contiguous"):
            if op.results[0] in self.stored:
                self._add_map(op.results[0])
        else:
            self.externs.append(Extern(self.clustering.extern(op.results), op))

    def _node(self, value: Value, index: Sequence[Size], domain: tuple[Size, ...], of_op: bool = False) -> Node:
        self.reader.enter(dict(zip(variables(len(domain)), domain)))
        return self.reader.element(value, index) if of_op else self.reader.read(value, index)

    def _add(self, root: Root) -> None:
        if root.node is not None:
            root.loads = collect_loads(self.graph, root.node)
        self.clustering.add(root)

    def _add_map(self, value: Value) -> None:
        sizes = tuple(self.dims(value))
        domain = squeezed(sizes)
        index = spread_index(sizes, [named_size(name) for name in variables(len(domain))])
        node = self._node(value, index, domain, of_op=True)
        self._add(Root(value, "map", domain, None, node, position=linearize(index, sizes)))

    def _add_reduction(self, op: Operation, combine: str, axes: list[int]) -> None:
        """A reduction over trailing, leading, all or other axes (those of size 1 do not count)."""
        sizes = self.dims(op.operands[0])
        wide = [axis for axis in range(len(sizes)) if sizes[axis] != 1]
        reduced = [axis for axis in wide if axis in axes]
        kept = [axis for axis in wide if axis not in axes]
        if not reduced:
            self._add_map_of_reduction(op)
        elif not kept and not self._is_short(sizes):
            self._add_accumulation(op, combine, "all", None)
        elif kept and reduced == wide[: len(reduced)] and self._accumulates_well(sizes, reduced, kept):
            self._add_accumulation(op, combine, "columns", len(reduced))
        else:
            self._add_row_reduction(op, combine, axes)

    def _is_short(self, sizes: Sequence[Size]) -> bool:
        """True for so few elements that they are one chunk whatever they cost, so that their sum needs no partial results; not where it
        may join a nest whose rows come one by one (those of a product, or of other reductions)."""
        count = product(list(sizes))
        rows = (cluster.split for cluster in self.clustering._by_domain.get(squeezed(tuple(sizes)), ()) if cluster.is_open)
        return isinstance(count, int) and count <= ONE_CHUNK and not any(rows)

    @staticmethod
    def _accumulates_well(sizes: Sequence[Size], reduced: list[int], kept: list[int]) -> bool:
        rows, width = product([sizes[a] for a in reduced]), product([sizes[a] for a in kept])
        return (not isinstance(rows, int) or rows >= FEW_ROWS) and isinstance(width, int) and width <= WIDE_ROW

    def _add_map_of_reduction(self, op: Operation) -> None:
        """A reduction over axes of size 1 moves nothing."""
        value = op.results[0]
        sizes, own = self.dims(op.operands[0]), tuple(self.dims(value))
        domain = squeezed(own)
        names = [named_size(name) for name in variables(len(domain))]
        node = self._node(op.operands[0], spread_index(list(sizes), list(names)), domain)
        self._add(Root(value, "map", domain, None, node, position=linearize(spread_index(own, list(names)), own)))

    def _add_first_index(self, op: Operation) -> None:
        """The index of the best of one element is 0."""
        value = op.results[0]
        own = tuple(self.dims(value))
        domain = squeezed(own)
        names = [named_size(name) for name in variables(len(domain))]
        self.reader.enter(dict(zip(variables(len(domain)), domain)))
        position = linearize(spread_index(own, list(names)), own)
        self._add(Root(value, "map", domain, None, self.graph.literal(0, I64), position=position))

    def _add_row_reduction(self, op: Operation, combine: str, axes: list[int]) -> None:
        sizes = self.dims(op.operands[0])
        kept = [axis for axis in range(len(sizes)) if axis not in axes and sizes[axis] != 1]
        reduced = [axis for axis in axes if sizes[axis] != 1]
        reduced.sort()
        order = kept + reduced
        domain = tuple(sizes[axis] for axis in order)
        names = dict(zip(order, variables(len(order))))
        index: list[Size] = [named_size(names[axis]) if axis in names else 0 for axis in range(len(sizes))]
        own = [index[axis] for axis in range(len(sizes)) if axis not in axes]
        position = linearize(own, self.dims(op.results[0]))
        count = product([sizes[axis] for axis in reduced])
        if kept and isinstance(count, int) and 0 < count <= MOST_UNROLLED:
            unrolled = self._unrolled(op, combine, kept, reduced, names)
            if unrolled is not None:
                self._add(Root(op.results[0], "map", domain[: len(kept)], None, unrolled, position=position))
                return
        node = self._node(op.operands[0], index, domain)
        self._add(Root(op.results[0], "row", domain, len(kept), node, combine, position))

    def _unrolled(self, op: Operation, combine: str, kept: list[int], reduced: list[int], names: dict[int, str]) -> Node | None:
        """A reduction of a few elements as one expression, so that its kernel is vectorised over the results; None if it is heavy."""
        sizes = self.dims(op.operands[0])
        self.reader.enter({names[axis]: sizes[axis] for axis in kept})
        parts: list[Node] = []
        for point in itertools.product(*(range(int(sizes[axis])) for axis in reduced)):  # type: ignore[arg-type]
            index: list[Size] = [0] * len(sizes)
            for axis in kept:
                index[axis] = named_size(names[axis])
            for axis, place in zip(reduced, point):
                index[axis] = place
            parts.append(self.reader.read(op.operands[0], index))
        if sum(part.weight for part in parts) > MOST_UNROLLED_WEIGHT:
            return None
        if combine.startswith("arg_"):
            return arg_of(self.graph, parts, combine)
        name = {"sum": "add", "prod": "mul"}.get(combine, combine)
        total = parts[0]
        for part in parts[1:]:
            total = self.graph.prim(name, total, part)
        return total

    def _add_accumulation(self, op: Operation, combine: str, kind: str, split: int | None) -> None:
        """Partial results a chunk, and a root that combines them."""
        value = op.results[0]
        sizes = self.dims(op.operands[0])
        domain = squeezed(tuple(sizes))
        names: list[Size] = [named_size(name) for name in variables(len(domain))]
        node = self._node(op.operands[0], spread_index(list(sizes), names), domain)
        row = domain[split:] if split is not None else ()
        own = names[split:] if split is not None else []
        root = Root(value, kind, domain, split, node, combine, linearize(own, row))
        self._add(root)
        name = f"chunks{len(self.partials)}"
        rows = product(list(domain if split is None else domain[:split]))
        partial = Value(tensor([0, *row], partial_element(value.type.element, combine, rows)))  # type: ignore[attr-defined]
        self.partial_dims[partial] = (named_size(name), *row)
        self.partials[root] = (partial, name)
        self.clustering._ready[partial] = root.cluster.order  # type: ignore[union-attr]
        self._add_combination(value, combine, row, partial, name)

    def _add_combination(self, value: Value, combine: str, row: tuple[Size, ...], partial: Value, name: str) -> None:
        domain = (*row, named_size(name))
        names = [named_size(variable) for variable in variables(len(domain))]
        node = self._node(partial, [names[-1], *names[:-1]], domain)
        if node.element is not value.type.element:  # type: ignore[attr-defined]
            node = self.graph.prim("cast", node, element=value.type.element)  # type: ignore[attr-defined]
        root = Root(value, "row", domain, len(row), node, combine, linearize(names[:-1], row))
        root.loads = collect_loads(self.graph, node)
        # the value is ready where the combination is, not where the parts are
        self.clustering._made.pop(value, None)
        self.clustering.add(root)

    def _add_product(self, op: Operation) -> None:
        value = op.results[0]
        sizes = tuple(self.dims(value))
        domain = squeezed(sizes)
        left_groups, right_groups = dot_groups(op)
        if is_library_product(op) and 0 not in dot_sizes(op, self.dims):
            left = operand_layout(op.operands[0], left_groups, self.dims, self.is_stored_or_argument)
            right = operand_layout(op.operands[1], right_groups, self.dims, self.is_stored_or_argument)
            assert left is not None and right is not None, "the operands of a product are stored"
            columns = [axis for axis in right_groups[2] if self.dims(op.operands[1])[axis] != 1]
            index = spread_index(sizes, [named_size(name) for name in variables(len(domain))])
            root = Root(value, "gemm", domain, len(domain) - len(columns), None, position=linearize(index, sizes), dot=op)
            batch, left_batch, right_batch = batch_loops([self.dims(op.operands[0])[axis] for axis in left_groups[0]], left, right)
            root.gemm_plan = (left.value, right.value, {  # type: ignore[attr-defined]
                "batch": tuple(batch), "sizes": dot_sizes(op, self.dims)[1:], "lhs_strides": left.strides, "rhs_strides": right.strides,
                "lhs_batch": tuple(left_batch), "rhs_batch": tuple(right_batch), "offsets": (left.offset, right.offset)})
            self._add(root)
        else:
            self._add_plain_product(op, left_groups, right_groups, sizes)

    def is_stored_or_argument(self, value: Value) -> bool:
        """True for stored values and block arguments."""
        return self.is_stored(value) or value.defining_op is None

    def _add_plain_product(self, op: Operation, left_groups: list[list[int]], right_groups: list[list[int]],
                           sizes: tuple[Size, ...]) -> None:
        """A product that the library does not know (integers, or an empty one): a reduction of products."""
        lhs, rhs = op.operands
        inner = [self.dims(lhs)[axis] for axis in left_groups[2]]
        full = [*sizes, *inner]
        wide = squeezed(tuple(full))
        index = spread_index(full, [named_size(name) for name in variables(len(wide))])
        batch, rows = len(left_groups[0]), len(left_groups[1])
        left: list[Size] = [0] * len(self.dims(lhs))
        right: list[Size] = [0] * len(self.dims(rhs))
        for axis, i in zip([*left_groups[0], *left_groups[1], *left_groups[2]],
                           [*index[: batch + rows], *index[len(sizes):]]):
            left[axis] = i
        for axis, i in zip([*right_groups[0], *right_groups[2], *right_groups[1]],
                           [*index[:batch], *index[batch + rows: len(sizes)], *index[len(sizes):]]):
            right[axis] = i
        node = self.graph.prim("mul", self._node(lhs, left, wide), self._node(rhs, right, wide))
        split = len(squeezed(sizes))
        kind = "row" if len(wide) > split else "map"
        position = linearize(index[: len(sizes)], sizes)
        self._add(Root(op.results[0], kind, wide, split if kind == "row" else None, node, "sum" if kind == "row" else "", position))
