"""Kernels of `kernel.solve`, `kernel.inverse` and `kernel.det`: LAPACK's LU factors of one matrix at a time, matrices in parallel.

A row-major matrix is the transpose of the column-major one that LAPACK sees. 16-bit floats are computed in f32.
"""

from __future__ import annotations

from typing import Any

from gradopt.ir.sizes import Size, multiply
from gradopt.ir.types import F64, I32
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.source import Source, accumulation_element, blocks, dims_of, element_of, temporary, volume

WORK_ROWS = 16  # rows of work that getri gets: its block size


class _Factors:
    """The start of a kernel over matrices: the LU factors of matrix `m` of `a` in memory of their own."""

    def __init__(self, a: Value) -> None:
        dims = dims_of(a)
        self.batch, self.order = volume(dims[:-2]), dims[-1]
        self.element = accumulation_element(element_of(a))
        self.letter = "d" if self.element is F64 else "s"
        self.source = Source()
        self.matrix = self.source.pointer(a)
        self.factors = self.source.pointer(temporary([self.batch, self.order, self.order], self.element))
        self.pivots = self.source.pointer(temporary([self.batch, self.order], I32))
        self.n = self.source.size(self.order)

    def factor(self) -> None:
        """Adds the factorisation; `info` is not 0 for a singular matrix."""
        self.source.add(f"""
            base = m * {self.n} * {self.n}
            info = i64(0)
            for i in range(0, {self.n} * {self.n}):
                store({self.factors}, base + i, load({self.matrix}, base + i))
            if {self.n} > 0:
                info = i64({self.letter}getrf(context, {self.n}, {self.n}, offset({self.factors}, base), {self.n}, offset({self.pivots}, m * {self.n})))
        """)

    def launch(self) -> list[Launch]:
        """The kernel, one point a matrix."""
        return [self.source.launch(self.batch, blocks(self.batch, 32, 1))]


@library("kernel.solve")
def solve(op: Any) -> list[Launch]:
    """The right-hand sides are copied into columns of their own, and the solutions back."""
    work = _Factors(op.a)
    vector = len(dims_of(op.b)) < len(dims_of(op.a))
    width: Size = 1 if vector else dims_of(op.b)[-1]
    source, n = work.source, work.n
    b, x = source.pointer(op.b), source.pointer(op.results[0])
    columns = source.pointer(temporary([work.batch, width, work.order], work.element))
    m_columns = source.size(width)
    with source.loop("m", "hi", "lo"):
        work.factor()
        source.add(f"""
            right = m * {n} * {m_columns}
            for i in range(0, {n}):
                for j in range(0, {m_columns}):
                    store({columns}, right + j * {n} + i, load({b}, right + i * {m_columns} + j))
            if bit_and(info == 0, {n} * {m_columns} > 0):
                info = i64({work.letter}getrs(context, 1, {n}, {m_columns}, offset({work.factors}, base), {n}, offset({work.pivots}, m * {n}), offset({columns}, right), {n}))
            for i in range(0, {n}):
                for j in range(0, {m_columns}):
                    store({x}, right + i * {m_columns} + j, select(info == 0, load({columns}, right + j * {n} + i), {work.element.text}(NAN)))
        """)
    return work.launch()


@library("kernel.inverse")
def inverse(op: Any) -> list[Launch]:
    """The inverse of the transpose is the transpose of the inverse, so nothing is moved."""
    work = _Factors(op.a)
    source, n = work.source, work.n
    y = source.pointer(op.results[0])
    rows = source.pointer(temporary([work.batch, multiply(work.order, WORK_ROWS)], work.element))
    with source.loop("m", "hi", "lo"):
        work.factor()
        source.add(f"""
            if bit_and(info == 0, {n} > 0):
                info = i64({work.letter}getri(context, {n}, offset({work.factors}, base), {n}, offset({work.pivots}, m * {n}), offset({rows}, m * {n} * {WORK_ROWS}), {n} * {WORK_ROWS}))
            for i in range(0, {n} * {n}):
                store({y}, base + i, select(info == 0, load({work.factors}, base + i), {work.element.text}(NAN)))
        """)
    return work.launch()


@library("kernel.det")
def determinant(op: Any) -> list[Launch]:
    """The product of the pivots, its sign changed for each row that was swapped."""
    work = _Factors(op.a)
    source, n, kind = work.source, work.n, work.element.text
    y = source.pointer(op.results[0])
    with source.loop("m", "hi", "lo"):
        work.factor()
        source.add(f"""
            product = {kind}(1.0)
            for i in range(0, {n}):
                pivot = load({work.factors}, base + i * {n} + i)
                swapped = i64(load({work.pivots}, m * {n} + i)) != i + 1
                product = product * select(swapped, negate(pivot), pivot)
            store({y}, m, product)
        """)
    return work.launch()
