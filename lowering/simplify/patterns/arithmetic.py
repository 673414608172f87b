"""Patterns for elementwise ops of `prim` and `hl`. Float values keep their bits (but for the payload of a NaN)."""

from __future__ import annotations

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.ir.types import I1, FloatType, IntegerType, Type
from gradopt.ir.values import Value
from gradopt.lowering.simplify.patterns import Outcome, match, pattern
from gradopt.lowering.simplify.patterns.match import defined_by, element_of, is_integer, uniform

# f(f(x)) = x
INVOLUTIONS = ("prim.neg", "prim.not", "hl.neg", "hl.logical_not", "hl.bitwise_not")
# f(f(x)) = f(x)
IDEMPOTENT = ("prim.abs", "prim.sign", "prim.floor", "prim.ceil", "prim.round", "prim.trunc", "prim.contiguous",
              "hl.abs", "hl.sign", "hl.floor", "hl.ceil", "hl.trunc", "hl.relu", "hl.relu6", "hl.contiguous")
# f(x, x) = x
SELECTIVE = ("prim.max", "prim.min", "prim.and", "prim.or", "hl.maximum", "hl.minimum", "hl.logical_and", "hl.logical_or",
             "hl.bitwise_and", "hl.bitwise_or")


@pattern(*INVOLUTIONS)
def involution(op: Operation, b: Builder) -> Outcome:
    """f(f(x)) -> x."""
    inner = defined_by(op._operands[0], op.name)
    return None if inner is None else inner._operands[0]


@pattern(*IDEMPOTENT)
def idempotent(op: Operation, b: Builder) -> Outcome:
    """f(f(x)) -> f(x)."""
    inner = defined_by(op._operands[0], op.name)
    return None if inner is None or inner.properties != op.properties else op._operands[0]


@pattern(*SELECTIVE)
def selective(op: Operation, b: Builder) -> Outcome:
    """f(x, x) -> x."""
    return op._operands[0] if op._operands[0] is op._operands[1] else None


@pattern("prim.add", "hl.add")
def add_nothing(op: Operation, b: Builder) -> Outcome:
    """x + 0 -> x for integers; x + -0.0 -> x for floats (x + 0.0 is 0.0 where x is -0.0)."""
    for this, other in (op._operands, reversed(op._operands)):
        number = uniform(other)
        if number == 0 and (is_integer(other) or match.is_negative_zero(number)):
            return this
    return None


@pattern("prim.add", "hl.add")
def add_negated(op: Operation, b: Builder) -> Outcome:
    """x + -y -> x - y, and -x + y -> y - x."""
    dialect = op.name.split(".")[0]
    for this, other in (op._operands, reversed(op._operands)):
        inner = defined_by(other, f"{dialect}.neg")
        if inner is not None:
            name = "prim.sub" if dialect == "prim" else "hl.subtract"
            return b.create(name, [this, inner._operands[0]], [op.results[0].type]).results[0]
    return None


@pattern("prim.sub", "hl.subtract")
def subtract_nothing(op: Operation, b: Builder) -> Outcome:
    """x - 0 -> x (also for +0.0)."""
    return op._operands[0] if match.is_positive_zero(uniform(op._operands[1])) else None


@pattern("prim.sub", "hl.subtract")
def subtract_negated(op: Operation, b: Builder) -> Outcome:
    """x - -y -> x + y."""
    dialect = op.name.split(".")[0]
    inner = defined_by(op._operands[1], f"{dialect}.neg")
    if inner is None:
        return None
    return b.create(f"{dialect}.add", [op._operands[0], inner._operands[0]], [op.results[0].type]).results[0]


@pattern("prim.mul", "hl.multiply")
def multiply_by_one(op: Operation, b: Builder) -> Outcome:
    """x * 1 -> x, and x * -1 -> -x (exact in IEEE arithmetic)."""
    for this, other in (op._operands, reversed(op._operands)):
        number = uniform(other)
        if number == 1 and element_of(other) is not I1:
            return this
        if number == -1 and this.type is op.results[0].type:
            return b.create(f"{op.name.split('.')[0]}.neg", [this], [this.type]).results[0]
    return None


@pattern("prim.mul", "prim.mul_zero", "hl.multiply")
def multiply_by_zero(op: Operation, b: Builder) -> Outcome:
    """x * 0 -> 0 for integers; for floats NaN, infinities and -0.0 forbid it, except in mul_zero, where it is the definition."""
    for other in op._operands:
        number = uniform(other)
        if number == 0 and (is_integer(other) or (op.name == "prim.mul_zero" and match.is_positive_zero(number))):
            return other
    return None


