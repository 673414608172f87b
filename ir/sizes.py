"""Symbolic sizes: integer polynomials over size names with floordiv and mod, in a normal form.

A size is an `int`, a `SizeExpression`, or `UNKNOWN` (known only at run time and equal to nothing else). Type rules compute
with all three alike: `h + 2 * pad`, `size.floordiv(stride)`; whatever touches `UNKNOWN` is `UNKNOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import TypeAlias, Union

__all__ = ["UNKNOWN", "Size", "SizeExpression", "UnknownSize", "add", "assumed_equal", "ceildiv", "floordiv", "mod", "multiply",
           "named_size", "parse_size", "product", "provably_different", "provably_equal", "shapes_differ", "subtract"]

# An atom is a name, or ("floordiv" | "mod", numerator expression, denominator expression or int).
Atom: TypeAlias = Union[str, "tuple[str, SizeExpression, Size]"]
Monomial: TypeAlias = tuple[Atom, ...]


class UnknownSize:
    """The size that is equal to nothing, not even to itself. Use the single object `UNKNOWN`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "?"


UNKNOWN = UnknownSize()


class SizeExpression:
    """A polynomial over atoms: `terms` maps a monomial (sorted atoms) to its coefficient. Hashable, compared by form."""

    __slots__ = ("_text", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: tuple[tuple[Monomial, int], ...] = tuple(sorted(
            ((monomial, coefficient) for monomial, coefficient in terms.items() if coefficient), key=_term_key))
        self._text: str | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeExpression) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __str__(self) -> str:
        if self._text is None:
            self._text = _print_terms(self.terms)
        return self._text

    __repr__ = __str__

    @property
    def names(self) -> frozenset[str]:
        """The size names that the expression reads."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    for part in atom[1:]:
                        if isinstance(part, SizeExpression):
                            found |= part.names
        return frozenset(found)

    def evaluate(self, values: Mapping[str, Size]) -> Size:
        """The size with each name replaced by `values[name]` (names that are absent stay)."""
        total: Size = 0
        for monomial, coefficient in self.terms:
            term: Size = coefficient
            for atom in monomial:
                term = multiply(term, _evaluate_atom(atom, values))
            total = add(total, term)
        return total


Size: TypeAlias = int | SizeExpression | UnknownSize


def _term_key(term: tuple[Monomial, int]) -> tuple[bool, int, str]:
    return (not term[0], -len(term[0]), str(term[0]))


def _evaluate_atom(atom: Atom, values: Mapping[str, Size]) -> Size:
    if isinstance(atom, str):
        return values.get(atom, SizeExpression({(atom,): 1}))
    kind, numerator, denominator = atom
    bottom = denominator.evaluate(values) if isinstance(denominator, SizeExpression) else denominator
    return (floordiv if kind == "floordiv" else mod)(numerator.evaluate(values), bottom)


def _print_atom(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    kind, *parts = atom
    return f" {kind} ".join(f"({part})" if isinstance(part, SizeExpression) and not _is_name(part) else str(part)
                            for part in parts)


def _is_name(size: SizeExpression) -> bool:
    return len(size.terms) == 1 and size.terms[0][1] == 1 and len(size.terms[0][0]) == 1 and \
        isinstance(size.terms[0][0][0], str)


def _print_terms(terms: tuple[tuple[Monomial, int], ...]) -> str:
    text = ""
    for position, (monomial, coefficient) in enumerate(terms):
        # a minus at the front binds closer than floordiv and mod
        lone = len(monomial) == 1 and (coefficient == 1 or (coefficient == -1 and position > 0))
        factors = [atom if isinstance(atom, str) else (_print_atom(atom) if lone else f"({_print_atom(atom)})")
                   for atom in monomial]
        first_negative = position == 0 and coefficient < -1 and bool(factors)  # `n * -8`, as MLIR prints it
        if abs(coefficient) != 1 or not factors:
            factors.append(str(coefficient if first_negative else abs(coefficient)))
        sign = ("-" if coefficient < 0 and not first_negative else "") if position == 0 else (" - " if coefficient < 0 else " + ")
        text += sign + reduce(lambda left, right: f"({left}) * {right}" if " * " in left else f"{left} * {right}", factors)
    return text or "0"


def named_size(name: str) -> SizeExpression:
    """The size called `name`."""
    return SizeExpression({(name,): 1})


def _terms(size: int | SizeExpression) -> dict[Monomial, int]:
    return dict(size.terms) if isinstance(size, SizeExpression) else ({(): size} if size else {})


def _simplify(expression: SizeExpression) -> Size:
    """An expression without a name is an int."""
    if not expression.terms:
        return 0
    if len(expression.terms) == 1 and not expression.terms[0][0]:
        return expression.terms[0][1]
    return expression


def add(left: Size, right: Size) -> Size:
    """left + right."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if isinstance(left, UnknownSize) or isinstance(right, UnknownSize):
        return UNKNOWN
    terms = _terms(left)
    for monomial, coefficient in _terms(right).items():
        terms[monomial] = terms.get(monomial, 0) + coefficient
    return _simplify(SizeExpression(terms))


