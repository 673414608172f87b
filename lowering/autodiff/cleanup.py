"""Removes what a derivative does not need: operations whose results nobody reads."""

from __future__ import annotations

from gradopt.ir.declare import PURE, TERMINATOR
from gradopt.ir.operation import Block, Operation

__all__ = ["remove_dead"]


def remove_dead(block: Block, keep: Operation | None = None) -> None:
    """Erases the pure operations of a block whose results have no user, last ones first; not `keep`."""
    op = block.last
    while op is not None:
        previous = op.previous
        traits = op.definition.traits
        if op is not keep and PURE in traits and TERMINATOR not in traits and not any([result.users for result in op.results]):
            op.erase()
        op = previous
