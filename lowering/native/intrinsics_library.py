"""Intrinsics that call BLAS, LAPACK and our own products through the context's table of routines.

Matrices of the BLAS calls are row-major (the C interface); LAPACK's are column-major (the Fortran interface).
Transposes and triangles are numbers in the source: 0 or 1.  The routines run on the calling thread alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.lowering.native import context as words
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.intrinsics_memory import _table_entry
from gradopt.lowering.native.values import (
    CONTEXT,
    FLOAT32,
    FLOAT64,
    I8,
    I32,
    I64,
    INT32,
    INT64,
    Emission,
    Intrinsic,
    Pointer,
    Signature,
    Type,
    describe,
    expect_count,
    fits,
)
from llvmlite import ir

ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, UPPER, LOWER, NON_UNIT, UNIT, LEFT, RIGHT = (
    101,
    111,
    112,
    121,
    122,
    131,
    132,
    141,
    142,
)

# One letter a parameter: i integer, f float of the routine's type, p pointer to the routine's type, q pointer to i32,
# and flags t (transpose), u (lower), d (unit diagonal), s (right side), each an integer that is 0 or 1.
BLAS_PARAMETERS = {
    "gemm": "ttiiifpipifpi",  # trans_a trans_b m n k alpha a lda b ldb beta c ldc
    "gemv": "tiifpipifpi",  # trans m n alpha a lda x incx beta y incy
    "syrk": "utiifpifpi",  # lower trans n k alpha a lda beta c ldc
    "trsm": "sutdiifpipi",  # right lower trans unit m n alpha a lda b ldb
}
_FLAGS = {"t": (NO_TRANSPOSE, TRANSPOSE), "u": (UPPER, LOWER), "d": (NON_UNIT, UNIT), "s": (LEFT, RIGHT)}
LAPACK_PARAMETERS = {
    "potrf": "uipi",  # lower n a lda -> info
    "getrf": "iipiq",  # m n a lda pivots -> info
    "getrs": "tiipiqpi",  # trans n nrhs a lda pivots b ldb -> info
    "getri": "ipiqpi",  # n a lda pivots work lwork -> info
}
_CHARACTERS = {"t": (ord("N"), ord("T")), "u": (ord("U"), ord("L"))}


def _signature(name: str, letters: str, arguments: Sequence[Type], result: Type | None) -> Signature:
    expect_count(name, arguments, len(letters) + 1)
    element, scalar = ("f32", FLOAT32) if name.startswith("s") else ("f64", FLOAT64)
    parameters: list[Type] = [CONTEXT]
    for position, (letter, argument) in enumerate(zip(letters, arguments[1:], strict=True)):
        wanted: Type = scalar if letter == "f" else INT64
        if letter in "pq":
            pointed = element if letter == "p" else "i32"
            if not isinstance(argument, Pointer) or argument.element != pointed:
                raise KernelError(f"{name}: argument {position + 1} must be a pointer to {pointed}, found {describe(argument)}")
            wanted = argument
        elif not fits(argument, wanted):
            raise KernelError(f"{name}: argument {position + 1} must be {describe(wanted)}, found {describe(argument)}")
        parameters.append(wanted)
    return Signature(tuple(parameters), result)


def _routine(emission: Emission, context: ir.Value, name: str, type_: ir.FunctionType) -> ir.Value:
    number = ir.Constant(I64, words.ROUTINE_NAMES.index(name))
    return emission.builder.inttoptr(_table_entry(emission, context, words.ROUTINES, number), type_.as_pointer())


def _choose(builder: ir.IRBuilder, flag: ir.Value, choices: tuple[int, int], type_: ir.IntType) -> ir.Value:
    is_set = builder.icmp_unsigned("!=", flag, ir.Constant(I64, 0))
    return builder.select(is_set, ir.Constant(type_, choices[1]), ir.Constant(type_, choices[0]))


def _blas(name: str) -> Intrinsic:
    letters = BLAS_PARAMETERS[name[1:]]

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
        builder = emission.builder
        arguments: list[ir.Value] = [ir.Constant(I32, ROW_MAJOR)]
        for letter, value in zip(letters, values[1:], strict=True):
            if letter in _FLAGS:
                value = _choose(builder, value, _FLAGS[letter], I32)
            arguments.append(builder.trunc(value, I32) if letter == "i" else value)
        type_ = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
        builder.call(_routine(emission, values[0], name, type_), arguments)

    summary = "BLAS, row-major; transposes and triangles as 0 or 1"
    return Intrinsic(name, lambda arguments: _signature(name, letters, arguments, None), emit, summary)


def _lapack(name: str) -> Intrinsic:
    letters = LAPACK_PARAMETERS[name[1:]]

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
        """Fortran takes every argument by address; the slots live in the entry block so that loops do not grow the
        stack.
        """
        builder = emission.builder
        with builder.goto_entry_block():
            slots = [None if letter in "pq" else builder.alloca(I8 if letter in _CHARACTERS else I32) for letter in letters]
            info = builder.alloca(I32)
        arguments: list[ir.Value] = []
        for letter, value, slot in zip(letters, values[1:], slots, strict=True):
            if slot is None:
                arguments.append(value)
                continue
            is_character = letter in _CHARACTERS
            builder.store(_choose(builder, value, _CHARACTERS[letter], I8) if is_character else builder.trunc(value, I32), slot)
            arguments.append(slot)
        builder.store(ir.Constant(I32, 0), info)
        arguments.append(info)
        lengths = [ir.Constant(I64, 1) for letter in letters if letter in _CHARACTERS]
        type_ = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments + lengths])
        builder.call(_routine(emission, values[0], name, type_), arguments + lengths)
        return builder.load(info)

    return Intrinsic(
        name, lambda arguments: _signature(name, letters, arguments, INT32), emit, "LAPACK, column-major; gives info"
    )


PRODUCT_PARAMETERS = "iiiiipipipip"  # trans_a trans_b m n k a lda b ldb c ldc scratch


def _product(name: str) -> Intrinsic:
    """The routine is a kernel: it gets a context with operands a, b, c, the integers as parameters, and the scratch."""

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
        builder = emission.builder
        pointers = [value for letter, value in zip(PRODUCT_PARAMETERS, values[1:], strict=True) if letter == "p"]
        integers = [value for letter, value in zip(PRODUCT_PARAMETERS, values[1:], strict=True) if letter == "i"]
        *operands, scratch = [builder.ptrtoint(pointer, I64) for pointer in pointers]
        with builder.goto_entry_block():
            tables = [builder.alloca(I64, count) for count in (words.CONTEXT_WORDS, len(operands), len(integers))]
        context, operand_table, parameter_table = tables
        content = {
            words.OPERANDS: builder.ptrtoint(operand_table, I64),
            words.PARAMETERS: builder.ptrtoint(parameter_table, I64),
            words.SCRATCH: scratch,
        }
        filled = ((context, content), (operand_table, dict(enumerate(operands))), (parameter_table, dict(enumerate(integers))))
        for table, entries in filled:
            for word, value in entries.items():
                builder.store(value, builder.gep(table, [ir.Constant(I64, word)], inbounds=True))
        type_ = ir.FunctionType(I32, [I64, I64, I64.as_pointer()])
        builder.call(_routine(emission, values[0], name, type_), [ir.Constant(I64, 0), ir.Constant(I64, 1), context])

    summary = "a matrix product by register tiles, row-major (product.py)"
    return Intrinsic(name, lambda arguments: _signature(name, PRODUCT_PARAMETERS, arguments, None), emit, summary)


LIBRARY: tuple[Intrinsic, ...] = (
    *(_product(name) for name in words.PRODUCT_NAMES),
    *(_blas(name) for name in words.BLAS_NAMES),
    *(_lapack(name) for name in words.LAPACK_NAMES),
)
