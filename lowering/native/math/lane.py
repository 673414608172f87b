"""A scalar value of the program being compiled, written with Python's operators.

A math function of this package is one straight-line Python function over `Lane`: each operation emits one LLVM
instruction, there is no branch and no call, and so LLVM's loop vectoriser turns the loop that inlines it into
vector code of any width.

Floating-point flags. Error-compensated arithmetic is destroyed by `reassoc` (``(a + b) - a`` becomes ``b``) and
changed by `contract`, so no instruction emitted here may have them: where a multiplication and an addition should be
one rounding, the source says `fma`. numba's fast-math option adds its flags afterwards to every instruction that has
none; so each one carries a flag that means nothing for its kind (`INERT_FLAG`, `INERT_DIVIDE_FLAG`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

# `afn` speaks of calls to math functions and of nothing in an addition, subtraction or multiplication.
INERT_FLAG = ("afn",)
# `contract` speaks of fusing a multiplication with an addition and of nothing in a division or comparison.
INERT_DIVIDE_FLAG = ("contract",)


@dataclass(frozen=True)
class Format:
    """An IEEE 754 binary format and the LLVM types that hold it."""

    name: str
    bits: int
    fraction_bits: int
    exponent_bias: int
    type: ir.Type
    integer: ir.IntType

    @property
    def precision(self) -> int:
        """Bits of the significand, the hidden one included."""
        return self.fraction_bits + 1


F32 = Format("f32", 32, 23, 127, ir.FloatType(), ir.IntType(32))
F64 = Format("f64", 64, 52, 1023, ir.DoubleType(), ir.IntType(64))
FORMATS = {"f32": F32, "f64": F64}
BOOLEAN = ir.IntType(1)


@dataclass(frozen=True)
class Target:
    """What the processor can do in one instruction; LLVM would call libm for what it cannot."""

    has_fma: bool
    has_rounding: bool
    has_avx: bool

    @staticmethod
    def from_features(features: str) -> Target:
        """Read an LLVM feature string such as ``"+sse4.1,+avx2,+fma,-avx512f"``. AArch64 always has both."""
        present = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
        arm = bool(present & {"neon", "fp-armv8"})
        return Target(
            has_fma=arm or "fma" in present, has_rounding=arm or "sse4.1" in present, has_avx="avx" in present
        )


class _FixedFlags(ir.instructions.FastMathFlags):  # type: ignore[misc]
    """The flags of a call that nobody may add to (numba's fast-math pass adds to every call's)."""

    def add(self, name: str) -> None:
        """Ignore `name`."""


class Lane:
    """One scalar: a float of `format` (`is_integer` false), the same-sized integer, or a truth value (`is_boolean`).

    Python numbers mix with lanes and take the lane's type. Integer operations wrap; `>>` shifts in zeros.
    """

    __slots__ = ("builder", "format", "target", "value")

    def __init__(self, builder: ir.IRBuilder, value: ir.Value, format: Format, target: Target) -> None:
        self.builder = builder
        self.value = value
        self.format = format
        self.target = target

    # Types.

    @property
    def is_integer(self) -> bool:
        """Whether this is an integer as wide as the format."""
        return bool(self.value.type == self.format.integer)

    def like(self, value: ir.Value) -> Lane:
        """A lane of the same builder, format and target around `value`."""
        return Lane(self.builder, value, self.format, self.target)

    def constant(self, number: float | int) -> Lane:
        """`number` as a float of this lane's format, rounded to nearest."""
        return self.like(ir.Constant(self.format.type, float(number)))

    def integer(self, number: int) -> Lane:
        """`number` modulo 2**bits as an integer as wide as this lane's format."""
        bits = self.format.bits
        wrapped = number % (1 << bits)
        return self.like(ir.Constant(self.format.integer, wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped))

    def _coerce(self, other: Lane | float | int) -> Lane:
        if isinstance(other, Lane):
            return other
        return self.integer(int(other)) if self.is_integer else self.constant(other)

    # Arithmetic.

    def _binary(self, other: Lane | float | int, float_op: str, integer_op: str, swap: bool = False) -> Lane:
        left, right = self, self._coerce(other)
        if swap:
            left, right = right, left
        if self.is_integer:
            return self.like(getattr(self.builder, integer_op)(left.value, right.value))
        flags = INERT_DIVIDE_FLAG if float_op == "fdiv" else INERT_FLAG
        return self.like(getattr(self.builder, float_op)(left.value, right.value, flags=flags))

    def __add__(self, other: Lane | float | int) -> Lane:
        return self._binary(other, "fadd", "add")

    def __radd__(self, other: float | int) -> Lane:
        return self._binary(other, "fadd", "add", swap=True)

    def __sub__(self, other: Lane | float | int) -> Lane:
        return self._binary(other, "fsub", "sub")

    def __rsub__(self, other: float | int) -> Lane:
        return self._binary(other, "fsub", "sub", swap=True)

    def __mul__(self, other: Lane | float | int) -> Lane:
        return self._binary(other, "fmul", "mul")

    def __rmul__(self, other: float | int) -> Lane:
        return self._binary(other, "fmul", "mul", swap=True)

    def __truediv__(self, other: Lane | float | int) -> Lane:
        return self._binary(other, "fdiv", "sdiv")

    def __rtruediv__(self, other: float | int) -> Lane:
        return self._binary(other, "fdiv", "sdiv", swap=True)

    def __neg__(self) -> Lane:
        return 0 - self if self.is_integer else self.like(self.builder.fneg(self.value))

    def __abs__(self) -> Lane:
        return self.call_intrinsic("llvm.fabs")

    # Bits and truth values.

    def _bitwise(self, other: Lane | int, operation: str) -> Lane:
        right = other if isinstance(other, Lane) else self.integer(other)
        return self.like(getattr(self.builder, operation)(self.value, right.value))

    def __and__(self, other: Lane | int) -> Lane:
        return self._bitwise(other, "and_")

    def __or__(self, other: Lane | int) -> Lane:
        return self._bitwise(other, "or_")

    def __xor__(self, other: Lane | int) -> Lane:
        return self._bitwise(other, "xor")

    def __lshift__(self, other: Lane | int) -> Lane:
        return self._bitwise(other, "shl")

    def __rshift__(self, other: Lane | int) -> Lane:
        return self._bitwise(other, "lshr")

    def __invert__(self) -> Lane:
        return self.like(self.builder.not_(self.value))

    def bits(self) -> Lane:
        """The float's bits as an integer."""
        return self.like(self.builder.bitcast(self.value, self.format.integer))

    def as_float(self) -> Lane:
        """The integer's bits as a float."""
        return self.like(self.builder.bitcast(self.value, self.format.type))

    # Comparisons: false if an operand is NaN, except `not_equal` and `is_nan`.

    def _compare(self, relation: str, other: Lane | float | int) -> Lane:
        right = self._coerce(other)
        if self.is_integer:
            return self.like(self.builder.icmp_signed(relation, self.value, right.value))
        method = self.builder.fcmp_unordered if relation == "!=" else self.builder.fcmp_ordered
        return self.like(method(relation, self.value, right.value, flags=INERT_DIVIDE_FLAG))

    def __lt__(self, other: Lane | float | int) -> Lane:
        return self._compare("<", other)

    def __le__(self, other: Lane | float | int) -> Lane:
        return self._compare("<=", other)

    def __gt__(self, other: Lane | float | int) -> Lane:
        return self._compare(">", other)

    def __ge__(self, other: Lane | float | int) -> Lane:
        return self._compare(">=", other)

    def equal(self, other: Lane | float | int) -> Lane:
        """Whether the two are equal."""
        return self._compare("==", other)

    def not_equal(self, other: Lane | float | int) -> Lane:
        """Whether the two differ or one is NaN."""
        return self._compare("!=", other)

    def is_nan(self) -> Lane:
        """Whether this is NaN."""
        return self.like(self.builder.fcmp_unordered("uno", self.value, self.value, flags=INERT_DIVIDE_FLAG))

    # Conversions and intrinsics.

    def convert(self, format: Format) -> Lane:
        """The float in another format, rounded to nearest."""
        if format is self.format:
            return self
        operation = self.builder.fpext if format.bits > self.format.bits else self.builder.fptrunc
        return Lane(self.builder, operation(self.value, format.type), format, self.target)

    def call_intrinsic(self, name: str, *others: Lane) -> Lane:
        """An LLVM intrinsic that is overloaded on the float type and takes only such operands."""
        operands = [self.value, *(other.value for other in others)]
        function = self.builder.module.declare_intrinsic(
            name, [self.format.type], ir.FunctionType(self.format.type, [self.format.type] * len(operands))
        )
        call = self.builder.call(function, operands)
        call.fastmath = _FixedFlags()
        return self.like(call)


