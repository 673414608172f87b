"""A function of kernels as a native `Program`: buffers, memory, instructions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradopt.dialects.kernel import NestOp
from gradopt.ir.attributes import ArrayAttr
from gradopt.ir.declare import TERMINATOR
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.locations import file_position
from gradopt.ir.operation import Block, Operation
from gradopt.ir.sizes import Size, SizeExpression, multiply, parse_size, product
from gradopt.ir.types import TensorType, Type
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import LIBRARY, Launch
from gradopt.lowering.codegen.nest import nest_source
from gradopt.lowering.fuse.roots import ALIASES, storage_base
from gradopt.lowering.naming import SIZE_CHECKS
from gradopt.lowering.native.elements import ELEMENTS
from gradopt.lowering.native.program import (
    Argument,
    Buffer,
    Constant,
    Instruction,
    KernelSource,
    Point,
    Program,
    Result,
    Run,
    SizeLike,
    SizeRef,
    Temporary,
)
from gradopt.lowering.plan.checks import RuntimeCheck, check
from gradopt.lowering.plan.control import CONTROL
from gradopt.lowering.plan.memory import Host, Interval, assign_offsets, host_intervals
from gradopt.lowering.plan.size_table import SizeTable
from gradopt.lowering.runnable import check_elements, only_block
from gradopt.lowering.tasks import Task, run_task

__all__ = ["make_program"]


def make_program(function: Operation, name: str) -> Program:
    """The program of a `func.func` whose body is kernels. Raises GradoptError for an op that no kernel exists for."""
    return ProgramMaker(function, name).make()


class ProgramMaker:
    """The work on one function."""

    def __init__(self, function: Operation, name: str) -> None:
        self.function, self.name = function, name
        self.block = only_block(function, function.regions[0])
        check_elements(function)
        self.sizes = SizeTable()
        self.buffers: list[Buffer] = []
        self.index: dict[Value, int] = {}  # storage base -> buffer
        self.temporaries: dict[int, tuple[Size, int, int]] = {}  # buffer -> (bytes, first, last instruction)
        self.kernels: list[KernelSource] = []
        self.kernel_index: dict[str, int] = {}
        self.instructions: list[Instruction] = []
        self.origins: list[Operation] = []  # the op that each instruction belongs to
        self.current = function
        self.scratch = 0
        self.checks: list[RuntimeCheck] = []  # by number
        self.touched: dict[int, int] = {}  # result -> the first instruction that touches it
        self.exchanged: list[tuple[int, int]] = []  # temporaries whose memory a loop exchanges

    def make(self) -> Program:
        """Builds the program."""
        self._declare_arguments()
        terminator = self.block.last
        assert terminator is not None and terminator.has_trait(TERMINATOR)
        self._declare_results(terminator)
        self._check_sizes()
        run_task(self.operations(self.block))
        arena = self._place_temporaries()
        return Program(self.name, self.kernels, self.sizes.entries, self.buffers, self.instructions, arena, self.scratch,
                       single=len(terminator.operands) == 1, checks=self.checks, origins=self.origins)

    # --- buffers

    def _declare_arguments(self) -> None:
        for number, argument in enumerate(self.block.arguments):
            type = tensor_of(argument, self.function)
            for axis, size in enumerate(type.dims):
                if isinstance(size, SizeExpression) and str(size) in size.names:
                    self.sizes.bind(str(size), number, axis)
        for argument in self.block.arguments:
            type = tensor_of(argument, self.function)
            self.index[argument] = len(self.buffers)
            self.buffers.append(Argument(type.element.text, self._shape(type), argument.name or f"arg{argument.index}"))

    def _check_sizes(self) -> None:
        """Pairs of sizes that the function relies on being equal, where no name says so."""
        pairs = self.function.attributes.get(SIZE_CHECKS)
        for pair in pairs.elements if isinstance(pairs, ArrayAttr) else ():
            left, right = (element.value for element in pair.elements)  # type: ignore[attr-defined]
            number = self.check(self.function, f"size {left} must be equal to size {right}")
            source = ("def kernel(lo, hi, context):\n"
                      "    if parameter(context, 0) != parameter(context, 1):\n"
                      "        return report(context, parameter(context, 2), parameter(context, 0), parameter(context, 1))\n"
                      "    return 0\n")
            self.launch_sizes(self.function, Launch(source, 1, 1, []), [self.sizes.like(parse_size(left)),
                                                                     self.sizes.like(parse_size(right)), number])

    def _declare_results(self, terminator: Operation) -> None:
        for position, operand in enumerate(terminator.operands):
            type = tensor_of(operand, terminator)
            self.index[storage_base(operand)] = len(self.buffers)
            self.buffers.append(Result(type.element.text, self._shape(type), operand.name or f"result{position}"))

    def _shape(self, type: TensorType) -> tuple[SizeLike, ...]:
        return tuple(self.sizes.like(size) for size in type.dims)

    def buffer(self, value: Value) -> int:
        """The buffer that holds a value (made where it has none)."""
        base = storage_base(value)
        found = self.index.get(base)
        if found is None and base.defining_op is not None and base.defining_op.name == "prim.constant":
            self._constant(base.defining_op)
            found = self.index[base]
        if found is None:
            type = tensor_of(base, self.function)
            found = self.index[base] = len(self.buffers)
            nbytes = multiply(product(type.dims), type.element.storage_bytes)
            self.temporaries[found] = (nbytes, 1 << 60, -1)
            self.buffers.append(Temporary(type.element.text, 0, 0, base.name or ""))
        return found

    def touch(self, buffer: int) -> None:
        """A buffer is used by the instruction that comes next."""
        entry, now = self.temporaries.get(buffer), len(self.instructions)
        if isinstance(self.buffers[buffer], Result):
            self.touched.setdefault(buffer, now)
        if entry is not None:
            self.temporaries[buffer] = (entry[0], min(entry[1], now), max(entry[2], now))

    def _join_exchanged(self) -> None:
        """Temporaries that exchange their memory live as long as each other: which one's memory a value lies in after a loop depends
        on the number of its steps."""
        changed = True
        while changed:
            changed = False
            for pair in self.exchanged:
                entries = [self.temporaries[buffer] for buffer in pair]
                begin, end = min(entry[1] for entry in entries), max(entry[2] for entry in entries)
                for buffer, (nbytes, first, last) in zip(pair, entries):
                    if (first, last) != (begin, end):
                        self.temporaries[buffer] = (nbytes, begin, end)
                        changed = True

    def _place_temporaries(self) -> SizeLike:
        self._join_exchanged()
        hosted = self._place_in_results()
        static = [(buffer, entry) for buffer, entry in self.temporaries.items() if isinstance(entry[0], int) and buffer not in hosted]
        offsets, total = assign_offsets([Interval(entry[0], entry[1], entry[2]) for _, entry in static])  # type: ignore[arg-type]
        for (buffer, entry), offset in zip(static, offsets):
            self._set_temporary(buffer, entry[0], offset)
        arena: SizeLike = total
        for buffer, entry in self.temporaries.items():
            if not isinstance(entry[0], int):
                nbytes = self.sizes.like(entry[0])
                self._set_temporary(buffer, nbytes, arena)
                padded = self.sizes.combine("mul", self.sizes.combine("ceildiv", nbytes, 64), 64)
                arena = self.sizes.combine("add", arena, padded)
        return arena

    def _place_in_results(self) -> set[int]:
        """Points temporaries into results that are written after them; gives those temporaries."""
        fixed = {buffer for pair in self.exchanged for buffer in pair}
        guests = [(buffer, Interval(nbytes, first, last)) for buffer, (nbytes, first, last) in self.temporaries.items()
                  if isinstance(nbytes, int) and buffer not in fixed and last >= 0]
        hosts = [(buffer, Host(nbytes, first)) for buffer, first in self.touched.items()
                 if (nbytes := self._result_bytes(buffer)) is not None]
        found = host_intervals([interval for _, interval in guests], [host for _, host in hosts])
        points = [Point(guests[index][0], hosts[number][0], offset) for index, (number, offset) in found.items()]
        self.instructions[:0] = points
        self.origins[:0] = [self.function] * len(points)
        return {point.window for point in points}

    def _result_bytes(self, buffer: int) -> int | None:
        """The bytes of a result of static shape."""
        result = self.buffers[buffer]
        assert isinstance(result, Result)
        sizes = [size for size in result.shape if isinstance(size, int)]
        return math.prod(sizes) * ELEMENTS[result.element].itemsize if len(sizes) == len(result.shape) else None

    def _set_temporary(self, buffer: int, nbytes: SizeLike | Size, offset: SizeLike) -> None:
        old = self.buffers[buffer]
        assert isinstance(old, Temporary)
        self.buffers[buffer] = Temporary(old.element, nbytes, offset, old.name)  # type: ignore[arg-type]

    def temporary(self, type: Type) -> int:
        """A new temporary of a tensor type, alive where it is touched."""
        assert isinstance(type, TensorType)
        self.temporaries[len(self.buffers)] = (multiply(product(type.dims), type.element.storage_bytes), 1 << 60, -1)
        self.buffers.append(Temporary(type.element.text, 0, 0))
        return len(self.buffers) - 1

    def window(self, type: Type) -> int:
        """A temporary without memory of its own, to be pointed into another buffer."""
        assert isinstance(type, TensorType)
        self.buffers.append(Temporary(type.element.text, 0, 0))
        return len(self.buffers) - 1

    def extend(self, begin: int) -> None:
        """A loop from instruction `begin` to the last one ends here: what it reads from before it lives to its end."""
        last = len(self.instructions) - 1
        for buffer, (nbytes, first, used) in self.temporaries.items():
            if first < begin <= used:
                self.temporaries[buffer] = (nbytes, first, max(used, last))
        for buffer, first in self.touched.items():  # a later step follows an earlier one's writes
            self.touched[buffer] = min(first, begin)

    def check(self, op: Operation, message: str, shows_value: bool = False, position: str = "") -> int:
        """The number of a run-time check, for `report`."""
        self.checks.append(RuntimeCheck(op.location, message, shows_value, position))
        return len(self.checks) - 1

    # --- instructions

    def emit(self, instruction: Instruction, touched: Sequence[int] = ()) -> None:
        """Appends an instruction that uses these buffers."""
        for buffer in touched:
            self.touch(buffer)
        self._append(instruction)

    def _append(self, instruction: Instruction) -> None:
        self.instructions.append(instruction)
        self.origins.append(self.current)

    def operations(self, block: Block) -> Task[None]:
        """The instructions of a block (not of its terminator)."""
        outer = self.current
        for op in block.operations:
            self.current = op
            if op.name in CONTROL:
                yield CONTROL[op.name](self, op)
            elif op is not block.last:
                self._operation(op)
        self.current = outer

    def _operation(self, op: Operation) -> None:
        if op.name in ALIASES or op.name == "prim.constant":  # a constant gets memory when something reads it
            return
        if isinstance(op, NestOp):
            self._nest(op)
        elif op.name == "prim.check":
            check(self, op)
        elif op.name in LIBRARY:
            for launch in LIBRARY[op.name](op):
                self._launch(op, launch)
        else:
            raise GradoptError.at(op.location, f"'{op.name}' op has no kernel")

    def _constant(self, op: Operation) -> None:
        elements = op.value  # type: ignore[attr-defined]
        data = elements.data * (elements.type.element_count if elements.is_splat else 1)
        self.index[op.results[0]] = len(self.buffers)
        self.buffers.append(Constant(elements.type.element.text, data, op.results[0].name or ""))

    def _nest(self, op: NestOp) -> None:
        source, scratch = nest_source(op)
        self.scratch = max(self.scratch, scratch)
        parameters = [parse_size(name) for name in op.parameters]
        self._run(KernelSource(describe(op), source), product(op.outer), op.grain[0], [*op.operands, *op.results], parameters)

    def _launch(self, op: Operation, launch: Launch) -> None:
        self.scratch = max(self.scratch, launch.scratch_bytes)
        self.launch_sizes(op, launch, launch.parameters)

    def launch_sizes(self, op: Operation, launch: Launch, parameters: Sequence[Size | SizeLike]) -> None:
        """A launch whose parameters are sizes or entries of the size table."""
        source = KernelSource(describe(op), launch.source, launch.vectorise)
        self._run(source, launch.extent, launch.grain, launch.operands, parameters)

    def _run(self, source: KernelSource, extent: Size, grain: Size, values: Sequence[Value],
             parameters: Sequence[Size | SizeLike]) -> None:
        kernel = self.kernel_index.setdefault(source.source, len(self.kernels))
        if kernel == len(self.kernels):
            self.kernels.append(source)
        operands = tuple(self.buffer(value) for value in values)
        for buffer in operands:
            self.touch(buffer)
        chosen = tuple(size if isinstance(size, SizeRef) else self.sizes.like(size) for size in parameters)
        self._append(Run(kernel, self.sizes.like(extent), self.sizes.like(grain), operands, chosen, source.name))


def tensor_of(value: Value, owner: Operation) -> TensorType:
    """A value's tensor type. Raises GradoptError for anything else."""
    if not isinstance(value.type, TensorType):
        raise GradoptError.at(owner.location, f"cannot compile a value of type {value.type.text}, expected a tensor")
    return value.type


def describe(op: Operation) -> str:
    """What a kernel is called in profiles: the op and the place it came from."""
    place = file_position(op.location)
    return op.name if place is None else f"{op.name} {place.file}:{place.line}"
