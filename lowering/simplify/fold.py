"""`fold`: constant folding. See `FoldPass`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradopt.dialects.arrays import to_array, to_elements
from gradopt.ir.attributes import DenseElementsAttr
from gradopt.ir.builder import make_operation
from gradopt.ir.declare import CONSTANT, ELEMENTWISE
from gradopt.ir.dialect import operation_class
from gradopt.ir.operation import Operation
from gradopt.ir.types import TensorType
from gradopt.ir.values import OperationResult, Value
from gradopt.lowering.passes import Pass, PassContext, option
from gradopt.lowering.simplify.effects import Effects

__all__ = ["FoldPass", "fold_constants"]

# ops that give each element of their only data operand, so a splat stays one
MOVES = frozenset({"prim.reshape", "prim.expand", "prim.permute", "prim.flip", "prim.slice", "prim.shape_cast", "prim.contiguous",
                   "hl.reshape", "hl.broadcast_to", "hl.permute_dims", "hl.flip", "hl.expand_dims", "hl.squeeze", "hl.flatten"})
# ops that mean something besides their value
KEPT = frozenset({"prim.barrier", "prim.stop_gradient", "prim.copy", "hl.barrier", "hl.stop_gradient", "hl.copy",
                  "hl.checkpoint_begin", "hl.checkpoint_end"})


@dataclass(frozen=True)
class FoldPass(Pass):
    """Computes operations whose operands are constants, by their NumPy meaning. A splat stays a splat.

    An operation is left alone where the result would have more than `limit` elements (and is not a splat), where a size is not
    static, and where its meaning raises an error (which then happens at run time, as it would have).

    Needs: nothing. Guarantees: nothing that a limit or an error does not keep is left to fold.

    Before:

        func.func @f() -> tensor<2xf32> {
          %a = prim.constant {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
          %b = prim.constant {value = dense<3.0> : tensor<2xf32>} : () -> tensor<2xf32>
          %y = prim.mul %a, %b : tensor<2xf32>
          return %y : tensor<2xf32>
        }

    After:

        func.func @f() -> tensor<2xf32> {
          %a = prim.constant {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
          %b = prim.constant {value = dense<3.0> : tensor<2xf32>} : () -> tensor<2xf32>
          %y = prim.constant {value = dense<[3.0, 6.0]> : tensor<2xf32>} : () -> tensor<2xf32>
          return %y : tensor<2xf32>
        }
    """

    name: ClassVar[str] = "fold"
    limit: int = option(65536, "the largest number of elements of a folded result or operand that is not a splat", count=True)

    def run(self, op: Operation, context: PassContext) -> None:
        """Walks forwards once, so that what was folded folds its users."""
        fold_constants(op, self.limit, context)


def fold_constants(root: Operation, limit: int = 65536, context: PassContext | None = None) -> int:
    """Folds inside `root`. Returns how many operations were replaced by constants."""
    context = context or PassContext()
    effects = Effects()
    counts = "fold" in context.counters
    folded = 0
    for op in root.walk():
        if not op.results or op.regions or op.name in KEPT or CONSTANT in op.definition.traits or op is root:
            continue
        constants = [constant_of(operand) for operand in op._operands]
        if None in constants or "callee" in op.definition.attributes or not effects.removable(op):
            continue
        if counts and not context.allows("fold"):
            continue
        values = fold_operation(op, [elements for elements in constants if elements is not None], limit)
        if values is not None:
            replace_by_constants(op, values)
            folded += 1
    if folded:
        context.count("operations folded", folded)
    return folded


def constant_of(value: Value) -> DenseElementsAttr | None:
    """The elements of a value that a constant op gives."""
    if isinstance(value, OperationResult) and CONSTANT in value.owner.definition.traits:
        elements = value.owner.properties.get("value")
        return elements if isinstance(elements, DenseElementsAttr) else None
    return None


def fold_operation(op: Operation, constants: Sequence[DenseElementsAttr], limit: int) -> list[DenseElementsAttr] | None:
    """The elements of each result; None where the op is not folded."""
    types = [result.type for result in op.results if isinstance(result.type, TensorType) and result.type.is_static]
    if len(types) != len(op.results):
        return None
    if op.name in MOVES and constants[0].is_splat and constants[0].data:
        return [DenseElementsAttr(types[0], constants[0].data, True)]
    evaluate = getattr(op, "evaluate", None)
    if evaluate is None:
        return None
    if ELEMENTWISE in op.definition.traits and constants and all(elements.is_splat and elements.data for elements in constants):
        values = _evaluate(evaluate, [to_array(splat_of(elements)) for elements in constants], len(types))
        return None if values is None else [splat_elements(value, type) for value, type in zip(values, types)]
    sizes = [type.element_count for type in types] + [e.type.element_count for e in constants if not e.is_splat]
    if any(size > limit for size in sizes):
        return None
    values = _evaluate(evaluate, [to_array(elements) for elements in constants], len(types))
    return None if values is None else [to_elements(value, type) for value, type in zip(values, types)]


def _evaluate(evaluate: Any, arrays: Sequence[Any], count: int) -> list[Any] | None:
    """The meaning's results; None where it raises."""
    import numpy as np

    try:
        with np.errstate(all="ignore"):
            results = evaluate(*arrays)
    except (ValueError, TypeError, IndexError, ArithmeticError, MemoryError):
        return None
    return [results] if count == 1 and not isinstance(results, (tuple, list)) else list(results)


def splat_of(elements: DenseElementsAttr) -> DenseElementsAttr:
    """One element of a splat, as a rank-1 tensor of size 1."""
    return DenseElementsAttr(TensorType((1,), elements.type.element), elements.data)


def splat_elements(value: Any, type: TensorType) -> DenseElementsAttr:
    """The splat of a one-element array (no elements at all for an empty type)."""
    one = to_elements(value.reshape(1), TensorType((1,), type.element))
    return DenseElementsAttr(type, one.data if type.element_count else b"", bool(type.element_count))


def replace_by_constants(op: Operation, values: Sequence[DenseElementsAttr]) -> None:
    """Puts constants of the op's dialect (`prim` where that has none) in its place."""
    cls = operation_class(f"{op.name.split('.')[0]}.constant") or operation_class("prim.constant")
    assert cls is not None and op.parent is not None
    replacements = []
    for result, value in zip(op.results, values):
        constant = make_operation(cls, (), {"value": value}, [result.type], location=op.location)
        constant.results[0].name = result.name
        op.parent.insert_before(op, constant)
        replacements.append(constant.results[0])
    op.replace_with(replacements)
