"""Removes what a derivative does not need: operations whose results nobody reads."""

from __future__ import annotations

from collections.abc import Mapping

from gradopt.ir.declare import PURE, TERMINATOR
from gradopt.ir.operation import Block, Operation
from gradopt.lowering.simplify.effects import Effects

__all__ = ["remove_dead"]


def remove_dead(block: Block, functions: Mapping[str, Operation] | None = None, keep: Operation | None = None) -> None:
    """Erases the operations of a block that have no effect and whose results have no user, last ones first; not `keep`.

    `functions` holds the callees, for a block that stands in no module yet."""
    effects = Effects(functions)
    op = block.last
    while op is not None:
        previous = op.previous
        definition = op.definition
        if (PURE in definition.traits and TERMINATOR not in definition.traits and op is not keep
                and not any([result.users for result in op.results])
                and ((not op.regions and "callee" not in definition.attributes) or effects.removable(op))):
            op.erase()
        op = previous
