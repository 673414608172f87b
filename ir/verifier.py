"""Checks a program against its declarations: counts, types, attributes, type rules, terminators, dominance, symbols. Iterative."""

from __future__ import annotations

from gradopt.ir.declare import (
    ANY_TYPE,
    GRAPH_REGION,
    ISOLATED,
    SYMBOL_TABLE,
    TERMINATOR,
    Definition,
    InvalidOperation,
    OperandField,
)
from gradopt.ir.diagnostics import Diagnostic
from gradopt.ir.dialect import near_miss
from gradopt.ir.dominance import Dominance
from gradopt.ir.operation import Operation, Region, UnregisteredOp
from gradopt.ir.symbols import symbol_name
from gradopt.ir.types import compatible
from gradopt.ir.values import BlockArgument, OperationResult, Value

__all__ = ["check_fields", "verify"]

FUNCTION_LIKE = ("builtin.module", "func.func")  # their regions may be empty or have several blocks


def verify(root: Operation) -> list[Diagnostic]:
    """Every error in an operation and all inside it, in program order; an empty list where all is well."""
    errors: list[Diagnostic] = []
    dominances: dict[Region, Dominance] = {}
    for op in root.walk():
        broken = False
        if not isinstance(op, UnregisteredOp):
            try:
                _check_declared(op)
            except InvalidOperation as invalid:
                broken = True
                diagnostic = _error(op, invalid.message, errors)
                for place, text in invalid.notes:
                    diagnostic.note(place, text)
        block = op.parent
        if block is not None and op is not root:
            for index, operand in enumerate(op._operands):
                if type(operand) is OperationResult and operand.owner.parent is block and block.ordered:
                    if operand.owner.order >= op.order and not _is_graph(block.parent):
                        _not_dominated(op, index, operand, errors)
                elif type(operand) is not BlockArgument or operand.owner is not block:
                    _check_use(op, index, operand, errors, dominances)
            if op.next is not None and (op.successors or op.has_trait(TERMINATOR)):
                _error(op, "must be the last operation in the parent block" if op.has_trait(TERMINATOR)
                       else "with block successors must terminate its parent block", errors)
        if op.regions:
            for region in op.regions:
                for inner in region.blocks:
                    if not inner.ordered:
                        inner.number()
                if not broken:
                    _check_blocks(op, region, errors)
            if op.has_trait(SYMBOL_TABLE):
                _check_symbols(op, errors)
    return errors


def _error(op: Operation, message: str, errors: list[Diagnostic]) -> Diagnostic:
    diagnostic = Diagnostic(op.location, f"'{op.name}' op {message}")
    errors.append(diagnostic)
    return diagnostic


# --- one operation


def _check_declared(op: Operation) -> None:
    """Raises InvalidOperation for the first thing that is wrong."""
    definition = op.definition
    check_fields(op)
    _check_results(op, definition)
    if definition.can_infer:
        _check_inferred(op)
    for index, result in enumerate(op.results):
        field = definition.results[min(index, len(definition.results) - 1)]
        if field.constraint is not ANY_TYPE and not field.constraint.accepts(result.type):
            raise InvalidOperation(f"result '{field.name}' must be {field.constraint.name}, found {result.type.text}")
    if definition.has_verify:
        op.verify()  # type: ignore[attr-defined]


def check_fields(op: Operation) -> None:
    """Operands, attributes and regions against the declaration: what a type rule may rely on. Raises InvalidOperation."""
    definition = op.definition
    operands = op._operands
    if definition.is_flat:
        if len(operands) != len(definition.operands):
            raise InvalidOperation(f"takes {definition.operand_count_text()}, found {len(operands)}")
        for field, operand in zip(definition.operands, operands):
            constraint = field.constraint
            if constraint is not ANY_TYPE and not constraint.accepts(operand.type):
                raise InvalidOperation(f"operand '{field.name}' must be {constraint.name}, found {operand.type.text}")
    if definition.attributes or op.properties:
        _check_attributes(op, definition)
    if op.regions or definition.regions:
        _check_regions(op, definition)
    if op.successors:
        raise InvalidOperation("takes no successors")
    if not definition.is_flat:
        segments = definition.segments(op)
        for field in definition.operands:
            for operand in operands[segments[field.name]]:
                if not field.constraint.accepts(operand.type):
                    kind = "operand" if isinstance(field, OperandField) else "each operand of"
                    raise InvalidOperation(f"{kind} '{field.name}' must be {field.constraint.name}, found {operand.type.text}")


def _check_attributes(op: Operation, definition: Definition) -> None:
    declared, properties = definition.attributes, op.properties
    for name, field in declared.items():
        value = properties.get(name)
        if value is None:
            if field.default is None and not field.optional:
                raise InvalidOperation(f"requires attribute '{name}'")
        elif value is not field.default and field.kind.read(value) is None:
            text = getattr(value, "value", None)
            suggestion = near_miss(text, field.kind.values) if isinstance(text, str) else ""
            raise InvalidOperation(f"attribute '{name}' must be {field.kind.name}, found {value.text}{suggestion}")
    if len(properties) > len(declared) or any([name not in declared for name in properties]):
        name = next(name for name in properties if name not in declared)
        raise InvalidOperation(f"has no attribute '{name}'{near_miss(name, declared)}")


