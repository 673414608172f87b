"""`bind`: named sizes get a value. See `BindPass`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from gradopt.dialects.prim.shape import END
from gradopt.ir.attributes import ArrayAttr, Attribute, DictionaryAttr, TypeAttr
from gradopt.ir.diagnostics import Diagnostic, GradoptError
from gradopt.ir.dialect import near_miss
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, SizeExpression
from gradopt.ir.types import FunctionType, TensorType, TupleType, Type, tensor
from gradopt.lowering.passes import Pass, PassContext, option

__all__ = ["BindPass", "TypeMap", "bind_sizes"]


@dataclass(frozen=True)
class BindPass(Pass):
    """Gives named sizes a value: `bind{batch=32 seq=128}` replaces them in every type.

    Needs: `hl`, `bwd`, `ad` and `prim` operations only (kernels have their sizes built in). Guarantees: the names occur in no
    type.

    Before (`bind{batch=2}`):

        func.func @f(%x: tensor<?x4xf32, #ir.dims<["batch", 4]>>) -> tensor<?x4xf32, #ir.dims<["batch", 4]>> {
          %y = prim.exp %x : tensor<?x4xf32, #ir.dims<["batch", 4]>>
          return %y : tensor<?x4xf32, #ir.dims<["batch", 4]>>
        }

    After:

        func.func @f(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
          %y = prim.exp %x : tensor<2x4xf32>
          return %y : tensor<2x4xf32>
        }
    """

    name: ClassVar[str] = "bind"
    collects: ClassVar[str | None] = "sizes"
    sizes: tuple[tuple[str, int], ...] = option((), "each size name with its value, as options of their own: batch=32")

    def run(self, op: Operation, context: PassContext) -> None:
        """Raises GradoptError for a name that is in no type, a value that is no size, and types that do not fit together any more."""
        from gradopt.ir.verifier import verify

        bind_sizes(op, dict(self.sizes))
        diagnostics = verify(op)
        if diagnostics:
            bound = ", ".join(f"{name} = {value}" for name, value in self.sizes)
            for diagnostic in diagnostics:
                diagnostic.note(diagnostic.location, f"with {bound}")
            raise GradoptError(diagnostics)


class TypeMap:
    """Replaces sizes inside types and attributes; each is looked at once."""

    def __init__(self, values: Mapping[str, Size]) -> None:
        self.values = values
        self.names: set[str] = set()  # that were met
        self._known: dict[Attribute, Attribute] = {}

    def attribute(self, attribute: Attribute) -> Attribute:
        """The attribute with the sizes replaced in all types inside."""
        found = self._known.get(attribute)
        if found is None:
            found = self._known[attribute] = self._replace(attribute)
        return found

    def _replace(self, attribute: Attribute) -> Attribute:
        made: Attribute = attribute
        if isinstance(attribute, TensorType):
            made = self._tensor(attribute)
        elif isinstance(attribute, FunctionType):
            made = FunctionType(tuple(map(self.type, attribute.inputs)), tuple(map(self.type, attribute.results)))
        elif isinstance(attribute, TupleType):
            made = TupleType(tuple(map(self.type, attribute.elements)))
        elif isinstance(attribute, TypeAttr):
            made = TypeAttr(self.type(attribute.type))
        elif isinstance(attribute, ArrayAttr):
            made = ArrayAttr(tuple(map(self.attribute, attribute.elements)))
        elif isinstance(attribute, DictionaryAttr):
            made = DictionaryAttr(tuple((name, self.attribute(value)) for name, value in attribute.entries))
        return made

    def _tensor(self, type: TensorType) -> TensorType:
        if type.encoding is None or not any(isinstance(size, SizeExpression) for size in type.dims):
            return type
        for size in type.dims:
            if isinstance(size, SizeExpression):
                self.names |= size.names
        dims = [size.evaluate(self.values) if isinstance(size, SizeExpression) else size for size in type.dims]
        if any(isinstance(size, int) and size < 0 for size in dims):
            raise ValueError(f"{type.text} would have a negative size: {dims}")
        return tensor(dims, type.element)

    def type(self, type: Type) -> Type:
        """The type with the sizes replaced."""
        made = self.attribute(type)
        assert isinstance(made, Type)
        return made


def bind_sizes(root: Operation, values: Mapping[str, int]) -> None:
    """Replaces named sizes in all types inside `root`. Raises GradoptError (then nothing is changed)."""
    for name, value in values.items():
        if not 0 <= value < 1 << 63:
            raise GradoptError.at(root.location, f"size '{name}' is bound to {value}, expected an integer from 0 to 2^63 - 1")
    types = TypeMap(values)
    errors: list[Diagnostic] = []
    operations = list(root.walk())
    for op in operations:
        if op.name.startswith("kernel."):
            raise GradoptError.at(op.location, f"'{op.name}' op has its sizes built in: bind comes before fuse")
        try:
            for attribute in types_in(op):
                types.attribute(attribute)
        except (ValueError, ZeroDivisionError) as error:
            errors.append(Diagnostic(op.location, f"'{op.name}' op: {error}"))
    for name in values:
        if name not in types.names:
            errors.append(Diagnostic(root.location, f"there is no size '{name}'{near_miss(name, types.names)}"))
    if errors:
        raise GradoptError(errors)
    for op in operations:
        replace_types(op, types)
    for op in operations:
        if op.name == "prim.slice":
            settle_bounds(op)


def settle_bounds(op: Operation) -> None:
    """Rewrites the bounds of a prim.slice that count from the end of an axis whose size is known by now."""
    type = op.operands[0].type
    assert isinstance(type, TensorType)
    begin, end = list(op.begin), list(op.end)  # type: ignore[attr-defined]
    for axis, size in enumerate(type.dims):
        if isinstance(size, int):
            begin[axis] += size if begin[axis] < 0 else 0
            end[axis] = size if end[axis] == END else end[axis] + size if end[axis] < 0 else end[axis]
    fields = op.definition.attributes
    op.properties = {**op.properties, "begin": fields["begin"].kind.make(begin), "end": fields["end"].kind.make(end)}


def types_in(op: Operation) -> list[Attribute]:
    """The types of results and block arguments, and all attributes."""
    found: list[Attribute] = [result.type for result in op.results]
    found += [argument.type for region in op.regions for block in region.blocks for argument in block.arguments]
    return [*found, *op.properties.values(), *op.attributes.values()]


def replace_types(op: Operation, types: TypeMap) -> None:
    """Replaces the types of results, block arguments and attributes."""
    for result in op.results:
        result.type = types.type(result.type)
    for region in op.regions:
        for block in region.blocks:
            for argument in block.arguments:
                argument.type = types.type(argument.type)
    op.properties = {name: types.attribute(value) for name, value in op.properties.items()}
    op.attributes = {name: types.attribute(value) for name, value in op.attributes.items()}
