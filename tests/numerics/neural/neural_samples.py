"""Example operations for every neural-network op of `hl` and `bwd`: what the generated tests run.

A sample is one operation as text, `{N}` standing for the batch size (a number, or `?` in the dynamic variant). `{S}`
and `{T}` stand for the `sizes` operand that the dynamic variant of an op needs whose result type has a `?`, and for its
type. Floats are f64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Random = np.random.Generator
BATCH = 3


@dataclass(frozen=True, eq=False)
class Sample:
    """One operation. `data`: operand index -> its array (else normal floats); `smooth`: central differences make
    sense."""

    text: str
    data: Mapping[int, Callable[[Random], Any]] = field(default_factory=dict)
    smooth: bool = True

    @property
    def name(self) -> str:
        """The op's full name."""
        return self.text.split("(")[0].split(" ")[0].split(" = ")[-1]


def op(name: str, attributes: str, operands: str, results: str, data: Mapping[int, Any] | None = None, *, smooth: bool = True,
       sizes: bool = False) -> Sample:
    """A sample of an op from the types of its operands and results, each separated by blanks; `sizes`: it takes `{S}`
    of type `{T}`."""
    types = operands.split()
    names = ", ".join(f"%{index}" for index in range(len(types))) + ("{S}" if sizes else "")
    braces = f" {{{attributes}}}" if attributes else ""
    source, target = ", ".join(types) + ("{T}" if sizes else ""), ", ".join(results.split())
    return Sample(f"{name} {names}{braces} : ({source}) -> ({target})", data or {}, smooth)


def integers(low: int, high: int, *shape: int) -> Callable[[Random], Any]:
    """Integers in [low, high)."""
    return lambda random: random.integers(low, high, shape)


def given(values: Any, dtype: Any = None) -> Callable[[Random], Any]:
    """These values."""
    return lambda random: np.array(values, dtype)


def positive(*shape: int) -> Callable[[Random], Any]:
    """Floats in [0.5, 2)."""
    return lambda random: random.uniform(0.5, 2.0, shape)


def booleans(*shape: int) -> Callable[[Random], Any]:
    """Truth values, about two thirds true."""
    return lambda random: random.random(shape) < 0.67


KEY = {1: given([7, 11], np.uint32)}
LABELS = {1: integers(0, 4, BATCH)}
MATRICES = [[[0.9, 0.21, -0.31], [-0.12, 1.1, 0.43]], [[1.2, -0.33, 0.71], [0.23, 0.8, -0.62]],
            [[-0.71, 0.31, 2.57], [0.113, -1.29, 3.07]]]
AFFINE = given(MATRICES)
PROJECTIVE = given([[*rows, last] for rows, last in zip(MATRICES, ([0.021, -0.011, 1], [-0.03, 0.02, 1.1], [0.05, 0.04, 0.9]))])


def losses() -> list[Sample]:
    logits, row, scalar = "tensor<{N}x4xf64>", "tensor<{N}xf64>", "tensor<f64>"
    targets = {1: given([2, -100, 1])}
    weighted = {1: given([[2, -1, 3], [0, 1, -1], [1, 1, 3]]), 2: given([0.5, 2.0, 1.0, 3.0])}
    moved = {index + 1: data for index, data in weighted.items()}
    samples = [
        op("hl.softmax_cross_entropy", "", f"{logits} tensor<{{N}}xi32>", row, LABELS),
        op("bwd.softmax_cross_entropy", "", f"{logits} tensor<{{N}}xi64> {row}", logits, LABELS),
        op("bwd.softmax_cross_entropy", "masked", f"{logits} tensor<{{N}}xi64> {row}", logits, LABELS),
        op("hl.cross_entropy_with_logits", "", f"{logits} {logits}", scalar),
        op("hl.cross_entropy_with_logits", "", "tensor<5xf64> tensor<5xf64>", scalar),
        op("hl.nll_loss", "", "tensor<4xf64> tensor<i64>", scalar, {1: given(2)}),
    ]
    pred, classes, labels = "tensor<{N}x4x3xf64>", "tensor<4xf64>", "tensor<{N}x3xi64>"
    for reduction in ("mean", "sum", "none"):
        plain, spatial = (scalar, scalar) if reduction != "none" else (row, "tensor<{N}x3xf64>")
        how = f'reduction = "{reduction}"'
        other = how + ", ignore_index = -1"
        samples += [
            op("hl.nll_loss", how, f"{logits} tensor<{{N}}xi64>", plain, targets),
            op("hl.nll_loss", other, f"{pred} {labels} {classes}", spatial, weighted),
            op("bwd.nll_loss", how, f"{plain} {logits} tensor<{{N}}xi64>", logits, {2: targets[1]}),
            op("bwd.nll_loss", other, f"{spatial} {pred} {labels} {classes}", pred, moved),
            op("bwd.nll_loss_weights", other, f"{spatial} {pred} {labels} {classes}", classes, moved),
        ]
    return samples


