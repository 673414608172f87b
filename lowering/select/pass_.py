"""`select-kernels`: preserved operations to the library kernels that serve them. See `SelectKernelsPass`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from gradopt.dialects.constraints import tensor_type
from gradopt.dialects.kernel_library import KernelAttentionOp, KernelMaxPool2dOp
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import UNKNOWN
from gradopt.ir.values import Value
from gradopt.lowering.passes import Pass, PassContext

__all__ = ["SELECTIONS", "SelectKernelsPass"]

Selection = Callable[[Builder, Any], "list[Value] | None"]  # the replacements, or None where no kernel serves the op
SELECTIONS: dict[str, Selection] = {}


def selection(name: str) -> Callable[[Selection], Selection]:
    """Registers how an operation becomes a library kernel."""
    def register(rule: Selection) -> Selection:
        SELECTIONS[name] = rule
        return rule
    return register


def _forward(b: Builder, op: Any) -> tuple[Value, Value]:
    """The forward kernel of an attention op (the same for `hl.attention` and for its adjoint, so that `cse` merges the two)."""
    declared = KernelAttentionOp.definition.attributes
    properties = {name: value for name, value in op.properties.items() if name in declared}
    mask = [op.mask_or_bias] if op.mask_or_bias is not None else []
    y, lse = b.create("kernel.attention", [op.q, op.k, op.v, *mask], **properties).results
    return y, lse


@selection("hl.attention")
def attention(b: Builder, op: Any) -> list[Value]:
    """The forward kernel; its log-sum-exp is read by the adjoint only."""
    return [_forward(b, op)[0]]


@selection("bwd.attention")
def attention_backward(b: Builder, op: Any) -> list[Value]:
    """The forward kernel again (`cse` merges it with the first) and the backward kernel."""
    properties = {**op.properties, "wrt": list(op.wanted)}
    mask = [op.mask_or_bias] if op.mask_or_bias is not None else []
    y, lse = _forward(b, op)
    return list(b.create("kernel.attention_backward", [op.q, op.k, op.v, op.dy, y, lse, *mask], **properties).results)


def _pooling(b: Builder, op: Any) -> tuple[Value, Value] | None:
    """The forward kernel of max pooling (the same for the adjoint), where the image has static sizes."""
    image = tensor_type(op.x).dims
    if not all(isinstance(size, int) for axis, size in enumerate(image) if axis != op.layout.index("N")) or UNKNOWN in image:
        return None
    declared = KernelMaxPool2dOp.definition.attributes
    y, position = b.create("kernel.max_pool2d", [op.x], **{name: op.properties[name] for name in declared if name in op.properties}).results
    return y, position


@selection("hl.max_pool2d")
def max_pool2d(b: Builder, op: Any) -> list[Value] | None:
    """The forward kernel; its positions are read by the adjoint only."""
    found = _pooling(b, op)
    return None if found is None else [found[0]]


@selection("bwd.max_pool2d")
def max_pool2d_backward(b: Builder, op: Any) -> list[Value] | None:
    """The forward kernel again (`cse` merges it with the first) and the backward kernel on its positions."""
    found = _pooling(b, op)
    if found is None:
        return None
    declared = KernelMaxPool2dOp.definition.attributes
    properties = {name: op.properties[name] for name in declared if name in op.properties}
    return list(b.create("kernel.max_pool2d_backward", [op.dy, found[1]], [op.results[0].type], **properties).results)


def _lapack(b: Builder, op: Any) -> list[Value]:
    """The kernel of the same meaning, which calls LAPACK."""
    return list(b.create(op.name.replace("hl.", "kernel."), op.operands).results)


SELECTIONS |= dict.fromkeys(("hl.solve", "hl.inverse", "hl.det"), _lapack)


@dataclass(frozen=True)
class SelectKernelsPass(Pass):
    """Replaces operations that have a library kernel by it; what has none is left for `decompose`.

    The adjoint of attention asks for the forward kernel once more, for its rows' log-sum-exp: `cse` merges the two, and nothing is
    computed twice.

    Needs: nothing. Guarantees: each `hl.attention` and `bwd.attention` is a `kernel` op; so are `hl.max_pool2d` and
    `bwd.max_pool2d` of images of static size, `hl.solve`, `hl.inverse` and `hl.det`.

    Before:

        func.func @f(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
          %y = hl.attention %q, %k, %v {head_dim = 4, num_heads = 2} : tensor<1x2x8x4xf32>
          return %y : tensor<1x2x8x4xf32>
        }

    After:

        func.func @f(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
          %y, %0 = kernel.attention %q, %k, %v {head_dim = 4, num_heads = 2} : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> (tensor<1x2x8x4xf32>, tensor<1x2x8xf32>)
          return %y : tensor<1x2x8x4xf32>
        }
    """

    name: ClassVar[str] = "select-kernels"

    def run(self, op: Operation, context: PassContext) -> None:
        """Visits every operation once."""
        for inner in list(op.walk()):
            rule = SELECTIONS.get(inner.name)
            if rule is None:
                continue
            found = rule(Builder(before=inner, location=inner.location), inner)
            if found is not None:
                inner.replace_with(found)
                context.count("kernels")
