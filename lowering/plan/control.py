"""Control flow in a native program: loops, branches, and the memory of what they carry.

Each is a task (see tasks.py) that waits for the blocks inside it, so any depth of nesting works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gradopt.ir.attributes import UnitAttr
from gradopt.ir.operation import Block, Operation
from gradopt.ir.sizes import multiply, product
from gradopt.ir.types import TensorType, Type
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch
from gradopt.lowering.codegen.library.scatter import IN_PLACE
from gradopt.lowering.fuse.roots import ALIASES, storage_base
from gradopt.lowering.native.program import (
    Case,
    Compute,
    Copy,
    Else,
    IfBegin,
    IfEnd,
    LoopBegin,
    LoopEnd,
    Point,
    SizeLike,
    Swap,
    SwitchBegin,
    SwitchEnd,
    WhileBegin,
    WhileEnd,
    WhileTest,
)
from gradopt.lowering.tasks import Task

if TYPE_CHECKING:
    from gradopt.lowering.plan.program import ProgramMaker

__all__ = ["CONTROL"]


def nbytes_of(maker: ProgramMaker, type: Type) -> SizeLike:
    """The bytes of a tensor."""
    assert isinstance(type, TensorType)
    return maker.sizes.like(multiply(product(type.dims), type.element.storage_bytes))


def bind(maker: ProgramMaker, arguments: Sequence[Value], buffers: Sequence[int]) -> None:
    """Block arguments are held by these buffers."""
    maker.index.update(zip(arguments, buffers))


def readers(value: Value) -> list[Operation]:
    """The operations that read the memory of a value, seen through aliases."""
    found: dict[Operation, None] = {}
    pending = [value]
    while pending:
        for user in pending.pop().users:
            if user.name in ALIASES:
                pending += user.results
            else:
                found[user] = None
    return list(found)


def updated_in_place(body: Block, argument: Value, operand: Value) -> Operation | None:
    """The scatter that makes a carry's next value out of it, if nothing reads the old value afterwards."""
    op = storage_base(operand).defining_op
    if op is None or op.name not in ("prim.scatter", "prim.scatter_nd") or op.parent is not body:
        return None
    first, *others = (storage_base(value) for value in op.operands)
    element = argument.type.element  # type: ignore[attr-defined]
    if first is not argument or argument in others or (element.width < 32 and op.kind in ("add", "mul")):  # type: ignore[attr-defined]
        return None
    if all(reader is op or reader.is_before(op) for reader in readers(argument)):
        return op
    return None


class Carries:
    """The carried values of a loop, each in a pair of temporaries that change places after every step; or in one, where the step
    only overwrites rows of it. A carry starts in the memory of its first value if nothing else reads that."""

    def __init__(self, maker: ProgramMaker, loop: Operation, init: Sequence[Value], body: Block) -> None:
        self.maker = maker
        self.current = [self.start(loop, value) for value in init]
        self.following = []
        assert body.last is not None
        for buffer, argument, operand in zip(self.current, body.arguments, body.last.operands):
            update = updated_in_place(body, argument, operand)
            if update is None:
                self.following.append(maker.temporary(argument.type))
            else:
                update.attributes = {**update.attributes, IN_PLACE: UnitAttr()}
                self.following.append(buffer)
        self.touch()

    def start(self, loop: Operation, value: Value) -> int:
        """The buffer that a carry starts in."""
        maker, base, own = self.maker, storage_base(value), self.maker.buffer(value)
        sole = readers(base) == [loop] and sum(1 for operand in loop.operands if storage_base(operand) is base) == 1
        if sole and base.defining_op is not None and own in maker.temporaries:
            return own
        buffer = maker.temporary(value.type)
        maker.emit(Copy(buffer, own, nbytes_of(maker, value.type)), [buffer, own])
        return buffer

    def touch(self) -> None:
        """Both temporaries live here."""
        for buffer in (*self.current, *self.following):
            self.maker.touch(buffer)

    def advance(self) -> None:
        """What a step yielded becomes what the next one reads."""
        for current, following in zip(self.current, self.following):
            if current == following:
                continue
            self.maker.emit(Swap(current, following), [current, following])
            self.maker.exchanged.append((current, following))

    def finish(self, results: Sequence[Value]) -> None:
        """The results of the loop are the carries."""
        for buffer, result in zip(self.current, results):
            if result in self.maker.index:
                target = self.maker.index[result]
                self.maker.emit(Copy(target, buffer, nbytes_of(self.maker, result.type)), [target, buffer])
            else:
                self.maker.index[result] = buffer


def yield_into(maker: ProgramMaker, block: Block, buffers: Sequence[int]) -> None:
    """What the block yields is computed in these buffers (each yielded value has memory of its own: see `fuse.program.prepare`)."""
    assert block.last is not None
    for operand, buffer in zip(block.last.operands, buffers):
        maker.index[storage_base(operand)] = buffer


