"""Derivatives of the elementwise `prim` ops, in both modes, from one table of local derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.ir.values import Value
from gradopt.lowering.autodiff.context import Context, is_float_tensor
from gradopt.lowering.autodiff.helpers import cast_to, full_like, not_a_number, tanh_slope, zeros_like
from gradopt.lowering.autodiff.registry import Gradients, Tangents, forward_rule, reverse_rule, zero_derivative

Local = Callable[[Builder, Value, Value], Value]  # (builder, x, y = f(x)) -> f'(x)
LOCAL: dict[str, Local] = {}


def local(name: str) -> Callable[[Local], Local]:
    """Registers the local derivative of `prim.<name>`."""
    def decorate(function: Local) -> Local:
        LOCAL[f"prim.{name}"] = function
        return function
    return decorate


@local("abs")
def absolute(b: Builder, x: Value, y: Value) -> Value:
    """sign(x), 0 at 0."""
    return b.prim.sign(x)


@local("exp")
def exponential(b: Builder, x: Value, y: Value) -> Value:
    """exp(x)."""
    return y


@local("exp2")
def exponential2(b: Builder, x: Value, y: Value) -> Value:
    """2^x ln 2."""
    return b.prim.mul(y, full_like(b, y, math.log(2)))


@local("expm1")
def exponential_minus_one(b: Builder, x: Value, y: Value) -> Value:
    """exp(x); y + 1 would lose its digits for very negative x."""
    return b.prim.exp(x)


@local("log")
def logarithm(b: Builder, x: Value, y: Value) -> Value:
    """1 / x."""
    return b.prim.recip(x)


@local("log2")
def logarithm2(b: Builder, x: Value, y: Value) -> Value:
    """1 / (x ln 2)."""
    return b.prim.div(full_like(b, x, 1 / math.log(2)), x)


@local("log1p")
def logarithm_plus_one(b: Builder, x: Value, y: Value) -> Value:
    """1 / (1 + x)."""
    return b.prim.recip(one_plus(b, x))


@local("sin")
def sine(b: Builder, x: Value, y: Value) -> Value:
    """cos x."""
    return b.prim.cos(x)


@local("cos")
def cosine(b: Builder, x: Value, y: Value) -> Value:
    """-sin x."""
    return b.prim.neg(b.prim.sin(x))


@local("tan")
def tangent(b: Builder, x: Value, y: Value) -> Value:
    """1 + tan(x)^2."""
    return one_plus(b, b.prim.mul(y, y))


@local("asin")
def arc_sine(b: Builder, x: Value, y: Value) -> Value:
    """1 / sqrt((1 - x) (1 + x))."""
    return b.prim.rsqrt(one_minus_square(b, x))


@local("acos")
def arc_cosine(b: Builder, x: Value, y: Value) -> Value:
    """-1 / sqrt((1 - x) (1 + x))."""
    return b.prim.neg(b.prim.rsqrt(one_minus_square(b, x)))


@local("atan")
def arc_tangent(b: Builder, x: Value, y: Value) -> Value:
    """1 / (1 + x^2)."""
    return b.prim.recip(one_plus(b, b.prim.mul(x, x)))


@local("sinh")
def hyperbolic_sine(b: Builder, x: Value, y: Value) -> Value:
    """cosh x."""
    return b.prim.cosh(x)


@local("cosh")
def hyperbolic_cosine(b: Builder, x: Value, y: Value) -> Value:
    """sinh x."""
    return b.prim.sinh(x)


@local("tanh")
def hyperbolic_tangent(b: Builder, x: Value, y: Value) -> Value:
    """1 - tanh(x)^2, with its tails."""
    return tanh_slope(b, x)


FAR = {"f16": 2.0 ** 7, "bf16": 2.0 ** 62, "f32": 2.0 ** 62, "f64": 2.0 ** 510}  # near the root of the largest number


@local("asinh")
def area_hyperbolic_sine(b: Builder, x: Value, y: Value) -> Value:
    """1 / sqrt(1 + x^2); 1 / |x| where the 1 is too small to count, long before the square overflows."""
    size = b.prim.abs(x)
    far = b.create("prim.cmp", [size, full_like(b, x, FAR[tensor_type(x).element.text])], predicate="ge").results[0]
    near = b.prim.select(far, zeros_like(b, x), x)
    return b.prim.select(far, b.prim.recip(size), b.prim.rsqrt(one_plus(b, b.prim.mul(near, near))))


@local("acosh")
def area_hyperbolic_cosine(b: Builder, x: Value, y: Value) -> Value:
    """1 / sqrt(x^2 - 1) as rsqrt(x - 1) rsqrt(x + 1)."""
    return b.prim.mul(b.prim.rsqrt(b.prim.sub(x, full_like(b, x, 1))), b.prim.rsqrt(one_plus(b, x)))


@local("atanh")
def area_hyperbolic_tangent(b: Builder, x: Value, y: Value) -> Value:
    """1 / ((1 - x) (1 + x))."""
    return b.prim.recip(one_minus_square(b, x))


@local("erf")
def error_function(b: Builder, x: Value, y: Value) -> Value:
    """2 / sqrt(pi) exp(-x^2)."""
    return b.prim.mul(b.prim.exp(b.prim.neg(b.prim.mul(x, x))), full_like(b, x, 2 / math.sqrt(math.pi)))


@local("erfc")
def complementary_error_function(b: Builder, x: Value, y: Value) -> Value:
    """-2 / sqrt(pi) exp(-x^2)."""
    return b.prim.neg(error_function(b, x, y))


@local("erfinv")
def inverse_error_function(b: Builder, x: Value, y: Value) -> Value:
    """sqrt(pi) / 2 exp(y^2)."""
    return b.prim.mul(b.prim.exp(b.prim.mul(y, y)), full_like(b, y, math.sqrt(math.pi) / 2))


@local("sqrt")
def square_root(b: Builder, x: Value, y: Value) -> Value:
    """1 / (2 sqrt x)."""
    return b.prim.div(full_like(b, y, 0.5), y)


@local("rsqrt")
def reciprocal_square_root(b: Builder, x: Value, y: Value) -> Value:
    """-1/2 x^(-3/2)."""
    return b.prim.mul(full_like(b, y, -0.5), b.prim.mul(y, b.prim.mul(y, y)))


@local("recip")
def reciprocal(b: Builder, x: Value, y: Value) -> Value:
    """-1 / x^2."""
    return b.prim.neg(b.prim.mul(y, y))


def one_plus(b: Builder, x: Value) -> Value:
    """1 + x."""
    return b.prim.add(full_like(b, x, 1), x)


def one_minus_square(b: Builder, x: Value) -> Value:
    """(1 - x) (1 + x), exact near 1."""
    one = full_like(b, x, 1)
    return b.prim.mul(b.prim.sub(one, x), b.prim.add(one, x))


def unary(context: Context, op: Operation, g: Value) -> Value:
    """g f'(x), for the cotangent as for the tangent: the Jacobian is diagonal."""
    return context.scale(g, LOCAL[op.name](context.builder, op.operands[0], op.results[0]))


