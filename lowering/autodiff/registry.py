"""The table of derivative rules: one function an operation and mode. Rules live in `lowering/autodiff/rules/<family>.py`.

A reverse rule gets the operation as it stands in the forward part, and one cotangent a result (None: it is structurally zero;
at least one is a value). It returns one entry an operand, which may be

* a Value: that operand's cotangent;
* a callable without arguments that builds the Value: it is called only if that operand's gradient is wanted;
* None: structurally zero (no derivative, an integer operand).

Entries at the end may be left out, and a lone entry needs no list around it:

    @reverse_rule("hl.softmax")
    def softmax(context: ReverseContext, op: Operation, dy: Value) -> Gradients:
        '''dx = (dy - sum(dy * y)) * y.'''
        return context.builder.bwd.softmax(op.results[0], dy, axis=op.axis, masked=context.masked)

    @reverse_rule("prim.div")
    def divide(context, op, g):
        '''d(x/y)/dx = 1/y,  d(x/y)/dy = -(x/y)/y.'''
        x, y = op.operands
        return (lambda: context.scale(g, context.builder.prim.recip(y)),
                lambda: …)

A forward rule gets one tangent an operand (None: structurally zero; at least one is a value) and returns one entry a result.
Forward rules exist for `prim` only; everything else is decomposed in place first. The same holds for a reverse rule that is
missing.

Masked lanes (zero cotangents that must win over an infinite local derivative): a rule multiplies a cotangent or tangent by a
local derivative with `context.scale(g, d)` only, and hands `masked=context.masked` to the `bwd` op that it builds. A rule
whose result holds zeros where lanes were cut off (where, gather, pad, relu …) is registered with `masks=True`; an entry of such a
rule that cuts off nothing may be wrapped in `context.keep(value)`.

A rule builds IR through `context.builder` and returns values; it never changes the operation that it is given. New operations
get the location of that operation, fused with the pass's name, by themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union

from gradopt.ir.values import Value
from gradopt.lowering.rule_modules import import_rule_modules

if TYPE_CHECKING:
    from gradopt.lowering.autodiff.context import ForwardContext, ReverseContext
    from gradopt.lowering.autodiff.engine import Derivative

__all__ = ["ForwardContext", "Gradients", "ReverseContext", "Rule", "Tangents", "find_forward_rule", "find_reverse_rule",
           "forward_rule", "has_zero_derivative", "reverse_rule", "zero_derivative"]

Gradient: TypeAlias = Union[Value, "Derivative", Callable[[], Value], None]
Gradients: TypeAlias = Gradient | Sequence[Gradient]
Tangents: TypeAlias = Union[Value, "Derivative", Sequence[Union[Value, "Derivative", None]], None]
RuleFunction = TypeVar("RuleFunction", bound=Callable[..., Any])


def __getattr__(name: str) -> Any:
    """The contexts are re-exported for annotations; they are imported only when asked for."""
    if name in ("ReverseContext", "ForwardContext"):
        return getattr(importlib.import_module("gradopt.lowering.autodiff.context"), name)
    raise AttributeError(name)


@dataclass(frozen=True)
class Rule:
    """A rule's function; `masks`: what it returns may hold zeros where lanes were cut off."""

    function: Callable[..., Any]
    masks: bool


RULES = "gradopt.lowering.autodiff.rules"
_REVERSE: dict[str, Rule] = {}
_FORWARD: dict[str, Rule] = {}
_ZERO: set[str] = set()


def _register(table: dict[str, Rule], names: Sequence[str], masks: bool) -> Callable[[RuleFunction], RuleFunction]:
    def decorate(function: RuleFunction) -> RuleFunction:
        for name in names:
            if name in table:
                modules = f"{table[name].function.__module__} and {function.__module__}"
                raise ValueError(f"'{name}' has two rules for one mode: {modules}")
            table[name] = Rule(function, masks)
        return function
    return decorate


def reverse_rule(*names: str, masks: bool = False) -> Callable[[RuleFunction], RuleFunction]:
    """Registers `rule(context, op, *cotangents)` for the operations with these full names."""
    return _register(_REVERSE, names, masks)


def forward_rule(*names: str, masks: bool = False) -> Callable[[RuleFunction], RuleFunction]:
    """Registers `rule(context, op, *tangents)` for the operations with these full names."""
    return _register(_FORWARD, names, masks)


def zero_derivative(*names: str) -> None:
    """Says that the derivative of these operations is structurally zero in both modes (floor, sign, comparisons …).

    Operations whose results are all integers need not be named."""
    _ZERO.update(names)


def find_reverse_rule(name: str) -> Rule | None:
    """The reverse rule of an operation, if it has one."""
    import_rule_modules(RULES)
    return _REVERSE.get(name)


def find_forward_rule(name: str) -> Rule | None:
    """The forward rule of an operation, if it has one."""
    import_rule_modules(RULES)
    return _FORWARD.get(name)


def has_zero_derivative(name: str) -> bool:
    """True where `zero_derivative` names the operation."""
    import_rule_modules(RULES)
    return name in _ZERO