def multiply(left: Size, right: Size) -> Size:
    """left * right; zero times an unknown size is zero."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if left == 0 or right == 0:
        return 0
    if isinstance(left, UnknownSize) or isinstance(right, UnknownSize):
        return left if right == 1 else right if left == 1 else UNKNOWN
    terms: dict[Monomial, int] = {}
    for first, a in _terms(left).items():
        for second, b in _terms(right).items():
            monomial = tuple(sorted(first + second, key=str))
            terms[monomial] = terms.get(monomial, 0) + a * b
    return _simplify(SizeExpression(terms))


def subtract(left: Size, right: Size) -> Size:
    """left - right."""
    return add(left, multiply(-1, right))


def product(sizes: tuple[Size, ...] | list[Size]) -> Size:
    """The product of all sizes; 1 for none, 0 if any is 0."""
    total: Size = 1
    for size in sizes:
        total = multiply(total, size)
    return total


def floordiv(left: Size, right: Size) -> Size:
    """left // right, rounded towards minus infinity. Raises ZeroDivisionError for a static zero divisor."""
    if right == 0:
        raise ZeroDivisionError("a size is divided by zero")
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    if isinstance(left, UnknownSize) or isinstance(right, UnknownSize):
        return left if right == 1 else UNKNOWN
    if left == right:
        return 1
    if isinstance(right, int):
        assert isinstance(left, SizeExpression)
        whole = {m: c // right for m, c in left.terms if c % right == 0}
        rest = SizeExpression({m: c for m, c in left.terms if c % right})
        if not rest.terms:
            return _simplify(SizeExpression(whole))
        if whole and set(whole) != {()}:
            return add(_simplify(SizeExpression(whole)), floordiv(_simplify(rest), right))
    else:
        exact = _divide_exactly(left, right)
        if exact is not None:
            return exact
    return SizeExpression({(("floordiv", _expression(left), right),): 1})


def mod(left: Size, right: Size) -> Size:
    """left - right * (left // right)."""
    if right == 0:
        raise ZeroDivisionError("a size is divided by zero")
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    if isinstance(left, UnknownSize) or isinstance(right, UnknownSize):
        return 0 if right == 1 else UNKNOWN
    if isinstance(right, int):
        assert isinstance(left, SizeExpression)
        rest = _simplify(SizeExpression({m: c % right for m, c in left.terms}))
        if isinstance(rest, int):
            return rest % right
        assert isinstance(rest, SizeExpression)
        left = rest
    elif _divide_exactly(left, right) is not None:
        return 0
    return SizeExpression({(("mod", _expression(left), right),): 1})


def ceildiv(left: Size, right: Size) -> Size:
    """left / right rounded towards plus infinity."""
    return floordiv(add(left, subtract(right, 1)), right)


def _expression(size: int | SizeExpression) -> SizeExpression:
    return size if isinstance(size, SizeExpression) else SizeExpression({(): size})


def _divide_exactly(left: int | SizeExpression, right: SizeExpression) -> Size | None:
    """left / right where right is one monomial that divides every term of left."""
    if len(right.terms) != 1:
        return None
    monomial, divisor = right.terms[0]
    quotient: dict[Monomial, int] = {}
    for atoms, coefficient in _terms(left).items():
        rest = list(atoms)
        for atom in monomial:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % divisor:
            return None
        quotient[tuple(rest)] = coefficient // divisor
    return _simplify(SizeExpression(quotient))


def provably_equal(left: Size, right: Size) -> bool:
    """True where the two sizes are equal whatever the names stand for."""
    return not isinstance(left, UnknownSize) and not isinstance(right, UnknownSize) and left == right


_assumed: ContextVar[list[tuple[Size, Size]] | None] = ContextVar("assumed", default=None)


def provably_different(left: Size, right: Size) -> bool:
    """True where the two sizes differ whatever the names stand for (their difference is a non-zero constant).

    Whoever asks is about to rely on their being equal; `assumed_equal` lists what is relied on without proof."""
    if isinstance(left, UnknownSize) or isinstance(right, UnknownSize) or left == right:
        return False
    if isinstance(subtract(left, right), int):
        return True
    found = _assumed.get()
    if found is not None:
        found.append((left, right))
    return False


def shapes_differ(left: Sequence[Size], right: Sequence[Size]) -> bool:
    """True where the two lists of sizes have different lengths, or two sizes at one place are provably different."""
    return len(left) != len(right) or any(provably_different(a, b) for a, b in zip(left, right))


@contextmanager
def assumed_equal() -> Iterator[list[tuple[Size, Size]]]:
    """Collects the pairs of sizes that type rules inside the `with` block rely on being equal."""
    found: list[tuple[Size, Size]] = []
    token = _assumed.set(found)
    try:
        yield found
    finally:
        _assumed.reset(token)


_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][\w$.]*)|([()+*-]))")


