"""Deep copies of operations and regions, without recursion."""

from __future__ import annotations

from gradopt.ir.operation import Block, Operation, Region, UnregisteredOp
from gradopt.ir.values import Value


def clone_shallow(op: Operation, mapping: dict[Value, Value], regions: list[Region],
                  blocks: dict[Block, Block]) -> Operation:
    """A copy of `op` with new regions; operands and successors go through the mappings, results are added to `mapping`."""
    operands = [mapping.get(operand, operand) for operand in op._operands]
    types = [result.type for result in op.results]
    arguments = (operands, types, dict(op.properties), dict(op.attributes), regions,
                 [blocks.get(successor, successor) for successor in op.successors], op.location)
    copy = UnregisteredOp(op.name, *arguments) if isinstance(op, UnregisteredOp) else type(op)(*arguments)
    for old, new in zip(op.results, copy.results):
        new.name = old.name
        mapping[old] = new
    return copy


def clone_operation(op: Operation, mapping: dict[Value, Value]) -> Operation:
    """A detached deep copy of `op` (see `Operation.clone`).

    Operands that refer to a value defined later (graph regions) are patched at the end.
    """
    blocks: dict[Block, Block] = {}
    root = clone_shallow(op, mapping, [Region() for _ in op.regions], blocks)
    copies: list[tuple[Operation, Operation]] = [(op, root)]
    pending = list(zip(op.regions, root.regions))
    while pending:
        region, target = pending.pop()
        for block in region.blocks:
            twin = Block(name=block.name)
            for argument in block.arguments:
                mapping[argument] = twin.add_argument(argument.type, argument.name, argument.location)
            blocks[block] = target.add_block(twin)
        for block in region.blocks:
            for inner in block.operations:
                copy = clone_shallow(inner, mapping, [Region() for _ in inner.regions], blocks)
                blocks[block].append(copy)
                copies.append((inner, copy))
                pending += zip(inner.regions, copy.regions)
    for old, new in copies:
        if any(mapping.get(operand, operand) is not mine for operand, mine in zip(old._operands, new._operands)):
            new.operands = [mapping.get(operand, operand) for operand in old._operands]
    return root


def clone_region_into(region: Region, target: Region, mapping: dict[Value, Value]) -> None:
    """Copies all blocks of `region` to the end of `target`."""
    holder = Operation.__new__(UnregisteredOp)
    UnregisteredOp.__init__(holder, "clone.holder")
    holder.regions = (region,)
    copy = clone_operation(holder, mapping)
    for block in list(copy.regions[0].blocks):
        target.add_block(block)


def inline_block(block: Block, operands: list[Value], builder: object) -> list[Value]:
    """Copies a block's operations (without its terminator) to the builder's place, its arguments replaced by `operands`.

    Returns the values that the terminator would have passed on."""
    from gradopt.ir.builder import Builder

    assert isinstance(builder, Builder)
    mapping: dict[Value, Value] = dict(zip(block.arguments, operands))
    terminator = block.last
    assert terminator is not None
    for op in block.operations:
        if op is not terminator:
            builder.insert(op.clone(mapping))
    return [mapping.get(value, value) for value in terminator.operands]
