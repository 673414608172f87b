"""`kernel.gemm` in a kernel's source: a call of our own product (native/product.py), or of BLAS where that is the better one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradopt.dialects.kernel import GemmOp
from gradopt.ir.sizes import Size, product
from gradopt.lowering.codegen.scalars import value_type
from gradopt.lowering.native.product import height, panel_width, scratch_elements

if TYPE_CHECKING:
    from gradopt.lowering.codegen.nest import NestSource

__all__ = ["write_gemm"]

FEWEST_ROWS = 16
FEWEST_COLUMNS = 16
SMALL = 1_000_000  # products: OpenBLAS multiplies such matrices without packing them
MOST_WASTE = 1.3  # of columns that are computed to those that there are


def write_gemm(nest: NestSource, op: GemmOp) -> None:
    """Adds the lines that compute a chunk's rows of the product, or its matrices where there is a batch of them."""
    m, n, k = op.sizes
    kind = value_type(op.out.type.element)  # type: ignore[attr-defined]
    lhs, rhs, out = (nest.names[value] for value in (op.lhs, op.rhs, op.out))
    transpose_left, lda = (0, op.lhs_strides[0]) if op.lhs_strides[1] == 1 else (1, op.lhs_strides[1])
    transpose_right, ldb = (0, op.rhs_strides[0]) if op.rhs_strides[1] == 1 else (1, op.rhs_strides[1])
    size = nest.size
    left, right = (size(offset) for offset in op.offsets)
    rows = m if op.batch else nest.op.grain[0]  # type: ignore[attr-defined]
    letter, own = kind.replace("f32", "s").replace("f64", "d"), _prefers_own(rows, n, k, kind)
    if own:
        scratch = nest.scratch_row(kind, scratch_elements(_bytes(kind)))
        tile = height(rows if isinstance(rows, int) else None, _bytes(kind))

    def call(rows: str, left: str, right: str, result: str) -> str:
        shape = f"{transpose_left}, {transpose_right}, {rows}, {size(n)}, {size(k)}"
        left, right = f"offset({lhs}, {left}), {size(lda)}", f"offset({rhs}, {right}), {size(ldb)}"
        result = f"offset({out}, {result}), {size(n)}"
        if own:
            return f"{letter}product{tile}(context, {shape}, {left}, {right}, {result}, {scratch})"
        return f"{letter}gemm(context, {shape}, {kind}(1.0), {left}, {right}, {kind}(0.0), {result})"

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


def _bytes(kind: str) -> int:
    return 4 if kind == "f32" else 8


def _prefers_own(rows: Size, n: Size, k: Size, kind: str) -> bool:
    """Whether a product of `rows` rows at a time is one for register tiles: large enough to pay for packing, wide enough to
    fill them."""
    if isinstance(rows, int) and rows < FEWEST_ROWS:
        return False
    if isinstance(n, int):
        lanes = panel_width(_bytes(kind)) // 2
        if n < FEWEST_COLUMNS or -(-n // lanes) * lanes > MOST_WASTE * n:
            return False
    work = product([rows, n, k])
    return not isinstance(work, int) or work > SMALL
