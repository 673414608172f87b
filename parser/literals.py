"""Dense literals, hex floats and strings to attributes."""

from __future__ import annotations

import re
from typing import Any

from gradopt.ir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr
from gradopt.ir.types import ComplexType, FloatType, IndexType, IntegerType, RankedType, Type

__all__ = ["LiteralError", "dense_elements", "float_bits", "integer_value", "unescape"]


class LiteralError(Exception):
    """What is wrong with a literal."""


_ESCAPE = re.compile(r'\\(?:([0-9A-Fa-f]{2})|(.))', re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}


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
            raise LiteralError("unknown escape in string literal")
        position = match.end()
    raw += body[position:].encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "surrogateescape")


def integer_value(text: str, type: Type) -> IntegerAttr:
    """An integer literal of a type: a value that fits the width signed or unsigned. Raises LiteralError."""
    value = int(text, 16) if "0x" in text else int(text)
    if isinstance(type, IndexType):
        if not -(1 << 63) <= value < 1 << 64:
            raise LiteralError("integer constant out of range for attribute")
        return IntegerAttr(type.wrap(value), type)
    if not isinstance(type, IntegerType):
        raise LiteralError("integer literal not valid for specified type")
    if type.signedness == "unsigned" and value < 0:
        raise LiteralError("negative integer literal not valid for unsigned integer type")
    low, high = -(1 << (type.width - 1)), (1 << type.width) - 1
    if type.signedness == "signed":
        high = (1 << (type.width - 1)) - 1
    if not low <= value <= high:
        raise LiteralError("integer constant out of range for attribute")
    return IntegerAttr(type.wrap(value), type)


def float_bits(text: str, type: FloatType) -> int:
    """The bits of a float literal: decimal with a dot, or a hex bit pattern of the exact width. Raises LiteralError."""
    if text.startswith(("0x", "-0x")):
        if text.startswith("-"):
            raise LiteralError("hexadecimal float literal should not have a leading minus")
        bits = int(text, 16)
        if bits >> type.width:
            raise LiteralError("hexadecimal float constant out of range for type")
        return bits
    return type.encode(float(text))


_TOKEN = re.compile(r'\s*(?:([\[\](),])|("(?:[^"\\]|\\.)*")|(true|false)|(-?0x[0-9A-Fa-f]+)|([-+]?\d+\.\d*(?:[eE][-+]?\d+)?)|(-?\d+))')


def dense_elements(body: str, type: Type) -> DenseElementsAttr:
    """The attribute of what stands between `dense<` and `>`. Raises LiteralError."""
    if not isinstance(type, RankedType):
        raise LiteralError("elements literal must be a shaped type")
    if None in type.shape:
        raise LiteralError("elements literal type must have static shape")
    body = body.strip()
    count, element = type.element_count, type.element
    if not body:
        if count:
            raise LiteralError(f"expected {count} elements, found none")
        return DenseElementsAttr(type, b"")
    if body.startswith('"0x'):
        return _blob(body, type, count)
    values, shape = _parse_nested(body, element)
    if shape is None:
        return DenseElementsAttr(type, values[0] if count else b"", bool(count))
    if tuple(shape) != tuple(type.shape):
        raise LiteralError(f"inferred shape of elements literal ({list(shape)}) does not match type ({list(type.shape)})")
    return DenseElementsAttr(type, b"".join(values))


def _blob(body: str, type: RankedType, count: int) -> DenseElementsAttr:
    digits = body.strip('"')[2:]
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        raise LiteralError("elements hex string only supports hex digits") from None
    element: Any = type.element
    if element.text == "i1":
        if len(data) == 1 and data[0] in (0x00, 0xFF):
            return DenseElementsAttr(type, bytes([data[0] & 1]), True)
        if len(data) != (count + 7) // 8:
            raise LiteralError("elements hex data size is invalid for provided type: " + type.text)
        bits = [data[i // 8] >> (i % 8) & 1 for i in range(count)]
        return DenseElementsAttr(type, bytes(bits))
    width = element.storage_bytes
    if len(data) == width * count:
        return DenseElementsAttr(type, data)
    if len(data) == width:
        return DenseElementsAttr(type, data, True)
    raise LiteralError("elements hex data size is invalid for provided type: " + type.text)


def _parse_nested(body: str, element: Type) -> tuple[list[bytes], list[int] | None]:
    """(elements in order, shape; None for a lone element). Iterative."""
    values: list[bytes] = []
    counts: list[int] = []  # items so far in each open list
    shape: list[int] = []
    closed: dict[int, int] = {}  # depth -> length of its lists
    position, expects_item, done = 0, True, False
    while position < len(body):
        match = _TOKEN.match(body, position)
        if match is None:
            if body[position:].strip() == "":
                break
            raise LiteralError(f"expected element literal of primitive type, found '{body[position:].strip()[:12]}'")
        position = match.end()
        mark = match[1]
        if done:
            raise LiteralError("unexpected text behind the elements")
        if mark == "[" and expects_item:
            counts.append(0)
        elif mark == "]" and counts and (not expects_item or counts[-1] == 0):
            length, depth = counts.pop(), len(counts)
            if closed.setdefault(depth, length) != length:
                raise LiteralError("tensor literal is invalid; ranks are not consistent between elements")
            expects_item = False
            if counts:
                counts[-1] += 1
            else:
                done = True
        elif mark == "," and not expects_item and counts:
            expects_item = True
            continue
        elif mark == "(" and expects_item and isinstance(element, ComplexType):
            end = body.index(")", position)
            parts = body[position:end].split(",")
            if len(parts) != 2:
                raise LiteralError("expected (real, imaginary)")
            values.append(b"".join(_element(part.strip(), element.element) for part in parts))
            position, expects_item = end + 1, False
            if counts:
                counts[-1] += 1
            else:
                done = True
        elif mark is None and expects_item:
            values.append(_element(match.group().strip(), element))
            expects_item = False
            if counts:
                counts[-1] += 1
            else:
                done = True
        else:
            raise LiteralError(f"unexpected '{match.group().strip()}' in elements literal")
    if counts or not done:
        raise LiteralError("expected ']' at the end of the elements")
    if not closed:
        return values, None
    shape = [closed[depth] for depth in sorted(closed)]
    expected = 1
    for size in shape:
        expected *= size
    if expected != len(values):
        raise LiteralError("tensor literal is invalid; ranks are not consistent between elements")
    return values, shape


def _element(text: str, element: Type) -> bytes:
    width = element.storage_bytes
    if isinstance(element, FloatType):
        if "." not in text and "0x" not in text:
            raise LiteralError(f"expected floating point element, found '{text}'")
        return float_bits(text, element).to_bytes(width, "little")
    if isinstance(element, (IntegerType, IndexType)):
        if text in ("true", "false"):
            if element.text != "i1":
                raise LiteralError("expected i1 type for 'true' or 'false' values")
            return bytes([text == "true"])
        if "." in text:
            raise LiteralError(f"expected integer elements, but parsed floating-point '{text}'")
        value = integer_value(text, element).value
        return (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    raise LiteralError(f"dense elements of type {element.text} are not supported")


def float_attribute(text: str, type: FloatType) -> FloatAttr:
    """A float attribute of a literal."""
    return FloatAttr(float_bits(text, type), type)
