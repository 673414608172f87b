"""Index arithmetic: sizes (`gradopt.ir.sizes`) over the names of loop variables, simplified by the ranges of the variables.

A loop variable `d3` with size n runs over [0, n). A name without a range is a size or a loaded index and is known to be >= 0 only
if it is a size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradopt.ir.sizes import Monomial, Size, SizeExpression, add, floordiv, mod, multiply, product

Ranges = Mapping[str, Size]  # loop variable -> its size

__all__ = ["Ranges", "delinearize", "divide", "index_names", "linearize", "modulo", "row_major", "split_linear", "substitute"]


def bounds(index: Size, ranges: Ranges) -> tuple[int | None, int | None]:
    """The least and the largest value of an index (both inclusive), None where not known."""
    if isinstance(index, int):
        return index, index
    if not isinstance(index, SizeExpression):
        return None, None
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in index.terms:
        least, most = _monomial_bounds(monomial, ranges)
        if coefficient < 0:
            least, most = most, least
        low = None if low is None or least is None else low + coefficient * least
        high = None if high is None or most is None else high + coefficient * most
    return low, high


def _monomial_bounds(monomial: tuple[object, ...], ranges: Ranges) -> tuple[int | None, int | None]:
    if not monomial:
        return 1, 1
    if len(monomial) == 1:
        atom = monomial[0]
        if isinstance(atom, str):
            size = ranges.get(atom)
            if atom not in ranges:
                return None, None
            return 0, size - 1 if isinstance(size, int) else None
        assert isinstance(atom, tuple)
        kind, inner, divisor = atom
        if kind == "mod" and isinstance(divisor, int):
            return 0, divisor - 1
        if kind == "floordiv" and isinstance(divisor, int):
            low, high = bounds(inner, ranges)
            return (None if low is None else low // divisor), (None if high is None else high // divisor)
        return None, None
    return None, None


def divide(index: Size, divisor: Size, ranges: Ranges) -> Size:
    """index // divisor; what is smaller than the divisor vanishes. By 0 it is 0: an empty array has no index."""
    if divisor == 0:
        return 0
    if divisor == 1 or index == 0:
        return index
    if isinstance(divisor, int) and isinstance(index, SizeExpression):
        whole, rest = _split_divisible(index, divisor)
        low, high = bounds(rest, ranges)
        if low is not None and high is not None and low >= 0 and high < divisor:
            return whole
        return add(whole, floordiv(rest, divisor))
    if isinstance(index, SizeExpression) and isinstance(divisor, SizeExpression):
        whole_terms: dict[Monomial, int] = {}
        rest_terms: dict[Monomial, int] = {}
        for monomial, coefficient in index.terms:
            one = SizeExpression({monomial: coefficient})
            quotient = floordiv(one, divisor)
            exact = multiply(quotient, divisor) == one
            (whole_terms if exact else rest_terms)[monomial] = coefficient
        if whole_terms and len(rest_terms) == 1:
            (monomial, coefficient), = rest_terms.items()
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str) and ranges.get(monomial[0]) == divisor:
                return floordiv(SizeExpression(whole_terms), divisor)
        if len(index.terms) == 1 and index.terms[0][1] == 1 and len(index.terms[0][0]) == 1:
            name = index.terms[0][0][0]
            if isinstance(name, str) and ranges.get(name) == divisor:
                return 0
    return floordiv(index, divisor)


def modulo(index: Size, divisor: Size, ranges: Ranges) -> Size:
    """index % divisor; the index where it is smaller than the divisor. By 0 it is 0: an empty array has no index."""
    if divisor in (0, 1):
        return 0
    if isinstance(divisor, int) and isinstance(index, SizeExpression):
        _, rest = _split_divisible(index, divisor)
        low, high = bounds(rest, ranges)
        if low is not None and high is not None and low >= 0 and high < divisor:
            return rest
        return mod(rest, divisor)
    quotient = divide(index, divisor, ranges)
    if not (isinstance(quotient, SizeExpression) and _has_division(quotient)):
        return add(index, multiply(-1, multiply(quotient, divisor)))
    return mod(index, divisor)


def _has_division(index: SizeExpression) -> bool:
    return any(not isinstance(atom, str) for monomial, _ in index.terms for atom in monomial)


