"""Elementwise `prim` ops. Each result element depends on the same element of each operand; all shapes are equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradopt.dialects.arrays import Array, numpy_dtype, widen
from gradopt.dialects.constraints import (
    ANY_TENSOR,
    BITS_TENSOR,
    BOOL_TENSOR,
    FLOAT_TENSOR,
    NUMBER_TENSOR,
    comparison_type,
    same_element,
    same_shape,
    sentence,
    shape_text,
    tensor_type,
)
from gradopt.ir.attribute_kinds import enumeration
from gradopt.ir.declare import (
    COMMUTATIVE,
    ELEMENTWISE,
    PURE,
    Constraint,
    InvalidOperation,
    attribute,
    operand,
    result,
)
from gradopt.ir.operation import Operation
from gradopt.ir.types import BF16, F16, I1, FloatType, IntegerType, TensorType, Type, tensor

Meaning = Callable[..., Array]  # (numpy, operands…) -> array


class UnaryOp(Operation):
    """One operand, one result of the same type."""

    __slots__ = ()
    x = operand(FLOAT_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE, ELEMENTWISE})
    meaning: Meaning

    def infer(self) -> list[Type]:
        return [self._operands[0].type]

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return type(self).meaning(np, widen(x)).astype(x.dtype, copy=False)


class BinaryOp(Operation):
    """Two operands of one type, one result of the same type."""

    __slots__ = ()
    a = operand(NUMBER_TENSOR)
    b = operand(NUMBER_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE, ELEMENTWISE})
    meaning: Meaning

    def infer(self) -> list[Type]:
        left, right = self._operands[0].type, self._operands[1].type
        if left is right:
            return [left]
        element = same_element(a=self.a, b=self.b)
        return [tensor(same_shape(a=self.a, b=self.b), element)]

    def evaluate(self, a: Array, b: Array) -> Array:
        import numpy as np

        return type(self).meaning(np, widen(a), widen(b)).astype(a.dtype, copy=False)


def _special(name: str) -> Meaning:
    """A function that NumPy lacks: SciPy's where it is installed, else `math`'s element by element."""
    def meaning(np: Any, x: Array) -> Array:
        try:
            import scipy.special as special
        except ImportError:
            import math

            if name == "erfinv":
                from gradopt.dialects.prim.special import inverse_error_function as function
            else:
                function = getattr(math, name)
            return np.vectorize(function, otypes=[x.dtype])(x) if x.size else x
        found = getattr(special, name)(x)
        return np.copysign(found, x) if name == "erfinv" else found  # SciPy's loses the sign of zero
    return meaning


def _sign(np: Any, x: Array) -> Array:
    return np.where(np.isnan(x), x, np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


def _absolute(np: Any, x: Array) -> Array:
    return np.abs(x)


# name -> (formula, what the operand may be, NumPy meaning)
UNARY: dict[str, tuple[str, Constraint, Meaning]] = {
    "neg": ("-x; integers wrap", NUMBER_TENSOR, lambda np, x: np.negative(x)),
    "abs": ("|x|; abs(INT_MIN) is INT_MIN", NUMBER_TENSOR, _absolute),
    "sign": ("-1, 0 or 1; NaN stays NaN", NUMBER_TENSOR, _sign),
    "not": ("the complement of each bit; of a truth value for i1", BITS_TENSOR, lambda np, x: np.invert(x)),
    "exp": ("e**x", FLOAT_TENSOR, lambda np, x: np.exp(x)),
    "exp2": ("2**x", FLOAT_TENSOR, lambda np, x: np.exp2(x)),
    "expm1": ("e**x - 1, accurate near 0", FLOAT_TENSOR, lambda np, x: np.expm1(x)),
    "log": ("the natural logarithm", FLOAT_TENSOR, lambda np, x: np.log(x)),
    "log2": ("the logarithm to base 2", FLOAT_TENSOR, lambda np, x: np.log2(x)),
    "log1p": ("log(1 + x), accurate near 0", FLOAT_TENSOR, lambda np, x: np.log1p(x)),
    "sin": ("sin x", FLOAT_TENSOR, lambda np, x: np.sin(x)),
    "cos": ("cos x", FLOAT_TENSOR, lambda np, x: np.cos(x)),
    "tan": ("tan x", FLOAT_TENSOR, lambda np, x: np.tan(x)),
    "asin": ("arcsin x", FLOAT_TENSOR, lambda np, x: np.arcsin(x)),
    "acos": ("arccos x", FLOAT_TENSOR, lambda np, x: np.arccos(x)),
    "atan": ("arctan x", FLOAT_TENSOR, lambda np, x: np.arctan(x)),
    "sinh": ("sinh x", FLOAT_TENSOR, lambda np, x: np.sinh(x)),
    "cosh": ("cosh x", FLOAT_TENSOR, lambda np, x: np.cosh(x)),
    "tanh": ("tanh x", FLOAT_TENSOR, lambda np, x: np.tanh(x)),
    "asinh": ("arsinh x", FLOAT_TENSOR, lambda np, x: np.arcsinh(x)),
    "acosh": ("arcosh x", FLOAT_TENSOR, lambda np, x: np.arccosh(x)),
    "atanh": ("artanh x", FLOAT_TENSOR, lambda np, x: np.arctanh(x)),
    "erf": ("the error function, 2/sqrt(pi) * integral of exp(-t^2) from 0 to x", FLOAT_TENSOR, _special("erf")),
    "erfc": ("1 - erf(x), accurate where erf(x) is near 1", FLOAT_TENSOR, _special("erfc")),
    "erfinv": ("the inverse of erf; infinite at -1 and 1, NaN outside", FLOAT_TENSOR, _special("erfinv")),
    "sqrt": ("the square root", FLOAT_TENSOR, lambda np, x: np.sqrt(x)),
    "rsqrt": ("1 / sqrt(x)", FLOAT_TENSOR, lambda np, x: x.dtype.type(1) / np.sqrt(x)),
    "recip": ("1 / x", FLOAT_TENSOR, lambda np, x: x.dtype.type(1) / x),
    "floor": ("the largest integer <= x", FLOAT_TENSOR, lambda np, x: np.floor(x)),
    "ceil": ("the smallest integer >= x", FLOAT_TENSOR, lambda np, x: np.ceil(x)),
    "round": ("the nearest integer, halves to even", FLOAT_TENSOR, lambda np, x: np.rint(x)),
    "trunc": ("x without its fraction", FLOAT_TENSOR, lambda np, x: np.trunc(x)),
}


def _is_float(x: Array) -> bool:
    return bool(x.dtype.kind not in "biu")


def _divide(np: Any, x: Array, y: Array) -> Array:
    """Float: IEEE. Integer: towards zero, 0 where y is 0, INT_MIN / -1 = INT_MIN."""
    if _is_float(x):
        return np.divide(x, y)
    safe = np.where((y == 0) | (y == -1) if x.dtype.kind == "i" else y == 0, y.dtype.type(1), y)
    quotient = np.floor_divide(x, safe)
    quotient = quotient + ((np.remainder(x, safe) != 0) & ((x < 0) != (safe < 0))).astype(x.dtype)
    if x.dtype.kind == "i":
        quotient = np.where(y == -1, np.negative(x), quotient)
    return np.where(y == 0, x.dtype.type(0), quotient)


def _remainder(np: Any, x: Array, y: Array) -> Array:
    """x - y * trunc(x / y), with the sign of x; for integers 0 where y is 0 or -1."""
    if _is_float(x):
        return np.fmod(x, y)
    trivial = (y == 0) | (y == -1) if x.dtype.kind == "i" else y == 0
    return np.where(trivial, x.dtype.type(0), np.fmod(x, np.where(trivial, y.dtype.type(1), y)))


def _power(np: Any, x: Array, y: Array) -> Array:
    """Float: C's pow. Integer: by squaring, wrapped; a negative exponent gives trunc(x**y)."""
    if _is_float(x):
        return np.power(x, y)
    outcome, base = np.ones_like(x), x.copy()
    exponent = np.where(y < 0, y.dtype.type(0), y) if x.dtype.kind == "i" else y.copy()
    for _ in range(8 * x.dtype.itemsize):
        outcome = np.where(exponent & 1 != 0, outcome * base, outcome)
        base, exponent = base * base, exponent >> 1
    if x.dtype.kind == "i":
        odd = np.where(y & 1 != 0, x, x.dtype.type(1))
        outcome = np.where(y < 0, np.where(np.abs(x) == 1, odd, x.dtype.type(0)), outcome)
    return outcome


