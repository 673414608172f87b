"""Reading one element of a value: follows views and elementwise ops down to what is stored in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradopt.ir.declare import ELEMENTWISE
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, SizeExpression
from gradopt.ir.types import I1, TensorType, Type
from gradopt.ir.values import Value
from gradopt.lowering.fuse.expression import Graph, IndexValue, Literal, Node
from gradopt.lowering.fuse.index import linearize
from gradopt.lowering.fuse.views import VIEWS

__all__ = ["Reader", "is_inline"]

MOST_INDEX_DEPTH = 8  # stored index values that are computed through each other


def is_inline(op: Operation) -> bool:
    """True for ops that a kernel computes where it reads them (views and elementwise ops)."""
    return op.name in VIEWS or op.has_trait(ELEMENTWISE)


class Reader:
    """Makes expression nodes for elements of values.

    `is_stored(value)` says which values are read from memory (the rest is computed in place); `dims` gives a value's sizes with every
    unknown one named. The depth of the recursion is bounded by the limits that decide what is stored (see `roots.py`).
    """

    truth: Type = I1

    def __init__(self, graph: Graph, dims: Callable[[Value], Sequence[Size]], is_stored: Callable[[Value], bool]) -> None:
        self.graph, self.dims, self._is_stored = graph, dims, is_stored
        self.ranges = graph.ranges
        self._guard: Node | None = None
        self._memo: dict[Any, Node] = {}  # of the current domain: what a guard or quotient comes to depends on the ranges
        self._memos: dict[tuple[tuple[str, Size], ...], dict[Any, Node]] = {}
        self._depth = 0

    def enter(self, sizes: Mapping[str, Size]) -> None:
        """Reads from now on in a domain: the sizes of its loop variables."""
        self.ranges.update(sizes)
        self._memo = self._memos.setdefault(tuple(sizes.items()), {})

    def read(self, value: Value, index: Sequence[Size], guard: Node | None = None) -> Node:
        """The element of `value` at `index`; loads under `guard` (and the guards around it) touch no memory where it is false."""
        outer = self._guard
        self._guard = self.graph.both(outer, guard)
        key = (id(value), tuple(index), id(self._guard))
        try:
            node = self._memo.get(key)
            if node is None:
                node = self._memo[key] = self._read(value, index)
            return node
        finally:
            self._guard = outer

    def element(self, value: Value, index: Sequence[Size]) -> Node:
        """The element computed by the op that defines `value`, also where the value itself is stored."""
        op = value.defining_op
        assert op is not None
        outer, self.graph.location = self.graph.location, op.location
        try:
            rule = VIEWS.get(op.name)
            if rule is not None:
                return rule(op, index, self)
            if op.has_trait(ELEMENTWISE):
                operands = tuple(self.read(operand, index) for operand in op.operands)
                type = value.type
                assert isinstance(type, TensorType)
                return self.graph.apply(type_of_scalar(op), operands, type.element, op.properties)
            return self.load(value, index)
        finally:
            self.graph.location = outer

    def _read(self, value: Value, index: Sequence[Size]) -> Node:
        if value.defining_op is None or self._is_stored(value):
            return self._stored_index(value, index) or self.load(value, index)
        return self.element(value, index)

    def _stored_index(self, value: Value, index: Sequence[Size]) -> Node | None:
        """A stored value that is an index expression is computed again: that is cheaper than a load, and its range stays known."""
        op = value.defining_op
        if op is None or value.type.text[-4:] != "i64>" or self._depth >= MOST_INDEX_DEPTH or not is_inline(op):
            return None
        self._depth += 1
        try:
            node = self.element(value, index)
        finally:
            self._depth -= 1
        return node if isinstance(node, (IndexValue, Literal)) else None

    def load(self, value: Value, index: Sequence[Size]) -> Node:
        """The element from memory (row-major); one that is known to lie in a range is an index."""
        node = self.graph.load(value, linearize(index, self.dims(value)), self._guard)
        op = value.defining_op
        if op is not None and op.name == "prim.arg_reduce":
            return self.graph.index(self.bounded(node, self.dims(op.operands[0])[op.axis]))  # type: ignore[attr-defined]
        return node

    def cast(self, node: Node, element: Type) -> Node:
        """The node converted to an element type."""
        return node if node.element is element else self.graph.prim("cast", node, element=element)

    def bounded(self, node: Node, size: Size) -> Size:
        """An i64 node in [0, size) as an index."""
        index = self.graph.atom(node)
        if isinstance(index, SizeExpression) and len(index.names) == 1:
            name, = index.names
            if name in self.graph.atoms:
                self.ranges[name] = size
        return index


def type_of_scalar(op: Any) -> Any:
    """The class of an elementwise op; its scalar form is the same op on rank-0 tensors."""
    return type(op)