def norms() -> list[Sample]:
    x, c, small = "tensor<{N}x4x5xf64>", "tensor<4xf64>", "tensor<{N}x3xf64>"
    samples = []
    for norm in ("layer_norm", "rms_norm"):
        samples += [
            op(f"hl.{norm}", "axis = 1", f"{x} {c} {c}", x),
            op(f"hl.{norm}", "eps = 0.01", x, x),
            op(f"hl.{norm}", "", f"{small} tensor<3xf64>", small),
            op(f"bwd.{norm}_input", "axis = 1", f"{x} {c} {x}", x),
            op(f"bwd.{norm}_input", "masked", f"{x} {x}", x),
            op(f"bwd.{norm}_gamma", "axis = -2, eps = 0.1", f"{x} {x}", c),
        ]
    samples.append(op("bwd.rms_norm_beta", "axis = 1", x, c))
    return samples + group_norms() + batch_norms()


IMAGE, LAST, FOUR, SIX = "tensor<{N}x4x2x3xf64>", "tensor<{N}x2x3x6xf64>", "tensor<4xf64>", "tensor<6xf64>"


def group_norms() -> list[Sample]:
    groups, nhwc = "num_groups = 2", 'num_groups = 3, layout = "NHWC", eps = 0.1'
    return [
        op("hl.group_norm", groups, f"{IMAGE} {FOUR} {FOUR}", IMAGE),
        op("hl.group_norm", nhwc, f"{LAST} {SIX} {SIX}", LAST),
        op("hl.group_norm", 'num_groups = 2, layout = "NC"', "tensor<{N}x6xf64>", "tensor<{N}x6xf64>"),
        op("bwd.group_norm_input", groups, f"{IMAGE} {FOUR} {IMAGE}", IMAGE),
        op("bwd.group_norm_input", nhwc, f"{LAST} {LAST}", LAST),
        op("bwd.group_norm_gamma", groups, f"{IMAGE} {IMAGE}", FOUR),
        op("bwd.group_norm_gamma", nhwc, f"{LAST} {LAST}", SIX),
        op("bwd.group_norm_beta", nhwc, LAST, SIX),
    ]


def batch_norms() -> list[Sample]:
    samples = []
    for flag in ("true", "false"):
        how = f"training = {flag}, momentum = 0.3"
        samples += [
            op("hl.batch_norm", how, f"{IMAGE} {FOUR} {FOUR} {FOUR} {FOUR}", f"{IMAGE} {FOUR} {FOUR}", {4: positive(4)}),
            op("hl.batch_norm", how + ', layout = "NHWC"', f"{LAST} {SIX} {SIX} {SIX} {SIX}", f"{LAST} {SIX} {SIX}",
               {4: positive(6)}),
            op("bwd.batch_norm_input", how, f"{IMAGE} {FOUR} {FOUR} {FOUR} {IMAGE}", IMAGE, {3: positive(4)}),
            op("bwd.batch_norm_gamma", how, f"{IMAGE} {FOUR} {FOUR} {IMAGE}", FOUR, {2: positive(4)}),
        ]
    samples.append(op("bwd.batch_norm_statistics", 'momentum = 0.3, layout = "NHWC"', f"{LAST} {SIX} {SIX}", LAST))
    return samples


