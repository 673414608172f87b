"""Affine maps and sets: their text to expressions, simplified and spelt as MLIR does when it builds them.

The rules are those of `lib/IR/AffineExpr.cpp` in MLIR, found by asking `mlir-opt`: constants fold and stand on the right, symbols stand
right of dimensions, equal terms merge, `x - (x floordiv c) * c` is `x mod c`, multiples cancel in floordiv, ceildiv and mod.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from gradopt.parser.literals import LiteralError, read_integer

__all__ = ["affine_map_body", "integer_set_body"]

MOST_DEPTH = 60
MOST_OPERATORS = 250  # in one expression
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][\w$.]*)|(0x[0-9A-Fa-f]+|[0-9]+)|(->|>=|<=|==|[()\[\],:+*\-]))", re.ASCII)
_TIGHT = {"*": "*", "floordiv": "floordiv", "ceildiv": "ceildiv", "mod": "mod"}


class Expression(NamedTuple):
    """A node: kind "d" or "s" (with a number), "c" (a constant), or an operator with two sides."""

    kind: str
    value: int = 0
    left: Expression | None = None
    right: Expression | None = None

    @property
    def is_symbolic(self) -> bool:
        """True if no dimension occurs."""
        pending = [self]
        while pending:
            node = pending.pop()
            if node.kind == "d":
                return False
            if node.left is not None and node.right is not None:
                pending += [node.left, node.right]
        return True

    @property
    def divisor(self) -> int:
        """The largest integer that is known to divide every value (0 divides into everything: a constant 0)."""
        if self.kind == "c":
            return abs(self.value)
        if self.left is None or self.right is None:
            return 1
        if self.kind == "*":
            return self.left.divisor * self.right.divisor
        if self.kind in ("+", "mod"):
            return math.gcd(self.left.divisor, self.right.divisor)
        if self.right.kind == "c" and self.right.value and self.left.divisor % self.right.value == 0:
            return abs(self.left.divisor // self.right.value)
        return 1


def constant(value: int) -> Expression:
    """A constant. Raises OverflowError for one that has no 64-bit literal."""
    if abs(value) >= 1 << 63:
        raise OverflowError("constant too large for index")
    return Expression("c", value)


def _is(node: Expression | None, kind: str, value: int | None = None) -> bool:
    return node is not None and node.kind == kind and (value is None or node.value == value)


def _factor(node: Expression) -> tuple[Expression, int]:
    """(x, c) of `x * c`, (x, 1) of any other."""
    if node.kind == "*" and node.left is not None and _is(node.right, "c"):
        assert node.right is not None
        return node.left, node.right.value
    return node, 1


def add(left: Expression, right: Expression) -> Expression:
    """`left + right`, simplified."""
    if left.kind == "c" and right.kind == "c":
        return constant(left.value + right.value)
    if left.kind == "c" or (left.is_symbolic and not right.is_symbolic):
        return add(right, left)
    if _is(right, "c", 0):
        return left
    left, right = in_order(left, right)
    tail = left.right if left.kind == "+" and _is(left.right, "c") else None
    if tail is not None and left.left is not None and right.kind == "c":
        return add(left.left, constant(tail.value + right.value))
    (first, a), (second, b) = _factor(left), _factor(right)
    if first == second:
        return multiply(first, constant(a + b))
    if tail is not None and left.left is not None:
        return add(add(left.left, right), tail)
    remainder = _as_remainder(left, right)
    if remainder is None and left.kind == "+" and left.left is not None and left.right is not None and _is_quotient(right):
        meeting = add(left.right, right)  # the quotient may meet what it divides there
        if not (meeting.kind == "+" and meeting.left is left.right and meeting.right is right):
            return add(left.left, meeting)
    return Expression("+", 0, left, right) if remainder is None else remainder


def in_order(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """Two dimensions, or two symbols, stand in the order of their numbers."""
    if left.kind == right.kind and left.kind in "ds" and left.value > right.value:
        return right, left
    return left, right


def _is_quotient(node: Expression) -> bool:
    """True for `(x floordiv y) * z`."""
    return node.kind == "*" and _is(node.left, "floordiv")


def _as_remainder(left: Expression, right: Expression) -> Expression | None:
    """`x mod q` where right is `(x floordiv q) * -q` or `((x floordiv q) * q) * -1` and left is x."""
    if right.kind != "*" or right.left is None or right.right is None:
        return None
    inner = right.left
    quotient = inner.left
    if (_is(right.right, "c", -1) and inner.kind == "*" and quotient is not None and quotient.kind == "floordiv"
            and quotient.right == inner.right and quotient.left == left and inner.right is not None):
        return divide("mod", left, inner.right)
    if (right.right.kind == "c" and inner.kind == "floordiv" and inner.right is not None and inner.right.kind == "c"
            and inner.left == left and inner.right.value == -right.right.value):
        return divide("mod", left, inner.right)
    return None


def multiply(left: Expression, right: Expression) -> Expression:
    """`left * right`, simplified; one side has no dimension."""
    if left.kind == "c" and right.kind == "c":
        return constant(left.value * right.value)
    if not right.is_symbolic or left.kind == "c":
        left, right = right, left
    if _is(right, "c", 1):
        return left
    if _is(right, "c", 0):
        return right
    left, right = in_order(left, right)
    if left.kind == "*" and left.left is not None and left.right is not None and left.right.kind == "c":
        if right.kind == "c":
            return multiply(left.left, constant(left.right.value * right.value))
        return multiply(multiply(left.left, right), left.right)
    return Expression("*", 0, left, right)


def divide(kind: str, left: Expression, right: Expression) -> Expression:
    """`left floordiv right`, `left ceildiv right` or `left mod right`, simplified."""
    plain = Expression(kind, 0, left, right)
    by = right.value
    if right.kind != "c" or by == 0 or (kind == "mod" and by < 0):
        return plain
    if left.kind == "c":
        return constant(left.value % by if kind == "mod" else left.value // by if kind == "floordiv" else -(-left.value // by))
    if kind == "mod":
        return _remainder(left, right, plain)
    if by == 1:
        return left
    base, factor = _factor(left)
    if left.kind == "*" and factor % by == 0 and base is not left:
        return multiply(base, constant(factor // by))
    if (kind == "floordiv" and left.kind == "+" and left.left is not None and left.right is not None
            and (left.left.divisor % by == 0 or left.right.divisor % by == 0)):
        return add(divide(kind, left.left, right), divide(kind, left.right, right))
    return plain


def _remainder(left: Expression, right: Expression, plain: Expression) -> Expression:
    by = right.value
    if left.divisor % by == 0:
        return constant(0)
    if left.kind == "+" and left.left is not None and left.right is not None:
        if left.left.divisor % by == 0:
            return divide("mod", left.right, right)
        if left.right.divisor % by == 0:
            return divide("mod", left.left, right)
    if (left.kind == "mod" and left.left is not None and left.right is not None and left.right.kind == "c"
            and left.right.value >= 1 and left.right.value % by == 0):
        return divide("mod", left.left, right)
    return plain


def spell(node: Expression, strong: bool = False) -> str:
    """MLIR's text of an expression; `strong`: as an operand of an operator that binds tighter than `+`."""
    if node.kind in "ds":
        return f"{node.kind}{node.value}"
    if node.kind == "c":
        return str(node.value)
    left, right = node.left, node.right
    assert left is not None and right is not None
    if node.kind != "+":
        if node.kind == "*" and _is(right, "c", -1):
            text = "-" + spell(left, True)
        else:
            text = f"{spell(left, True)} {node.kind} {spell(right, True)}"
    elif right.kind == "c" and right.value < 0:
        text = f"{spell(left)} - {-right.value}"
    elif right.kind == "*" and right.left is not None and right.right is not None and right.right.kind == "c" and right.right.value < 0:
        text = f"{spell(left)} - {spell(right.left, right.left.kind == '+' or right.right.value < -1)}"
        if right.right.value < -1:
            text += f" * {-right.right.value}"
    else:
        text = f"{spell(left)} + {spell(right)}"
    return f"({text})" if strong else text


