"""16-bit floats, which kernels hold as f32: their bits (i16) and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradopt.lowering.native.values import F32, I16, I32, SCALARS, Emission, Intrinsic, Scalar, Signature, Type, expect_count
from llvmlite import ir

__all__ = ["INTRINSICS", "bits_of", "from_bits"]

Convert = Callable[[ir.IRBuilder, ir.Value], ir.Value]


def _half_bits(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    return builder.bitcast(builder.fptrunc(value, ir.HalfType()), I16)


def _half_from_bits(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    return builder.fpext(builder.bitcast(bits, ir.HalfType()), F32)


def _bfloat16_bits(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Rounded to the nearest, halves to even; a NaN stays a (quiet) NaN."""
    bits = builder.bitcast(value, I32)
    odd = builder.and_(builder.lshr(bits, ir.Constant(I32, 16)), ir.Constant(I32, 1))
    rounded = builder.lshr(builder.add(bits, builder.add(odd, ir.Constant(I32, 0x7FFF))), ir.Constant(I32, 16))
    quiet = builder.or_(builder.lshr(bits, ir.Constant(I32, 16)), ir.Constant(I32, 0x40))
    return builder.trunc(builder.select(builder.fcmp_unordered("uno", value, value), quiet, rounded), I16)


def _bfloat16_from_bits(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    return builder.bitcast(builder.shl(builder.zext(bits, I32), ir.Constant(I32, 16)), F32)


bits_of: dict[str, Convert] = {"f16": _half_bits, "bf16": _bfloat16_bits}  # f32 -> i16
from_bits: dict[str, Convert] = {"f16": _half_from_bits, "bf16": _bfloat16_from_bits}  # i16 -> f32


def _intrinsic(name: str, source: Scalar, target: Scalar, convert: Convert, summary: str) -> Intrinsic:
    def infer(arguments: Sequence[Type]) -> Signature:
        expect_count(name, arguments, 1)
        return Signature((source,), target)

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
        return convert(emission.builder, values[0])

    return Intrinsic(name, infer, emit, summary)


INTRINSICS: tuple[Intrinsic, ...] = (
    *(_intrinsic(f"bits_of_{name}", SCALARS["f32"], SCALARS["i16"], convert, f"the bits of an f32 rounded to {name}")
      for name, convert in bits_of.items()),
    *(_intrinsic(f"{name}_of_bits", SCALARS["i16"], SCALARS["f32"], convert, f"the f32 with the bits of a {name}")
      for name, convert in from_bits.items()),
)