def select(condition: Lane, chosen: Lane | float | int, otherwise: Lane | float | int) -> Lane:
    """`chosen` where `condition` holds, else `otherwise`; at least one of the two is a lane."""
    if isinstance(chosen, Lane):
        other = chosen._coerce(otherwise)
        return chosen.like(chosen.builder.select(condition.value, chosen.value, other.value))
    assert isinstance(otherwise, Lane)
    chosen_lane = otherwise._coerce(chosen)
    return otherwise.like(otherwise.builder.select(condition.value, chosen_lane.value, otherwise.value))


def fma(a: Lane, b: Lane | float, c: Lane | float) -> Lane:
    """a*b + c, rounded once where the processor has the instruction and twice elsewhere."""
    if not a.target.has_fma:
        return a * b + c
    return a.call_intrinsic("llvm.fma", a._coerce(b), a._coerce(c))


def sqrt(a: Lane) -> Lane:
    """The correctly rounded square root."""
    return a.call_intrinsic("llvm.sqrt")


def copysign(magnitude: Lane, sign: Lane) -> Lane:
    """`magnitude` with the sign bit of `sign`."""
    return magnitude.call_intrinsic("llvm.copysign", sign)


def minimum(bound: Lane | float, a: Lane) -> Lane:
    """The smaller of the two; a NaN in `a` passes through. This form is one instruction on x86."""
    return select(a._coerce(bound) < a, bound, a)


def maximum(bound: Lane | float, a: Lane) -> Lane:
    """The larger of the two; a NaN in `a` passes through. This form is one instruction on x86."""
    return select(a._coerce(bound) > a, bound, a)


def polynomial(x: Lane, coefficients: Sequence[Lane | float]) -> Lane:
    """The polynomial with `coefficients`, constant term first, by Horner's rule."""
    result = x._coerce(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = fma(result, x, coefficient)
    return result


def pick(x: Lane, f32: Sequence[float], f64: Sequence[float]) -> Sequence[float]:
    """The one of two coefficient tables that is meant for the format of `x`."""
    return f32 if x.format is F32 else f64


LaneFunction = Callable[..., Lane]
