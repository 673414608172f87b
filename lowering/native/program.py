"""A native program as plain data: kernels, a size table, buffers and a list of instructions.

Nothing here knows the IR.  `Executable` (executable.py) runs programs.

    kernels       what is compiled: Python source in the language of kernels (intrinsics.py)
    sizes         the size table: int64 entries, all known before the first instruction runs, or written by instructions
    buffers       arguments, results, constants and temporaries, named by their position in this list
    instructions  a flat list with structured markers (LoopBegin … LoopEnd), so nesting of any depth needs no recursion

Order of a call: the arguments' shapes fill the `Dimension` entries, the `Computed` entries follow in the order of the
table, every other shape is checked against the table, results and temporaries get their memory, the instructions run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SIZE_OPERATIONS = ("add", "sub", "mul", "floordiv", "ceildiv", "mod", "max", "min")


@dataclass(frozen=True)
class KernelSource:
    """One kernel: the text of `def kernel(lo, hi, context): ...` in the language of kernels (see intrinsics.py).

    It handles the points lo <= i < hi of the instruction's extent and returns an int32, 0 when all is well.  `name`
    is for people (profiles, file names) and no part of the identity: equal source is compiled once and cached once.
    A source whose hot loops are written with register tiles compiles several times as fast without `vectorise`.
    """

    name: str
    source: str
    vectorise: bool = True

    def digest(self) -> str:
        """A hash of what the kernel does (not of its name)."""
        return hashlib.sha256(self.source.encode()).hexdigest()


@dataclass(frozen=True)
class SizeRef:
    """An entry of the size table, by position."""

    index: int


SizeLike = int | SizeRef
"""A size: a static number or an entry of the size table."""


@dataclass(frozen=True)
class Static:
    """A number known when the program is made."""

    value: int


@dataclass(frozen=True)
class Dimension:
    """The size of one axis of one argument (`argument` counts arguments, not buffers)."""

    argument: int
    axis: int


@dataclass(frozen=True)
class Computed:
    """`left operation right` over entries that come before this one; computed once, before the first instruction.

    floordiv and mod round towards minus infinity as Python's do, ceildiv towards plus infinity; by zero they give 0.
    """

    operation: str
    left: int
    right: int


@dataclass(frozen=True)
class Variable:
    """An entry that instructions write (induction variables, SetSize, Compute).  It starts at `initial` in every
    call.
    """

    initial: int = 0


SizeEntry = Static | Dimension | Computed | Variable


@dataclass(frozen=True)
class Argument:
    """A caller's array: never written to.  A SizeRef in the shape is bound by `Dimension(this, axis)` or checked
    against the table.
    """

    element: str
    shape: tuple[SizeLike, ...]
    name: str = ""


@dataclass(frozen=True)
class Result:
    """A fresh array for the caller, contiguous, aligned to 64 bytes."""

    element: str
    shape: tuple[SizeLike, ...]
    name: str = ""


@dataclass(frozen=True)
class Constant:
    """Bytes that never change (native byte order), kept aligned to 64 bytes."""

    element: str
    data: bytes
    name: str = ""


@dataclass(frozen=True)
class Temporary:
    """`nbytes` bytes at `offset` (a multiple of 64) in the call's arena.  Temporaries may overlap: that is the plan's
    business.
    """

    element: str
    nbytes: SizeLike
    offset: SizeLike
    name: str = ""


Buffer = Argument | Result | Constant | Temporary


@dataclass(frozen=True)
class Run:
    """Run kernel `kernel` over `extent` points in chunks of `grain`: chunk c covers [c*grain, min(extent,
    (c+1)*grain)).

    The kernel sees `operands` (buffers) as its operand slots 0, 1, … and `parameters` as its parameters 0, 1, ….
    Chunks depend on extent and grain only, never on the number of threads.  An extent <= 0 runs nothing.
    Equal buffers, or overlapping ones, in two slots of which one is written must be declared with `same_as` in the
    kernel.
    """

    kernel: int
    extent: SizeLike
    grain: SizeLike
    operands: tuple[int, ...]
    parameters: tuple[SizeLike, ...] = ()
    label: str = ""


@dataclass(frozen=True)
class LoopBegin:
    """Repeat up to the matching LoopEnd `trip` times; the Variable `induction` counts 0, 1, …  (trip is read once)."""

    trip: SizeLike
    induction: SizeRef


@dataclass(frozen=True)
class LoopEnd:
    pass


@dataclass(frozen=True)
class WhileBegin:
    """`WhileBegin, condition…, WhileTest(buffer), body…, WhileEnd`: leaves when the one-byte i1 buffer holds 0."""


@dataclass(frozen=True)
class WhileTest:
    condition: int


@dataclass(frozen=True)
class WhileEnd:
    pass


@dataclass(frozen=True)
class IfBegin:
    """`IfBegin(buffer), then…, [Else, else…,] IfEnd` on a one-byte i1 buffer."""

    condition: int


@dataclass(frozen=True)
class Else:
    pass


@dataclass(frozen=True)
class IfEnd:
    pass


@dataclass(frozen=True)
class SwitchBegin:
    """`SwitchBegin(buffer), Case, …, Case, …, SwitchEnd` on an integer scalar; an index out of range is clamped."""

    index: int


@dataclass(frozen=True)
class Case:
    pass


@dataclass(frozen=True)
class SwitchEnd:
    pass


@dataclass(frozen=True)
class SetSize:
    """A Variable takes the value of an integer (or i1) scalar buffer (ui64 above 2**63 - 1 becomes 2**63 - 1)."""

    size: SizeRef
    buffer: int


@dataclass(frozen=True)
class Compute:
    """A Variable takes `left operation right` at this point of the program (an index that depends on an induction
    variable).
    """

    size: SizeRef
    operation: str
    left: SizeLike
    right: SizeLike


@dataclass(frozen=True)
class Swap:
    """Exchange the memory of two temporaries of equal size (loop carries)."""

    first: int
    second: int


@dataclass(frozen=True)
class Point:
    """From here on the temporary `window` is the memory of `base` behind its first `offset` bytes (row t of a stacked array)."""

    window: int
    base: int
    offset: SizeLike


@dataclass(frozen=True)
class Copy:
    """Copy the first `nbytes` bytes of `source` to `destination`."""

    destination: int
    source: int
    nbytes: SizeLike


@dataclass(frozen=True)
class Fill:
    """Set the first `nbytes` bytes of `destination` to `byte`."""

    destination: int
    byte: int
    nbytes: SizeLike


@dataclass(frozen=True)
class Check:
    """Stop the program with (check, value 0, position 0) when the one-byte i1 buffer holds 0."""

    buffer: int
    check: int


Instruction = (
    Run | LoopBegin | LoopEnd | WhileBegin | WhileTest | WhileEnd | IfBegin | Else | IfEnd | SwitchBegin | Case
    | SwitchEnd | SetSize | Compute | Swap | Point | Copy | Fill | Check
)  # fmt: skip


@dataclass
class Program:
    """A whole native program.

    `arena_bytes` is the size of the temporaries' arena (planned by the caller), `scratch_bytes` what each thread gets
    as scratch memory.  `release_gil`: whether other Python threads may run during a call; false only pays for very
    short programs. `single`: a program with one result returns it bare, not in a tuple.  `checks`: what the holder of
    the program knows about the numbers that kernels report, `origins` what it knows about each instruction (for
    profiles); nothing here reads them.
    """

    name: str
    kernels: Sequence[KernelSource]
    sizes: Sequence[SizeEntry]
    buffers: Sequence[Buffer]
    instructions: Sequence[Instruction]
    arena_bytes: SizeLike = 0
    scratch_bytes: SizeLike = 0
    release_gil: bool = True
    single: bool = True
    checks: Sequence[Any] = ()
    origins: Sequence[Any] = ()
    arguments: list[int] = field(init=False)
    results: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.arguments = [i for i, buffer in enumerate(self.buffers) if isinstance(buffer, Argument)]
        self.results = [i for i, buffer in enumerate(self.buffers) if isinstance(buffer, Result)]