reverse_rule(*LOCAL)(unary)
forward_rule(*LOCAL)(unary)


@reverse_rule("prim.neg")
@forward_rule("prim.neg")
def negate(context: Context, op: Operation, g: Value) -> Value:
    """-g."""
    return context.builder.prim.neg(g)


zero_derivative("prim.sign", "prim.floor", "prim.ceil", "prim.round", "prim.trunc", "prim.bitcast", "prim.stop_gradient")


# --- two operands


@reverse_rule("prim.add")
def add(context: Context, op: Operation, g: Value) -> Gradients:
    """g and g."""
    return g, g


@reverse_rule("prim.sub")
def subtract(context: Context, op: Operation, g: Value) -> Gradients:
    """g and -g."""
    return g, lambda: context.builder.prim.neg(g)


@forward_rule("prim.add", "prim.sub")
def add_tangents(context: Context, op: Operation, dx: Value | None, dy: Value | None) -> Value:
    """dx + dy, or dx - dy."""
    if dy is None:
        assert dx is not None
        return dx
    if dx is None:
        return dy if op.name == "prim.add" else context.builder.prim.neg(dy)
    return context.builder.create(op.name, [dx, dy]).results[0]


Partials = tuple[Callable[[Context, Operation, Value], Value], ...]
PARTIALS: dict[str, Partials] = {}


def partials(name: str, *functions: Callable[[Context, Operation, Value], Value], masks: bool = False) -> None:
    """Registers both modes of `prim.<name>` from one function an operand: (context, op, g) -> g times that partial derivative."""
    PARTIALS[f"prim.{name}"] = functions
    reverse_rule(f"prim.{name}", masks=masks)(_reverse_partials)
    forward_rule(f"prim.{name}", masks=masks)(_forward_partials)


def _reverse_partials(context: Context, op: Operation, g: Value) -> Gradients:
    """g times each partial derivative."""
    def entry(function: Callable[[Context, Operation, Value], Value]) -> Callable[[], Value]:
        return lambda: function(context, op, g)
    return [entry(function) for function in PARTIALS[op.name]]


def _forward_partials(context: Context, op: Operation, *tangents: Value | None) -> Tangents:
    """The sum of each tangent times its partial derivative."""
    terms = [function(context, op, t) for function, t in zip(PARTIALS[op.name], tangents) if t is not None]
    return total(context.builder, terms)


def total(b: Builder, terms: Sequence[Value]) -> Value:
    """The sum of values of one type."""
    result = terms[0]
    for term in terms[1:]:
        result = b.prim.add(result, term)
    return result


partials("mul", lambda c, op, g: c.scale(g, op.operands[1]), lambda c, op, g: c.scale(g, op.operands[0]))
# bilinear by declaration: a lane that is cut off stays cut off at every order
partials("mul_zero", lambda c, op, g: c.builder.prim.mul_zero(g, op.operands[1]),
         lambda c, op, g: c.builder.prim.mul_zero(g, op.operands[0]), masks=True)


def divide_by(context: Context, g: Value, d: Value) -> Value:
    """g / d, zero where a masked g is zero."""
    return context.scale(g, context.builder.prim.recip(d)) if context.masked else context.builder.prim.div(g, d)


