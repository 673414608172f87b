"""What the neural-network ops of `hl` and `bwd` share: layouts, shape checks, run-time shapes, and small NumPy
pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradopt.dialects.arrays import Array
from gradopt.ir.declare import InvalidOperation
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import UNKNOWN, Size, SizeExpression
from gradopt.ir.types import TensorType

__all__ = ["check_layout", "check_positive", "invert", "layout_axes", "masked_product", "permuted", "run_time_shape"]


def layout_axes(layout: str, order: str) -> list[int]:
    """The axes of a tensor stored as `layout` in the order of the letters of `order`: ("NHWC", "NCHW") gives [0, 3, 1,
    2]."""
    return [layout.index(letter) for letter in order]


def invert(axes: Sequence[int]) -> list[int]:
    """The permutation that undoes `axes`."""
    inverse = [0] * len(axes)
    for position, axis in enumerate(axes):
        inverse[axis] = position
    return inverse


def permuted(dims: Sequence[Size], axes: Sequence[int]) -> list[Size]:
    """The sizes in another order of axes."""
    return [dims[axis] for axis in axes]


def check_layout(layout: str, order: str, name: str = "layout") -> None:
    """Raises InvalidOperation unless `layout` is an order of exactly the letters of `order`."""
    if sorted(layout) != sorted(order):
        raise InvalidOperation(f'attribute \'{name}\' is "{layout}", expected an order of the letters {", ".join(order)}')


def check_positive(op: Operation, *names: str, least: int = 1) -> None:
    """Raises InvalidOperation where an integer or a list of integers has a value below `least`."""
    for name in names:
        value = getattr(op, name)
        values = (value,) if isinstance(value, int) else value
        if any(entry < least for entry in values):
            shown = value if isinstance(value, int) else list(value)
            raise InvalidOperation(f"attribute '{name}' is {shown}, expected at least {least}")


def bind_names(op: Operation, arrays: Sequence[Array]) -> dict[str, Size]:
    """The named sizes that the operands' types and their arrays give away at run time."""
    names: dict[str, Size] = {}
    for value, array in zip(op.operands, arrays):
        if isinstance(value.type, TensorType):
            for size, actual in zip(value.type.dims, array.shape):
                if isinstance(size, SizeExpression) and str(size) in size.names:
                    names[str(size)] = actual
    return names


def run_time_shape(op: Operation, type: TensorType, arrays: Sequence[Array], sizes: Sequence[Array]) -> tuple[int, ...]:
    """The shape that a result type has at run time: static sizes, names bound by the operands, and `sizes` for each
    unknown one.

    Raises ValueError for a name that no operand binds (the `bind` pass makes it static)."""
    names, given = bind_names(op, arrays), iter(sizes)
    shape: list[int] = []
    for size in type.dims:
        value = int(next(given)) if size is UNKNOWN else size.evaluate(names) if isinstance(size, SizeExpression) else size
        if not isinstance(value, int):
            raise ValueError(f"'{op.name}' op: size {size} of {type.text} is not bound; bind it before running")
        shape.append(value)
    return tuple(shape)


def masked_product(masked: bool | None) -> Callable[[Array, Array], Array]:
    """The product of a cotangent and a local derivative: with `masked` it is 0 where either is 0, also against inf and
    NaN."""
    import numpy as np

    if not masked:
        return lambda a, b: a * b
    return lambda a, b: np.where((a == 0) | (b == 0), np.zeros((), np.result_type(a, b)), a * b)
