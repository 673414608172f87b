"""Programs with loops, branches, sizes and windows; programs that are not well formed; profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gradopt.lowering.native.errors import GradoptRuntimeError, ProgramError
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import (
    Argument,
    Case,
    Check,
    Compute,
    Computed,
    Copy,
    Else,
    Fill,
    IfBegin,
    IfEnd,
    Instruction,
    KernelSource,
    LoopBegin,
    LoopEnd,
    Point,
    Program,
    Result,
    Run,
    SetSize,
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

SCALE_ADD = """
def kernel(lo, hi, context):
    a = pointer_f64(context, 0)
    b = pointer_f64(context, 1)
    out = pointer_f64(context, 2)
    for i in range(lo, hi):
        store(out, i, load(a, i) * f64(2.0) + load(b, i))
    return 0
"""


def scan_program(steps: int) -> Program:
    """carry = 2 * carry + xs[t]; ys[t] = carry; the carry ping-pongs between two temporaries."""
    step = """
def kernel(lo, hi, context):
    carry = pointer_f64(context, 0)
    xs = pointer_f64(context, 1)
    new = pointer_f64(context, 2)
    ys = pointer_f64(context, 3)
    t = parameter(context, 0)
    n = parameter(context, 1)
    for i in range(lo, hi):
        v = f64(0.5) * load(carry, i) + load(xs, t * n + i)
        store(new, i, v)
        store(ys, t * n + i, v)
    return 0
"""
    n = 3
    instructions: list[Instruction] = [
        Copy(3, 0, 24),
        LoopBegin(steps, SizeRef(0)),
        Run(0, n, n, (3, 1, 4, 2), (SizeRef(0), n)),
        Swap(3, 4),
        LoopEnd(),
        Copy(5, 3, 24),
    ]
    buffers = [
        Argument("f64", (n,), "init"), Argument("f64", (steps, n), "xs"), Result("f64", (steps, n)),
        Temporary("f64", 24, 0), Temporary("f64", 24, 64), Result("f64", (n,)),
    ]  # fmt: skip
    return Program("scan", [KernelSource("step", step)], [Variable()], buffers, instructions, arena_bytes=128)


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 20000])
def test_scan(steps: int) -> None:
    xs = np.random.default_rng(0).normal(size=(steps, 3))
    init = np.array([1.0, 2.0, 3.0])
    ys, carry = Executable(scan_program(steps))(init, xs)
    expected, rows = init, []
    for x in xs:
        expected = 0.5 * expected + x
        rows.append(expected)
    np.testing.assert_array_equal(carry, expected)
    np.testing.assert_array_equal(ys, np.array(rows).reshape(steps, 3))


COUNT_DOWN = """
def kernel(lo, hi, context):
    n = pointer_i64(context, 0)
    more = pointer_i1(context, 1)
    store(more, 0, load(n, 0) > 0)
    return 0
"""


STEP_DOWN = """
def kernel(lo, hi, context):
    n = pointer_i64(context, 0)
    total = pointer_i64(context, 1)
    store(total, 0, load(total, 0) + load(n, 0))
    store(n, 0, load(n, 0) - 1)
    return 0
"""


def test_while_inside_loop() -> None:
    """The sum 1 + … + n, once for each of three rounds."""
    program = Program(
        "while",
        [KernelSource("test", COUNT_DOWN), KernelSource("step", STEP_DOWN)],
        [Variable()],
        [Argument("i64", ()), Result("i64", ()), Temporary("i64", 8, 0), Temporary("i1", 1, 64)],
        [
            Fill(1, 0, 8),
            LoopBegin(3, SizeRef(0)),
            Copy(2, 0, 8),
            WhileBegin(),
            Run(0, 1, 1, (2, 3)),
            WhileTest(3),
            Run(1, 1, 1, (2, 1)),
            WhileEnd(),
            LoopEnd(),
        ],
        arena_bytes=128,
    )
    run = Executable(program)
    for n in (0, 1, 10, 1000):
        assert run(np.int64(n)) == 3 * n * (n + 1) // 2


WRITE = """
def kernel(lo, hi, context):
    out = pointer_i64(context, 0)
    store(out, 0, parameter(context, 0))
    return 0
