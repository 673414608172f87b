"""Names while a text becomes IR: values (also before they are defined) and blocks, region by region."""

from __future__ import annotations

from gradopt.ir.operation import Block
from gradopt.ir.types import Type
from gradopt.ir.values import Value

__all__ = ["Forward", "NameFault", "Scope"]


class NameFault(Exception):
    """What is wrong with a name: a message, and a note about another value where there is one (or the offset of its first use)."""

    def __init__(self, message: str, other: Value | None = None, note: str = "", offset: int = -1) -> None:
        super().__init__(message)
        self.message, self.other, self.note, self.offset = message, other, note, offset


class Forward:
    """A value that is used before it is defined: a placeholder, where it is first used, and the region in which that happens."""

    __slots__ = ("offset", "scope", "value")

    def __init__(self, value: Value, offset: int, scope: Scope) -> None:
        self.value, self.offset, self.scope = value, offset, scope


class Scope:
    """The names of one region (values with their `%`, blocks with their `^`). Names of all scopes around it are visible: MLIR lets no
    region, isolated or not, define a visible name again.

    A name that is used before it is defined gets a placeholder, which its definition replaces (`forward`: shared by the scopes up to
    the next isolated one, at whose end every name must be defined)."""

    __slots__ = ("blocks", "depth", "forward", "outer", "values")

    def __init__(self, outer: Scope | None = None, isolated: bool = False) -> None:
        self.outer: Scope | None = outer
        self.values: dict[str, Value] = {}
        self.blocks: dict[str, Block] = {}
        self.forward: dict[str, Forward] = {} if isolated or outer is None else outer.forward
        self.depth: int = 0 if outer is None else outer.depth + 1

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
        """The value of a name that must have `type` (None: any); `%x`, `%x#0` and `%x#00` are the same. Raises NameFault."""
        if "#0" in name:
            stem, _, number = name.partition("#")
            number = number.lstrip("0")
            name = f"{stem}#{number}" if number else stem
        value = self.find(name)
        first = -1
        if value is None:
            waiting = self.forward.get(name)
            if waiting is None:
                if type is None or ("#" in name and self.find(name.split("#")[0]) is not None):
                    raise NameFault(self._undeclared(name))
                value = Value(type)
                self.forward[name] = Forward(value, offset, self)
                return value
            value, first = waiting.value, waiting.offset
        if type is not None and value.type is not type:
            raise NameFault(f"use of value '{name}' expects different type than prior uses: '{type.text}' vs '{value.type.text}'",
                            value, "prior use here", first)
        return value

    def _undeclared(self, name: str) -> str:
        stem, mark, _ = name.partition("#")
        if mark and self.find(stem) is not None:
            return f"reference to invalid result number: '{name}'"
        return f"use of undeclared SSA value name '{name}'"

    def define(self, name: str, value: Value) -> None:
        """Gives a value its name. Raises NameFault for a name that is taken or was used with another type."""
        previous = self.find(name)
        if previous is not None:
            raise NameFault(f"redefinition of SSA value '{name}'", previous, "previously defined here")
        waiting = self.forward.get(name) if self.forward else None
        if waiting is not None and self.sees(waiting.scope):
            del self.forward[name]
            if waiting.value.type is not value.type:
                raise NameFault(f"definition of SSA value '{name}' has type '{value.type.text}'; previously used here with type "
                                f"'{waiting.value.type.text}'", waiting.value, "previously used here", waiting.offset)
            waiting.value.replace_all_uses_with(value)
        self.values[name] = value

    def sees(self, inner: Scope) -> bool:
        """True if `inner` is this scope or one inside it: a name that is defined here is visible there."""
        scope: Scope | None = inner
        while scope is not None and scope.depth > self.depth:
            scope = scope.outer
        return scope is self

    def known_names(self) -> list[str]:
        """All names that are visible."""
        names: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            names += scope.values
            scope = scope.outer
        return names
