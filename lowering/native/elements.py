"""The element types of buffers: sizes, NumPy names and the type of value that a load gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy


@dataclass(frozen=True)
class Element:
    """One element type: `value` is the name of the scalar type that a load gives and a store takes.

    `numpy` is the name of NumPy's type; bf16 has none of its own (ml_dtypes.bfloat16 where installed, else its bits
    as uint16).
    """

    name: str
    itemsize: int
    value: str
    numpy: str


ELEMENTS: dict[str, Element] = {
    element.name: element
    for element in (
        Element("i1", 1, "i1", "bool"),
        Element("i8", 1, "i8", "int8"),
        Element("i16", 2, "i16", "int16"),
        Element("i32", 4, "i32", "int32"),
        Element("i64", 8, "i64", "int64"),
        Element("ui8", 1, "ui8", "uint8"),
        Element("ui16", 2, "ui16", "uint16"),
        Element("ui32", 4, "ui32", "uint32"),
        Element("ui64", 8, "ui64", "uint64"),
        Element("f16", 2, "f32", "float16"),
        Element("bf16", 2, "f32", "bfloat16"),
        Element("f32", 4, "f32", "float32"),
        Element("f64", 8, "f64", "float64"),
    )
}


def numpy_dtype(name: str) -> numpy.dtype:
    """The NumPy type of an element type (bf16: ml_dtypes.bfloat16 when that package is installed, else uint16)."""
    import numpy

    if name == "bf16":
        try:
            import ml_dtypes
        except ImportError:
            return numpy.dtype("uint16")
        dtype: numpy.dtype = numpy.dtype(ml_dtypes.bfloat16)
        return dtype
    return numpy.dtype(ELEMENTS[name].numpy)
