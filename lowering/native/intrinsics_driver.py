"""Intrinsics of the driver and the pool alone: raw memory by address, atomics, calls by address.  Kernels cannot use
them.

Addresses are i64.  All atomics are sequentially consistent: they are few, and the argument in pool_source.py leans on
one order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gradopt.lowering.native.intrinsics_arithmetic import ARITHMETIC
from gradopt.lowering.native.values import (
    BOOLEAN,
    I8,
    I32,
    I64,
    INT64,
    Emission,
    Intrinsic,
    Literal,
    Scalar,
    Signature,
    Type,
    expect_count,
    intrinsic_call,
)
from llvmlite import ir

ORDER = "seq_cst"
Emit = Callable[[ir.IRBuilder, Sequence[ir.Value]], "ir.Value | None"]


def _fixed(name: str, count: int, emit: Emit, result: Scalar | None = INT64) -> Intrinsic:
    """An intrinsic on `count` i64 values."""

    def infer(arguments: Sequence[Type]) -> Signature:
        expect_count(name, arguments, count)
        return Signature((INT64,) * count, result)

    return Intrinsic(name, infer, lambda emission, signature, values: emit(emission.builder, values))


def _at(builder: ir.IRBuilder, address: ir.Value, type_: ir.Type, index: ir.Value | None = None) -> ir.Value:
    pointer = builder.inttoptr(address, type_.as_pointer())
    return pointer if index is None else builder.gep(pointer, [index])


def _integer_at(bits: int, signed: bool) -> Emit:
    """The integer of that width at an address plus an offset in bytes."""

    def emit(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> ir.Value:
        value = builder.load(_at(builder, builder.add(values[0], values[1]), ir.IntType(bits)), align=1)
        if bits == 64:
            return value
        return builder.sext(value, I64) if signed else builder.zext(value, I64)

    return emit


def _set_word(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> None:
    builder.store(values[2], _at(builder, values[0], I64, values[1]))


def _compare_exchange(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> ir.Value:
    result = builder.cmpxchg(_at(builder, values[0], I64), values[1], values[2], ORDER, ORDER)
    return builder.extract_value(result, 1)


def _atomic_store(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> None:
    builder.store_atomic(values[1], _at(builder, values[0], I64), ORDER, 8)


def _call(name: str, returns_int: bool) -> Intrinsic:
    """A C function by address, its arguments passed as int64; of an `int` result only the low 32 bits count."""

    def infer(arguments: Sequence[Type]) -> Signature:
        return Signature((INT64,) * len(arguments), INT64)

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
        builder = emission.builder
        type_ = ir.FunctionType(I32 if returns_int else I64, [I64] * (len(values) - 1))
        result = builder.call(_at(builder, values[0], type_), list(values[1:]))
        return builder.sext(result, I64) if returns_int else result

    return Intrinsic(name, infer, emit)


def _call_kernel(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> ir.Value:
    type_ = ir.FunctionType(I32, [I64, I64, I64.as_pointer()])
    context = builder.inttoptr(values[3], I64.as_pointer())
    return builder.sext(builder.call(_at(builder, values[0], type_), [values[1], values[2], context]), I64)


def _pause(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
    """Tell the processor that this is a spin loop (nothing on processors whose hint is not known here)."""
    triple = emission.builder.module.triple
    if triple.startswith(("x86_64", "i686", "amd64")):
        intrinsic_call(emission, "llvm.x86.sse2.pause", [], ir.VoidType(), [])
    elif triple.startswith(("aarch64", "arm64")):
        intrinsic_call(emission, "llvm.aarch64.hint", [ir.Constant(I32, 1)], ir.VoidType(), [])  # yield


def _stack_words(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
    """The address of that many int64 words on the stack (a literal number)."""
    builder = emission.builder
    with builder.goto_entry_block():
        return builder.ptrtoint(builder.alloca(I64, size=values[0]), I64)


def _infer_stack_words(arguments: Sequence[Type]) -> Signature:
    expect_count("stack_words", arguments, 1)
    assert isinstance(arguments[0], Literal)
    return Signature((INT64,), INT64)


def _copy_bytes(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
    builder = emission.builder
    arguments = [_at(builder, values[0], I8), _at(builder, values[1], I8), values[2], ir.Constant(ir.IntType(1), 0)]
    intrinsic_call(emission, "llvm.memcpy", arguments, ir.VoidType(), [arguments[0].type, arguments[1].type, I64])


def _fill_bytes(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
    builder = emission.builder
    arguments = [_at(builder, values[0], I8), builder.trunc(values[1], I8), values[2], ir.Constant(ir.IntType(1), 0)]
    intrinsic_call(emission, "llvm.memset", arguments, ir.VoidType(), [arguments[0].type, I64])


def _bit_length(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
    zeros = intrinsic_call(emission, "llvm.ctlz", [values[0], ir.Constant(ir.IntType(1), 0)], I64, [I64])
    return emission.builder.sub(ir.Constant(I64, 64), zeros)


def _three(arguments: Sequence[Type]) -> Signature:
    expect_count("memory", arguments, 3)
    return Signature((INT64,) * 3, None)


DRIVER: Mapping[str, Intrinsic] = {
    intrinsic.name: intrinsic
    for intrinsic in (
        *ARITHMETIC,
        _fixed("word", 2, lambda b, v: b.load(_at(b, v[0], I64, v[1]))),
        _fixed("set_word", 3, _set_word, None),
        *(_fixed(f"i{bits}_at", 2, _integer_at(bits, True)) for bits in (8, 16, 32, 64)),
        *(_fixed(f"ui{bits}_at", 2, _integer_at(bits, False)) for bits in (8, 16, 32)),
        _fixed("atomic_load", 1, lambda b, v: b.load_atomic(_at(b, v[0], I64), ORDER, 8)),
        _fixed("atomic_store", 2, _atomic_store, None),
        _fixed("atomic_add", 2, lambda b, v: b.atomic_rmw("add", _at(b, v[0], I64), v[1], ORDER)),
        _fixed("atomic_exchange", 2, lambda b, v: b.atomic_rmw("xchg", _at(b, v[0], I64), v[1], ORDER)),
        _fixed("compare_exchange", 3, _compare_exchange, BOOLEAN),
        _call("call", False),
        _call("call_int", True),
        _fixed("call_kernel", 4, _call_kernel),
        Intrinsic("pause", lambda arguments: Signature((), None), _pause),
        Intrinsic("stack_words", _infer_stack_words, _stack_words),
        Intrinsic("copy_bytes", _three, _copy_bytes),
        Intrinsic("fill_bytes", _three, _fill_bytes),
        Intrinsic("bit_length", lambda arguments: Signature((INT64,), INT64), _bit_length),
    )
}
