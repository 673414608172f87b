"""Index expressions as text."""

from __future__ import annotations

from functools import lru_cache

from gradopt.ir.attributes import AffineMapAttr
from gradopt.ir.sizes import Size, SizeExpression, parse_size

__all__ = ["index_text", "map_expression"]


@lru_cache(maxsize=4096)
def map_expression(mapping: AffineMapAttr) -> Size:
    """The result of an affine map of one result, in the names d0, d1, …"""
    return parse_size(mapping.body.split("->", 1)[1].strip().removeprefix("(").removesuffix(")"))


def index_text(index: Size, names: dict[str, str]) -> str:
    """An index expression over variables."""
    if not isinstance(index, SizeExpression):
        return str(index)
    text = ""
    for monomial, coefficient in index.terms:
        factors = [_atom_text(atom, names) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.append(str(abs(coefficient)))
        sign = (" - " if coefficient < 0 else " + ") if text else ("0 - " if coefficient < 0 else "")
        text += sign + " * ".join(factors)
    return text or "0"


def _atom_text(atom: object, names: dict[str, str]) -> str:
    if isinstance(atom, str):
        return names[atom]
    assert isinstance(atom, tuple)
    kind, inner, divisor = atom
    if _may_be_negative(inner):
        function = "floor_divide" if kind == "floordiv" else "modulo"
    else:
        function = "index_divide" if kind == "floordiv" else "index_modulo"
    return f"{function}({index_text(inner, names)}, {index_text(divisor, names)})"


def _may_be_negative(index: Size) -> bool:
    """True unless a sum has no negative term (loop variables and sizes are >= 0), nor any quotient or rest in it."""
    work = [index]
    while work:
        size = work.pop()
        if isinstance(size, SizeExpression):
            if any(coefficient < 0 for _, coefficient in size.terms):
                return True
            work += [atom[1] for monomial, _ in size.terms for atom in monomial if not isinstance(atom, str)]
        elif not isinstance(size, int) or size < 0:
            return True
    return False
