"""A shape of each rank from 0 to 5."""

from __future__ import annotations

SHAPES = {0: "", 1: "N", 2: "Nx4", 3: "2xNx4", 4: "2x1xNx2", 5: "2x1xNx1x2"}
SIZES = {rank: tuple(3 if size == "N" else int(size) for size in text.split("x") if size) for rank, text in SHAPES.items()}
MIDDLE = {rank: text.split("x").index("N") for rank, text in SHAPES.items() if rank}  # the axis of size N
