"""Control flow, calls and markers of `hl`."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.dialects.arrays import Array
from gradopt.dialects.constraints import ANY_TENSOR, BOOL_TENSOR, check_axis, same_element, tensor_type
from gradopt.dialects.control_flow import ForBase, IfBase, ScanBase, SwitchBase, WhileBase, YieldBase
from gradopt.dialects.prim.data import CheckOp as PrimCheckOp
from gradopt.dialects.prim.data import IdentityOp
from gradopt.dialects.prim.shape import concat_type
from gradopt.ir.attribute_kinds import INTEGER, STRING, STRINGS
from gradopt.ir.declare import (
    PURE,
    InvalidOperation,
    attribute,
    operand,
    result,
    variadic,
    variadic_result,
)
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, floordiv
from gradopt.ir.types import Type, tensor


class ScanOp(ScanBase):
    __doc__ = ScanBase.__doc__
    __slots__ = ()
    name = "hl.scan"


class WhileOp(WhileBase):
    __doc__ = WhileBase.__doc__
    __slots__ = ()
    name = "hl.while"


class ForOp(ForBase):
    __doc__ = ForBase.__doc__
    __slots__ = ()
    name = "hl.for"


class IfOp(IfBase):
    __doc__ = IfBase.__doc__
    __slots__ = ()
    name = "hl.if"


class SwitchOp(SwitchBase):
    __doc__ = SwitchBase.__doc__
    __slots__ = ()
    name = "hl.switch"


class YieldOp(YieldBase):
    __doc__ = YieldBase.__doc__
    __slots__ = ()
    name = "hl.yield"


class StopGradientOp(IdentityOp):
    """`x`, through which no derivative passes: it counts as a constant in both modes."""

    __slots__ = ()
    name = "hl.stop_gradient"


class CheckpointBeginOp(IdentityOp):
    """`x`, where a stage begins whose values are not kept for the backward pass but computed again from here (pass
    `checkpoint`)."""

    __slots__ = ()
    name = "hl.checkpoint_begin"


class CheckpointEndOp(IdentityOp):
    """`x`, where a stage ends that `hl.checkpoint_begin` began."""

    __slots__ = ()
    name = "hl.checkpoint_end"


class ContiguousOp(IdentityOp):
    """`x`, stored row-major in a buffer of its own; its cotangent passes unchanged."""

    __slots__ = ()
    name = "hl.contiguous"


class ContiguousBackwardOp(IdentityOp):
    """`x`; its cotangent is made contiguous on the way back."""

    __slots__ = ()
    name = "hl.contiguous_backward"


class CopyOp(IdentityOp):
    """`x` on the device of that name (one machine has one memory, so it is a copy)."""

    __slots__ = ()
    name = "hl.copy"
    device = attribute(STRING)


class ShardOp(Operation):
    """`x` cut along `axis` into one equal part for each of `devices`. A device is a name; on one machine a shard is a part of the
    tensor. Its derivative is `unshard`."""

    __slots__ = ()
    name = "hl.shard"
    x = operand(ANY_TENSOR)
    axis = attribute(INTEGER)
    devices = attribute(STRINGS)
    outputs = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE})

    @property
    def normal_axis(self) -> int:
        """The axis, not negative."""
        return check_axis(self.axis, tensor_type(self.x).rank)

    def infer(self) -> list[Type]:
        type, count = tensor_type(self.x), len(self.devices)
        axis = check_axis(self.axis, type.rank)
        if not count or len(set(self.devices)) != count:
            raise InvalidOperation(f"attribute 'devices' is {list(self.devices)}, expected at least one name, each once")
        size: Size = type.dims[axis]
        if isinstance(size, int) and size % count:
            raise InvalidOperation(f"cuts a dimension of size {size} into {count} parts, expected a multiple of {count}")
        return [tensor([*type.dims[:axis], floordiv(size, count), *type.dims[axis + 1:]], type.element)] * count

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        import numpy as np

        if x.shape[self.axis] % len(self.devices):
            raise ValueError(f"'{self.name}' op cuts a dimension of size {x.shape[self.axis]} into {len(self.devices)} parts")
        return tuple(np.split(x, len(self.devices), axis=self.axis))


class UnshardOp(Operation):
    """The parts one behind the other along `axis`; the inverse of `shard`, and its derivative."""

    __slots__ = ()
    name = "hl.unshard"
    x = variadic(ANY_TENSOR)
    axis = attribute(INTEGER)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        inputs: Sequence[object] = self._operands
        joined = concat_type(inputs, self.axis)
        same_element(**{f"part {index}": value for index, value in enumerate(self._operands)})
        return [joined]

    def evaluate(self, *parts: Array) -> Array:
        import numpy as np

        return np.concatenate(parts, axis=self.axis)


class CheckOp(Operation):
    """A run-time error with `message` where any element of `cond` is false; `values` are shown with it."""

    __slots__ = ()
    name = "hl.check"
    cond = operand(BOOL_TENSOR)
    values = variadic(ANY_TENSOR)
    message = attribute(STRING)
    evaluate = PrimCheckOp.evaluate
