"""The table of batching rules, one for each `prim` op.

A rule gets the operands in the new function, each with the mark whether it is batched (then the batch is its axis 0), and returns
one entry a result: a Value that is batched, or a `Batched` that says itself.

    @batch_rule("prim.reduce")
    def reduce(context: BatchContext, op: Operation, x: Batched) -> Value:
        '''The same axes, one further back.'''
        return context.builder.prim.reduce(x.value, kind=op.kind, axes=[axis + 1 for axis in op.axes])

At least one operand is batched. A rule may be a task (see tasks.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from gradopt.ir.values import Value
from gradopt.lowering.rule_modules import import_rule_modules

__all__ = ["Batched", "batch_rule", "find_batch_rule"]

RuleFunction = TypeVar("RuleFunction", bound=Callable[..., Any])


class Batched(NamedTuple):
    """A value, and whether its axis 0 is the batch."""

    value: Value
    batched: bool


_RULES: dict[str, Callable[..., Any]] = {}


def batch_rule(*names: str) -> Callable[[RuleFunction], RuleFunction]:
    """Registers `rule(context, op, *operands)` for the operations with these full names."""
    def decorate(function: RuleFunction) -> RuleFunction:
        for name in names:
            assert name not in _RULES, f"'{name}' has two batching rules"
            _RULES[name] = function
        return function
    return decorate


def find_batch_rule(name: str) -> Callable[..., Any] | None:
    """The batching rule of an operation, if it has one."""
    import_rule_modules("gradopt.lowering.batch.rules")
    return _RULES.get(name)
