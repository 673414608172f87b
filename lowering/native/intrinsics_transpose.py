"""Small blocks through vector registers: `transpose_f32(rows, columns, a, a_row, c, c_row)`, `move_f32(…)`, `increase_f32(…)` and
`clear_f32(rows, columns, c, c_row)`.

    transpose    c[j * c_row + i] = a[i * a_row + j]
    move         c[i * c_row + j] = a[i * a_row + j]
    increase     c[i * c_row + j] += a[i * a_row + j]
    clear        c[i * c_row + j] = 0

for i < rows, j < columns; both are written as integers, at most 16 and at least 1.  All is read before anything is written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.values import (
    I32,
    I64,
    INT64,
    Emission,
    Intrinsic,
    Literal,
    Pointer,
    Signature,
    Type,
    declare,
    describe,
    expect_count,
    fits,
    overload_name,
)
from llvmlite import ir

MOST = 16
Emit = Callable[[Emission, Signature, Sequence[ir.Value]], None]


def _infer(name: str, element: str, arguments: Sequence[Type]) -> Signature:
    expect_count(name, arguments, 4 if name.startswith("clear") else 6)
    for position, argument in enumerate(arguments):
        if position < 2:
            if not isinstance(argument, Literal) or not 1 <= argument.value <= MOST:
                raise KernelError(f"{name}: argument {position} must be an integer from 1 to {MOST}, found {describe(argument)}")
        elif position in (2, 4):
            if not isinstance(argument, Pointer) or argument.element != element:
                raise KernelError(f"{name}: argument {position} must be a pointer to {element}, found {describe(argument)}")
        elif not fits(argument, INT64):
            raise KernelError(f"{name}: argument {position} must be i64, found {describe(argument)}")
    return Signature(tuple(arguments), None)


def _emit_move(emission: Emission, signature: Signature, values: Sequence[ir.Value], adds: bool = False) -> None:
    rows, columns = (parameter.value for parameter in signature.parameters[:2] if isinstance(parameter, Literal))
    source, target = signature.parameters[2], signature.parameters[4]
    assert isinstance(source, Pointer) and isinstance(target, Pointer)
    vector = ir.VectorType(source.llvm.pointee, 1 << (columns - 1).bit_length())
    lines = [_load(emission, source, values[2], values[3], row, columns, vector) for row in range(rows)]
    if adds:
        kept = [_load(emission, target, values[4], values[5], row, columns, vector) for row in range(rows)]
        lines = [emission.builder.fadd(before, line) for before, line in zip(kept, lines)]
    for row, line in enumerate(lines):
        _store(emission, target, values[4], values[5], row, columns, line)


def _emit_clear(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
    rows, columns = (parameter.value for parameter in signature.parameters[:2] if isinstance(parameter, Literal))
    target = signature.parameters[2]
    assert isinstance(target, Pointer)
    zeros = ir.Constant(ir.VectorType(target.llvm.pointee, 1 << (columns - 1).bit_length()), None)
    for row in range(rows):
        _store(emission, target, values[2], values[3], row, columns, zeros)


def _emit_transpose(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
    rows, columns = (parameter.value for parameter in signature.parameters[:2] if isinstance(parameter, Literal))
    size = 1 << (max(rows, columns) - 1).bit_length()
    source, target = signature.parameters[2], signature.parameters[4]
    assert isinstance(source, Pointer) and isinstance(target, Pointer)
    vector = ir.VectorType(source.llvm.pointee, size)
    undefined = ir.Constant(vector, ir.Undefined)
    lines = [
        _load(emission, source, values[2], values[3], row, columns, vector) if row < rows else undefined for row in range(size)
    ]
    for column, line in enumerate(_transposed(emission.builder, lines, size)[:columns]):
        _store(emission, target, values[4], values[5], column, rows, line)


def _transposed(builder: ir.IRBuilder, lines: list[ir.Value], size: int) -> list[ir.Value]:
    """log2(size) rounds; in each, lines that are `step` apart exchange blocks of `step` elements."""
    step = size // 2
    while step:
        low = [i if not i & step else size + i - step for i in range(size)]
        high = [i + step if not i & step else size + i for i in range(size)]
        made = list(lines)
        for first in range(size):
            if not first & step:
                pair = lines[first], lines[first + step]
                made[first], made[first + step] = (builder.shuffle_vector(*pair, _mask(mask)) for mask in (low, high))
        lines, step = made, step // 2
    return lines


def _mask(indices: Sequence[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(indices)), [ir.Constant(I32, index) for index in indices])


def _first(size: int, count: int) -> ir.Constant:
    """The mask of the first `count` of `size` elements."""
    bit = ir.IntType(1)
    return ir.Constant(ir.VectorType(bit, size), [ir.Constant(bit, int(index < count)) for index in range(size)])


def _place(emission: Emission, pointer: ir.Value, stride: ir.Value, times: int, vector: ir.Type) -> ir.Value:
    builder = emission.builder
    address = builder.gep(pointer, [builder.mul(stride, ir.Constant(I64, times))], inbounds=True)
    return builder.bitcast(address, vector.as_pointer())


def _align(pointer: Pointer) -> int:
    return 4 if pointer.element == "f32" else 8


def _load(emission: Emission, source: Pointer, pointer: ir.Value, stride: ir.Value, row: int, count: int,
          vector: ir.VectorType) -> ir.Value:
    address = _place(emission, pointer, stride, row, vector)
    if count == vector.count:
        return emission.access(emission.builder.load(address, align=_align(source)), source)
    name = f"llvm.masked.load.v{vector.count}{overload_name(vector.element)}.p0"
    mask = _first(vector.count, count)
    function = declare(emission.builder.module, name, ir.FunctionType(vector, [address.type, I32, mask.type, vector]))
    arguments = [address, ir.Constant(I32, _align(source)), mask, ir.Constant(vector, ir.Undefined)]
    return emission.access(emission.builder.call(function, arguments), source)


def _store(emission: Emission, target: Pointer, pointer: ir.Value, stride: ir.Value, column: int, count: int, line: ir.Value) -> None:
    vector = line.type
    address = _place(emission, pointer, stride, column, vector)
    if count == vector.count:
        emission.access(emission.builder.store(line, address, align=_align(target)), target)
        return
    name = f"llvm.masked.store.v{vector.count}{overload_name(vector.element)}.p0"
    mask = _first(vector.count, count)
    type_ = ir.FunctionType(ir.VoidType(), [vector, address.type, I32, mask.type])
    function = declare(emission.builder.module, name, type_)
    emission.access(emission.builder.call(function, [line, address, ir.Constant(I32, _align(target)), mask]), target)


def _intrinsic(name: str, element: str, emit: Emit, doc: str) -> Intrinsic:
    name = f"{name}_{element}"
    return Intrinsic(name, lambda arguments: _infer(name, element, arguments), emit, doc)


TRANSPOSE: tuple[Intrinsic, ...] = tuple(
    _intrinsic(name, element, emit, f"a small block {what} through registers (see intrinsics_transpose.py)")
    for element in ("f32", "f64")
    for name, emit, what in (
        ("transpose", _emit_transpose, "transposed"),
        ("move", _emit_move, "moved"),
        ("increase", functools.partial(_emit_move, adds=True), "added"),
        ("clear", _emit_clear, "cleared"),
    )
)
