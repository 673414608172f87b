"""`array<…>`, `strided<…>`, `affine_map<…>`, `affine_set<…>` from their text."""

from __future__ import annotations

import re
from collections.abc import Callable

from gradopt.ir.attributes import AffineMapAttr, Attribute, DenseArrayAttr, IntegerSetAttr, StridedLayoutAttr
from gradopt.ir.types import FloatType, IndexType, IntegerType
from gradopt.parser.affine import affine_map_body, integer_set_body
from gradopt.parser.brackets import split_commas
from gradopt.parser.literals import LiteralError, float_bits, integer_value, read_integer
from gradopt.parser.types import TypeReader

__all__ = ["read_builtin"]

MOST_PASSES = 20
_NUMBER = re.compile(r"-?[ \t]*(?:0x[0-9A-Fa-f]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)\Z", re.ASCII)


def read_builtin(text: str, reader: TypeReader) -> Attribute:
    """The attribute of a text. Raises LiteralError and SyntaxFault."""
    start, end = text.index("<") + 1, len(text) - 1
    head = text[:start - 1].strip()
    if head == "array":
        return _array(text, start, end, reader)
    if head == "strided":
        return _strided(text[start:end], start)
    if head == "affine_map":
        return AffineMapAttr(_settled(affine_map_body, text, start, end))
    return IntegerSetAttr(_settled(integer_set_body, text, start, end))


def _settled(read: Callable[[str, int, int], str], text: str, start: int, end: int) -> str:
    """The canonical text, read and spelt again until it stays: `d0 + (-d1 + s0)` becomes `d0 + -d1 + s0`, then `d0 - d1 + s0`."""
    body = read(text, start, end)
    for _ in range(MOST_PASSES):
        again = read(body, 0, len(body))
        if again == body:
            break
        body = again
    return body


def _array(text: str, start: int, end: int, reader: TypeReader) -> Attribute:
    colon = text.find(":", start, end)
    element = reader.located(text[start:end if colon < 0 else colon].strip(), start)
    if not isinstance(element, (IntegerType, IndexType, FloatType)):
        raise LiteralError(f"expected integer or float type, got: '{element.text}'", start)
    if element.width % 8 and not element.is_truth:
        raise LiteralError("element type bitwidth must be a multiple of 8", start)
    parts = split_commas(text, colon + 1, end) if colon >= 0 else []
    if colon >= 0 and not parts:
        raise LiteralError("expected integer literal", end)
    values = []
    for begin, stop in parts:
        item = text[begin:stop].strip()
        place = begin + len(text[begin:stop]) - len(text[begin:stop].lstrip())
        if element.is_truth:
            if item not in ("true", "false"):
                raise LiteralError("expected 'true' or 'false' values for i1 type", place)
            values.append(int(item == "true"))
            continue
        if item in ("true", "false"):
            raise LiteralError("expected i1 type for 'true' or 'false' values", place)
        if not _NUMBER.match(item):
            raise LiteralError(f"expected {'float' if isinstance(element, FloatType) else 'integer'} literal, found '{item[:20]}'", place)
        try:
            if not isinstance(element, FloatType):
                if "." in item:
                    raise LiteralError("expected integer literal")
                signless = element  # negative numbers may stand for unsigned ones here
                if element.is_unsigned and item.startswith("-"):
                    signless = IntegerType(element.width, "signed")
                values.append(element.wrap(integer_value(item, signless).value))
            elif "." not in item and "0x" not in item:
                raise LiteralError("unexpected decimal integer literal for a floating point value")
            else:
                values.append(float_bits(item, element))
        except LiteralError as error:
            raise LiteralError(error.message, place) from None
    return DenseArrayAttr(element, tuple(values))


_STRIDED = re.compile(r"\s*\[([^\[\]]*)\]\s*(?:,\s*offset\s*:\s*([^\[\],]*))?", re.ASCII)
_STRIDE = re.compile(r"\s*(\?|-?[ \t]*(?:0x[0-9A-Fa-f]+|[0-9]+))\s*", re.ASCII)


def _strided(body: str, start: int) -> Attribute:
    match = _STRIDED.fullmatch(body)
    texts = [] if match is None else ["0" if match[2] is None else match[2], *(match[1].split(",") if match[1].strip() else ())]
    found = [_STRIDE.fullmatch(text) for text in texts]
    sizes = [None if size is None or size[1] == "?" else read_integer(size[1]) for size in found]
    if not found or None in found or any(size is not None and not -1 << 63 < size < 1 << 63 for size in sizes):
        raise LiteralError("expected strided<[…], offset: …> with 64-bit integers or '?'", start)
    return StridedLayoutAttr(tuple(sizes[1:]), sizes[0])