def _split_divisible(index: SizeExpression, divisor: int) -> tuple[Size, Size]:
    """(q, r) with index = q * divisor + r, where q takes every term whose coefficient allows it."""
    whole: Size = 0
    rest: Size = 0
    for monomial, coefficient in index.terms:
        quotient, remainder = (coefficient // divisor, coefficient % divisor) if not monomial else (
            (coefficient // divisor, 0) if coefficient % divisor == 0 else (0, coefficient))
        if quotient:
            whole = add(whole, _term(monomial, quotient))
        if remainder:
            rest = add(rest, _term(monomial, remainder))
    return whole, rest


def _term(monomial: tuple[object, ...], coefficient: int) -> Size:
    return coefficient if not monomial else SizeExpression({monomial: coefficient})  # type: ignore[dict-item]


def row_major(shape: Sequence[Size]) -> list[Size]:
    """The strides, in elements, of a row-major array."""
    return [product(list(shape[axis + 1:])) for axis in range(len(shape))]


def linearize(indices: Sequence[Size], shape: Sequence[Size]) -> Size:
    """The position of an element in a row-major array: sum of index * stride, with `(x // c) * c + x % c` put together again."""
    total: Size = 0
    for index, stride in zip(indices, row_major(shape)):
        total = add(total, multiply(index, stride))
    return _recombine(total)


def _recombine(index: Size) -> Size:
    """Replaces k * c * (x // c) + k * (x % c) by k * x, as often as it stands there."""
    while isinstance(index, SizeExpression):
        terms = dict(index.terms)
        for monomial, coefficient in index.terms:
            if len(monomial) != 1 or isinstance(monomial[0], str) or monomial[0][0] != "mod":
                continue
            _, inner, divisor = monomial[0]
            partner = (("floordiv", inner, divisor),)
            if isinstance(divisor, int) and terms.get(partner) == coefficient * divisor:
                del terms[monomial], terms[partner]
                rest: Size = SizeExpression(terms) if terms else 0
                index = add(rest, multiply(coefficient, inner))
                break
        else:
            return index
    return index


def delinearize(flat: Size, shape: Sequence[Size], ranges: Ranges) -> list[Size]:
    """The index of the element at a position of a row-major array (the first index needs no modulo)."""
    indices: list[Size] = []
    for axis, stride in enumerate(row_major(shape)):
        quotient = divide(flat, stride, ranges)
        indices.append(quotient if axis == 0 else modulo(quotient, shape[axis], ranges))
    return indices


def reshape_index(indices: Sequence[Size], outer: Sequence[Size], inner: Sequence[Size], ranges: Ranges) -> list[Size]:
    """The index into shape `inner` of the element at `indices` of shape `outer` (both of the same element count).

    Runs of dimensions with equal products are treated by themselves, so that most need no division."""
    result: list[Size] = []
    i = j = 0
    while i < len(outer) or j < len(inner):
        first_i, first_j = i, j
        left: Size = outer[i] if i < len(outer) else 1
        right: Size = inner[j] if j < len(inner) else 1
        i, j = min(i + 1, len(outer)), min(j + 1, len(inner))
        while left != right and (i < len(outer) or j < len(inner)):
            advance_left = j >= len(inner) or (i < len(outer) and isinstance(left, int) and (not isinstance(right, int) or left < right))
            if not advance_left and i < len(outer) and not isinstance(left, int) and not isinstance(right, int):
                advance_left = multiply(1, floordiv(right, left)) != 0 and multiply(floordiv(right, left), left) == right
            if advance_left:
                left, i = multiply(left, outer[i]), i + 1
            else:
                right, j = multiply(right, inner[j]), j + 1
        flat = linearize(indices[first_i:i], outer[first_i:i])
        result += delinearize(flat, inner[first_j:j], ranges)
    return result


def substitute(index: Size, values: Mapping[str, Size]) -> Size:
    """The index with names replaced."""
    return index.evaluate(values) if isinstance(index, SizeExpression) else index


def index_names(index: Size) -> frozenset[str]:
    """The names that an index reads."""
    return index.names if isinstance(index, SizeExpression) else frozenset()


def split_linear(index: Size, names: Sequence[str]) -> tuple[dict[str, Size], Size] | None:
    """({name: coefficient}, rest) where the index is linear in `names`; None where one stands inside a division or a product with
    another."""
    coefficients: dict[str, Size] = dict.fromkeys(names, 0)
    rest: Size = 0
    if not isinstance(index, SizeExpression):
        return coefficients, index
    wanted = set(names)
    for monomial, coefficient in index.terms:
        mine = [atom for atom in monomial if isinstance(atom, str) and atom in wanted]
        others = tuple(atom for atom in monomial if not (isinstance(atom, str) and atom in wanted))
        if any(not isinstance(atom, str) and wanted & _atom_names(atom) for atom in others) or len(mine) > 1:
            return None
        if mine:
            coefficients[mine[0]] = add(coefficients[mine[0]], _term(others, coefficient))
        else:
            rest = add(rest, _term(monomial, coefficient))
    return coefficients, rest


def _atom_names(atom: tuple[str, SizeExpression, Size]) -> frozenset[str]:
    names = atom[1].names
    return names | atom[2].names if isinstance(atom[2], SizeExpression) else names
