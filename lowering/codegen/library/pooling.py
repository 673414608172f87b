"""The kernels of maximum pooling: a vector holds neighbouring windows of a row, or channels where those are dense.

The forward kernel keeps where each window's maximum lies, so that the adjoint reads neither x nor y.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradopt.ir.sizes import Size
from gradopt.ir.types import Type
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.convolution import row_major
from gradopt.lowering.codegen.library.scatter import convert
from gradopt.lowering.codegen.library.source import Source, accumulation_element, blocks, dims_of, element_of, literal, temporary, times
from gradopt.lowering.codegen.scalars import value_type

MOST_UNROLLED = 16  # elements (of a row or a column of a window) that are compared in straight-line code
CHUNK_ELEMENTS = 1 << 13


class Windows:
    """Sizes and strides of an image and of its windows, in the order n, c, h, w."""

    def __init__(self, op: Any, source: Source, image: Value, windows: Value) -> None:
        self.op, self.source = op, source
        axes = op.data_axes
        self.image_dims, self.window_dims = ([dims_of(value)[axis] for axis in axes] for value in (image, windows))
        image_strides, window_strides = (row_major(dims_of(value)) for value in (image, windows))
        self.dense_channels = axes[1] == 3
        self.n, self.c, self.h, self.w = (source.size(image_strides[axis]) for axis in axes)
        self.wn, self.wc, self.wh, self.ww = (source.size(window_strides[axis]) for axis in axes)
        self.channels, self.height, self.width = (source.size(size) for size in self.image_dims[1:])
        self.rows, self.columns = (source.size(size) for size in self.window_dims[2:])
        self.none = op.pool_size[0] * op.pool_size[1]

    def planes(self) -> Size:
        """Images times channels."""
        return times(self.window_dims[0], self.window_dims[1])

    def inside(self, axis: int) -> tuple[int, int]:
        """The windows that lie inside the image along an axis: [first, end)."""
        size, count = self.image_dims[axis + 2], self.window_dims[axis + 2]
        assert isinstance(size, int) and isinstance(count, int)
        before, stride = self.op.padding[axis][0], self.op.strides[axis]
        reach = size + before - (self.op.pool_size[axis] - 1) * self.op.dilation[axis]
        first = min(-(-before // stride), count)
        return first, max(min((reach - 1) // stride + 1 if reach > 0 else 0, count), first)

    def grain(self, extent: Size, elements: Size) -> Size:
        """Points in a chunk."""
        least = max(1, CHUNK_ELEMENTS // max(elements, 1)) if isinstance(elements, int) else 1
        return blocks(extent, 64, least)


@library("kernel.max_pool2d")
def max_pool(op: Any) -> list[Launch]:
    """y and positions."""
    source = Source()
    source.line("keep_loops()")
    x, y, position = source.pointer(op.x), source.pointer(op.results[0]), source.pointer(op.results[1])
    windows = Windows(op, source, op.x, op.results[0])
    pointers, mark = (x, y, position), value_type(element_of(op.results[1]))
    if windows.dense_channels:
        return [_channels(windows, pointers, mark, element_of(op.x))]
    return [_planes(windows, pointers, mark, element_of(op.x))]


def _better(found: str) -> str:
    """Whether v comes before `best`: nothing was found yet, it is larger, or the first NaN."""
    return f"bit_or({found}, bit_or(gt(v, best), bit_and(is_nan(v), bit_not(is_nan(best)))))"


def _planes(windows: Windows, pointers: tuple[str, str, str], mark: str, element: Type) -> Launch:
    """A point is a plane. The windows inside it are searched along rows first, then across them, so that a vector holds windows that
    follow each other; those at the border are searched one by one."""
    source, op = windows.source, windows.op
    x, y, position = pointers
    first_row, end_row = windows.inside(0)
    first, end = windows.inside(1)
    if max(op.pool_size) > MOST_UNROLLED or first_row == end_row or not isinstance(windows.image_dims[2], int):
        end = first
    if end > first:
        held = windows.image_dims[2] * (end - first)
        maxima, places = source.scratch(value_type(element), held), source.scratch(mark, held)
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            n = index_divide(point, {windows.channels})
            c = point - n * {windows.channels}
            plane = n * {windows.n} + c * {windows.c}
        """)
        if end > first:
            _along_rows(windows, x, (maxima, places), mark, first, end)
        with source.loop("i", windows.rows):
            source.line(f"row = n * {windows.wn} + c * {windows.wc} + i * {windows.wh}")
            source.line(f"h0 = i * {op.strides[0]} - {op.padding[0][0]}")
            if end - first == windows.window_dims[3] and end_row - first_row == windows.window_dims[2]:
                _across_rows(windows, (y, position), (maxima, places), mark, first, end)
            else:
                source.line("begin = 0")
                source.line("stop = 0")
                if end > first:
                    with source.block(f"if i >= {first_row} and i < {end_row}"):
                        source.line(f"begin = {first}")
                        source.line(f"stop = {end}")
                        _across_rows(windows, (y, position), (maxima, places), mark, first, end)
                with source.loop("j", windows.columns):
                    with source.block("if j >= begin and j < stop"):
                        source.line("continue")
                    _careful(windows, x, element)
                    source.line(f"store({y}, row + j * {windows.ww}, best)")
                    source.line(f"store({position}, row + j * {windows.ww}, {mark}(at))")
    plane = times(windows.window_dims[2], windows.window_dims[3])
    return source.launch(windows.planes(), windows.grain(windows.planes(), plane))


