"""IR made at random (hypothesis), not by parsing: what it prints as, in both forms, reads back to the same IR."""

from __future__ import annotations

from typing import Any

from gradopt.dialects.builtin import ModuleOp
from gradopt.ir import attributes as A
from gradopt.ir import shaped_types as S
from gradopt.ir import types as T
from gradopt.ir.locations import UNKNOWN_LOCATION, CallSiteLocation, FileLocation, FusedLocation, LocationAttr, NameLocation
from gradopt.ir.operation import Block, Operation, Region, UnregisteredOp
from gradopt.ir.printer import print_operation
from gradopt.ir.values import Value
from gradopt.parser import parse_attribute, parse_module, parse_type
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_$.]{0,8}", fullmatch=True)
STRINGS = st.text(max_size=12) | st.binary(max_size=6).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
KEYS = (WORDS | STRINGS).filter(bool)
INTEGERS = st.builds(T.IntegerType, st.sampled_from([1, 2, 7, 8, 12, 32, 64, 65, 200]), st.sampled_from(["", "signed", "unsigned"]))
FLOATS = st.sampled_from(sorted(set(T._FORMATS))).map(T.FloatType)
SCALARS = INTEGERS | FLOATS | st.just(T.INDEX)
SIZES = st.lists(st.integers(0, 5) | st.none(), max_size=4).map(tuple)
DIALECT_TYPES = st.sampled_from(["d.t", "d.t<a, \"b>\">", "d<x y>", "d.n<[1]x(2)->{3}>"]).map(T.DialectType)
ELEMENTS = SCALARS | st.builds(T.ComplexType, INTEGERS | FLOATS)


def shaped(kind: type[Any], extra: st.SearchStrategy[Any]) -> st.SearchStrategy[T.Type]:
    """Tensors or memrefs."""
    return st.builds(kind, SIZES, ELEMENTS | DIALECT_TYPES, extra)


SIMPLE_TYPES = st.one_of(SCALARS, st.just(T.NONE), DIALECT_TYPES, shaped(T.TensorType, st.none() | st.builds(A.StringAttr, STRINGS)),
                         st.builds(T.ComplexType, INTEGERS | FLOATS), st.builds(S.UnrankedTensorType, ELEMENTS),
                         st.builds(S.MemRefType, SIZES, ELEMENTS, st.none()),
                         st.builds(lambda sizes, element, offset: S.MemRefType(sizes, element, A.StridedLayoutAttr((None,) * len(sizes), offset)),
                                   SIZES, ELEMENTS, st.integers(0, 4) | st.none()))
TYPES = st.recursive(SIMPLE_TYPES, lambda inner: st.builds(T.TupleType, st.lists(inner, max_size=3).map(tuple))
                     | st.builds(T.FunctionType, st.lists(inner, max_size=3).map(tuple), st.lists(inner, max_size=3).map(tuple)), max_leaves=5)


@st.composite
def integers(draw: Any) -> A.Attribute:
    """An integer that fits its type."""
    type = draw(INTEGERS | st.just(T.INDEX))
    return A.IntegerAttr(type.wrap(draw(st.integers(0, (1 << type.width) - 1))), type)  # type: ignore[no-any-return]


@st.composite
def floats(draw: Any) -> A.Attribute:
    """Any bit pattern of any format."""
    type = draw(FLOATS)
    return A.FloatAttr(draw(st.integers(0, (1 << type.width) - 1)), type)  # type: ignore[no-any-return]


