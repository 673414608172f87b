"""Scalar `prim` ops in the language of kernels: one template an op, by the kind of its operand's element type.

16-bit floats are f32 inside a kernel, rounded where they are stored and where a cast asks for it; i1 is a boolean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradopt.ir.attributes import DenseElementsAttr, StringAttr
from gradopt.ir.operation import Operation
from gradopt.ir.types import I1, FloatType, IntegerType, TensorType, Type

__all__ = ["ACCUMULATE", "converted", "element_name", "identity_text", "literal_text", "scalar_expression", "value_type"]

# kernel-language names of binary ops: (floats, integers, i1); None where the type rule excludes it
BINARY: dict[str, tuple[str | None, str | None, str | None]] = {
    "add": ("add", "add", None), "sub": ("subtract", "subtract", None), "mul": ("multiply", "multiply", None),
    "div": ("divide", "truncate_divide", None), "rem": ("fmod", "remainder", None), "pow": ("pow", "integer_power", None),
    "max": ("maximum", "maximum", None), "min": ("minimum", "minimum", None), "atan2": ("atan2", None, None),
    "and": (None, "bit_and", "bit_and"), "or": (None, "bit_or", "bit_or"), "xor": (None, "bit_xor", "bit_xor"),
    "shl": (None, "shift_left", None), "shr": (None, "shift_right", None),
}
UNARY: dict[str, str] = {"neg": "negate", "abs": "absolute", "not": "bit_not"}
ACCUMULATE: dict[str, str] = {"sum": "accumulate_add", "prod": "accumulate_multiply", "max": "accumulate_maximum",
                              "min": "accumulate_minimum", "and": "bit_and", "or": "bit_or"}


def element_name(element: Type) -> str:
    """The name of an element type in the language of kernels."""
    return element.text


def value_type(element: Type) -> str:
    """The type of a scalar of that element type inside a kernel."""
    return "f32" if isinstance(element, FloatType) and element.width == 16 else element.text


def converted(text: str, given: Type, wanted: Type) -> str:
    """A scalar of one element type as one of another, as kernels hold them."""
    return text if value_type(given) == value_type(wanted) else f"{value_type(wanted)}({text})"


def literal_text(bits: int, element: Type) -> str:
    """A number, by its bit pattern (floats) or value (integers)."""
    kind = value_type(element)
    if element is I1:
        return "i1(1)" if bits else "i1(0)"
    if isinstance(element, FloatType):
        return float_text(element.decode(bits), kind)
    assert isinstance(element, IntegerType)
    value = element.wrap(bits)
    if element.text == "i64":
        return str(value) if value >= 0 else f"i64({value})"
    return f"{kind}({value})"


def float_text(value: float, kind: str) -> str:
    """A float of a kernel type."""
    if math.isnan(value):
        return f"{kind}(NAN)"
    if math.isinf(value):
        return f"{kind}({'-' if value < 0 else ''}INFINITY)"
    return f"{kind}({value!r})"


def identity_text(kind: str, element: Type) -> str:
    """The identity of a reduction."""
    from gradopt.dialects.prim.reduction import identity_of

    value = identity_of(kind, element)
    if isinstance(element, FloatType):
        return float_text(float(value), value_type(element))
    return literal_text(int(value), element)


def _index(element: Type) -> int:
    return 0 if isinstance(element, FloatType) else 2 if element is I1 else 1


def _sign(x: str, element: Type) -> str:
    kind = value_type(element)
    zero, one = (f"{kind}(0.0)", f"{kind}(1.0)") if isinstance(element, FloatType) else (f"{kind}(0)", f"{kind}(1)")
    rest = f"add({x}, {zero})" if isinstance(element, FloatType) else x  # of -0 it is 0, of NaN NaN
    return f"select(gt({x}, {zero}), {one}, select(lt({x}, {zero}), negate({one}), {rest}))"


def rounded(text: str, element: Type) -> str:
    """A value as its element type holds it."""
    short = isinstance(element, FloatType) and element.width == 16
    return f"{element.text}_of_bits(bits_of_{element.text}({text}))" if short else text


def scalar_expression(op: Operation, operands: Sequence[str]) -> str:
    """The expression of a scalar `prim` op on variables. Raises KeyError for an op without a template."""
    name = op.name.split(".", 1)[1]
    source = _element(op.operands[0].type) if op.operands else None
    result = _element(op.results[0].type)
    if name == "constant":
        elements = op.value  # type: ignore[attr-defined]
        assert isinstance(elements, DenseElementsAttr)
        return literal_text(int.from_bytes(elements.data, "little"), result)
    assert source is not None
    if name in BINARY:
        function = BINARY[name][_index(source)]
        if name == "shr" and isinstance(source, IntegerType) and source.is_unsigned:
            function = "shift_right_logical"
        if function is None:
            raise KeyError(f"'{op.name}' op on {source.text}")
        return f"{function}({operands[0]}, {operands[1]})"
    if name == "cmp":
        return _comparison(op.properties["predicate"], operands, source)
    if name == "mul_zero":
        zero = f"{value_type(source)}(0.0)"
        a, b = operands
        return f"select(bit_or(eq({a}, {zero}), eq({b}, {zero})), {zero}, multiply({a}, {b}))"
    if name == "select":
        return f"select({', '.join(operands)})"
    if name == "cast":
        text = converted(operands[0], source, result)
        return text if source is result else rounded(text, result)
    if name == "bitcast":
        return bitcast_text(operands[0], source, result)
    if name == "sign":
        return _sign(operands[0], source)
    if name in UNARY:
        return f"{UNARY[name]}({operands[0]})"
    return f"{name}({operands[0]})"


def bitcast_text(operand: str, source: Type, result: Type) -> str:
    """The bits of one type as another; a 16-bit float is held as f32."""
    if source is result:
        return operand
    if isinstance(source, FloatType) and source.width == 16:
        operand, name = f"bits_of_{source.text}({operand})", "i16"
    else:
        name = source.text
    if isinstance(result, FloatType) and result.width == 16:
        return f"{result.text}_of_bits({operand if name == 'i16' else f'bitcast_i16({operand})'})"
    return operand if name == result.text else f"bitcast_{result.text}({operand})"


def _comparison(predicate: object, operands: Sequence[str], element: Type) -> str:
    assert isinstance(predicate, StringAttr)
    a, b = operands
    if element is I1:  # false < true
        return {"eq": f"bit_not(bit_xor({a}, {b}))", "ne": f"bit_xor({a}, {b})", "lt": f"bit_and(bit_not({a}), {b})",
                "le": f"bit_or(bit_not({a}), {b})", "gt": f"bit_and({a}, bit_not({b}))",
                "ge": f"bit_or({a}, bit_not({b}))"}[predicate.value]
    return f"{predicate.value}({a}, {b})"


def _element(type: Type) -> Type:
    assert isinstance(type, TensorType)
    return type.element
