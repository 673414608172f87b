"""Names for the sizes that are known only at run time, so that equal ones are seen to be equal.

Before:

    func.func @f(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %y = prim.exp %x : tensor<?x4xf32>
      return %y : tensor<?x4xf32>
    }

After:

    func.func @f(%x: tensor<?x4xf32, #ir.dims<["n0", 4]>>) -> tensor<?x4xf32, #ir.dims<["n0", 4]>> {
      %y = prim.exp %x : tensor<?x4xf32, #ir.dims<["n0", 4]>>
      return %y : tensor<?x4xf32, #ir.dims<["n0", 4]>>
    }

Sizes that ops take as operands (`sizes…`) become names too where they follow from other sizes (`prim.dim`, constants and arithmetic on
them).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from gradopt.ir.attributes import TypeAttr
from gradopt.ir.declare import InvalidOperation, VariadicField
from gradopt.ir.operation import Block, Operation
from gradopt.ir.sizes import UNKNOWN, Size, SizeExpression, add, assumed_equal, floordiv, multiply, named_size, subtract
from gradopt.ir.types import FunctionType, TensorType, Type, literal, tensor
from gradopt.ir.values import Value

__all__ = ["SIZE_CHECKS", "name_sizes"]

SIZE_CHECKS = "kernel.size_checks"  # attribute of a function: pairs of sizes that must be equal when it is called

SAME_SHAPE = frozenset({"cast", "bitcast", "shape_cast"})  # the result's sizes are the operand's
ARITHMETIC = {"add": add, "sub": subtract, "subtract": subtract, "mul": multiply, "multiply": multiply}


def name_sizes(function: Operation) -> None:
    """Names every unknown size of a `func.func` and of what follows from it, in place."""
    Naming(function).run()


class Naming:
    """The work on one function."""

    def __init__(self, function: Operation) -> None:
        self.function = function
        self.sizes: dict[Value, Size] = {}  # tensor<i64> values that are known as sizes
        self.used = {name for op in function.walk() for value in op.results for name in _names(value.type)}
        self.used |= {name for argument in self.block.arguments for name in _names(argument.type)}
        self.made: set[str] = set()
        self.count = 0

    @property
    def block(self) -> Block:
        """The entry block."""
        return self.function.regions[0].blocks[0]

    def fresh(self) -> SizeExpression:
        """A name that is not used yet."""
        while f"n{self.count}" in self.used:
            self.count += 1
        self.used.add(f"n{self.count}")
        self.made.add(f"n{self.count}")
        return named_size(f"n{self.count}")

    def run(self) -> None:
        """Names arguments, then retypes what follows; sizes that ops rely on being equal become one, until nothing changes."""
        for argument in self.block.arguments:
            argument.type = self.named(argument.type)
        while True:
            with assumed_equal() as pairs:
                self.propagate()
            substitution = self.solve(pairs)
            if not substitution:
                break
            self.substitute(substitution)
        terminator = self.block.last
        assert terminator is not None
        type = FunctionType(tuple(argument.type for argument in self.block.arguments),
                            tuple(operand.type for operand in terminator.operands))
        self.function.properties = {**self.function.properties, "function_type": TypeAttr(type)}
        checks = {(str(left), str(right)) for left, right in pairs if left != right}
        if checks:
            self.function.attributes = {**self.function.attributes, SIZE_CHECKS: literal([list(pair) for pair in sorted(checks)])}

    def solve(self, pairs: Sequence[tuple[Size, Size]]) -> dict[str, Size]:
        """A name and what it is equal to, from the pairs where one side is a name (a made one before a user's)."""
        best: dict[str, Size] = {}
        for left, right in pairs:
            for name, other in ((left, right), (right, left)):
                if not isinstance(name, SizeExpression) or str(name) not in name.names or str(name) in getattr(other, "names", ()):
                    continue
                if str(name) in self.made or not best:
                    best = {str(name): other}
                if str(name) in self.made:
                    return best
        return best

    def substitute(self, values: dict[str, Size]) -> None:
        """Replaces names in every type."""
        for argument in self.block.arguments:
            argument.type = replaced(argument.type, values)
        for op in self.function.walk():
            for result in op.results:
                result.type = replaced(result.type, values)
            for region in op.regions:
                for block in region.blocks:
                    for argument in block.arguments:
                        argument.type = replaced(argument.type, values)
        self.sizes = {value: size.evaluate(values) if isinstance(size, SizeExpression) else size
                      for value, size in self.sizes.items()}

    def propagate(self) -> None:
        """Retypes every op in order; a control-flow op after its regions."""
        pending: list[Any] = [iter(list(self.block.operations))]
        waiting: list[Operation] = []
        while pending:
            op = next(pending[-1], None)
            if op is None:
                pending.pop()
                if waiting and pending:
                    self.retype(waiting.pop())
                continue
            if op.regions:
                self.enter(op)
                waiting.append(op)
                pending.append(iter([inner for region in op.regions for block in region.blocks for inner in block.operations]))
            else:
                self.retype(op)

    def named(self, type: Type) -> Type:
        """The type with a fresh name for each unknown size."""
        if not isinstance(type, TensorType) or UNKNOWN not in type.dims:
            return type
        return tensor([self.fresh() if size is UNKNOWN else size for size in type.dims], type.element)

    def enter(self, op: Operation) -> None:
        """Block arguments of a control-flow op take the types of the operands."""
        for region in op.regions:
            for block in region.blocks:
                for argument, type in zip(block.arguments, region_types(op, len(block.arguments))):
                    if type is not None:
                        argument.type = merge(argument.type, type)

    def retype(self, op: Operation) -> None:
        """Gives an op's results the sizes that follow from its operands, and drops size operands that are now names."""
        self.read_size(op)
        if not op.results:
            return
        if op.definition.can_infer:
            try:
                inferred: Sequence[Type] = op.infer()  # type: ignore[attr-defined]
            except InvalidOperation:
                inferred = ()
            for result, type in zip(op.results, inferred):
                result.type = merge(result.type, type)
        elif op.name.split(".")[1] in SAME_SHAPE:
            result, source = op.results[0], op.operands[0].type
            if isinstance(source, TensorType) and isinstance(result.type, TensorType):
                result.type = merge(result.type, source.with_element(result.type.element))
        elif hasattr(op, "known_dims"):
            with suppress(InvalidOperation):
                op.results[0].type = merge(op.results[0].type, tensor(op.known_dims(), op.results[0].type.element))  # type: ignore[attr-defined]
        self.use_sizes(op)
        if op.definition.has_verify and UNKNOWN not in [size for value in (*op.operands, *op.results)
                                                        for size in getattr(value.type, "dims", ())]:
            with suppress(InvalidOperation):
                op.verify()  # type: ignore[attr-defined]  # for the sizes that it relies on

    def use_sizes(self, op: Operation) -> None:
        """`sizes…` operands that are known as sizes go into the result type."""
        field = next((f for f in op.definition.operands if f.name == "sizes" and isinstance(f, VariadicField)), None)
        if field is None or not op.results:
            return
        result = op.results[0]
        type = result.type
        if not isinstance(type, TensorType) or UNKNOWN not in type.dims:
            return
        place = op.definition.segments(op)["sizes"]
        operands = list(op.operands[place])
        dims: list[Size] = []
        rest: list[Value] = []
        for size in type.dims:
            if size is UNKNOWN:
                operand = operands.pop(0)
                size = self.sizes.get(operand, UNKNOWN)
                if size is UNKNOWN:
                    rest.append(operand)
            dims.append(size)
        others = list(op.operands)
        others[place] = rest
        result.type = tensor(dims, type.element)
        op.operands = others

    def read_size(self, op: Operation) -> None:
        """Remembers which scalars are sizes."""
        name = op.name.split(".")[1]
        if not op.results or op.results[0].type.text != "tensor<i64>":
            return
        value: Size = UNKNOWN
        if name == "dim":
            type = op.operands[0].type
            assert isinstance(type, TensorType)
            value = type.dims[op.axis % type.rank]  # type: ignore[attr-defined]
        elif name == "constant":
            value = int.from_bytes(op.value.data, "little", signed=True)  # type: ignore[attr-defined]
        elif name in ARITHMETIC:
            left, right = (self.sizes.get(operand, UNKNOWN) for operand in op.operands)
            value = ARITHMETIC[name](left, right)
        elif name in ("div", "floor_divide"):
            left, right = (self.sizes.get(operand, UNKNOWN) for operand in op.operands)
            value = floordiv(left, right) if isinstance(right, int) and right > 0 else UNKNOWN
        elif len(op.operands) == 1 and name in ("reshape", "cast", "stop_gradient", "contiguous", "copy", "shape_cast"):
            value = self.sizes.get(op.operands[0], UNKNOWN)
        if value is not UNKNOWN:
            self.sizes[op.results[0]] = value


def _names(type: Type) -> set[str]:
    if not isinstance(type, TensorType):
        return set()
    return {name for size in type.dims if isinstance(size, SizeExpression) for name in size.names}


def replaced(type: Type, values: dict[str, Size]) -> Type:
    """The type with names replaced in its sizes."""
    if not isinstance(type, TensorType) or not any(isinstance(size, SizeExpression) for size in type.dims):
        return type
    return tensor([size.evaluate(values) if isinstance(size, SizeExpression) else size for size in type.dims], type.element)


def merge(declared: Type, inferred: Type) -> Type:
    """The declared type with what the inferred one knows better: a number before a name before nothing."""
    if not isinstance(declared, TensorType) or not isinstance(inferred, TensorType) or declared.rank != inferred.rank:
        return declared
    dims = [a if isinstance(a, int) else b if isinstance(b, int) or a is UNKNOWN else a
            for a, b in zip(declared.dims, inferred.dims)]
    return tensor(dims, declared.element)


def region_types(op: Operation, count: int) -> list[Type | None]:
    """What the block arguments of a control-flow op's region are given."""
    name = op.name.split(".")[1]
    types: list[Type | None] = [operand.type for operand in op.operands]
    if name == "scan":
        first = len(types) - op.num_xs  # type: ignore[attr-defined]
        rows = [tensor(type.dims[1:], type.element) if isinstance(type, TensorType) else None for type in types[first:]]
        return [*types[:first], *rows]
    if name in ("if", "switch"):
        return types[1:]
    if name == "for":
        return [None, *types[2:]]
    return types if len(types) == count else [None] * count
