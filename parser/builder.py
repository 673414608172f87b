"""Syntax to IR: resolves names, infers types that were left out, builds operations. Iterative over regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gradopt.dialects.builtin import ModuleOp
from gradopt.ir.attributes import ArrayAttr, Attribute, DictionaryAttr, StringAttr, SymbolRefAttr, TypeAttr
from gradopt.ir.builder import attach_results
from gradopt.ir.declare import ISOLATED, InvalidOperation
from gradopt.ir.diagnostics import Diagnostic, GradoptError
from gradopt.ir.dialect import find_dialect, near_miss, operation_class
from gradopt.ir.locations import AnyLocation, Source, SourceLocation
from gradopt.ir.operation import Block, Operation, Region, UnregisteredOp
from gradopt.ir.types import FunctionType, Type
from gradopt.ir.values import BlockArgument, Value
from gradopt.ir.verifier import check_fields
from gradopt.parser.brackets import SyntaxFault
from gradopt.parser.flat import build_flat_lines
from gradopt.parser.lexer import Token
from gradopt.parser.messages import SHORT_NAMES, near_operation, unknown_operation
from gradopt.parser.places import Place
from gradopt.parser.scope import NameFault, Scope
from gradopt.parser.syntax import BlockSyntax, Callbacks, OpSyntax

__all__ = ["IRBuilder"]


class Frame:
    """A region that is being filled."""

    __slots__ = ("block", "index", "item", "items", "op", "outer", "pending", "scope", "target")

    def __init__(self, op: Operation, item: OpSyntax, index: int, scope: Scope, outer: Scope, target: Block | None,
                 pending: list[tuple[Block, BlockSyntax, Any]]) -> None:
        self.op, self.item, self.index, self.scope, self.outer, self.target = op, item, index, scope, outer, target
        self.pending: Iterator[tuple[Block, BlockSyntax, Any]] = iter(pending)  # with the tokens that name the arguments
        self.items: Iterator[Any] = iter(())
        self.block: Block | None = None

    def next_item(self, builder: IRBuilder) -> Any:
        """The next operation of the region, or None. Where a block begins, its arguments get their names."""
        while True:
            item = next(self.items, None)
            if item is not None:
                return item
            following = next(self.pending, None)
            if following is None:
                return None
            self.block, syntax, tokens = following
            for argument, token in zip(self.block.arguments, tokens):
                builder.define(self.scope, token.text, argument, token.start_pos)
            self.items = iter(syntax.operations)


class IRBuilder:
    """Builds one module."""

    def __init__(self, source: Source, callbacks: Callbacks, allow_unregistered: bool) -> None:
        self.source, self.callbacks, self.allow_unregistered = source, callbacks, allow_unregistered
        self.classes: dict[str, type[Operation] | None] = {}
        self.flat_attributes: dict[Any, tuple[dict[str, Attribute], dict[str, Attribute]]] = {}

    # --- errors

    def fail(self, offset: int, message: str, notes: Sequence[tuple[AnyLocation, str]] = ()) -> GradoptError:
        """An error at an offset."""
        diagnostic = Diagnostic(SourceLocation(self.source, max(offset, 0)), message)
        for place, text in notes:
            diagnostic.note(place, text)
        return GradoptError(diagnostic)

    def name_fault(self, fault: NameFault, offset: int) -> GradoptError:
        """A NameFault with the place of the other value."""
        other = fault.other
        place: AnyLocation | None = SourceLocation(self.source, fault.offset) if fault.offset >= 0 else None
        if place is None and isinstance(other, BlockArgument):
            place = other.location
        elif place is None and other is not None and other.defining_op is not None:
            place = other.defining_op.location
        return self.fail(offset, fault.message, [(place, fault.note)] if place is not None and fault.note else ())

    # --- regions

    def build(self, items: list[Any]) -> Operation:
        """The module of a file: its only operation if that is a module, else one around all of them."""
        holder = ModuleOp.empty()
        holder.location = SourceLocation(self.source, 0)
        syntax = OpSyntax(0, "module", "builtin.module", None, [], [], None, None,
                          [[BlockSyntax(-1, None, [], items)]], None, None, None)
        stack = [self._enter(holder, syntax, 0, Scope(), None)]
        while stack:
            frame = stack[-1]
            item = frame.next_item(self)
            if item is None:
                stack.pop()
                self._leave(frame)
                if frame.index + 1 < len(frame.item.regions):
                    stack.append(self._enter(frame.op, frame.item, frame.index + 1, frame.outer, frame.target))
                elif frame.target is not None:
                    self._complete(frame.op, frame.item, frame.outer)
                    frame.target.append(frame.op)
                continue
            assert frame.block is not None
            if not isinstance(item, OpSyntax):
                build_flat_lines(self, item, frame.scope, frame.block)
                continue
            op = self._operation(item, frame.scope)
            if item.regions:
                stack.append(self._enter(op, item, 0, frame.scope, frame.block))
            else:
                self._complete(op, item, frame.scope)
                frame.block.append(op)
        first = holder.regions[0].blocks[0].first
        if first is not None and first.next is None and first.name == "builtin.module":
            return first.detach()
        return holder

    def _enter(self, op: Operation, item: OpSyntax, index: int, outer: Scope, target: Block | None) -> Frame:
        """Makes the blocks of a region, so that names of blocks are known before they are used."""
        scope = Scope(outer, op.has_trait(ISOLATED))
        region = op.regions[index]
        region.blocks.clear()
        pending = []
        blocks = item.regions[index]
        if not blocks and item.form == "module":
            region.add_block(Block())
        for position, syntax in enumerate(blocks):
            block = region.add_block(Block())
            arguments = syntax.arguments
            if item.form == "func" and position == 0:
                assert item.properties is not None
                if syntax.name is not None and item.properties["parameters"]:
                    raise self.fail(syntax.offset, "invalid block name in region with named arguments")
                if item.properties["parameters"]:
                    arguments = [(token, type, place) for token, type, _, place in item.properties["parameters"]]
            if syntax.name is not None:
                if syntax.name in scope.blocks:
                    raise self.fail(syntax.offset, f"redefinition of block '{syntax.name}'")
                scope.blocks[syntax.name] = block
            for token, type, place in arguments:
                if "#" in token.text:
                    raise self.fail(token.start_pos, "expected valid ssa identifier: a '#' number stands at a use only")
                block.add_argument(type, hint(token.text), self.location(place, token.start_pos))
            pending.append((block, syntax, [token for token, _, _ in arguments]))
        return Frame(op, item, index, scope, outer, target, pending)

    def _leave(self, frame: Frame) -> None:
        """Every name used in an isolated region must be defined by now."""
        if frame.scope.forward and (frame.scope.outer is None or frame.scope.forward is not frame.scope.outer.forward):
            name, waiting = next(iter(frame.scope.forward.items()))
            raise self.fail(waiting.offset, f"use of undeclared SSA value name '{name}'{near_miss(name, waiting.scope.known_names())}")

    def define(self, scope: Scope, name: str, value: Value, offset: int) -> None:
        """Gives a value its name."""
        try:
            scope.define(name, value)
        except NameFault as fault:
            raise self.name_fault(fault, offset) from None

    def location(self, place: Place | None, offset: int) -> AnyLocation:
        """The location that stands behind an operation, else its place in the text."""
        if place is None:
            return SourceLocation(self.source, offset)
        try:
            return self.callbacks.places.resolve(place)
        except SyntaxFault as fault:
            raise self.fail(fault.offset, fault.message) from None

    # --- operations

    def operation_class(self, name: str, form: str, offset: int) -> type[Operation] | None:
        """The class of an op; None for one that is kept as it is. Raises GradoptError."""
        if name in self.classes:
            return self.classes[name]
        cls = operation_class(name)
        if cls is None:
            prefix = name.split(".", 1)[0]
            dialect = find_dialect(prefix)
            if dialect is not None:
                raise self.fail(offset, f"dialect '{prefix}' has no operation '{name}'{near_miss(name, dialect.operations)}")
            if form == "pretty":
                raise self.fail(offset, unknown_operation(name))
            if not self.allow_unregistered:
                raise self.fail(offset, f"operation '{name}' belongs to no registered dialect{near_operation(name)} "
                                             "(--allow-unregistered-dialect keeps it as it is)")
        self.classes[name] = cls
        return cls

    def _operation(self, item: OpSyntax, scope: Scope) -> Operation:
        if item.form == "func":
            return self._function(item)
        name = SHORT_NAMES.get(item.name, item.name)
        cls = self.operation_class(name, item.form, item.offset)
        operand_types, result_types = self._types(item, cls)
        operands = self._operands(item.operands, operand_types, scope, item)
        properties, attributes = self.attributes(item.properties, item.attributes, cls, item.offset)
        if item.callee is not None:
            if cls is not None and item.form == "pretty" and "callee" not in cls.definition.attributes:
                raise self.fail(item.offset, f"'{name}' op takes no symbol before its operands")
            key = "sym_name" if item.form == "module" else "callee"
            properties[key] = StringAttr(item.callee) if item.form == "module" else SymbolRefAttr(item.callee)
        successors = [self._successor(token, scope) for token in item.successors]
        regions = [Region() for _ in item.regions]
        location = self.location(item.location, item.offset)
        arguments = (operands, result_types or (), properties, attributes, regions, successors, location)
        op: Operation = UnregisteredOp(name, *arguments) if cls is None else cls(*arguments)
        if item.form == "module":
            op.attributes = attributes
        return op

    def _types(self, item: OpSyntax, cls: type[Operation] | None) -> tuple[list[Type] | None, list[Type] | None]:
        """(operand types or None, result types or None) as they are written."""
        types = item.types
        if types is None:
            return None, [] if item.form == "module" else None
        if item.form == "generic":
            inputs, outputs = types
            return inputs, outputs
        if len(types) == 1 and isinstance(types[0], FunctionType):
            return list(types[0].inputs), list(types[0].results)
        bound = sum(count for _, count in item.results) if item.results else len(cls.definition.results) if cls is not None else 0
        if len(types) == 1:
            return [types[0]] * len(item.operands), [types[0]] * bound
        return list(types), []

    def _operands(self, tokens: list[Any], types: list[Type] | None, scope: Scope, item: OpSyntax) -> list[Value]:
        if types is not None and len(types) != len(tokens):
            raise self.fail(item.offset, f"expected {len(tokens)} operand types but had {len(types)}")
        values = []
        for index, token in enumerate(tokens):
            try:
                values.append(scope.use(token.text, None if types is None else types[index], token.start_pos))
            except NameFault as fault:
                raise self.name_fault(fault, token.start_pos) from None
        return values

    def _successor(self, token: Token, scope: Scope) -> Block:
        block = scope.blocks.get(token.text)
        if block is None:
            raise self.fail(token.start_pos, f"reference to an undefined block '{token.text}'{near_miss(token.text, scope.blocks)}")
        return block

    def attributes(self, own: dict[str, Any] | None, loose: dict[str, Any] | None, cls: type[Operation] | None,
                   offset: int) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
        """(properties, discardable attributes) as new dictionaries. Declared attributes may stand in either place."""
        if cls is None:
            return {"": DictionaryAttr(())} if own == {} else dict(own or {}), dict(loose or {})
        own, loose = own or {}, loose or {}
        if "" in own:
            raise self.fail(offset, f"'{cls.name}' op expects a dictionary of properties, found '{own[''].text}'")
        declared = cls.definition.attributes
        if not own and not loose:
            return dict(cls.definition.defaults), {}
        properties, attributes = dict(cls.definition.defaults), {}
        for name, value in {**loose, **own}.items():
            if name in declared:
                properties[name] = value
            elif "." in name or (cls.name.split(".")[0] in ("builtin", "func") and name not in own):
                attributes[name] = value
            else:
                raise self.fail(offset, f"'{cls.name}' op has no attribute '{name}'{near_miss(name, declared)}")
        return properties, attributes

    def _function(self, item: OpSyntax) -> Operation:
        assert item.properties is not None
        parameters, results = item.properties["parameters"], item.properties["results"]
        type = FunctionType(tuple(entry[1] for entry in parameters), tuple(entry[0] for entry in results))
        properties: dict[str, Attribute] = {"sym_name": StringAttr(item.callee), "function_type": TypeAttr(type)}
        if item.properties["visibility"] is not None:
            properties["sym_visibility"] = StringAttr(item.properties["visibility"])
        for name, extras in (("arg_attrs", [entry[2] for entry in parameters]), ("res_attrs", [entry[1] for entry in results])):
            if any(extras):
                properties[name] = ArrayAttr(tuple(DictionaryAttr(tuple((extra or {}).items())) for extra in extras))
        if item.regions and any(entry[0] is None for entry in parameters):
            raise self.fail(item.offset, "expected a name for each argument of a function with a body")
        cls = operation_class("func.func")
        assert cls is not None
        return cls([], [], properties, dict(item.attributes or {}), [Region()], (), self.location(item.location, item.offset))

    def _complete(self, op: Operation, item: OpSyntax, scope: Scope) -> None:
        """Result types that follow from operands and regions, and the names of the results."""
        if item.types is None and item.form == "pretty":
            self._infer(op, item)
        self._bind(op, item.results, scope, item.offset)

    def _infer(self, op: Operation, item: OpSyntax) -> None:
        definition = op.definition
        if definition.can_infer:
            try:
                check_fields(op)
                attach_results(op, op.infer())  # type: ignore[attr-defined]
            except InvalidOperation as invalid:
                raise self.fail(item.offset, f"'{op.name}' op {invalid.message}", invalid.notes) from None
        elif definition.results:
            raise self.fail(item.offset, f"'{op.name}' op needs its types: they do not follow from its operands")

    def _bind(self, op: Operation, results: list[Any] | None, scope: Scope, offset: int) -> None:
        if not results:
            return
        total = sum(count for _, count in results)
        if total != len(op.results):
            raise self.fail(offset, f"operation defines {len(op.results)} results but was provided {total} to bind")
        position = 0
        for token, count in results:
            for index in range(count):
                value = op.results[position]
                if count == 1:
                    value.name = hint(token.text)
                    self.define(scope, token.text, value, token.start_pos)
                else:
                    self.define(scope, f"{token.text}#{index}" if index else token.text, value, token.start_pos)
                position += 1


def hint(name: str) -> str | None:
    """The name of a value without its `%`, unless it is a number."""
    return None if name[1:].isdigit() else name[1:]
