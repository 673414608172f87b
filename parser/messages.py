"""What to say about a token that cannot stand where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradopt.ir.dialect import dialect_names, find_dialect, near_miss, operation_class
from gradopt.parser.lexer import PUNCTUATION, Token

__all__ = ["SHORT_NAMES", "acceptable", "misspelt_operation", "near_operation", "unexpected_token", "unknown_operation"]

SHORT_NAMES = {"return": "func.return", "call": "func.call"}

_NAMES = {name: f"'{mark}'" for mark, name in PUNCTUATION.items()} | {
    "VALUE_ID": "an SSA value", "RESULT_ID": "a result",
    "SYMBOL": "a symbol", "STRING": "a string", "INTEGER": "an integer", "BARE": "a name",
    "CARET_ID": "a block name", "ATTRIBUTES": "'attributes'", "LOC": "'loc'", "AT": "'at'", "TO": "'to'", "FUNC": "'func.func'",
    "MODULE": "'module'", "$END": "the end of the text"}
_TYPE_WORDS = ("tensor", "vector", "memref", "complex", "tuple", "index", "none", "bf16", "f16", "f32", "f64", "i1", "i8", "i32", "i64")
_ATTRIBUTE_WORDS = ("true", "false", "unit", "dense", "dense_resource", "sparse", "array", "affine_map", "affine_set", "loc")
_GROUPS = [  # many terminals that mean one thing
    ({"SIMPLE_TYPE", "TYPE", "BANG_ID", "LPAR", "INTEGER", "FLOAT", "STRING", "SYMBOL", "LSQB"}, "an attribute"),
    ({"BARE", "STRING", "SIMPLE_TYPE", "UNIT", "TRUE"}, "an attribute name"),
    ({"BARE", "STRING", "FLAT_OPS", "MODULE", "FUNC"}, "an operation"),
    ({"SIMPLE_TYPE", "TYPE", "BANG_ID"}, "a type"),
    ({"UNKNOWN", "CALLSITE", "FUSED"}, "a location"),
]
_ALSO = {"an attribute": {"HEX", "UNIT", "TRUE", "FALSE", "LOC", "DENSE", "DIALECT_ATTR", "HASH_ID", "BUILTIN_ATTR", "DISTINCT",
                          "LBRACE"},
         "an attribute name": {"VISIBILITY", "MODULE", "FUNC", "ATTRIBUTES", "FALSE", "LOC", "UNKNOWN", "CALLSITE", "FUSED", "AT",
                               "TO", "BRANCH", "CONDITIONAL_BRANCH", "CONSTANT"},
         "an operation": {"RESULT_ID", "BRANCH", "CONDITIONAL_BRANCH", "CONSTANT", "HASH_ID", "BANG_ID", "METADATA"},
         "a type": {"LPAR"}, "a location": {"STRING", "HASH_ID"}}


def acceptable(state: Any) -> set[str]:
    """The terminals that could have come in a state of lark's parser: those it would shift after all reductions they cause."""
    states, stack = state.parse_conf.states, state.state_stack
    return {name for name in states[stack[-1]] if name.isupper() and _would_shift(states, list(stack), name)}


def _would_shift(states: Any, stack: list[Any], terminal: str) -> bool:
    while True:
        found = states[stack[-1]].get(terminal)
        if found is None:
            return False
        target = found[1]
        if not hasattr(target, "expansion"):
            return True
        size = len(target.expansion)
        if size:
            del stack[-size:]
        following = states[stack[-1]].get(target.origin.name)
        if following is None:
            return False
        stack.append(following[1])
        if len(stack) > 1_000_000:
            return False


def near_operation(name: str) -> str:
    """`, did you mean …?` with an operation, or a word of the syntax, that is spelt much like a name; or nothing."""
    known = [*SHORT_NAMES, "module", "func.func"]
    for dialect_name in dialect_names():
        dialect = find_dialect(dialect_name)
        if dialect is not None:
            known += dialect.operations
    return near_miss(name, known)


def unknown_operation(name: str) -> str:
    """The message for an operation in the pretty form that nobody knows."""
    return f"custom op '{name}' is unknown{near_operation(name) or near_miss(name, ('attributes', 'dense'))}"


def misspelt_operation(state: Any) -> Token | None:
    """The name of the operation that lark's parser is in, if it is a known one misspelt: what is wrong behind it comes from that."""
    states, names = state.parse_conf.states, state.value_stack
    for index in range(len(names) - 1, -1, -1):
        token = names[index]
        before = states[state.state_stack[index]]
        if isinstance(token, Token) and token.type == "BARE" and "BARE" in before and "UNIT" not in before:  # no key of a dictionary
            known = token.text in SHORT_NAMES or operation_class(token.text) is not None
            return token if not known and "did you mean" in unknown_operation(token.text) else None
    return None


def unexpected_token(token: Token, accepted: Iterable[str]) -> str:
    """`expected ':'`, `expected ',' or ')', found 'x'`, …"""
    names = set(accepted)
    wanted = _expected(names)
    found = "the end of the text" if token.type == "$END" else f"'{_short(token.text)}'"
    if not wanted and token.type == "VALUE_ID" and "COMMA" in names:
        wanted = "','"  # of all that could have come, most likely
    if token.type == "BARE" and "VISIBILITY" in names:
        found += near_miss(token.text, ("private", "public", "nested"))
    elif token.type == "BARE" and "TYPE" in names:
        found += near_miss(token.text, _TYPE_WORDS if "TRUE" not in names else _TYPE_WORDS + _ATTRIBUTE_WORDS)
    return f"expected {wanted}, found {found}" if wanted else f"unexpected {found}"


def _expected(names: set[str]) -> str:
    parts: list[str] = []
    for group, text in _GROUPS:
        if group <= names:
            parts.append(text)
            names = names - group - _ALSO[text]
    parts += sorted(_NAMES[name] for name in names if name in _NAMES and name not in ("LOC", "$END", "SCOPE"))
    if "$END" in names and not any(part.startswith("an op") for part in parts):
        parts.append(_NAMES["$END"])
    if len(parts) > 5:
        return ""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}" if parts else ""


def _short(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 30 else line[:30] + "…"
