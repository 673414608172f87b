"""Type text to types. Every text is parsed once: `TypeReader` keeps a dictionary from text to type."""

from __future__ import annotations

import re
from collections.abc import Callable

from gradopt.ir import shaped_types as S
from gradopt.ir import types as T
from gradopt.ir.attributes import AffineMapAttr, Attribute, DialectAttr, DictionaryAttr, IntegerAttr, StridedLayoutAttr, StringAttr
from gradopt.ir.dialect import near_miss
from gradopt.ir.types import Type
from gradopt.parser.brackets import SyntaxFault, balanced_end, split_commas
from gradopt.parser.limits import Limits
from gradopt.parser.places import UnknownAlias

__all__ = ["TypeReader", "canonical_body"]

_INTEGER = re.compile(r"(s|u)?i([0-9]+)\Z", re.ASCII)
_DIM = re.compile(r"\s*(?:([0-9]+)|(\?)|\[\s*([0-9]+)\s*\])\s*(x)?", re.ASCII)
_BLANK = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
MOST_DEPTH = 64
MOST_WIDTH = 16777215
_HEADS = ("tensor", "vector", "memref", "complex", "tuple", "index", "none", "bf16", "f16", "f32", "f64", "i1", "i32", "i64")
_PRETTY_BODY = re.compile(r"[A-Za-z][A-Za-z0-9_.]*", re.ASCII)


def canonical_body(body: str) -> str:
    """The spelling MLIR prints for `d.name<…>` or `d<name<…>>`: with a dot wherever the name is a plain word."""
    dot, bracket = body.find("."), body.find("<")
    if dot > 0 and (bracket < 0 or dot < bracket):
        dialect, inner = body[:dot], body[dot + 1:]
    else:
        dialect, inner = body[:bracket], body[bracket + 1:-1]
    name = _PRETTY_BODY.match(inner)
    rest = "" if name is None else inner[name.end():]
    plain = name is not None and (not rest or (rest.startswith("<") and rest.endswith(">")))
    return f"{dialect}.{inner}" if plain else f"{dialect}<{inner}>"


