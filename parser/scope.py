"""Names while a text becomes IR: values (also before they are defined) and blocks, region by region."""

from __future__ import annotations

from gradopt.ir.operation import Block
from gradopt.ir.types import Type
from gradopt.ir.values import Value

__all__ = ["NameFault", "Scope"]


class NameFault(Exception):
    """What is wrong with a name: a message, and a note about another value where there is one."""

    def __init__(self, message: str, other: Value | None = None, note: str = "") -> None:
        super().__init__(message)
        self.message, self.other, self.note = message, other, note


class Scope:
    """The names of one region. Names of the scopes around it are visible unless it is isolated.

    A name that is used before it is defined gets a placeholder, which its definition replaces (`forward`: shared by the scopes up to the
    next isolated one)."""

    __slots__ = ("blocks", "forward", "outer", "values")

    def __init__(self, outer: Scope | None = None) -> None:
        self.values: dict[str, Value] = {}
        self.blocks: dict[str, Block] = {}
        self.forward: dict[str, tuple[Value, int]] = {} if outer is None else outer.forward
        self.outer = outer

    def find(self, name: str) -> Value | None:
        """The value of a name, here or in a scope around."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.values.get(name)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def use(self, name: str, type: Type | None, offset: int) -> Value:
        """The value of a name that must have `type` (None: any). Raises NameFault."""
        value = self.find(name)
        if value is None:
            waiting = self.forward.get(name)
            if waiting is None:
                if type is None:
                    raise NameFault(f"use of undeclared SSA value name '%{name}'")
                value = Value(type)
                self.forward[name] = (value, offset)
                return value
            value = waiting[0]
        if type is not None and value.type is not type:
            raise NameFault(f"use of value '%{name}' expects different type than prior uses: '{type.text}' vs '{value.type.text}'",
                            value, "prior use here")
        return value

    def define(self, name: str, value: Value) -> None:
        """Gives a value its name. Raises NameFault for a name that is taken or was used with another type."""
        previous = self.find(name)
        if previous is not None:
            raise NameFault(f"redefinition of SSA value '%{name}'", previous, "previously defined here")
        waiting = self.forward.pop(name, None)
        if waiting is not None:
            if waiting[0].type is not value.type:
                raise NameFault(f"definition of SSA value '%{name}' has type '{value.type.text}'; previously used here with type "
                                f"'{waiting[0].type.text}'", waiting[0], "previously used here")
            waiting[0].replace_all_uses_with(value)
        self.values[name] = value
