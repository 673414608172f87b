"""Integers, floats, strings and the elements of dense literals to attributes."""

from __future__ import annotations

import re
from typing import Any

from gradopt.ir.attributes import Attribute, DenseElementsAttr, DenseResourceAttr, IntegerAttr, SparseElementsAttr
from gradopt.ir.rare_attributes import DenseStringAttr
from gradopt.ir.types import I64, ComplexType, FloatType, IndexType, IntegerType, RankedType, TensorType, Type
from gradopt.parser.brackets import split_commas

__all__ = ["LiteralError", "dense_literal", "float_bits", "integer_value", "read_integer", "unescape"]


class LiteralError(Exception):
    """What is wrong with a literal, and how far from its start."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.message, self.offset = message, offset


_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}
MOST_DIGITS = 5_100_000  # of the largest integer that the widest type holds


def unescape(text: str) -> str:
    """The value of a string literal (with its quotes). Bytes that are not UTF-8 become lone surrogates. Raises LiteralError."""
    body = text[1:-1]
    if "\\" not in body:
        return body
    raw = bytearray()
    position = 0
    for match in _ESCAPE.finditer(body):
        raw += body[position: match.start()].encode("utf-8", "surrogateescape")
        if match[1] is not None:
            raw.append(int(match[1], 16))
        elif match[2] in _SIMPLE:
            raw += _SIMPLE[match[2]].encode()
        else:
            raise LiteralError("unknown escape in string literal", match.start() + 1)
        position = match.end()
    raw += body[position:].encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "surrogateescape")


def read_integer(text: str) -> int:
    """The value of a decimal or hexadecimal literal; Python itself refuses more than 4300 decimal digits. Raises LiteralError."""
    text = text.replace(" ", "").replace("\t", "")
    if "0x" in text:
        return int(text, 16)
    negative, digits = text.startswith("-"), text.lstrip("-")
    if len(digits) > MOST_DIGITS:
        raise LiteralError("integer constant out of range for attribute")
    value = 0
    for start in range(0, len(digits), 4000):
        piece = digits[start:start + 4000]
        value = value * 10 ** len(piece) + int(piece)
    return -value if negative else value


def integer_value(text: str, type: Type) -> IntegerAttr:
    """An integer literal of a type: a value that fits the width signed or unsigned. Raises LiteralError."""
    if not isinstance(type, (IndexType, IntegerType)):
        raise LiteralError(f"integer literal not valid for specified type '{type.text}'")
    value = read_integer(text)
    if type.signedness == "unsigned" and text.startswith("-"):
        raise LiteralError("negative integer literal not valid for unsigned integer type")
    if value == 0 and text.startswith("-"):
        raise LiteralError(f"integer constant out of range for attribute of type '{type.text}': there is no negative zero")
    signed_only = type.signedness == "signed" or isinstance(type, IndexType)
    high = (1 << max(type.width - signed_only, 0)) - 1
    low = -(1 << type.width - 1) if type.width else 0
    if not low <= value <= high:
        raise LiteralError(f"integer constant out of range for attribute of type '{type.text}'")
    return IntegerAttr(type.wrap(value), type)


def float_bits(text: str, type: FloatType) -> int:
    """The bits of a float literal: decimal with a dot, or a hex bit pattern of the exact width. Raises LiteralError."""
    text = text.replace(" ", "").replace("\t", "")
    if "0x" in text:
        if text.startswith("-"):
            raise LiteralError("hexadecimal float literal should not have a leading minus")
        bits = int(text, 16)
        if bits >> type.width:
            raise LiteralError("hexadecimal float constant out of range for type")
        return bits
    return type.encode(float(text))


def dense_literal(text: str, type: Type, resources: dict[str, bytes]) -> Attribute:
    """`dense<…>`, `dense_resource<…>` or `sparse<…>` of a type. Raises LiteralError."""
    start = text.index("<") + 1
    head, body = text[:start - 1].strip(), text[start:-1]
    if head == "dense_resource":
        key = body.strip()
        if not re.fullmatch(r'[A-Za-z_][\w$.]*|".*"', key, re.ASCII | re.DOTALL):
            raise LiteralError("expected a resource key", start)
        name = unescape(key) if key.startswith('"') else key
        return DenseResourceAttr(name, type, resources.get(name))
    if head == "dense":
        return dense_elements(body, type, start)
    return _sparse(body, type, start)


def _shaped(type: Type) -> RankedType:
    if not isinstance(type, RankedType):
        raise LiteralError(f"elements literal must be a shaped type, found '{type.text}'")
    if None in type.shape:
        raise LiteralError(f"elements literal type must have static shape, found '{type.text}'")
    return type


def _sparse(body: str, type: Type, start: int) -> Attribute:
    type = _shaped(type)
    parts = split_commas(body, 0, len(body))
    if not parts:
        return SparseElementsAttr(None, None, type)
    if len(parts) != 2:
        raise LiteralError("expected indices and values in sparse<…>", start)
    numbers, shape = _parse_nested(body[:parts[0][1]], I64, start)
    written = " " * parts[1][0] + body[parts[1][0]:]  # in its place, so that offsets stay
    whole = written.lstrip().startswith('"')  # one string, or a blob
    value_shape = None if whole else _parse_nested(written, type.element, start)[1]
    rank = len(type.shape)
    if shape is None:
        shape = (1, rank)
        numbers = numbers * rank
    rows = shape[0] if shape else 1
    if len(shape) > 2 or (shape[1] if len(shape) == 2 else 1) != rank or (value_shape is not None and value_shape != (rows,)):
        raise LiteralError(f"expected shape ({list(type.shape)}); inferred shape of indices literal ({list(shape)}); "
                           f"inferred shape of values literal ({list(value_shape or ())})")
    if not numbers:
        return SparseElementsAttr(None, None, type)
    for row in range(rows):
        index = [int.from_bytes(item, "little", signed=True) for item in numbers[row * rank:(row + 1) * rank]]
        if any(not 0 <= place < (size or 0) for place, size in zip(index, type.shape)):
            raise LiteralError(f"sparse index #{row} is not contained within the value shape, with index={index}, and type='{type.text}'")
    index_type = TensorType(tuple(shape), I64)
    elements = dense_elements(written, TensorType((rows,), type.element), start)
    return SparseElementsAttr(DenseElementsAttr(index_type, b"".join(numbers)), elements, type)


def dense_elements(body: str, type: Type, start: int = 0) -> Attribute:
    """The attribute of what stands between `dense<` and `>`. Raises LiteralError."""
    shaped = _shaped(type)
    element: Any = shaped.element
    count = shaped.element_count
    strings = not isinstance(element, (IntegerType, IndexType, FloatType, ComplexType))
    stripped = body.strip()
    if not stripped:
        if count:
            raise LiteralError(f"expected {count} elements, found none", start)
        return DenseStringAttr((), shaped) if strings else DenseElementsAttr(shaped, b"")
    if stripped.startswith('"') and not strings:
        return _blob(stripped, shaped, count, start + body.index('"'))
    if not count and isinstance(element, ComplexType) and stripped[0] not in "([":
        _parse_nested(body, element.element, start)  # MLIR takes a lone number for no complex numbers
        return DenseElementsAttr(shaped, b"")
    values, shape = _parse_nested(body, element, start)
    if shape is not None and shape != tuple(shaped.shape):
        raise LiteralError(f"inferred shape of elements literal ({list(shape)}) does not match type ({list(shaped.shape)})")
    if strings:
        return DenseStringAttr(tuple(values), shaped)
    if shape is None:
        return DenseElementsAttr(shaped, values[0], bool(values[0]))
    return DenseElementsAttr(shaped, b"".join(values))


def _blob(text: str, type: RankedType, count: int, start: int) -> DenseElementsAttr:
    """Raw little-endian data in hex: all elements, or one for a splat; i1 is packed into bits."""
    if not re.fullmatch(r'"0x[0-9A-Fa-f]*"', text):
        raise LiteralError("expected string containing hex digits starting with `0x`", start)
    if len(text) % 2:
        raise LiteralError("elements hex string has an odd number of digits", start)
    data = bytes.fromhex(text[3:-1]) if len(text) > 3 else b""
    element: Any = type.element
    wrong = LiteralError(f"elements hex data size is invalid for provided type: '{type.text}'", start)
    if element.is_truth:
        if count == 1 and len(data) == 1:
            data = bytes([data[0] != 0])
        true = element.wrap(1) & 0xFF
        if len(data) != (count + 7) // 8:
            if len(data) == 1 and data[0] in (0x00, 0xFF):
                return DenseElementsAttr(type, bytes([data[0] & true]), True)
            raise wrong
        return DenseElementsAttr(type, bytes([true * (data[i // 8] >> (i % 8) & 1) for i in range(count)]))
    width = element.storage_bytes
    if len(data) == width * count:
        return DenseElementsAttr(type, _masked(data, element))
    if len(data) == width:
        return DenseElementsAttr(type, _masked(data, element), True)
    raise wrong


def _masked(data: bytes, element: Any) -> bytes:
    """Raw elements of a width that does not fill their bytes: what stands above it is dropped, integers are sign-extended as they are
    kept here."""
    if not isinstance(element, (IntegerType, FloatType)) or element.width % 8 == 0:
        return data
    width = element.storage_bytes
    full = (1 << 8 * width) - 1
    wrap = element.wrap if isinstance(element, IntegerType) else lambda bits: bits & ((1 << element.width) - 1)
    return b"".join([(wrap(int.from_bytes(data[start:start + width], "little")) & full).to_bytes(width, "little")
                     for start in range(0, len(data), width)])


_ITEM = re.compile(r'\s*(?:([\[\](),])|("[^"\\\n]*(?:\\.[^"\\\n]*)*")|((?:true|false)(?!\w))|(-?[ \t]*0x[0-9A-Fa-f]+)'
                   r"|(-?[ \t]*[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?)|(-?[ \t]*[0-9]+))", re.ASCII)


def _parse_nested(body: str, element: Type, base: int) -> tuple[list[Any], tuple[int, ...] | None]:
    """(elements in order, shape; None for a lone element). Iterative."""
    values: list[Any] = []
    counts: list[int] = []  # items so far in each open list
    closed: dict[int, int] = {}  # depth -> length of its lists
    position, expects_item, done, value_depth = 0, True, False, -1
    end = len(body.rstrip())
    while position < end:
        match = _ITEM.match(body, position, end)
        if match is None:
            blank = len(body[position:end]) - len(body[position:end].lstrip())
            raise LiteralError("expected element literal of primitive type", base + position + blank)
        start = match.start(match.lastindex or 0)
        if done:
            raise LiteralError("expected '>' behind the elements", base + start)
        position, mark = match.end(), match[1]
        if mark == "," and not expects_item and counts:
            expects_item = True
            continue
        if mark == "[" and expects_item:
            counts.append(0)
            continue
        if mark == "]" and counts and (not expects_item or counts[-1] == 0):
            length = counts.pop()
            if closed.setdefault(len(counts), length) != length:
                raise LiteralError("tensor literal is invalid; ranks are not consistent between elements", base + start)
        elif expects_item and mark in ("(", None):
            if value_depth not in (-1, len(counts)):
                raise LiteralError("tensor literal is invalid; ranks are not consistent between elements", base + start)
            value_depth = len(counts)
            value, position = _value(body, match, element, base, end)
            values.append(value)
        else:
            found = mark or match[0].strip()
            raise LiteralError("expected element literal of primitive type" if expects_item else f"unexpected '{found}'", base + start)
        expects_item = False
        if counts:
            counts[-1] += 1
        else:
            done = True
    if not done:
        raise LiteralError("expected ']' at the end of the elements" if counts else "expected element literal of primitive type",
                           base + end)
    shape = tuple(closed[depth] for depth in sorted(closed))
    expected = 1
    for size in shape:
        expected *= size
    if expected != len(values) or (value_depth not in (-1, len(shape))):
        raise LiteralError("tensor literal is invalid; ranks are not consistent between elements", base)
    return values, shape if closed else None


def _value(body: str, match: re.Match[str], element: Type, base: int, end: int) -> tuple[Any, int]:
    """(bytes or string of one element, the offset behind it)."""
    start = match.start(match.lastindex or 0)
    if match[1] != "(":
        return _element(match.group().strip(), element, base + start), match.end()
    if not isinstance(element, ComplexType):
        raise LiteralError(f"unexpected complex element in a literal of '{element.text}'", base + start)
    parts, position = [], match.end()
    for closing in (",", ")"):
        part = _ITEM.match(body, position, end)
        if part is None or part[1] is not None:
            raise LiteralError("expected element literal of primitive type", base + position)
        parts.append(_element(part.group().strip(), element.element, base + part.start(part.lastindex or 0)))
        behind = _ITEM.match(body, part.end(), end)
        if behind is None or behind[1] != closing:
            raise LiteralError(f"expected '{closing}' in complex element", base + part.end())
        position = behind.end()
    return b"".join(parts), position


def _element(text: str, element: Type, offset: int) -> Any:
    if isinstance(element, FloatType):
        if text.startswith('"') or text in ("true", "false"):
            raise LiteralError(f"expected floating-point elements, but parsed {text}", offset)
        if "." not in text and "0x" not in text:
            raise LiteralError(f"unexpected decimal integer literal for a floating point value, found '{text}'", offset)
        try:
            return float_bits(text, element).to_bytes(element.storage_bytes, "little")
        except LiteralError as error:
            raise LiteralError(error.message, offset) from None
    if isinstance(element, (IntegerType, IndexType)):
        if text in ("true", "false"):
            if not element.is_truth:
                raise LiteralError("expected i1 type for 'true' or 'false' values", offset)
            return bytes([element.wrap(int(text == "true")) & 0xFF])
        if "." in text or text.startswith('"'):
            raise LiteralError(f"expected integer elements, but parsed {text}", offset)
        try:
            value = integer_value(text, element).value
        except LiteralError as error:
            raise LiteralError(error.message.replace("attribute of type", "type"), offset) from None
        width = element.storage_bytes
        return (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    if isinstance(element, ComplexType):
        raise LiteralError("expected '(' of a complex element", offset)
    if not text.startswith('"'):
        raise LiteralError(f"expected string elements in a literal of '{element.text}', found {text}", offset)
    return unescape(text)
