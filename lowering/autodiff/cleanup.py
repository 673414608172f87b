"""Removes what a derivative does not need: operations whose results nobody reads."""

from __future__ import annotations

from gradopt.ir.declare import PURE, TERMINATOR
from gradopt.ir.operation import Block, Operation
from gradopt.lowering.simplify.effects import Effects

__all__ = ["remove_dead"]


def remove_dead(block: Block, keep: Operation | None = None) -> None:
    """Erases the operations of a block that have no effect and whose results have no user, last ones first; not `keep`."""
    effects = Effects()
    op = block.last
    while op is not None:
        previous = op.previous
        definition = op.definition
        if (PURE in definition.traits and TERMINATOR not in definition.traits and op is not keep
                and not any([result.users for result in op.results])
                and ((not op.regions and "callee" not in definition.attributes) or effects.removable(op))):
            op.erase()
        op = previous
