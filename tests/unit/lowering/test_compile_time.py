"""What makes compilation short, each technique by what is compiled (never by a clock)."""

from __future__ import annotations

import pytest
from gradopt.lowering.native import codegen, kernels
from gradopt.lowering.native.program import KernelSource

import gradopt


def convolutions(*sizes: tuple[int, int], kernel: int = 5, element: str = "f32") -> list[KernelSource]:
    """The kernels of a chain of convolutions with zero padding from one number of channels to another."""
    arguments, lines, value, channels = [], [], "x", sizes[0][0]
    for number, (inward, outward) in enumerate(sizes):
        image = f"tensor<2x{{}}x14x14x{element}>"
        arguments.append(f"%w{number}: tensor<{outward}x{inward}x{kernel}x{kernel}x{element}>")
        lines.append(f"  %y{number} = hl.conv2d %{value}, %w{number} {{padding = [[{kernel // 2}, {kernel // 2}], [{kernel // 2}, {kernel // 2}]]}} : ({image.format(inward)}, "
                     f"tensor<{outward}x{inward}x{kernel}x{kernel}x{element}>) -> {image.format(outward)}")
        value, result = f"y{number}", image.format(outward)
    text = (f"func.func @f(%x: {image.format(channels)}, {', '.join(arguments)}) -> {result} {{\n" + "\n".join(lines)
            + f"\n  return %{value} : {result}\n}}\n")
    return list(gradopt.compile(text, "f").program.kernels)


def packs(source: KernelSource) -> bool:
    """Whether a kernel transposes and does not multiply."""
    return "transpose_" in source.source and "tile_" not in source.source


def test_convolutions_of_many_sizes_share_the_kernel_that_packs_weights() -> None:
    found = convolutions((16, 32), (32, 48), (48, 16))
    assert sum(map(packs, found)) <= 1  # none where tiles are too narrow to be transposed in registers
    assert sum("tile_" in each.source for each in found) == 3


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_a_convolution_is_written_in_vectors(element: str) -> None:
    """Neither its rows nor its tiles wait for LLVM's vectoriser, and no loop moves one element at a time."""
    tiles = [each for each in convolutions((16, 32), element=element) if "tile_" in each.source]
    assert tiles
    assert not any(each.vectorise or " store(" in each.source for each in tiles)


def test_half_precision_rows_are_vectorised_by_llvm() -> None:
    """They are converted on the way, which a move through registers cannot do."""
    tiles = [each for each in convolutions((16, 32), element="f16") if "tile_" in each.source]
    assert tiles
    assert all(each.vectorise for each in tiles)


NESTED = """def kernel(lo, hi, context):
    b0 = pointer_f32(context, 0)
    b1 = pointer_f32(context, 1)
    for o in range(lo, hi):
        total = f32(0.0)
        for i in range(0, {outer}):
            for j in range(0, {inner}):
                total = accumulate_add(total, load(b0, (o * {outer} + i) * {inner} + j))
        store(b1, o, total)
    return 0
"""


@pytest.mark.parametrize("outer, inner, written_out", [(16, 784, False), (3, 3, True), (8, 16, False)])
def test_a_loop_over_loops_is_written_out_where_it_is_small(outer: int, inner: int, written_out: bool) -> None:
    """The loops of a window become straight code; those of a plane would become hundreds of kilobytes of it."""
    text = kernels.FRONT_ENDS["direct"](KernelSource("nested", NESTED.format(outer=outer, inner=inner)))
    marks = [line for line in text.splitlines() if "!llvm.loop" in line]
    assert len(marks) == (1 if written_out else 2)  # the loop over points, whose turns nobody knows, always has one
    assert ("llvm.loop.unroll.disable" in text) == bool(marks)
    assert len(codegen.object_code(text)) < 4096


@pytest.mark.parametrize("count", [8, 4096])
def test_a_kernel_that_fills_memory_is_optimised_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long fill becomes a call of memset, which takes another code model: LLVM's passes are not run again for it."""
    source = f"""def kernel(lo, hi, context):
    b0 = pointer_f32(context, 0)
    for i in range(0, {count}):
        store(b0, i, f32(0.0))
    return 0
"""
    text, runs, optimised = kernels.FRONT_ENDS["direct"](KernelSource("fill", source)), [], codegen.optimised
    monkeypatch.setattr(codegen, "optimised", lambda *arguments: runs.append(arguments) or optimised(*arguments))
    data = codegen.object_code(text)
    assert len(runs) == 1
    assert codegen.stands_alone(data) == (count == 8 and codegen.HAS_MEMORY_MANAGER)