def divide_denominator(context: Context, op: Operation, g: Value) -> Value:
    """-g (x / y) / y."""
    b = context.builder
    return b.prim.neg(context.scale(g, b.prim.div(op.results[0], op.operands[1])))


partials("div", lambda c, op, g: divide_by(c, g, op.operands[1]), divide_denominator)


def remainder_divisor(context: Context, op: Operation, g: Value) -> Value:
    """-g trunc(x / y), the quotient found as round((x - x rem y) / y) so that rounding of x / y does not move it by one."""
    b, (x, y) = context.builder, op.operands
    return b.prim.neg(context.scale(g, b.prim.round(b.prim.div(b.prim.sub(x, op.results[0]), y))))


partials("rem", lambda c, op, g: g, remainder_divisor)


def power_base(context: Context, op: Operation, g: Value) -> Value:
    """e == 0 ? 0 : e x^(e - 1)."""
    b, (x, e) = context.builder, op.operands
    slope = b.prim.mul(e, b.prim.pow(x, b.prim.sub(e, full_like(b, e, 1))))
    zero = full_like(b, e, 0)
    return context.scale(g, b.prim.select(b.prim.cmp(e, zero, predicate="eq"), zero, slope))


def power_exponent(context: Context, op: Operation, g: Value) -> Value:
    """x == 0 ? (e >= 0 ? 0 : -inf) : x^e log(x); NaN for a negative base."""
    b, (x, e) = context.builder, op.operands
    zero = full_like(b, x, 0)
    at_zero = b.prim.select(b.prim.cmp(e, zero, predicate="lt"), full_like(b, e, -math.inf), zero)
    slope = b.prim.mul(op.results[0], b.prim.log(x))
    return context.scale(g, b.prim.select(b.prim.cmp(x, zero, predicate="eq"), at_zero, slope))


partials("pow", power_base, power_exponent)


def arc_tangent2(index: int) -> Callable[[Context, Operation, Value], Value]:
    """d atan2(y, x): x / (x^2 + y^2) for y (index 0), -y / (x^2 + y^2) for x; both 0 at (0, 0). Scaled by max(|x|, |y|)
    first, so that the squares neither overflow nor vanish."""
    def partial(context: Context, op: Operation, g: Value) -> Value:
        b, (y, x) = context.builder, op.operands
        zero, one = full_like(b, x, 0), full_like(b, x, 1)
        largest = b.prim.max(b.prim.abs(x), b.prim.abs(y))
        origin = b.prim.cmp(largest, zero, predicate="eq")
        unit = b.prim.select(origin, one, largest)
        u, v = b.prim.div(y, unit), b.prim.div(x, unit)
        square = b.prim.select(origin, one, b.prim.add(b.prim.mul(u, u), b.prim.mul(v, v)))
        return context.scale(g, b.prim.div(b.prim.div(v if index == 0 else b.prim.neg(u), square), unit))
    return partial


partials("atan2", arc_tangent2(0), arc_tangent2(1))


def extremum(index: int) -> Callable[[Context, Operation, Value], Value]:
    """max and min: g to the operand that gives the result, half to each where both do; a NaN that wins gets it."""
    def partial(context: Context, op: Operation, g: Value) -> Value:
        b, y = context.builder, op.results[0]
        mine, other = (b.prim.or_(b.prim.cmp(x, y, predicate="eq"), not_a_number(b, x))
                       for x in (op.operands[index], op.operands[1 - index]))
        half = b.prim.mul(g, full_like(b, g, 0.5))
        return b.prim.select(mine, b.prim.select(other, half, g), zeros_like(b, g))
    return partial


partials("max", extremum(0), extremum(1), masks=True)
partials("min", extremum(0), extremum(1), masks=True)


# --- select and cast


@reverse_rule("prim.select", masks=True)
def select(context: Context, op: Operation, g: Value) -> Gradients:
    """g where the branch was taken, exactly 0 elsewhere."""
    b, cond = context.builder, op.operands[0]
    return (None, lambda: b.prim.select(cond, g, zeros_like(b, g)), lambda: b.prim.select(cond, zeros_like(b, g), g))


@forward_rule("prim.select", masks=True)
def select_tangents(context: Context, op: Operation, _: None, dx: Value | None, dy: Value | None) -> Value:
    """The tangent of the branch that was taken."""
    b, like = context.builder, op.results[0]
    zero: Any = zeros_like(b, like) if dx is None or dy is None else None
    return b.prim.select(op.operands[0], zero if dx is None else dx, zero if dy is None else dy)


@reverse_rule("prim.cast")
def cast(context: Context, op: Operation, g: Value) -> Gradients:
    """The cotangent in the operand's float type; casts from or to integers stop the derivative."""
    return cast_to(context.builder, g, tensor_type(op.operands[0]).element)


@forward_rule("prim.cast")
def cast_tangent(context: Context, op: Operation, t: Value) -> Tangents:
    """The tangent in the result's float type."""
    return cast_to(context.builder, t, tensor_type(op.results[0]).element) if is_float_tensor(op.results[0].type) else None