@pattern("prim.div", "hl.divide")
def divide_by_one(op: Operation, b: Builder) -> Outcome:
    """x / 1 -> x."""
    return op._operands[0] if uniform(op._operands[1]) == 1 else None


@pattern("prim.pow", "hl.power")
def power_one(op: Operation, b: Builder) -> Outcome:
    """x ** 1 -> x."""
    return op._operands[0] if uniform(op._operands[1]) == 1 else None


@pattern("prim.sub", "prim.xor", "hl.subtract", "hl.bitwise_xor", "hl.logical_xor")
def difference_with_itself(op: Operation, b: Builder) -> Outcome:
    """x - x -> 0 and x xor x -> 0 for integers (of a static shape)."""
    x, y = op._operands
    type = op.results[0].type
    if x is not y or not is_integer(x) or not getattr(type, "is_static", False):
        return None
    return splat(b, op, type, 0)


def splat(b: Builder, op: Operation, type: Type, number: int) -> Outcome:
    """A constant of the op's dialect with an integer everywhere."""
    from gradopt.ir.attributes import DenseElementsAttr

    element = type.element  # type: ignore[attr-defined]
    data = (number & ((1 << 8 * element.storage_bytes) - 1)).to_bytes(element.storage_bytes, "little")
    return b.create(f"{op.name.split('.')[0]}.constant", (), [type], value=DenseElementsAttr(type, data, True)).results[0]


@pattern("prim.and", "prim.or", "prim.xor", "prim.shl", "prim.shr", "hl.bitwise_and", "hl.bitwise_or", "hl.bitwise_xor",
         "hl.logical_and", "hl.logical_or", "hl.logical_xor", "hl.shift_left", "hl.shift_right")
def neutral_bits(op: Operation, b: Builder) -> Outcome:
    """x & ~0 -> x, x | 0 -> x, x ^ 0 -> x, x << 0 -> x; x & 0 -> 0, x | ~0 -> ~0."""
    kind = op.name.split(".")[1].split("_")[-1]
    x, y = op._operands
    pairs = ((x, y),) if kind in ("shl", "shr", "left", "right") else ((x, y), (y, x))
    for this, other in pairs:
        number = uniform(other)
        element = element_of(other)
        if number is None or not isinstance(element, IntegerType):
            continue
        full = number == element.wrap(-1)
        if (full and kind == "and") or (number == 0 and kind != "and"):
            return this
        if (number == 0 and kind == "and") or (full and kind == "or"):
            return other
    return None


@pattern("prim.select", "hl.where")
def select_known(op: Operation, b: Builder) -> Outcome:
    """A constant condition, or two equal branches."""
    cond, x, y = op._operands
    if x is y:
        return x
    known = uniform(cond)
    return None if known is None else (x if known else y)


@pattern("prim.select", "hl.where")
def select_negated(op: Operation, b: Builder) -> Outcome:
    """select(not c, x, y) -> select(c, y, x)."""
    cond, x, y = op._operands
    inner = defined_by(cond, "prim.not", "hl.logical_not", "hl.bitwise_not")
    if inner is None or element_of(inner._operands[0]) is not I1:
        return None
    return b.create(type(op), [inner._operands[0], y, x], [op.results[0].type]).results[0]


@pattern("prim.select", "hl.where")
def select_twice(op: Operation, b: Builder) -> Outcome:
    """select(c, select(c, x, _), y) -> select(c, x, y), and the same for the other branch."""
    cond, x, y = op._operands
    first, second = defined_by(x, op.name), defined_by(y, op.name)
    if first is not None and first._operands[0] is cond:
        x = first._operands[1]
    if second is not None and second._operands[0] is cond:
        y = second._operands[2]
    if x is op._operands[1] and y is op._operands[2]:
        return None
    return b.create(type(op), [cond, x, y], [op.results[0].type]).results[0]


@pattern("prim.cast", "prim.bitcast", "prim.shape_cast", "hl.cast", "hl.bitcast", "hl.shape_cast")
def cast_to_itself(op: Operation, b: Builder) -> Outcome:
    """A cast to the type that the operand has."""
    return op._operands[0] if op._operands[0].type is op.results[0].type else None


@pattern("prim.bitcast", "hl.bitcast", "prim.shape_cast", "hl.shape_cast")
def cast_again(op: Operation, b: Builder) -> Outcome:
    """bitcast(bitcast(x)) -> bitcast(x); the inner shape_cast of two goes only where the outer one fixes as many sizes."""
    inner = defined_by(op._operands[0], op.name)
    if inner is None:
        return None
    between, target = inner.results[0].type, op.results[0].type
    if op.name.endswith("shape_cast") and any(size is not None and size != other for size, other in zip(
            between.shape, target.shape)):  # type: ignore[attr-defined]
        return None
    return b.create(type(op), [inner._operands[0]], [target]).results[0]


