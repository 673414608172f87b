"""What `gradopt-reduce` tries to take out of a module: functions, operations, arguments and results, attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from gradopt.ir.attributes import DenseElementsAttr, TypeAttr
from gradopt.ir.builder import Builder
from gradopt.ir.declare import SYMBOL, TERMINATOR
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Operation
from gradopt.ir.printer import print_operation
from gradopt.ir.types import FunctionType, TensorType, Type
from gradopt.ir.values import Value
from gradopt.ir.verifier import verify

__all__ = ["Candidates"]

Step = tuple[str, list[int], Callable[[Sequence[int]], "str | None"]]
PLACES = 1000  # results and arguments beyond this many stay


class Candidates:
    """The smaller versions of one module. Items are numbers of operations in walking order."""

    def __init__(self, module: Operation) -> None:
        self.module = module
        self.operations = list(module.walk())

    @classmethod
    def of(cls, text: str) -> Candidates | None:
        """The candidates of a text; None where it is not valid IR."""
        import gradopt.dialects  # noqa: F401  (registers them)
        from gradopt.parser import parse_module

        try:
            module = parse_module(text, allow_unregistered=True)
        except GradoptError:
            return None
        return None if verify(module) else cls(module)

    def steps(self) -> Iterator[Step]:
        """(what is taken out, the items, the text with only some of them or None where that is not valid)."""
        functions = self._numbers(lambda op: op is not self.module and SYMBOL in op.definition.traits)
        inside = self._numbers(lambda op: op is not self.module and SYMBOL not in op.definition.traits
                               and TERMINATOR not in op.definition.traits and op.parent is not None and op is not op.parent.last)
        kinds: tuple[tuple[str, list[int], Callable[[list[Operation], set[int]], bool]], ...] = (
            ("functions", functions, self._remove_operations), ("operations", inside, self._remove_operations),
            ("results of functions", self._results(), self._remove_results),
            ("arguments of functions", self._unread_arguments(), self._remove_arguments),
            ("attributes", self._numbers(lambda op: bool(op.attributes)), self._remove_attributes))
        for what, items, remove in kinds:
            yield what, items, partial(self._without, items, remove)

    def _numbers(self, wanted: Callable[[Operation], bool]) -> list[int]:
        return [number for number, op in enumerate(self.operations) if wanted(op)]

    def _without(self, items: Sequence[int], remove: Callable[[list[Operation], set[int]], bool],
                 kept: Sequence[int]) -> str | None:
        """The text of a copy from which all items but the kept ones were taken out; None where that is not possible."""
        copy = self.module.clone()
        if not remove(list(copy.walk()), set(items) - set(kept)) or verify(copy):
            return None
        return print_operation(copy)

    @staticmethod
    def _remove_operations(operations: list[Operation], gone: set[int]) -> bool:
        return all(_remove(operations[number]) for number in sorted(gone, reverse=True))

    # a result is numbered 1000 * number of the return + its place, an argument alike by its function

    def _results(self) -> list[int]:
        return [PLACES * number + place for number, op in enumerate(self.operations) if op.name == "func.return"
                for place in range(min(len(op.operands), PLACES))]

    @staticmethod
    def _remove_results(operations: list[Operation], gone: set[int]) -> bool:
        for number in {item // PLACES for item in gone}:
            op = operations[number]
            kept = [place for place in range(len(op.operands)) if PLACES * number + place not in gone]
            function = op.parent_op
            if function is None or not _set_type(function, results=kept):
                return False
            op.operands = [op.operands[place] for place in kept]
        return True

    def _unread_arguments(self) -> list[int]:
        return [PLACES * number + argument.index for number, op in enumerate(self.operations)
                if op.name == "func.func" and op.regions[0].blocks and op.attribute("arg_attrs") is None
                for argument in op.regions[0].blocks[0].arguments[:PLACES] if not argument.users]

    @staticmethod
    def _remove_arguments(operations: list[Operation], gone: set[int]) -> bool:
        for item in sorted(gone, reverse=True):
            function, place = operations[item // PLACES], item % PLACES
            block = function.regions[0].blocks[0]
            kept = [index for index in range(len(block.arguments)) if index != place]
            if not _set_type(function, inputs=kept):
                return False
            block.erase_argument(place)
        return True

    @staticmethod
    def _remove_attributes(operations: list[Operation], gone: set[int]) -> bool:
        for number in gone:
            operations[number].attributes = {}
        return True


def _set_type(function: Operation, inputs: Sequence[int] | None = None, results: Sequence[int] | None = None) -> bool:
    """Gives a function only some of its inputs or results. False where it has no function type."""
    attribute = function.attribute("function_type")
    if not isinstance(attribute, TypeAttr) or not isinstance(attribute.type, FunctionType):
        return False
    old = attribute.type
    made = FunctionType(old.inputs if inputs is None else tuple(old.inputs[place] for place in inputs),
                        old.results if results is None else tuple(old.results[place] for place in results))
    function.properties = {**function.properties, "function_type": TypeAttr(made)}
    return True


def _remove(op: Operation) -> bool:
    """Erases an op; what reads its results gets another value of the type. False where there is none."""
    if op.parent is None:
        return True  # it went with an op around it
    for result in op.results:
        if result.users:
            value = _substitute(op, result.type)
            if value is None:
                return False
            result.replace_all_uses_with(value)
    op.erase()
    return True


def _substitute(op: Operation, type: Type) -> Value | None:
    """A value of the type: an operand, an argument of the block, or a constant 0."""
    block = op.parent
    assert block is not None
    for value in (*op.operands, *block.arguments):
        if value.type is type:
            return value
    if isinstance(type, TensorType) and type.is_static:
        try:
            data = bytes(type.element.storage_bytes)
        except TypeError:
            return None
        return Builder(before=op).create("prim.constant", value=DenseElementsAttr(type, data, True)).results[0]
    return None