def _mul_zero(np: Any, x: Array, y: Array) -> Array:
    return np.where((x == 0) | (y == 0), x.dtype.type(0), x * y)


def _shift(left: bool) -> Meaning:
    def meaning(np: Any, x: Array, y: Array) -> Array:
        width = 8 * x.dtype.itemsize
        far = (y < 0) | (y >= width) if y.dtype.kind == "i" else y >= width
        count = np.where(far, y.dtype.type(0), y)
        if left:
            return np.where(far, x.dtype.type(0), np.left_shift(x, count))
        sign = np.where(x < 0, x.dtype.type(-1), x.dtype.type(0)) if x.dtype.kind == "i" else x.dtype.type(0)
        return np.where(far, sign, np.right_shift(x, count))
    return meaning


BINARY: dict[str, tuple[str, Constraint, Meaning]] = {
    "add": ("a + b; integers wrap", NUMBER_TENSOR, lambda np, x, y: np.add(x, y)),
    "sub": ("a - b; integers wrap", NUMBER_TENSOR, lambda np, x, y: np.subtract(x, y)),
    "mul": ("a * b; integers wrap", NUMBER_TENSOR, lambda np, x, y: np.multiply(x, y)),
    "mul_zero": ("a * b, but 0 where either is 0 (also 0 * inf and 0 * NaN); bilinear by declaration, so that "
                 "its derivatives are mul_zero again (a masked lane contributes nothing at any order)",
                 FLOAT_TENSOR, _mul_zero),
    "div": ("a / b; integers towards zero, 0 where b is 0, INT_MIN / -1 = INT_MIN", NUMBER_TENSOR, _divide),
    "rem": ("a - b * trunc(a / b), with the sign of a (C's fmod); integers: 0 where b is 0", NUMBER_TENSOR,
            _remainder),
    "pow": ("a ** b; integers wrap, a negative exponent truncates towards 0", NUMBER_TENSOR, _power),
    "max": ("the larger; NaN where either is", NUMBER_TENSOR, lambda np, x, y: np.maximum(x, y)),
    "min": ("the smaller; NaN where either is", NUMBER_TENSOR, lambda np, x, y: np.minimum(x, y)),
    "atan2": ("the angle of the point (b, a)", FLOAT_TENSOR, lambda np, x, y: np.arctan2(x, y)),
    "and": ("each bit: both", BITS_TENSOR, lambda np, x, y: np.bitwise_and(x, y)),
    "or": ("each bit: either", BITS_TENSOR, lambda np, x, y: np.bitwise_or(x, y)),
    "xor": ("each bit: exactly one", BITS_TENSOR, lambda np, x, y: np.bitwise_xor(x, y)),
    "shl": ("a shifted left by b bits; 0 for a count outside [0, width)", BITS_TENSOR, _shift(left=True)),
    "shr": ("a shifted right by b bits, with its sign where signed; only the sign is left for a count outside "
            "[0, width)", BITS_TENSOR, _shift(left=False)),
}
_COMMUTATIVE = {"add", "mul", "mul_zero", "max", "min", "and", "or", "xor"}