def scan(maker: ProgramMaker, op: Any) -> Task[None]:
    """`prim.scan`: a counted loop; row t of xs and ys is a window that moves."""
    body = op.regions[0].block
    count = op.num_carry
    for value in op.operands:
        maker.touch(maker.buffer(value))
    carries = Carries(maker, op, op.init, body)
    outputs = [maker.buffer(result) for result in op.results[count:]]
    for buffer in outputs:
        maker.touch(buffer)
    row_types = [argument.type for argument in body.arguments[len(op.operands) - op.num_xs:]]
    inputs = [maker.window(type) for type in row_types]
    rows = [maker.window(value.type) for value in body.last.operands[count:]]
    bind(maker, body.arguments, [*carries.current, *(maker.buffer(value) for value in op.consts), *inputs])
    yield_into(maker, body, [*carries.following, *rows])
    begin = len(maker.instructions)
    induction = maker.sizes.variable()
    maker.emit(LoopBegin(op.length, induction))
    step = induction
    if op.reverse:
        step = maker.sizes.variable()
        maker.emit(Compute(step, "sub", op.length - 1, induction))
    windows = [*zip(inputs, (maker.buffer(value) for value in op.xs), row_types),
               *zip(rows, outputs, (value.type for value in body.last.operands[count:]))]
    for window, base, type in windows:
        offset = maker.sizes.variable()
        maker.emit(Compute(offset, "mul", step, nbytes_of(maker, type)))
        maker.emit(Point(window, base, offset), [base])
    yield maker.operations(body)
    carries.advance()
    maker.emit(LoopEnd())
    maker.extend(begin)
    carries.finish(op.results[:count])


def while_(maker: ProgramMaker, op: Any) -> Task[None]:
    """`prim.while`: condition, test, body, as long as the test holds."""
    condition, body = (region.block for region in op.regions)
    carries = Carries(maker, op, op.operands[: op.num_carry], body)
    constants = [maker.buffer(value) for value in op.operands[op.num_carry:]]
    for buffer in constants:
        maker.touch(buffer)
    for block in (condition, body):
        bind(maker, block.arguments, [*carries.current, *constants])
    flag = maker.temporary(condition.last.operands[0].type)
    yield_into(maker, condition, [flag])
    yield_into(maker, body, carries.following)
    begin = len(maker.instructions)
    trips = maker.sizes.variable()
    if op.max_trip_count is not None:
        maker.emit(Compute(trips, "add", 0, 0))
    maker.emit(WhileBegin())
    yield maker.operations(condition)
    maker.emit(WhileTest(flag), [flag])
    if op.max_trip_count is not None:
        maker.emit(Compute(trips, "add", trips, 1))
        number = maker.check(op, f"'{op.name}' op runs more than max_trip_count = {op.max_trip_count} times")
        source = ("def kernel(lo, hi, context):\n"
                  f"    if parameter(context, 0) > {op.max_trip_count}:\n"
                  "        return report(context, parameter(context, 1), parameter(context, 0), 0)\n"
                  "    return 0\n")
        maker.launch_sizes(op, Launch(source, 1, 1, []), [trips, number])
    yield maker.operations(body)
    carries.advance()
    maker.emit(WhileEnd())
    maker.extend(begin)
    carries.finish(op.results)


def result_buffers(maker: ProgramMaker, op: Operation) -> list[int]:
    """The buffers of an op's results, alive from here."""
    buffers = [maker.buffer(result) for result in op.results]
    for buffer in buffers:
        maker.touch(buffer)
    return buffers


def branch(maker: ProgramMaker, block: Block, operands: Sequence[Value], results: Sequence[int]) -> Task[None]:
    """One region of an `if` or `switch`: it computes its results in the op's buffers."""
    bind(maker, block.arguments, [maker.buffer(value) for value in operands])
    yield_into(maker, block, results)
    yield maker.operations(block)


def if_(maker: ProgramMaker, op: Any) -> Task[None]:
    """`prim.if`."""
    results = result_buffers(maker, op)
    for value in op.operands[1:]:
        maker.touch(maker.buffer(value))
    condition = maker.buffer(op.operands[0])
    maker.emit(IfBegin(condition), [condition])
    yield branch(maker, op.regions[0].block, op.operands[1:], results)
    maker.emit(Else())
    yield branch(maker, op.regions[1].block, op.operands[1:], results)
    maker.emit(IfEnd(), [*results, *(maker.buffer(value) for value in op.operands[1:])])


def switch(maker: ProgramMaker, op: Any) -> Task[None]:
    """`prim.switch`."""
    results = result_buffers(maker, op)
    index = maker.buffer(op.operands[0])
    maker.emit(SwitchBegin(index), [index])
    for region in op.regions:
        maker.emit(Case())
        yield branch(maker, region.block, op.operands[1:], results)
    maker.emit(SwitchEnd(), [*results, *(maker.buffer(value) for value in op.operands[1:])])


CONTROL: dict[str, Callable[[Any, Any], Task[None]]] = {"prim.scan": scan, "prim.while": while_, "prim.if": if_,
                                                       "prim.switch": switch}
