"""`prim` programs as StableHLO (with CHLO), for XLA and whatever else reads it.

Before:

    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = prim.exp %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }

After (in the generic form):

    %0 = "stablehlo.exponential"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>

Sizes are static. A loop's `max_trip_count` is not kept: StableHLO has no run-time errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.ir.attributes import TypeAttr
from gradopt.ir.diagnostics import Diagnostic, GradoptError
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.types import I32, TensorType, tensor
from gradopt.ir.values import Value
from gradopt.lowering.export.stablehlo_builder import Unsupported, Writer
from gradopt.lowering.export.stablehlo_rules import RULES
from gradopt.lowering.tasks import Task, run_task

__all__ = ["to_stablehlo"]


def to_stablehlo(module: Operation) -> Operation:
    """A copy of the module in StableHLO. Raises GradoptError with an error for each operation that has no counterpart."""
    module = module.clone()
    errors: list[Diagnostic] = []
    for function in [op for op in module.walk() if op.name == "func.func" and op.regions[0].blocks]:
        Export(errors).function(function)
    if errors:
        raise GradoptError(errors)
    return module


class Export:
    """The work on one function. Errors are collected; what has one gets results of another operation's name, which nobody sees."""

    def __init__(self, errors: list[Diagnostic]) -> None:
        self.errors = errors
        self.values: dict[Value, Value] = {}

    def function(self, function: Operation) -> None:
        """Replaces the body of a function."""
        old = function.regions[0].blocks[0]
        new = Block([argument.type for argument in old.arguments])
        for before, after in zip(old.arguments, new.arguments):
            after.name, after.location = before.name, before.location
            self.values[before] = after
        held = function.properties["function_type"]
        assert isinstance(held, TypeAttr)
        results = run_task(self.fill(old, new))
        terminator = old.last
        assert terminator is not None
        new.append(type(terminator)(results, (), {}, {}, (), (), terminator.location))
        region = function.regions[0]
        region.blocks.clear()
        region.add_block(new)

    def fill(self, old: Block, new: Block) -> Task[list[Value]]:
        """Writes the operations of a block into another one; the values that its terminator passes on."""
        for op in old.operations:
            operands = [self.values[operand] for operand in op.operands]
            if op is old.last:
                return operands
            writer = Writer(new, op.location)
            name = op.name.removeprefix("prim.")
            try:
                check_sizes(op)
                if name in CONTROL:
                    results = yield CONTROL[name](self, op, writer, operands)
                elif op.name == "func.call":
                    results = writer.create("func.call", operands, op.result_types, callee=op.properties["callee"])
                elif op.name.startswith("prim.") and name in RULES:
                    found = RULES[name](writer, Moved(op, operands))
                    results = [found] if isinstance(found, Value) else found
                else:
                    hint = "" if op.name.startswith("prim.") else " (the pass 'decompose' comes first)"
                    raise Unsupported(f"has no StableHLO counterpart{hint}")
            except Unsupported as problem:
                self.errors.append(Diagnostic(op.location, f"'{op.name}' op {problem}"))
                results = writer.create("nothing", [], op.result_types)
            self.values.update(zip(op.results, results))
            for before, after in zip(op.results, results):
                after.name = after.name or before.name
        return []


def check_sizes(op: Operation) -> None:
    """Raises Unsupported for a size that is not known."""
    for value in (*op.operands, *op.results):
        if isinstance(value.type, TensorType) and not all(isinstance(size, int) for size in value.type.dims):
            raise Unsupported(f"has a value of type {value.type.text}: StableHLO is written for sizes that are known (the pass 'bind' "
                              "gives them)")


class Moved:
    """An operation as rules see it: its attributes, and the new values as its operands."""

    def __init__(self, op: Operation, operands: Sequence[Value]) -> None:
        self.op, self.operands, self.results, self.name = op, operands, op.results, op.name
        self.place = {id(value): index for index, value in reversed(list(enumerate(op.operands)))}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.op, name)
        return self.operands[self.place[id(found)]] if isinstance(found, Value) else found


