"""Checks a program against its declarations: counts, types, attributes, type rules, terminators, dominance, symbols. Iterative."""

from __future__ import annotations

from gradopt.ir.declare import ANY_TYPE, GRAPH_REGION, ISOLATED, SYMBOL_TABLE, TERMINATOR, InvalidOperation, OperandField
from gradopt.ir.diagnostics import Diagnostic
from gradopt.ir.dialect import near_miss
from gradopt.ir.operation import Block, Operation, Region, UnregisteredOp
from gradopt.ir.symbols import symbol_name
from gradopt.ir.types import compatible
from gradopt.ir.values import BlockArgument, Value

__all__ = ["verify"]


def verify(root: Operation) -> list[Diagnostic]:
    """Every error in an operation and all inside it, in program order; an empty list where all is well."""
    errors: list[Diagnostic] = []
    for op in root.walk():
        if not isinstance(op, UnregisteredOp):
            _verify_declared(op, errors)
        if op.regions:
            for region in op.regions:
                _verify_region(op, region, errors)
            if op.has_trait(SYMBOL_TABLE):
                _verify_symbols(op, errors)
    return errors


def _error(op: Operation, message: str, errors: list[Diagnostic]) -> Diagnostic:
    diagnostic = Diagnostic(op.location, f"'{op.name}' op {message}")
    errors.append(diagnostic)
    return diagnostic


def _verify_declared(op: Operation, errors: list[Diagnostic]) -> None:
    """One error an operation: the first that is found."""
    try:
        _check_declared(op)
    except InvalidOperation as invalid:
        diagnostic = _error(op, invalid.message, errors)
        for place, text in invalid.notes:
            diagnostic.note(place, text)


def _check_declared(op: Operation) -> None:
    definition = op.definition
    if definition.is_flat:
        if len(op._operands) != len(definition.operands):
            raise InvalidOperation(f"takes {definition.operand_count_text()}, found {len(op._operands)}")
        for field, operand in zip(definition.operands, op._operands):
            constraint = field.constraint
            if constraint is not ANY_TYPE and not constraint.accepts(operand.type):
                raise InvalidOperation(f"operand '{field.name}' must be {constraint.name}, found {operand.type.text}")
    else:
        segments = definition.segments(op)
        for field in definition.operands:
            for operand in op._operands[segments[field.name]]:
                if not field.constraint.accepts(operand.type):
                    kind = "operand" if isinstance(field, OperandField) else "each operand of"
                    raise InvalidOperation(f"{kind} '{field.name}' must be {field.constraint.name}, found {operand.type.text}")
    _check_attributes(op)
    _check_counts(op)
    if definition.can_infer:
        _check_inferred(op)
    for index, result in enumerate(op.results):
        result_field = definition.results[min(index, len(definition.results) - 1)]
        if not result_field.constraint.accepts(result.type):
            raise InvalidOperation(f"result '{result_field.name}' must be {result_field.constraint.name}, found {result.type.text}")
    if definition.has_verify:
        op.verify()  # type: ignore[attr-defined]


def _check_attributes(op: Operation) -> None:
    declared = op.definition.attributes
    if not declared and not op.properties:
        return
    for name, field in declared.items():
        value = op.properties.get(name)
        if value is None:
            if field.default is None and not field.optional:
                raise InvalidOperation(f"requires attribute '{name}'")
        elif value is not field.default and field.kind.read(value) is None:
            raise InvalidOperation(f"attribute '{name}' must be {field.kind.name}, found {value.text}")
    for name in op.properties:
        if name not in declared:
            raise InvalidOperation(f"has no attribute '{name}'{near_miss(name, declared)}")


def _check_counts(op: Operation) -> None:
    definition = op.definition
    results = len(definition.results)
    if (definition.fixed_results and len(op.results) != results) or len(op.results) < results - (not definition.fixed_results):
        raise InvalidOperation(f"has {len(op.results)} results, expected {results}")
    regions = definition.regions
    variadic = bool(regions) and regions[-1].variadic
    if len(op.regions) != len(regions) and not (variadic and len(op.regions) >= len(regions) - 1):
        raise InvalidOperation(f"has {len(op.regions)} regions, expected {len(regions)}")


def _check_inferred(op: Operation) -> None:
    expected = op.infer()  # type: ignore[attr-defined]
    if len(expected) != len(op.results):
        raise InvalidOperation(f"has {len(op.results)} results, expected {len(expected)}")
    for index, (result, type) in enumerate(zip(op.results, expected)):
        if result.type is not type and not compatible(result.type, type):
            which = f"result {index}" if len(expected) > 1 else "result"
            raise InvalidOperation(f"{which} has type {result.type.text}, expected {type.text}")


def _verify_region(op: Operation, region: Region, errors: list[Diagnostic]) -> None:
    graph = op.has_trait(GRAPH_REGION) or isinstance(op, UnregisteredOp)
    for block in region.blocks:
        if not graph:
            last = block.last
            if last is None:
                _error(op, "expects a non-empty block that ends in a terminator", errors)
            elif not last.has_trait(TERMINATOR) and not isinstance(last, UnregisteredOp):
                _error(last, "must be a terminator: it ends its block", errors)
        for inner in block.operations:
            if inner.has_trait(TERMINATOR) and inner is not block.last:
                _error(inner, "must be the last operation in the parent block", errors)
    if len(region.blocks) == 1 and not graph:
        _verify_straight(region.blocks[0], errors)
    elif not graph:
        _verify_dominance(region, errors)
    if op.has_trait(ISOLATED):
        _verify_isolated(op, region, errors)


def _verify_straight(block: Block, errors: list[Diagnostic]) -> None:
    """In a block, each operand from the same block is defined before it is used."""
    seen: set[Operation] = set()
    for op in block.operations:
        for operand in op._operands:
            defining = operand.defining_op
            if defining is not None and defining.parent is block and defining not in seen:
                _error(op, "uses a value before it is defined: operand does not dominate this use", errors).note(
                    defining.location, "operand defined here")
        seen.add(op)


def _verify_dominance(region: Region, errors: list[Diagnostic]) -> None:
    """Across blocks: a definition's block dominates every block that uses it (Cooper, Harvey and Kennedy's iteration)."""
    from gradopt.ir.dominance import Dominance

    dominance = Dominance(region)
    for block in region.blocks:
        for op in block.operations:
            for operand in op._operands:
                if not dominance.dominates_use(operand, op):
                    _error(op, "uses a value before it is defined: operand does not dominate this use", errors)


def _verify_isolated(op: Operation, region: Region, errors: list[Diagnostic]) -> None:
    """No operation inside reads a value from outside."""
    inside: set[Region] = {region}
    pending = [region]
    while pending:
        for block in pending.pop().blocks:
            for inner in block.operations:
                for nested in inner.regions:
                    if not inner.has_trait(ISOLATED):
                        inside.add(nested)
                        pending.append(nested)
                for operand in inner._operands:
                    home = owner_region(operand)
                    if home is not None and home not in inside:
                        _error(inner, f"using value defined outside the region: '{op.name}' op is isolated", errors).note(
                            op.location, "required by region isolation constraints")


def owner_region(value: Value) -> Region | None:
    """The region in which a value is defined."""
    if isinstance(value, BlockArgument):
        return value.owner.parent
    defining = value.defining_op
    return defining.parent_region if defining is not None else None


def _verify_symbols(table: Operation, errors: list[Diagnostic]) -> None:
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
