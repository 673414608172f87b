"""Operands that are one value everywhere: kernels that start from them write the value instead of reading memory."""

from __future__ import annotations

from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.operation import Operation
from gradopt.ir.types import FloatType, IntegerType, TensorType
from gradopt.ir.values import Value

__all__ = ["FILLABLE", "fill_elements", "fill_value", "is_fill", "needs_no_memory"]

FILLABLE: dict[str, tuple[int, ...]] = {"prim.scatter": (0,), "prim.scatter_nd": (0,)}
"""Operands of library kernels that need no memory where they are a fill."""

_SPREADING = frozenset({"prim.expand", "prim.reshape", "prim.shape_cast"})


def _splat(value: Value) -> DenseElementsAttr | None:
    op = value.defining_op
    while op is not None and op.name in _SPREADING:
        op = op.operands[0].defining_op
    if op is None or op.name != "prim.constant":
        return None
    elements = op.value  # type: ignore[attr-defined]
    return elements if isinstance(elements, DenseElementsAttr) and elements.is_splat and elements.data else None


def is_fill(value: Value) -> bool:
    """True for a value of static shape that is one number everywhere, known now."""
    type = value.type
    return isinstance(type, TensorType) and all(isinstance(size, int) for size in type.dims) and _splat(value) is not None


def needs_no_memory(op: Operation, position: int) -> bool:
    """True for an operand of a library kernel that is a fill, which the kernel writes by itself."""
    return position in FILLABLE.get(op.name, ()) and is_fill(op.operands[position])


def fill_elements(value: Value) -> DenseElementsAttr:
    """The splat attribute of a fill."""
    elements = _splat(value)
    assert elements is not None and isinstance(value.type, TensorType)
    return DenseElementsAttr(TensorType(value.type.shape, value.type.element), elements.data, True)


def fill_value(value: Value) -> float | int | None:
    """The number that a value of static shape holds everywhere, or None."""
    elements = _splat(value) if is_fill(value) else None
    if elements is None:
        return None
    type = elements.type
    assert isinstance(type, TensorType)
    bits = int.from_bytes(elements.data, "little")
    if isinstance(type.element, FloatType):
        return type.element.decode(bits)
    assert isinstance(type.element, IntegerType)
    return type.element.wrap(bits)
