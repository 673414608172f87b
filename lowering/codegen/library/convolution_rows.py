"""Rows of an image with zeros around it, as convolutions lay them out in scratch.

They are moved through vector registers where no number changes on the way; the element type is the one that is computed in, f32 or f64.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradopt.ir.types import Type
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library.source import Source, element_of
from gradopt.lowering.codegen.scalars import converted

__all__ = ["is_in_registers", "padded_row"]

LANES = 16
"""Elements that are moved at once."""
UNROLLED = 4
"""Moves of a row that are written out; more are a loop."""


def is_in_registers(value: Value, stride: str, element: Type) -> bool:
    """Whether rows of a value are moved as they are: then no loop is left for LLVM to vectorise."""
    return stride == "1" and element_of(value) is element


def padded_row(source: Source, to: str, at: str, width: int, inside: tuple[int, int], value: Value, line: str, stride: str,
               condition: str, element: Type) -> None:
    """Lines that fill to[at : at + width]: element i of `inside` is value[line + i * stride], all others are 0; where the condition
    does not hold all are."""
    begin, end = (min(max(place, 0), width) for place in inside)
    with source.block(f"if {condition}"):
        _clear(source, to, at, 0, begin, element)
        _copy_row(source, to, at, value, line, stride, (begin, end), element)
        _clear(source, to, at, max(begin, end), width, element)
    with source.block("else"):
        _clear(source, to, at, 0, width, element)


def _copy_row(source: Source, to: str, at: str, value: Value, line: str, stride: str, places: tuple[int, int], element: Type) -> None:
    """Lines for to[at + i] = value[line + i * stride] for every i of `places`, converted to the element type."""
    begin, end = places
    given = source.pointer(value)
    if is_in_registers(value, stride, element):
        for first, count in _vectors(source, begin, end):
            source.line(f"move_{element.text}(1, {count}, offset({given}, {line} + {first}), 0, offset({to}, {at} + {first}), 0)")
        return
    loaded = converted(f"load({given}, {line} + i * {stride})", element_of(value), element)
    with source.loop("i", str(end), str(begin)):
        source.line(f"store({to}, {at} + i, {loaded})")


def _clear(source: Source, to: str, at: str, begin: int, end: int, element: Type) -> None:
    """Lines for to[at + i] = 0."""
    for first, count in _vectors(source, begin, end):
        source.line(f"clear_{element.text}(1, {count}, offset({to}, {at} + {first}), 0)")


def _vectors(source: Source, begin: int, end: int) -> Iterator[tuple[str, int]]:
    """(first place, number of places) of vectors that cover begin … end; the last two overlap where they must. What is added to the
    source for one stands in the loop over them, if there is one."""
    whole, rest = divmod(max(end - begin, 0), LANES)
    if whole > UNROLLED:
        with source.block(f"for i in range({begin}, {begin + whole * LANES}, {LANES})"):
            yield "i", LANES
    else:
        yield from ((str(begin + number * LANES), LANES) for number in range(whole))
    if rest:
        yield (str(end - LANES), LANES) if whole else (str(begin), rest)