class AffineReader:
    """Reads the body of one map or set. Raises LiteralError with an offset in the text."""

    def __init__(self, text: str, offset: int, end: int) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        position, stop = offset, offset + len(text[offset:end].rstrip())
        while position < stop:
            match = _TOKEN.match(text, position, stop)
            if match is None:
                raise LiteralError("unexpected character in an affine expression", position)
            kind = "word" if match[1] else "number" if match[2] else "mark"
            self.tokens.append((kind, match[match.lastindex or 0], match.start(match.lastindex or 0)))
            position = match.end()
        self.tokens.append(("end", "", stop))
        self.index = self.operators = 0
        self.names: dict[str, Expression] = {}

    def fail(self, message: str) -> LiteralError:
        """An error at the next token."""
        return LiteralError(message, self.tokens[self.index][2])

    def take(self, mark: str) -> bool:
        """Passes a mark or word if it is next."""
        if self.tokens[self.index][1] == mark and self.tokens[self.index][0] != "end":
            self.index += 1
            return True
        return False

    def expect(self, mark: str, what: str) -> None:
        """Passes a mark that must come."""
        if not self.take(mark):
            raise self.fail(f"expected '{mark}' {what}")

    def identifiers(self, kind: str, closing: str) -> int:
        """The names up to a closing mark; returns how many there are."""
        count = 0
        while not self.take(closing):
            if count:
                self.expect(",", "between identifiers")
            token_kind, name, _ = self.tokens[self.index]
            if token_kind != "word":
                raise self.fail("expected bare identifier")
            if name in self.names:
                raise self.fail(f"redefinition of identifier '{name}'")
            self.names[name] = Expression(kind, count)
            self.index += 1
            count += 1
        return count

    def header(self) -> str:
        """`(d0, d1)[s0]`, canonical."""
        self.expect("(", "in affine dimensions")
        dimensions = self.identifiers("d", ")")
        symbols = self.identifiers("s", "]") if self.take("[") else 0
        text = "(" + ", ".join(f"d{i}" for i in range(dimensions)) + ")"
        return text + ("[" + ", ".join(f"s{i}" for i in range(symbols)) + "]" if symbols else "")

    def expression(self) -> Expression:
        """A whole expression."""
        self.operators = 0
        start = self.index
        try:
            return self.sum()
        except OverflowError as error:
            raise LiteralError(str(error), self.tokens[start][2]) from None

    def _count(self) -> None:
        self.operators += 1
        if self.operators > MOST_OPERATORS:
            raise self.fail(f"an affine expression has more than {MOST_OPERATORS} operators")

    def sum(self, depth: int = 0) -> Expression:
        """Terms joined by + and -."""
        left = self.product(depth)
        while True:
            self._count()
            if self.take("+"):
                left = add(left, self.product(depth))
            elif self.take("-"):
                left = add(left, multiply(self.product(depth), constant(-1)))
            else:
                return left

    def product(self, depth: int) -> Expression:
        """Factors joined by *, floordiv, ceildiv and mod."""
        left = self.factor(depth)
        while True:
            kind = _TIGHT.get(self.tokens[self.index][1])
            if kind is None:
                return left
            place = self.tokens[self.index][2]
            self._count()
            self.index += 1
            right = self.factor(depth)
            if kind == "*":
                if not left.is_symbolic and not right.is_symbolic:
                    raise LiteralError("non-affine expression: at least one of the multiply operands has to be either a constant or "
                                       "symbolic", place)
                left = multiply(left, right)
            else:
                if not right.is_symbolic:
                    raise LiteralError(f"non-affine expression: right operand of {kind} has to be either a constant or symbolic", place)
                left = divide(kind, left, right)

    def factor(self, depth: int) -> Expression:
        """A name, a number, a negation or a sum in parentheses."""
        if depth > MOST_DEPTH:
            raise self.fail(f"affine expressions are nested more than {MOST_DEPTH} deep")
        kind, text, _ = self.tokens[self.index]
        if self.take("("):
            inner = self.sum(depth + 1)
            self.expect(")", "in affine expression")
            return inner
        if self.take("-"):
            return multiply(self.factor(depth + 1), constant(-1))
        if kind == "number":
            value = read_integer(text)
            if value >= 1 << 63:
                raise self.fail("constant too large for index")
            self.index += 1
            return constant(value)
        if kind == "word":
            if text not in self.names:
                raise self.fail(f"use of undeclared identifier '{text}'")
            self.index += 1
            return self.names[text]
        raise self.fail("expected affine expression")

    def end(self) -> None:
        """Nothing may follow."""
        if self.tokens[self.index][0] != "end":
            raise self.fail("unexpected text behind an affine expression")


