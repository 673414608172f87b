"""Intrinsics on scalars: arithmetic that wraps and never traps, comparisons, conversions, steps of reductions.

Floating-point flags are given instruction by instruction: `contract` on add, subtract, multiply and divide, `reassoc`
only on the steps of reductions, never the rest of fast-math (which would lose NaN).  The operators of Python (`a +
b`) carry no flag at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.half import INTRINSICS as HALF
from gradopt.lowering.native.values import (
    BOOLEAN,
    SCALARS,
    Emission,
    Intrinsic,
    Literal,
    Scalar,
    Signature,
    Type,
    common_scalar,
    constant,
    describe,
    expect_count,
    intrinsic_call,
)
from llvmlite import ir

CONTRACT = ("contract",)
REDUCTION = ("reassoc", "contract")
FIRST_LLVM_WITH_MAXIMUM = 17
"""llvm.maximum and llvm.minimum are lowered on x86, and known as reductions to the vectoriser, from this version of
LLVM on.
"""

Operation = Callable[[Emission, Scalar, Sequence[ir.Value]], ir.Value]


def _llvm_version() -> int:
    import llvmlite.binding as llvm

    return int(llvm.llvm_version_info[0])


def _same_type(name: str, count: int, kinds: str, operation: Operation, summary: str, result: Scalar | None = None) -> Intrinsic:
    """An intrinsic whose `count` arguments share one scalar type of the given kinds."""

    def infer(arguments: Sequence[Type]) -> Signature:
        expect_count(name, arguments, count)
        scalar = common_scalar(name, arguments)
        if scalar.kind not in kinds:
            raise KernelError(f"{name}: not defined on {scalar.name}")
        return Signature((scalar,) * count, result or scalar)

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
        scalar = signature.parameters[0]
        assert isinstance(scalar, Scalar)
        return operation(emission, scalar, values)

    return Intrinsic(name, infer, emit, summary)


def _binary(float_name: str, integer_name: str, flags: Sequence[str] = CONTRACT) -> Operation:
    def operation(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
        builder = emission.builder
        if scalar.is_float:
            return getattr(builder, float_name)(values[0], values[1], flags=flags)
        return getattr(builder, integer_name)(values[0], values[1])

    return operation


def _negate(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
    return emission.builder.fneg(values[0]) if scalar.is_float else emission.builder.neg(values[0])


def _absolute(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
    builder, value = emission.builder, values[0]
    if scalar.is_float:
        return intrinsic_call(emission, "llvm.fabs", values, value.type, [value.type])
    if not scalar.is_signed:
        return value
    return builder.select(builder.icmp_signed("<", value, constant(scalar, 0)), builder.neg(value), value)


def _safe_division(builder: ir.IRBuilder, scalar: Scalar, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Quotient (towards zero) and remainder; by zero both are 0, and the lowest number // -1 is itself."""
    zero, one = constant(scalar, 0), constant(scalar, 1)
    by_zero = builder.icmp_unsigned("==", b, zero)
    if not scalar.is_signed:
        divisor = builder.select(by_zero, one, b)
        quotient, remainder = builder.udiv(a, divisor), builder.urem(a, divisor)
        return builder.select(by_zero, zero, quotient), builder.select(by_zero, zero, remainder)
    by_minus_one = builder.icmp_unsigned("==", b, constant(scalar, -1))
    divisor = builder.select(builder.or_(by_zero, by_minus_one), one, b)
    quotient, remainder = builder.sdiv(a, divisor), builder.srem(a, divisor)
    quotient = builder.select(by_minus_one, builder.neg(a), builder.select(by_zero, zero, quotient))
    return quotient, remainder  # a remainder by 1 is 0, which is right by 0 and by -1 too


