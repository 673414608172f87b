"""Values: results of operations and arguments of blocks, with their users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradopt.ir.locations import UNKNOWN_LOCATION, AnyLocation
from gradopt.ir.types import Type

if TYPE_CHECKING:
    from gradopt.ir.operation import Block, Operation

__all__ = ["BlockArgument", "OperationResult", "Value"]


class Value:
    """An SSA value. `users` holds each operation that reads it once, in the order of first use; `name` is a hint for printing."""

    __slots__ = ("name", "type", "users")

    def __init__(self, type: Type, name: str | None = None) -> None:
        self.type = type
        self.name = name
        self.users: dict[Operation, None] = {}

    def replace_all_uses_with(self, other: Value) -> None:
        """Every operand that is this value becomes `other`."""
        if other is self:
            return
        for user in self.users:
            user._operands = tuple(other if operand is self else operand for operand in user._operands)
            other.users[user] = None
        self.users = {}
        if other.name is None:
            other.name = self.name

    @property
    def defining_op(self) -> Operation | None:
        """The operation whose result this is; None for a block argument."""
        return None


class OperationResult(Value):
    """Result number `index` of `owner`."""

    __slots__ = ("index", "owner")

    def __init__(self, owner: Operation, index: int, type: Type, name: str | None = None) -> None:
        self.type = type
        self.name = name
        self.users = {}
        self.owner, self.index = owner, index

    @property
    def defining_op(self) -> Operation:
        return self.owner

    def __repr__(self) -> str:
        return f"<result {self.index} of {self.owner.name}: {self.type.text}>"


class BlockArgument(Value):
    """Argument number `index` of `owner`."""

    __slots__ = ("index", "location", "owner")

    def __init__(self, owner: Block, index: int, type: Type, name: str | None = None,
                 location: AnyLocation = UNKNOWN_LOCATION) -> None:
        super().__init__(type, name)
        self.owner, self.index, self.location = owner, index, location

    def __repr__(self) -> str:
        return f"<block argument {self.index}: {self.type.text}>"
