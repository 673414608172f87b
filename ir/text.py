"""How MLIR spells strings, floats and dense elements (rules found by asking `mlir-opt`)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradopt.ir.attributes import DenseElementsAttr

HEX_ABOVE = 100  # more elements than this print as one hex blob


def escape_string(value: str) -> str:
    """A string literal: `"` and everything that is not printable ASCII as `\\HH`, the backslash doubled.

    Lone surrogates stand for raw bytes (Python's surrogateescape)."""
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    pieces = []
    for byte in value.encode("utf-8", "surrogateescape"):
        if byte == 0x5C:
            pieces.append("\\\\")
        elif byte == 0x22 or not 0x20 <= byte < 0x7F:
            pieces.append(f"\\{byte:02X}")
        else:
            pieces.append(chr(byte))
    return '"' + "".join(pieces) + '"'


@lru_cache(maxsize=8192)
def float_text(bits: int, type: Any) -> str:
    """A float literal as MLIR spells it: six digits where those read back to the same bits, else more, else the bit pattern in hex.

    MLIR reads decimals as 64-bit floats; wider values that are none of those are hex here, so that no bit is lost."""
    from gradopt.ir.float_formats import decimal_text, finite_parts

    parts = finite_parts(type, bits)
    pattern = f"0x{bits:0{(type.width + 3) // 4}X}"
    if parts is None:
        return pattern
    negative, significand, power = parts
    sign = "-" if negative else ""
    if significand == 0:
        return sign + "0.000000e+00"
    short = sign + decimal_text(significand, power, 6, 0)
    if type.width > 64:
        if not _is_double(significand, power):
            return pattern
        if _is_nearest(short, significand, power):
            return short
    elif type.encode(float(short)) == bits:
        return short
    precision = type.mantissa_bits + (0 if type.special == "x87" else 1)
    longer = sign + decimal_text(significand, power, 2 + precision * 59 // 196, 3)
    return longer if "." in longer and type.encode(float(longer)) == bits else pattern


def _is_double(significand: int, power: int) -> bool:
    """True if significand * 2**power is a 64-bit float."""
    from fractions import Fraction

    value = Fraction(significand) * Fraction(2) ** power
    try:
        return Fraction(float(value)) == value
    except OverflowError:
        return False


def _is_nearest(text: str, significand: int, power: int) -> bool:
    """True if a decimal lies within half a unit in the last place of significand * 2**power."""
    from fractions import Fraction

    return abs(abs(Fraction(text)) - Fraction(significand) * Fraction(2) ** power) * 2 < Fraction(2) ** power


def integer_text(value: int) -> str:
    """The decimal digits of an integer of any size (Python itself refuses more than 4300)."""
    if -(1 << 12000) < value < 1 << 12000:
        return str(value)
    pieces, rest, unit = [], abs(value), 10 ** 3000
    while rest:
        rest, piece = divmod(rest, unit)
        pieces.append(f"{piece:03000d}" if rest else str(piece))
    return ("-" if value < 0 else "") + "".join(reversed(pieces))


def dense_text(attribute: DenseElementsAttr) -> str:
    """`dense<body> : type`."""
    return f"dense<{dense_body(attribute)}> : {attribute.type.text}"


def element_texts(element: Any, data: bytes) -> list[str]:
    """Each element of raw data as MLIR spells it inside `dense<…>`."""
    width = element.storage_bytes
    if hasattr(element, "element"):  # complex
        parts = element_texts(element.element, data)
        return [f"({real},{imaginary})" for real, imaginary in zip(parts[::2], parts[1::2])]
    patterns = [int.from_bytes(data[start:start + width], "little") for start in range(0, len(data), width)]
    if element.is_float:
        return [float_text(bits, element) for bits in patterns]
    if element.is_truth:
        return ["true" if bits else "false" for bits in patterns]
    return [integer_text(element.wrap(bits)) for bits in patterns]


def dense_body(attribute: DenseElementsAttr) -> str:
    """The text between the angle brackets: a splat, a hex blob, or nested lists."""
    type, element = attribute.type, attribute.type.element
    count = type.element_count
    if not attribute.data:
        return ""
    if attribute.is_splat:  # also where there are no elements
        return element_texts(element, attribute.data)[0]
    if count > HEX_ABOVE:
        return '"0x' + hex_data(element, attribute.data).hex().upper() + '"'
    return nested_lists(element_texts(element, attribute.data), type.shape)


def hex_data(element: Any, data: bytes) -> bytes:
    """The bytes of a hex blob: truth values packed into bits, no sign bits above the width of an integer."""
    if element.is_truth:
        return packed_bits(data)
    spare = element.width % 8 if getattr(element, "is_integer", False) else 0
    if not spare:
        return data
    width = element.storage_bytes
    masked = bytearray(data)
    for position in range(width - 1, len(masked), width):
        masked[position] &= (1 << spare) - 1
    return bytes(masked)


def packed_bits(data: bytes) -> bytes:
    """Truth values of a byte each as bits, the first one lowest."""
    packed = bytearray((len(data) + 7) // 8)
    for index, value in enumerate(data):
        packed[index // 8] |= (value & 1) << index % 8
    return bytes(packed)


def nested_lists(texts: list[str], shape: tuple[int, ...]) -> str:
    """`[[a, b], [c, d]]`: texts of elements in row-major order of a shape of rank 1 or more."""
    for size in reversed(shape[1:]):
        texts = ["[" + ", ".join(texts[start:start + size]) + "]" for start in range(0, len(texts), size)]
    return "[" + ", ".join(texts) + "]"
