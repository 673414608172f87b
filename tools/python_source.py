"""`--emit=python`: Python that builds the module with `gradopt.ir.builder`, an operation a line.

    block0 = Builder(Block([parse_type('tensor<4xf32>')]))
    x, = block0.block.arguments
    y = block0.hl.tanh(x)
    block0.func.return_(y)

What is written defines `build()`, whose module prints as the one that was read. Locations are left out.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence

from gradopt.ir.attributes import Attribute
from gradopt.ir.declare import InvalidOperation
from gradopt.ir.diagnostics import GradoptError
from gradopt.ir.operation import Block, Operation, UnregisteredOp
from gradopt.ir.types import Type
from gradopt.ir.values import Value

__all__ = ["python_source"]

HEADING = '''"""Builds a module of gradopt (written by `gradopt --emit=python`)."""

from gradopt.ir.builder import Builder
from gradopt.ir.operation import Block, Operation, Region
from gradopt.parser import parse_attribute, parse_type


def build() -> Operation:
    """The module."""
    top = Builder(Block())
'''
ENDING = '''    return module


if __name__ == "__main__":
    print(build(), end="")
'''
RESERVED = frozenset({"Block", "Builder", "Operation", "Region", "build", "made", "module", "parse_attribute", "parse_type", "top"})


def python_source(module: Operation) -> str:
    """The source. Raises GradoptError for what a builder cannot say: operations of unknown dialects, successors, resources, and a
    value that is used before the line that makes it."""
    return HEADING + "".join(f"    {line}\n" for line in _Writer().lines(module)) + ENDING


class _Writer:
    """The names that are given so far."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set(RESERVED)
        self.builders: dict[Block, str] = {}

    def lines(self, module: Operation) -> Iterator[str]:
        """Blocks before the operations in them, these before the operation that holds the block."""
        pending: list[tuple[Operation, bool]] = [(module, False)]
        while pending:
            op, inside = pending.pop()
            blocks = [block for region in op.regions for block in region.blocks]
            if inside or not blocks:
                yield from self._operation(op)
                continue
            pending.append((op, True))
            for block in blocks:
                yield from self._block(block)
            pending += [(inner, False) for block in reversed(blocks) for inner in reversed(list(block.operations))]

    def _block(self, block: Block) -> Iterator[str]:
        name = self.builders[block] = f"block{len(self.builders)}"
        self.taken.add(name)
        yield f"{name} = Builder(Block([{', '.join(_type(argument.type) for argument in block.arguments)}]))"
        if block.arguments:
            yield f"{', '.join(self._name(argument) for argument in block.arguments)}, = {name}.block.arguments"
            yield from self._given_names(block.arguments)

    def _operation(self, op: Operation) -> Iterator[str]:
        _check(op)
        place = "top" if op.parent is None else self.builders[op.parent]
        inputs = [self._operand(op, operand) for operand in op.operands]
        keywords = self._keywords(op)
        dialect, _, name = op.name.partition(".")
        if op.parent is None or op.attributes or not name.isidentifier():
            holder = "module" if op.parent is None else "made"
            given = [repr(op.name), f"[{', '.join(inputs)}]", *keywords]
            yield f"{holder} = {place}.create({', '.join(given)})"
            for key, value in op.attributes.items():
                yield f"{holder}.attributes[{key!r}] = {_attribute(value)}"
            if op.results:
                yield f"{', '.join(self._name(result) for result in op.results)}, = {holder}.results"
        else:
            method = f"{name}_" if keyword.iskeyword(name) else name
            call = f"{place}.{dialect}.{method}({', '.join([*inputs, *keywords])})"
            yield f"{', '.join(self._name(result) for result in op.results)} = {call}" if op.results else call
        yield from self._given_names(op.results)

    def _keywords(self, op: Operation) -> list[str]:
        """Result types (where they do not follow), regions and attributes (where they are not the defaults)."""
        found = []
        if not _follows(op):
            found.append(f"result_types=[{', '.join(_type(type) for type in op.result_types)}]")
        if op.regions:
            regions = [f"Region([{', '.join(f'{self.builders[block]}.block' for block in region.blocks)}])" for region in op.regions]
            found.append(f"regions=[{', '.join(regions)}]")
        for name, value in op.properties.items():
            if op.definition.defaults.get(name) != value:
                found.append(f"{name}={_plain(op, name, value)}")
        found += [f"{name}=None" for name in op.definition.defaults if name not in op.properties]
        return found

    def _operand(self, op: Operation, value: Value) -> str:
        if value not in self.names:
            raise GradoptError.at(op.location, f"'{op.name}' op uses a value before the operation that makes it: no builder can say that")
        return self.names[value]

    def _given_names(self, values: Sequence[Value]) -> Iterator[str]:
        for value in values:
            if value.name is not None:
                yield f"{self.names[value]}.name = {value.name!r}"

    def _name(self, value: Value) -> str:
        """A Python name of its own for a value, like its name in the text."""
        base = re.sub(r"\W", "_", value.name or "", flags=re.ASCII)
        if not base.isidentifier() or keyword.iskeyword(base) or re.fullmatch(r"block\d+", base):
            base = f"v{base}"
        name, count = base, 0
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        self.names[value] = name
        return name


def _check(op: Operation) -> None:
    if isinstance(op, UnregisteredOp):
        raise GradoptError.at(op.location, f"'{op.name}' op is of no dialect that is known here: no builder can make it")
    if op.successors:
        raise GradoptError.at(op.location, f"'{op.name}' op has successors: no builder can make it")


def _follows(op: Operation) -> bool:
    """True if the result types follow from operands and attributes."""
    if not op.definition.can_infer:
        return not op.results
    try:
        return list(op.infer()) == list(op.result_types)  # type: ignore[attr-defined]
    except InvalidOperation:
        return False


def _plain(op: Operation, name: str, value: Attribute) -> str:
    """An attribute as the Python value that makes it, or as text."""
    kind = op.definition.attributes[name].kind
    read = kind.read(value)
    listed = _listed(read)
    return _attribute(value) if listed is None or kind.make(read) != value else listed


def _listed(value: object) -> str | None:
    """A literal of plain numbers and strings, and of lists of them; None for anything else."""
    if isinstance(value, tuple):
        items = [_listed(item) for item in value]
        return None if None in items else f"[{', '.join(map(str, items))}]"
    return repr(value) if isinstance(value, (bool, int, str)) else None


def _type(type: Type) -> str:
    return f"parse_type({type.text!r})"


def _attribute(value: Attribute) -> str:
    return f"parse_attribute({value.text!r})"
