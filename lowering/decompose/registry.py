"""The table of decompositions: one function an operation. Rules live in `lowering/decompose/rules/<family>.py`.

    @decomposition("hl.relu")
    def relu(b: Builder, op: ReluOp) -> Value:
        '''select(x <= 0, 0, x).'''
        return b.prim.select(…)

A rule builds simpler operations through `b` (`prim`, or `hl` and `bwd` ops, which are decomposed in their turn) and returns
one value a result. It changes nothing of `op`, but may take its regions away. New operations get the location of `op`, fused
with the pass's name and called as the op, by themselves; a value whose type says less or more of its sizes than the result's
gets a `prim.shape_cast`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from gradopt.ir.values import Value
from gradopt.lowering.rule_modules import import_rule_modules

__all__ = ["PRESERVED_BY_DEFAULT", "Decomposition", "decomposition", "find_decomposition"]

Decomposition: TypeAlias = Callable[..., Value | Sequence[Value]]
RuleFunction = TypeVar("RuleFunction", bound=Callable[..., Any])

# what `preserve=default` names: the ops that have a kernel of their own because prim cannot be fused into it
PRESERVED_BY_DEFAULT: frozenset[str] = frozenset({"hl.attention", "bwd.attention"})

_RULES: dict[str, Decomposition] = {}


def decomposition(*names: str) -> Callable[[RuleFunction], RuleFunction]:
    """Registers `rule(builder, op)` for the operations with these full names. Raises ValueError where one has a rule
    already."""
    def decorate(function: RuleFunction) -> RuleFunction:
        for name in names:
            if name in _RULES:
                raise ValueError(f"'{name}' has two decompositions: {_RULES[name].__module__} and {function.__module__}")
            _RULES[name] = function
        return function
    return decorate


def find_decomposition(name: str) -> Decomposition | None:
    """The decomposition of an operation, if it has one."""
    found = _RULES.get(name)
    if found is None and name.split(".", 1)[0] in ("hl", "bwd"):
        import_rule_modules("gradopt.lowering.decompose.rules")
        found = _RULES.get(name)
    return found
