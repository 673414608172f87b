"""Type text to types. Every text is parsed once: `TypeReader` keeps a dictionary from text to type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gradopt.ir import types as T
from gradopt.ir.attributes import Attribute, DialectAttr, IntegerAttr, StridedLayoutAttr
from gradopt.ir.float_formats import decode_float  # noqa: F401  (makes every float format known)
from gradopt.ir.types import Type

__all__ = ["TypeReader", "TypeSyntaxError"]

_INTEGER = re.compile(r"(s|u)?i([1-9]\d*)$")
_DIM = re.compile(r"\s*(?:(\d+)|(\?)|\[(\d+)\])\s*x")
MOST_DEPTH = 64
MOST_WIDTH = 16777215


class TypeSyntaxError(Exception):
    """What is wrong with a type's text, and where in it."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.message, self.offset = message, offset


class TypeReader:
    """Parses types; `aliases` holds what `!name` stands for, `parse_attribute` reads an encoding or a layout."""

    def __init__(self, parse_attribute: Callable[[str], Attribute], aliases: Mapping[str, Type] | None = None) -> None:
        self.known: dict[str, Type] = {}
        self.aliases: dict[str, Type] = dict(aliases or {})
        self.parse_attribute = parse_attribute

    def read(self, text: str) -> Type:
        """The type of a text. Raises TypeSyntaxError."""
        found = self.known.get(text)
        if found is None:
            found = self.known[text] = self._read(text.strip(), 0)
        return found

    def _read(self, text: str, depth: int) -> Type:
        if depth > MOST_DEPTH:
            raise TypeSyntaxError(f"types are nested more than {MOST_DEPTH} deep")
        text = text.strip()
        if text.startswith("!"):
            return self._dialect(text)
        if text.startswith("("):
            return self._function(text, depth)
        head, bracket, _ = text.partition("<")
        head = head.strip()
        if bracket:
            if not text.endswith(">"):
                raise TypeSyntaxError(f"expected '>' at the end of '{text}'")
            body = text[text.index("<") + 1: -1].strip()
            return self._parameterised(head, body, depth)
        return scalar_type(head)

    def _dialect(self, text: str) -> Type:
        body = text[1:]
        if "<" not in body and "." not in body:
            if body not in self.aliases:
                raise TypeSyntaxError(f"undefined symbol alias id '{body}'")
            return self.aliases[body]
        if body.split("<")[0].split(".")[0] == "builtin":
            raise TypeSyntaxError("a builtin type is written without its dialect")
        return T.DialectType(body)

    def _function(self, text: str, depth: int) -> Type:
        inputs, rest = _balanced(text)
        rest = rest.strip()
        if not rest.startswith("->"):
            raise TypeSyntaxError(f"expected '->' in function type '{text}'")
        rest = rest[2:].strip()
        if rest.startswith("(") and _balanced(rest)[1].strip() == "":
            results = _split(_balanced(rest)[0])
        else:
            results = [rest]
        return T.FunctionType(tuple(self._read(part, depth + 1) for part in _split(inputs)),
                              tuple(self._read(part, depth + 1) for part in results))

    def _parameterised(self, head: str, body: str, depth: int) -> Type:
        if head == "complex":
            element = self._read(body, depth + 1)
            if not (element.is_float or element.is_integer):
                raise TypeSyntaxError("invalid element type for complex")
            return T.ComplexType(element)
        if head == "tuple":
            return T.TupleType(tuple(self._read(part, depth + 1) for part in _split(body)))
        if head not in ("tensor", "vector", "memref"):
            raise TypeSyntaxError(f"unknown type '{head}'")
        if re.match(r"\*\s*x", body):
            return self._unranked(head, _split(body[body.index("x") + 1:]), depth)
        shape: list[int | None] = []
        scalable: list[bool] = []
        position = 0
        while match := _DIM.match(body, position):
            size, dynamic, scaled = match.groups()
            if scaled is not None and head != "vector":
                raise TypeSyntaxError(f"a scalable dimension stands in a {head}")
            shape.append(None if dynamic else int(size or scaled))
            scalable.append(scaled is not None)
            position = match.end()
        parts = _split(body[position:])
        if not parts:
            raise TypeSyntaxError(f"expected an element type in '{head}<{body}>'")
        element = self._read(parts[0].strip(), depth + 1)
        return self._shaped(head, tuple(shape), element, scalable, parts[1:])

    def _shaped(self, head: str, shape: tuple[int | None, ...], element: Type, scalable: list[bool], rest: list[str]) -> Type:
        if head != "memref" and isinstance(element, (T.TensorType, T.UnrankedTensorType, T.TupleType, T.FunctionType, T.NoneType)):
            raise TypeSyntaxError(f"invalid {head} element type '{element.text}'")
        if head == "vector":
            if None in shape or rest or 0 in shape:
                raise TypeSyntaxError("vector types must have positive constant sizes")
            return T.VectorType(tuple(size or 0 for size in shape), element, tuple(scalable))
        extras = [self.parse_attribute(part.strip()) for part in rest]
        if head == "tensor":
            if len(extras) > 1:
                raise TypeSyntaxError("a tensor type has one encoding at most")
            try:
                return T.TensorType(shape, element, extras[0] if extras else None)
            except ValueError as error:
                raise TypeSyntaxError(str(error)) from None
        layout = next((e for e in extras if isinstance(e, StridedLayoutAttr) or e.text.startswith("affine_map")), None)
        space = next((e for e in extras if e is not layout), None)
        if isinstance(space, IntegerAttr) and space.type is T.I64 and space.value == 0:
            space = None
        return T.MemRefType(shape, element, layout, space)

    def _unranked(self, head: str, parts: list[str], depth: int) -> Type:
        element = self._read(parts[0].strip(), depth + 1)
        if head == "tensor":
            return T.UnrankedTensorType(element)
        if head == "memref":
            space = self.parse_attribute(parts[1].strip()) if len(parts) > 1 else None
            return T.UnrankedMemRefType(element, space)
        raise TypeSyntaxError("a vector has a rank")