def parse_size(text: str) -> Size:
    """Parses the text of a size: `"batch"`, `"(h + 2 - 3) floordiv 2 + 1"`; `"_"` is `UNKNOWN`.

    Raises ValueError with the offending text and position.
    """
    if text.strip() == "_":
        return UNKNOWN
    tokens: list[str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"size expression {text!r}: unexpected character {text[position:].lstrip()[0]!r}")
        tokens.append(match.group().strip())
        position = match.end()
    return _evaluate_tokens(tokens, text)


_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "floordiv": 2, "mod": 2, "ceildiv": 2, "negate": 3}
_APPLY = {"+": add, "-": subtract, "*": multiply, "floordiv": floordiv, "mod": mod, "ceildiv": ceildiv}


def _evaluate_tokens(tokens: list[str], text: str) -> Size:
    """Operator precedence with two stacks, so that nesting depth costs no recursion."""
    values: list[Size] = []
    operators: list[str] = []

    def apply() -> None:
        operator = operators.pop()
        try:
            right = values.pop()
            values.append(subtract(0, right) if operator == "negate" else _APPLY[operator](values.pop(), right))
        except (IndexError, KeyError):
            raise ValueError(f"size expression {text!r}: malformed") from None
        except ZeroDivisionError:
            raise ValueError(f"size expression {text!r}: division by zero") from None

    expects_value = True
    for token in tokens:
        if token == "(" and expects_value:
            operators.append(token)
        elif token == ")" and not expects_value and "(" in operators:
            while operators[-1] != "(":
                apply()
            operators.pop()
        elif token == "-" and expects_value:
            operators.append("negate")
        elif token in _PRECEDENCE and not expects_value:
            while operators and operators[-1] != "(" and _PRECEDENCE[operators[-1]] >= _PRECEDENCE[token]:
                apply()
            operators.append(token)
            expects_value = True
        elif expects_value and token not in "()+*-" and token not in _PRECEDENCE:
            values.append(int(token) if token.isdigit() else named_size(token))
            expects_value = False
        else:
            raise ValueError(f"size expression {text!r}: unexpected {token!r}")
    while operators:
        apply()
    if len(values) != 1:
        raise ValueError(f"size expression {text!r}: malformed")
    return values[0]
