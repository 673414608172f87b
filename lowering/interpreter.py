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
    with np.errstate(all="ignore"):
        return _run_region(function.regions[0], [np.asarray(argument) for argument in arguments])


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
