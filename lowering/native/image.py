"""A program with loaded kernels as the one array of int64 words that the driver runs (layout.py)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from gradopt.lowering.native import layout
from gradopt.lowering.native.elements import ELEMENTS, numpy_dtype
from gradopt.lowering.native.errors import ProgramError
from gradopt.lowering.native.flatten import Flattener, size_operation
from gradopt.lowering.native.program import (
    Argument,
    Computed,
    Constant,
    Dimension,
    Program,
    Result,
    SizeLike,
    SizeRef,
    Static,
    Temporary,
    Variable,
)


@dataclass
class Image:
    """The words, what they point to, and what Python wants to know about them."""

    words: numpy.ndarray[Any, numpy.dtype[numpy.int64]]
    keep: list[Any]
    origin: list[int]
    """For each instruction of the driver, the instruction of the program it came from."""

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)

    def set(self, index: int, value: int) -> None:
        self.words[index] = value


def aligned_bytes(data: bytes) -> tuple[Any, int]:
    """A copy of some bytes at an address that is a multiple of 64, with what owns it."""
    memory = ctypes.create_string_buffer(len(data) + 64)
    address = (ctypes.addressof(memory) + 63) & -64
    ctypes.memmove(address, data, len(data))
    return memory, address


class _Sections:
    """Appends sections of words to the image; addresses are known once the array is."""

    def __init__(self) -> None:
        self.words: list[int] = [0] * layout.IMAGE_HEADER
        self.addresses: list[tuple[int, int]] = []

    def add(self, header: int, words: Sequence[int]) -> None:
        self.addresses.append((header, len(self.words)))
        self.words.extend(words)

    def finish(self) -> numpy.ndarray[Any, numpy.dtype[numpy.int64]]:
        image = numpy.array(self.words, numpy.int64)
        for header, position in self.addresses:
            image[header] = image.ctypes.data + layout.WORD * position
        return image


def build(program: Program, addresses: list[int], process: int) -> Image:
    """The image of a program whose kernels lie at `addresses`.  Raises ProgramError for a program that is not well
    formed.
    """
    flat = Flattener(program, addresses)
    flat.flatten()
    keep: list[Any] = []
    sections = _Sections()
    header = sections.words
    dimensions: list[int] = []
    arguments = _arguments(program, flat, dimensions, keep)
    deferred = any(kind == layout.DIMENSION_ENTRY for kind in dimensions[:: layout.DIMENSION_WORDS])
    results = _results(program, flat, dimensions, keep)
    temporaries = _temporaries(program, flat)
    header[layout.IMAGE_ARENA], header[layout.IMAGE_SCRATCH] = (
        flat.size(program.arena_bytes),
        flat.size(program.scratch_bytes),
    )
    sections.add(layout.IMAGE_INSTRUCTIONS, [word for row in flat.words for word in row])
    sections.add(layout.IMAGE_LISTS, flat.lists)
    sections.add(layout.IMAGE_SIZES, [_initial(entry) for entry in flat.sizes])
    computed = _computed(program)
    sections.add(layout.IMAGE_COMPUTED, computed)
    sections.add(layout.IMAGE_POINTERS, _pointers(program, keep))
    sections.add(layout.IMAGE_TEMPORARIES, temporaries)
    sections.add(layout.IMAGE_ARGUMENTS, arguments)
    sections.add(layout.IMAGE_RESULTS, results)
    sections.add(layout.IMAGE_DIMENSIONS, dimensions)
    counts = {
        layout.IMAGE_PROCESS: process,
        layout.IMAGE_COUNT: len(flat.words),
        layout.IMAGE_SIZE_COUNT: len(flat.sizes),
        layout.IMAGE_COMPUTED_COUNT: len(computed) // layout.COMPUTED_WORDS,
        layout.IMAGE_BUFFER_COUNT: len(program.buffers),
        layout.IMAGE_TEMPORARY_COUNT: len(temporaries) // layout.TEMPORARY_WORDS,
        layout.IMAGE_ARGUMENT_COUNT: len(program.arguments),
        layout.IMAGE_RESULT_COUNT: len(program.results),
        layout.IMAGE_DEFERRED: int(deferred),
        layout.IMAGE_USES_POOL: int(uses_pool(program)),
        layout.IMAGE_RELEASE_GIL: int(program.release_gil),
        layout.IMAGE_SINGLE: int(program.single),
    }
    for index, value in counts.items():
        header[index] = value
    _lay_out_frame(header, flat, program)
    return Image(sections.finish(), keep, flat.origin)


def _lay_out_frame(header: list[int], flat: Flattener, program: Program) -> None:
    ranks = sum(len(buffer.shape) for buffer in program.buffers if isinstance(buffer, Result))
    position = layout.WORD * layout.FRAME_HEADER
    for index, count in (
        (layout.IMAGE_FRAME_SIZES, len(flat.sizes)),
        (layout.IMAGE_FRAME_POINTERS, len(program.buffers)),
        (layout.IMAGE_FRAME_OPERANDS, flat.most_operands),
        (layout.IMAGE_FRAME_PARAMETERS, flat.most_parameters),
        (layout.IMAGE_FRAME_DIMENSIONS, ranks),
    ):
        header[index] = position
        position += layout.WORD * count
    header[layout.IMAGE_FRAME_BYTES] = position


def _initial(entry: object) -> int:
    if isinstance(entry, Static):
        return entry.value
    return entry.initial if isinstance(entry, Variable) else 0


def _computed(program: Program) -> list[int]:
    words: list[int] = []
    for index, entry in enumerate(program.sizes):
        if isinstance(entry, Computed):
            if not (0 <= entry.left < index and 0 <= entry.right < index):
                raise ProgramError(f"{program.name}: size {index} is computed from entries that do not come before it")
            words += [index, size_operation(entry.operation), entry.left, entry.right]
        elif isinstance(entry, Dimension):
            _check_dimension(program, index, entry)
    return words


def _check_dimension(program: Program, index: int, entry: Dimension) -> None:
    """The entry must be bound: the argument's shape must name it at that axis."""
    if 0 <= entry.argument < len(program.arguments):
        argument = program.buffers[program.arguments[entry.argument]]
        assert isinstance(argument, Argument)
        if 0 <= entry.axis < len(argument.shape) and argument.shape[entry.axis] == SizeRef(index):
            return
    raise ProgramError(
        f"{program.name}: size {index} is dimension {entry.axis} of argument {entry.argument}, whose shape does not say so"
    )


