"""Long sums of floats: f32 within a block of elements, f64 over the blocks, so that the error does not grow with the length."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.ir.sizes import Size, product
from gradopt.ir.types import F32, F64, FloatType, Type

__all__ = ["BLOCK", "ROWS", "is_long", "is_long_sum", "partial_element", "sum_axis", "sum_type"]

BLOCK = 2048  # elements that are summed in their own type: by several accumulators at once, so a few dozen additions each
ROWS = 256  # rows that are added to a row one after the other


def is_long(size: Size) -> bool:
    """True for a number of elements that is more than a block, or not known."""
    return not isinstance(size, int) or size > BLOCK


def partial_element(element: Type, combine: str, rows: Size) -> Type:
    """The element type of partial results over `rows` rows: f64 for long sums, f32 for those of 16-bit floats."""
    if not isinstance(element, FloatType) or combine not in ("sum", "prod"):
        return element
    if combine == "sum" and is_long(rows):
        return F64
    return F32 if element.width == 16 else element


def sum_type(kind: str, value_type: str, size: Size) -> str:
    """The kernel type in which `size` values of a kernel type are combined."""
    return "f64" if kind == "sum" and value_type == "f32" and is_long(size) else value_type


def sum_axis(sizes: Sequence[Size]) -> tuple[int, int]:
    """(axis, step) of the loop that is cut into blocks of `step` turns: the innermost one that, with those inside it, is long enough."""
    inner = 1
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        if not isinstance(size, int) or inner * size >= BLOCK // 4 or axis == 0:
            return axis, max(1, BLOCK // inner)
        inner *= size
    return 0, BLOCK


def is_long_sum(kinds: Sequence[str], types: Sequence[str], sizes: Sequence[Size]) -> bool:
    """True where one of several reductions over the same loops is a long sum of floats."""
    return is_long(product(list(sizes))) and any(kind == "sum" and type in ("f32", "f64") for kind, type in zip(kinds, types))
