"""Names of values and blocks in printed text.

Generic form: MLIR's numbering (a region's values before those of the regions inside it; the region that is entered last is numbered
first; one count for the whole text). Pretty form: values keep their names, made unique by a suffix; the rest is numbered, and the numbers
of a region begin behind those of all values that are visible in it.
"""

from __future__ import annotations

from collections.abc import Callable

from gradopt.ir.declare import ISOLATED
from gradopt.ir.operation import Block, Operation, Region
from gradopt.ir.values import Value

__all__ = ["generic_names", "pretty_names"]

Names = tuple[dict[Value, str], dict[Block, str]]


def generic_names(root: Operation) -> Names:
    """The names of all values (`%0`, `%1#0`, `%arg0`) and blocks (`^bb0`) in an operation, as MLIR gives them."""
    names: dict[Value, str] = {}
    blocks: dict[Block, str] = {}
    next_value = _number_results(root, names, 0)
    next_argument = 0
    waiting = list(root.regions)
    while waiting:
        for index, block in enumerate(waiting.pop().blocks):
            blocks[block] = f"^bb{index}"
            for argument in block.arguments:
                if index == 0:
                    names[argument] = f"%arg{next_argument}"
                    next_argument += 1
                else:
                    names[argument] = f"%{next_value}"
                    next_value += 1
            op = block.first
            while op is not None:
                results = op.results
                if len(results) == 1:
                    names[results[0]] = f"%{next_value}"
                    next_value += 1
                elif results:
                    next_value = _number_results(op, names, next_value)
                if op.regions:
                    waiting += op.regions
                op = op.next
        # regions of the block's ops wait in order: the last one is next
    return names, blocks


def _number_results(op: Operation, names: dict[Value, str], number: int) -> int:
    """Names the results of an op by one number; returns the next number."""
    results = op.results
    if not results:
        return number
    if len(results) == 1:
        names[results[0]] = f"%{number}"
    else:
        for index, result in enumerate(results):
            names[result] = f"%{number}#{index}"
    return number + 1


class _Scope:
    """What a region starts with: the next numbers, and the names that are taken."""

    __slots__ = ("arguments", "taken", "values")

    def __init__(self, values: int, arguments: int, taken: set[str]) -> None:
        self.values, self.arguments, self.taken = values, arguments, taken


def own_name(value: Value) -> str | None:
    """The name that a value carries."""
    return value.name


def pretty_names(root: Operation, hint: Callable[[Value], str | None] = own_name) -> Names:
    """The names of all values and blocks in an operation for the pretty form; `hint` gives each value's own one."""
    names: dict[Value, str] = {}
    blocks: dict[Block, str] = {}
    scope = _Scope(0, 0, set())
    _name_results(root, names, scope, hint)
    waiting: list[tuple[Region, _Scope]] = [(region, scope) for region in reversed(root.regions)]
    while waiting:
        region, outer = waiting.pop()
        isolated = region.parent is not None and region.parent.has_trait(ISOLATED)
        scope = _Scope(outer.values, outer.arguments, set(outer.taken) if isolated else outer.taken)
        inner: list[Region] = []
        for index, block in enumerate(region.blocks):
            blocks[block] = f"^bb{index}"
            for argument in block.arguments:
                name = hint(argument)
                if name is None:
                    names[argument] = _free_name(f"%arg{scope.arguments}", scope.taken)
                    scope.arguments += 1
                else:
                    names[argument] = _free_name("%" + name, scope.taken)
            op = block.first
            while op is not None:
                if op.results:
                    _name_results(op, names, scope, hint)
                if op.regions:
                    inner += op.regions
                op = op.next
        waiting += [(nested, scope) for nested in reversed(inner)]
    return names, blocks


def _free_name(name: str, taken: set[str]) -> str:
    if name in taken:
        suffix = 1
        while f"{name}_{suffix}" in taken:
            suffix += 1
        name = f"{name}_{suffix}"
    taken.add(name)
    return name


def _name_results(op: Operation, names: dict[Value, str], scope: _Scope, hint: Callable[[Value], str | None]) -> None:
    results = op.results
    hints = [hint(result) for result in results]
    if len(results) > 1 and not any(hints):
        scope.values = _number_results(op, names, scope.values)
        return
    for result, name in zip(results, hints):
        if name is None:
            names[result] = f"%{scope.values}"
            scope.values += 1
        else:
            names[result] = _free_name("%" + name, scope.taken)
