"""The launches of a convolution: weights are packed, then each chunk pads its part of x and runs register tiles over it."""

from __future__ import annotations

from gradopt.ir.types import Type
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch
from gradopt.lowering.codegen.library.convolution import Problem, elements, is_static
from gradopt.lowering.codegen.library.convolution_pack import pack, packed_weights
from gradopt.lowering.codegen.library.convolution_plain import fill_zero, flattened, images_as_positions, plain
from gradopt.lowering.codegen.library.convolution_plan import Plan, compute_element, make_plan
from gradopt.lowering.codegen.library.convolution_reduce import is_plane_reduction, plane_reduction
from gradopt.lowering.codegen.library.convolution_rows import is_in_registers, padded_row
from gradopt.lowering.codegen.library.source import Source, blocks, element_of, times
from gradopt.lowering.codegen.scalars import converted

__all__ = ["launches"]

MOST_CHUNKS = 64
CHUNK_PRODUCTS = 1 << 19


def launches(problem: Problem) -> list[Launch]:
    """The launches of one problem, in order."""
    if not is_static(problem):
        return [plain(problem)]
    if elements(problem) == 0:
        return []
    if 0 in problem.kernel or problem.channels == 0:
        return [fill_zero(problem)]
    if is_plane_reduction(problem):
        return [plane_reduction(problem)]
    problem = images_as_positions(flattened(problem))
    element = compute_element(problem)
    plan = make_plan(problem)
    packed = packed_weights(problem, plan.tile.width, plan.output_blocks, element)
    return [pack(problem, plan.tile.width, plan.output_blocks, element, packed), _Kernel(problem, plan, packed, element).launch()]


