"""A program's instructions as words: markers become jumps, sizes and operand lists become positions in tables.

One pass with an explicit stack of open markers, so any depth of nesting works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradopt.lowering.native import layout
from gradopt.lowering.native.errors import ProgramError
from gradopt.lowering.native.program import (
    SIZE_OPERATIONS,
    Argument,
    Buffer,
    Case,
    Check,
    Compute,
    Copy,
    Else,
    Fill,
    IfBegin,
    IfEnd,
    Instruction,
    LoopBegin,
    LoopEnd,
    Point,
    Program,
    Run,
    SetSize,
    SizeLike,
    SizeRef,
    Static,
    Swap,
    SwitchBegin,
    SwitchEnd,
    Temporary,
    Variable,
    WhileBegin,
    WhileEnd,
    WhileTest,
)

INTEGER_CODES = {name: code for code, name in enumerate(("i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"))}


@dataclass
class _Open:
    """A marker that waits for its end: where it began, and the jumps to fill in when the end is known."""

    marker: Instruction
    begin: int
    exits: list[list[int]] = field(default_factory=list)
    tested: bool = False
    targets: list[int] = field(default_factory=list)


@dataclass
class Flattener:
    """Collects the words of one program."""

    program: Program
    addresses: list[int]
    words: list[list[int]] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    sizes: list[Any] = field(default_factory=list)
    origin: list[int] = field(default_factory=list)
    """For each instruction in words, the position of the instruction of the program it came from."""
    most_operands: int = 0
    most_parameters: int = 0
    _open: list[_Open] = field(default_factory=list)
    _static: dict[int, int] = field(default_factory=dict)
    _lists: dict[tuple[int, ...], int] = field(default_factory=dict)
    _position: int = 0

    def __post_init__(self) -> None:
        self.sizes = list(self.program.sizes)
        self._handlers: dict[type, Callable[[Any], None]] = {
            Run: self._run,
            LoopBegin: self._loop_begin,
            LoopEnd: self._loop_end,
            WhileBegin: self._while_begin,
            WhileTest: self._while_test,
            WhileEnd: self._while_end,
            IfBegin: self._if_begin,
            Else: self._else,
            IfEnd: self._if_end,
            SwitchBegin: self._switch_begin,
            Case: self._case,
            SwitchEnd: self._switch_end,
            SetSize: self._set_size,
            Compute: self._compute,
            Swap: self._swap,
            Point: self._point,
            Copy: self._copy,
            Fill: self._fill,
            Check: self._check,
        }

    def fail(self, message: str) -> ProgramError:
        return ProgramError(f"{self.program.name}: instruction {self._position}: {message}")

    def flatten(self) -> None:
        for position, instruction in enumerate(self.program.instructions):
            self._position = position
            self._handlers[type(instruction)](instruction)
        if self._open:
            raise self.fail(f"{type(self._open[-1].marker).__name__} without its end")

    # -- tables

    def size(self, size: SizeLike) -> int:
        """The entry of the size table that holds a size."""
        if isinstance(size, SizeRef):
            if not 0 <= size.index < len(self.program.sizes):
                raise self.fail(f"size {size.index} of {len(self.program.sizes)}")
            return size.index
        if size not in self._static:
            self._static[size] = len(self.sizes)
            self.sizes.append(Static(size))
        return self._static[size]

    def hidden_size(self) -> int:
        self.sizes.append(Variable())
        return len(self.sizes) - 1

    def variable(self, size: SizeRef) -> int:
        index = self.size(size)
        if not isinstance(self.sizes[index], Variable):
            raise self.fail(f"size {index} is written but is no Variable")
        return index

    def buffer(self, index: int) -> Buffer:
        if not 0 <= index < len(self.program.buffers):
            raise self.fail(f"buffer {index} of {len(self.program.buffers)}")
        return self.program.buffers[index]

    def written(self, index: int) -> int:
        if isinstance(self.buffer(index), Argument):
            raise self.fail(f"buffer {index} is an argument and would be written to")
        return index

    def flag(self, index: int) -> int:
        if self.buffer(index).element != "i1":
            raise self.fail(f"buffer {index} must be i1, found {self.buffer(index).element}")
        return index

    def integer_code(self, index: int) -> int:
        element = self.buffer(index).element
        if element not in INTEGER_CODES:
            raise self.fail(f"buffer {index} must hold integers, found {element}")
        return INTEGER_CODES[element]

    def list_of(self, items: tuple[int, ...]) -> int:
        if items not in self._lists:
            self._lists[items] = len(self.lists)
            self.lists.extend(items)
        return self._lists[items]

    def emit(self, *words: int) -> list[int]:
        row = [*words, *[0] * (layout.INSTRUCTION_WORDS - len(words))]
        self.words.append(row)
        self.origin.append(self._position)
        return row

    def close(self, *markers: type) -> _Open:
        if not self._open or not isinstance(self._open[-1].marker, markers):
            raise self.fail(f"does not close a {markers[0].__name__}")
        return self._open.pop()

    # -- instructions

    def _run(self, run: Run) -> None:
        if not 0 <= run.kernel < len(self.addresses):
            raise self.fail(f"kernel {run.kernel} of {len(self.addresses)}")
        for operand in run.operands:
            self.buffer(operand)
        parameters = tuple(self.size(parameter) for parameter in run.parameters)
        self.most_operands = max(self.most_operands, len(run.operands))
        self.most_parameters = max(self.most_parameters, len(parameters))
        if isinstance(run.grain, int) and run.grain < 1:
            raise self.fail(f"grain {run.grain}: expected at least 1")
        self.emit(
            layout.OP_RUN, self.addresses[run.kernel], self.size(run.extent), self.size(run.grain),
            self.list_of(tuple(run.operands)), len(run.operands), self.list_of(parameters), len(parameters),
        )  # fmt: skip

    def _loop_begin(self, loop: LoopBegin) -> None:
        self._open.append(_Open(loop, len(self.words)))
        self.emit(layout.OP_LOOP_BEGIN, -1, self.variable(loop.induction), self.hidden_size(), self.size(loop.trip))

    def _loop_end(self, _: LoopEnd) -> None:
        opened = self.close(LoopBegin)
        begin = self.words[opened.begin]
        begin[1] = len(self.words)
        self.emit(layout.OP_LOOP_END, opened.begin, begin[2], begin[3])

    def _while_begin(self, marker: WhileBegin) -> None:
        self._open.append(_Open(marker, len(self.words)))

    def _while_test(self, test: WhileTest) -> None:
        if not self._open or not isinstance(self._open[-1].marker, WhileBegin) or self._open[-1].tested:
            raise self.fail("WhileTest outside a WhileBegin, or a second one")
        self._open[-1].tested = True
        self._open[-1].exits.append(self.emit(layout.OP_JUMP_UNLESS, -1, self.flag(test.condition)))

    def _while_end(self, _: WhileEnd) -> None:
        opened = self.close(WhileBegin)
        if not opened.tested:
            raise self.fail("a while without its WhileTest")
        self.emit(layout.OP_JUMP, opened.begin)
        opened.exits[0][1] = len(self.words)

    def _if_begin(self, marker: IfBegin) -> None:
        opened = _Open(marker, len(self.words))
        opened.exits.append(self.emit(layout.OP_JUMP_UNLESS, -1, self.flag(marker.condition)))
        self._open.append(opened)

    def _else(self, _: Else) -> None:
        if not self._open or not isinstance(self._open[-1].marker, IfBegin) or self._open[-1].tested:
            raise self.fail("Else outside an IfBegin, or a second one")
        opened = self._open[-1]
        opened.tested = True
        jump = self.emit(layout.OP_JUMP, -1)
        opened.exits.pop()[1] = len(self.words)
        opened.exits.append(jump)

    def _if_end(self, _: IfEnd) -> None:
        self.close(IfBegin).exits[0][1] = len(self.words)

    def _switch_begin(self, marker: SwitchBegin) -> None:
        code = self.integer_code(marker.index)
        self._open.append(_Open(marker, len(self.words)))
        self.emit(layout.OP_SWITCH, marker.index, code, -1, 0)

    def _case(self, _: Case) -> None:
        if not self._open or not isinstance(self._open[-1].marker, SwitchBegin):
            raise self.fail("Case outside a SwitchBegin")
        opened = self._open[-1]
        if opened.targets:
            opened.exits.append(self.emit(layout.OP_JUMP, -1))
        opened.targets.append(len(self.words))

    def _switch_end(self, _: SwitchEnd) -> None:
        opened = self.close(SwitchBegin)
        if not opened.targets:
            raise self.fail("a switch without cases")
        for jump in opened.exits:
            jump[1] = len(self.words)
        self.words[opened.begin][3:5] = [self.list_of(tuple(opened.targets)), len(opened.targets)]

    def _set_size(self, item: SetSize) -> None:
        self.emit(layout.OP_SET_SIZE, self.variable(item.size), item.buffer, self.integer_code(item.buffer))

    def _compute(self, item: Compute) -> None:
        operation = size_operation(item.operation)
        self.emit(layout.OP_COMPUTE, self.variable(item.size), operation, self.size(item.left), self.size(item.right))

    def _swap(self, swap: Swap) -> None:
        pair = self.buffer(swap.first), self.buffer(swap.second)
        if not all(isinstance(buffer, Temporary) for buffer in pair):
            raise self.fail("only temporaries can be swapped")
        self.emit(layout.OP_SWAP, swap.first, swap.second)

    def _point(self, point: Point) -> None:
        if not isinstance(self.buffer(point.window), Temporary):
            raise self.fail("only a temporary can become a window")
        self.buffer(point.base)
        self.emit(layout.OP_POINT, point.window, point.base, self.size(point.offset))

    def _copy(self, copy: Copy) -> None:
        self.buffer(copy.source)
        self.emit(layout.OP_COPY, self.written(copy.destination), copy.source, self.size(copy.nbytes))

    def _fill(self, fill: Fill) -> None:
        if not 0 <= fill.byte < 256:
            raise self.fail(f"byte {fill.byte}")
        self.emit(layout.OP_FILL, self.written(fill.destination), fill.byte, self.size(fill.nbytes))

    def _check(self, check: Check) -> None:
        self.emit(layout.OP_CHECK, self.flag(check.buffer), check.check)


def size_operation(name: str) -> int:
    """The code of an operation of the size table.  Raises ProgramError for an unknown one."""
    if name not in SIZE_OPERATIONS:
        raise ProgramError(f"size operation {name!r}: expected one of {', '.join(SIZE_OPERATIONS)}")
    return SIZE_OPERATIONS.index(name)
