"""The language of kernels: what the generated source may say, and the table of its intrinsics.

A kernel is one function of Python text, `def kernel(lo, hi, context): ...`, made of

    statements    name = expression · `for name in range(lo, hi[, step]):` (step a positive integer) · while ·
    if/elif/else ·
                  break · continue · return · pass
    expressions   names, integer literals (i64 unless the place asks for another integer type), float literals (f64),
    INFINITY and
                  NAN (f64), `+ - *` and comparisons on two values of the same type (i64, f32 or f64), `/` on f32 or
                  f64, `and or not` on booleans, unary minus, and calls of intrinsics
    names         keep one type in the whole kernel

Values are i1, i8 … i64, ui8 … ui64, f32, f64 and typed pointers.  There is no implicit conversion: `f32(0.5)`,
`i32(n)`, `f64(x)` convert (float to integer: nearest in range, NaN to 0; to i1: x != 0).  Operators are strict IEEE;
the intrinsics add, subtract, multiply and divide may be contracted (a * b + c in one rounding).  An index is an i64
count of elements.

Memory
    pointer_<element>(context, slot)            operand `slot` (written as a number) as a pointer; element: i1 i8…i64
    ui8…ui64 f16 bf16 f32 f64 pointer_<element>(context, slot, same_as)   the same, where its memory may overlap that
    of slot `same_as` (in place) scratch_<element>(context, byte_offset, region)   the thread's scratch; `region` (a
    number) names a part that no other region overlaps load(p, i)  store(p, i, v)  store_nontemporal(p, i, v)
    offset(p, n)  prefetch(p, i)  atomic_add(p, i, v) f16 and bf16 load as f32 and store from f32 (rounded to nearest
    even, NaN kept); i1 is a byte and loads as a boolean Accesses through different slots (or regions) are known to
    the vectoriser to be apart.
Context
    parameter(context, i)  chunk(context)  scratch_size(context)
    report(context, check, value, position)     writes the status record and gives 1; value is i64 or f64: `return
    report(…)`
Arithmetic, on equal types
    add subtract multiply negate absolute (integers wrap)  divide (floats)  multiply_add fused_multiply_add
    floor_divide modulo truncate_divide remainder (never trap: by zero 0)  index_divide index_modulo (non-negative by
    positive) shift_left shift_right shift_right_logical  bit_and bit_or bit_xor bit_not (booleans too)  maximum
    minimum (NaN is kept) eq ne lt le gt ge is_nan -> i1   select(condition, a, b)   bitcast_<type>(v)
    integer_power  bits_of_f16 bits_of_bf16 (f32 -> i16)  f16_of_bits bf16_of_bits (i16 -> f32)
Reductions: `acc = accumulate_add(acc, v)`; also accumulate_multiply, accumulate_maximum, accumulate_minimum.
    The loop that holds one is vectorised with several accumulators.  Its order is fixed by the code, so bits do not
    depend on threads.
Mathematics: every name of gradopt.lowering.native.math.EMITTERS (exp, log, tanh, …), on f32 and f64.
Library (row-major; transposes and triangles 0 or 1; single-threaded)
    sgemm dgemm (context, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)   a, b, c pointers, alpha
    and beta of the type sgemv dgemv (context, trans, m, n, alpha, a, lda, x, incx, beta, y, incy) ssyrk dsyrk
    (context, lower, trans, n, k, alpha, a, lda, beta, c, ldc) strsm dtrsm (context, right, lower, trans, unit, m, n,
    alpha, a, lda, b, ldb) LAPACK, column-major, giving info (i32): spotrf dpotrf (context, lower, n, a, lda)  sgetrf
    dgetrf (context, m, n, a, lda, pivots_i32) sgetrs dgetrs (context, trans, n, nrhs, a, lda, pivots, b, ldb)  sgetri
    dgetri (context, n, a, lda, pivots, work, lwork)
    sproduct4 … sproduct16 dproduct4 … dproduct16 (context, trans_a, trans_b, m, n, k, a, lda, b, ldb, c, ldc, scratch)
    our own product by tiles of so many rows (see product.py)
Loops: keep_loops()     no loop of this kernel is unrolled, so that short ones are vectorised
Register tiles: tile_f32 tile_f64 (see intrinsics_tile.py); transpose, move, increase and clear _f32 _f64 (see
    intrinsics_transpose.py)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradopt.lowering.native.codegen import KEEP_LOOPS
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.intrinsics_arithmetic import ARITHMETIC
from gradopt.lowering.native.intrinsics_library import LIBRARY
from gradopt.lowering.native.intrinsics_memory import MEMORY
from gradopt.lowering.native.intrinsics_tile import TILE
from gradopt.lowering.native.intrinsics_transpose import TRANSPOSE
from gradopt.lowering.native.values import Emission, Intrinsic, Scalar, Signature, Type, common_scalar, expect_count
from llvmlite import ir

CONSTANTS: dict[str, float] = {"INFINITY": math.inf, "NAN": math.nan}
"""Names that stand for f64 numbers which Python cannot write."""


def _mathematics(name: str, function: Any) -> Intrinsic:
    """An intrinsic for one of the functions of the `math` package."""

    def infer(arguments: Sequence[Type]) -> Signature:
        expect_count(name, arguments, function.arity)
        scalar = common_scalar(name, arguments)
        if not scalar.is_float:
            raise KernelError(f"{name}: expected f32 or f64, found {scalar.name}")
        return Signature((scalar,) * function.arity, scalar)

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
        scalar = signature.parameters[0]
        assert isinstance(scalar, Scalar)
        result: ir.Value = function.emit(emission.builder, list(values), scalar.name, emission.features)
        return result

    return Intrinsic(name, infer, emit, (function.description or name).split("\n")[0])


def _keep_loops() -> Intrinsic:
    def infer(arguments: Sequence[Type]) -> Signature:
        expect_count("keep_loops", arguments, 0)
        return Signature((), None)

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
        emission.builder.module.add_named_metadata(KEEP_LOOPS)

    return Intrinsic("keep_loops", infer, emit, "no loop of this kernel is unrolled")


@functools.cache
def table() -> Mapping[str, Intrinsic]:
    """Every intrinsic by name.  The package's own win over functions of the same name in the `math` package."""
    from gradopt.lowering.native.math import EMITTERS

    intrinsics = {name: _mathematics(name, function) for name, function in EMITTERS.items()}
    intrinsics.update((intrinsic.name, intrinsic) for intrinsic in (*ARITHMETIC, *MEMORY, *LIBRARY, *TILE, *TRANSPOSE, _keep_loops()))
    return intrinsics


def documentation() -> str:
    """One line an intrinsic."""
    return "\n".join(f"{name:24s} {intrinsic.summary}" for name, intrinsic in sorted(table().items()))
