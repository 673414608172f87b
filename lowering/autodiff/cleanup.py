"""Removes what a derivative does not need: operations whose results nobody reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradopt.ir.declare import PURE, TERMINATOR
from gradopt.ir.operation import Block, Operation
from gradopt.lowering.simplify.effects import Effects

if TYPE_CHECKING:
    from gradopt.lowering.autodiff.state import State

__all__ = ["remove_dead"]


def remove_dead(block: Block, state: State | None = None, keep: Operation | None = None) -> None:
    """Erases the operations of a block that have no effect and whose results have no user, last ones first; not `keep`.

    `state` knows the callees, for a block that stands in no module yet, and the regions of hollow operations."""
    effects = Effects() if state is None else state.effects
    op = block.last
    while op is not None:
        previous = op.previous
        traits = op.definition.traits
        if PURE in traits and TERMINATOR not in traits and op is not keep and not any([result.users for result in op.results]):
            plain = not op.regions and "callee" not in op.definition.attributes
            if plain or effects.removable(op if state is None else state.deferred.origin(op)):
                op.erase()
        op = previous
