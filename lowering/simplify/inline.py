"""`inline`: calls become the body of the function that they call. See `InlinePass`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from gradopt.ir.attributes import SymbolRefAttr
from gradopt.ir.declare import TERMINATOR
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.locations import UNKNOWN_LOCATION, AnyLocation, CallSiteLocation, Location, SourceLocation
from gradopt.ir.operation import Operation
from gradopt.ir.symbols import lookup_symbol, nearest_symbol_table, symbol_name
from gradopt.ir.values import Value
from gradopt.lowering.passes import Pass, PassContext, option

__all__ = ["InlinePass", "inline_calls"]

CALLS = frozenset({"func.call", "prim.call"})


@dataclass(frozen=True)
class InlinePass(Pass):
    """Replaces calls by the body of the function that they call, callees first. Recursive calls stay.

    A function that carries its own derivative (`ad.vjp`, `ad.jvp`) is not inlined unless `custom-derivatives` says so: before
    `autodiff` its body would be differentiated instead.

    Needs: nothing. Guarantees: the only calls left are recursive, or to functions without a body, with several blocks, with a
    derivative of their own, or marked `no_inline`.

    Before:

        func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = prim.mul %x, %x : tensor<4xf32>
          return %y : tensor<4xf32>
        }
        func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
          %b = func.call @square(%a) : (tensor<4xf32>) -> tensor<4xf32>
          return %b : tensor<4xf32>
        }

    After:

        func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = prim.mul %x, %x : tensor<4xf32>
          return %y : tensor<4xf32>
        }
        func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
          %y = prim.mul %a, %a : tensor<4xf32>
          return %y : tensor<4xf32>
        }
    """

    name: ClassVar[str] = "inline"
    anchor: ClassVar[str | None] = "builtin.module"
    custom_derivatives: bool = option(False, "inline functions that carry their own derivative too")
    max_operations: int = option(1_000_000, "the largest number of operations that inlining may add", count=True)

    def run(self, op: Operation, context: PassContext) -> None:
        """Inlines every call inside. Raises GradoptError where that would add more than `max_operations`."""
        inlined = inline_calls(op, self.custom_derivatives, self.max_operations)
        if inlined:
            context.count("calls inlined", inlined)


def inline_calls(root: Operation, custom_derivatives: bool = False, max_operations: int = 1_000_000) -> int:
    """Inlines the calls inside `root`. Returns how many. Raises GradoptError where they grow beyond `max_operations`."""
    calls = find_calls(root, custom_derivatives)
    count = added = 0
    for function, call, callee in callees_first(calls):
        added += sum(1 for _ in callee.walk())
        if added > max_operations:
            raise GradoptError.at(call.location, f"inlining '@{symbol_name(callee)}' into '@{symbol_name(function)}' would add "
                                                 f"more than {max_operations} operations in all (option max-operations)")
        inline_call(call, callee)
        count += 1
    return count


def find_calls(root: Operation, custom_derivatives: bool) -> dict[Operation, list[tuple[Operation, Operation]]]:
    """For each function the calls in it that may be inlined, with what they call."""
    calls: dict[Operation, list[tuple[Operation, Operation]]] = {}
    known: dict[tuple[Operation | None, SymbolRefAttr], Operation | None] = {}
    owner = root
    for op in root.walk():
        if op.name == "func.func":
            owner = op
        elif op.name in CALLS and op.attribute("no_inline") is None:
            reference = op.attribute("callee")
            assert isinstance(reference, SymbolRefAttr)
            table = nearest_symbol_table(op)
            if (table, reference) not in known:
                known[table, reference] = lookup_symbol(op, reference)
            callee = known[table, reference]
            if callee is not None and callee.parent_op is table and can_inline(callee, custom_derivatives):
                calls.setdefault(owner, []).append((op, callee))
    return calls


def can_inline(callee: Operation, custom_derivatives: bool) -> bool:
    """True for a function of one block without a derivative of its own (unless those are asked for)."""
    if callee.attribute("no_inline") is not None or len(callee.regions) != 1 or len(callee.regions[0].blocks) != 1:
        return False
    last = callee.regions[0].blocks[0].last
    if last is None or TERMINATOR not in last.definition.traits:
        return False
    return custom_derivatives or (callee.attribute("ad.vjp") is None and callee.attribute("ad.jvp") is None)


def callees_first(calls: dict[Operation, list[tuple[Operation, Operation]]]) -> Iterator[tuple[Operation, Operation, Operation]]:
    """Each (function, call, callee), where everything in the callee comes before; calls that close a cycle are left out."""
    state: dict[Operation, str] = {}
    for start in calls:
        stack = [start] if start not in state else []
        while stack:
            function = stack[-1]
            if state.get(function) is None:
                state[function] = "open"
                # pushed in reverse, so that the first callee is done first
                stack += [callee for _, callee in reversed(calls.get(function, ())) if callee not in state]
                continue
            stack.pop()
            if state[function] == "done":
                continue
            for call, callee in calls.get(function, ()):
                if state[callee] == "done":
                    yield function, call, callee
            state[function] = "done"


def inline_call(call: Operation, callee: Operation) -> None:
    """Puts a copy of the callee's body in the place of the call."""
    body = callee.regions[0].blocks[0]
    mapping: dict[Value, Value] = dict(zip(body.arguments, call._operands))
    assert call.parent is not None
    for op in body.operations:
        if op is not body.last:
            copy = op.clone(mapping)
            for inner in copy.walk():
                inner.location = call_site(inner.location, call.location)
            call.parent.insert_before(call, copy)
    assert body.last is not None
    call.replace_with([mapping.get(value, value) for value in body.last._operands])


def call_site(callee: AnyLocation, caller: AnyLocation) -> Location:
    """`callsite(callee at caller)`."""
    places = [place.resolve() if isinstance(place, SourceLocation) else place for place in (callee, caller)]
    if all(place is UNKNOWN_LOCATION for place in places):
        return UNKNOWN_LOCATION
    return CallSiteLocation(*places)
