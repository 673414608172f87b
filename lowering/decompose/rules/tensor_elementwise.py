"""Decompositions of elementwise `hl` ops. Each has the derivative of the conventions (semantics 0), not only the value.

Kinks are selects whose condition includes the kink where the derivative there is that of the constant side. -|x| is written
select(x <= 0, x, -x), because abs has derivative 0 at 0, which would spoil functions that are smooth there. What takes more
than one `prim` op is computed in f32 for 16-bit floats and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.hl.elementwise import COMPARISONS, TWINS
from gradopt.dialects.hl.meanings import GELU_CUBIC, GELU_SLOPE, SELU_ALPHA, SELU_SCALE
from gradopt.ir.builder import Builder
from gradopt.ir.types import FloatType
from gradopt.ir.values import Value
from gradopt.lowering.building import broadcast_all, broadcast_extents, broadcast_to, cast_to, full_like
from gradopt.lowering.decompose.neural import compare, constant_times, select_constant, wide
from gradopt.lowering.decompose.registry import decomposition

Rule = Callable[..., Value]


def plus(b: Builder, x: Value, number: float) -> Value:
    """x + number."""
    return b.prim.add(x, full_like(b, x, number))


def composite(*names: str) -> Callable[[Rule], Rule]:
    """Registers `rule(b, *operands, op)`: operands come broadcast and in their accumulation type; the result is rounded
    back."""
    def decorate(rule: Rule) -> Rule:
        def build(b: Builder, op: Any) -> Value:
            operands = broadcast_all(b, *[wide(b, value) for value in op.operands])
            return cast_to(b, rule(b, *operands, op), tensor_type(op.operands[0]).element)
        build.__doc__ = rule.__doc__
        build.__module__ = rule.__module__
        decomposition(*[f"hl.{name}" for name in names])(build)
        return rule
    return decorate


@decomposition(*[f"hl.{name}" for name in TWINS])
def twin(b: Builder, op: Any) -> Value:
    """The prim op of the same meaning, on broadcast operands."""
    return b.create(f"prim.{TWINS[op.name.removeprefix('hl.')]}", broadcast_all(b, *op.operands)).results[0]


@decomposition(*[f"hl.{name}" for name in COMPARISONS])
def comparison(b: Builder, op: Any) -> Value:
    """prim.cmp."""
    return b.prim.cmp(*broadcast_all(b, *op.operands), predicate=COMPARISONS[op.name.removeprefix("hl.")][1])


@decomposition("hl.where")
def where(b: Builder, op: Any) -> Value:
    """select."""
    extents = broadcast_extents(b, op.operands)
    return b.prim.select(*[broadcast_to(b, value, extents) for value in op.operands])


@decomposition("hl.square")
def square(b: Builder, op: Any) -> Value:
    """x * x."""
    return b.prim.mul(op.x, op.x)


@decomposition("hl.isnan")
def isnan(b: Builder, op: Any) -> Value:
    """x differs from itself."""
    return b.prim.cmp(op.x, op.x, predicate="ne")


@decomposition("hl.isfinite")
def isfinite(b: Builder, op: Any) -> Value:
    """|x| < inf."""
    return compare(b, b.prim.abs(op.x), "lt", math.inf)


@decomposition("hl.round")
def round_(b: Builder, op: Any) -> Value:
    """round(x); straight through it is x + (round(x) - x) with a constant second part, which is exact for finite x."""
    rounded = b.prim.round(op.x)
    if not op.ste:
        return rounded
    finite = compare(b, b.prim.abs(op.x), "lt", math.inf)
    return b.prim.select(finite, b.prim.add(op.x, b.prim.stop_gradient(b.prim.sub(rounded, op.x))), op.x)


def bounded(b: Builder, x: Value, low: Value, high: Value) -> Value:
    """min(max(x, low), high) by selects, with derivative 0 in x at a bound."""
    raised = b.prim.select(b.prim.cmp(x, low, predicate="le"), low, x)
    return b.prim.select(b.prim.cmp(raised, high, predicate="ge"), high, raised)


@composite("clip", "hard_tanh")
def clip(b: Builder, x: Value, op: Any) -> Value:
    """select(x <= min, min, select(x >= max, max, x))."""
    return bounded(b, x, full_like(b, x, op.min), full_like(b, x, op.max))


@composite("clamp")
def clamp(b: Builder, x: Value, low: Value, high: Value, op: Any) -> Value:
    """As clip, with tensors as bounds."""
    return bounded(b, x, low, high)


@composite("fma")
def fma(b: Builder, x: Value, y: Value, z: Value, op: Any) -> Value:
    """x * y + z."""
    return b.prim.add(b.prim.mul(x, y), z)


@composite("relu")
def relu(b: Builder, x: Value, op: Any) -> Value:
    """select(x <= 0, 0, x)."""
    zero = full_like(b, x, 0)
    return b.prim.select(b.prim.cmp(x, zero, predicate="le"), zero, x)


@composite("relu6")
def relu6(b: Builder, x: Value, op: Any) -> Value:
    """x between 0 and 6."""
    return bounded(b, x, full_like(b, x, 0), full_like(b, x, 6))


@composite("leaky_relu")
def leaky_relu(b: Builder, x: Value, op: Any) -> Value:
    """select(x <= 0, alpha x, x)."""
    return b.prim.select(compare(b, x, "le", 0), constant_times(b, x, op.alpha), x)


@composite("prelu")
def prelu(b: Builder, x: Value, alpha: Value, op: Any) -> Value:
    """select(x <= 0, alpha x, x)."""
    return b.prim.select(compare(b, x, "le", 0), b.prim.mul(x, alpha), x)


def exponential_unit(b: Builder, x: Value, alpha: float, width: float) -> Value:
    """x above 0, alpha (e**(x / width) - 1) elsewhere; the exponential is only taken of what is not positive."""
    below = compare(b, x, "le", 0)
    low = b.prim.select(below, x, full_like(b, x, 0))
    curve = constant_times(b, b.prim.expm1(b.prim.div(low, full_like(b, x, width)) if width != 1 else low), alpha)
    return b.prim.select(below, curve, x)


@composite("elu")
def elu(b: Builder, x: Value, op: Any) -> Value:
    """alpha (e**x - 1) where x <= 0."""
    return exponential_unit(b, x, op.alpha, 1)


@composite("celu")
def celu(b: Builder, x: Value, op: Any) -> Value:
    """alpha (e**(x / alpha) - 1) where x <= 0."""
    return exponential_unit(b, x, op.alpha, op.alpha)


@composite("selu")
def selu(b: Builder, x: Value, op: Any) -> Value:
    """scale * elu(x, alpha)."""
    return constant_times(b, exponential_unit(b, x, SELU_ALPHA, 1), SELU_SCALE)


def falling(b: Builder, x: Value) -> tuple[Value, Value]:
    """(x <= 0, e**-|x|), smooth on both sides."""
    below = compare(b, x, "le", 0)
    return below, b.prim.exp(b.prim.select(below, x, b.prim.neg(x)))


def sigmoid_of(b: Builder, x: Value) -> Value:
    """select(x <= 0, e, 1) / (1 + e) with e = e**-|x|: no overflow, and the tail of negative x is kept."""
    below, small = falling(b, x)
    return b.prim.div(b.prim.select(below, small, full_like(b, x, 1)), plus(b, small, 1))


def softplus_of(b: Builder, x: Value) -> Value:
    """log(1 + e**x) = select(x <= 0, 0, x) + log1p(e**-|x|)."""
    below, small = falling(b, x)
    return b.prim.add(select_constant(b, below, 0, x), b.prim.log1p(small))


@composite("sigmoid")
def sigmoid(b: Builder, x: Value, op: Any) -> Value:
    """1 / (1 + e**-x)."""
    return sigmoid_of(b, x)


@composite("log_sigmoid")
def log_sigmoid(b: Builder, x: Value, op: Any) -> Value:
    """-log(1 + e**-x)."""
    return b.prim.neg(softplus_of(b, b.prim.neg(x)))


@composite("softplus")
def softplus(b: Builder, x: Value, op: Any) -> Value:
    """log(1 + e**(beta x)) / beta."""
    scaled = constant_times(b, x, op.beta)
    curve = softplus_of(b, scaled)
    if op.beta != 1:
        curve = b.prim.div(curve, full_like(b, x, op.beta))
    return b.prim.select(compare(b, scaled, "gt", op.threshold), x, curve)


def gated(b: Builder, x: Value, gate: Value) -> Value:
    """x * gate, and 0 where the gate is 0 and x infinite."""
    return b.prim.mul_zero(x, gate)


@composite("silu")
def silu(b: Builder, x: Value, op: Any) -> Value:
    """x sigmoid(x)."""
    return gated(b, x, sigmoid_of(b, x))


def mish_gate(b: Builder, x: Value) -> Value:
    """tanh(softplus(x)) = n / (n + 2 d): with e = e**-|x| is n = e (e + 2), d = 1 below 0 and n = 1 + 2e, d = e**2 above."""
    below, small = falling(b, x)
    squared = b.prim.mul(small, small)
    double = constant_times(b, small, 2)
    top = b.prim.add(double, b.prim.select(below, squared, full_like(b, x, 1)))
    rest = constant_times(b, select_constant(b, below, 1, squared), 2)
    return b.prim.div(top, b.prim.add(top, rest))


@composite("mish")
def mish(b: Builder, x: Value, op: Any) -> Value:
    """x tanh(softplus(x))."""
    return gated(b, x, mish_gate(b, x))


def gelu_argument(b: Builder, x: Value) -> Value:
    """2 sqrt(2/pi) (x + 0.044715 x**3) of x limited to [-100, 100], where sigmoid has long reached 0 or 1 in f64."""
    limited = bounded(b, x, full_like(b, x, -100), full_like(b, x, 100))
    cubic = plus(b, constant_times(b, b.prim.mul(limited, limited), GELU_CUBIC), 1)
    return constant_times(b, b.prim.mul(limited, cubic), 2 * GELU_SLOPE)


@composite("gelu")
def gelu(b: Builder, x: Value, op: Any) -> Value:
    """x erfc(-x / sqrt 2) / 2; by tanh it is x sigmoid(2u), which keeps the tail that 1 + tanh(u) loses."""
    if op.approximate == "tanh":
        return gated(b, x, sigmoid_of(b, gelu_argument(b, x)))
    return gated(b, x, constant_times(b, b.prim.erfc(constant_times(b, x, -math.sqrt(0.5))), 0.5))


@composite("hard_sigmoid")
def hard_sigmoid(b: Builder, x: Value, op: Any) -> Value:
    """x / 6 + 1/2 inside (-3, 3)."""
    line = plus(b, b.prim.div(x, full_like(b, x, 6)), 0.5)
    line = select_constant(b, compare(b, x, "le", -3), 0, line)
    return select_constant(b, compare(b, x, "ge", 3), 1, line)


@composite("hard_swish")
def hard_swish(b: Builder, x: Value, op: Any) -> Value:
    """x (x + 3) / 6 inside (-3, 3)."""
    curve = b.prim.mul(x, plus(b, b.prim.div(x, full_like(b, x, 6)), 0.5))
    curve = select_constant(b, compare(b, x, "le", -3), 0, curve)
    return b.prim.select(compare(b, x, "ge", 3), x, curve)


SINC_NEAR = 1.5  # up to this |pi x| the series is used
SINC_TERMS = 12  # its first term left out is 1.5**24 / 25!


@composite("sinc")
def sinc(b: Builder, x: Value, op: Any) -> Value:
    """sin(p) / p with p = pi x, the sine by the distance of x from its nearest whole number, and near 0 the power series in p**2."""
    p = constant_times(b, x, math.pi)
    near = compare(b, b.prim.abs(p), "lt", SINC_NEAR)
    u = b.prim.select(near, b.prim.mul(p, p), full_like(b, x, 0))
    series = full_like(b, x, (-1) ** SINC_TERMS / math.factorial(2 * SINC_TERMS + 1))
    for term in reversed(range(SINC_TERMS)):
        series = plus(b, b.prim.mul(series, u), (-1) ** term / math.factorial(2 * term + 1))
    whole = b.prim.round(x)
    half = constant_times(b, whole, 0.5)
    sine = b.prim.sin(constant_times(b, b.prim.sub(x, whole), math.pi))  # exact where rounding pi x would lose the angle
    sine = b.prim.select(b.prim.cmp(b.prim.floor(half), half, predicate="eq"), sine, b.prim.neg(sine))
    return b.prim.select(near, series, b.prim.div(sine, select_constant(b, near, 1, p)))


def log_add(b: Builder, x: Value, y: Value) -> Value:
    """log(e**x + e**y): the larger plus log1p(e**-|x - y|), smooth where x = y; equal infinities share the derivative by their mean."""
    difference = b.prim.sub(x, y)
    equal = b.prim.and_(b.prim.cmp(x, y, predicate="eq"), b.prim.cmp(difference, difference, predicate="ne"))
    below, small = falling(b, select_constant(b, equal, 0, difference))
    larger = b.prim.select(equal, constant_times(b, b.prim.add(x, y), 0.5), b.prim.select(below, y, x))
    return b.prim.add(larger, b.prim.log1p(small))


@composite("logaddexp")
def logaddexp(b: Builder, x: Value, y: Value, op: Any) -> Value:
    """log(e**x + e**y)."""
    return log_add(b, x, y)


def zero_wins(b: Builder, x: Value, y: Value, logarithm: Value) -> Value:
    """x * logarithm, where an x of 0 wins unless y is NaN. mul_zero has the derivatives log y and 0 * (1/y) = 0 there."""
    product = b.prim.select(compare(b, x, "eq", 0), b.prim.mul_zero(x, logarithm), b.prim.mul(x, logarithm))
    return b.prim.select(b.prim.cmp(y, y, predicate="ne"), y, product)


@composite("xlogy")
def xlogy(b: Builder, x: Value, y: Value, op: Any) -> Value:
    """x log y."""
    return zero_wins(b, x, y, b.prim.log(y))


@composite("xlog1py")
def xlog1py(b: Builder, x: Value, y: Value, op: Any) -> Value:
    """x log(1 + y)."""
    return zero_wins(b, x, y, b.prim.log1p(y))


def below_zero(b: Builder, x: Value) -> Value:
    """i1: x < 0; false for unsigned integers."""
    return compare(b, x, "lt", 0)


def opposite(b: Builder, rest: Value, y: Value) -> Value:
    """i1: a remainder of trunc division that is not 0 and has not the divisor's sign."""
    differs = b.prim.xor(below_zero(b, rest), below_zero(b, y))
    return b.prim.and_(compare(b, rest, "ne", 0), differs)


@composite("mod")
def mod(b: Builder, x: Value, y: Value, op: Any) -> Value:
    """r = x - y trunc(x / y), plus y where its sign is not y's; so d/dy = -floor(x / y)."""
    rest = b.prim.rem(x, y)
    return b.prim.add(rest, b.prim.select(opposite(b, rest, y), y, full_like(b, y, 0)))


@composite("floor_divide")
def floor_divide(b: Builder, x: Value, y: Value, op: Any) -> Value:
    """The quotient without its remainder is a whole number up to rounding; by 0 it is x / 0."""
    rest = b.prim.rem(x, y)
    less = cast_to(b, opposite(b, rest, y), tensor_type(x).element)
    if not isinstance(tensor_type(x).element, FloatType):
        return b.prim.sub(b.prim.div(x, y), less)
    whole = b.prim.round(b.prim.div(b.prim.sub(x, rest), y))
    return b.prim.select(compare(b, y, "eq", 0), b.prim.div(x, y), b.prim.sub(whole, less))


