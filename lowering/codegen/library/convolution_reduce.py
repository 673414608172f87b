"""The weight gradient of a depthwise convolution: for each channel a few sums over whole planes, all taken in one pass."""

from __future__ import annotations

from gradopt.ir.types import Type
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch
from gradopt.lowering.codegen.library.convolution import Problem
from gradopt.lowering.codegen.library.convolution_plan import SCRATCH_ELEMENTS, compute_element, span
from gradopt.lowering.codegen.library.convolution_rows import padded_row
from gradopt.lowering.codegen.library.source import Source, blocks, element_of, literal
from gradopt.lowering.codegen.scalars import converted

__all__ = ["is_plane_reduction", "plane_reduction"]

MOST_SUMS = 28


def _extent(problem: Problem) -> tuple[int, int]:
    """(rows, columns) of the padded plane."""
    rows, columns = (span(problem.kernel[axis], 1, problem.result[axis], problem.strides[axis]) for axis in (1, 2))
    return rows, columns


def is_plane_reduction(problem: Problem) -> bool:
    """True for few results a group, each a sum over a plane as large as the window, one image and one output a group."""
    count = problem.result[0] * problem.result[1] * problem.result[2]
    if problem.images != 1 or problem.outputs != 1 or problem.dilation != (1, 1, 1) or problem.kernel[0] != 1 or problem.result[0] != 1:
        return False
    if problem.low[0] != 0 or problem.size[0] != 1 or count > MOST_SUMS or problem.kernel[1] * problem.kernel[2] < 16:
        return False
    rows, columns = _extent(problem)
    return 2 * rows * columns <= SCRATCH_ELEMENTS


def plane_reduction(problem: Problem) -> Launch:
    """A point is a group. Both planes get the padded plane's row length, so that they are walked as one line."""
    source, element = Source(), compute_element(problem)
    _, _, out = (source.pointer(given.value) for given in (problem.x, problem.w, problem.out))
    channels, size = source.size(problem.channels), source.size
    x_second, x_group, x_offset, w_second, w_group, w_offset, out_group, out_offset = (size(entry) for entry in (
        problem.x.second, problem.x.group, problem.x.offset, problem.w.second, problem.w.group, problem.w.offset, problem.out.group,
        problem.out.offset))
    rows, columns = _extent(problem)
    _, height, width = problem.kernel
    plane, line = source.scratch(element.text, rows * columns), source.scratch(element.text, height * columns)
    places = [(i, j) for i in range(problem.result[1]) for j in range(problem.result[2])]
    with source.loop("g", "hi", "lo"):
        for number in range(len(places)):
            source.line(f"v{number} = {literal(0, element)}")
        with source.loop("c", channels):
            source.line(f"from_x = {x_offset} + g * {x_group} + c * {x_second}")
            source.line(f"from_w = {w_offset} + g * {w_group} + c * {w_second}")
            _copy(source, plane, problem.x.value, "from_x", (rows, columns), (problem.size[1], problem.size[2]),
                  (problem.low[1], problem.low[2]), [size(entry) for entry in problem.x.spatial[1:]], element)
            _copy(source, line, problem.w.value, "from_w", (height, columns), (height, width), (0, 0),
                  [size(entry) for entry in problem.w.spatial[1:]], element)
            with source.loop("p", str((height - 1) * columns + width)):
                source.line(f"d = load({line}, p)")
                for number, (i, j) in enumerate(places):
                    shift = i * problem.strides[1] * columns + j * problem.strides[2]
                    source.line(f"v{number} = accumulate_add(v{number}, multiply(d, load({plane}, p + {shift})))")
        _, h, w_stride = (size(entry) for entry in problem.out.spatial)
        for number, (i, j) in enumerate(places):
            value = converted(f"v{number}", element, element_of(problem.out.value))
            source.line(f"store({out}, {out_offset} + g * {out_group} + {i} * {h} + {j} * {w_stride}, {value})")
    return source.launch(problem.groups, blocks(problem.groups, 64, 1))


def _copy(source: Source, to: str, given: Value, start: str, extent: tuple[int, int], size: tuple[int, int], low: tuple[int, int],
          strides: list[str], element: Type) -> None:
    """A plane with zeros around it (or cut off), rows of the given length."""
    columns = extent[1]
    with source.loop("r", str(extent[0])):
        source.add(f"""
            h = r - {low[0]}
            row = {start} + h * {strides[0]} - {low[1]} * {strides[1]}
            at = r * {columns}
        """)
        padded_row(source, to, "at", columns, (low[1], low[1] + size[1]), given, "row", strides[1], f"h >= 0 and h < {size[0]}", element)
