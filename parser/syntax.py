"""Text to syntax: lark's LALR parser with callbacks that make attributes and light tuples, no parse tree.

Operations become `OpSyntax`; names are resolved and the IR is built by `builder.py` in one iterative pass.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from gradopt.ir import attributes as A
from gradopt.ir.types import I32, FunctionType, Type
from gradopt.parser.attribute_rules import AttributeRules, symbol_value
from gradopt.parser.brackets import SyntaxFault
from gradopt.parser.lexer import FlatLine, Token
from gradopt.parser.literals import read_integer
from gradopt.parser.places import Place

__all__ = ["BlockSyntax", "Callbacks", "OpSyntax"]

MOST_RESULTS = 1 << 20
_LOCATED = re.compile(r"(.*[^ \t])[ \t]+loc\([ \t]*#([A-Za-z_][\w$]*)[ \t]*\)[ \t\r]*", re.ASCII)


class BlockSyntax(NamedTuple):
    """`^name(%a: type):` and its operations."""

    offset: int
    name: str | None
    arguments: list[tuple[Token, Type, Place | None]]
    operations: list[Any]


class OpSyntax(NamedTuple):
    """One operation as it was written. `types`: (operand types, result types), a list of types, or None."""

    offset: int
    form: str  # "generic", "pretty", "func" or "module"
    name: str
    results: list[tuple[Token, int]] | None
    operands: list[Token]
    successors: list[Token]
    properties: dict[str, Any] | None
    attributes: dict[str, Any] | None
    regions: list[list[BlockSyntax]]
    types: Any
    callee: Any
    location: Place | None


class Signature(NamedTuple):
    """The types behind the colon of a flat line. `inputs` is None where one type stands for all."""

    inputs: tuple[Type, ...] | None
    outputs: tuple[Type, ...]


class Callbacks(AttributeRules):
    """What each rule of the grammar makes of its parts (called as the parser reduces)."""

    def __init__(self, fast: bool = True) -> None:
        super().__init__()
        self.fast = fast
        self.metadata_token: Token | None = None
        self.signatures: dict[str, Signature | None] = {}
        self.dictionaries: dict[str, dict[str, Any] | None] = {}

    def nested_dictionary(self, text: str, start: int, end: int) -> dict[str, Any]:
        """The dictionary in `text[start:end]`. Set by the reader."""
        raise NotImplementedError

    # --- flat lines

    def flat_line(self, match: re.Match[str]) -> FlatLine | None:
        """A line that has the shape of a flat one with its types and attributes read, or None where it must go the long way."""
        _, pretty, _, _, bracket, own, loose, rest = match.groups()
        if (bracket == "") is (pretty is None):
            return None
        place = None
        signature = self.signatures.get(rest, False)
        if signature is False:
            located = _LOCATED.fullmatch(rest)
            if located is not None:
                rest = located[1]
                place = Place("alias", (located[2],), 0, match.start(8) + located.start(2) - 1)
            signature = self.signatures.get(rest, False)
            if signature is False:
                signature = self.signatures[rest] = self._signature(rest)
        if signature is None or (pretty is None and signature.inputs is None):  # type: ignore[union-attr]
            return None
        properties = attributes = None
        if own is not None:
            properties = self._flat_dictionary(own, match, 6)
            if properties is None:
                return None
        if loose is not None:
            attributes = self._flat_dictionary(loose, match, 7)
            if attributes is None:
                return None
        return match, (signature, place), properties, attributes

    def _signature(self, text: str) -> Signature | None:
        text = text.split("//", 1)[0].strip()
        try:
            type = self.reader.read(text)
        except SyntaxFault:
            return None
        return Signature(type.inputs, type.results) if isinstance(type, FunctionType) else Signature(None, (type,))

    def _flat_dictionary(self, text: str, match: re.Match[str], group: int) -> dict[str, Any] | None:
        if text in self.dictionaries:
            return self.dictionaries[text]
        try:
            found = self.nested_dictionary(match.string, *match.span(group))
        except SyntaxFault:
            return None
        self.dictionaries[text] = found
        return found

    def flat_ops(self, c: list[Any]) -> Token:
        return c[0]  # type: ignore[no-any-return]

    # --- operations

    def start(self, c: list[Any]) -> list[Any]:
        self.metadata_token = c[-1]
        return [item for item in c[:-1] if item is not None]

    def op(self, c: list[Any]) -> OpSyntax:
        results, body, location = c
        offset = results[0][0].start_pos if results else body.offset
        return body._replace(results=results, location=location, offset=offset)  # type: ignore[no-any-return]

    def results(self, c: list[Any]) -> list[Any]:
        return list(c)

    def result(self, c: list[Any]) -> tuple[Token, int]:
        name, count = c
        if "#" in name.text:
            raise SyntaxFault("expected valid ssa identifier: a '#' number stands at a use only", name.start_pos)
        if count is None:
            return name, 1
        number = 0 if len(count.text) > 9 else read_integer(count.text)
        if not 0 < number <= MOST_RESULTS:
            raise SyntaxFault(f"expected named operation to have at least 1 result and at most {MOST_RESULTS}", count.start_pos)
        return name, number

    def operands(self, c: list[Any]) -> list[Token]:
        return list(c)

    def successors(self, c: list[Any]) -> list[Token]:
        return list(c)

    def properties(self, c: list[Any]) -> dict[str, Any]:
        """A dictionary; any other attribute stands under the empty name, which no entry can have."""
        value = c[0]
        return dict(value.entries) if isinstance(value, A.DictionaryAttr) else {"": value}

    def own_dictionary(self, c: list[Any]) -> dict[str, Any]:
        return c[0]  # type: ignore[no-any-return]

    def regions(self, c: list[Any]) -> list[Any]:
        return list(c)

    def region(self, c: list[Any]) -> list[BlockSyntax]:
        blocks = [item for item in c if isinstance(item, BlockSyntax)]
        entry = [item for item in c if item is not None and not isinstance(item, BlockSyntax)]
        return [BlockSyntax(-1, None, [], entry), *blocks] if entry else blocks

    def block(self, c: list[Any]) -> BlockSyntax:
        return BlockSyntax(c[0].start_pos, c[0].text, c[1] or [], [item for item in c[2:] if item is not None])

    def block_arguments(self, c: list[Any]) -> list[Any]:
        return [item for item in c if item is not None]

    def block_argument(self, c: list[Any]) -> Any:
        return tuple(c)

    def generic_op(self, c: list[Any]) -> OpSyntax:
        name, operands, successors, properties, regions, attributes, type = c
        text = self.text(name)
        if not text:
            raise SyntaxFault("empty operation name is invalid", name.start_pos)
        if "\0" in text:
            raise SyntaxFault("null character not allowed in operation name", name.start_pos)
        return OpSyntax(name.start_pos, "generic", text, None, operands or [], successors or [], properties, attributes,
                        regions or [], (type.inputs, type.results), None, None)

    def module_op(self, c: list[Any]) -> OpSyntax:
        keyword, symbol, _, attributes, region = c
        callee = None if symbol is None else symbol_value(symbol)
        return OpSyntax(keyword.start_pos, "module", "builtin.module", None, [], [], None, attributes, [region], None, callee, None)

    def func_op(self, c: list[Any]) -> OpSyntax:
        keyword, visibility, symbol, parameters, _, results, _, attributes, region = c
        properties = {"visibility": None if visibility is None else visibility.text, "parameters": parameters or [],
                      "results": results or []}
        if region is not None and not region:
            raise SyntaxFault("expected non-empty function body", keyword.start_pos)
        return OpSyntax(keyword.start_pos, "func", "func.func", None, [], [], properties, attributes,
                        [] if region is None else [region], None, symbol_value(symbol), None)

    def parameters(self, c: list[Any]) -> list[Any]:
        return list(c)

    def named_parameter(self, c: list[Any]) -> tuple[Any, Type, Any, Any]:
        return c[0], c[1], c[2], c[3]

    def typed_parameter(self, c: list[Any]) -> tuple[Any, Type, Any, Any]:
        return None, c[0], c[1], c[2]

    def typed(self, c: list[Any]) -> tuple[Type, Any]:
        return c[0], c[1]

    def one_result(self, c: list[Any]) -> list[Any]:
        return [(c[0], None)]

    def many_results(self, c: list[Any]) -> list[Any]:
        return [item for item in c if item is not None]

    def pretty_op(self, c: list[Any]) -> OpSyntax:
        name, operands, successors, properties, attributes, literal, regions, types = c
        callee, values = (None, []) if operands is None else operands
        if literal is not None:
            if "value" in (attributes or {}):
                raise SyntaxFault("duplicate key 'value' in dictionary attribute", name.start_pos)
            attributes = {**(attributes or {}), "value": literal}
        return OpSyntax(name.start_pos, "pretty", name.text, None, values, successors or [], properties, attributes,
                        regions or [], types, callee, None)

    def pretty_operands(self, c: list[Any]) -> tuple[Any, list[Token]]:
        return None, c[0]

    def callee_operands(self, c: list[Any]) -> tuple[Any, list[Token]]:
        return symbol_value(c[0]), c[1] or []

    def literal(self, c: list[Any]) -> A.Attribute:
        return self.dense(c)

    def pretty_types(self, c: list[Any]) -> list[Type]:
        return list(c)

    # --- forms of other dialects

    def target(self, c: list[Any]) -> tuple[Token, list[Token], list[Type]]:
        return c[0], c[1] or [], c[2] or []

    def branch_op(self, c: list[Any]) -> OpSyntax:
        keyword, (block, values, types), attributes = c
        return OpSyntax(keyword.start_pos, "generic", "cf.br", None, values, [block], None, attributes, [], (types, []), None, None)

    def conditional_branch_op(self, c: list[Any]) -> OpSyntax:
        keyword, condition, (first, values, types), (second, others, other_types), attributes = c
        from gradopt.ir.types import I1

        sizes = A.DenseArrayAttr(I32, (1, len(values), len(others)))
        return OpSyntax(keyword.start_pos, "generic", "cf.cond_br", None, [condition, *values, *others], [first, second],
                        {"operandSegmentSizes": sizes}, attributes, [], ([I1, *types, *other_types], []), None, None)

    def constant_op(self, c: list[Any]) -> OpSyntax:
        keyword, attributes, value = c
        type = getattr(value, "type", None)
        if not isinstance(type, Type):
            raise SyntaxFault("expected a value with a type in 'arith.constant'", keyword.start_pos)
        return OpSyntax(keyword.start_pos, "generic", "arith.constant", None, [], [], {"value": value}, attributes, [],
                        ([], [type]), None, None)
