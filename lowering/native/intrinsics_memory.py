"""Intrinsics that touch the context and memory."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.lowering.native import context as words
from gradopt.lowering.native.elements import ELEMENTS
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.half import bits_of, from_bits
from gradopt.lowering.native.values import (
    CONTEXT,
    FLOAT64,
    I8,
    I32,
    I64,
    INT32,
    INT64,
    Emission,
    Intrinsic,
    Literal,
    Pointer,
    Signature,
    Type,
    describe,
    expect_count,
    intrinsic_call,
    memory_type,
)
from llvmlite import ir


def _context_word(emission: Emission, context: ir.Value, word: int) -> ir.Value:
    builder = emission.builder
    load = builder.load(builder.gep(context, [ir.Constant(I64, word)], inbounds=True))
    load.set_metadata("invariant.load", builder.module.add_metadata([]))
    return load


def _table_entry(emission: Emission, context: ir.Value, table: int, index: ir.Value) -> ir.Value:
    builder = emission.builder
    address = builder.inttoptr(_context_word(emission, context, table), I64.as_pointer())
    load = builder.load(builder.gep(address, [index], inbounds=True))
    load.set_metadata("invariant.load", builder.module.add_metadata([]))
    return load


def _literal(name: str, what: str, argument: Type) -> int:
    if not isinstance(argument, Literal):
        raise KernelError(f"{name}: {what} must be written as an integer, found {describe(argument)}")
    return argument.value


def _operand_pointer(element: str) -> Intrinsic:
    name = f"pointer_{element}"

    def infer(arguments: Sequence[Type]) -> Signature:
        if len(arguments) not in (2, 3):
            raise KernelError(f"{name} takes a context, a slot and optionally same_as, found {len(arguments)} arguments")
        group = _literal(name, "the slot whose memory this one shares" if len(arguments) == 3 else "the slot", arguments[-1])
        _literal(name, "the slot", arguments[1])
        return Signature((CONTEXT, INT64, INT64)[: len(arguments)], Pointer(element, f"operand{group}"))

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
        address = _table_entry(emission, values[0], words.OPERANDS, values[1])
        return emission.builder.inttoptr(address, memory_type(element).as_pointer())

    return Intrinsic(name, infer, emit, f"pointer to the {element} elements of operand `slot`")


def _scratch_pointer(element: str) -> Intrinsic:
    name = f"scratch_{element}"

    def infer(arguments: Sequence[Type]) -> Signature:
        expect_count(name, arguments, 3)
        region = _literal(name, "the region", arguments[2])
        return Signature((CONTEXT, INT64, INT64), Pointer(element, f"scratch{region}"))

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
        builder = emission.builder
        address = builder.add(_context_word(emission, values[0], words.SCRATCH), values[1])
        return builder.inttoptr(address, memory_type(element).as_pointer())

    return Intrinsic(name, infer, emit, f"pointer to {element} elements at a byte offset of the scratch memory")


def _word_reader(name: str, word: int, summary: str) -> Intrinsic:
    def infer(arguments: Sequence[Type]) -> Signature:
        expect_count(name, arguments, 1)
        return Signature((CONTEXT,), INT64)

    return Intrinsic(name, infer, lambda emission, signature, values: _context_word(emission, values[0], word), summary)


def _infer_parameter(arguments: Sequence[Type]) -> Signature:
    expect_count("parameter", arguments, 2)
    return Signature((CONTEXT, INT64), INT64)


def _emit_parameter(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
    return _table_entry(emission, values[0], words.PARAMETERS, values[1])


def _pointer(name: str, argument: Type) -> Pointer:
    if not isinstance(argument, Pointer):
        raise KernelError(f"{name}: expected a pointer, found {describe(argument)}")
    return argument


def _infer_load(arguments: Sequence[Type]) -> Signature:
    expect_count("load", arguments, 2)
    pointer = _pointer("load", arguments[0])
    return Signature((pointer, INT64), pointer.value)


def _emit_load(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
    builder, pointer = emission.builder, signature.parameters[0]
    assert isinstance(pointer, Pointer)
    value = emission.access(builder.load(builder.gep(values[0], [values[1]], inbounds=True)), pointer)
    if pointer.element == "i1":
        return builder.icmp_unsigned("!=", value, ir.Constant(I8, 0))
    return from_bits[pointer.element](builder, value) if pointer.element in from_bits else value


def _to_memory(builder: ir.IRBuilder, element: str, value: ir.Value) -> ir.Value:
    if element == "i1":
        return builder.zext(value, I8)
    return bits_of[element](builder, value) if element in bits_of else value


def _store(name: str, nontemporal: bool) -> Intrinsic:
    def infer(arguments: Sequence[Type]) -> Signature:
        expect_count(name, arguments, 3)
        pointer = _pointer(name, arguments[0])
        return Signature((pointer, INT64, pointer.value), None)

    def emit(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
        builder, pointer = emission.builder, signature.parameters[0]
        assert isinstance(pointer, Pointer)
        value = _to_memory(builder, pointer.element, values[2])
        store = builder.store(value, builder.gep(values[0], [values[1]], inbounds=True))
        emission.access(store, pointer)
        if nontemporal:
            store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))

    return Intrinsic(name, infer, emit, "store a value at an element index" + (", past the cache" if nontemporal else ""))


def _infer_offset(arguments: Sequence[Type]) -> Signature:
    expect_count("offset", arguments, 2)
    pointer = _pointer("offset", arguments[0])
    return Signature((pointer, INT64), pointer)


def _emit_offset(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
    return emission.builder.gep(values[0], [values[1]], inbounds=True)


def _infer_prefetch(arguments: Sequence[Type]) -> Signature:
    expect_count("prefetch", arguments, 2)
    return Signature((_pointer("prefetch", arguments[0]), INT64), None)


def _emit_prefetch(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
    builder = emission.builder
    address = builder.bitcast(builder.gep(values[0], [values[1]]), I8.as_pointer())
    read, locality, data = (ir.Constant(I32, number) for number in (0, 3, 1))
    intrinsic_call(emission, "llvm.prefetch", [address, read, locality, data], ir.VoidType(), [address.type])


def _infer_atomic_add(arguments: Sequence[Type]) -> Signature:
    expect_count("atomic_add", arguments, 3)
    pointer = _pointer("atomic_add", arguments[0])
    if pointer.element not in ("i32", "i64", "ui32", "ui64"):
        raise KernelError(
            "atomic_add: only 32 and 64-bit integers (the order of a sum of floats would change its bits), "
            f"found {pointer.element}"
        )
    return Signature((pointer, INT64, pointer.value), pointer.value)


def _emit_atomic_add(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
    builder = emission.builder
    return builder.atomic_rmw("add", builder.gep(values[0], [values[1]]), values[2], "monotonic")


def _infer_report(arguments: Sequence[Type]) -> Signature:
    expect_count("report", arguments, 4)
    value = FLOAT64 if arguments[2] == FLOAT64 else INT64
    return Signature((CONTEXT, INT64, value, INT64), INT32)


def _emit_report(emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> ir.Value:
    """Write the record unless this chunk has one already; without a branch, since a failure is rare and late."""
    builder = emission.builder
    is_float = signature.parameters[2] == FLOAT64
    record = builder.inttoptr(_context_word(emission, values[0], words.STATUS), I64.as_pointer())

    def word(index: int) -> ir.Value:
        return builder.gep(record, [ir.Constant(I64, index)], inbounds=True)

    first = builder.icmp_signed("==", builder.load(word(words.STATUS_SET)), ir.Constant(I64, 0))
    value = builder.bitcast(values[2], I64) if is_float else values[2]
    fields = (
        (words.STATUS_CHECK, values[1]),
        (words.STATUS_VALUE, value),
        (words.STATUS_POSITION, values[3]),
        (words.STATUS_IS_FLOAT, ir.Constant(I64, int(is_float))),
    )
    for index, new in fields:
        builder.store(builder.select(first, new, builder.load(word(index))), word(index))
    builder.store(ir.Constant(I64, 1), word(words.STATUS_SET))
    return ir.Constant(I32, 1)


MEMORY: tuple[Intrinsic, ...] = (
    *(_operand_pointer(element) for element in ELEMENTS),
    *(_scratch_pointer(element) for element in ELEMENTS),
    Intrinsic("parameter", _infer_parameter, _emit_parameter, "parameter i of this instruction"),
    _word_reader("chunk", words.CHUNK, "the number of this chunk"),
    _word_reader("scratch_size", words.SCRATCH_SIZE, "bytes of scratch memory"),
    Intrinsic("load", _infer_load, _emit_load, "the element at an index (f16 and bf16 as f32, i1 as a boolean)"),
    _store("store", False),
    _store("store_nontemporal", True),
    Intrinsic("offset", _infer_offset, _emit_offset, "the pointer moved by a number of elements"),
    Intrinsic("prefetch", _infer_prefetch, _emit_prefetch, "bring the element's cache line near"),
    Intrinsic("atomic_add", _infer_atomic_add, _emit_atomic_add, "add to an integer element, give the old value"),
    Intrinsic("report", _infer_report, _emit_report, "record (check, value, position) of a failure; gives the status 1"),
)
