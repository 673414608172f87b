"""What running a kernel once takes at least: floating-point operations, and bytes read and written.

Counted by convention, so that numbers of different kernels compare:

* an addition, product, comparison, minimum or maximum on floats is one operation, a fused multiply-add two; a quotient or a root is 4, and
  a transcendental function 12 or 25, what its polynomial costs here (the table `WEIGHTS` of `fuse/expression.py`);
* selections, casts, copies, integers and index arithmetic are none;
* every buffer is read and written once however often a kernel comes back to it (the cache's task), and no more of it than the kernel
  touches: the rows that a scatter updates, the part that a slice or an index picks. What a kernel packs for itself does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size, SizeExpression, product
from gradopt.ir.types import FloatType, TensorType
from gradopt.ir.values import BlockArgument, Value
from gradopt.lowering.codegen.library.scatter import IN_PLACE
from gradopt.lowering.fuse.expression import WEIGHTS

__all__ = ["Cost", "UnknownSizeError", "cost_of"]

Sizes = Mapping[str, int]
FREE = frozenset({"select", "cast", "bitcast", "copy", "constant"})  # scalar operations that move and compute nothing
CONTROL = frozenset({"prim.scan", "prim.while", "prim.if", "prim.switch", "func.func"})  # the driver's own work
SOFTMAX_WEIGHT = WEIGHTS["exp"] + 4  # an attended score: scaled, its maximum and sum, its exponential
ADJOINT_WEIGHT = WEIGHTS["exp"] + 6  # likewise in the adjoint, and the product with what came back


class UnknownSizeError(Exception):
    """A size that only the running program knows; the message names it."""


@dataclass(frozen=True)
class Cost:
    """Floating-point operations, bytes read and bytes written; `double` if they are on f64."""

    flops: int = 0
    read: int = 0
    written: int = 0
    double: bool = False

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return self.read + self.written


def cost_of(op: Operation, sizes: Sizes) -> Cost:
    """What an op of a function of kernels takes. Raises UnknownSizeError where a size is in neither the types nor `sizes`."""
    if op.name in CONTROL:
        return Cost()
    double = any(isinstance(value.type, TensorType) and isinstance(value.type.element, FloatType) and value.type.element.width == 64
                 for value in (*op.operands, *op.results))
    if op.name == "kernel.nest":
        flops, read = _Nest(op, sizes).count()
        return Cost(flops, read, sum(nbytes(value, sizes) for value in op.results), double)
    read = sum(nbytes(value, sizes) for value in dict.fromkeys(op.operands) if not _is_fill(value))
    written = sum(nbytes(value, sizes) for value in op.results)
    if IN_PLACE in op.attributes:  # only the rows that are updated move, once in and once out
        update = nbytes(op.operands[-1], sizes)
        read, written = read - nbytes(op.operands[0], sizes) + update, update
    count = LIBRARY.get(op.name)
    return Cost(0 if count is None else count(op, sizes), read, written, double)


def number(size: Size, sizes: Sizes) -> int:
    """A size as an int. Raises UnknownSizeError."""
    value = size.evaluate(sizes) if isinstance(size, SizeExpression) else size
    if not isinstance(value, int):
        raise UnknownSizeError(str(size))
    return value


def count_of(value: Value, sizes: Sizes) -> int:
    """How many elements a value has."""
    return number(product(list(_type(value).dims)), sizes)


def nbytes(value: Value, sizes: Sizes) -> int:
    """How many bytes a value has."""
    return count_of(value, sizes) * _type(value).element.storage_bytes


def dims(value: Value, sizes: Sizes) -> list[int]:
    """The sizes of a value."""
    return [number(size, sizes) for size in _type(value).dims]


def _type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType), f"{value.type.text} has no elements"
    return value.type


def _is_fill(value: Value) -> bool:
    """True for a constant of one distinct element: the kernels that take one hold it in a register."""
    op = value.defining_op
    return op is not None and op.name == "prim.constant" and op.value.is_splat  # type: ignore[attr-defined]


class _Nest:
    """Counts a `kernel.nest`: each op of its body as often as the loops around it run."""

    def __init__(self, op: Any, sizes: Sizes) -> None:
        self.op, self.sizes = op, sizes
        self.outer = self._number(op.outer)
        self.inputs = dict(zip(op.regions[0].block.arguments, op.operands))
        self.ranges: dict[Value, int] = {}  # loop variable -> how many values it takes
        indices = [argument for argument in op.regions[0].block.arguments if not isinstance(argument.type, TensorType)]
        self.ranges.update(zip(indices, (number(size, sizes) for size in op.outer)))

    def _number(self, size: Any) -> int:
        return number(product(list(size)), self.sizes)

    def count(self) -> tuple[int, int]:
        """(floating-point operations, bytes read)."""
        flops = 0
        reads: dict[Value, int] = {}  # input -> elements read
        for op, points in self._operations():
            if op.name == "kernel.read":
                buffer = op.operands[0]
                if buffer in self.inputs:
                    reads[buffer] = reads.get(buffer, 0) + self._elements_read(op, points)
            elif op.name == "kernel.gemm":
                flops += self._gemm(op, reads)
            elif op.name == "kernel.reduce":
                inner = points * self._number(op.inner)
                flops += sum(inner for result in op.results if _is_float(result))
            elif op.name == "kernel.accumulate":
                flops += points if _is_float(op.operands[0]) else 0
            elif op.name.startswith("prim."):
                flops += points * scalar_weight(op)
        read = sum(min(count * _type(buffer).element.storage_bytes, nbytes(self.inputs[buffer], self.sizes))
                   for buffer, count in reads.items())
        return flops, read

    def _operations(self) -> Iterator[tuple[Any, int]]:
        """Every op of the body with how often it runs."""
        for op in self.op.regions[0].block.operations:
            yield op, self.outer
            for region in op.regions:
                self.ranges.update(zip(region.block.arguments, (number(size, self.sizes) for size in op.inner)))
                points = self.outer * self._number(op.inner)
                for inner in region.block.operations:
                    yield inner, points

    def _elements_read(self, op: Any, points: int) -> int:
        """How many elements a read can touch: the points of the loops that its index moves with (all, where it is itself loaded)."""
        total = 1
        for index in op.operands[2 if op.guarded else 1:]:
            if index in self.ranges:
                total *= self.ranges[index]
            elif not isinstance(index, BlockArgument):
                return points
        return min(total, points)

    def _gemm(self, op: Any, reads: dict[Value, int]) -> int:
        """A product's operations; what it reads is added to `reads`."""
        batch = self._number(op.batch)
        m, n, k = (number(size, self.sizes) for size in op.sizes)
        for buffer, count in ((op.lhs, m * k), (op.rhs, k * n)):
            if buffer in self.inputs:
                reads[buffer] = reads.get(buffer, 0) + batch * count
        return 2 * batch * m * n * k