def _check_regions(op: Operation, definition: Definition) -> None:
    fields = definition.regions
    variadic = bool(fields) and fields[-1].variadic
    if len(op.regions) != len(fields) and not (variadic and len(op.regions) >= len(fields) - 1):
        raise InvalidOperation(f"has {len(op.regions)} region{'' if len(op.regions) == 1 else 's'}, expected {len(fields)}")
    if op.name in FUNCTION_LIKE:
        return
    for index, region in enumerate(op.regions):
        if len(region.blocks) != 1:
            raise InvalidOperation(f"region #{index} must have exactly one block, found {len(region.blocks)}")
        last = region.blocks[0].last
        if last is None:
            raise InvalidOperation(f"region #{index} must not be empty: its block ends in a terminator")
        if not last.has_trait(TERMINATOR):
            raise InvalidOperation(f"region #{index} must end in a terminator, found '{last.name}' op",
                                   [(last.location, "the block ends here")])


def _check_results(op: Operation, definition: Definition) -> None:
    count = len(definition.results)
    found = len(op.results)
    if found != count and (definition.fixed_results or found < count - 1):
        raise InvalidOperation(f"has {found} result{'' if found == 1 else 's'}, expected {count}")


def _check_inferred(op: Operation) -> None:
    expected = op.infer()  # type: ignore[attr-defined]
    if len(expected) != len(op.results):
        raise InvalidOperation(f"has {len(op.results)} results, expected {len(expected)}")
    for index, (result, type) in enumerate(zip(op.results, expected)):
        if result.type is not type and not compatible(result.type, type):
            which = f"result {index}" if len(expected) > 1 else "result"
            raise InvalidOperation(f"{which} has type {result.type.text}, expected {type.text}")


# --- blocks


def _is_graph(region: Region | None) -> bool:
    """True if values of a region may be used before they are defined, in the same block."""
    owner = region.parent if region is not None else None
    return owner is None or isinstance(owner, UnregisteredOp) or owner.has_trait(GRAPH_REGION)


def _check_blocks(op: Operation, region: Region, errors: list[Diagnostic]) -> None:
    """Each block of a function, and of an operation that is not known, ends in a terminator; no branch goes to the first block."""
    blocks = region.blocks
    known = not isinstance(op, UnregisteredOp)
    if known and op.name not in FUNCTION_LIKE:
        return  # `check_fields` looked
    if op.name == "builtin.module":
        if len(blocks) != 1 or blocks[0].arguments:
            _error(op, "expects a region with one block and no arguments", errors)
        return
    if not known and len(blocks) <= 1:
        targets = [block for block in blocks if block.last is not None and block in block.last.successors]
        if targets:
            _error(op, "entry block of region may not have predecessors", errors)
        return
    for block in blocks:
        last = block.last
        if last is None:
            _error(op, "has an empty block: expect at least a terminator", errors)
        elif not isinstance(last, UnregisteredOp) and not any(inner.has_trait(TERMINATOR) for inner in block.operations):
            _error(last, "ends its block, but is no terminator", errors)  # (one that stands too early is reported itself)
    if blocks and any(block.last is not None and blocks[0] in block.last.successors for block in blocks):
        _error(op, "entry block of region may not have predecessors", errors)


def _check_use(op: Operation, index: int, operand: Value, errors: list[Diagnostic], dominances: dict[Region, Dominance]) -> None:
    """An operand from another block: the definition is visible, no isolated region lies between, and it dominates the use."""
    defining = operand.defining_op
    home = operand.owner if isinstance(operand, BlockArgument) else defining.parent if defining is not None else None
    region = home.parent if home is not None else None
    place: Operation | None = op
    barrier: Operation | None = None
    while place is not None and place.parent_region is not region:
        place = place.parent_op
        if place is not None and barrier is None and place.has_trait(ISOLATED):
            barrier = place
    if region is None or home is None or place is None or place.parent is None:
        _not_dominated(op, index, operand, errors)
        return
    if barrier is not None:
        _error(op, f"using value defined outside the region: '{barrier.name}' op is isolated", errors).note(
            barrier.location, "required by region isolation constraints")
        return
    if place.parent is home:
        if _is_graph(region) or defining is None or (defining is not place and defining.is_before(place)):
            return
    else:
        dominance = dominances.get(region)
        if dominance is None:
            dominance = dominances[region] = Dominance(region)
        if dominance.dominates(home, place.parent):
            return
    _not_dominated(op, index, operand, errors)


def _not_dominated(op: Operation, index: int, operand: Value, errors: list[Diagnostic]) -> None:
    diagnostic = _error(op, f"operand #{index} does not dominate this use: the value is used before it is defined", errors)
    defining = operand.defining_op
    if defining is not None:
        diagnostic.note(defining.location, "operand defined here")
    elif isinstance(operand, BlockArgument):
        diagnostic.note(operand.location, "operand defined as a block argument")


# --- symbols


def _check_symbols(table: Operation, errors: list[Diagnostic]) -> None:
    seen: dict[str, Operation] = {}
    for region in table.regions:
        for block in region.blocks:
            for op in block.operations:
                name = symbol_name(op)
                if name is None:
                    continue
                if name in seen:
                    errors.append(Diagnostic(op.location, f"redefinition of symbol named '{name}'").note(
                        seen[name].location, "see existing symbol definition here"))
                else:
                    seen[name] = op


