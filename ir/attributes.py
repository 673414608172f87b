"""Attributes: immutable, interned values that are known when the program is compiled. Types are attributes too (`types.py`).

Equal attributes are the same object, so `==` is `is`, hashing is the object's address, and text is made once.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, TypeVar

from gradopt.ir.text import escape_string, float_text, integer_text

__all__ = ["AffineMapAttr", "ArrayAttr", "Attribute", "DenseArrayAttr", "DenseElementsAttr", "DenseResourceAttr",
           "DialectAttr", "DictionaryAttr", "FloatAttr", "IntegerAttr", "IntegerSetAttr", "Interned", "SparseElementsAttr",
           "StridedLayoutAttr", "StringAttr", "SymbolRefAttr", "TypeAttr", "UnitAttr"]

Self = TypeVar("Self", bound="Interned")


class Interned(type):
    """Metaclass: a call with equal arguments returns the object that the first such call made."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._pool: dict[Any, Any] = {}

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        key = (arguments, tuple(keywords.items())) if keywords else arguments
        found = cls._pool.get(key)
        if found is None:
            made = super().__call__(*arguments, **keywords)
            found = cls._pool.setdefault(made.key, made)
            cls._pool[key] = found
        return found


class Attribute(metaclass=Interned):
    """Base of all attributes. `key` is the tuple of canonical constructor arguments; `text` is the MLIR spelling."""

    __slots__ = ("__weakref__", "_text", "key")
    key: tuple[Any, ...]

    def _set(self, *key: Any) -> None:
        self.key = key
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The attribute as MLIR's generic form prints it."""
        if self._text is None:
            self._text = self.spell()
        return self._text

    def spell(self) -> str:
        """Makes `text`; overridden by each class."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.text}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.key

    def __copy__(self) -> Attribute:
        return self

    def __deepcopy__(self, memo: object) -> Attribute:
        return self


class UnitAttr(Attribute):
    """Present or absent; carries no value."""

    __slots__ = ()

    def __init__(self) -> None:
        self._set()

    def spell(self) -> str:
        return "unit"


class IntegerAttr(Attribute):
    """An integer of an integer or index type; i1 prints as `true` or `false`. The value is kept as MLIR prints it: signed unless the
    type is `ui`."""

    __slots__ = ("type", "value")

    def __init__(self, value: int, type: Any) -> None:
        self.value, self.type = int(value), type
        self._set(int(value), type)

    def spell(self) -> str:
        if self.type.text == "i1":
            return "true" if self.value else "false"
        return f"{integer_text(self.value)} : {self.type.text}"


class FloatAttr(Attribute):
    """A float of a float type, kept as its bit pattern, so that NaN and -0.0 are distinct values."""

    __slots__ = ("bits", "type")

    def __init__(self, bits: int, type: Any) -> None:
        self.bits, self.type = bits, type
        self._set(bits, type)

    @classmethod
    def of(cls, value: float, type: Any) -> FloatAttr:
        """The attribute of the Python float `value` rounded to `type`."""
        return cls(type.encode(value), type)

    @property
    def value(self) -> float:
        """The value as a Python float (exact for types of at most 64 bits)."""
        decoded: float = self.type.decode(self.bits)
        return decoded

    def spell(self) -> str:
        return f"{float_text(self.bits, self.type)} : {self.type.text}"


class StringAttr(Attribute):
    """A string; may carry a type."""

    __slots__ = ("type", "value")

    def __init__(self, value: str, type: Any = None) -> None:
        self.value, self.type = value, type
        self._set(value, type)

    def spell(self) -> str:
        return escape_string(self.value) + (f" : {self.type.text}" if self.type is not None else "")


class SymbolRefAttr(Attribute):
    """A reference to a symbol: `@root::@nested`."""

    __slots__ = ("nested", "root")

    def __init__(self, root: str, nested: tuple[str, ...] = ()) -> None:
        self.root, self.nested = root, nested
        self._set(root, nested)

    def spell(self) -> str:
        return "::".join(symbol_text(name) for name in (self.root, *self.nested))


def symbol_text(name: str) -> str:
    """`@name`, quoted where the name is not a bare identifier."""
    head, tail = name[:1], name[1:]
    plain = (head.isascii() and (head.isalpha() or head == "_")
             and all(c.isascii() and (c.isalnum() or c in "_$.") for c in tail))
    return "@" + (name if plain else escape_string(name))


class TypeAttr(Attribute):
    """A type as an attribute."""

    __slots__ = ("type",)

    def __init__(self, type: Any) -> None:
        self.type = type
        self._set(type)

    def spell(self) -> str:
        text: str = self.type.text
        return text


class ArrayAttr(Attribute):
    """A list of attributes. An i64 element prints without its type."""

    __slots__ = ("elements",)

    def __init__(self, elements: tuple[Attribute, ...]) -> None:
        self.elements = elements
        self._set(elements)

    def spell(self) -> str:
        return "[" + ", ".join(element_text(element) for element in self.elements) + "]"


def element_text(attribute: Attribute) -> str:
    """An attribute as it prints inside a list: i64 and f64 leave their type out."""
    if isinstance(attribute, IntegerAttr) and attribute.type.text == "i64":
        return str(attribute.value)
    if isinstance(attribute, FloatAttr) and attribute.type.text == "f64":
        text = attribute.text.removesuffix(" : f64")
        return attribute.text if text.startswith("0x") else text
    return attribute.text


class DictionaryAttr(Attribute):
    """A dictionary with string keys, sorted by key."""

    __slots__ = ("entries",)

    def __init__(self, entries: tuple[tuple[str, Attribute], ...]) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: key_bytes(entry[0])))
        self._set(self.entries)

    def spell(self) -> str:
        return "{" + ", ".join(entry_text(name, value) for name, value in self.entries) + "}"


def key_bytes(name: str) -> bytes:
    """By what attribute names are sorted."""
    return name.encode("utf-8", "surrogateescape")


def key_text(name: str) -> str:
    """An attribute name, quoted where it is not a bare identifier."""
    head, tail = name[:1], name[1:]
    plain = (head.isascii() and (head.isalpha() or head == "_")
             and all(c.isascii() and (c.isalnum() or c in "_$.") for c in tail))
    return name if plain else escape_string(name)


def entry_text(name: str, value: Attribute) -> str:
    """`name = value`, or the bare name of a unit attribute."""
    return key_text(name) if isinstance(value, UnitAttr) else f"{key_text(name)} = {value.text}"


class DenseElementsAttr(Attribute):
    """The elements of a static tensor or vector as raw little-endian bytes in row-major order.

    `data` holds one element for a splat, all of them otherwise; i1 takes one byte an element (0 or 1), sub-byte integers a byte each,
    complex two floats.
    """

    __slots__ = ("data", "is_splat", "type")

    def __init__(self, type: Any, data: bytes, is_splat: bool = False) -> None:
        width: int = type.element.storage_bytes
        if not is_splat and len(data) > width and data == data[:width] * (len(data) // width):
            data, is_splat = data[:width], True
        elif not is_splat and len(data) == width:
            is_splat = True
        self.type, self.data, self.is_splat = type, data, is_splat
        self._set(type, data, is_splat)

    def spell(self) -> str:
        from gradopt.ir.text import dense_text

        return dense_text(self)


class SparseElementsAttr(Attribute):
    """A sparse tensor constant: coordinates and values, each dense (values may be a `DenseStringAttr`)."""

    __slots__ = ("indices", "type", "values")

    def __init__(self, indices: DenseElementsAttr | None, values: Any, type: Any) -> None:
        self.indices, self.values, self.type = indices, values, type
        self._set(indices, values, type)

    def spell(self) -> str:
        from gradopt.ir.text import dense_body

        if self.indices is None or self.values is None:
            return f"sparse<> : {self.type.text}"
        values = self.values.text[len("dense<"):-len(f"> : {self.values.type.text}")]  # they may be strings
        return f"sparse<{dense_body(self.indices)}, {values}> : {self.type.text}"


class DenseArrayAttr(Attribute):
    """`array<i64: 1, 2>`: a flat list of integers or floats (floats as bit patterns)."""

    __slots__ = ("element", "values")

    def __init__(self, element: Any, values: tuple[int, ...]) -> None:
        self.element, self.values = element, values
        self._set(element, values)

    def spell(self) -> str:
        if self.element.is_float:
            items = [float_text(bits, self.element) for bits in self.values]
        elif self.element.is_truth:
            items = ["true" if value else "false" for value in self.values]
        else:
            items = [integer_text(value) for value in self.values]
        return f"array<{self.element.text}{': ' if items else ''}{', '.join(items)}>"


class DenseResourceAttr(Attribute):
    """`dense_resource<key> : type`: a blob that stands at the end of the file (its alignment in 4 bytes, then the data)."""

    __slots__ = ("blob", "resource", "type")

    def __init__(self, resource: str, type: Any, blob: bytes | None = None) -> None:
        self.resource, self.type, self.blob = resource, type, blob
        self._set(resource, type, blob)

    def spell(self) -> str:
        return f"dense_resource<{key_text(self.resource)}> : {self.type.text}"


class AffineMapAttr(Attribute):
    """`affine_map<(d0)[s0] -> (d0 + s0)>`; the body is kept as canonical text."""

    __slots__ = ("body",)

    def __init__(self, body: str) -> None:
        self.body = body
        self._set(body)

    def spell(self) -> str:
        return f"affine_map<{self.body}>"


class IntegerSetAttr(Attribute):
    """`affine_set<(d0) : (d0 >= 0)>`; the body is kept as canonical text."""

    __slots__ = ("body",)

    def __init__(self, body: str) -> None:
        self.body = body
        self._set(body)

    def spell(self) -> str:
        return f"affine_set<{self.body}>"


class StridedLayoutAttr(Attribute):
    """`strided<[4, ?], offset: 1>`; None is a dynamic stride or offset."""

    __slots__ = ("offset", "strides")

    def __init__(self, strides: tuple[int | None, ...], offset: int | None = 0) -> None:
        self.strides, self.offset = strides, offset
        self._set(strides, offset)

    def spell(self) -> str:
        strides = ", ".join("?" if stride is None else str(stride) for stride in self.strides)
        offset = "" if self.offset == 0 else f", offset: {'?' if self.offset is None else self.offset}"
        return f"strided<[{strides}]{offset}>"


class DialectAttr(Attribute):
    """An attribute of a dialect, kept as its text: `#d.name<…>` or `#d<…>`, with an optional type behind it."""

    __slots__ = ("body", "type")
    sigil: ClassVar[str] = "#"

    def __init__(self, body: str, type: Any = None) -> None:
        self.body, self.type = body, type
        self._set(body, type)

    @property
    def dialect(self) -> str:
        """The dialect's name: what stands before the first `.` or `<`."""
        return self.body.split("<", 1)[0].split(".", 1)[0]

    def spell(self) -> str:
        return f"{self.sigil}{self.body}" + (f" : {self.type.text}" if self.type is not None else "")


def pack_float(value: float, code: str) -> int:
    """The bit pattern of a float in a struct format ("e", "f" or "d"), overflow rounded to infinity."""
    try:
        packed = struct.pack("<" + code, value)
    except OverflowError:
        packed = struct.pack("<" + code, float("inf") if value > 0 else float("-inf"))
    return int.from_bytes(packed, "little")