class TypeReader:
    """Parses types; `aliases` holds what `!name` stands for, `parse_attribute(text, start, end)` reads an encoding or a layout."""

    def __init__(self, parse_attribute: Callable[[str, int, int], Attribute], limits: Limits) -> None:
        self.limits = limits
        self.known: dict[str, Type] = {}
        self.aliases: dict[str, Type] = {}
        self.early_aliases: dict[str, Type] = {}
        self.parse_attribute = parse_attribute

    def read(self, text: str) -> Type:
        """The type of a text. Raises SyntaxFault with an offset in the text."""
        found = self.known.get(text)
        if found is None:
            found = self.known[text] = self._read(text, 0, len(text), 0)
        return found

    def located(self, text: str, offset: int) -> Type:
        """The type of a text that stands at an offset. Raises SyntaxFault."""
        found = self.known.get(text)
        if found is not None:
            return found
        try:
            return self.read(text)
        except SyntaxFault as fault:
            fault.offset += offset
            raise

    def _read(self, text: str, start: int, end: int, depth: int) -> Type:
        start = _BLANK.match(text, start, end).end()  # type: ignore[union-attr]
        end = start + len(text[start:end].rstrip())
        if depth > MOST_DEPTH:
            raise SyntaxFault(f"types are nested more than {MOST_DEPTH} deep", start)
        if start >= end:
            raise SyntaxFault("expected a type", start)
        first = text[start]
        if first == "!":
            return self._dialect(text[start + 1:end], start)
        if first == "(":
            return self._function(text, start, end, depth)
        word = _WORD.match(text, start, end)
        if word is None:
            raise SyntaxFault(f"expected a type, found '{text[start:end][:20]}'", start)
        after = _BLANK.match(text, word.end(), end).end()  # type: ignore[union-attr]
        if after < end and text[after] == "<":
            close = balanced_end(text, after, end, builtin=True)
            if close != end:
                raise SyntaxFault(f"unexpected '{text[close:end].strip()[:20]}' behind a type", close)
            return self._parameterised(word.group(), text, start, after + 1, end - 1, depth)
        if after < end:
            raise SyntaxFault(f"unexpected '{text[after:end][:20]}' behind a type", after)
        return scalar_type(word.group(), start)

    def _dialect(self, body: str, start: int) -> Type:
        if "<" not in body and "." not in body:
            found = self.aliases.get(body) or self.early_aliases.get(body)
            if found is None:
                raise UnknownAlias("!" + body, start)
            return found
        if not re.match(r"[A-Za-z_][\w$.\-]*(?:<|\Z)", body, re.ASCII):
            raise SyntaxFault("invalid type identifier", start)
        if body.split("<")[0].split(".")[0] == "builtin":
            raise SyntaxFault("dialect 'builtin' provides no type parsing hook: its types are written without a dialect", start)
        if "<" in body and balanced_end(body, body.index("<"), len(body)) != len(body):
            raise SyntaxFault("unexpected text behind a type", start)
        return T.DialectType(canonical_body(body))

    def _function(self, text: str, start: int, end: int, depth: int) -> Type:
        close = balanced_end(text, start, end, builtin=True)
        arrow = _BLANK.match(text, close, end).end()  # type: ignore[union-attr]
        if not text.startswith("->", arrow) or arrow >= end:
            raise SyntaxFault("expected '->' in function type", arrow)
        begin = _BLANK.match(text, arrow + 2, end).end()  # type: ignore[union-attr]
        inputs = split_commas(text, start + 1, close - 1)
        results = [(begin, end)]
        if begin < end and text[begin] == "(":
            last = balanced_end(text, begin, end, builtin=True)
            if last != end:
                raise SyntaxFault("unexpected text behind a function type", last)
            results = split_commas(text, begin + 1, last - 1)
        input_types = tuple(self._read(text, *part, depth + 1) for part in inputs)
        result_types = tuple(self._read(text, *part, depth + 1) for part in results)
        made: Type = self.limits.note(T.FunctionType(input_types, result_types), (*input_types, *result_types), start)
        return made

    def _parameterised(self, head: str, text: str, start: int, begin: int, end: int, depth: int) -> Type:
        if head == "complex":
            element = self._read(text, begin, end, depth + 1)
            if not (element.is_float or isinstance(element, T.IntegerType)):
                raise SyntaxFault(f"invalid element type for complex: '{element.text}'", begin)
            return T.ComplexType(element)
        if head == "tuple":
            elements = tuple(self._read(text, *part, depth + 1) for part in split_commas(text, begin, end))
            tuple_type: Type = self.limits.note(T.TupleType(elements), elements, start)
            return tuple_type
        if head not in ("tensor", "vector", "memref"):
            raise SyntaxFault(f"unknown type '{head}'{near_miss(head, _HEADS)}", start)
        unranked = re.compile(r"\s*\*\s*x").match(text, begin, end)
        shape: list[int | None] = []
        scalable: list[bool] = []
        position = begin if unranked is None else unranked.end()
        while unranked is None and (match := _DIM.match(text, position, end)) is not None:
            size, dynamic, scaled, cross = match.groups()
            if cross is None:
                raise SyntaxFault("expected 'x' in dimension list", match.end())
            if (scaled is not None and head != "vector") or (dynamic and head == "vector"):
                raise SyntaxFault(f"'{match[0].strip()[:-1].strip()}' is no dimension of a {head}", position)
            digits = "0" if dynamic else (size or scaled).lstrip("0") or "0"
            if len(digits) > 19 or int(digits) >= 1 << 63:
                raise SyntaxFault("invalid dimension: it must be below 2^63", position)
            shape.append(None if dynamic else int(digits))
            scalable.append(scaled is not None)
            position = match.end()
        parts = split_commas(text, position, end)
        if not parts:
            raise SyntaxFault(f"expected an element type in {head}<…>", position)
        element = self._read(text, *parts[0], depth + 1)
        if head == "tensor" and len(parts) == 2 and not text[slice(*parts[1])].strip():
            del parts[1]  # MLIR reads `tensor<4xf32, >`
        extras = [self.parse_attribute(text, *part) for part in parts[1:]]
        if unranked is not None:
            made = self._unranked(head, element, extras, start, parts[0][0])
        else:
            made = self._shaped(head, tuple(shape), element, scalable, extras, start, parts[0][0])
        known = self.limits.known
        if head == "memref" or extras or element in known:
            self.limits.note(made, (element, *extras), start)
        return made

    def _shaped(self, head: str, shape: tuple[int | None, ...], element: Type, scalable: list[bool], extras: list[Attribute],
                start: int, element_start: int) -> Type:
        _check_element(head, element, element_start)
        if head == "vector":
            if extras or 0 in shape:
                raise SyntaxFault("vector types must have positive constant sizes and nothing else", start)
            return S.VectorType(tuple(size for size in shape if size is not None), element, tuple(scalable))
        if head == "tensor":
            if len(extras) > 1:
                raise SyntaxFault("a tensor type has one encoding at most", start)
            try:
                return T.TensorType(shape, element, extras[0] if extras else None)
            except ValueError as error:
                raise SyntaxFault(str(error), start) from None
        layout = extras[0] if extras and isinstance(extras[0], (StridedLayoutAttr, AffineMapAttr)) else None
        rest = extras[1:] if layout is not None else extras
        if len(rest) > 1:
            raise SyntaxFault("multiple memory spaces specified in memref type", start)
        if isinstance(layout, AffineMapAttr):
            names = ", ".join(f"d{i}" for i in range(len(shape)))
            inputs = layout.body[1:layout.body.index(")")]
            if inputs != names:
                raise SyntaxFault(f"memref layout mismatch between rank and affine map: {len(shape)} dimensions, map ({inputs})", start)
            if layout.body.partition(" -> ")[2] == f"({names})":  # symbols or none: the identity
                layout = None
        if isinstance(layout, StridedLayoutAttr) and len(layout.strides) != len(shape):
            count = len(layout.strides)
            raise SyntaxFault(f"expected the number of strides to match the rank, found {count} strides for rank {len(shape)}", start)
        return S.MemRefType(shape, element, layout, _memory_space(rest, start))

    def _unranked(self, head: str, element: Type, extras: list[Attribute], start: int, element_start: int) -> Type:
        _check_element(head, element, element_start)
        if head == "tensor" and not extras:
            return S.UnrankedTensorType(element)
        if head == "memref" and len(extras) <= 1:
            return S.UnrankedMemRefType(element, _memory_space(extras, start))
        raise SyntaxFault("a vector has a rank" if head == "vector" else f"an unranked {head} takes no such parameters", start)


