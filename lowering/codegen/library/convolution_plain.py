"""Convolutions that the register tiles do not serve: sizes that are not known, and empty sums."""

from __future__ import annotations

from dataclasses import replace

from gradopt.ir.types import Type
from gradopt.lowering.codegen.library import Launch
from gradopt.lowering.codegen.library.convolution import Problem, row_major
from gradopt.lowering.codegen.library.convolution_plan import compute_element, reads_inside
from gradopt.lowering.codegen.library.source import Source, blocks, element_of, literal, times
from gradopt.lowering.codegen.scalars import converted

__all__ = ["fill_zero", "flattened", "images_as_positions", "plain"]


def flattened(problem: Problem) -> Problem:
    """A pointwise convolution over dense images as one over a single axis."""
    ones = (1, 1, 1)
    if problem.kernel != ones or problem.strides != ones or problem.low != (0, 0, 0) or problem.size != problem.result:
        return problem
    dense = row_major(problem.size)
    if any(size != 1 and stride != wanted for given in (problem.x, problem.out)
           for size, stride, wanted in zip(problem.size, given.spatial, dense)):
        return problem
    line = (1, 1, problem.size[0] * problem.size[1] * problem.size[2])
    flat = (0, 0, 1)
    return replace(problem, size=line, result=line, x=replace(problem.x, spatial=flat), out=replace(problem.out, spatial=flat))


def images_as_positions(problem: Problem) -> Problem:
    """A convolution with one window an image as one image whose positions are the images: a register tile then holds several."""
    if problem.result != (1, 1, 1) or not isinstance(problem.images, int) or problem.images == 1 or problem.size[0] != 1:
        return problem
    if problem.kernel[0] != 1 or not reads_inside(problem) or any(problem.low):
        return problem
    x, out = problem.x, problem.out
    return replace(problem, images=1, size=(*problem.size[1:], problem.images), kernel=(*problem.kernel[1:], 1),
                   result=(1, 1, problem.images), strides=(1, 1, 1), dilation=(*problem.dilation[1:], 1),
                   x=replace(x, first=0, spatial=(*x.spatial[1:], x.first)),
                   w=replace(problem.w, spatial=(*problem.w.spatial[1:], 0)),
                   out=replace(out, first=0, spatial=(0, 0, out.first)))


def fill_zero(problem: Problem) -> Launch:
    """Zeros at every result: a sum over nothing."""
    return plain(problem, empty=True)


def plain(problem: Problem, empty: bool = False) -> Launch:
    """One result after the other. A point is an image, a group and an output."""
    source = Source()
    out = source.pointer(problem.out.value)
    element = compute_element(problem)
    size = source.size
    outputs, channels = size(problem.outputs), size(problem.channels)
    kernel, result, sizes = ([size(entry) for entry in triple] for triple in (problem.kernel, problem.result, problem.size))
    operands = {}
    for name, given in (("x", problem.x), ("w", problem.w), ("out", problem.out)):
        operands[name] = [size(entry) for entry in (given.first, given.second, given.group, given.offset, *given.spatial)]
    rounded = converted("total", element, element_of(problem.out.value))
    x, w = ("", "") if empty else (source.pointer(problem.x.value), source.pointer(problem.w.value))
    o_first, o_second, o_group, o_offset, od, oh, ow = operands["out"]
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            rest = index_divide(point, {outputs})
            o = point - rest * {outputs}
            n = index_divide(rest, {problem.groups})
            g = rest - n * {problem.groups}
        """)
        with source.loop("r0", result[0]), source.loop("r1", result[1]), source.loop("r2", result[2]):
            source.line(f"total = {literal(0, element)}")
            if not empty:
                _sum(source, problem, element, (x, w), operands, channels, kernel, sizes)
            source.line(f"store({out}, {o_offset} + n * {o_first} + g * {o_group} + o * {o_second} + r0 * {od} + r1 * {oh} + r2 * {ow}, {rounded})")
    extent = times(problem.images, problem.groups, problem.outputs)
    return source.launch(extent, blocks(extent, 64, 1))


def _sum(source: Source, problem: Problem, element: Type, pointers: tuple[str, str], operands: dict[str, list[str]], channels: str,
         kernel: list[str], sizes: list[str]) -> None:
    """Lines that add up one result."""
    x, w = pointers
    x_first, x_second, x_group, x_offset, *x_spatial = operands["x"]
    w_first, w_second, w_group, w_offset, *w_spatial = operands["w"]
    with source.loop("c", channels):
        source.line(f"from_x = {x_offset} + n * {x_first} + g * {x_group} + c * {x_second}")
        source.line(f"from_w = {w_offset} + g * {w_group} + o * {w_first} + c * {w_second}")
        with source.loop("k0", kernel[0]), source.loop("k1", kernel[1]), source.loop("k2", kernel[2]):
            for axis in range(3):
                source.line(f"i{axis} = r{axis} * {problem.strides[axis]} + k{axis} * {problem.dilation[axis]} - ({problem.low[axis]})")
            inside = " and ".join(f"i{axis} >= 0 and i{axis} < {sizes[axis]}" for axis in range(3))
            with source.block(f"if {inside}"):
                at_x = "from_x + " + " + ".join(f"i{axis} * {x_spatial[axis]}" for axis in range(3))
                at_w = "from_w + " + " + ".join(f"k{axis} * {w_spatial[axis]}" for axis in range(3))
                left = converted(f"load({x}, {at_x})", element_of(problem.x.value), element)
                right = converted(f"load({w}, {at_w})", element_of(problem.w.value), element)
                source.line(f"total = multiply_add({left}, {right}, total)")