def convolutions() -> list[Sample]:
    def conv(rank: int, attributes: str, x: str, w: str, y: str) -> list[Sample]:
        x, y, w = f"tensor<{{N}}x{x}xf64>", f"tensor<{{N}}x{y}xf64>", f"tensor<{w}xf64>"
        return [op(f"hl.conv{rank}d", attributes, f"{x} {w}", y),
                op(f"bwd.conv{rank}d_input", attributes, f"{y} {w}", x, sizes=True),
                op(f"bwd.conv{rank}d_weight", attributes, f"{x} {y}", w)]

    x, w = "tensor<{N}x4x3x4xf64>", "tensor<4x2x3x2xf64>"
    return [
        *conv(1, "strides = [2], padding = [[1, 2]], dilation = [2]", "3x9", "4x3x3", "4x4"),
        *conv(1, "", "2x4", "3x2x1", "3x4"),
        *conv(2, "padding = [[1, 2], [0, 1]]", "2x4x5", "3x2x3x2", "3x5x5"),
        *conv(2, "strides = [2, 3], padding = [[1, 1], [2, 0]], dilation = [2, 1], groups = 2", "4x7x8", "6x2x2x3", "6x4x3"),
        *conv(2, "strides = [2, 2], groups = 3, padding = [[1, 1], [1, 1]]", "3x6x6", "6x1x3x3", "6x3x3"),
        *conv(2, 'layout = "NHWC", kernel_layout = "HWIO", strides = [2, 1]', "6x5x2", "3x2x2x4", "2x4x4"),
        *conv(2, 'layout = "NHWC", out_layout = "NCHW", strides = [3, 2]', "7x6x2", "4x2x2x3", "4x2x2"),
        *conv(2, "strides = [3, 2]", "2x8x7", "2x2x1x1", "2x3x4"),
        *conv(3, "strides = [1, 2, 1], padding = [[1, 0], [1, 1], [0, 1]], groups = 2", "4x2x3x3", "2x2x2x3x2", "2x2x2x3"),
        op("hl.conv2d_transpose", "", f"{x} {w}", "tensor<{N}x2x5x5xf64>"),
        op("hl.conv2d_transpose", "strides = [2, 3], padding = [[1, 0], [1, 2]], dilation = [2, 1], output_padding = [1, 2], "
           "groups = 2", f"{x} {w}", "tensor<{N}x4x9x10xf64>"),
        op("hl.conv2d_transpose", 'strides = [2, 2], layout = "NHWC", kernel_layout = "HWOI", out_layout = "NCHW"',
           "tensor<{N}x3x2x4xf64> tensor<2x3x5x4xf64>", "tensor<{N}x5x6x5xf64>"),
    ]