class _Kernel:
    """Writes the main kernel."""

    def __init__(self, problem: Problem, plan: Plan, packed: Value, element: Type) -> None:
        self.problem, self.plan, self.tile, self.element = problem, plan, plan.tile, element
        source = self.source = Source()
        self.x, self.w, self.out = source.pointer(problem.x.value), source.pointer(packed), source.pointer(problem.out.value)
        size = source.size
        self.channels = size(problem.channels)
        self.block = size(plan.channel_block)
        self.parts = size(plan.channel_parts) if plan.channel_parts is not None else "1"
        self.x_sizes = [size(stride) for stride in (problem.x.first, problem.x.second, problem.x.group, problem.x.offset)]
        self.x_spatial = [size(stride) for stride in problem.x.spatial]
        self.out_sizes = [size(stride) for stride in (problem.out.first, problem.out.second, problem.out.group, problem.out.offset)]
        self.out_spatial = [size(stride) for stride in problem.out.spatial]
        self.kernel_count = problem.kernel[0] * problem.kernel[1] * problem.kernel[2]
        self.row_blocks = -(-problem.result[1] // plan.row_block)
        self.output_parts = -(-plan.output_blocks // plan.blocks_in_chunk)
        self.tiles_in_row = -(-problem.result[2] // self.tile.columns)
        self.tiles_in_block = problem.result[0] * -(-plan.row_block // self.tile.height) * self.tiles_in_row
        self.vectorise = False  # until there is a loop over elements that is not written in vectors
        self.plane = plan.padded[0] * plan.padded[1] * plan.padded[2]
        self._scratch()

    def _scratch(self) -> None:
        plan, source = self.plan, self.source
        kept = 1
        if plan.summed_in_parts:
            kept = self.tiles_in_block * plan.blocks_in_chunk
        self.sums = source.scratch(self.element.text, kept * self.tile.elements)
        self.image = self.x
        if not plan.in_place:
            assert isinstance(plan.channel_block, int)
            self.image = source.scratch(self.element.text, plan.channel_block * self.plane)

    def launch(self) -> Launch:
        """The finished kernel. A point is an image, a group, a block of rows and a part of the outputs."""
        source, problem = self.source, self.problem
        with source.loop("point", "hi", "lo"):
            self._decode()
            if not self.plan.summed_in_parts:
                source.line("part = 0")
                self._part()
            else:
                with source.loop("part", self.parts):
                    self._part()
                self._tiles(self._write_back)
        extent = times(problem.images, problem.groups, self.row_blocks, self.output_parts)
        per_point = self.plan.row_block * problem.result[0] * problem.result[2] * problem.outputs * self.kernel_count
        per_point *= problem.channels if isinstance(problem.channels, int) else 16
        return source.launch(extent, blocks(extent, MOST_CHUNKS, max(1, CHUNK_PRODUCTS // max(per_point, 1))), self.vectorise)

    def _decode(self) -> None:
        self.source.add(f"""
            rest = index_divide(point, {self.output_parts})
            first_block = (point - rest * {self.output_parts}) * {self.plan.blocks_in_chunk}
            last_block = minimum(first_block + {self.plan.blocks_in_chunk}, {self.plan.output_blocks})
            image = index_divide(rest, {self.row_blocks})
            first_row = (rest - image * {self.row_blocks}) * {self.plan.row_block}
            rows = minimum({self.plan.row_block}, {self.problem.result[1]} - first_row)
            n = index_divide(image, {self.problem.groups})
            g = image - n * {self.problem.groups}
        """)

    def _part(self) -> None:
        """A block of channels: its padded image, and the tiles."""
        source, (first, second, group, offset) = self.source, self.x_sizes
        source.add(f"""
            first_channel = part * {self.block}
            taken = minimum({self.block}, {self.channels} - first_channel)
            origin = {offset} + n * {first} + g * {group} + first_channel * {second}
        """)
        if not self.plan.in_place:
            self._pad()
        self._tiles(self._compute)

    def _pad(self) -> None:
        """The windows of the chunk's rows, with zeros where they reach over x."""
        problem, source = self.problem, self.source
        depth, height, width = self.plan.padded
        (low_d, low_h, low_w), (size_d, size_h, size_w), (sd, sh, sw) = problem.low, problem.size, self.x_spatial
        with source.loop("c", "taken"), source.loop("z", str(depth)), source.loop("r", str(height)):
            source.add(f"""
                d = z - {low_d}
                h = r + first_row * {problem.strides[1]} - {low_h}
                at = ((c * {depth} + z) * {height} + r) * {width}
                line = origin + c * {self.x_sizes[1]} + d * {sd} + h * {sh} - {low_w} * {sw}
            """)
            within = f"d >= 0 and d < {size_d} and h >= 0 and h < {size_h}"
            padded_row(source, self.image, "at", width, (low_w, low_w + size_w), problem.x.value, "line", sw, within, self.element)
        self.vectorise |= not is_in_registers(problem.x.value, sw, self.element)

    def _converted(self, text: str) -> str:
        """A sum as a number for the result."""
        return converted(text, self.element, element_of(self.problem.out.value))

    # --- tiles

    def _tiles(self, body: object) -> None:
        """The loops over the tiles of the chunk, the longer walk outside."""
        source, tile, problem = self.source, self.tile, self.problem
        outputs_outside = tile.over == "outputs"

        def outputs() -> object:
            return source.loop("block", "last_block", "first_block")

        def inner() -> None:
            source.line("ordinal = ((block - first_block) * "
                        f"{self.tiles_in_block} + (z * {-(-self.plan.row_block // tile.height)} + tile_row) * {self.tiles_in_row} + tile_column) "
                        f"* {tile.elements if self.plan.summed_in_parts else 0}")
            body()  # type: ignore[operator]

        def positions(then: object) -> None:
            with source.loop("z", str(problem.result[0])):
                source.line(f"tile_rows = index_divide(rows + {tile.height - 1}, {tile.height})")
                with source.loop("tile_row", "tile_rows"):
                    source.line(f"i0 = minimum(tile_row * {tile.height}, rows - {tile.height})")
                    with source.loop("tile_column", str(self.tiles_in_row)):
                        source.line(f"j0 = minimum(tile_column * {tile.columns}, {max(problem.result[2] - tile.columns, 0)})")
                        then()  # type: ignore[operator]

        if outputs_outside:
            with outputs():  # type: ignore[attr-defined]
                positions(inner)
            return

        def blocks_inside() -> None:
            with outputs():  # type: ignore[attr-defined]
                inner()

        positions(blocks_inside)

    def _strides(self) -> tuple[str, list[str], str]:
        """(stride of a channel, strides of the spatial axes, where the tile's first window begins) of the image."""
        problem = self.problem
        _, sh, sw = problem.strides
        if not self.plan.in_place:
            _, height, width = self.plan.padded
            spatial = [str(height * width), str(width), "1"]
            return str(self.plane), spatial, f"(z * {problem.strides[0]} * {height} + i0 * {sh}) * {width} + j0 * {sw}"
        d, h, w = self.x_spatial
        low = problem.low
        begin = (f"origin + (z * {problem.strides[0]} - {low[0]}) * {d} + ((first_row + i0) * {sh} - {low[1]}) * {h} "
                 f"+ (j0 * {sw} - {low[2]}) * {w}")
        return self.x_sizes[1], [d, h, w], begin

    def _compute(self) -> None:
        """One register tile."""
        source, problem, tile = self.source, self.problem, self.tile
        channel, spatial, begin = self._strides()
        source.line(f"at = {begin}")
        source.line(f"weights = (((g * {self.plan.output_blocks} + block) * {self.channels} + first_channel) * {self.kernel_count}) "
                    f"* {tile.width}")
        counts = f"taken, {', '.join(map(str, problem.kernel))}"
        steps = [f"{stride} * {d}" for stride, d in zip(spatial, problem.dilation)]
        image = f"offset({self.image}, at), {channel}, {', '.join(steps)}"
        w, (kd, kh, kw) = tile.width, problem.kernel
        weights = f"offset({self.w}, weights), {kd * kh * kw * w}, {kh * kw * w}, {kw * w}, {w}"
        down, along = f"{spatial[1]} * {problem.strides[1]}", f"{spatial[2]} * {problem.strides[2]}"
        shape = f"{tile.rows_1}, {tile.rows_2}, {tile.vectors}, {tile.lanes}"
        if tile.over == "outputs":
            operands = f"{image}, {down}, {along}, {weights}, {tile.lanes}"
        else:
            operands = f"{weights}, 0, 1, {image}, {down if tile.stacked else tile.lanes}"
        kept = f"offset({self.sums}, ordinal), {tile.rows_2 * tile.vectors * tile.lanes}, {tile.vectors * tile.lanes}, {tile.lanes}"
        function = f"tile_{self.element.text}"
        if self.plan.summed_in_parts:
            source.add(f"""
                if part == 0:
                    {function}({shape}, 0, {counts}, {operands}, {kept})
                else:
                    {function}({shape}, 1, {counts}, {operands}, {kept})
            """)
            return
        if self._stores_directly():
            direct = f"offset({self.out}, {self._place()}), 0, {self.out_sizes[1]}, {self.out_spatial[1] if tile.stacked else tile.lanes}"
            if problem.outputs % tile.width == 0:
                source.line(f"{function}({shape}, 0, {counts}, {operands}, {direct})")
                return
            with source.block(f"if (block + 1) * {tile.width} <= {problem.outputs}"):
                source.line(f"{function}({shape}, 0, {counts}, {operands}, {direct})")
            with source.block("else"):
                source.line(f"{function}({shape}, 0, {counts}, {operands}, {kept})")
                self._write_back()
            return
        source.line(f"{function}({shape}, 0, {counts}, {operands}, {kept})")
        self._write_back()

    def _native(self) -> bool:
        return element_of(self.problem.out.value) is self.element and self.out_spatial[2] == "1"

    def _stores_directly(self) -> bool:
        """True where the vectors of a tile are rows of the result."""
        return self.tile.over == "positions" and self._native() and self.problem.result[2] >= self.tile.columns

    def _place(self) -> str:
        first, second, group, offset = self.out_sizes
        d, h, w = self.out_spatial
        return (f"{offset} + n * {first} + g * {group} + block * {self.tile.width} * {second} + z * {d} + (first_row + i0) * {h} "
                f"+ j0 * {w}")

    # --- results

    def _write_back(self) -> None:
        """From the tile in scratch to the result."""
        source, tile = self.source, self.tile
        source.line(f"place = {self._place()}")
        if tile.over == "outputs" and self._native():
            self._write_transposed()
            return
        second, (_, h, w) = self.out_sizes[1], self.out_spatial
        source.line(f"outputs = minimum({tile.width}, {self.problem.outputs} - block * {tile.width})")
        columns = min(tile.columns, self.problem.result[2])
        self.vectorise = True
        if tile.over == "outputs":
            source.add(f"""
                for i in range(0, {tile.rows_1}):
                    for j in range(0, {tile.rows_2}):
                        for o in range(0, outputs):
                            store({self.out}, place + i * {h} + j * {w} + o * {second}, {self._converted(f"load({self.sums}, ordinal + (i * {tile.rows_2} + j) * {tile.width} + o)")})
            """)
            return
        across = tile.vectors * tile.lanes
        source.add(f"""
            for o in range(0, outputs):
                for i in range(0, {tile.height}):
                    for j in range(0, {columns}):
                        store({self.out}, place + o * {second} + i * {h} + j * {w}, {self._converted(f"load({self.sums}, ordinal + o * {across} + i * {tile.lanes} + j)")})
        """)

    def _write_transposed(self) -> None:
        """Positions become rows again, sixteen at a time."""
        source, tile = self.source, self.tile
        lanes, width, second = tile.lanes, tile.width, self.out_sizes[1]
        transpose = f"transpose_{self.element.text}"
        rest = self.problem.outputs % lanes

        def lines(columns: int) -> None:
            for begin in range(0, tile.rows_2, 16):
                rows = min(16, tile.rows_2 - begin)
                source.line(f"{transpose}({rows}, {columns}, offset({self.sums}, ordinal + (i * {tile.rows_2} + {begin}) * {width} + v * {lanes}), "
                            f"{width}, offset({self.out}, place + i * {self.out_spatial[1]} + v * {lanes} * {second} + {begin}), {second})")

        with source.loop("i", str(tile.rows_1)), source.loop("v", str(tile.vectors)):
            source.line(f"left = {self.problem.outputs} - block * {width} - v * {lanes}")
            with source.block(f"if left >= {lanes}"):
                lines(lanes)
            if rest:
                with source.block(f"elif left == {rest}"):
                    lines(rest)
