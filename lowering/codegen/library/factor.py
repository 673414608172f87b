"""Kernels of `prim.cholesky` and `prim.triangular_solve`: LAPACK and BLAS on one matrix at a time, matrices in parallel.

16-bit floats are computed in f32.
"""

from __future__ import annotations

from typing import Any

from gradopt.ir.sizes import Size, ceildiv
from gradopt.ir.types import F64
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.scatter import convert
from gradopt.lowering.codegen.library.source import Source, accumulation_element, blocks, dims_of, element_of, temporary, times, volume

COLUMN_BLOCKS = 8
LEAST_COLUMNS = 32


def _wide(value: Value) -> Value:
    """The value itself, or memory for it in f32."""
    element = element_of(value)
    wide = accumulation_element(element)
    return value if wide is element else temporary(dims_of(value), wide)


@library("prim.cholesky")
def cholesky(op: Any) -> list[Launch]:
    """Row-major lower triangles are upper triangles of the column-major matrices that LAPACK sees."""
    dims = dims_of(op.a)
    batch, size = volume(dims[:-2]), dims[-1]
    out = op.results[0]
    target = _wide(out)
    kind = element_of(target).text
    source = Source()
    a, factor, n = source.pointer(op.a), source.pointer(target), source.size(size)
    potrf = "dpotrf" if element_of(target) is F64 else "spotrf"
    with source.loop("m", "hi", "lo"):
        source.add(f"""
            base = m * {n} * {n}
            for i in range(0, {n}):
                row = base + i * {n}
                for j in range(0, i + 1):
                    store({factor}, row + j, load({a}, row + j))
                for j in range(i + 1, {n}):
                    store({factor}, row + j, {kind}(0.0))
            failed = i1(0)
            if {n} > 0:
                failed = i64({potrf}(context, 0, {n}, offset({factor}, base), {n})) != 0
                for i in range(0, {n}):
                    failed = bit_or(failed, is_nan(load({factor}, base + i * {n} + i)))
            if failed:
                for i in range(0, {n}):
                    for j in range(0, i + 1):
                        store({factor}, base + i * {n} + j, {kind}(NAN))
        """)
    launches = [source.launch(batch, blocks(batch, 32, 1))]
    return launches if target is out else [*launches, convert(target, out)]


@library("prim.triangular_solve")
def triangular_solve(op: Any) -> list[Launch]:
    """A point is a block of columns of one right-hand side."""
    dims = dims_of(op.b)
    batch, rows, columns = volume(dims[:-2]), dims[-2], dims[-1]
    out, matrix = op.results[0], _wide(op.a)
    target = _wide(out)
    kind = element_of(target).text
    block: Size = columns
    if not isinstance(batch, int) or batch < COLUMN_BLOCKS:
        block = blocks(columns, COLUMN_BLOCKS, LEAST_COLUMNS)
    number = ceildiv(columns, 1 if block == 0 else block)
    source = Source()
    a, b, x = source.pointer(matrix), source.pointer(op.b), source.pointer(target)
    n, m, n_block, n_number = source.size(rows), source.size(columns), source.size(block), source.size(number)
    trsm = "dtrsm" if element_of(target) is F64 else "strsm"
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            g = index_divide(point, {n_number})
            left = (point - g * {n_number}) * {n_block}
            width = minimum({n_block}, {m} - left)
            base = g * {n} * {m} + left
            for i in range(0, {n}):
                for j in range(0, width):
                    store({x}, base + i * {m} + j, load({b}, base + i * {m} + j))
            if {n} > 0:
                {trsm}(context, 0, {int(op.lower)}, {int(op.transpose)}, 0, {n}, width, {kind}(1.0), offset({a}, g * {n} * {n}), {n}, offset({x}, base), {m})
        """)
    extent = times(batch, number)
    launches = [source.launch(extent, blocks(extent, 32, 1))]
    if matrix is not op.a:
        launches.insert(0, convert(op.a, matrix))
    return launches if target is out else [*launches, convert(target, out)]
