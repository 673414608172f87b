"""Between element types and NumPy: dtypes, dense elements as arrays and back, and the pieces that NumPy meanings share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.types import FloatType, IntegerType, TensorType, Type

if TYPE_CHECKING:
    import numpy as np

Array = Any  # numpy.ndarray; numpy is imported inside functions only


def numpy_dtype(element: Type) -> np.dtype[Any]:
    """The dtype of an element type. bf16 is `ml_dtypes.bfloat16`.

    Raises TypeError for a type that NumPy cannot hold (or for bf16 where ml_dtypes is not installed)."""
    import numpy as np

    if isinstance(element, IntegerType):
        if element.width == 1:
            return np.dtype(np.bool_)
        if element.width in (8, 16, 32, 64):
            return np.dtype(("u" if element.is_unsigned else "i") + str(element.width // 8))
    if isinstance(element, FloatType):
        if element.name in ("f16", "f32", "f64"):
            return np.dtype(f"f{element.width // 8}")
        if element.name == "bf16":
            try:
                import ml_dtypes
            except ImportError:
                raise TypeError("bf16 arrays need the package ml_dtypes") from None
            bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
    raise TypeError(f"element type {element.text} has no NumPy dtype")


def to_array(elements: DenseElementsAttr) -> Array:
    """The array of a dense attribute (read-only; a splat is a broadcast view)."""
    import numpy as np

    type = elements.type
    dtype = numpy_dtype(type.element)
    flat = np.frombuffer(elements.data, dtype.newbyteorder("<") if dtype.kind in "iuf" and dtype.itemsize > 1 and
                         type.element.text != "bf16" else dtype)
    flat = flat.astype(dtype, copy=False)
    if elements.is_splat:
        return np.broadcast_to(flat[0], type.shape) if type.element_count else np.zeros(type.shape, dtype)
    return flat.reshape(type.shape)


def to_elements(array: Array, type: TensorType) -> DenseElementsAttr:
    """The dense attribute of an array with the (static) type's shape and element type."""
    import numpy as np

    array = np.ascontiguousarray(array, dtype=numpy_dtype(type.element))
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return DenseElementsAttr(TensorType(type.shape, type.element), array.tobytes())


def accumulation_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """f32 for 16-bit floats, the dtype itself otherwise."""
    import numpy as np

    return np.dtype(np.float32) if dtype.kind in "fV" and dtype.itemsize == 2 else dtype


def sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """f64 for floats, in which a sum's error does not grow with the number of its elements; the dtype itself for integers."""
    import numpy as np

    return np.dtype(np.float64) if dtype.kind == "f" else dtype


def widen(array: Array) -> Array:
    """The array in its accumulation dtype."""
    return array.astype(accumulation_dtype(array.dtype), copy=False)
