"""Lowers the `ad` ops: each becomes a call of a derivative function, the innermost ones first.

    %g = ad.grad @f(%x) {wrt = [0]} : …        ->        %g = call @f_grad(%x) : …
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradopt.ir.builder import Builder
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.dialect import near_miss
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import symbol_name
from gradopt.ir.types import compatible
from gradopt.lowering.autodiff.custom import function_type
from gradopt.lowering.autodiff.functions import check_seedable, derive_function, resolve_wrt
from gradopt.lowering.autodiff.helpers import match_type
from gradopt.lowering.autodiff.state import State
from gradopt.lowering.tasks import run_task

__all__ = ["lower_requests"]


def lower_requests(state: State) -> int:
    """Replaces every `ad` op of the module; returns how many there were."""
    count = 0
    for function in in_dependency_order(state):
        for op in [op for op in function.walk() if op.name.startswith("ad.")]:
            lower_request(state, op)
            count += 1
    return count


def references(state: State, function: Operation) -> Iterator[tuple[Operation, Operation]]:
    """(operation, function that it names) for every call and request inside a function."""
    op: Any
    for op in function.walk():
        if "callee" in op.definition.attributes:
            callee = state.function(op.callee.root)
            if callee is None:
                if op.name.startswith("ad."):
                    raise GradoptError.at(op.location, f"'{op.name}' op: there is no function '@{op.callee.root}'"
                                          + near_miss(op.callee.root, state.symbols))
                continue
            yield op, callee


def in_dependency_order(state: State) -> list[Operation]:
    """The functions that hold requests or are reached from those, callees first. Raises GradoptError where a request leads
    back to
    the function that makes it."""
    order: dict[Operation, None] = {}
    open_: dict[Operation, Operation | None] = {}  # each with the operation that led to it
    for root in list(state.symbols.values()):
        stack: list[tuple[Operation, Iterator[tuple[Operation, Operation]]]] = []
        if root not in order:
            stack.append((root, references(state, root)))
            open_[root] = None
        while stack:
            function, pending = stack[-1]
            found = next(pending, None)
            if found is None:
                stack.pop()
                del open_[function]
                order[function] = None
                continue
            op, callee = found
            if callee in open_:
                refuse_own_derivative(callee, op, open_)
            elif callee not in order:
                open_[callee] = op
                stack.append((callee, references(state, callee)))
    return list(order)


def refuse_own_derivative(callee: Operation, last: Operation, way: dict[Operation, Operation | None]) -> None:
    """Raises GradoptError if a request is among the calls that lead from `callee` back to it, the last one being `last`."""
    functions = list(way)
    steps = [step for function in functions[functions.index(callee) + 1:] if (step := way[function]) is not None] + [last]
    for number, step in enumerate(steps):
        if step.name.startswith("ad."):
            asked = step.callee.root  # type: ignore[attr-defined]
            notes = [(other.location, "on the way from that back to here") for other in (*steps[number + 1:], *steps[:number])]
            raise GradoptError.at(step.location, f"'{step.name}' op: '@{asked}' asks for its own derivative, which would be recursion",
                                  notes)


def lower_request(state: State, op: Any) -> None:
    """Replaces one request by a call."""
    mode = op.name.removeprefix("ad.")
    callee = state.symbols[op.callee.root]
    name = op.callee.root
    if mode != "jvp":
        check_seedable(callee, mode, op.location)
    wrt = resolve_wrt(callee, op.wrt, op.location)
    key = ("request", mode, name, tuple(wrt))
    if key not in state.made:
        state.made[key] = run_task(derive_function(state, callee, mode, wrt, f"{name}_{mode}", private=True))
    derived = state.made[key]
    type = function_type(derived)
    check_operands(op, [value.type for value in op.operands], list(type.inputs), "operand")
    check_operands(op, list(op.result_types), list(type.results), "result")
    builder = Builder(before=op, location=op.location)
    arguments = [match_type(builder, value, expected) for value, expected in zip(op.operands, type.inputs)]
    call = builder.create("func.call", arguments, type.results, callee=symbol_name(derived))
    op.replace_with([match_type(builder, value, expected) for value, expected in zip(call.results, op.result_types)])


def check_operands(op: Operation, found: list[Any], expected: list[Any], what: str) -> None:
    """Raises GradoptError unless the types fit one by one."""
    if len(found) != len(expected):
        raise GradoptError.at(op.location, f"'{op.name}' op has {len(found)} {what}s, expected {len(expected)}: "
                              f"({', '.join(type.text for type in expected)})")
    for index, (a, b) in enumerate(zip(found, expected)):
        if not compatible(a, b):
            raise GradoptError.at(op.location, f"'{op.name}' op: {what} {index} is {a.text}, expected {b.text}")