def _along_rows(windows: Windows, x: str, kept: tuple[str, str], mark: str, first: int, end: int) -> None:
    """For each row of the image and each window inside: the maximum of the window's elements in that row, and which it is."""
    source, op, count = windows.source, windows.op, end - first
    stride, corner = op.strides[1], first * op.strides[1] - op.padding[1][0]
    height, width = windows.image_dims[2:]
    assert isinstance(height, int)
    one_row = windows.w == "1" and windows.h == str(width) and count * stride == width  # the rows are one long row
    with source.loop("r", "1" if one_row else str(height)):
        source.line(f"line = plane + r * {windows.h} + {corner} * {windows.w}")
        source.line(f"to = r * {count}")
        with source.loop("j", str(height * count if one_row else count)):
            _search(source, [(f"load({x}, line + (j * {stride} + {b * op.dilation[1]}) * {windows.w})", f"{mark}({b})")
                             for b in range(op.pool_size[1])])
            source.line(f"store({kept[0]}, to + j, best)")
            source.line(f"store({kept[1]}, to + j, where)")


def _across_rows(windows: Windows, results: tuple[str, str], kept: tuple[str, str], mark: str, first: int, end: int) -> None:
    """The maximum over the rows of each window in row i."""
    source, op, count = windows.source, windows.op, end - first
    source.line(f"from_ = h0 * {count}")
    with source.loop("j", str(count)):
        steps = [f"from_ + {a * op.dilation[0] * count} + j" for a in range(op.pool_size[0])]
        _search(source, [(f"load({kept[0]}, {step})", f"add(load({kept[1]}, {step}), {mark}({a * op.pool_size[1]}))")
                         for a, step in enumerate(steps)])
        source.line(f"store({results[0]}, row + (j + {first}) * {windows.ww}, best)")
        source.line(f"store({results[1]}, row + (j + {first}) * {windows.ww}, where)")


def _search(source: Source, candidates: Sequence[tuple[str, str]]) -> None:
    """Lines that find the first of the largest of some (value, place) pairs, or the first NaN: `best` and `where`."""
    for number, (value, place) in enumerate(candidates):
        if number == 0:
            source.line(f"best = {value}")
            source.line(f"where = {place}")
            continue
        source.line(f"v = {value}")
        source.line("take = bit_and(bit_not(le(v, best)), bit_not(is_nan(best)))")
        source.line("best = select(take, v, best)")
        source.line(f"where = select(take, {place}, where)")


def _careful(windows: Windows, x: str, element: Type) -> None:
    """Lines that search the window (i, j) wherever it lies: `best`, and its position `at`."""
    source, op, kind = windows.source, windows.op, value_type(element)
    source.add(f"""
        best = {kind}(-INFINITY)
        at = {windows.none}
        for a in range(0, {op.pool_size[0]}):
            for b in range(0, {op.pool_size[1]}):
                r = h0 + a * {op.dilation[0]}
                s = j * {op.strides[1]} - {op.padding[1][0]} + b * {op.dilation[1]}
                if r >= 0 and r < {windows.height} and s >= 0 and s < {windows.width}:
                    v = load({x}, plane + r * {windows.h} + s * {windows.w})
                    if {_better(f'eq(at, {windows.none})')}:
                        best = v
                        at = a * {op.pool_size[1]} + b
    """)