def _is_float(value: Value) -> bool:
    return isinstance(_type(value).element, FloatType)


def scalar_weight(op: Operation) -> int:
    """The floating-point operations of a scalar `prim` op."""
    name = op.name.removeprefix("prim.")
    if name in FREE or not op.operands or not _is_float(op.operands[0]):
        return 0
    return WEIGHTS.get(name, 1)


# --- library kernels

Count = Callable[[Any, Sizes], int]


def _attended(op: Any, sizes: Sizes) -> int:
    """Pairs of a query and a key that it attends to, over batch and heads (a mask that is data counts as if it cut nothing off)."""
    batch, _, queries, keys = (number(size, sizes) for size in op.check_heads(op.q, op.k, op.v))
    pairs = queries * keys
    if op.mask_kind in ("causal", "sliding_window"):
        window = keys if op.window is None else op.window
        last = range(keys - queries, keys)
        pairs = sum(max(0, min(i, keys - 1) - max(0, i - window) + 1) for i in last)
    heads: int = op.num_heads
    return batch * heads * pairs


def _attention(op: Any, sizes: Sizes) -> int:
    """Two products of head_dim and the softmax."""
    return _attended(op, sizes) * (4 * int(op.head_dim) + SOFTMAX_WEIGHT)


def _attention_backward(op: Any, sizes: Sizes) -> int:
    """Five products of head_dim (the scores again, dp, dq, dk, dv) and the softmax's adjoint."""
    return _attended(op, sizes) * (10 * int(op.head_dim) + ADJOINT_WEIGHT)