def pooling() -> list[Sample]:
    samples = []
    cases = [
        ("pool_size = [2, 3]", "2x7x6", "2x6x4"),
        ("pool_size = [2, 2], strides = [2, 2]", "2x7x6", "2x3x3"),
        ("pool_size = [3, 3], strides = [2, 2], padding = [[1, 1], [1, 1]]", "2x7x6", "2x4x3"),
        ("pool_size = [2, 2], strides = [2, 3], padding = [[1, 0], [0, 1]], dilation = [3, 2], count_include_pad = true",
         "2x7x6", "2x3x2"),
        ("pool_size = [3, 2], strides = [2, 3], padding = [[1, 1], [0, 0]], ceil_mode = true", "2x7x6", "2x4x2"),
        ("pool_size = [3, 2], strides = [3, 4], padding = [[1, 1], [0, 1]], ceil_mode = true, count_include_pad = true",
         "2x7x6", "2x3x2"),
        ("pool_size = [1, 1], strides = [3, 3]", "2x7x6", "2x3x2"),
        ('pool_size = [2, 3], strides = [2, 1], layout = "NHWC"', "5x4x2", "2x2x2"),
    ]
    for attributes, x, y in cases:
        x, y = f"tensor<{{N}}x{x}xf64>", f"tensor<{{N}}x{y}xf64>"
        samples += [op("hl.max_pool2d", attributes, x, y), op("hl.avg_pool2d", attributes, x, y),
                    op("bwd.max_pool2d", attributes, f"{x} {y}", x), op("bwd.avg_pool2d", attributes, y, x, sizes=True)]
    return samples


def attention() -> list[Sample]:
    samples = []

    def add(attributes: str, q: str, k: str, mask: str = "", data: Any = None, gradients: str = "012") -> None:
        q, k = f"tensor<{{N}}x{q}xf64>", f"tensor<{{N}}x{k}xf64>"
        one, two = ({3: data}, {4: data}) if data else ({}, {})
        samples.append(op("hl.attention", attributes, f"{q} {k} {k} {mask}", q, one))
        types = " ".join({"0": q, "1": k, "2": k, "3": mask}[index] for index in gradients)
        wrt = "" if gradients in ("012", "0123") else f", wrt = [{', '.join(gradients)}]"
        samples.append(op("bwd.attention", attributes + wrt, f"{q} {k} {k} {q} {mask}", types, two))

    heads = "num_heads = 2, head_dim = 3"
    add(heads, "2x4x3", "2x4x3")
    add(heads + ", scale = 0.4, softcap = 0.8", "2x4x3", "2x5x3", gradients="02")
    add(heads + ', mask_kind = "causal"', "2x4x3", "2x4x3")
    add(heads + ', mask_kind = "causal"', "2x2x3", "2x5x3", gradients="1")
    add(heads + ', mask_kind = "causal"', "2x5x3", "2x3x3")  # the first two queries attend to nothing
    add('num_heads = 4, head_dim = 3, mask_kind = "sliding_window", window = 1', "4x4x3", "2x5x3")
    add(heads + ', mask_kind = "custom"', "2x4x3", "2x5x3", "tensor<{N}x5xi1>", booleans(BATCH, 5))
    add(heads + ', mask_kind = "custom", softcap = 1.5', "2x4x3", "2x5x3", "tensor<4x5xi1>", booleans(4, 5))
    add(heads + ', mask_kind = "custom"', "2x4x3", "2x5x3", "tensor<{N}x2x4x5xi1>", booleans(BATCH, 2, 4, 5))
    add(heads + ', mask_kind = "custom"', "2x4x3", "2x5x3", "tensor<{N}x1x4x5xi1>", booleans(BATCH, 1, 4, 5))
    add(heads + ', mask_kind = "bias"', "2x4x3", "2x5x3", "tensor<{N}x2x4x5xf64>", gradients="0123")
    add(heads + ', mask_kind = "bias"', "2x4x3", "2x5x3", "tensor<1x2x1x5xf64>", gradients="0123")
    add(heads + ', mask_kind = "bias"', "2x4x3", "2x5x3", "tensor<4x5xf64>", gradients="03")
    add('num_heads = 4, head_dim = 3, layout = "BSHD", mask_kind = "causal"', "4x4x3", "4x2x3")
    add('num_heads = 2, head_dim = 3, layout = "BS(HD)"', "4x6", "5x6")
    return samples