def _channels(windows: Windows, pointers: tuple[str, str, str], mark: str, element: Type) -> Launch:
    """A point is a row of windows; a vector holds channels, and the results are improved in place."""
    source, op, kind = windows.source, windows.op, value_type(element)
    x, y, position = pointers
    none = f"{mark}({windows.none})"
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            n = index_divide(point, {windows.rows})
            i = point - n * {windows.rows}
            for j in range(0, {windows.columns}):
                row = n * {windows.wn} + i * {windows.wh} + j * {windows.ww}
                for c in range(0, {windows.channels}):
                    store({y}, row + c, {kind}(-INFINITY))
                    store({position}, row + c, {none})
                for a in range(0, {op.pool_size[0]}):
                    for b in range(0, {op.pool_size[1]}):
                        r = i * {op.strides[0]} - {op.padding[0][0]} + a * {op.dilation[0]}
                        s = j * {op.strides[1]} - {op.padding[1][0]} + b * {op.dilation[1]}
                        if r >= 0 and r < {windows.height} and s >= 0 and s < {windows.width}:
                            plane = n * {windows.n} + r * {windows.h} + s * {windows.w}
                            mark = {mark}(a * {op.pool_size[1]} + b)
                            for c in range(0, {windows.channels}):
                                v = load({x}, plane + c)
                                best = load({y}, row + c)
                                old = load({position}, row + c)
                                take = {_better(f'eq(old, {none})')}
                                store({y}, row + c, select(take, v, best))
                                store({position}, row + c, select(take, mark, old))
        """)
    extent = times(windows.window_dims[0], windows.window_dims[2])
    return source.launch(extent, windows.grain(extent, times(windows.window_dims[3], windows.window_dims[1])))


@library("kernel.max_pool2d_backward")
def max_pool_backward(op: Any) -> list[Launch]:
    """dx: each dy at the position of its window's maximum; 16-bit floats add up in f32."""
    out = op.results[0]
    wide = accumulation_element(element_of(out))
    target = out if wide is element_of(out) else temporary(dims_of(out), wide)
    source = Source()
    source.line("keep_loops()")
    dy, position, dx = source.pointer(op.dy), source.pointer(op.position), source.pointer(target)
    windows = Windows(op, source, target, op.dy)
    mark = value_type(element_of(op.position))
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            n = index_divide(point, {windows.channels})
            c = point - n * {windows.channels}
            plane = n * {windows.n} + c * {windows.c}
        """)
        if _covers(windows):
            _spread(windows, (dy, position, dx), mark, literal(0, wide))
        else:
            _scatter(windows, (dy, position, dx), literal(0, wide))
    plane = times(windows.image_dims[2], windows.image_dims[3])
    launch = source.launch(windows.planes(), windows.grain(windows.planes(), plane))
    return [launch] if target is out else [launch, convert(target, out)]


def _covers(windows: Windows) -> bool:
    """True where the windows lie side by side and cover the image, rows of which are dense."""
    op = windows.op
    tiled = list(op.pool_size) == list(op.strides) and list(op.dilation) == [1, 1] and all(before == 0 for before, _ in op.padding)
    whole = all(size == count * stride for size, count, stride in zip(windows.image_dims[2:], windows.window_dims[2:], op.strides))
    return tiled and whole and windows.none <= MOST_UNROLLED and windows.w == "1"


def _spread(windows: Windows, pointers: tuple[str, str, str], mark: str, zero: str) -> None:
    """Every element of the image is written once: its window's dy, or 0."""
    source, op = windows.source, windows.op
    dy, position, dx = pointers
    with source.loop("i", windows.rows):
        source.line(f"row = n * {windows.wn} + c * {windows.wc} + i * {windows.wh}")
        for a in range(op.pool_size[0]):
            with source.loop("j", windows.columns):
                source.line(f"g = load({dy}, row + j)")
                source.line(f"where = load({position}, row + j)")
                for b in range(op.pool_size[1]):
                    source.line(f"store({dx}, plane + (i * {op.strides[0]} + {a}) * {windows.h} + j * {op.strides[1]} + {b}, "
                                f"select(eq(where, {mark}({a * op.pool_size[1] + b})), g, {zero}))")


def _scatter(windows: Windows, pointers: tuple[str, str, str], zero: str) -> None:
    """The plane is cleared, then each dy is added where it belongs."""
    source, op = windows.source, windows.op
    dy, position, dx = pointers
    source.add(f"""
        for r in range(0, {windows.height}):
            for s in range(0, {windows.width}):
                store({dx}, plane + r * {windows.h} + s * {windows.w}, {zero})
        for i in range(0, {windows.rows}):
            for j in range(0, {windows.columns}):
                place = n * {windows.wn} + c * {windows.wc} + i * {windows.wh} + j * {windows.ww}
                where = i64(load({position}, place))
                if where < {windows.none}:
                    a = index_divide(where, {op.pool_size[1]})
                    r = i * {op.strides[0]} - {op.padding[0][0]} + a * {op.dilation[0]}
                    s = j * {op.strides[1]} - {op.padding[1][0]} + (where - a * {op.pool_size[1]}) * {op.dilation[1]}
                    to = plane + r * {windows.h} + s * {windows.w}
                    store({dx}, to, add(load({dx}, to), load({dy}, place)))
    """)
