"""`array<…>`, `strided<…>`, `affine_map<…>`, `affine_set<…>` from their text."""

from __future__ import annotations

import re
from collections.abc import Callable

from gradopt.ir.attributes import AffineMapAttr, Attribute, DenseArrayAttr, IntegerSetAttr, StridedLayoutAttr
from gradopt.ir.types import FloatType, Type
from gradopt.parser.literals import LiteralError, float_bits, integer_value

__all__ = ["read_builtin"]


def read_builtin(text: str, read_type: Callable[[str], Type]) -> Attribute:
    """The attribute of a text. Raises LiteralError."""
    head, _, body = text[:-1].partition("<")
    head = head.strip()
    if head == "array":
        return _array(body, read_type)
    if head == "strided":
        return _strided(body)
    spaced = re.sub(r"\s+", " ", body.strip())
    spaced = re.sub(r"\s*,\s*", ", ", re.sub(r"\s*->\s*", " -> ", spaced))
    return AffineMapAttr(spaced) if head == "affine_map" else IntegerSetAttr(spaced)


def _array(body: str, read_type: Callable[[str], Type]) -> Attribute:
    head, colon, rest = body.partition(":")
    element = read_type(head.strip())
    items = [item.strip() for item in rest.split(",")] if rest.strip() else []
    if colon and not items:
        raise LiteralError("expected an element behind ':'")
    values = []
    for item in items:
        if isinstance(element, FloatType):
            values.append(float_bits(item, element))
        elif item in ("true", "false"):
            values.append(int(item == "true"))
        else:
            try:
                values.append(integer_value(item, element).value)
            except ValueError:
                raise LiteralError(f"expected an integer, found '{item}'") from None
    return DenseArrayAttr(element, tuple(values))


def _strided(body: str) -> Attribute:
    match = re.fullmatch(r"\s*\[([^\]]*)\]\s*(?:,\s*offset\s*:\s*(\?|-?\d+)\s*)?", body)
    if match is None:
        raise LiteralError("expected strided<[…], offset: …>")
    strides = tuple(None if part.strip() == "?" else int(part) for part in match[1].split(",") if part.strip())
    offset = 0 if match[2] is None else None if match[2] == "?" else int(match[2])
    return StridedLayoutAttr(strides, offset)
