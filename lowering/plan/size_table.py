"""The size table of a program: where each named size comes from, and what is computed from them."""

from __future__ import annotations

from gradopt.ir.sizes import Size, SizeExpression, UnknownSize
from gradopt.lowering.native.program import Computed, Dimension, SizeEntry, SizeLike, SizeRef, Static, Variable

__all__ = ["SizeTable"]


class SizeTable:
    """Collects entries; `like(size)` gives a number or a reference to an entry that holds the size."""

    def __init__(self) -> None:
        self.entries: list[SizeEntry] = []
        self.names: dict[str, int] = {}
        self._computed: dict[object, int] = {}

    def add(self, entry: SizeEntry) -> int:
        """The position of an entry (equal ones are shared, variables never)."""
        if not isinstance(entry, Variable) and entry in self._computed:
            return self._computed[entry]
        self.entries.append(entry)
        position = len(self.entries) - 1
        if not isinstance(entry, Variable):
            self._computed[entry] = position
        return position

    def bind(self, name: str, argument: int, axis: int) -> None:
        """A name is the size of an argument's axis (the first binding holds, the others are checked)."""
        if name not in self.names:
            self.names[name] = self.add(Dimension(argument, axis))

    def variable(self, name: str | None = None) -> SizeRef:
        """An entry that instructions write."""
        position = self.add(Variable())
        if name is not None:
            self.names[name] = position
        return SizeRef(position)

    def like(self, size: Size) -> SizeLike:
        """A size for the program. Raises KeyError for a name that nothing binds."""
        if isinstance(size, int):
            return size
        assert not isinstance(size, UnknownSize), "an unknown size has no entry"
        return SizeRef(self._entry(size))

    def combine(self, operation: str, left: SizeLike, right: SizeLike) -> SizeLike:
        """left `operation` right."""
        if isinstance(left, int) and isinstance(right, int):
            if operation == "add":
                return left + right
            if operation == "mul":
                return left * right
        return SizeRef(self.add(Computed(operation, self._position(left), self._position(right))))

    def _position(self, size: SizeLike) -> int:
        return size.index if isinstance(size, SizeRef) else self.add(Static(size))

    def _entry(self, size: Size) -> int:
        if isinstance(size, int):
            return self.add(Static(size))
        assert isinstance(size, SizeExpression)
        total: int | None = None
        for monomial, coefficient in size.terms:
            term: int | None = None
            for atom in monomial:
                part = self._atom(atom)
                term = part if term is None else self.add(Computed("mul", term, part))
            if term is None:
                term = self.add(Static(coefficient))
            elif coefficient != 1:
                term = self.add(Computed("mul", term, self.add(Static(coefficient))))
            total = term if total is None else self.add(Computed("add", total, term))
        return self.add(Static(0)) if total is None else total

    def _atom(self, atom: object) -> int:
        if isinstance(atom, str):
            return self.names[atom]
        assert isinstance(atom, tuple)
        kind, numerator, denominator = atom
        return self.add(Computed(kind, self._entry(numerator), self._entry(denominator)))