def affine_map_body(text: str, start: int, end: int) -> str:
    """The canonical text of a map, `(d0)[s0] -> (d0 + s0)`. Raises LiteralError."""
    reader = AffineReader(text, start, end)
    header = reader.header()
    reader.expect("->", "in affine map")
    reader.expect("(", "in affine map range")
    results: list[str] = []
    while not reader.take(")"):
        if results:
            reader.expect(",", "between affine expressions")
        results.append(spell(reader.expression()))
    reader.end()
    return f"{header} -> ({', '.join(results)})"


def integer_set_body(text: str, start: int, end: int) -> str:
    """The canonical text of a set, `(d0) : (d0 - 1 >= 0)`. Raises LiteralError."""
    reader = AffineReader(text, start, end)
    header = reader.header()
    reader.expect(":", "in integer set")
    reader.expect("(", "in integer set constraints")
    constraints: list[str] = []
    while not reader.take(")"):
        if constraints:
            reader.expect(",", "between affine constraints")
        left = reader.expression()
        relation = reader.tokens[reader.index][1]
        if relation not in ("==", ">=", "<="):
            raise reader.fail("expected '== affine-expr' or '>= affine-expr' at end of affine constraint")
        reader.index += 1
        right = reader.expression()
        if relation == "<=":
            left, right = right, left
        try:
            difference = spell(add(left, multiply(right, constant(-1))))
        except OverflowError as error:
            raise reader.fail(str(error)) from None
        constraints.append(f"{difference} {'==' if relation == '==' else '>='} 0")
    reader.end()
    return f"{header} : ({', '.join(constraints) or '0 == 0'})"
