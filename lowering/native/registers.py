"""How large a register tile may be on this machine, and what one costs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Registers", "registers"]


@dataclass(frozen=True)
class Registers:
    """`lanes` elements in a vector register; `sums` of them may hold sums beside the operands of a product."""

    lanes: int
    sums: int

    def step_cost(self, rows: int, vectors: int, aligned: bool = True) -> float:
        """Cycles of one step of a tile (about): products, or loads of vectors and of the rows' elements, whichever is more."""
        loads = vectors * (1 if aligned else 2) + 0.5 * rows
        return max(rows * vectors, loads, 4) + (2.5 if aligned else 0.7) * (vectors - 1) + 0.5


def registers(size: int) -> Registers:
    """The vector registers of this machine, for elements of `size` bytes."""
    from gradopt.lowering.native.codegen import host

    target = host()
    features = set(target.features.split(","))
    if "+avx512f" in features:
        return Registers(64 // size, 28)
    if "+avx2" in features or "+avx" in features:
        return Registers(32 // size, 12)
    return Registers(16 // size, 24 if "aarch64" in target.triple or "arm64" in target.triple else 12)
