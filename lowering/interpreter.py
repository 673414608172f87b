"""Runs a function by the NumPy meaning of its operations. Slow and plain: the reference that every pass and kernel is tested against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.ir.attributes import SymbolRefAttr
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation, Region
from gradopt.ir.symbols import lookup_symbol
from gradopt.ir.values import Value

Array = Any

__all__ = ["run_function"]


def run_function(module: Operation, name: str, arguments: Sequence[Array]) -> list[Array]:
    """The results of function `name` on arrays.

    Raises GradoptError for an unknown function, a wrong number of arguments, or an operation without a NumPy meaning."""
    import numpy as np

    function = lookup_symbol(module, name)
    if function is None:
        raise GradoptError.at(module.location, f"there is no function '@{name}'")
    entry = function.regions[0].blocks[0]
    if len(arguments) != len(entry.arguments):
        raise GradoptError.at(function.location, f"function '@{name}' takes {len(entry.arguments)} arguments, found {len(arguments)}")
    arrays = [np.asarray(argument) for argument in arguments]
    sizes = _named_sizes(function, arrays)
    if sizes:
        module = _bound(module, name, sizes)
        function = lookup_symbol(module, name)
        assert function is not None
    try:
        with np.errstate(all="ignore"):
            return _run_region(function.regions[0], arrays)
    except RecursionError:
        raise GradoptError.at(function.location, f"function '@{name}': calls or regions are nested too deep to be run") from None


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


def _run_region(region: Region, arguments: Sequence[Array]) -> list[Array]:
    """The values that the terminator of a region's block passes on."""
    block = region.block
    environment: dict[Value, Array] = dict(zip(block.arguments, arguments))
    for op in block.operations:
        if op is block.last:
            return [environment[operand] for operand in op.operands]
        results = _run_operation(op, [environment[operand] for operand in op.operands])
        environment.update(zip(op.results, results))
    return []


def _run_operation(op: Operation, operands: list[Array]) -> Sequence[Array]:
    import numpy as np

    evaluate = getattr(op, "evaluate", None)
    if evaluate is None:
        raise GradoptError.at(op.location, f"'{op.name}' op has no NumPy meaning")
    if op.regions:
        results = evaluate(*operands, run=_run_region)
    elif "callee" in op.definition.attributes:
        results = evaluate(*operands, run=lambda callee, values: _run_callee(op, callee, values))
    else:
        results = evaluate(*operands)
    if len(op.results) == 1 and not isinstance(results, (tuple, list)):
        return [np.asarray(results)]
    return [np.asarray(value) for value in results]


def _run_callee(op: Operation, callee: SymbolRefAttr, values: Sequence[Array]) -> list[Array]:
    function = lookup_symbol(op, callee)
    if function is None or not function.regions or not function.regions[0].blocks:
        raise GradoptError.at(op.location, f"'{op.name}' op refers to '{callee.text}', which has no body")
    return _run_region(function.regions[0], values)
