"""Runs a function by the NumPy meaning of its operations. Slow and plain: the reference that every pass and kernel is tested against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gradopt.ir.attributes import SymbolRefAttr
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation, Region
from gradopt.ir.symbols import lookup_symbol
from gradopt.ir.values import Value
from gradopt.lowering.runnable import only_block
from gradopt.lowering.tasks import Task, run_task

Array = Any
MAX_CALLS = 10_000
REPORTED = (ValueError, TypeError, ZeroDivisionError)

__all__ = ["run_function", "run_region"]


def run_function(module: Operation, name: str, arguments: Sequence[Array]) -> list[Array]:
    """The results of function `name` on arrays.

    Raises GradoptError for an unknown function, a wrong number of arguments, an operation without a NumPy meaning, and for what the
    meaning of an operation reports about its arrays."""
    function = lookup_symbol(module, name)
    if function is None or not function.regions or not function.regions[0].blocks:
        raise GradoptError.at(module.location, f"there is no function '@{name}' with a body")
    entry = only_block(function, function.regions[0])
    if len(arguments) != len(entry.arguments):
        raise GradoptError.at(function.location, f"function '@{name}' takes {len(entry.arguments)} arguments, found {len(arguments)}")
    arrays = [np.asarray(argument) for argument in arguments]
    sizes = _named_sizes(function, arrays)
    if sizes:
        module = _bound(module, name, sizes)
        function = lookup_symbol(module, name)
        assert function is not None
    with np.errstate(all="ignore"):
        return run_region(function.regions[0], arrays)


def _named_sizes(function: Operation, arrays: Sequence[Array]) -> dict[str, int]:
    """The values of the sizes that the arguments' types name. Raises GradoptError where two arguments disagree."""
    from gradopt.ir.sizes import SizeExpression, named_size
    from gradopt.ir.types import TensorType

    found: dict[str, int] = {}
    for index, (argument, array) in enumerate(zip(function.regions[0].blocks[0].arguments, arrays)):
        type = argument.type
        if not isinstance(type, TensorType) or type.rank != array.ndim:
            continue
        for size, actual in zip(type.dims, array.shape):
            if not isinstance(size, SizeExpression) or len(size.names) != 1:
                continue
            name, = size.names
            if size == named_size(name) and found.setdefault(name, actual) != actual:
                raise GradoptError.at(function.location, f"size '{name}' is {found[name]}, but {actual} in argument {index} of "
                                                         f"'@{function.sym_name}'")  # type: ignore[attr-defined]
    return found


def _bound(module: Operation, name: str, sizes: dict[str, int]) -> Operation:
    """A copy of the module in which the function, and what it calls, has these sizes."""
    from gradopt.lowering.sizes.bind import TypeMap, replace_types, settle_bounds

    module = module.clone()
    types = TypeMap(sizes)
    pending, reached = [name], set[str]()
    while pending:
        current = pending.pop()
        function = lookup_symbol(module, current)
        if function is None or current in reached:
            continue
        reached.add(current)
        for op in function.walk():
            replace_types(op, types)
            if op.name == "prim.slice":
                settle_bounds(op)
            callee = getattr(op, "callee", None)
            if callee is not None:
                pending.append(callee)
    return module


def run_region(region: Region, arguments: Sequence[Array]) -> list[Array]:
    """The values that the terminator of a region's block passes on."""
    return run_task(_run_block(region, arguments, 0))


def _run_block(region: Region, arguments: Sequence[Array], depth: int) -> Task[list[Array]]:
    """`run_region` as a task, inside `depth` calls."""
    assert region.parent is not None
    block = only_block(region.parent, region)
    environment: dict[Value, Array] = dict(zip(block.arguments, arguments))
    for op in block.operations:
        operands = [environment[operand] for operand in op.operands]
        if op is block.last:
            return operands
        if op.regions or "callee" in op.definition.attributes:
            results = yield _run_structured(op, operands, depth)
        else:
            try:
                results = _meaning(op)(*operands)
            except REPORTED as error:
                raise _located(op, error) from error
            if len(op.results) == 1 and not isinstance(results, (tuple, list)):
                results = (results,)
        environment.update(zip(op.results, map(np.asarray, results)))
    return []


def _run_structured(op: Operation, operands: list[Array], depth: int) -> Task[Sequence[Array]]:
    """The results of an operation that holds regions or names a function (see `control_flow.Meaning`)."""
    meaning = _meaning(op)(*operands)
    answer: Any = None
    while True:
        try:
            target, arguments = meaning.send(answer)
        except StopIteration as stop:
            results: tuple[Array, ...] = stop.value
            return results
        except REPORTED as error:
            raise _located(op, error) from error
        if isinstance(target, Region):
            answer = yield _run_block(target, arguments, depth)
        else:
            answer = yield _run_callee(op, target, arguments, depth + 1)


def _located(op: Operation, error: Exception) -> GradoptError:
    """What a meaning reports about its arrays, as an error at the operation."""
    return error if isinstance(error, GradoptError) else GradoptError.at(op.location, f"'{op.name}' op: {error}")


def _meaning(op: Operation) -> Any:
    """The NumPy meaning of an operation. Raises GradoptError where it has none."""
    meaning = getattr(op, "evaluate", None)
    if meaning is None:
        raise GradoptError.at(op.location, f"'{op.name}' op has no NumPy meaning")
    return meaning


def _run_callee(op: Operation, callee: SymbolRefAttr, values: Sequence[Array], depth: int) -> Task[list[Array]]:
    """Runs a function. Raises GradoptError where there is none, or where calls do not come to an end."""
    function = lookup_symbol(op, callee)
    if function is None or not function.regions or not function.regions[0].blocks:
        raise GradoptError.at(op.location, f"'{op.name}' op refers to '{callee.text}', which has no body")
    if depth > MAX_CALLS:
        raise GradoptError.at(op.location, f"'{op.name}' op: {MAX_CALLS} calls inside each other, the innermost one of '{callee.text}'; "
                              "a function that calls itself may not come to an end")
    results: list[Array] = yield _run_block(function.regions[0], values, depth)
    return results
