"""`kernel.gemm` as calls of the library's matrix product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradopt.dialects.kernel import GemmOp
from gradopt.ir.sizes import product
from gradopt.lowering.codegen.scalars import value_type

if TYPE_CHECKING:
    from gradopt.lowering.codegen.nest import NestSource

__all__ = ["write_gemm"]


def write_gemm(nest: NestSource, op: GemmOp) -> None:
    """Adds the product of this chunk's rows, or of its whole matrices where there is a batch."""
    m, n, k = op.sizes
    kind = value_type(op.out.type.element)  # type: ignore[attr-defined]
    function = "sgemm" if kind == "f32" else "dgemm"
    lhs, rhs, out = (nest.names[value] for value in (op.lhs, op.rhs, op.out))
    transpose_left, lda = (0, op.lhs_strides[0]) if op.lhs_strides[1] == 1 else (1, op.lhs_strides[1])
    transpose_right, ldb = (0, op.rhs_strides[0]) if op.rhs_strides[1] == 1 else (1, op.rhs_strides[1])
    size = nest.size
    left, right = (size(offset) for offset in op.offsets)

    def call(rows: str, left: str, right: str, result: str) -> str:
        return (f"{function}(context, {transpose_left}, {transpose_right}, {rows}, {size(n)}, {size(k)}, {kind}(1.0), "
                f"offset({lhs}, {left}), {size(lda)}, offset({rhs}, {right}), {size(ldb)}, {kind}(0.0), "
                f"offset({out}, {result}), {size(n)})")

    if not op.batch:
        nest.line(call("hi - lo", f"{left} + lo * {size(op.lhs_strides[0])}", right, f"lo * {size(n)}"))
        return
    nest.line(f"for m in range(index_divide(lo, {size(m)}), index_divide(hi, {size(m)})):")
    nest.depth += 1
    rest = "m"
    for axis in range(len(op.batch) - 1, -1, -1):
        number = rest
        if axis:
            nest.line(f"m{axis} = index_modulo({rest}, {size(op.batch[axis])})")
            nest.line(f"q{axis} = index_divide({rest}, {size(op.batch[axis])})")
            number, rest = f"m{axis}", f"q{axis}"
        left += f" + {number} * {size(op.lhs_batch[axis])}"
        right += f" + {number} * {size(op.rhs_batch[axis])}"
    nest.line(call(size(m), left, right, f"m * {size(product([m, n]))}"))
    nest.depth -= 1