def rotary() -> list[Sample]:
    x, table, four = "tensor<{N}x5x8xf64>", "tensor<5x2xf64>", "tensor<{N}x2x5x4xf64>"
    samples = [op("hl.rope", "head_dim = 4, n_rot = 4", f"{four} {table} {table}", four)]
    for attributes in ("n_rot = 4", "n_rot = 2", "n_rot = 4, interleaved = true", "n_rot = 2, interleaved = true", "n_rot = 0"):
        attributes = "head_dim = 4, " + attributes
        samples += [op("hl.rope", attributes, f"{x} {table} {table}", x), op("bwd.rope", attributes, f"{x} {table} {table}", x),
                    op("bwd.rope_tables", attributes, f"{x} {x}", f"{table} {table}")]
    return samples


def quantization() -> list[Sample]:
    x = "tensor<{N}x4xf64>"
    samples = [op("hl.dropout", f"rate = {rate}", f"{x} tensor<2xui32>", x, KEY) for rate in (0.4, 0.0)]
    for ste in ("identity", "clipped", "tanh", "hard_tanh"):
        how = f', ste = "{ste}"'
        for attributes, scale, data in (("bits = 8", "", None), ("bits = 4, axis = 1", "", None),
                                        ('bits = 3, scale_mode = "fixed"', "tensor<f64>", given(0.3)),
                                        ('bits = 4, axis = -1, scale_mode = "fixed"', "tensor<4xf64>", positive(4))):
            forward, backward = ({1: data}, {2: data}) if data else ({}, {})
            samples += [op("hl.fake_quantize", attributes + how, f"{x} {scale}", x, forward, smooth=False),
                        op("bwd.fake_quantize", attributes + how, f"{x} {x} {scale}", x, backward, smooth=False)]
    return samples


def images() -> list[Sample]:
    samples = []
    for attributes, x, y in (("factor = 2", "tensor<{N}x8x3x2xf64>", "tensor<{N}x2x6x4xf64>"),
                             ('factor = 3, layout = "NHWC"', "tensor<{N}x2x3x9xf64>", "tensor<{N}x6x9x1xf64>"),
                             ("factor = 1", "tensor<{N}x3x2x2xf64>", "tensor<{N}x3x2x2xf64>")):
        samples += [op("hl.pixel_shuffle", attributes, x, y), op("bwd.pixel_shuffle", attributes, y, x)]
    x, y = "tensor<{N}x4x5x2xf64>", "tensor<{N}x3x4x2xf64>"
    maps = (("warp_affine", "tensor<{N}x2x3xf64>", AFFINE), ("warp_perspective", "tensor<{N}x3x3xf64>", PROJECTIVE))
    for name, matrix, data in maps:
        for imode in ("linear", "nearest", "cubic"):
            for border in ("replicate", "reflect", "reflect_101", "wrap", "constant"):
                if name == "warp_affine" and imode == "cubic" and border in ("reflect", "wrap"):
                    continue  # the borders do not depend on the map: a few of them are enough there
                attributes = f'imode = "{imode}", border_mode = "{border}", border_value = 0.5'
                smooth = imode != "nearest"
                samples += [op(f"hl.{name}", attributes, f"{x} {matrix}", y, {1: data}, smooth=smooth, sizes=True),
                            op(f"bwd.{name}_data", attributes, f"{matrix} {y}", x, {0: data}, smooth=smooth, sizes=True),
                            op(f"bwd.{name}_mat", attributes, f"{x} {matrix} {y}", matrix, {1: data}, smooth=smooth)]
    x, y = "tensor<{N}x2x4x5xf64>", "tensor<{N}x2x3x4xf64>"
    samples.append(op("hl.warp_affine", 'format = "NCHW"', f"{x} tensor<{{N}}x2x3xf64>", y, {1: AFFINE}, sizes=True))
    return samples