def class_name(name: str) -> str:
    """The class of an op: `AddOp` for "add"."""
    return "".join(part.capitalize() for part in name.split("_")) + "Op"


def _declare(base: type[Operation], name: str, formula: str, meaning: Meaning, **fields: Any) -> type[Operation]:
    traits = {PURE, ELEMENTWISE} | ({COMMUTATIVE} if name in _COMMUTATIVE and base is BinaryOp else set())
    return type(class_name(name), (base,), {
        "__slots__": (), "__module__": __name__, "__doc__": sentence(formula), "name": f"prim.{name}",
        "meaning": staticmethod(meaning), "traits": frozenset(traits), **fields})


for _name, (_formula, _constraint, _meaning) in UNARY.items():
    globals()[class_name(_name)] = _declare(UnaryOp, _name, _formula, _meaning, x=operand(_constraint))
for _name, (_formula, _constraint, _meaning) in BINARY.items():
    globals()[class_name(_name)] = _declare(BinaryOp, _name, _formula, _meaning, a=operand(_constraint),
                                             b=operand(_constraint))

PREDICATES: dict[str, str] = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
                              "ge": "greater_equal"}


class CmpOp(Operation):
    """A comparison; i1. With a NaN every predicate but `ne` is false."""

    __slots__ = ()
    name = "prim.cmp"
    a = operand(ANY_TENSOR)
    b = operand(ANY_TENSOR)
    predicate = attribute(enumeration(*PREDICATES))
    result = result(BOOL_TENSOR)
    traits = frozenset({PURE, ELEMENTWISE})

    def infer(self) -> list[Type]:
        same_element(a=self.a, b=self.b)
        return [comparison_type(same_shape(a=self.a, b=self.b))]

    def evaluate(self, a: Array, b: Array) -> Array:
        import numpy as np

        return getattr(np, PREDICATES[self.predicate])(a, b)


