"""How MLIR spells strings, floats and dense elements (rules found by asking `mlir-opt`)."""

from __future__ import annotations

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


def float_text(bits: int, type: Any) -> str:
    """A float literal: `%.6e` where that reads back to the same bits, else more digits, else the bit pattern in hex."""
    value = type.decode(bits)
    if value - value == 0 and type.width <= 64:  # finite
        short = f"{value:.6e}"
        if type.encode(float(short)) == bits:
            return short
        longer = _general_text(value, 17 if type.width == 64 else 9)
        if "." in longer and type.encode(float(longer)) == bits:
            return longer
    return f"0x{bits:0{(type.width + 3) // 4}X}"


def _general_text(value: float, digits: int) -> str:
    """The value with at most `digits` significant digits, in plain or `E` notation, as APFloat writes it."""
    text = f"{value:.{digits - 1}e}"
    mantissa, exponent = text.split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    power = int(exponent)
    negative, mantissa = mantissa.startswith("-"), mantissa.lstrip("-")
    figures = mantissa.replace(".", "")
    if -4 < power < 0 or (power >= 0 and len(figures) - 1 <= power + 3 and power < digits) or 0 <= power < digits:
        if power < 0:
            plain = "0." + "0" * (-power - 1) + figures
        elif len(figures) <= power + 1:
            plain = figures + "0" * (power + 1 - len(figures))
        else:
            plain = figures[: power + 1] + "." + figures[power + 1:]
    else:
        plain = figures[0] + "." + (figures[1:] or "0") + f"E{'+' if power >= 0 else '-'}{abs(power)}"
    return ("-" if negative else "") + plain


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
    if element.text == "i1":
        return ["true" if bits else "false" for bits in patterns]
    return [str(element.wrap(bits)) for bits in patterns]


def dense_body(attribute: DenseElementsAttr) -> str:
    """The text between the angle brackets: a splat, a hex blob, or nested lists."""
    type, element = attribute.type, attribute.type.element
    count = type.element_count
    if count == 0:
        return ""
    if attribute.is_splat:
        return element_texts(element, attribute.data)[0]
    if count > HEX_ABOVE and element.text != "i1":
        return '"0x' + attribute.data.hex().upper() + '"'
    texts = element_texts(element, attribute.data)
    for size in reversed(type.shape[1:]):
        texts = ["[" + ", ".join(texts[start:start + size]) + "]" for start in range(0, len(texts), size)]
    return "[" + ", ".join(texts) + "]"