def _windows(many: Value, weight: Value, channel_axis: int, sizes: Sizes) -> int:
    """2 x (positions of the side that windows are counted on) x (what one position meets of the weight)."""
    kernel = dims(weight, sizes)
    return 2 * count_of(many, sizes) * (count_of(weight, sizes) // max(kernel[channel_axis], 1))


def _convolution(op: Any, sizes: Sizes) -> int:
    """Each element of the result is a sum over the weight of its output channel (padding counts as any other element)."""
    return _windows(op.results[0], op.weight, op.kernel_axes[0], sizes)


def _convolution_input(op: Any, sizes: Sizes) -> int:
    """As many products as the forward convolution that it is the adjoint of."""
    return _windows(op.dy, op.weight, op.kernel_axes[0], sizes)


def _convolution_weight(op: Any, sizes: Sizes) -> int:
    """As many products as the forward convolution that it is the adjoint of."""
    return _windows(op.dy, op.results[0], op.kernel_axes[0], sizes)


def _square(factor: float, right: bool = False) -> Count:
    """factor x n³ for each matrix, and 2 n² for each column of a right-hand side."""
    def count(op: Any, sizes: Sizes) -> int:
        shape = dims(op.operands[0], sizes)
        n, batch = shape[-1], count_of(op.operands[0], sizes) // max(shape[-1] * shape[-2], 1)
        columns = count_of(op.operands[1], sizes) // max(n * batch, 1) if right else 0
        return batch * (int(factor * n ** 3) + 2 * n * n * columns)
    return count


def _combined(position: int) -> Count:
    """One operation an element of an operand, if it is a float and combined at all."""
    def count(op: Any, sizes: Sizes) -> int:
        value = op.operands[position]
        return count_of(value, sizes) if _is_float(value) and getattr(op, "kind", "add") != "set" else 0
    return count


def _sort(op: Any, sizes: Sizes) -> int:
    """The comparisons of a merge sort: n log n along the axis."""
    count, size = count_of(op.operands[0], sizes), dims(op.operands[0], sizes)[op.axis]
    return count * max(size - 1, 0).bit_length() if _is_float(op.operands[0]) else 0


LIBRARY: dict[str, Count] = {
    "kernel.attention": _attention, "kernel.attention_backward": _attention_backward,
    "prim.conv": lambda op, sizes: _windows(op.results[0], op.w, 0, sizes),
    **dict.fromkeys(("hl.conv1d", "hl.conv2d", "hl.conv3d"), _convolution),
    "hl.conv2d_transpose": lambda op, sizes: _windows(op.x, op.weight, op.weight_axes[0], sizes),
    **dict.fromkeys(("bwd.conv1d_input", "bwd.conv2d_input", "bwd.conv3d_input"), _convolution_input),
    **dict.fromkeys(("bwd.conv1d_weight", "bwd.conv2d_weight", "bwd.conv3d_weight"), _convolution_weight),
    "kernel.max_pool2d": lambda op, sizes: count_of(op.results[0], sizes) * op.pool_size[0] * op.pool_size[1],
    "kernel.max_pool2d_backward": _combined(0),
    "prim.scatter": _combined(2), "prim.scatter_nd": _combined(2), "prim.cumulative": _combined(0), "prim.fold": _combined(0),
    "prim.sort": _sort, "prim.random_bits": lambda op, sizes: 0, "prim.check": lambda op, sizes: 0,
    "prim.cholesky": _square(1 / 3), "prim.triangular_solve": lambda op, sizes: _square(0, True)(op, sizes) // 2,
    "kernel.solve": _square(2 / 3, True), "kernel.inverse": _square(2), "kernel.det": _square(2 / 3),
}
"""The floating-point operations of the ops that are no nests; a test holds that every library kernel is here."""
