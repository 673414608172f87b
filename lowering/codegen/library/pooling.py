"""The kernels of maximum pooling: a vector holds neighbouring windows of a row, or channels where those are dense.

The forward kernel keeps where each window's maximum lies, so that the adjoint reads neither x nor y.
"""

from __future__ import annotations

from typing import Any

from gradopt.ir.sizes import Size
from gradopt.ir.types import Type
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch, library
from gradopt.lowering.codegen.library.convolution import row_major
from gradopt.lowering.codegen.library.scatter import convert
from gradopt.lowering.codegen.library.source import Source, accumulation_element, blocks, dims_of, element_of, literal, temporary, times
from gradopt.lowering.codegen.scalars import value_type

MOST_UNROLLED = 16  # elements of a window that are compared in straight-line code
CHUNK_ELEMENTS = 1 << 15


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
    x, y, position = source.pointer(op.x), source.pointer(op.results[0]), source.pointer(op.results[1])
    windows = Windows(op, source, op.x, op.results[0])
    pointers, mark = (x, y, position), value_type(element_of(op.results[1]))
    if windows.dense_channels:
        return [_channels(windows, pointers, mark, element_of(op.x))]
    return [_planes(windows, pointers, mark, element_of(op.x))]


def _better(kind: str, found: str) -> str:
    """Whether v comes before `best`: it is larger, or the first NaN."""
    return f"bit_or({found}gt(v, best), bit_and(is_nan(v), bit_not(is_nan(best))))" if not found else (
        f"bit_or({found}, bit_or(gt(v, best), bit_and(is_nan(v), bit_not(is_nan(best)))))")


def _planes(windows: Windows, pointers: tuple[str, str, str], mark: str, element: Type) -> Launch:
    """A point is a plane; a vector holds windows that follow each other in a row, those at the border are searched one by one."""
    source, op = windows.source, windows.op
    x, y, position = pointers
    first_row, end_row = windows.inside(0)
    first, end = windows.inside(1)
    if windows.none > MOST_UNROLLED:
        end = first
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            n = index_divide(point, {windows.channels})
            c = point - n * {windows.channels}
            plane = n * {windows.n} + c * {windows.c}
        """)
        with source.loop("i", windows.rows):
            source.add(f"""
                row = n * {windows.wn} + c * {windows.wc} + i * {windows.wh}
                h0 = i * {op.strides[0]} - {op.padding[0][0]}
                begin = 0
                stop = 0
            """)
            if end > first:
                with source.block(f"if i >= {first_row} and i < {end_row}"):
                    source.line(f"begin = {first}")
                    source.line(f"stop = {end}")
                    _straight(windows, pointers, mark, first, end)
            with source.loop("j", windows.columns):
                with source.block("if j >= begin and j < stop"):
                    source.line("continue")
                _careful(windows, x, mark, element)
                source.line(f"store({y}, row + j * {windows.ww}, best)")
                source.line(f"store({position}, row + j * {windows.ww}, {mark}(at))")
    plane = times(windows.window_dims[2], windows.window_dims[3])
    return source.launch(windows.planes(), windows.grain(windows.planes(), plane))


def _straight(windows: Windows, pointers: tuple[str, str, str], mark: str, first: int, end: int) -> None:
    """Windows inside the image: every element is there."""
    source, op = windows.source, windows.op
    x, y, position = pointers
    with source.loop("j", str(end), str(first)):
        source.line(f"corner = plane + h0 * {windows.h} + (j * {op.strides[1]} - {op.padding[1][0]}) * {windows.w}")
        source.line(f"best = load({x}, corner)")
        source.line("where = i32(0)")
        for number in range(1, windows.none):
            a, b = divmod(number, op.pool_size[1])
            source.line(f"v = load({x}, corner + {a * op.dilation[0]} * {windows.h} + {b * op.dilation[1]} * {windows.w})")
            source.line(f"take = {_better('', '')}")
            source.line("best = select(take, v, best)")
            source.line(f"where = select(take, i32({number}), where)")
        source.line(f"store({y}, row + j * {windows.ww}, best)")
        source.line(f"store({position}, row + j * {windows.ww}, {'where' if mark == 'i32' else f'{mark}(where)'})")


def _careful(windows: Windows, x: str, mark: str, element: Type) -> None:
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
                    if {_better(kind, f'eq(at, {windows.none})')}:
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
                                take = {_better(kind, f'eq(old, {none})')}
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