# the types of MLIR's dialects that may stand in a vector; the second one may stand in a memref
_VECTOR_ELEMENTS = re.compile(r"!(?:llvm\.ptr|ptr\.ptr)(?:<|\Z)")
_MEMREF_ELEMENTS = re.compile(r"!ptr\.ptr(?:<|\Z)")


def _check_element(head: str, element: Type, offset: int) -> None:
    if head == "vector":
        fits = element.is_float or element.is_integer or _VECTOR_ELEMENTS.match(element.text) is not None
    elif head == "memref":
        fits = not isinstance(element, (T.TensorType, S.UnrankedTensorType, T.TupleType, T.FunctionType, T.NoneType, T.DialectType))
        fits = fits or _MEMREF_ELEMENTS.match(element.text) is not None
    else:
        fits = not isinstance(element, (T.TensorType, S.UnrankedTensorType, T.TupleType, T.FunctionType, T.NoneType, S.MemRefType,
                                        S.UnrankedMemRefType))
    if not fits:
        raise SyntaxFault(f"invalid {head} element type '{element.text}'", offset)


# the dialects that MLIR knows and that declare attributes: any other dialect's attribute is no memory space
_SPACE_DIALECTS = frozenset((
    "acc", "affine", "amdgpu", "amx", "arith", "async", "bufferization", "dlti", "emitc", "gpu", "index", "irdl", "linalg", "llvm",
    "ml_program", "mpi", "nvgpu", "nvvm", "omp", "pdl", "pdl_interp", "ptr", "quant", "rocdl", "scf", "shape", "shard", "smt",
    "sparse_tensor", "spirv", "tensor", "tosa", "transform", "ub", "vector", "xegpu", "xevm"))


def _memory_space(extras: list[Attribute], start: int) -> Attribute | None:
    """A memory space; 0 of any type is the same as none. Raises SyntaxFault."""
    space = extras[0] if extras else None
    known = isinstance(space, (IntegerAttr, StringAttr, DictionaryAttr))
    if space is not None and not known and not (isinstance(space, DialectAttr) and space.dialect in _SPACE_DIALECTS):
        raise SyntaxFault(f"unsupported memory space Attribute '{space.text}'", start)
    return None if isinstance(space, IntegerAttr) and space.value == 0 else space


def scalar_type(text: str, offset: int = 0) -> Type:
    """A type that is one word. Raises SyntaxFault."""
    match = _INTEGER.match(text)
    if match:
        width = int(match[2].lstrip("0")[:12] or "0")
        if width > MOST_WIDTH:
            raise SyntaxFault(f"integer bitwidth is limited to {MOST_WIDTH} bits", offset)
        return T.IntegerType(width, {"s": "signed", "u": "unsigned", None: ""}[match[1]])
    if text == "index":
        return T.INDEX
    if text == "none":
        return T.NONE
    if text in T._FORMATS:
        return T.FloatType(text)
    raise SyntaxFault(f"unknown type '{text}'{near_miss(text, _HEADS)}", offset)