def ranks() -> list[Sample]:
    """What takes several ranks, at those that are not above."""
    samples = []
    for middle in (None, "", "2x", "2x1x", "2x1x2x"):
        shape = "4" if middle is None else f"{{N}}x{middle}4"
        x, c = f"tensor<{shape}xf64>", "tensor<4xf64>"
        for norm in ("layer_norm", "rms_norm"):
            samples += [op(f"hl.{norm}", "", f"{x} {c} {c}", x), op(f"bwd.{norm}_input", "", f"{x} {c} {x}", x),
                        op(f"bwd.{norm}_gamma", "", f"{x} {x}", c)]
        samples.append(op("bwd.rms_norm_beta", "", x, c))
        samples.append(op("hl.cross_entropy_with_logits", "", f"{x} {x}", "tensor<f64>"))
    for middle in ("", "2x", "2x3x", "2x3x1x"):
        layout = "NC" + "DHW"[3 - middle.count("x"):]
        x, four = f"tensor<{{N}}x4x{middle}f64>", "tensor<4xf64>"
        how = f'layout = "{layout}"'
        samples += [
            op("hl.group_norm", f"num_groups = 2, {how}", f"{x} {four} {four}", x),
            op("bwd.group_norm_input", f"num_groups = 2, {how}", f"{x} {four} {x}", x),
            op("bwd.group_norm_gamma", f"num_groups = 2, {how}", f"{x} {x}", four),
            op("bwd.group_norm_beta", f"num_groups = 2, {how}", x, four),
            op("hl.batch_norm", f"training = true, {how}", f"{x} {four} {four} {four} {four}", f"{x} {four} {four}", {4: positive(4)}),
            op("bwd.batch_norm_input", f"training = true, {how}", f"{x} {four} {four} {four} {x}", x, {3: positive(4)}),
            op("bwd.batch_norm_gamma", f"training = true, {how}", f"{x} {four} {four} {x}", four, {2: positive(4)}),
            op("bwd.batch_norm_statistics", how, f"{x} {four} {four}", x),
        ]
        targets = f"tensor<{{N}}x{middle}i64>"
        places = integers(0, 4, BATCH, *(int(size) for size in middle.split("x") if size))
        samples += [
            op("hl.nll_loss", 'reduction = "sum"', f"{x} {targets}", "tensor<f64>", {1: places}),
            op("bwd.nll_loss", 'reduction = "sum"', f"tensor<f64> {x} {targets}", x, {2: places}),
            op("bwd.nll_loss_weights", 'reduction = "sum"', f"tensor<f64> {x} {targets} {four}", four, {2: places}),
        ]
    for shape in ("", "{N}x", "{N}x4x2x", "{N}x4x2x1x", "{N}x4x2x1x2x"):
        x = f"tensor<{shape}f64>"
        samples += [op("hl.dropout", "rate = 0.4", f"{x} tensor<2xui32>", x, KEY),
                    op("hl.fake_quantize", 'bits = 4, ste = "tanh"', x, x, smooth=False),
                    op("bwd.fake_quantize", 'bits = 4, ste = "tanh"', f"{x} {x}", x, smooth=False)]
    for shape in ("5x4", "{N}x2x1x5x8"):
        x, table = f"tensor<{shape}xf64>", "tensor<5x2xf64>"
        how = "head_dim = 4, n_rot = 4"
        samples += [op("hl.rope", how, f"{x} {table} {table}", x), op("bwd.rope", how, f"{x} {table} {table}", x),
                    op("bwd.rope_tables", how, f"{x} {x}", f"{table} {table}")]
    samples.append(op("bwd.rope", "head_dim = 4, n_rot = 4", "tensor<{N}x2x5x4xf64> tensor<5x2xf64> tensor<5x2xf64>", "tensor<{N}x2x5x4xf64>"))
    samples.append(op("bwd.rope_tables", "head_dim = 4, n_rot = 4", "tensor<{N}x2x5x4xf64> tensor<{N}x2x5x4xf64>",
                      "tensor<5x2xf64> tensor<5x2xf64>"))
    return samples


SAMPLES: list[Sample] = [*losses(), *norms(), *convolutions(), *pooling(), *attention(), *rotary(), *quantization(), *images(), *ranks()]