def _floor_division(builder: ir.IRBuilder, scalar: Scalar, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    quotient, remainder = _safe_division(builder, scalar, a, b)
    if not scalar.is_signed:
        return quotient, remainder
    zero = constant(scalar, 0)
    signs_differ = builder.icmp_signed("<", builder.xor(remainder, b), zero)
    down = builder.and_(builder.icmp_unsigned("!=", remainder, zero), signs_differ)
    quotient = builder.select(down, builder.sub(quotient, constant(scalar, 1)), quotient)
    return quotient, builder.select(down, builder.add(remainder, b), remainder)


def _division(floor: bool, which: int) -> Operation:
    def operation(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
        divide = _floor_division if floor else _safe_division
        return divide(emission.builder, scalar, values[0], values[1])[which]

    return operation


def _index_division(name: str) -> Operation:
    return lambda emission, scalar, values: getattr(emission.builder, name)(values[0], values[1])


def _shift(name: str) -> Operation:
    def operation(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
        """A count outside 0 … width-1 gives 0, or the sign in an arithmetic shift to the right."""
        builder, (value, count) = emission.builder, values
        arithmetic = name == "shift_right" and scalar.is_signed
        inside = builder.icmp_unsigned("<", count, constant(scalar, scalar.bits))
        if arithmetic:
            return builder.ashr(value, builder.select(inside, count, constant(scalar, scalar.bits - 1)))
        masked = builder.and_(count, constant(scalar, scalar.bits - 1))
        shifted = builder.shl(value, masked) if name == "shift_left" else builder.lshr(value, masked)
        return builder.select(inside, shifted, constant(scalar, 0))

    return operation


def _extremum(name: str, reduction: bool) -> Operation:
    """The larger or smaller value; a NaN in either operand comes out.  Either zero may come out of +0 and -0."""
    sign = ">" if name == "maximum" else "<"

    def operation(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
        builder, (a, b) = emission.builder, values
        if not scalar.is_float:
            compare = builder.icmp_signed if scalar.is_signed else builder.icmp_unsigned
            return builder.select(compare(sign, a, b), a, b)
        if reduction and _llvm_version() >= FIRST_LLVM_WITH_MAXIMUM:
            return intrinsic_call(emission, f"llvm.{name}", values, a.type, [a.type], ("nsz",))
        larger = builder.select(builder.fcmp_ordered(sign, a, b), a, b)  # b where either is NaN
        return builder.select(builder.fcmp_unordered("uno", a, a), a, larger)

    return operation


def _multiply_add(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
    builder, (a, b, c) = emission.builder, values
    return builder.fadd(builder.fmul(a, b, flags=CONTRACT), c, flags=CONTRACT)


def _fused_multiply_add(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
    return intrinsic_call(emission, "llvm.fma", values, scalar.llvm, [scalar.llvm])


def _comparison(sign: str) -> Operation:
    def operation(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
        builder, (a, b) = emission.builder, values
        if scalar.is_float:
            return builder.fcmp_unordered(sign, a, b) if sign == "!=" else builder.fcmp_ordered(sign, a, b)
        return builder.icmp_signed(sign, a, b) if scalar.is_signed else builder.icmp_unsigned(sign, a, b)

    return operation


def _is_nan(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
    return emission.builder.fcmp_unordered("uno", values[0], values[0])


def _not(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
    return emission.builder.not_(values[0])


def _infer_select(arguments: Sequence[Type]) -> Signature:
    expect_count("select", arguments, 3)
    if arguments[0] != BOOLEAN:
        raise KernelError(f"select: the condition must be i1, found {describe(arguments[0])}")
    scalar = common_scalar("select", arguments[1:])
    return Signature((BOOLEAN, scalar, scalar), scalar)


def _emit_select(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
    return emission.builder.select(values[0], values[1], values[2])


def convert(emission: Emission, source: Scalar, target: Scalar, value: ir.Value) -> ir.Value:
    """NumPy's astype, but a float outside an integer's range gives the nearest integer and NaN gives 0."""
    builder = emission.builder
    if source == target:
        return value
    if target == BOOLEAN:
        zero = constant(source, 0)
        return builder.fcmp_unordered("!=", value, zero) if source.is_float else builder.icmp_unsigned("!=", value, zero)
    if source.is_float and target.is_float:
        return builder.fpext(value, target.llvm) if target.bits > source.bits else builder.fptrunc(value, target.llvm)
    if source.is_float:
        name = "llvm.fptosi.sat" if target.is_signed else "llvm.fptoui.sat"
        return intrinsic_call(emission, name, [value], target.llvm, [target.llvm, source.llvm])
    if target.is_float:
        return builder.sitofp(value, target.llvm) if source.is_signed else builder.uitofp(value, target.llvm)
    if target.bits == source.bits:
        return value
    if target.bits < source.bits:
        return builder.trunc(value, target.llvm)
    return builder.sext(value, target.llvm) if source.is_signed else builder.zext(value, target.llvm)


def _conversion(target: Scalar) -> Intrinsic:
    def infer(arguments: Sequence[Type]) -> Signature:
        expect_count(target.name, arguments, 1)
        source = arguments[0]
        if isinstance(source, Literal):
            source = target if target.kind in "iu" else SCALARS["i64"]
        if not isinstance(source, Scalar):
            raise KernelError(f"{target.name}: expected a scalar, found {describe(source)}")
        return Signature((source,), target)

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
        source = signature.parameters[0]
        assert isinstance(source, Scalar)
        return convert(emission, source, target, values[0])

    return Intrinsic(target.name, infer, emit, f"convert to {target.name}")


def _integer_power(emission: Emission, scalar: Scalar, values: Sequence[ir.Value]) -> ir.Value:
    """By squaring, wrapped. A negative exponent gives trunc(a ** b): a number other than 0 only for a = 1 and -1."""
    builder = emission.builder
    base, exponent = values
    zero, one = constant(scalar, 0), constant(scalar, 1)
    outcome, square = one, base
    for bit in range(scalar.bits):
        is_set = builder.icmp_unsigned("!=", builder.and_(builder.lshr(exponent, constant(scalar, bit)), one), zero)
        outcome = builder.select(is_set, builder.mul(outcome, square), outcome)
        square = builder.mul(square, square)
    if not scalar.is_signed:
        return outcome
    odd = builder.icmp_unsigned("!=", builder.and_(exponent, one), zero)
    minus = builder.icmp_unsigned("==", base, constant(scalar, -1))
    small = builder.select(builder.and_(minus, odd), base, one)  # 1 or -1 to a negative power
    unit = builder.or_(minus, builder.icmp_unsigned("==", base, one))
    return builder.select(builder.icmp_signed("<", exponent, zero), builder.select(unit, small, zero), outcome)


def _bitcast(target: Scalar) -> Intrinsic:
    name = f"bitcast_{target.name}"

    def infer(arguments: Sequence[Type]) -> Signature:
        expect_count(name, arguments, 1)
        source = target if isinstance(arguments[0], Literal) and not target.is_float else arguments[0]
        if not isinstance(source, Scalar) or source.bits != target.bits or source == BOOLEAN:
            raise KernelError(f"{name}: expected a scalar of {target.bits} bits, found {describe(arguments[0])}")
        return Signature((source,), target)

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
        return emission.builder.bitcast(values[0], target.llvm)

    return Intrinsic(name, infer, emit, f"the same bits as {target.name}")


_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

ARITHMETIC: tuple[Intrinsic, ...] = (
    _same_type("add", 2, "fiu", _binary("fadd", "add"), "a + b; integers wrap"),
    _same_type("subtract", 2, "fiu", _binary("fsub", "sub"), "a - b; integers wrap"),
    _same_type("multiply", 2, "fiu", _binary("fmul", "mul"), "a * b; integers wrap"),
    _same_type("divide", 2, "f", _binary("fdiv", ""), "a / b of floats"),
    _same_type("negate", 1, "fiu", _negate, "-a; integers wrap"),
    _same_type("absolute", 1, "fiu", _absolute, "|a|; the lowest integer stays itself"),
    _same_type("multiply_add", 3, "f", _multiply_add, "a * b + c, in one rounding where that is fast"),
    _same_type("fused_multiply_add", 3, "f", _fused_multiply_add, "a * b + c, always in one rounding"),
    _same_type("floor_divide", 2, "iu", _division(True, 0), "towards minus infinity; by zero 0; lowest // -1 is the lowest"),
    _same_type("modulo", 2, "iu", _division(True, 1), "remainder with the divisor's sign; by zero 0"),
    _same_type("truncate_divide", 2, "iu", _division(False, 0), "towards zero; by zero 0"),
    _same_type("remainder", 2, "iu", _division(False, 1), "remainder with the dividend's sign; by zero 0"),
    _same_type("index_divide", 2, "iu", _index_division("udiv"), "a // b for a >= 0 and b > 0 only: the fast form"),
    _same_type("index_modulo", 2, "iu", _index_division("urem"), "a % b for a >= 0 and b > 0 only: the fast form"),
    _same_type("shift_left", 2, "iu", _shift("shift_left"), "a count outside 0 … width-1 gives 0"),
    _same_type("shift_right", 2, "iu", _shift("shift_right"), "of signed integers arithmetic, else logical"),
    _same_type("shift_right_logical", 2, "iu", _shift("shift_right_logical"), "zeros come in"),
    _same_type("bit_and", 2, "iub", _binary("", "and_"), "a & b, of booleans too"),
    _same_type("bit_or", 2, "iub", _binary("", "or_"), "a | b, of booleans too"),
    _same_type("bit_xor", 2, "iub", _binary("", "xor"), "a ^ b, of booleans too"),
    _same_type("bit_not", 1, "iub", _not, "~a, of booleans the negation"),
    _same_type("maximum", 2, "fiu", _extremum("maximum", False), "the larger; NaN is kept"),
    _same_type("minimum", 2, "fiu", _extremum("minimum", False), "the smaller; NaN is kept"),
    _same_type("accumulate_add", 2, "fiu", _binary("fadd", "add", REDUCTION), "acc + a, free to use several accumulators"),
    _same_type("accumulate_multiply", 2, "fiu", _binary("fmul", "mul", REDUCTION), "acc * a, likewise"),
    _same_type("accumulate_maximum", 2, "fiu", _extremum("maximum", True), "max(acc, a) with NaN kept, likewise"),
    _same_type("accumulate_minimum", 2, "fiu", _extremum("minimum", True), "min(acc, a) with NaN kept, likewise"),
    *(
        _same_type(name, 2, "fiub", _comparison(sign), f"a {sign} b (with a NaN only ne is true)", BOOLEAN)
        for name, sign in _COMPARISONS.items()
    ),
    _same_type("is_nan", 1, "f", _is_nan, "whether a is NaN", BOOLEAN),
    Intrinsic("select", _infer_select, _emit_select, "a where the condition holds, else b; both are computed"),
    *(_conversion(scalar) for scalar in SCALARS.values()),
    *(_bitcast(scalar) for scalar in SCALARS.values() if scalar != BOOLEAN),
    _same_type("integer_power", 2, "iu", _integer_power, "a ** b, wrapped; a negative b truncates towards 0"),
    *HALF,
)
