"""Scalar operations on index values, folded into index expressions: sums, products with numbers, divisions, comparisons that ranges
decide."""

from __future__ import annotations

from gradopt.ir.attributes import Attribute, StringAttr
from gradopt.ir.sizes import Size, add, multiply, subtract
from gradopt.ir.types import I1, I64
from gradopt.lowering.fuse.expression import Graph, IndexValue, Literal, Node
from gradopt.lowering.fuse.index import Ranges, bounds, divide, modulo

__all__ = ["fold_index"]


def as_index(node: Node) -> Size | None:
    """An i64 node as an index expression, if it is one."""
    if isinstance(node, IndexValue):
        return node.index
    if isinstance(node, Literal) and node.element is I64:
        return node.bits
    return None


def fold_index(graph: Graph, ranges: Ranges, name: str, operands: tuple[Node, ...], attributes: dict[str, Attribute]) -> Node | None:
    """The node of `prim.<name>` on index values without the operation; None where it stays."""
    if name == "select":
        condition = operands[0]
        return (operands[1] if condition.bits else operands[2]) if isinstance(condition, Literal) else None
    if len(operands) != 2:
        return None
    left, right = as_index(operands[0]), as_index(operands[1])
    if left is None or right is None:
        return None
    if name == "cmp":
        predicate = attributes["predicate"]
        assert isinstance(predicate, StringAttr)
        outcome = _compare(predicate.value, left, right, ranges)
        return None if outcome is None else graph.literal_bits(int(outcome), I1)
    if operands[0].element is not I64:
        return None
    index = _arithmetic(name, left, right, ranges)
    return None if index is None else graph.index(index)


def _arithmetic(name: str, left: Size, right: Size, ranges: Ranges) -> Size | None:
    if name == "add":
        return add(left, right)
    if name == "sub":
        return subtract(left, right)
    if name == "mul" and (isinstance(left, int) or isinstance(right, int)):
        return multiply(left, right)
    if name in ("div", "rem") and isinstance(right, int) and right > 0 and _at_least(left, 0, ranges):
        return divide(left, right, ranges) if name == "div" else modulo(left, right, ranges)
    if name in ("max", "min"):
        least, most = bounds(subtract(left, right), ranges)
        if least is not None and least >= 0:
            return left if name == "max" else right
        if most is not None and most <= 0:
            return right if name == "max" else left
    return None


def _at_least(index: Size, number: int, ranges: Ranges) -> bool:
    least, _ = bounds(index, ranges)
    return least is not None and least >= number


def _compare(predicate: str, left: Size, right: Size, ranges: Ranges) -> bool | None:
    """The outcome of a comparison, where the ranges decide it."""
    least, most = bounds(subtract(left, right), ranges)
    if predicate in ("ge", "gt"):
        opposite = _compare("lt" if predicate == "ge" else "le", left, right, ranges)
        return None if opposite is None else not opposite
    if predicate in ("lt", "le"):
        limit = 0 if predicate == "le" else -1
        if most is not None and most <= limit:
            return True
        return False if least is not None and least > limit else None
    if least == most == 0:
        return predicate == "eq"
    if (least is not None and least > 0) or (most is not None and most < 0):
        return predicate == "ne"
    return None
