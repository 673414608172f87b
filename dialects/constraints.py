"""What operands may be, and the type rules that several dialects share. Imports neither numpy nor numba."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradopt.ir.declare import Constraint, InvalidOperation
from gradopt.ir.sizes import Size, provably_different, shapes_differ
from gradopt.ir.types import I1, FloatType, IntegerType, TensorType, Type, tensor
from gradopt.ir.values import Value

__all__ = [
    "ANY_TENSOR",
    "BITS_TENSOR",
    "BOOL_TENSOR",
    "FLOAT_TENSOR",
    "INTEGER_TENSOR",
    "NUMBER_TENSOR",
    "SCALAR_I64",
    "Constraint",
    "broadcast_dims",
    "check_axes",
    "check_axis",
    "check_dims",
    "check_shape",
    "comparison_type",
    "is_float_tensor",
    "same_element",
    "same_shape",
    "sentence",
    "tensor_type",
]


def _element(type: Type) -> Type | None:
    return type.element if isinstance(type, TensorType) else None


ANY_TENSOR = Constraint("a tensor", lambda type: isinstance(type, TensorType))
FLOAT_TENSOR = Constraint("a float tensor", lambda type: isinstance(_element(type), FloatType))
INTEGER_TENSOR = Constraint("an integer tensor", lambda type: isinstance(_element(type), IntegerType) and _element(type) is not I1)
BOOL_TENSOR = Constraint("an i1 tensor", lambda type: _element(type) is I1)
NUMBER_TENSOR = Constraint("a tensor of numbers",
                           lambda type: isinstance(_element(type), (FloatType, IntegerType)) and _element(type) is not I1)
BITS_TENSOR = Constraint("an integer or i1 tensor", lambda type: isinstance(_element(type), IntegerType))
SCALAR_I64 = Constraint("tensor<i64>", lambda type: type.text == "tensor<i64>")


def is_float_tensor(type: Type) -> bool:
    """True for a type that has a tangent space: a tensor of floats."""
    return isinstance(_element(type), FloatType)


def tensor_type(value: Value) -> TensorType:
    """The tensor type of an operand. Raises InvalidOperation for any other type."""
    type = value.type
    if not isinstance(type, TensorType):
        raise InvalidOperation(f"expects a ranked tensor, found {type.text}")
    return type


def same_element(**operands: Value) -> Type:
    """The element type that all operands share. Raises InvalidOperation that names the two that differ."""
    (first_name, first), *rest = operands.items()
    element = tensor_type(first).element
    for name, value in rest:
        found = tensor_type(value).element
        if found is not element:
            raise InvalidOperation(f"operands '{first_name}' and '{name}' have element types {element.text} and {found.text}, "
                                   "expected the same (cast one of them)")
    return element


def merge_size(left: Size, right: Size) -> Size:
    """The better known of two sizes that are equal: an int before a name before UNKNOWN."""
    if isinstance(left, int):
        return left
    return right if isinstance(right, int) or not hasattr(left, "terms") else left


def same_shape(**operands: Value) -> list[Size]:
    """The sizes that all operands share (no broadcasting). Raises InvalidOperation."""
    (first_name, first), *rest = operands.items()
    type = tensor_type(first)
    dims: Sequence[Size] = type.dims
    for name, value in rest:
        other = tensor_type(value)
        if other.shape == type.shape and other.encoding is type.encoding:
            continue
        if shapes_differ(dims, other.dims):
            raise InvalidOperation(f"operands '{first_name}' and '{name}' have shapes {shape_text(type)} and {shape_text(other)}, "
                                   "expected the same")
        dims = [merge_size(a, b) for a, b in zip(dims, other.dims)]
    return list(dims)


def shape_text(type: TensorType) -> str:
    """`[2, ?, batch]`."""
    return "[" + ", ".join(str(size) for size in type.dims) + "]"


def check_dims(name: str, value: Value, expected: Sequence[Size]) -> None:
    """Raises InvalidOperation unless an operand's sizes may be `expected`."""
    check_shape(f"operand '{name}'", tensor_type(value), expected)


def check_shape(what: str, type: TensorType, expected: Sequence[Size]) -> None:
    """Raises InvalidOperation unless a type's sizes may be `expected`."""
    if shapes_differ(type.dims, expected):
        raise InvalidOperation(f"{what} has shape {shape_text(type)}, expected {shape_text(tensor(expected, type.element))}")


def broadcast_dims(**operands: Value) -> list[Size]:
    """NumPy broadcasting of all operands' sizes. Raises InvalidOperation that names the two that do not fit."""
    result: list[Size] = []
    owner = ""
    for name, value in operands.items():
        dims = list(tensor_type(value).dims)
        if len(dims) > len(result):
            result = [1] * (len(dims) - len(result)) + result
        offset = len(result) - len(dims)
        for position, size in enumerate(dims):
            known = result[offset + position]
            if known == 1:
                result[offset + position] = size
            elif size == 1:
                continue
            elif provably_different(known, size):
                raise InvalidOperation(f"operands '{owner}' and '{name}' do not broadcast: size {known} meets {size} in "
                                       f"result dimension {offset + position}")
            else:
                result[offset + position] = merge_size(known, size)
        owner = owner or name
    return result


def check_axis(axis: int, rank: int, name: str = "axis") -> int:
    """A possibly negative axis as one in [0, rank). Raises InvalidOperation."""
    if not -rank <= axis < rank:
        raise InvalidOperation(f"attribute '{name}' is {axis}, expected a value in [{-rank}, {rank}) for rank {rank}")
    return axis % rank


def check_axes(axes: Sequence[int] | None, rank: int, name: str = "axes") -> list[int]:
    """Axes in [0, rank), each once, in the given order; all of them for None. Raises InvalidOperation."""
    if axes is None:
        return list(range(rank))
    found = [check_axis(axis, rank, name) for axis in axes]
    if len(set(found)) != len(found):
        raise InvalidOperation(f"attribute '{name}' names an axis twice: {list(axes)}")
    return found


def check_length(values: Sequence[object], count: int, name: str) -> None:
    """Raises InvalidOperation unless the attribute has one entry an axis."""
    if len(values) != count:
        raise InvalidOperation(f"attribute '{name}' has {len(values)} entries, expected {count}")


def comparison_type(dims: Sequence[Size]) -> TensorType:
    """The i1 tensor of a shape."""
    return tensor(dims, I1)


_FORMULA = re.compile(r"(arc?)?(sin|cos|tan)h? |scale |\w+\(|\w ?\W")


def sentence(text: str) -> str:
    """A formula or phrase as a sentence: a phrase gets a capital letter, a formula (`x / y`, `sin x`) does not."""
    return (text[0] if _FORMULA.match(text) else text[0].upper()) + text[1:] + "."
