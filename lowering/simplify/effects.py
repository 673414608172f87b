"""Which operations have effects besides their results: a trait says it for one op, regions and callees are looked into."""

from __future__ import annotations

from collections.abc import Mapping

from gradopt.ir.attributes import SymbolRefAttr
from gradopt.ir.declare import PURE, TERMINATOR
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import lookup_symbol, nearest_symbol_table

__all__ = ["Effects"]


class Effects:
    """Answers whether an op is pure. What was found for regions and functions is kept, so one object serves one sweep."""

    def __init__(self, functions: Mapping[str, Operation] | None = None) -> None:
        """`functions`: where callees are looked up, for ops that stand in no module yet."""
        self._symbols = functions
        self._regions: dict[Operation, bool] = {}  # ops with regions
        self._callees: dict[tuple[Operation | None, SymbolRefAttr], Operation | None] = {}
        self._functions: dict[Operation, bool] = {}

    def removable(self, op: Operation) -> bool:
        """True if the op does nothing but give its results (and does not end its block)."""
        definition = op.definition
        traits = definition.traits
        return (PURE in traits and TERMINATOR not in traits
                and (not op.regions or self._regions_pure(op))
                and ("callee" not in definition.attributes or self._call_pure(op)))

    def moved(self, old: Operation, new: Operation) -> None:
        """The regions of `old` now belong to `new`."""
        if old in self._regions:
            self._regions[new] = self._regions.pop(old)

    def _regions_pure(self, op: Operation) -> bool:
        """True if all ops inside are pure. Each op is looked at once, however deep it lies and whichever op around it is asked about."""
        known = self._regions.get(op)
        if known is not None:
            return known
        inside: list[Operation] = []
        entered = [op]
        for holder in entered:  # grows: every op that holds regions which nobody has asked about yet
            for region in holder.regions:
                for block in region.blocks:
                    for inner in block.operations:
                        inside.append(inner)
                        if inner.regions and inner not in self._regions:
                            entered.append(inner)
        found = dict.fromkeys(entered, True)
        for inner in reversed(inside):  # children before parents
            pure = PURE in inner.definition.traits and found.get(inner, self._regions.get(inner, True))
            if pure and "callee" in inner.definition.attributes:
                pure = self._call_pure(inner)
            if not pure:
                parent = inner.parent_op
                assert parent is not None
                found[parent] = False
        self._regions.update(found)
        return found[op]

    def _callee(self, op: Operation) -> Operation | None:
        reference = op.attribute("callee")
        if not isinstance(reference, SymbolRefAttr):
            return None
        if self._symbols is not None:
            return self._symbols.get(reference.root)
        key = (nearest_symbol_table(op), reference)
        if key not in self._callees:
            self._callees[key] = lookup_symbol(op, reference)
        return self._callees[key]

    def _call_pure(self, op: Operation) -> bool:
        """True if the called function is there and pure, and so are all that it calls."""
        callee = self._callee(op)
        if callee is None:
            return False
        if callee not in self._functions:
            self._find_functions(callee)
        return self._functions[callee]

    def _find_functions(self, first: Operation) -> None:
        """Settles `first` and every function that it reaches: impurity spreads from callee to caller."""
        callers: dict[Operation, list[Operation]] = {first: []}
        pending, impure = [first], []
        while pending:
            function = pending.pop()
            pure = any(region.blocks for region in function.regions)
            for op in function.walk():
                if op is function:
                    continue
                pure = pure and PURE in op.definition.traits
                if "callee" in op.definition.attributes:
                    callee = self._callee(op)
                    if callee is None:
                        pure = False
                    elif callee in callers:
                        callers[callee].append(function)
                    else:
                        callers[callee] = [function]
                        pending.append(callee)
            if not pure:
                impure.append(function)
        self._functions.update(dict.fromkeys(callers, True))
        while impure:
            function = impure.pop()
            if self._functions[function]:
                self._functions[function] = False
                impure += callers[function]
