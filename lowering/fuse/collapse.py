"""Joins neighbouring loop dimensions where every access walks them as one, so that loops are few and long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradopt.ir.sizes import Size, multiply, subtract
from gradopt.lowering.fuse.index import index_names, split_linear, substitute

__all__ = ["collapse"]


def collapse(names: Sequence[str], sizes: Sequence[Size], indices: Iterable[Size],
             barriers: Iterable[int] = ()) -> tuple[list[str], list[Size], dict[str, Size]]:
    """(names, sizes, renaming) with as few dimensions as possible.

    `indices` are all index expressions of the loop; `barriers` are positions p such that dimensions p - 1 and p must stay apart.
    The renaming replaces each joined variable: the outer one by 0, the inner one by the joined variable (which keeps the inner name)."""
    kept_names, kept_sizes = list(names), list(sizes)
    apart = {names[p] for p in barriers if 0 < p < len(names)}
    renaming: dict[str, Size] = {}
    expressions = list({index for index in indices if index_names(index)})
    position = len(kept_names) - 1
    while position > 0:
        outer, inner = kept_names[position - 1], kept_names[position]
        if inner not in apart and all(_walks_as_one(index, outer, inner, kept_sizes[position]) for index in expressions):
            renaming[outer] = 0
            expressions = [substitute(index, {outer: 0}) for index in expressions]
            kept_sizes[position] = multiply(kept_sizes[position - 1], kept_sizes[position])
            if outer in apart:
                apart.add(inner)
            del kept_names[position - 1], kept_sizes[position - 1]
        position -= 1
    return kept_names, kept_sizes, renaming


def _walks_as_one(index: Size, outer: str, inner: str, inner_size: Size) -> bool:
    names = index_names(index)
    if outer not in names and inner not in names:
        return True
    split = split_linear(index, (outer, inner))
    if split is None:
        return False
    return subtract(split[0][outer], multiply(split[0][inner], inner_size)) == 0