@pattern("prim.cast", "hl.cast")
def cast_there_and_back(op: Operation, b: Builder) -> Outcome:
    """cast(cast(x)) -> cast(x) (or x) where the type between holds every value of x's type."""
    inner = defined_by(op._operands[0], op.name)
    if inner is None or not holds(element_of(inner.results[0]), element_of(inner._operands[0])):
        return None
    x = inner._operands[0]
    source, between, target = element_of(x), element_of(inner.results[0]), element_of(op.results[0])
    if isinstance(between, FloatType) and isinstance(source, IntegerType) and isinstance(target, IntegerType) \
            and not holds(target, source):
        return None  # from a float it saturates, from an integer it wraps
    return x if x.type is op.results[0].type else b.create(type(op), [x], [op.results[0].type]).results[0]


def holds(wide: Type, narrow: Type) -> bool:
    """True if every value of `narrow` is a value of `wide`, so that a cast to it and on loses nothing."""
    if wide is narrow:
        return True
    if isinstance(wide, FloatType) and isinstance(narrow, FloatType):
        return wide.exponent_bits >= narrow.exponent_bits and wide.mantissa_bits >= narrow.mantissa_bits
    if isinstance(wide, IntegerType) and isinstance(narrow, IntegerType) and wide is not I1:
        if wide.is_unsigned == narrow.is_unsigned:
            return wide.width >= narrow.width
        return narrow.is_unsigned and wide.width > narrow.width
    if isinstance(wide, FloatType) and isinstance(narrow, IntegerType):
        return narrow.width <= wide.mantissa_bits + 1
    return False


@pattern("prim.cmp")
def compare_with_itself(op: Operation, b: Builder) -> Outcome:
    """x == x, x <= x, x >= x are true and the others false for integers (a NaN is not equal to itself)."""
    lhs, rhs = op._operands
    if lhs is not rhs or not is_integer(lhs) or not getattr(op.results[0].type, "is_static", False):
        return None
    return splat(b, op, op.results[0].type, int(op.predicate in ("eq", "le", "ge")))  # type: ignore[attr-defined]


@pattern("prim.not")
def negated_equality(op: Operation, b: Builder) -> Outcome:
    """not (x == y) -> x != y and back; the orders are not turned round, because a NaN is neither."""
    inner = defined_by(op._operands[0], "prim.cmp")
    turned = {"eq": "ne", "ne": "eq"}.get(inner.predicate) if inner is not None else None  # type: ignore[attr-defined]
    if inner is None or turned is None:
        return None
    return b.create("prim.cmp", inner._operands, [op.results[0].type], predicate=turned).results[0]


@pattern("prim.check", "hl.check")
def check_holds(op: Operation, b: Builder) -> Outcome:
    """A check of a constant that is true."""
    return () if uniform(op._operands[0]) else None


@pattern("prim.select")
def sign_of_rectified(op: Operation, b: Builder) -> Outcome:
    """select(x <= 0, a, b) -> select(y <= 0, a, b) where y = select(x <= 0, 0, x) comes before: x <= 0 says what y <= 0 says (NaN and
    -0.0 too), and nothing need keep x for the adjoint."""
    test = op._operands[0]
    compare = rectifier_test(test)
    if compare is None or rectified(op) is not None:
        return None
    for user in compare._operands[0].users:
        if user.name == "prim.select" and user.parent is op.parent and user.is_before(op) and rectified(user) is compare._operands[0]:
            less = b.create("prim.cmp", [user.results[0], compare._operands[1]], [test.type], predicate="le").results[0]
            return b.create("prim.select", [less, *op._operands[1:]], [op.results[0].type]).results[0]
    return None


def rectifier_test(value: Value) -> Operation | None:
    """The comparison x <= 0 that gives the value."""
    compare = defined_by(value, "prim.cmp")
    if compare is None or compare.predicate != "le" or uniform(compare._operands[1]) != 0:  # type: ignore[attr-defined]
        return None
    return compare


def rectified(op: Operation) -> Value | None:
    """The x of y = select(x <= 0, 0, x)."""
    compare = rectifier_test(op._operands[0])
    x = op._operands[2]
    return x if compare is not None and compare._operands[0] is x and uniform(op._operands[1]) == 0 else None