def branch(export: Export, region: Region, arguments: Sequence[Value], location: Any) -> Task[Region]:
    """A region without arguments: those of the old one are values from outside."""
    old, made = region.block, Region()
    new = made.add_block(Block())
    export.values.update(zip(old.arguments, arguments))
    results = yield export.fill(old, new)
    Writer(new, location).create("return", results, [])
    return made


def _if(export: Export, op: Any, w: Writer, operands: list[Value]) -> Task[Sequence[Value]]:
    regions = []
    for region in op.regions:
        regions.append((yield branch(export, region, operands[1:], op.location)))
    return w.create("if", operands[:1], op.result_types, regions)


def _switch(export: Export, op: Any, w: Writer, operands: list[Value]) -> Task[Sequence[Value]]:
    regions = []
    for region in op.regions:
        regions.append((yield branch(export, region, operands[1:], op.location)))
    element = operands[0].type.element  # type: ignore[attr-defined]
    scalar = tensor((), element)
    inside = w.one("clamp", [w.fill(scalar, 0), operands[0], w.fill(scalar, len(regions) - 1)], scalar)
    return w.create("case", [w.convert(inside, I32)], op.result_types, regions)


def _while(export: Export, op: Any, w: Writer, operands: list[Value]) -> Task[Sequence[Value]]:
    types = [value.type for value in operands]
    regions = []
    for region in op.regions:
        made = Region()
        new = made.add_block(Block(types))
        export.values.update(zip(region.block.arguments, new.arguments))
        results = yield export.fill(region.block, new)
        kept = new.arguments[len(results):] if region is op.regions[1] else []
        Writer(new, op.location).create("return", [*results, *kept], [])
        regions.append(made)
    return w.create("while", operands, types, regions)[: op.num_carry]


def _scan(export: Export, op: Any, w: Writer, operands: list[Value]) -> Task[Sequence[Value]]:
    """A `while` over (step, carry…, consts…, xs…, ys…)."""
    carries, length = op.num_carry, op.length
    stacks = [result.type for result in op.results[carries:]]
    start = [w.index(0), *operands, *(w.fill(type, 0) for type in stacks)]
    types: list[Any] = [value.type for value in start]
    condition = w.region(types, lambda inner, c: [inner.compare("LT", c[0], inner.index(length))])
    made = Region()
    new = made.add_block(Block(types))
    inner = Writer(new, op.location)
    step, *arguments = new.arguments
    row = inner.one("subtract", [inner.index(length - 1), step]) if op.reverse else step
    zero = inner.index(0)
    first = len(operands) - op.num_xs
    rows = []
    for x in arguments[first: len(operands)]:
        type: Any = x.type
        cut = inner.one("dynamic_slice", [x, row, *[zero] * (type.rank - 1)], tensor([1, *type.dims[1:]], type.element),
                        slice_sizes=_sizes([1, *type.dims[1:]]))
        rows.append(inner.reshape(cut, type.dims[1:]))
    export.values.update(zip(op.body.block.arguments, [*arguments[:first], *rows]))
    results = yield export.fill(op.body.block, new)
    ys = []
    for stack, value in zip(arguments[len(operands):], results[carries:]):
        type = value.type
        ys.append(inner.one("dynamic_update_slice", [stack, inner.reshape(value, [1, *type.dims]), row, *[zero] * type.rank]))
    after = inner.one("add", [step, inner.index(1)])
    inner.create("return", [after, *results[:carries], *arguments[carries: len(operands)], *ys], [])
    found = w.create("while", start, types, [condition, made])
    return [*found[1: 1 + carries], *found[1 + len(operands):]]


def _sizes(values: Sequence[int]) -> Any:
    from gradopt.lowering.export.stablehlo_builder import i64s

    return i64s(values)


def _call(export: Export, op: Any, w: Writer, operands: list[Value]) -> Task[Sequence[Value]]:
    yield from ()
    return w.create("func.call", operands, op.result_types, callee=op.properties["callee"])


CONTROL = {"if": _if, "switch": _switch, "while": _while, "scan": _scan, "call": _call}
