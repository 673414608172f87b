"""The builtin types. Like attributes they are interned: equal types are the same object, and `text` is made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.ir.attributes import ArrayAttr, Attribute, DialectAttr, IntegerAttr, StringAttr, pack_float
from gradopt.ir.sizes import UNKNOWN, Size, SizeExpression, UnknownSize, parse_size, shapes_differ

__all__ = ["BF16", "F16", "F32", "F64", "I1", "I8", "I16", "I32", "I64", "INDEX", "NONE", "UI8", "UI16", "UI32", "UI64",
           "ComplexType", "DialectType", "FloatType", "FunctionType", "IndexType", "IntegerType", "NoneType",
           "RankedType", "TensorType", "TupleType", "Type", "compatible", "tensor"]


class Type(Attribute):
    """Base of all types."""

    __slots__ = ()
    is_float = False
    is_integer = False
    is_truth = False  # one bit: elements are `true` and `false`

    @property
    def storage_bytes(self) -> int:
        """Bytes one element takes in memory and in `DenseElementsAttr.data`. Raises TypeError for types without elements."""
        raise TypeError(f"{self.text} has no storage size")


class IntegerType(Type):
    """`i32` (signless, read as two's complement; i1 is a truth value), `si32`, `ui32`."""

    __slots__ = ("is_truth", "signedness", "width")
    is_integer = True

    def __init__(self, width: int, signedness: str = "") -> None:
        self.width, self.signedness, self.is_truth = width, signedness, width == 1
        self._set(width, signedness)

    def spell(self) -> str:
        return f"{self.signedness[:1]}i{self.width}"

    @property
    def is_unsigned(self) -> bool:
        """True for `ui` types and for i1."""
        return self.signedness == "unsigned" or (self.width == 1 and not self.signedness)

    @property
    def storage_bytes(self) -> int:
        return max((self.width + 7) // 8, 1)

    def wrap(self, value: int) -> int:
        """`value` reduced to the width, in the range that this type prints: signed, except for `ui` (and i1: 0 or 1)."""
        value &= (1 << self.width) - 1
        if not self.is_unsigned and self.width and value >> (self.width - 1):
            value -= 1 << self.width
        return value


class IndexType(Type):
    """`index`: an integer as wide as an address (64 bits here)."""

    __slots__ = ()
    is_integer = True
    width, signedness, is_unsigned = 64, "", False

    def __init__(self) -> None:
        self._set()

    def spell(self) -> str:
        return "index"

    @property
    def storage_bytes(self) -> int:
        return 8

    def wrap(self, value: int) -> int:
        """`value` as a signed 64-bit integer."""
        return I64.wrap(value)


class NoneType(Type):
    """`none`."""

    __slots__ = ()

    def __init__(self) -> None:
        self._set()

    def spell(self) -> str:
        return "none"


# name -> (width, exponent bits, mantissa bits, exponent bias, kind of special values)
_FORMATS: dict[str, tuple[int, int, int, int, str]] = {
    "f16": (16, 5, 10, 15, "ieee"), "bf16": (16, 8, 7, 127, "ieee"), "tf32": (19, 8, 10, 127, "ieee"),
    "f32": (32, 8, 23, 127, "ieee"), "f64": (64, 11, 52, 1023, "ieee"), "f80": (80, 15, 64, 16383, "x87"),
    "f128": (128, 15, 112, 16383, "ieee"), "f8E5M2": (8, 5, 2, 15, "ieee"), "f8E4M3": (8, 4, 3, 7, "ieee"),
    "f8E3M4": (8, 3, 4, 3, "ieee"), "f8E4M3FN": (8, 4, 3, 7, "fn"), "f8E5M2FNUZ": (8, 5, 2, 16, "fnuz"),
    "f8E4M3FNUZ": (8, 4, 3, 8, "fnuz"), "f8E4M3B11FNUZ": (8, 4, 3, 11, "fnuz"), "f8E8M0FNU": (8, 8, 0, 127, "e8m0"),
    "f4E2M1FN": (4, 2, 1, 1, "finite"), "f6E2M3FN": (6, 2, 3, 1, "finite"), "f6E3M2FN": (6, 3, 2, 3, "finite"),
}
_STRUCT_CODES = {"f16": "e", "f32": "f", "f64": "d"}


class FloatType(Type):
    """A floating-point type by its MLIR name, e.g. `f32`, `bf16`, `f8E4M3FN`."""

    __slots__ = ("bias", "exponent_bits", "mantissa_bits", "name", "special", "width")
    is_float = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.width, self.exponent_bits, self.mantissa_bits, self.bias, self.special = _FORMATS[name]
        self._set(name)

    def spell(self) -> str:
        return self.name

    @property
    def storage_bytes(self) -> int:
        return (self.width + 7) // 8

    def encode(self, value: float) -> int:
        """The bit pattern of a Python float rounded to this type (to nearest, ties to even)."""
        code = _STRUCT_CODES.get(self.name)
        if code is not None:
            return pack_float(value, code)
        from gradopt.ir.float_formats import encode_float

        return encode_float(self, value)

    def decode(self, bits: int) -> float:
        """The value of a bit pattern as a Python float."""
        code = _STRUCT_CODES.get(self.name)
        if code is not None:
            import struct

            value: float = struct.unpack("<" + code, bits.to_bytes(self.storage_bytes, "little"))[0]
            return value
        from gradopt.ir.float_formats import decode_float

        return decode_float(self, bits)


class ComplexType(Type):
    """`complex<f32>`."""

    __slots__ = ("element",)

    def __init__(self, element: Type) -> None:
        self.element = element
        self._set(element)

    def spell(self) -> str:
        return f"complex<{self.element.text}>"

    @property
    def storage_bytes(self) -> int:
        return 2 * self.element.storage_bytes


class TupleType(Type):
    """`tuple<i32, f32>`."""

    __slots__ = ("elements",)

    def __init__(self, elements: tuple[Type, ...]) -> None:
        self.elements = elements
        self._set(elements)

    def spell(self) -> str:
        return f"tuple<{', '.join(element.text for element in self.elements)}>"


class FunctionType(Type):
    """`(inputs) -> results`."""

    __slots__ = ("inputs", "results")

    def __init__(self, inputs: tuple[Type, ...], results: tuple[Type, ...]) -> None:
        self.inputs, self.results = inputs, results
        self._set(inputs, results)

    def spell(self) -> str:
        inputs = ", ".join(type.text for type in self.inputs)
        if len(self.results) == 1 and not isinstance(self.results[0], FunctionType):
            return f"({inputs}) -> {self.results[0].text}"
        return f"({inputs}) -> ({', '.join(type.text for type in self.results)})"


class RankedType(Type):
    """Base of tensors, vectors and memrefs with a shape. A dynamic dimension is None in `shape`."""

    __slots__ = ("element", "shape")
    shape: tuple[int | None, ...]
    element: Type

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """True if every size is known."""
        return None not in self.shape

    @property
    def element_count(self) -> int:
        """The number of elements. Raises TypeError for a dynamic shape."""
        count = 1
        for size in self.shape:
            if size is None:
                raise TypeError(f"{self.text} has a dynamic size")
            count *= size
        return count


DIMS_PREFIX = "ir.dims"


class TensorType(RankedType):
    """`tensor<2x?xf32, encoding>`. `dims` gives each size as an int, a SizeExpression, or UNKNOWN."""

    __slots__ = ("dims", "encoding")

    def __init__(self, shape: tuple[int | None, ...], element: Type, encoding: Attribute | None = None) -> None:
        self.shape, self.element, self.encoding = shape, element, encoding
        self._set(shape, element, encoding)
        self.dims: tuple[Size, ...] = shape if None not in shape and encoding is None else _read_dims(shape, encoding)  # type: ignore[assignment]

    def spell(self) -> str:
        dims = "".join(("?" if size is None else str(size)) + "x" for size in self.shape)
        encoding = f", {self.encoding.text}" if self.encoding is not None else ""
        return f"tensor<{dims}{self.element.text}{encoding}>"

    def with_element(self, element: Type) -> TensorType:
        """The same shape and names with another element type."""
        return TensorType(self.shape, element, self.encoding)


def _read_dims(shape: tuple[int | None, ...], encoding: Attribute | None) -> tuple[Size, ...]:
    """The sizes of a shape with a `#ir.dims<[…]>` encoding. Raises ValueError where the two do not fit."""
    unnamed = tuple(UNKNOWN if size is None else size for size in shape)
    if not isinstance(encoding, DialectAttr) or not encoding.body.startswith(DIMS_PREFIX + "<"):
        return unnamed
    entries = _split_dims(encoding.body[len(DIMS_PREFIX) + 1:-1])
    if len(entries) != len(shape):
        raise ValueError(f"#{encoding.body} has {len(entries)} entries, but the tensor has rank {len(shape)}")
    dims: list[Size] = []
    for position, (size, entry) in enumerate(zip(shape, entries)):
        if isinstance(entry, int) or size is not None:
            if entry != size and entry is not UNKNOWN:
                raise ValueError(f"#{encoding.body} gives size {entry} for dimension {position}, but the shape has "
                                 f"{'?' if size is None else size}")
            dims.append(UNKNOWN if size is None else size)
        else:
            dims.append(entry)
    return tuple(dims)


def _split_dims(body: str) -> list[Size]:
    """The entries of `["batch", 4, "_"]`. Raises ValueError."""
    body = body.strip()
    if not (body.startswith("[") and body.endswith("]")):
        raise ValueError(f"#{DIMS_PREFIX} takes a list of sizes, found {body!r}")
    entries: list[Size] = []
    inner = body[1:-1].strip()
    for entry in inner.split(",") if inner else []:
        entry = entry.strip()
        if entry.startswith('"') and entry.endswith('"') and len(entry) >= 2:
            entries.append(parse_size(entry[1:-1]))
        elif entry.isdigit():
            entries.append(int(entry))
        else:
            raise ValueError(f"#{DIMS_PREFIX} takes integers and strings, found {entry!r}")
    return entries


def tensor(dims: Sequence[Size], element: Type) -> TensorType:
    """The tensor type with these sizes; named sizes go into the encoding, which is left out where there is no name."""
    shape = tuple(size if isinstance(size, int) else None for size in dims)
    if None not in shape or not any(isinstance(size, SizeExpression) for size in dims):
        return TensorType(shape, element)
    entries = ", ".join(str(size) if isinstance(size, int) else '"_"' if isinstance(size, UnknownSize) else f'"{size}"'
                        for size in dims)
    return TensorType(shape, element, DialectAttr(f"{DIMS_PREFIX}<[{entries}]>"))


class DialectType(Type):
    """A type of a dialect, kept as its text: `!d.name<…>` or `!d<…>`."""

    __slots__ = ("body",)

    def __init__(self, body: str) -> None:
        self.body = body
        self._set(body)

    def spell(self) -> str:
        return "!" + self.body


I1, I8, I16, I32, I64 = (IntegerType(width) for width in (1, 8, 16, 32, 64))
UI8, UI16, UI32, UI64 = (IntegerType(width, "unsigned") for width in (8, 16, 32, 64))
F16, BF16, F32, F64 = (FloatType(name) for name in ("f16", "bf16", "f32", "f64"))
INDEX, NONE = IndexType(), NoneType()


def compatible(left: Type, right: Type) -> bool:
    """True if a value may have both types: identical, or tensors of one element type and rank with no two sizes provably different."""
    if left is right:
        return True
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return False
    return left.element is right.element and not shapes_differ(left.dims, right.dims)


def literal(value: Any) -> Attribute:
    """The attribute of a plain Python value: bool, int (i64), float (f64), str, Type, and lists of these. Raises TypeError."""
    from gradopt.ir.attributes import FloatAttr, TypeAttr

    if isinstance(value, Type):
        return TypeAttr(value)
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return IntegerAttr(int(value), I1)
    if isinstance(value, int):
        return IntegerAttr(value, I64)
    if isinstance(value, float):
        return FloatAttr.of(value, F64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, (list, tuple)):
        return ArrayAttr(tuple(literal(item) for item in value))
    raise TypeError(f"{value!r} cannot become an attribute")