class SelectOp(Operation):
    """`x` where `cond` is true, `y` elsewhere. The branch that is not taken contributes nothing, not even NaN."""

    __slots__ = ()
    name = "prim.select"
    cond = operand(BOOL_TENSOR)
    x = operand(ANY_TENSOR)
    y = operand(ANY_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE, ELEMENTWISE})

    def infer(self) -> list[Type]:
        element = same_element(x=self.x, y=self.y)
        return [tensor(same_shape(x=self.x, y=self.y, cond=self.cond), element)]

    def evaluate(self, cond: Array, x: Array, y: Array) -> Array:
        import numpy as np

        return np.where(cond, x, y)


def cast_array(x: Array, source: Type, target: Type) -> Array:
    """The meaning of `prim.cast`: float to integer truncates and saturates (NaN gives 0), to i1 is `x != 0`, integers wrap, floats
    round."""
    import numpy as np

    dtype = numpy_dtype(target)
    if target is I1:
        return x != 0
    if isinstance(source, FloatType) and isinstance(target, IntegerType):
        low, high = (0, (1 << target.width) - 1) if target.is_unsigned else (-(1 << (target.width - 1)), (1 << (target.width - 1)) - 1)
        whole = np.trunc(np.where(np.isnan(x), 0, x).astype(np.float64))
        inside = (whole >= low) & (whole < float(high + 1))  # high + 1 is a power of two, so exact
        limited = np.where(inside, whole, 0)
        exact = limited.astype(np.int64).astype(dtype) if not (target.is_unsigned and target.width == 64) else limited.astype(np.uint64)
        return np.where(inside, exact, np.where(whole > 0, dtype.type(high), dtype.type(low)))
    if source is BF16 or (source is F16 and target is BF16):
        x = x.astype(np.float32)
    return x.astype(dtype)


class CastOp(Operation):
    """`x` converted to the element type of the result. Float to integer truncates towards zero and saturates, NaN gives 0; to i1 it is
    `x != 0`; integers wrap; floats round to nearest even."""

    __slots__ = ()
    name = "prim.cast"
    x = operand(ANY_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE, ELEMENTWISE})

    def verify(self) -> None:
        check_same_shape_as_operand(self, self.x.type, self.results[0].type)

    def evaluate(self, x: Array) -> Array:
        return cast_array(x, tensor_type(self.x).element, tensor_type(self.results[0]).element)


class BitcastOp(Operation):
    """The bits of `x` read as the element type of the result, which has the same width."""

    __slots__ = ()
    name = "prim.bitcast"
    x = operand(ANY_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE, ELEMENTWISE})

    def verify(self) -> None:
        check_same_shape_as_operand(self, self.x.type, self.results[0].type)
        source, target = tensor_type(self.x).element, tensor_type(self.results[0]).element
        if getattr(source, "width", 0) != getattr(target, "width", 1):
            raise InvalidOperation(f"reads {source.text} as {target.text}, expected types of the same width")

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return np.ascontiguousarray(x).view(numpy_dtype(tensor_type(self.results[0]).element)).reshape(x.shape)


def check_same_shape_as_operand(op: Operation, source: Type, target: Type) -> None:
    """Raises InvalidOperation unless both are tensors whose sizes may be equal."""
    from gradopt.ir.sizes import shapes_differ

    if not isinstance(source, TensorType) or not isinstance(target, TensorType):
        raise InvalidOperation(f"takes and gives tensors, found {source.text} and {target.text}")
    if shapes_differ(source.dims, target.dims):
        raise InvalidOperation(f"has result shape {shape_text(target)}, expected the operand's {shape_text(source)}")
