"""The weights of a convolution as its kernel reads them: [groups, blocks of outputs, channels, kernel…, outputs in a block]."""

from __future__ import annotations

from gradopt.ir.sizes import Size
from gradopt.ir.types import Type
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch
from gradopt.lowering.codegen.library.convolution import Problem, row_major
from gradopt.lowering.codegen.library.source import Source, blocks, element_of, literal, temporary, times
from gradopt.lowering.codegen.scalars import converted

TRANSPOSED = 16  # lines that are transposed in registers


def packed_weights(problem: Problem, width: int, output_blocks: int, element: Type) -> Value:
    """Memory for the packed weights."""
    return temporary((problem.groups, output_blocks, problem.channels, *problem.kernel, width), element)


def pack(problem: Problem, width: int, output_blocks: int, element: Type, packed: Value) -> Launch:
    """Fills it; outputs that do not exist get 0. A point is one channel of one block of outputs. Where lines are
    transposed in registers the sizes are parameters, so that the convolutions of a network share that kernel."""
    w = problem.w
    source = Source()
    given, out = source.pointer(w.value), source.pointer(packed)
    count = problem.kernel[0] * problem.kernel[1] * problem.kernel[2]
    flat = _is_flat(problem, w.spatial)
    in_registers = flat and element is element_of(w.value) and width % TRANSPOSED == 0 and count >= TRANSPOSED
    channels, first, second, group, offset, in_blocks, outputs, kernel = map(source.parameter if in_registers else source.size, (
        problem.channels, w.first, w.second, w.group, w.offset, output_blocks, problem.outputs, count))
    strides = [] if in_registers else [source.size(size) for size in w.spatial]
    with source.loop("point", "hi", "lo"):
        source.add(f"""
            rest = index_divide(point, {channels})
            c = point - rest * {channels}
            g = index_divide(rest, {in_blocks})
            block = rest - g * {in_blocks}
            to = point * {kernel} * {width}
            from_ = {offset} + g * {group} + block * {width} * {first} + c * {second}
            outputs = minimum({width}, {outputs} - block * {width})
        """)
        if in_registers:
            _transposed(source, given, out, width, kernel, first, element)
        else:
            _plain(source, problem, given, out, width, first, strides, element)
    extent = times(problem.groups, output_blocks, problem.channels)
    grain: Size = blocks(extent, 32, max(1, (1 << 13) // max(count * width, 1)))
    return source.launch(extent, grain, vectorise=not in_registers)


def _is_flat(problem: Problem, spatial: tuple[Size, Size, Size]) -> bool:
    """True where the kernel elements of one output and channel follow each other in memory."""
    return all(size == 1 or stride == dense for size, stride, dense in zip(problem.kernel, spatial, row_major(problem.kernel)))


def _plain(source: Source, problem: Problem, given: str, out: str, width: int, first: str, strides: list[str], element: Type) -> None:
    kd, kh, kw = problem.kernel
    loaded = converted(f"load({given}, at + o * {first})", element_of(problem.w.value), element)
    source.add(f"""
        for i in range(0, {kd}):
            for j in range(0, {kh}):
                for k in range(0, {kw}):
                    at = from_ + i * {strides[0]} + j * {strides[1]} + k * {strides[2]}
                    for o in range(0, outputs):
                        store({out}, to + o, {loaded})
                    for o in range(outputs, {width}):
                        store({out}, to + o, {literal(0, element)})
                    to = to + {width}
    """)


def _transposed(source: Source, given: str, out: str, width: int, count: str, first: str, element: Type) -> None:
    source.line(f"whole = index_divide({count}, {TRANSPOSED}) * {TRANSPOSED}")
    transpose = f"transpose_{element.text}"
    source.add(f"""
        for o in range(0, {width}, {TRANSPOSED}):
            begin = 0
            if o + {TRANSPOSED} <= outputs:
                begin = whole
                for k in range(0, whole, {TRANSPOSED}):
                    {transpose}({TRANSPOSED}, {TRANSPOSED}, offset({given}, from_ + o * {first} + k), {first}, offset({out}, to + k * {width} + o), {width})
            for k in range(begin, {count}):
                for l in range(o, o + {TRANSPOSED}):
                    v = {literal(0, element)}
                    if l < outputs:
                        v = load({given}, from_ + l * {first} + k)
                    store({out}, to + k * {width} + l, v)
    """)
