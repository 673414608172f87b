"""`kernel`: loop nests over index maps, matrix products in blocks, and the library kernels.

A `kernel.nest` has parallel outer ranges and a region, which runs once for each outer point: scalar `prim` ops on rank-0 tensors,
reads and writes through index maps, and stages with inner ranges (`kernel.map`, `kernel.reduce`). Its block arguments are
the inputs, the results (written in place), the scratch rows, the outer indices and the parameters (sizes), in this order.
A map `(d0, d1) -> (d0 * 8 + d1)` gives the element's position in the row-major buffer.
"""

from __future__ import annotations

from gradopt.dialects import kernel_library
from gradopt.dialects.constraints import ANY_TENSOR
from gradopt.ir.attribute_kinds import BOOLEAN, INTEGER, STRINGS, AttributeKind, enumeration
from gradopt.ir.attributes import AffineMapAttr, ArrayAttr, Attribute, IntegerAttr, StringAttr
from gradopt.ir.declare import (
    ANY_TYPE,
    PURE,
    TERMINATOR,
    InvalidOperation,
    attribute,
    operand,
    optional_operand,
    region,
    result,
    variadic,
    variadic_result,
)
from gradopt.ir.dialect import Dialect, declared_operations
from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, parse_size
from gradopt.ir.types import I64, Type, literal, tensor


def _read_sizes(attribute_: Attribute) -> tuple[Size, ...] | None:
    if not isinstance(attribute_, ArrayAttr):
        return None
    sizes: list[Size] = []
    for element in attribute_.elements:
        if isinstance(element, IntegerAttr):
            sizes.append(element.value)
        elif isinstance(element, StringAttr):
            try:
                sizes.append(parse_size(element.value))
            except ValueError:
                return None
        else:
            return None
    return tuple(sizes)


def _make_sizes(sizes: tuple[Size, ...]) -> Attribute:
    return literal([size if isinstance(size, int) else str(size) for size in sizes])


SIZES: AttributeKind[tuple[Size, ...]] = AttributeKind("a list of sizes", _read_sizes, _make_sizes)
MAP: AttributeKind[AffineMapAttr] = AttributeKind(
    "an affine map", lambda a: a if isinstance(a, AffineMapAttr) else None)
REDUCTION_KINDS = ("sum", "prod", "max", "min", "and", "or", "arg_max", "arg_min")


class NestOp(Operation):
    """Runs its region for each point of the `outer` ranges (row-major), in parallel chunks of `grain` points.

    `parameters` names the sizes that the region reads; `interchange` runs each stage's inner loop outside the loop over a chunk's points
    (so that consecutive points are vectorised).
    """

    __slots__ = ()
    name = "kernel.nest"
    inputs = variadic(ANY_TENSOR)
    outer = attribute(SIZES)
    grain = attribute(SIZES)
    parameters = attribute(STRINGS, default=())
    scratch = attribute(SIZES, default=())
    interchange = attribute(BOOLEAN, default=False)
    body = region()
    outputs = variadic_result(ANY_TENSOR)
    traits = frozenset({PURE})


class MapOp(Operation):
    """A stage: the body once for each point of the `inner` ranges."""

    __slots__ = ()
    name = "kernel.map"
    inner = attribute(SIZES)
    body = region()


class ReduceOp(Operation):
    """A stage that combines what its body yields over the `inner` ranges, one kind a yielded value; the results are scalars."""

    __slots__ = ()
    name = "kernel.reduce"
    inner = attribute(SIZES)
    kinds = attribute(STRINGS)
    body = region()
    outputs = variadic_result(ANY_TENSOR)

    def verify(self) -> None:
        for kind in self.kinds:
            if kind not in REDUCTION_KINDS:
                raise InvalidOperation(f"has kind '{kind}', expected one of {', '.join(REDUCTION_KINDS)}")


class ReadOp(Operation):
    """The element of `buffer` at the position that `map` gives; where the guard is false 0, and memory is not touched."""

    __slots__ = ()
    name = "kernel.read"
    buffer = operand(ANY_TENSOR)
    guard = optional_operand(ANY_TENSOR)
    indices = variadic(ANY_TYPE)
    map = attribute(MAP)
    guarded = attribute(BOOLEAN, default=False)
    result = result(ANY_TENSOR)

    def segment_lengths(self) -> dict[str, int]:
        """The guard is there if `guarded` says so."""
        return {"guard": int(self.guarded)}

    def infer(self) -> list[Type]:
        return [tensor((), self.buffer.type.element)]  # type: ignore[attr-defined]


class WriteOp(Operation):
    """Stores `value` at the position that `map` gives."""

    __slots__ = ()
    name = "kernel.write"
    value = operand(ANY_TENSOR)
    buffer = operand(ANY_TENSOR)
    indices = variadic(ANY_TYPE)
    map = attribute(MAP)


class AccumulateOp(Operation):
    """Combines `value` into this chunk's row of `buffer` [chunks, …] at the position (within the row) that `map` gives; a row begins as
    the identity."""

    __slots__ = ()
    name = "kernel.accumulate"
    value = operand(ANY_TENSOR)
    buffer = operand(ANY_TENSOR)
    indices = variadic(ANY_TYPE)
    map = attribute(MAP)
    kind = attribute(enumeration("sum", "prod", "max", "min", "and", "or"))


class IndexOp(Operation):
    """An index expression as a scalar."""

    __slots__ = ()
    name = "kernel.index"
    indices = variadic(ANY_TYPE)
    map = attribute(MAP)
    result = result(ANY_TENSOR)
    traits = frozenset({PURE})

    def infer(self) -> list[Type]:
        return [tensor((), I64)]


class GemmOp(Operation):
    """Inside a nest: rows lo … hi - 1 (this chunk) of out[batch…, M, N] = lhs * rhs, by one library call a matrix.

    Strides are in elements: lhs element (b…, m, k) stands at b·lhs_batch + m·lhs_strides[0] + k·lhs_strides[1] behind offsets[0];
    one of the two strides is 1. A chunk holds whole matrices where there is a batch.
    """

    __slots__ = ()
    name = "kernel.gemm"
    lhs = operand(ANY_TENSOR)
    rhs = operand(ANY_TENSOR)
    out = operand(ANY_TENSOR)
    batch = attribute(SIZES, default=(), documentation="sizes of the batch axes")
    sizes = attribute(SIZES, documentation="[M, N, K]")
    lhs_strides = attribute(SIZES, documentation="[M, K] strides")
    rhs_strides = attribute(SIZES, documentation="[K, N] strides")
    lhs_batch = attribute(SIZES, default=(), documentation="a stride for each batch axis")
    rhs_batch = attribute(SIZES, default=(), documentation="a stride for each batch axis")
    offsets = attribute(SIZES, documentation="first elements of lhs and rhs")


class YieldOp(Operation):
    """Ends the region of a nest or of a stage."""

    __slots__ = ()
    name = "kernel.yield"
    values = variadic(ANY_TENSOR)
    traits = frozenset({TERMINATOR})


class LoopOp(Operation):
    """Repeats its region of kernels `length` times in the driver (see `prim.scan`); the first block argument counts."""

    __slots__ = ()
    name = "kernel.loop"
    inputs = variadic(ANY_TENSOR)
    length = attribute(INTEGER)
    body = region()
    outputs = variadic_result(ANY_TENSOR)


DIALECT = Dialect("kernel", [*declared_operations(globals()), *kernel_library.OPERATIONS], __doc__ or "")