@st.composite
def dense(draw: Any) -> A.Attribute:
    """Elements of a static tensor, all of them or a splat; sometimes so many that they print as a blob."""
    element = draw(SCALARS | st.builds(T.ComplexType, FLOATS))
    shape = draw(st.lists(st.integers(0, 4), max_size=3).map(tuple) | st.just((102,)))
    type = T.TensorType(shape, element)
    scalar = element.element if isinstance(element, T.ComplexType) else element
    count = type.element_count * (2 if scalar is not element else 1)
    width = scalar.storage_bytes
    values = draw(st.lists(st.integers(0, (1 << scalar.width) - 1), min_size=min(count, 8), max_size=min(count, 8)))
    full = (1 << 8 * width) - 1
    raw = [(scalar.wrap(value) & full if scalar.is_integer else value).to_bytes(width, "little") for value in values]
    return A.DenseElementsAttr(type, b"".join((raw * (count // max(len(raw), 1) + 1))[:count]))  # type: ignore[no-any-return]


LOCATIONS = st.recursive(
    st.just(UNKNOWN_LOCATION) | st.builds(FileLocation, STRINGS, st.integers(0, 99), st.integers(0, 99)),
    lambda inner: st.builds(NameLocation, STRINGS, inner) | st.builds(CallSiteLocation, inner, inner)
    | st.lists(inner.filter(lambda place: place is not UNKNOWN_LOCATION and not isinstance(place, FusedLocation)), min_size=2, max_size=3,
               unique=True).map(lambda places: FusedLocation(tuple(places))), max_leaves=4)
SIMPLE = st.one_of(integers(), floats(), dense(), st.builds(A.StringAttr, STRINGS), st.just(A.UnitAttr()), TYPES.map(A.TypeAttr),
                   st.builds(A.SymbolRefAttr, KEYS, st.lists(KEYS, max_size=2).map(tuple)), LOCATIONS.map(LocationAttr),
                   st.sampled_from(["d.a", "d.a<\"x\">", "d<a b>"]).map(A.DialectAttr),
                   st.builds(A.DenseArrayAttr, st.just(T.I64), st.lists(st.integers(-5, 5), max_size=3).map(tuple)),
                   st.sampled_from(["(d0)[s0] -> (d0 + s0)", "() -> ()", "(d0, d1) -> (d1 floordiv 2, d0)"]).map(A.AffineMapAttr))
ATTRIBUTES = st.recursive(SIMPLE, lambda inner: st.lists(inner, max_size=3).map(lambda items: A.ArrayAttr(tuple(items)))
                          | st.dictionaries(KEYS, inner, max_size=3).map(lambda items: A.DictionaryAttr(tuple(items.items()))), max_leaves=6)
NAMES = st.sampled_from(["t.a", "t.b", "weird \"name\"", "nodot"])


@st.composite
def modules(draw: Any) -> Operation:
    """A module of operations that nobody knows, with regions, blocks, branches and values of all blocks around."""
    module = ModuleOp.empty()
    _fill(draw, module.regions[0].blocks[0], [], 0)
    return module


def _fill(draw: Any, block: Block, visible: list[Value], depth: int) -> None:
    for _ in range(draw(st.integers(0, 3))):
        regions = [_region(draw, visible, depth + 1) for _ in range(draw(st.integers(0, 2)))] if depth < 2 else []
        operands = draw(st.lists(st.sampled_from(visible), max_size=3)) if visible else []
        op = UnregisteredOp(draw(NAMES), operands, draw(st.lists(TYPES, max_size=3)), draw(st.dictionaries(KEYS, ATTRIBUTES, max_size=2)),
                            draw(st.dictionaries(KEYS, ATTRIBUTES, max_size=2)), regions, (), draw(LOCATIONS))
        for result in op.results:
            result.name = draw(st.none() | st.sampled_from(["x", "y", "arg0", "x_1"]))
        block.append(op)
        visible = [*visible, *op.results]


def _region(draw: Any, visible: list[Value], depth: int) -> Region:
    region = Region()
    for _ in range(draw(st.integers(0, 3))):
        block = region.add_block(Block(draw(st.lists(TYPES, max_size=2))))
        for argument in block.arguments:
            argument.name = draw(st.none() | st.sampled_from(["x", "arg0", "arg1"]))
        _fill(draw, block, [*visible, *block.arguments], depth)
    for block in region.blocks:
        if len(region.blocks) > 1:
            targets = draw(st.lists(st.sampled_from(region.blocks[1:]), max_size=2))
            block.append(UnregisteredOp("t.branch", (), (), {}, {}, (), targets))
    return region


@settings(max_examples=250, deadline=None, derandomize=True)
@given(TYPES)
def test_types(type: T.Type) -> None:
    assert parse_type(type.text) is type


@settings(max_examples=400, deadline=None, derandomize=True)
@given(ATTRIBUTES)
def test_attributes(attribute: A.Attribute) -> None:
    assert parse_attribute(attribute.text) is attribute


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(modules())
def test_modules(module: Operation) -> None:
    for generic in (True, False):
        for debug_info in (False, True):
            text = print_operation(module, generic=generic, debug_info=debug_info)
            again = parse_module(text, "again", allow_unregistered=True)
            assert print_operation(again, generic=generic, debug_info=debug_info) == text
            assert print_operation(again, generic=True, debug_info=debug_info) == print_operation(module, generic=True, debug_info=debug_info)
