"""What a derivative rule may ask for while it builds IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradopt.dialects.constraints import is_float_tensor
from gradopt.ir.builder import Builder
from gradopt.ir.operation import Operation
from gradopt.ir.values import Value

if TYPE_CHECKING:
    from gradopt.lowering.autodiff.engine import Derivative
    from gradopt.lowering.autodiff.state import State

__all__ = ["Context", "ForwardContext", "ReverseContext", "is_float_tensor"]


class Context:
    """What both modes share.

    `builder` stands where the derivative's operations go. `masked` is True where the cotangents (tangents) of this operation may
    hold lanes that a mask cut off, else None, so that it can be handed on as the unit attribute of a `bwd` op:
    `masked=context.masked`.
    `flags` says it for each of them alone. `state` is what the whole run of the pass shares.
    """

    state: State

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.op: Operation | None = None
        self.masked: bool | None = None
        self.flags: Sequence[Derivative | None] = ()
        self.replacement: list[Value] | None = None

    def scale(self, g: Value, d: Value) -> Value:
        """g * d for a cotangent or tangent g and a local derivative d of the same shape; zero wherever g is zero if g may hold
        masked lanes (semantics 0.3)."""
        name = "prim.mul_zero" if self.masked else "prim.mul"
        return self.builder.create(name, [g, d]).results[0]

    def keep(self, value: Value) -> Derivative:
        """`value` as a result that cuts off no further lane, from a rule that is registered with `masks=True`."""
        from gradopt.lowering.autodiff.engine import Derivative

        return Derivative(value, bool(self.masked))

    def cut(self, value: Value) -> Derivative:
        """`value` as a result that holds zeros where lanes were cut off, from a rule that is registered without `masks`."""
        from gradopt.lowering.autodiff.engine import Derivative

        return Derivative(value, True)

    @property
    def forward_builder(self) -> Builder:
        """Builds directly before the operation itself, for a rule that needs a richer forward operation."""
        assert self.op is not None
        return Builder(before=self.op, location=self.op.location)

    def replace_forward(self, values: Sequence[Value]) -> None:
        """Says that these values (built by `forward_builder`) take the place of the operation's results once the rule has
        returned."""
        self.replacement = list(values)


class ReverseContext(Context):
    """The context of a reverse rule."""

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder)
        self.wanted: Sequence[bool] = ()
        self.cotangents: Sequence[Value | None] = ()

    def wants(self, index: int) -> bool:
        """True if the gradient of operand `index` is wanted."""
        return self.wanted[index]

    def cotangent(self, index: int) -> Value | None:
        """The cotangent of result `index`; None where it is structurally zero."""
        return self.cotangents[index]


class ForwardContext(Context):
    """The context of a forward rule."""
