"""How a convolution is cut: what the lanes of vectors hold, the register tile, and the blocks of rows, channels and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from gradopt.ir.sizes import Size, ceildiv, product
from gradopt.ir.types import F32, F64, Type
from gradopt.lowering.codegen.library.convolution import Problem, Triple
from gradopt.lowering.codegen.library.source import element_of
from gradopt.lowering.native.registers import Registers, registers

__all__ = ["Plan", "Tile", "make_plan"]

SCRATCH_ELEMENTS = 1 << 17  # of the padded part of x that a chunk keeps: half a megabyte in f32
TRANSPOSE_COST = 150  # cycles to write a vector of outputs at up to sixteen positions
GUESS = 64  # for a number of channels that is not known
FEW_POINTS = 8  # below this many images (times groups) an image is cut too


@dataclass(frozen=True)
class Tile:
    """A register tile.

    over = "outputs": `rows_1` x `rows_2` positions by `vectors` of outputs; over = "positions": `rows_2` outputs by `vectors` of
    positions, which follow each other in a row, or (`stacked`) lie in as many rows."""

    over: str
    rows_1: int
    rows_2: int
    vectors: int
    lanes: int
    stacked: bool = False

    @property
    def width(self) -> int:
        """Outputs in a tile: how wide the packed weights are."""
        return self.vectors * self.lanes if self.over == "outputs" else self.rows_2

    @property
    def height(self) -> int:
        """Rows of positions in a tile."""
        return self.rows_1 if self.over == "outputs" else self.vectors if self.stacked else 1

    @property
    def columns(self) -> int:
        """Positions of a tile in a row."""
        return self.rows_2 if self.over == "outputs" else self.lanes * (1 if self.stacked else self.vectors)

    @property
    def elements(self) -> int:
        """Sums in a tile."""
        return self.rows_1 * self.rows_2 * self.vectors * self.lanes


@dataclass(frozen=True)
class Plan:
    """The tile and the blocks: rows of positions in a chunk, channels that are summed at once, and blocks of outputs in a chunk."""

    tile: Tile
    row_block: int
    channel_block: Size
    output_blocks: int
    blocks_in_chunk: int
    in_place: bool
    padded: Triple  # what a chunk keeps of a channel of x: depth, rows, columns

    @property
    def summed_in_parts(self) -> bool:
        """True where the channels do not fit at once."""
        return self.channel_parts is not None

    channel_parts: Size | None = None  # their number, or None for one


@lru_cache(maxsize=512)
def best_tile(result: Triple, outputs: int, steps: int, dense_columns: bool, register: Registers, most_rows: int) -> Tile:
    """The tile with the least cycles (about)."""
    _, height, width = result
    lanes = register.lanes

    def candidates() -> Iterator[tuple[float, Tile]]:
        for columns in range(1, min(width, register.sums) + 1):
            for rows in range(1, min(height, most_rows, register.sums // columns) + 1):
                count = -(-height // rows) * -(-width // columns)
                for vectors in range(1, min(register.sums // (rows * columns), -(-outputs // lanes)) + 1):
                    write = rows * vectors * -(-columns // 16) * TRANSPOSE_COST
                    cost = steps * register.step_cost(rows * columns, vectors) + write + 30
                    yield count * -(-outputs // (vectors * lanes)) * cost, Tile("outputs", rows, columns, vectors, lanes)
        for taken in range(1, min(outputs, register.sums) + 1) if dense_columns else ():
            for vectors in range(1, register.sums // taken + 1):
                for stacked in (False, True):
                    if stacked and vectors > min(height, most_rows):
                        continue
                    tile = Tile("positions", 1, taken, vectors, lanes, stacked)
                    count = -(-height // tile.height) * -(-width // tile.columns) * -(-outputs // taken)
                    direct = width >= tile.columns
                    cost = steps * register.step_cost(taken, vectors, False) + taken * vectors * (2 if direct else 12) + 30
                    yield count * cost, tile

    return min(candidates(), key=lambda pair: pair[0])[1]


def compute_element(problem: Problem) -> Type:
    """What the sums are made in: f64 if an operand or the result is f64, else f32."""
    used = [element_of(given.value) for given in (problem.x, problem.w, problem.out)]
    return F64 if F64 in used else F32


def reads_inside(problem: Problem) -> bool:
    """True where every window lies inside x."""
    return all(low <= 0 and (result - 1) * stride + (kernel - 1) * dilation - low < size for size, kernel, result, stride, dilation, low in
               zip(problem.size, problem.kernel, problem.result, problem.strides, problem.dilation, problem.low))


def span(count: int, stride: int, kernel: int, dilation: int) -> int:
    """How many elements of an axis `count` windows read."""
    return (count - 1) * stride + (kernel - 1) * dilation + 1


def make_plan(problem: Problem) -> Plan:
    """The plan: a function of the shape and the machine's registers alone."""
    element = compute_element(problem)
    register = registers(8 if element is F64 else 4)
    channels = problem.channels if isinstance(problem.channels, int) else GUESS
    steps = channels * problem.kernel[0] * problem.kernel[1] * problem.kernel[2]
    dense_x = problem.x.spatial[2] == 1
    inside = reads_inside(problem) and element_of(problem.x.value) is element
    lead = product([problem.images, problem.groups])
    depth, height, width = problem.result
    parts = 1
    if isinstance(lead, int) and lead < FEW_POINTS:
        parts = max(1, min(-(-FEW_POINTS // max(lead, 1)), height // 4))
    row_block = -(-height // parts)
    row_block = _fitting_rows(problem, row_block, channels)
    shortest = height - (-(-height // row_block) - 1) * row_block
    # in place, a vector must not read past the end of a row
    tile = best_tile(problem.result, problem.outputs, steps, dense_x and problem.strides[2] == 1, register, shortest)
    in_place = inside and (tile.over == "outputs" or (dense_x and width >= tile.columns))
    padded = (span(depth, problem.strides[0], problem.kernel[0], problem.dilation[0]),
              span(row_block, problem.strides[1], problem.kernel[1], problem.dilation[1]),
              span(width, problem.strides[2], problem.kernel[2], problem.dilation[2]) + (tile.columns if tile.over == "positions" else 0))
    output_blocks = -(-problem.outputs // tile.width)
    points = product([lead, -(-height // row_block)])
    in_chunk = output_blocks
    if isinstance(points, int) and points < FEW_POINTS // 2:
        in_chunk = -(-output_blocks // min(output_blocks, -(-FEW_POINTS // max(2 * points, 1))))
    block, number = _channel_blocks(problem.channels, padded, in_place)
    return Plan(tile, row_block, block, output_blocks, in_chunk, in_place, padded, number)


def _fitting_rows(problem: Problem, rows: int, channels: int) -> int:
    """Fewer rows where the part of x would not fit, but not fewer than eight."""
    columns = span(problem.result[2], problem.strides[2], problem.kernel[2], problem.dilation[2])
    depth = span(problem.result[0], problem.strides[0], problem.kernel[0], problem.dilation[0])
    while rows > 8 and channels * depth * columns * span(rows, problem.strides[1], problem.kernel[1], problem.dilation[1]) > SCRATCH_ELEMENTS:
        rows = -(-rows // 2)
    return rows


def _channel_blocks(channels: Size, padded: Triple, in_place: bool) -> tuple[Size, Size | None]:
    plane = padded[0] * padded[1] * padded[2]
    most = max(1, SCRATCH_ELEMENTS // max(plane, 1))
    if in_place or (isinstance(channels, int) and channels <= most):
        return channels, None
    if isinstance(channels, int):
        number = -(-channels // most)
        return -(-channels // number), number
    return most, ceildiv(channels, most)