"""


def branch_program(instructions: Sequence[Instruction], arguments: Sequence[str], sizes: Sequence[Any] = ()) -> Executable:
    buffers = [*(Argument(element, ()) for element in arguments), Result("i64", ())]
    return Executable(Program("branch", [KernelSource("write", WRITE)], sizes, buffers, instructions))


def write(value: Any, result: int) -> Run:
    return Run(0, 1, 1, (result,), (value,))


def test_if_else_and_nested() -> None:
    instructions = [
        IfBegin(0), IfBegin(1), write(3, 2), Else(), write(2, 2), IfEnd(), Else(), write(0, 2),
        IfBegin(1), write(1, 2), IfEnd(), IfEnd(),
    ]  # fmt: skip
    run = branch_program(instructions, ["i1", "i1"])
    assert [int(run(a, b)) for a in (False, True) for b in (False, True)] == [0, 1, 2, 3]


@pytest.mark.parametrize("element", ["i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"])
def test_switch_clamps(element: str) -> None:
    instructions = [SwitchBegin(0), *(item for case in range(3) for item in (Case(), write(10 + case, 1))), SwitchEnd()]
    run = branch_program(instructions, [element])
    dtype = np.dtype(
        {"i1": "bool"}.get(element) or element.replace("ui", "uint").replace("i", "int", 1).replace("uintnt", "uint")
    )
    values = (
        [0, 1]
        if element == "i1"
        else [0, 1, 2, 3, np.iinfo(dtype).max] + ([-1, np.iinfo(dtype).min] if element[0] == "i" else [])
    )
    for value in values:
        assert int(run(np.array(value, dtype))) == 10 + min(max(int(value), 0), 2)


def test_sizes_computed_before_and_during_a_run() -> None:
    sizes = [Static(7), Static(-3), Variable(), Variable(5)]
    for operation, expected in (
        ("add", 4), ("sub", 10), ("mul", -21), ("floordiv", -3), ("ceildiv", -2), ("mod", -2), ("max", 7), ("min", -3),
    ):  # fmt: skip
        before = [*sizes, Computed(operation, 0, 1)]
        assert int(branch_program([write(SizeRef(4), 0)], [], before)()) == expected
        during = [Compute(SizeRef(2), operation, SizeRef(0), -3), write(SizeRef(2), 0)]
        assert int(branch_program(during, [], sizes)()) == expected
    assert int(branch_program([write(SizeRef(3), 0)], [], sizes)()) == 5
    from_buffer = [SetSize(SizeRef(2), 0), write(SizeRef(2), 1)]
    assert int(branch_program(from_buffer, ["i16"], sizes)(np.int16(-77))) == -77
    by_zero = [Static(7), Static(0), Computed("floordiv", 0, 1), Computed("mod", 0, 1)]
    assert int(branch_program([write(SizeRef(2), 0)], [], by_zero)()) == 0


def test_loop_in_reverse_order() -> None:
    """An index computed from the induction variable."""
    instructions = [
        LoopBegin(SizeRef(0), SizeRef(1)),
        Compute(SizeRef(2), "sub", SizeRef(0), SizeRef(1)),
        LoopBegin(SizeRef(2), SizeRef(3)),
        Compute(SizeRef(4), "add", SizeRef(4), 1),
        LoopEnd(),
        LoopEnd(),
        write(SizeRef(4), 0),
    ]
    run = branch_program(instructions, [], [Static(6), *[Variable()] * 4])
    assert int(run()) == 6 + 5 + 4 + 3 + 2 + 1
    assert int(run()) == 21, "a second call starts from the same sizes"


def test_check_instruction() -> None:
    run = branch_program([Check(0, 42), write(1, 1)], ["i1"])
    assert int(run(True)) == 1
    with pytest.raises(GradoptRuntimeError) as caught:
        run(False)
    assert (caught.value.check, caught.value.value, caught.value.position) == (42, 0, 0)


def test_windows_into_a_stacked_array() -> None:
    """Row t of an argument and of a result as operands of their own."""
    steps, n = 5, 3
    program = Program(
        "rows", [KernelSource("scale", SCALE_ADD)], [Variable(), Variable()],
        [Argument("f64", (steps, n)), Argument("f64", (n,)), Result("f64", (steps, n)),
         Temporary("f64", 24, 0), Temporary("f64", 24, 0)],
        [LoopBegin(steps, SizeRef(0)), Compute(SizeRef(1), "mul", SizeRef(0), 8 * n), Point(3, 0, SizeRef(1)),
         Point(4, 2, SizeRef(1)), Run(0, n, n, (3, 1, 4)), LoopEnd()], arena_bytes=64,
    )  # fmt: skip
    x, b = np.arange(15.0).reshape(5, 3), np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(Executable(program)(x, b), 2 * x + b)


def test_deep_nesting() -> None:
    """A thousand loops inside one another."""
    depth = 1000
    sizes = [Variable() for _ in range(depth + 1)]
    instructions = [
        *(LoopBegin(1, SizeRef(i)) for i in range(depth)),
        Compute(SizeRef(depth), "add", SizeRef(depth), 1),
        *(LoopEnd() for _ in range(depth)),
        write(SizeRef(depth), 0),
    ]
    assert int(branch_program(instructions, [], sizes)()) == 1


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        ([LoopBegin(1, SizeRef(0))], "LoopBegin without its end"),
        ([LoopEnd()], "does not close a LoopBegin"),
        ([LoopBegin(1, SizeRef(0)), IfEnd()], "does not close a IfBegin"),
        ([WhileBegin(), WhileEnd()], "a while without its WhileTest"),
        ([WhileTest(0)], "WhileTest outside"),
        ([Else()], "Else outside"),
        ([IfBegin(1), IfEnd()], "buffer 1 must be i1, found i64"),
        ([Copy(0, 1, 8)], "buffer 0 is an argument and would be written to"),
        ([Run(3, 1, 1, ())], "kernel 3 of 1"),
        ([Run(0, 1, 0, (1,))], "grain 0"),
        ([Run(0, 1, 1, (9,))], "buffer 9 of 2"),
        ([Point(1, 0, 0)], "only a temporary can become a window"),
        ([Swap(0, 1)], "only temporaries can be swapped"),
        ([Compute(SizeRef(1), "add", 1, 1)], "size 1 is written but is no Variable"),
        ([Compute(SizeRef(0), "pow", 1, 1)], "size operation 'pow'"),
        ([SwitchBegin(1), SwitchEnd()], "a switch without cases"),
    ],
)
def test_malformed_programs(instructions: list[Instruction], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        branch_program(instructions, ["i1"], [Variable(), Static(1)])


def test_profile_counts_every_instruction() -> None:
    run = Executable(scan_program(5))
    run.start_profile(events=100)
    for _ in range(3):
        run(np.ones(3), np.ones((5, 3)))
    entries, events = run.stop_profile()
    counts = {entry.instruction: entry.count for entry in entries}
    assert counts == {0: 3, 1: 3, 2: 15, 3: 15, 4: 15, 5: 3}
    whole = [event for event in events if event.chunk < 0]
    assert len(whole) == sum(counts.values()) and all(event.begin <= event.end for event in events)
    assert sorted({event.instruction for event in whole}) == [0, 1, 2, 3, 4, 5]
    kernels = {number for number, instruction in enumerate(run.program.instructions) if isinstance(instruction, Run)}
    chunks = [event for event in events if event.chunk >= 0]
    assert {event.instruction for event in chunks} == kernels
    assert all(any(outer.instruction == event.instruction and outer.begin <= event.begin and event.end <= outer.end for outer in whole)
               for event in chunks)
    run(np.ones(3), np.ones((5, 3)))
