"""Scalar expressions: what one element of a value is, as a graph over loads, index values and scalar operations.

Nodes are made once for equal content (`Graph`), so common subexpressions meet by themselves. An expression is written in loop
variables `d0, d1, …`; names that are neither loop variables nor sizes are atoms: loaded indices (see `Graph.atom`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradopt.ir.attributes import Attribute
from gradopt.ir.locations import UNKNOWN_LOCATION, AnyLocation
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, named_size
from gradopt.ir.types import I1, I64, Type
from gradopt.ir.values import Value
from gradopt.lowering.fuse.index import index_names

# What one op costs, in units of a simple instruction; the rest costs 1.
WEIGHTS = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log1p", "sigmoid", "tanh", "sin", "cos", "erf"), 12),
    **dict.fromkeys(("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "erfinv", "pow", "atan2"), 25),
    **dict.fromkeys(("div", "rem", "sqrt", "rsqrt", "recip"), 4),
}


MOST_WEIGHT = 1 << 20  # shared operands count each time they are read: the sum is cut off


@dataclass(eq=False)
class Node:
    """Base. `element` is the scalar's type, `names` every name that it depends on, `weight` what it costs to compute."""

    element: Type
    names: frozenset[str]
    weight: int


@dataclass(eq=False)
class Load(Node):
    """One element of a materialised value at a flat position; with a guard, 0 where the guard is false (and no access)."""

    value: Value
    position: Size
    guard: Node | None


@dataclass(eq=False)
class Apply(Node):
    """A scalar `prim` operation, and the place of the operation that it was first met in."""

    cls: type[Operation]
    properties: dict[str, Attribute]
    operands: tuple[Node, ...]
    location: AnyLocation


@dataclass(eq=False)
class Literal(Node):
    """A number: a Python int, float or bool (as bits for floats, so that NaN and -0.0 are kept)."""

    bits: int


@dataclass(eq=False)
class IndexValue(Node):
    """An index expression as an i64."""

    index: Size


class Graph:
    """Makes nodes, each once."""

    def __init__(self) -> None:
        self._nodes: dict[Any, Node] = {}
        self.atoms: dict[str, Node] = {}  # name -> the i64 node that it stands for
        self.ranges: dict[str, Size] = {}  # loop variable or bounded atom -> its size
        self._atom_names: dict[int, str] = {}
        self.location: AnyLocation = UNKNOWN_LOCATION  # of the operation whose element is being read

    def names_of(self, index: Size) -> frozenset[str]:
        """The names an index depends on, through atoms."""
        names = index_names(index)
        for name in names:
            if name in self.atoms:
                names = names | self.atoms[name].names
        return names

    def atom(self, node: Node) -> Size:
        """A name that stands for an i64 node inside index expressions."""
        if isinstance(node, IndexValue):
            return node.index
        name = self._atom_names.get(id(node))
        if name is None:
            name = f"at{len(self.atoms)}"
            self._atom_names[id(node)] = name
            self.atoms[name] = node
        return named_size(name)

    def load(self, value: Value, position: Size, guard: Node | None = None) -> Node:
        """Reads a materialised value."""
        key = ("load", id(value), position, id(guard))
        node = self._nodes.get(key)
        if node is None:
            names = self.names_of(position) | (guard.names if guard is not None else frozenset())
            element = value.type.element  # type: ignore[attr-defined]
            node = self._nodes[key] = Load(element, names, 1, value, position, guard)
        return node

    def literal(self, value: float, element: Type) -> Node:
        """A number of an element type."""
        bits = element.encode(float(value)) if element.is_float else int(value)  # type: ignore[attr-defined]
        return self.literal_bits(bits, element)

    def literal_bits(self, bits: int, element: Type) -> Node:
        """A number by its bit pattern (floats) or value (integers)."""
        key = ("literal", bits, element)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Literal(element, frozenset(), 0, bits)
        return node

    def index(self, index: Size) -> Node:
        """An index expression as an i64 node."""
        if isinstance(index, int):
            return self.literal_bits(index, I64)
        key = ("index", index)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = IndexValue(I64, self.names_of(index), 1, index)
        return node

    def apply(self, cls: type[Operation], operands: tuple[Node, ...], element: Type,
              properties: dict[str, Attribute] | None = None) -> Node:
        """A scalar operation on nodes."""
        from gradopt.lowering.fuse.fold import fold_index

        properties = properties or {}
        folded = fold_index(self, self.ranges, cls.name.removeprefix("prim."), operands, properties)
        if folded is not None:
            return folded
        key = (cls, tuple(map(id, operands)), element, tuple(properties.items()))
        node = self._nodes.get(key)
        if node is None:
            names = frozenset().union(*(operand.names for operand in operands))
            weight = min(WEIGHTS.get(cls.name.split(".")[1], 1) + sum(operand.weight for operand in operands), MOST_WEIGHT)
            node = self._nodes[key] = Apply(element, names, weight, cls, properties, operands, self.location)
        return node

    # --- shorthands used by views

    def prim(self, name: str, *operands: Node, element: Type | None = None, **attributes: Attribute) -> Node:
        """`prim.<name>` on nodes; the element type is the first operand's unless given."""
        from gradopt.ir.dialect import operation_class

        cls = operation_class("prim." + name)
        assert cls is not None
        return self.apply(cls, operands, operands[0].element if element is None else element, attributes)

    def compare(self, predicate: str, left: Node, right: Node) -> Node:
        """An i1 comparison."""
        from gradopt.ir.attributes import StringAttr

        return self.prim("cmp", left, right, element=I1, predicate=StringAttr(predicate))

    def select(self, condition: Node, then: Node, otherwise: Node) -> Node:
        """`then` where the condition is true."""
        if then is otherwise:
            return then
        return self.prim("select", condition, then, otherwise, element=then.element)

    def both(self, left: Node | None, right: Node | None) -> Node | None:
        """The conjunction of two guards."""
        if left is None or right is None or left is right:
            return left if right is None else right
        return self.prim("and", left, right)
