"""`infer-shapes`: better known sizes for results. See `InferShapesPass`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradopt.dialects.constraints import merge_size
from gradopt.dialects.control_flow import BranchBase, ForBase, LoopBase, ScanBase, yielded
from gradopt.ir.attributes import Attribute, SymbolRefAttr, TypeAttr
from gradopt.ir.builder import Builder
from gradopt.ir.declare import InvalidOperation
from gradopt.ir.operation import Operation, Region
from gradopt.ir.symbols import symbols
from gradopt.ir.types import FunctionType, TensorType, Type, compatible, tensor
from gradopt.ir.values import Value
from gradopt.lowering.passes import Pass, PassContext

__all__ = ["InferShapesPass", "refine"]


@dataclass(frozen=True)
class InferShapesPass(Pass):
    """Gives results the sizes that follow from the operands where their types do not say them, also through calls and regions.

    The arguments of functions and the carries of loops keep their types. The result types of a function follow what it returns,
    unless something other than `func.call` refers to it or it calls itself.

    Needs: functions of one block (others stay as they are). Guarantees: no result type can be made better known by its op's own
    rule.

    Before:

        func.func @f(%x: tensor<2x3xf32>) -> tensor<?x?xf32> {
          %y = prim.exp %x : (tensor<2x3xf32>) -> tensor<?x?xf32>
          %z = prim.permute %y {axes = [1, 0]} : (tensor<?x?xf32>) -> tensor<?x?xf32>
          return %z : tensor<?x?xf32>
        }

    After:

        func.func @f(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
          %y = prim.exp %x : tensor<2x3xf32>
          %z = prim.permute %y {axes = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
          return %z : tensor<3x2xf32>
        }
    """

    name: ClassVar[str] = "infer-shapes"
    anchor: ClassVar[str | None] = "builtin.module"

    def run(self, op: Operation, context: PassContext) -> None:
        """Walks functions, callees first."""
        inference = _Inference(op)
        for function in inference.ordered():
            inference.infer_function(function)
        if inference.refined:
            context.count("types refined", inference.refined)


def refine(known: Type, found: Type) -> Type:
    """`known` with each size that `found` knows better; `known` itself where the two are not compatible tensors."""
    if known is found or not isinstance(known, TensorType) or not isinstance(found, TensorType) or not compatible(known, found):
        return known
    dims = [merge_size(a, b) for a, b in zip(known.dims, found.dims)]
    return known if dims == list(known.dims) else tensor(dims, known.element)


class _Inference:
    def __init__(self, module: Operation) -> None:
        self.refined = 0
        self.functions = {name: op for name, op in symbols(module).items() if op.name == "func.func"}
        self.calls: dict[Operation, list[Operation]] = {}
        self.frozen: set[Operation] = set()  # functions whose result types stay
        for function in self.functions.values():
            called = self.calls[function] = []
            for op in function.walk():
                if op.name == "func.call":
                    called += self._named(op.callee)  # type: ignore[attr-defined]
                elif "callee" in op.definition.attributes:
                    self.frozen.update(self._named(op.callee))  # type: ignore[attr-defined]
            derivatives = [value for name, value in function.attributes.items() if name.startswith("ad.")]
            if derivatives:
                self.frozen.update([function], *map(self._named, derivatives))

    def _named(self, reference: Attribute) -> list[Operation]:
        found = self.functions.get(reference.root) if isinstance(reference, SymbolRefAttr) else None
        return [] if found is None else [found]

    def ordered(self) -> list[Operation]:
        """The functions, callees first; those on a cycle are frozen."""
        order: list[Operation] = []
        state: dict[Operation, bool] = {}  # False while open, True when done
        for start in self.functions.values():
            stack = [start]
            while stack:
                function = stack[-1]
                if function not in state:
                    state[function] = False
                    for callee in self.calls[function]:
                        if state.get(callee) is False:
                            self.frozen.add(callee)
                        elif callee not in state:
                            stack.append(callee)
                    continue
                stack.pop()
                if not state[function]:
                    state[function] = True
                    order.append(function)
        return order

    def infer_function(self, function: Operation) -> None:
        """Refines the results inside a function, then the function's own."""
        region = function.regions[0]
        if len(region.blocks) != 1 or region.blocks[0].last is None:
            return
        stack: list[tuple[Operation | None, bool]] = [(region.blocks[0].first, False)]
        while stack:
            op, inside_done = stack.pop()
            if op is None:
                continue
            if op.regions and not inside_done and all(len(inner.blocks) == 1 for inner in op.regions):
                self._refine_arguments(op)
                stack.append((op, True))
                stack += [(inner.blocks[0].first, False) for inner in reversed(op.regions)]
                continue
            self._refine_results(op)
            stack.append((op.next, False))
        self._finish(function, region)

    def _set(self, value: Value, found: Type) -> None:
        type = refine(value.type, found)
        if type is not value.type:
            value.type = type
            self.refined += 1

    def _refine_results(self, op: Operation) -> None:
        for result, type in zip(op.results, self._result_types(op)):
            if type is not None:
                self._set(result, type)

    def _result_types(self, op: Operation) -> Sequence[Type | None]:
        """What is known of each result; None for nothing."""
        if op.name == "func.call":
            callees = self._named(op.callee)  # type: ignore[attr-defined]
            return callees[0].function_type.results if callees else ()  # type: ignore[attr-defined]
        if isinstance(op, BranchBase):  # the size that all regions agree on
            yields = [yielded(region) for region in op.regions]
            return [first.type if all(other.type is first.type for other in others) else None for first, *others in zip(*yields)]
        if isinstance(op, LoopBase) or not op.definition.can_infer or any(f.name == "sizes" for f in op.definition.operands):
            return ()
        try:
            types: list[Type | None] = list(op.infer())  # type: ignore[attr-defined]
        except InvalidOperation:
            return ()
        if isinstance(op, ScanBase):  # a carry may have another size after the first step
            types[: op.num_carry] = [None] * op.num_carry
        return types

    def _refine_arguments(self, op: Operation) -> None:
        """Block arguments that are always equal to an operand (or to a row of it) get its sizes."""
        operands = [operand.type for operand in op._operands]
        if isinstance(op, BranchBase):
            for region in op.regions:
                for argument, type in zip(region.blocks[0].arguments, operands[1:]):
                    self._set(argument, type)
        elif isinstance(op, (ScanBase, LoopBase)):
            fixed = 2 if isinstance(op, ForBase) else 0
            xs = op.num_xs if isinstance(op, ScanBase) else 0
            values = operands[fixed:]
            for region in op.regions:
                arguments = region.blocks[0].arguments[1 if fixed else 0:]
                for index in range(op.num_carry, len(values)):
                    type = values[index]
                    if index >= len(values) - xs and isinstance(type, TensorType):
                        type = tensor(type.dims[1:], type.element)
                    self._set(arguments[index], type)

    def _finish(self, function: Operation, region: Region) -> None:
        """The function's result types follow what it returns; a frozen function's values are cast back."""
        last = region.blocks[0].last
        assert last is not None
        type = function.function_type  # type: ignore[attr-defined]
        if last.name != "func.return" or not isinstance(type, FunctionType) or len(type.results) != len(last._operands):
            return
        found = tuple(operand.type for operand in last._operands)
        if found == type.results:
            return
        if function not in self.frozen:
            function.properties = {**function.properties, "function_type": TypeAttr(FunctionType(type.inputs, found))}
            return
        builder = Builder(before=last, location=last.location)
        last.operands = [value if value.type is expected else builder.create("prim.shape_cast", [value], [expected]).results[0]
                         for value, expected in zip(last._operands, type.results)]
