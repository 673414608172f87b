"""Operations, blocks and regions. A block is a doubly linked list of operations, so inserting and erasing cost O(1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from gradopt.ir.attributes import Attribute
from gradopt.ir.locations import UNKNOWN_LOCATION, AnyLocation
from gradopt.ir.types import Type
from gradopt.ir.values import BlockArgument, OperationResult, Value

if TYPE_CHECKING:
    from gradopt.ir.declare import Definition

__all__ = ["Block", "Operation", "Region", "UnregisteredOp"]


class Operation:
    """An operation. A declared one is a subclass with a `name` and typed fields (see `declare.py`); any other is an `UnregisteredOp`.

    `properties` are the inherent attributes, `attributes` the discardable ones. An `UnregisteredOp` may have one attribute instead of
    properties: it has the name "". The constructor takes the parts as they are; `builder.py` infers result types and fills in defaults.
    """

    __slots__ = ("_operands", "attributes", "location", "next", "order", "parent", "previous", "properties", "regions",
                 "results", "successors")
    name: str
    definition: ClassVar[Definition]
    _define: ClassVar[Callable[[type[Operation]], None] | None] = None  # set by declare.py, which builds `definition`

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if Operation._define is not None:
            Operation._define(cls)

    def __init__(self, operands: Sequence[Value] = (), result_types: Sequence[Type] = (),
                 properties: dict[str, Attribute] | None = None, attributes: dict[str, Attribute] | None = None,
                 regions: Sequence[Region] = (), successors: Sequence[Block] = (),
                 location: AnyLocation = UNKNOWN_LOCATION) -> None:
        self._operands = tuple(operands)
        for operand in self._operands:
            operand.users[self] = None
        self.results = tuple([OperationResult(self, index, type) for index, type in enumerate(result_types)])
        self.properties = {} if properties is None else properties
        self.attributes = {} if attributes is None else attributes
        self.regions = tuple(regions)
        for region in self.regions:
            region.parent = self
        self.successors = tuple(successors)
        self.location = location
        self.parent: Block | None = None
        self.previous: Operation | None = None
        self.next: Operation | None = None
        self.order = 0

    # --- operands and results

    @property
    def operands(self) -> tuple[Value, ...]:
        """The operands; assign a sequence to replace them all."""
        return self._operands

    @operands.setter
    def operands(self, operands: Sequence[Value]) -> None:
        for operand in self._operands:
            operand.users.pop(self, None)
        self._operands = tuple(operands)
        for operand in self._operands:
            operand.users[self] = None

    def set_operand(self, index: int, value: Value) -> None:
        """Replaces one operand."""
        operands = list(self._operands)
        operands[index] = value
        self.operands = operands

    @property
    def result_types(self) -> tuple[Type, ...]:
        """The types of the results."""
        return tuple(result.type for result in self.results)

    def attribute(self, name: str) -> Attribute | None:
        """A property or a discardable attribute by name."""
        found = self.properties.get(name)
        return found if found is not None else self.attributes.get(name)

    def has_trait(self, trait: str) -> bool:
        """True if the declaration names the trait."""
        return trait in self.definition.traits

    # --- place in the program

    @property
    def parent_op(self) -> Operation | None:
        """The operation around this one."""
        return self.parent.parent.parent if self.parent is not None and self.parent.parent is not None else None

    @property
    def parent_region(self) -> Region | None:
        """The region around this operation."""
        return self.parent.parent if self.parent is not None else None

    def is_before(self, other: Operation) -> bool:
        """True if this operation stands before `other` in the same block. Numbers the block where needed."""
        assert self.parent is not None and self.parent is other.parent
        if not self.parent.ordered:
            self.parent.number()
        return self.order < other.order

    def detach(self) -> Operation:
        """Takes the operation out of its block and returns it; its operands stay."""
        block = self.parent
        if block is not None:
            if self.previous is None:
                block.first = self.next
            else:
                self.previous.next = self.next
            if self.next is None:
                block.last = self.previous
            else:
                self.next.previous = self.previous
            self.parent = self.previous = self.next = None
        return self

    def erase(self) -> None:
        """Removes the operation and all in its regions. Raises ValueError if a result is still used."""
        for result in self.results:
            if result.users:
                raise ValueError(f"'{self.name}' op is erased while a result is still used")
        self.detach()
        self.drop_references()

    def drop_references(self) -> None:
        """Lets go of the operands of this operation and of all operations in its regions."""
        for op in self.walk():
            for operand in op._operands:
                operand.users.pop(op, None)
            op._operands = ()

    def replace_with(self, values: Sequence[Value]) -> None:
        """Replaces each result with the value at its position, then erases the operation."""
        assert len(values) == len(self.results), f"'{self.name}' op: {len(values)} values for {len(self.results)} results"
        for result, value in zip(self.results, values):
            result.replace_all_uses_with(value)
        self.erase()

    # --- walking and copying

    def walk(self, reverse: bool = False) -> Iterator[Operation]:
        """This operation and all inside it, parents first (`reverse`: the whole list backwards, so children first).

        An operation may be erased or changed once it has been yielded and the next one asked for only if it holds no unvisited region.
        """
        if reverse:
            yield from reversed(list(self.walk()))
            return
        stack: list[Operation | None] = [self]
        alone = True  # the root's siblings are not walked
        while stack:
            op = stack.pop()
            if op is None:
                continue
            if not alone:
                stack.append(op.next)
            alone = False
            regions = op.regions
            yield op
            if regions:
                for region in reversed(regions):
                    for block in reversed(region.blocks):
                        if block.first is not None:
                            stack.append(block.first)

    def clone(self, mapping: dict[Value, Value] | None = None) -> Operation:
        """A deep copy, detached. `mapping` (old value to new) replaces operands and receives results and block arguments."""
        from gradopt.ir.cloning import clone_operation

        return clone_operation(self, {} if mapping is None else mapping)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} '{self.name}'>"

    def __str__(self) -> str:
        from gradopt.ir.printer import print_operation

        return print_operation(self)


class UnregisteredOp(Operation):
    """An operation that no dialect declares; it is kept as it was written."""

    __slots__ = ("name",)

    def __init__(self, name: str, *arguments: Any, **keywords: Any) -> None:
        self.name = name
        super().__init__(*arguments, **keywords)


class Block:
    """A list of operations with arguments."""

    __slots__ = ("arguments", "first", "last", "name", "ordered", "parent")

    def __init__(self, argument_types: Iterable[Type] = (), name: str | None = None) -> None:
        self.arguments = [BlockArgument(self, index, type) for index, type in enumerate(argument_types)]
        self.first: Operation | None = None
        self.last: Operation | None = None
        self.parent: Region | None = None
        self.ordered = False
        self.name = name

    def add_argument(self, type: Type, name: str | None = None, location: AnyLocation = UNKNOWN_LOCATION) -> BlockArgument:
        """Appends an argument."""
        argument = BlockArgument(self, len(self.arguments), type, name, location)
        self.arguments.append(argument)
        return argument

    def erase_argument(self, index: int) -> None:
        """Removes an argument. Raises ValueError if it is still used."""
        if self.arguments[index].users:
            raise ValueError(f"block argument {index} is erased while it is still used")
        del self.arguments[index]
        for position, argument in enumerate(self.arguments):
            argument.index = position

    @property
    def operations(self) -> Iterator[Operation]:
        """The operations in order; the one that was just yielded may be erased."""
        op = self.first
        while op is not None:
            following = op.next
            yield op
            op = following

    @property
    def terminator(self) -> Operation | None:
        """The last operation."""
        return self.last

    def __len__(self) -> int:
        return sum(1 for _ in self.operations)

    def __bool__(self) -> bool:
        return True

    def append(self, op: Operation) -> Operation:
        """Adds a detached operation at the end."""
        last = self.last
        op.parent, op.previous, op.next = self, last, None
        if last is None:
            self.first = op
            op.order = 0
            self.ordered = True
        else:
            last.next = op
            op.order = last.order + 1
        self.last = op
        return op

    def insert_before(self, anchor: Operation | None, op: Operation) -> Operation:
        """Adds a detached operation before `anchor` (at the end for None)."""
        if anchor is None:
            return self.append(op)
        assert anchor.parent is self
        op.parent, op.previous, op.next = self, anchor.previous, anchor
        if anchor.previous is None:
            self.first = op
        else:
            anchor.previous.next = op
        anchor.previous = op
        self.ordered = False
        return op

    def number(self) -> None:
        """Gives each operation its position, for `Operation.is_before`."""
        for position, op in enumerate(self.operations):
            op.order = position
        self.ordered = True

    @property
    def predecessors(self) -> list[Block]:
        """The blocks of the same region that name this one as a successor, in order."""
        if self.parent is None:
            return []
        return [block for block in self.parent.blocks if block.last is not None and self in block.last.successors]


class Region:
    """A list of blocks inside an operation."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks: list[Block] = []
        self.parent: Operation | None = None
        for block in blocks:
            self.add_block(block)

    def add_block(self, block: Block | None = None) -> Block:
        """Appends a block (a new one for None)."""
        block = Block() if block is None else block
        block.parent = self
        self.blocks.append(block)
        return block

    @property
    def block(self) -> Block:
        """The only block. Raises ValueError where there is not exactly one."""
        if len(self.blocks) != 1:
            raise ValueError(f"a region has {len(self.blocks)} blocks, expected 1")
        return self.blocks[0]

    def __bool__(self) -> bool:
        return True


def new_region(argument_types: Iterable[Type] = (), names: Sequence[str | None] = ()) -> Region:
    """A region of one empty block with arguments."""
    block = Block(argument_types)
    for argument, name in zip(block.arguments, names):
        argument.name = name
    return Region([block])
