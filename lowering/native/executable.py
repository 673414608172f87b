"""What a caller gets: a program, compiled and loaded, as a callable on NumPy arrays.

A call with exactly the arrays that the program wants never runs Python code between the arguments and the results:
the driver (driver_source.py) reads the arrays' fields, takes memory from the pool, runs, and wraps the results.
Anything else takes the slow way through `arguments.py`, which converts or explains.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from gradopt.ir.diagnostics import ArgumentTypeError, ArgumentValueError
from gradopt.lowering.native import arguments as conversion
from gradopt.lowering.native import blas, driver, layout, pool, product, routines
from gradopt.lowering.native import image as images
from gradopt.lowering.native.compile import Timings, compile_kernels, helped
from gradopt.lowering.native.context import STATUS_CHECK, STATUS_IS_FLOAT, STATUS_POSITION, STATUS_VALUE, STATUS_WORDS
from gradopt.lowering.native.elements import ELEMENTS, numpy_dtype
from gradopt.lowering.native.errors import GradoptRuntimeError
from gradopt.lowering.native.program import Program, Result, SizeLike

METH_FASTCALL = 0x0080


class _MethodDefinition(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


@dataclass
class ProfileEntry:
    """One instruction of the program: how often it ran and how many nanoseconds that took."""

    instruction: int
    label: str
    count: int
    nanoseconds: int


@dataclass
class ProfileEvent:
    """One execution of an instruction, or of one of its chunks, in nanoseconds of a steady clock.

    `thread` tells the threads apart that computed (a call counts as one of its own); `chunk` is -1 for the instruction as a whole.
    """

    instruction: int
    begin: int
    end: int
    thread: int
    chunk: int


class Executable:
    """A native program as a callable.

    Arguments are arrays of the program's element types and shapes; results are fresh arrays, aligned to 64 bytes,
    whose memory is used again once they and all their views are gone.  Any number of threads may call one executable
    at once.

    Raises ArgumentTypeError and ArgumentValueError for wrong arguments, GradoptRuntimeError for a check that fails,
    MemoryError. Making one raises KernelError and ProgramError for a program that is not well formed.
    """

    def __init__(self, program: Program, *, front_end: str | None = None, cache_folder: Path | None = None) -> None:
        self.program = program
        if blas.needed_by(program.kernels):
            blas.load()
        products = product.calls(program.kernels)
        shared_kernels = [*map(product.routine, products)]
        with helped([*shared_kernels, *program.kernels], front_end, cache_folder) as helper:
            start = time.perf_counter()
            self._process = driver.process()
            prepared = time.perf_counter() - start
            shared = compile_kernels(shared_kernels, front_end, cache_folder, helper=helper)
            routines.keep(products, shared.kernels)
            compiled = compile_kernels(program.kernels, front_end, cache_folder, shared.timings, helper)
        self.timings: Timings = compiled.timings
        self._kernels = compiled.kernels  # their code is unloaded with this object
        self.timings.driver = prepared
        self._image = images.build(program, compiled.addresses, self._process.block)
        self._profile: Any = None
        self._uses_pool = images.uses_pool(program)
        self._native = self._make_native() if self._process.direct else None

    def _make_native(self) -> Any:
        """A function of Python whose code is the driver's `call_python` and whose `self` is the image."""
        name = self.program.name.encode("ascii", "replace")
        self._definition = _MethodDefinition(name, self._process.entries["call_python"], METH_FASTCALL, None)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return make(ctypes.addressof(self._definition), self._image.words, None)

    def __call__(self, *arguments: Any) -> Any:
        if self._native is not None:
            results = self._native(*arguments)
            if type(results) is not bytes and results is not NotImplemented:
                return results
            if type(results) is bytes:
                raise runtime_error(results)
        return self._slow(arguments)

    def _slow(self, arguments: Sequence[Any]) -> Any:
        arrays = conversion.convert(self.program, arguments)
        if self._native is None:
            return self._call_table(arrays)
        results = NotImplemented
        while results is NotImplemented:
            if self._uses_pool:
                pool.ensure_started()
            results = self._native(*arrays)
            if not self._uses_pool or self._process.word(layout.POOL_READY):
                break  # else another thread has just called set_num_threads
        if results is NotImplemented:
            raise RuntimeError(f"{self.program.name}: the driver refused arguments that are right (an error of gradopt)")
        if type(results) is bytes:
            raise runtime_error(results)
        return results

    def _call_table(self, arrays: Sequence[conversion.Array]) -> Any:
        """The way without knowledge of NumPy's layout: addresses in a table, results copied."""
        shapes = [buffer.shape for buffer in self.program.buffers if isinstance(buffer, Result)]
        if self._uses_pool:
            pool.ensure_started()
        inward = [word for array in arrays for word in (array.ctypes.data, *array.shape)]
        outward = STATUS_WORDS + sum(1 + len(shape) for shape in shapes)
        table = (ctypes.c_int64 * max(len(inward), outward))(*inward)
        status = self._process.call("call_table", self._image.address, ctypes.addressof(table))
        if status == layout.STATUS_FAILED:
            raise runtime_error(bytes(table)[: layout.WORD * STATUS_WORDS])
        if status == layout.STATUS_NO_MEMORY:
            raise MemoryError(f"{self.program.name}: no memory for a call")
        if status != layout.STATUS_OK:
            raise RuntimeError(f"{self.program.name}: the driver refused arguments that are right (an error of gradopt)")
        results, position = [], STATUS_WORDS
        for index in self.program.results:
            result = self.program.buffers[index]
            assert isinstance(result, Result)
            shape = tuple(table[position + 1 : position + 1 + len(result.shape)])
            array = numpy.empty(shape, numpy_dtype(result.element))
            ctypes.memmove(array.ctypes.data, table[position], array.nbytes)
            self._process.call("block_free", table[position])
            results.append(array)
            position += 1 + len(shape)
        return results[0] if len(results) == 1 and self.program.single else tuple(results)

    def peak_bytes(self, *arguments: Any) -> int:
        """Planned memory of one call beyond its arguments and constants: results, temporaries and scratch.

        A program with dynamic sizes needs the arguments of the call.
        """
        value = self._size_of(arguments)
        total = self.temporary_bytes(*arguments) + self.scratch_bytes(*arguments)
        for index in self.program.results:
            result = self.program.buffers[index]
            assert isinstance(result, Result)
            nbytes = ELEMENTS[result.element].itemsize
            for size in result.shape:
                nbytes *= value(size)
            total += nbytes
        return total

    def temporary_bytes(self, *arguments: Any) -> int:
        """What of `peak_bytes` holds values between kernels beside the results: the arena."""
        return self._size_of(arguments)(self.program.arena_bytes)

    def scratch_bytes(self, *arguments: Any) -> int:
        """What of `peak_bytes` kernels use within themselves: the scratch of every thread that computes."""
        threads = pool.num_threads() if self._uses_pool else 1
        return threads * self._size_of(arguments)(self.program.scratch_bytes)

    def _size_of(self, arguments: Sequence[Any]) -> Callable[[SizeLike], int]:
        """Sizes as a call with these arguments would find them."""
        values = conversion.size_values(self.program, conversion.convert(self.program, arguments)) if arguments else None

        def value(size: SizeLike) -> int:
            if isinstance(size, int):
                return size
            if values is None:
                raise ArgumentTypeError(f"{self.program.name} has dynamic sizes: expected the arguments of the call, found none")
            return values[size.index]

        return value

    # -- profiles

    def start_profile(self, events: int = 0) -> None:
        """Time every instruction from now on, and keep the first `events` executions (of instructions and of their chunks) one by one."""
        count = len(self._image.origin)
        words = layout.PROFILE_HEADER + layout.PROFILE_TOTAL_WORDS * count + layout.PROFILE_EVENT_WORDS * events
        self._profile = numpy.zeros(words, numpy.int64)
        self._profile[layout.PROFILE_CAPACITY] = events
        self._profile[layout.PROFILE_COUNT] = count
        self._image.set(layout.IMAGE_PROFILE, int(self._profile.ctypes.data))

    def stop_profile(self) -> tuple[list[ProfileEntry], list[ProfileEvent]]:
        """End a profile: totals for each instruction of the program, and the events.  No call may be running."""
        if self._profile is None:
            raise ArgumentValueError(f"{self.program.name}: no profile was started: call start_profile first")
        self._image.set(layout.IMAGE_PROFILE, 0)
        profile, origin, self._profile = self._profile, self._image.origin, None
        totals: dict[int, ProfileEntry] = {}
        for number, instruction in enumerate(origin):
            count, nanoseconds = profile[layout.PROFILE_HEADER + layout.PROFILE_TOTAL_WORDS * number :][:2].tolist()
            label = getattr(self.program.instructions[instruction], "label", "")
            entry = totals.setdefault(instruction, ProfileEntry(instruction, label, 0, 0))
            entry.count += count
            entry.nanoseconds += nanoseconds
        kept = min(int(profile[layout.PROFILE_NEXT]), int(profile[layout.PROFILE_CAPACITY]))
        first = layout.PROFILE_HEADER + layout.PROFILE_TOTAL_WORDS * len(origin)
        rows = profile[first : first + layout.PROFILE_EVENT_WORDS * kept].reshape(kept, layout.PROFILE_EVENT_WORDS).tolist()
        return list(totals.values()), [ProfileEvent(origin[row[0]], *row[1:]) for row in rows]


def runtime_error(record: bytes) -> GradoptRuntimeError:
    """The exception for a status record (context.STATUS_*)."""
    words = struct.unpack(f"={STATUS_WORDS}q", record)
    value: int | float = words[STATUS_VALUE]
    if words[STATUS_IS_FLOAT]:
        value = struct.unpack("=d", struct.pack("=q", value))[0]
    return GradoptRuntimeError(words[STATUS_CHECK], value, words[STATUS_POSITION])