def _pointers(program: Program, keep: list[Any]) -> list[int]:
    pointers = []
    for buffer in program.buffers:
        address = 0
        if isinstance(buffer, Constant):
            memory, address = aligned_bytes(buffer.data)
            keep.append(memory)
        pointers.append(address)
    return pointers


def _temporaries(program: Program, flat: Flattener) -> list[int]:
    words: list[int] = []
    for index, buffer in enumerate(program.buffers):
        if isinstance(buffer, Temporary):
            words += [index, flat.size(buffer.offset)]
            offset, nbytes, arena = buffer.offset, buffer.nbytes, program.arena_bytes
            static = isinstance(offset, int) and isinstance(nbytes, int) and isinstance(arena, int)
            if static and not 0 <= offset <= offset + nbytes <= arena:  # type: ignore[operator]
                raise ProgramError(f"{program.name}: temporary {index} does not fit in the arena of {arena} bytes")
    return words


def _dimension(program: Program, flat: Flattener, size: SizeLike, bind: Dimension | None) -> list[int]:
    if isinstance(size, int):
        return [layout.DIMENSION_STATIC, size]
    index = flat.size(size)
    bound = bind is not None and program.sizes[index] == bind
    return [layout.DIMENSION_BIND if bound else layout.DIMENSION_ENTRY, index]


def _arguments(program: Program, flat: Flattener, dimensions: list[int], keep: list[Any]) -> list[int]:
    words: list[int] = []
    for number, index in enumerate(program.arguments):
        argument = program.buffers[index]
        assert isinstance(argument, Argument)
        descriptor = numpy_dtype(argument.element)
        keep.append(descriptor)
        words += [index, id(descriptor), len(argument.shape), len(dimensions) // layout.DIMENSION_WORDS]
        for axis, size in enumerate(argument.shape):
            dimensions += _dimension(program, flat, size, Dimension(number, axis))
    return words


def _results(program: Program, flat: Flattener, dimensions: list[int], keep: list[Any]) -> list[int]:
    words: list[int] = []
    for index in program.results:
        result = program.buffers[index]
        assert isinstance(result, Result)
        descriptor = numpy_dtype(result.element)
        keep.append(descriptor)
        first = len(dimensions) // layout.DIMENSION_WORDS
        words += [index, id(descriptor), len(result.shape), first, ELEMENTS[result.element].itemsize]
        for size in result.shape:
            dimensions += _dimension(program, flat, size, None)
    return words


def uses_pool(program: Program) -> bool:
    """Whether any kernel can have more than one chunk."""
    from gradopt.lowering.native.program import Run

    return any(
        isinstance(item, Run) and not (isinstance(item.extent, int) and isinstance(item.grain, int) and item.extent <= item.grain)
        for item in program.instructions
    )
