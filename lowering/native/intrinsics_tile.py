"""The register tile: sums of products kept in vector registers, which convolutions and attention are built on.

    tile_f32(rows_1, rows_2, vectors, lanes, accumulate, n_0, n_1, n_2, n_3,
             a, a_0, a_1, a_2, a_3, a_row_1, a_row_2, b, b_0, b_1, b_2, b_3, b_vector, c, c_row_1, c_row_2, c_vector)

For rows m = (m1, m2) and vectors v of `lanes` elements:

    c[m1 * c_row_1 + m2 * c_row_2 + v * c_vector + lane] = sum over i in n_0 x … x n_3 of
        a[i . (a_0 … a_3) + m1 * a_row_1 + m2 * a_row_2] * b[i . (b_0 … b_3) + v * b_vector + lane]

added to what c holds if `accumulate` is 1.  The first five arguments are written as integers; everything else is i64 or a
pointer to the element type.  The order of the sums is that of the loops, so bits depend on the arguments alone.  The product
of rows and vectors should not exceed what the processor's registers hold (registers.py says how many).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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
    describe,
    expect_count,
    fits,
)
from llvmlite import ir

LEVELS = 4
_SHAPE = ("rows_1", "rows_2", "vectors", "lanes", "accumulate")
_A = 5 + LEVELS  # position of `a` among the arguments
_B = _A + 1 + LEVELS + 2
_C = _B + 1 + LEVELS + 1
_COUNT = _C + 4
CONTRACT = ("contract",)


def _infer(element: str, arguments: Sequence[Type]) -> Signature:
    name = f"tile_{element}"
    expect_count(name, arguments, _COUNT)
    parameters: list[Type] = []
    for position, argument in enumerate(arguments):
        if position < len(_SHAPE):
            if not isinstance(argument, Literal):
                raise KernelError(f"{name}: {_SHAPE[position]} must be written as an integer, found {describe(argument)}")
            parameters.append(argument)
        elif position in (_A, _B, _C):
            if not isinstance(argument, Pointer) or argument.element != element:
                raise KernelError(f"{name}: argument {position} must be a pointer to {element}, found {describe(argument)}")
            parameters.append(argument)
        else:
            if not fits(argument, INT64):
                raise KernelError(f"{name}: argument {position} must be i64, found {describe(argument)}")
            parameters.append(argument)
    return Signature(tuple(parameters), None)


class _Tile:
    """The emission of one call."""

    def __init__(self, emission: Emission, signature: Signature, values: Sequence[ir.Value]) -> None:
        self.emission, self.builder, self.values = emission, emission.builder, values
        self.types = signature.parameters
        shape = [parameter.value for parameter in self.types[: len(_SHAPE)] if isinstance(parameter, Literal)]
        rows_1, rows_2, self.vectors, self.lanes, accumulate = shape
        self.rows = [(first, second) for first in range(rows_1) for second in range(rows_2)]
        self.accumulate = bool(accumulate)
        pointer = self.types[_A]
        assert isinstance(pointer, Pointer)
        self.scalar = pointer.llvm.pointee
        self.vector = ir.VectorType(self.scalar, self.lanes)
        self.align = 4 if pointer.element == "f32" else 8

    def emit(self) -> None:
        """The loops around the products."""
        builder = self.builder
        with builder.goto_entry_block():
            sums = [[builder.alloca(self.vector) for _ in range(self.vectors)] for _ in self.rows]
            self.counters = [builder.alloca(I64) for _ in range(LEVELS)]
        for row, slots in zip(self.rows, sums):
            for number, slot in enumerate(slots):
                builder.store(self._load(_C, self._place_c(row, number)) if self.accumulate else ir.Constant(self.vector, None), slot)
        self._nest(0, sums)
        for row, slots in zip(self.rows, sums):
            for number, slot in enumerate(slots):
                store = builder.store(builder.load(slot), self._address(_C, self._place_c(row, number), self.vector), align=self.align)
                self._access(store, _C)

    def _nest(self, level: int, sums: Sequence[Sequence[ir.Value]]) -> None:
        self.indices: list[ir.Value] = [ir.Constant(I64, 0)] * LEVELS
        loops = []
        for number in range(level, LEVELS):
            count = self.types[5 + number]
            if not (isinstance(count, Literal) and count.value == 1):
                loops.append(number)
        self._loops(loops, sums)

    def _loops(self, levels: Sequence[int], sums: Sequence[Sequence[ir.Value]]) -> None:
        """At most four loops around each other, so recursion stays flat."""
        if not levels:
            self._products(sums)
            return
        with self._loop(levels[0]) as index:
            self.indices[levels[0]] = index
            self._loops(levels[1:], sums)

    @contextmanager
    def _loop(self, level: int) -> Iterator[ir.Value]:
        builder, counter, count = self.builder, self.counters[level], self.values[5 + level]
        builder.store(ir.Constant(I64, 0), counter)
        header, body, end = (builder.append_basic_block(name) for name in ("tile_for", "tile_body", "tile_end"))
        builder.branch(header)
        builder.position_at_end(header)
        builder.cbranch(builder.icmp_signed("<", builder.load(counter), count), body, end)
        builder.position_at_end(body)
        yield builder.load(counter)
        builder.store(builder.add(builder.load(counter), ir.Constant(I64, 1), flags=("nsw",)), counter)
        builder.branch(header)
        builder.position_at_end(end)

    def _products(self, sums: Sequence[Sequence[ir.Value]]) -> None:
        """One step: every row's element of `a` with every vector of `b`."""
        builder = self.builder
        base_a, base_b = self._base(_A), self._base(_B)
        right = [self._load(_B, self._plus(base_b, _B + 1 + LEVELS, number)) for number in range(self.vectors)]
        for (first, second), slots in zip(self.rows, sums):
            place = self._plus(self._plus(base_a, _A + 1 + LEVELS, first), _A + 2 + LEVELS, second)
            left = builder.load(self._address(_A, place), align=self.align)
            self._access(left, _A)
            spread = self._spread(left)
            for slot, vector in zip(slots, right):
                product = builder.fmul(spread, vector, flags=CONTRACT)
                builder.store(builder.fadd(builder.load(slot), product, flags=CONTRACT), slot)

    def _spread(self, value: ir.Value) -> ir.Value:
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(I32, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, self.lanes), None))

    # --- places

    def _base(self, pointer: int) -> ir.Value:
        place: ir.Value = ir.Constant(I64, 0)
        for level, index in enumerate(self.indices):
            if not isinstance(index, ir.Constant):
                place = self.builder.add(place, self.builder.mul(index, self.values[pointer + 1 + level]))
        return place

    def _plus(self, place: ir.Value, stride: int, times: int) -> ir.Value:
        if times == 0:
            return place
        return self.builder.add(place, self.builder.mul(self.values[stride], ir.Constant(I64, times)))

    def _place_c(self, row: tuple[int, int], number: int) -> ir.Value:
        place: ir.Value = ir.Constant(I64, 0)
        for stride, times in zip((_C + 1, _C + 2, _C + 3), (*row, number)):
            place = self._plus(place, stride, times)
        return place

    def _address(self, pointer: int, place: ir.Value, type_: ir.Type | None = None) -> ir.Value:
        address = self.builder.gep(self.values[pointer], [place], inbounds=True)
        return address if type_ is None else self.builder.bitcast(address, type_.as_pointer())

    def _load(self, pointer: int, place: ir.Value) -> ir.Value:
        return self._access(self.builder.load(self._address(pointer, place, self.vector), align=self.align), pointer)

    def _access(self, instruction: ir.Instruction, pointer: int) -> ir.Instruction:
        type_ = self.types[pointer]
        assert isinstance(type_, Pointer)
        return self.emission.access(instruction, type_)


def _tile(element: str) -> Intrinsic:
    return Intrinsic(
        f"tile_{element}",
        lambda arguments: _infer(element, arguments),
        lambda emission, signature, values: _Tile(emission, signature, values).emit(),
        "a register tile of sums of products (see intrinsics_tile.py)",
    )


TILE: tuple[Intrinsic, ...] = (_tile("f32"), _tile("f64"))