def scalar_type(text: str) -> Type:
    """A type that is one word. Raises TypeSyntaxError."""
    match = _INTEGER.match(text)
    if match:
        width = int(match[2])
        if width > MOST_WIDTH:
            raise TypeSyntaxError(f"integer bitwidth is limited to {MOST_WIDTH} bits")
        return T.IntegerType(width, {"s": "signed", "u": "unsigned", None: ""}[match[1]])
    if text == "index":
        return T.INDEX
    if text == "none":
        return T.NONE
    if text in T._FORMATS:
        return T.FloatType(text)
    raise TypeSyntaxError(f"unknown type '{text}'")


def _balanced(text: str) -> tuple[str, str]:
    """(what stands inside the parentheses at the start, the rest)."""
    depth = 0
    for position, character in enumerate(text):
        if character in "([{<":
            depth += 1
        elif character in ")]}" or (character == ">" and text[position - 1] != "-"):
            depth -= 1
            if depth == 0:
                return text[1:position], text[position + 1:]
    raise TypeSyntaxError(f"expected ')' in '{text}'")


def _split(text: str) -> list[str]:
    """Splits at commas outside brackets and strings."""
    parts, depth, start, quoted = [], 0, 0, False
    for position, character in enumerate(text):
        if character == '"' and (position == 0 or text[position - 1] != "\\"):
            quoted = not quoted
        elif quoted:
            continue
        elif character in "([{<":
            depth += 1
        elif character in ")]}" or (character == ">" and text[position - 1] != "-"):
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    rest = text[start:]
    return [*parts, rest] if rest.strip() or parts else []


def encoding(text: str) -> Attribute:
    """A dialect attribute kept as its text."""
    return DialectAttr(text.removeprefix("#"))
