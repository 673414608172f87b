"""Elementwise `hl` ops. Two and three operands broadcast as NumPy does; their element types are equal.

Tables give each op's formula, what its operands may be, and its NumPy meaning. Derivatives at kinks follow one convention: the
one of least norm (0 at the kinks of abs, relu, clip …). The sign of a zero result is not promised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gradopt.dialects.arrays import Array, widen
from gradopt.dialects.constraints import (
    ANY_TENSOR,
    BITS_TENSOR,
    BOOL_TENSOR,
    FLOAT_TENSOR,
    NUMBER_TENSOR,
    broadcast_dims,
    same_element,
    sentence,
    tensor_type,
)
from gradopt.dialects.hl import meanings as m
from gradopt.dialects.prim import elementwise as prim
from gradopt.ir.attribute_kinds import BOOLEAN, FLOAT, enumeration
from gradopt.ir.declare import (
    COMMUTATIVE,
    ELEMENTWISE,
    PURE,
    AttributeField,
    Constraint,
    InvalidOperation,
    attribute,
    operand,
    result,
)
from gradopt.ir.operation import Operation
from gradopt.ir.types import I1, Type, tensor

Meaning = Callable[..., Array]  # (numpy, operands…, attributes by name…) -> array


class Elementwise(Operation):
    """Base: operands broadcast, and the result has their element type."""

    __slots__ = ()
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})
    meaning: Meaning

    def infer(self) -> list[Type]:
        first = self._operands[0].type
        if all(value.type is first for value in self._operands):
            return [first]
        named = {field.name: value for field, value in zip(self.definition.operands, self._operands)}
        element = same_element(**named)
        return [tensor(broadcast_dims(**named), element)]

    def evaluate(self, *operands: Array) -> Array:
        import numpy as np

        values = {name: getattr(self, name) for name in self.definition.attributes}
        found = type(self).meaning(np, *[widen(array) for array in operands], **values)
        return np.asarray(found).astype(operands[0].dtype, copy=False)


class Predicate(Elementwise):
    """Base of the ops whose result is i1."""

    __slots__ = ()

    def infer(self) -> list[Type]:
        operand_type = super().infer()[0]
        return [tensor(operand_type.dims, I1)]  # type: ignore[attr-defined]

    def evaluate(self, *operands: Array) -> Array:
        import numpy as np

        return np.asarray(type(self).meaning(np, *operands))


def _of_prim(name: str) -> Meaning:
    table: Mapping[str, Any] = prim.UNARY if name in prim.UNARY else prim.BINARY
    found: Meaning = table[name][2]
    return found


# hl name -> prim op of the same meaning (only the broadcasting differs)
TWINS: dict[str, str] = {
    **{name: name for name in ("abs", "neg", "sign", "floor", "ceil", "trunc", "sqrt", "rsqrt", "exp", "exp2", "expm1",
                               "log", "log2",
                               "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
                               "acosh", "atanh",
                               "erf", "erfc", "erfinv", "add", "atan2")},
    "reciprocal": "recip", "logical_not": "not", "bitwise_not": "not", "subtract": "sub", "multiply": "mul", "divide": "div",
    "fmod": "rem", "power": "pow", "maximum": "max", "minimum": "min", "logical_and": "and", "logical_or": "or",
    "logical_xor": "xor",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "shift_left": "shl", "shift_right": "shr"}
_LOGICAL = {"logical_not", "logical_and", "logical_or", "logical_xor"}
_COMMUTATIVE = {"add", "multiply", "maximum", "minimum", "logaddexp", "equal", "not_equal", "logical_and", "logical_or",
                "logical_xor",
                "bitwise_and", "bitwise_or", "bitwise_xor"}

Attributes = dict[str, AttributeField[Any]]

# name -> (formula, meaning)
SMOOTH: dict[str, tuple[str, Meaning]] = {
    "sinc": ("sin(pi x) / (pi x), 1 at 0; a series near 0, so that all derivatives are right there", m.sinc),
    "sigmoid": ("1 / (1 + e**-x)", m.sigmoid),
    "log_sigmoid": ("log(sigmoid(x)) without overflow", m.log_sigmoid),
    "relu": ("x above 0, 0 elsewhere; NaN stays; the derivative at 0 is 0", m.relu),
    "relu6": ("x between 0 and 6, else the bound; the derivative at 0 and 6 is 0", lambda np, x: m.bounded(np, x, 0, 6)),
    "selu": ("scale * elu(x, alpha) with the constants of self-normalising networks (Klambauer et al. 2017)", m.selu),
    "silu": ("x sigmoid(x); 0 at -inf", m.silu),
    "mish": ("x tanh(softplus(x)); 0 at -inf", m.mish),
    "hard_sigmoid": ("x / 6 + 1/2 between 0 and 1, else the bound; the derivative at x = -3 and 3 is 0", m.hard_sigmoid),
    "hard_swish": ("x hard_sigmoid(x); the derivative is 0 at -3 and 1 at 3", m.hard_swish),
}

# name -> (formula, meaning, attributes)
PARAMETRIC: dict[str, tuple[str, Meaning, Attributes]] = {
    "softplus": ("log(1 + e**(beta x)) / beta, and x where beta x > threshold", m.softplus,
                 {"beta": attribute(FLOAT, default=1.0), "threshold": attribute(FLOAT, default=20.0)}),
    "leaky_relu": ("x above 0, alpha x elsewhere; the derivative at 0 is alpha",
                   lambda np, x, alpha: np.where(x > 0, x, x * x.dtype.type(alpha)), {"alpha": attribute(FLOAT, default=0.01)}),
    "elu": ("x above 0, alpha (e**x - 1) elsewhere; the derivative at 0 is alpha", m.elu, {"alpha": attribute(FLOAT,
                                                                                                              default=1.0)}),
    "celu": ("x above 0, alpha (e**(x / alpha) - 1) elsewhere", m.celu, {"alpha": attribute(FLOAT, default=1.0)}),
    "gelu": ('x Phi(x) with the normal distribution Phi; with approximate = "tanh" '
             "x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))) (Hendrycks and Gimpel 2016); 0 at -inf", m.gelu,
             {"approximate": attribute(enumeration("none", "tanh"), default="none")}),
    "hard_tanh": ("x between min and max, else the bound; the derivative at a bound is 0",
                  lambda np, x, min, max: m.bounded(np, x, min, max),
                  {"min": attribute(FLOAT, default=-1.0), "max": attribute(FLOAT, default=1.0)}),
    "round": ("the nearest integer, halves to even; the derivative is 0, or with ste (straight-through estimate) 1",
              lambda np, x, ste: np.rint(x), {"ste": attribute(BOOLEAN, default=False)}),
}

# name -> (formula, what the operands may be, meaning)
BINARY: dict[str, tuple[str, Constraint, Meaning]] = {
    "add": ("x + y; integers wrap", NUMBER_TENSOR, _of_prim("add")),
    "subtract": ("x - y; integers wrap", NUMBER_TENSOR, _of_prim("sub")),
    "multiply": ("x * y; integers wrap", NUMBER_TENSOR, _of_prim("mul")),
    "divide": ("x / y; integers towards zero, 0 where y is 0, INT_MIN / -1 = INT_MIN", NUMBER_TENSOR, _of_prim("div")),
    "floor_divide": ("x / y rounded down; integers: 0 where y is 0; its derivative is 0", NUMBER_TENSOR, m.floor_divide),
    "mod": ("x - y floor(x / y), with the sign of y; integers: 0 where y is 0", NUMBER_TENSOR, m.modulo),
    "fmod": ("x - y trunc(x / y), with the sign of x; integers: 0 where y is 0", NUMBER_TENSOR, _of_prim("rem")),
    "power": ("x ** y; integers wrap. d/dx is 0 where y is 0; d/dy where x is 0 is 0 (-inf for y < 0)", NUMBER_TENSOR,
              _of_prim("pow")),
    "maximum": ("the larger; NaN where either is; a tie splits the cotangent evenly", NUMBER_TENSOR, _of_prim("max")),
    "minimum": ("the smaller; NaN where either is; a tie splits the cotangent evenly", NUMBER_TENSOR, _of_prim("min")),
    "atan2": ("the angle of the point (y, x): x is the ordinate, as in NumPy", FLOAT_TENSOR, _of_prim("atan2")),
    "logaddexp": ("log(e**x + e**y) without overflow", FLOAT_TENSOR, lambda np, x, y: np.logaddexp(x, y)),
    "xlogy": ("x log y; 0 where x is 0, unless y is NaN. d/dx = log y, d/dy = 0 where x is 0", FLOAT_TENSOR, m.xlogy),
    "xlog1py": ("x log(1 + y); 0 where x is 0, unless y is NaN. d/dx = log(1 + y), d/dy = 0 where x is 0", FLOAT_TENSOR,
                m.xlog1py),
    "prelu": ("x above 0, alpha x elsewhere, with an alpha that broadcasts; the derivative at 0 is alpha", FLOAT_TENSOR,
              lambda np, x, alpha: np.where(x > 0, x, x * alpha)),
    "logical_and": ("both", BOOL_TENSOR, _of_prim("and")),
    "logical_or": ("either", BOOL_TENSOR, _of_prim("or")),
    "logical_xor": ("exactly one", BOOL_TENSOR, _of_prim("xor")),
    "bitwise_and": ("each bit: both", BITS_TENSOR, _of_prim("and")),
    "bitwise_or": ("each bit: either", BITS_TENSOR, _of_prim("or")),
    "bitwise_xor": ("each bit: exactly one", BITS_TENSOR, _of_prim("xor")),
    "shift_left": ("x shifted left by y bits; 0 for a count outside [0, width)", BITS_TENSOR, _of_prim("shl")),
    "shift_right": ("x shifted right by y bits, with its sign where signed", BITS_TENSOR, _of_prim("shr")),
}

COMPARISONS: dict[str, tuple[str, str]] = {  # name -> (formula, predicate of prim.cmp)
    "equal": ("x = y", "eq"), "not_equal": ("x differs from y; true with a NaN", "ne"), "less": ("x < y", "lt"),
    "less_equal": ("x <= y", "le"), "greater": ("x > y", "gt"), "greater_equal": ("x >= y", "ge")}


def _comparison(predicate: str) -> Meaning:
    return lambda np, x, y: getattr(np, prim.PREDICATES[predicate])(x, y)


def _declare(base: type[Operation], name: str, formula: str, meaning: Meaning, traits: set[str] | None = None,
             **fields: Any) -> None:
    """Adds an op class to this module."""
    found = {PURE} | (traits or set()) | ({COMMUTATIVE} if name in _COMMUTATIVE else set())
    globals()[prim.class_name(name)] = type(prim.class_name(name), (base,), {
        "__slots__": (), "__module__": __name__, "__doc__": sentence(formula), "name": f"hl.{name}",
        "meaning": staticmethod(meaning), "traits": frozenset(found), **fields})


def _second_operand(name: str) -> str:
    return "alpha" if name == "prelu" else "y"


for _name, _twin in TWINS.items():
    if _twin in prim.UNARY:
        _formula, _constraint, _meaning = prim.UNARY[_twin]
        _declare(Elementwise, _name, "not x" if _name == "logical_not" else _formula, _meaning, {ELEMENTWISE},
                 x=operand(BOOL_TENSOR if _name in _LOGICAL else _constraint))
_declare(Elementwise, "square", "x * x; integers wrap", lambda np, x: np.multiply(x, x), {ELEMENTWISE}, x=operand(NUMBER_TENSOR))
for _name, (_formula, _meaning) in SMOOTH.items():
    _declare(Elementwise, _name, _formula, _meaning, {ELEMENTWISE}, x=operand(FLOAT_TENSOR))
for _name, (_formula, _meaning, _attributes) in PARAMETRIC.items():
    _rules = {"verify": lambda self: check_bounds(self.min, self.max)} if _name == "hard_tanh" else {}
    _declare(Elementwise, _name, _formula, _meaning, {ELEMENTWISE}, x=operand(FLOAT_TENSOR), **_attributes, **_rules)
for _name, _formula, _meaning in (("isnan", "whether x is NaN", lambda np, x: np.isnan(x)),
                                  ("isfinite", "whether x is neither infinite nor NaN", lambda np, x: np.isfinite(x))):
    _declare(Predicate, _name, _formula, _meaning, {ELEMENTWISE}, x=operand(FLOAT_TENSOR))
for _name, (_formula, _constraint, _meaning) in BINARY.items():
    _fields: dict[str, Any] = {"x": operand(_constraint), _second_operand(_name): operand(_constraint)}
    _declare(Elementwise, _name, _formula, _meaning, None, **_fields)
for _name, (_formula, _predicate) in COMPARISONS.items():
    _declare(Predicate, _name, _formula, _comparison(_predicate), x=operand(ANY_TENSOR), y=operand(ANY_TENSOR))


class ClipOp(Elementwise):
    """x between min and max, else the bound; NaN stays; the derivative at a bound is 0. On integers the bounds are whole
    numbers."""

    __slots__ = ()
    name = "hl.clip"
    x = operand(NUMBER_TENSOR)
    min = attribute(FLOAT)
    max = attribute(FLOAT)
    traits = frozenset({PURE, ELEMENTWISE})

    def verify(self) -> None:
        check_bounds(self.min, self.max)
        if tensor_type(self.x).element.is_integer and not (self.min.is_integer() and self.max.is_integer()):
            raise InvalidOperation(f"has bounds {self.min} and {self.max} for {self.x.type.text}, expected whole numbers")

    def evaluate(self, x: Array) -> Array:
        import numpy as np

        return m.bounded(np, widen(x), self.min, self.max).astype(x.dtype, copy=False)


def check_bounds(low: float, high: float) -> None:
    """Raises InvalidOperation unless low <= high."""
    if not low <= high:
        raise InvalidOperation(f"has min {low} and max {high}, expected min <= max")


class WhereOp(Operation):
    """`x` where `cond` is true, `y` elsewhere; all three broadcast. The branch that is not taken contributes nothing, not
    even NaN."""

    __slots__ = ()
    name = "hl.where"
    cond = operand(BOOL_TENSOR)
    x = operand(ANY_TENSOR)
    y = operand(ANY_TENSOR)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        element = same_element(x=self.x, y=self.y)
        return [tensor(broadcast_dims(cond=self.cond, x=self.x, y=self.y), element)]

    def evaluate(self, cond: Array, x: Array, y: Array) -> Array:
        import numpy as np

        return np.where(cond, x, y)


class ClampOp(Elementwise):
    """`x` between `lo` and `hi`, which broadcast: min(max(x, lo), hi). At a bound the cotangent goes to the bound alone."""

    __slots__ = ()
    name = "hl.clamp"
    x = operand(NUMBER_TENSOR)
    lo = operand(NUMBER_TENSOR)
    hi = operand(NUMBER_TENSOR)
    meaning = staticmethod(lambda np, x, lo, hi: np.minimum(np.maximum(x, lo), hi))


class FmaOp(Elementwise):
    """x * y + z."""

    __slots__ = ()
    name = "hl.fma"
    x = operand(NUMBER_TENSOR)
    y = operand(NUMBER_TENSOR)
    z = operand(NUMBER_TENSOR)
    meaning = staticmethod(lambda np, x, y, z: x * y + z)
