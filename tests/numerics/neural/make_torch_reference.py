"""Writes neural_reference.npz: values and gradients of the neural-network ops as PyTorch computes them in float64.

Run by hand with PyTorch 2.13 installed (`pip install torch==2.13.0`): `python
tests/numerics/neural/make_torch_reference.py`. The tests read the file only (`read_reference` in neural_support.py). A
case holds: `text` (one op, operands %0 %1 …), `in0 …`, `out0 …`, `dout0 …` (random cotangents of the float results),
and `grad0 …` for the operands that PyTorch differentiates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

PATH = Path(__file__).with_name("neural_reference.npz")
CASES: dict[str, tuple[str, list[np.ndarray], Callable[..., Any]]] = {}
Spec = Any  # a shape (random floats) or an array


def case(name: str, text: str, operands: Sequence[Spec], function: Callable[..., Any]) -> None:
    """Registers a case; a tuple among the operands is the shape of a normal sample of float64."""
    random = np.random.default_rng(sum(map(ord, name)))
    arrays = [random.standard_normal(spec) if isinstance(spec, tuple) else np.asarray(spec) for spec in operands]
    CASES[name] = (text, arrays, function)


def type_text(array: np.ndarray) -> str:
    """`tensor<2x3xf64>`."""
    element = {"float64": "f64", "int64": "i64", "bool": "i1"}[array.dtype.name]
    return f"tensor<{''.join(f'{size}x' for size in array.shape)}{element}>"


def losses() -> None:
    labels = np.array([2, 0, 3, 1, 1])
    case("softmax_cross_entropy", "hl.softmax_cross_entropy %0, %1", [(5, 4), labels],
         lambda x, t: F.cross_entropy(x, t, reduction="none"))
    targets = np.array([2, -100, 3, 1, 1])
    weights = np.array([0.5, 2.0, 1.0, 3.0])
    for reduction in ("mean", "sum", "none"):
        case(f"nll_{reduction}", f'hl.nll_loss %0, %1 {{reduction = "{reduction}"}}', [(5, 4), targets],
             lambda x, t, r=reduction: F.nll_loss(x, t, reduction=r))
        case(f"nll_weighted_{reduction}", f'hl.nll_loss %0, %1, %2 {{reduction = "{reduction}", ignore_index = 3}}',
             [(5, 4), labels, weights], lambda x, t, w, r=reduction: nll_by_gather(x, t, w, 3, r))
        case(f"nll_spatial_{reduction}", f'hl.nll_loss %0, %1, %2 {{reduction = "{reduction}", ignore_index = -1}}',
             [(2, 4, 3), np.array([[2, -1, 3], [0, 1, -1]]), weights],
             lambda x, t, w, r=reduction: nll_by_gather(x, t, w, -1, r))
    case("nll_single", "hl.nll_loss %0, %1", [(4,), np.array(2)], lambda x, t: F.nll_loss(x, t))


def nll_by_gather(x: Any, t: Any, w: Any, ignored: int, reduction: str) -> Any:
    """F.nll_loss, written out where PyTorch has no gradient for the weights."""
    kept = t != ignored
    index = torch.where(kept, t, 0)
    weight = torch.where(kept, w[index], 0.0)
    loss = -weight * x.gather(1, index.unsqueeze(1)).squeeze(1)
    assert torch.allclose(F.nll_loss(x, t, w.detach(), ignore_index=ignored, reduction=reduction),
                          loss if reduction == "none" else loss.sum() / (weight.sum() if reduction == "mean" else 1))
    return loss if reduction == "none" else loss.sum() / weight.sum() if reduction == "mean" else loss.sum()


def norms() -> None:
    case("layer_norm", "hl.layer_norm %0, %1, %2", [(3, 4, 5), (5,), (5,)], lambda x, g, b: F.layer_norm(x, (5,), g, b))
    case("layer_norm_square", "hl.layer_norm %0, %1, %2 {eps = 0.001}", [(4, 4), (4,), (4,)],
         lambda x, g, b: F.layer_norm(x, (4,), g, b, eps=1e-3))
    case("layer_norm_axis", "hl.layer_norm %0, %1, %2 {axis = 1}", [(3, 4, 5), (4,), (4,)],
         lambda x, g, b: F.layer_norm(x.transpose(1, 2), (4,), g, b).transpose(1, 2))
    case("layer_norm_plain", "hl.layer_norm %0", [(3, 4)], lambda x: F.layer_norm(x, (4,)))
    case("rms_norm", "hl.rms_norm %0, %1", [(3, 4, 5), (5,)], lambda x, g: F.rms_norm(x, (5,), g, eps=1e-5))
    case("rms_norm_beta", "hl.rms_norm %0, %1, %2 {axis = 0, eps = 0.01}", [(4, 5), (4,), (4,)],
         lambda x, g, b: (F.rms_norm(x.T, (4,), g, eps=1e-2) + b).T)
    case("group_norm", "hl.group_norm %0, %1, %2 {num_groups = 2}", [(2, 4, 3, 2), (4,), (4,)],
         lambda x, g, b: F.group_norm(x, 2, g, b))
    case("group_norm_nhwc", 'hl.group_norm %0, %1, %2 {num_groups = 3, layout = "NHWC", eps = 0.1}', [(2, 3, 2, 6), (6,), (6,)],
         lambda x, g, b: F.group_norm(x.permute(0, 3, 1, 2), 3, g, b, eps=0.1).permute(0, 2, 3, 1))
    running = [np.array([0.5, -1.0, 0.2]), np.array([1.5, 0.7, 2.0])]
    for training in (False, True):
        flag = "true" if training else "false"
        case(f"batch_norm_{flag}", f"hl.batch_norm %0, %1, %2, %3, %4 {{training = {flag}, momentum = 0.3}}",
             [(4, 3, 2, 2), (3,), (3,), *running], lambda *a, t=training: batch_norm(*a, t, 0.3, 1e-5))
        case(f"batch_norm_nc_{flag}", f'hl.batch_norm %0, %1, %2, %3, %4 {{training = {flag}, layout = "NC", eps = 0.01}}',
             [(5, 3), (3,), (3,), *running], lambda *a, t=training: batch_norm(*a, t, 0.1, 1e-2))


def batch_norm(x: Any, gamma: Any, beta: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float) -> Any:
    """F.batch_norm with the running statistics as results (and differentiable)."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    shape = [1, -1] + [1] * (x.ndim - 2)
    new_mean, new_var = mean, var
    if training:
        new_mean = (1 - momentum) * mean + momentum * x.mean(axes)
        new_var = (1 - momentum) * var + momentum * x.var(axes, unbiased=True)
        mean, var = x.mean(axes), x.var(axes, unbiased=False)
    y = (x - mean.view(shape)) / (var.view(shape) + eps).sqrt() * gamma.view(shape) + beta.view(shape)
    return y, new_mean, new_var


def pad_windows(x: Any, padding: Sequence[Sequence[int]], value: float = 0.0) -> Any:
    """x with [before, after] of each spatial axis added."""
    flat = [amount for pair in reversed(list(padding)) for amount in pair]
    return F.pad(x, flat, value=value)


def convolutions() -> None:
    def conv2d(name: str, x: tuple[int, ...], w: tuple[int, ...], strides=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1),
               groups=1) -> None:
        text = (f"hl.conv2d %0, %1 {{strides = {list(strides)}, padding = {[list(p) for p in padding]}, "
                f"dilation = {list(dilation)}, groups = {groups}}}")
        case(name, text, [x, w], lambda a, b: F.conv2d(pad_windows(a, padding), b, None, strides, 0, dilation, groups))

    conv2d("conv2d", (2, 3, 6, 5), (4, 3, 3, 2))
    conv2d("conv2d_padding", (2, 3, 6, 5), (4, 3, 3, 2), padding=((1, 2), (0, 3)))
    for stride in (2, 3):
        for extra in range(stride):
            conv2d(f"conv2d_stride{stride}_rest{extra}", (2, 2, 7 + extra, 8 + extra), (3, 2, 3, 3), strides=(stride, stride),
                   padding=((1, 0), (1, 1)))
    conv2d("conv2d_dilation", (1, 2, 9, 8), (3, 2, 3, 2), dilation=(2, 3), padding=((2, 1), (1, 1)))
    conv2d("conv2d_dilation_stride", (2, 2, 10, 11), (3, 2, 3, 3), dilation=(2, 2), strides=(2, 3), padding=((1, 1), (2, 2)))
    conv2d("conv2d_groups", (2, 4, 5, 5), (6, 2, 3, 3), groups=2, padding=((1, 1), (1, 1)))
    conv2d("conv2d_depthwise", (2, 3, 6, 6), (6, 1, 3, 3), groups=3, strides=(2, 2), padding=((1, 1), (1, 1)))
    conv2d("conv2d_pointwise_stride", (2, 3, 5, 5), (4, 3, 1, 1), strides=(2, 2))
    case("conv2d_layouts", 'hl.conv2d %0, %1 {layout = "NHWC", kernel_layout = "HWIO", out_layout = "NCHW", strides = [2, 1]}',
         [(2, 6, 5, 3), (3, 2, 3, 4)], lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), None, (2, 1)))
    case("conv1d", "hl.conv1d %0, %1 {strides = [2], padding = [[1, 2]], dilation = [2]}", [(2, 3, 9), (4, 3, 3)],
         lambda x, w: F.conv1d(F.pad(x, (1, 2)), w, None, 2, 0, 2))
    case("conv3d", "hl.conv3d %0, %1 {strides = [1, 2, 1], padding = [[1, 0], [1, 1], [0, 1]], groups = 2}",
         [(1, 4, 3, 4, 4), (2, 2, 2, 3, 2)],
         lambda x, w: F.conv3d(F.pad(x, (0, 1, 1, 1, 1, 0)), w, None, (1, 2, 1), 0, 1, 2))
    case("conv2d_transpose", "hl.conv2d_transpose %0, %1", [(2, 3, 4, 3), (3, 2, 3, 2)], lambda x, w: F.conv_transpose2d(x, w))
    case("conv2d_transpose_all", "hl.conv2d_transpose %0, %1 {strides = [2, 3], padding = [[1, 1], [2, 2]], dilation = [2, 1], "
         "output_padding = [1, 2], groups = 2}", [(2, 4, 4, 3), (4, 3, 3, 3)],
         lambda x, w: F.conv_transpose2d(x, w, None, (2, 3), (1, 2), (1, 2), 2, (2, 1)))


def pooling() -> None:
    def pool(name: str, size: tuple[int, ...], k: int, s: int, p: int = 0, d: int = 1, ceil: bool = False,
             include: bool = False) -> None:
        attributes = (f"pool_size = [{k}, {k}], strides = [{s}, {s}], padding = [[{p}, {p}], [{p}, {p}]], "
                      f"ceil_mode = {str(ceil).lower()}")
        case("max_pool_" + name, f"hl.max_pool2d %0 {{{attributes}, dilation = [{d}, {d}]}}", [size],
             lambda x: F.max_pool2d(x, k, s, p, d, ceil))
        if d == 1:
            case("avg_pool_" + name, f"hl.avg_pool2d %0 {{{attributes}, count_include_pad = {str(include).lower()}}}", [size],
                 lambda x: F.avg_pool2d(x, k, s, p, ceil, include))

    pool("plain", (2, 3, 6, 6), 2, 2)
    pool("overlap", (2, 2, 7, 6), 3, 2, 1)
    pool("include", (1, 2, 6, 7), 3, 2, 1, include=True)
    pool("ceil", (1, 2, 7, 7), 2, 3, ceil=True)
    pool("ceil_pad", (1, 2, 8, 6), 3, 2, 1, ceil=True)
    pool("ceil_include", (1, 2, 8, 6), 3, 2, 1, ceil=True, include=True)
    pool("ceil_drop", (1, 1, 5, 5), 2, 4, 1, ceil=True, include=True)
    pool("dilation", (1, 2, 8, 9), 3, 2, 1, d=2)
    pool("dilation_ceil", (1, 2, 8, 9), 2, 3, 1, d=3, ceil=True)
    case("max_pool_nhwc", 'hl.max_pool2d %0 {pool_size = [2, 3], strides = [2, 1], layout = "NHWC"}', [(2, 5, 6, 3)],
         lambda x: F.max_pool2d(x.permute(0, 3, 1, 2), (2, 3), (2, 1)).permute(0, 2, 3, 1))
    case("avg_pool_nhwc", 'hl.avg_pool2d %0 {pool_size = [2, 3], strides = [2, 1], layout = "NHWC"}', [(2, 5, 6, 3)],
         lambda x: F.avg_pool2d(x.permute(0, 3, 1, 2), (2, 3), (2, 1)).permute(0, 2, 3, 1))
    ties = np.array([[[[1.0, 1, 0, 2], [1, 1, 2, 2], [0, 0, 0, 0], [0, -1, 0, 0]]]])
    case("max_pool_ties", "hl.max_pool2d %0 {pool_size = [2, 2], strides = [2, 2]}", [ties], lambda x: F.max_pool2d(x, 2, 2))


def attention() -> None:
    def add(name: str, attributes: str, q: tuple[int, ...], k: tuple[int, ...], *mask: Any, causal: bool = False,
            scale: Any = None, reference: Any = None) -> None:
        text = f"hl.attention %0, %1, %2{', %3' if mask else ''} {{num_heads = {q[1]}, head_dim = {q[3]}{attributes}}}"

        def run(q_: Any, k_: Any, v_: Any, m_: Any = None) -> Any:
            groups = q_.shape[1] // k_.shape[1]
            k_, v_ = k_.repeat_interleave(groups, 1), v_.repeat_interleave(groups, 1)
            if reference is not None:
                return reference(q_, k_, v_)
            if m_ is not None and m_.dtype == torch.bool and m_.ndim == 2 and m_.shape[0] == q[0]:
                m_ = m_[:, None, None, :]
            if causal:
                m_ = torch.ones(q[2], k[2], dtype=torch.bool).tril(k[2] - q[2])
            return F.scaled_dot_product_attention(q_, k_, v_, m_, scale=scale)

        case("attention_" + name, text, [q, k, k, *mask], run)

    random = np.random.default_rng(7)
    add("plain", "", (2, 3, 5, 4), (2, 3, 5, 4))
    add("cross", ", scale = 0.3", (2, 3, 4, 2), (2, 3, 6, 2), scale=0.3)
    add("causal", ', mask_kind = "causal"', (1, 2, 5, 3), (1, 2, 5, 3), causal=True)
    add("causal_cross", ', mask_kind = "causal"', (1, 2, 3, 4), (1, 2, 6, 4), causal=True)
    add("grouped", ', mask_kind = "causal"', (2, 4, 5, 3), (2, 2, 5, 3), causal=True)
    band = np.tril(np.ones((4, 6), bool), 2) & ~np.tril(np.ones((4, 6), bool), -1)
    add("window", ', mask_kind = "sliding_window", window = 2', (1, 2, 4, 3), (1, 2, 6, 3),
        reference=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.from_numpy(band)))
    keys = random.random((2, 6)) < 0.6
    keys[:, 0] = True
    add("keys", ', mask_kind = "custom"', (2, 2, 4, 3), (2, 2, 6, 3), keys)
    rows = random.random((4, 6)) < 0.6
    rows[:, 1] = True
    add("rows", ', mask_kind = "custom"', (3, 2, 4, 3), (3, 2, 6, 3), rows)
    full = random.random((2, 2, 4, 6)) < 0.6
    full[..., 2] = True
    add("full", ', mask_kind = "custom"', (2, 2, 4, 3), (2, 2, 6, 3), full)
    add("bias", ', mask_kind = "bias"', (2, 2, 4, 3), (2, 2, 6, 3), random.standard_normal((2, 2, 4, 6)))
    add("bias_broadcast", ', mask_kind = "bias"', (2, 2, 4, 3), (2, 2, 6, 3), random.standard_normal((1, 2, 1, 6)))
    add("bias_rows", ', mask_kind = "bias"', (2, 2, 4, 3), (2, 2, 6, 3), random.standard_normal((4, 6)))
    add("softcap", ", softcap = 0.7", (1, 2, 4, 3), (1, 2, 5, 3),
        reference=lambda q, k, v: (0.7 * (q @ k.mT / 3 ** 0.5 / 0.7).tanh()).softmax(-1) @ v)
    case("attention_bshd", 'hl.attention %0, %1, %2 {num_heads = 4, head_dim = 3, layout = "BSHD", mask_kind = "causal"}',
         [(2, 5, 4, 3), (2, 5, 2, 3), (2, 5, 2, 3)], lambda q, k, v: F.scaled_dot_product_attention(
             q.transpose(1, 2), k.transpose(1, 2).repeat_interleave(2, 1), v.transpose(1, 2).repeat_interleave(2, 1),
             is_causal=True).transpose(1, 2))
    case("attention_merged", 'hl.attention %0, %1, %2 {num_heads = 2, head_dim = 3, layout = "BS(HD)"}',
         [(2, 5, 6), (2, 4, 6), (2, 4, 6)], lambda q, k, v: F.scaled_dot_product_attention(
             *(t.unflatten(2, (2, 3)).transpose(1, 2) for t in (q, k, v))).transpose(1, 2).flatten(2))


def rope(x: Any, cos: Any, sin: Any, head_dim: int, n_rot: int, interleaved: bool) -> Any:
    """Rotary embedding by complex numbers where the tables are cosines and sines, by the formula in general."""
    heads = x.unflatten(-1, (-1, head_dim))
    turned, rest = heads[..., :n_rot], heads[..., n_rot:]
    c, s = cos[:, None, : n_rot // 2], sin[:, None, : n_rot // 2]
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    parts = [a * c - b * s, b * c + a * s]
    new = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
    return torch.cat([new, rest], -1).flatten(-2)


def other() -> None:
    for name, n_rot, interleaved in (("rope", 4, False), ("rope_partial", 2, False), ("rope_interleaved", 4, True)):
        case(name, f"hl.rope %0, %1, %2 {{head_dim = 4, n_rot = {n_rot}, interleaved = {str(interleaved).lower()}}}",
             [(2, 5, 8), (5, 2), (5, 2)], lambda x, c, s, n=n_rot, i=interleaved: rope(x, c, s, 4, n, i))
    case("pixel_shuffle", "hl.pixel_shuffle %0 {factor = 2}", [(2, 8, 3, 2)], lambda x: F.pixel_shuffle(x, 2))
    case("pixel_shuffle_nhwc", 'hl.pixel_shuffle %0 {factor = 3, layout = "NHWC"}', [(2, 3, 2, 9)],
         lambda x: F.pixel_shuffle(x.permute(0, 3, 1, 2), 3).permute(0, 2, 3, 1))
    case("cross_entropy_with_logits", "hl.cross_entropy_with_logits %0, %1", [(3, 4), (3, 4)], lambda x, y: -(x * y).sum() / 3)


def warps() -> None:
    """grid_sample with align_corners takes coordinates in [-1, 1]: (2 u / (W - 1) - 1, 2 v / (H - 1) - 1)."""
    random = np.random.default_rng(3)
    affine = np.array([[[0.9, 0.2, -0.3], [-0.1, 1.1, 0.4]], [[1.2, -0.3, 0.7], [0.2, 0.8, -0.6]]])
    affine += 1e-3 * random.standard_normal(affine.shape)  # away from halves, where "nearest" may round either way
    projective = np.concatenate([affine, np.array([[[0.02, -0.01, 1.0]], [[-0.03, 0.02, 1.1]]])], axis=1)
    projective += 1e-3 * random.standard_normal(projective.shape)
    modes = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
    for name, mat in (("affine", affine), ("perspective", projective)):
        for imode in modes:
            for border in ("replicate", "constant"):
                if imode == "cubic" and border == "constant":
                    continue  # PyTorch's zero padding is the same, but its bicubic clips per tap: checked in the unit tests
                case(f"warp_{name}_{imode}_{border}", f'hl.warp_{name} %0, %1 {{imode = "{imode}", border_mode = "{border}", '
                     f'format = "NCHW"}} -> tensor<2x3x4x6xf64>', [(2, 3, 5, 4), mat],
                     lambda x, m, i=imode, b=border: sample(x, m, 4, 6, modes[i], "border" if b == "replicate" else "zeros"))


def sample(x: Any, mat: Any, height: int, width: int, mode: str, padding: str) -> Any:
    j, i = torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy")
    points = torch.stack([j, i, torch.ones_like(j)]).to(mat.dtype)
    mapped = torch.einsum("nrk,khw->nrhw", mat, points)
    denominator = mapped[:, 2] if mat.shape[1] == 3 else torch.ones_like(mapped[:, 0])
    u, v = mapped[:, 0] / denominator, mapped[:, 1] / denominator
    grid = torch.stack([2 * u / (x.shape[3] - 1) - 1, 2 * v / (x.shape[2] - 1) - 1], -1)
    return F.grid_sample(x, grid, mode, padding, align_corners=True)


def main() -> None:
    for group in (losses, norms, convolutions, pooling, attention, other, warps):
        group()
    stored: dict[str, np.ndarray] = {}
    for name, (text, arrays, function) in CASES.items():
        tensors = [torch.from_numpy(array).requires_grad_(array.dtype == np.float64) for array in arrays]
        found = function(*tensors)
        outputs = [found] if isinstance(found, torch.Tensor) else list(found)
        random = np.random.default_rng(sum(map(ord, name)) + 1)
        upstream = [random.standard_normal(tuple(output.shape)) for output in outputs]
        floats = [index for index, tensor in enumerate(tensors) if tensor.requires_grad]
        total = sum((output * torch.from_numpy(np.asarray(dy))).sum() for output, dy in zip(outputs, upstream))
        gradients = torch.autograd.grad(total, [tensors[index] for index in floats], allow_unused=True)
        results = [output.detach().numpy() for output in outputs]
        op, _, target = text.partition(" -> ")
        types = ", ".join(type_text(array) for array in arrays)
        given = target or ", ".join(type_text(result) for result in results)
        stored[f"{name}/text"] = np.array(f"{op} : ({types}) -> ({given})")
        for index, array in enumerate(arrays):
            stored[f"{name}/in{index}"] = array
        for index, (result, dy) in enumerate(zip(results, upstream)):
            stored[f"{name}/out{index}"], stored[f"{name}/dout{index}"] = result, np.asarray(dy)
        for index, gradient in zip(floats, gradients):
            zero = np.zeros_like(arrays[index])
            stored[f"{name}/grad{index}"] = zero if gradient is None else gradient.numpy()
    write(stored)
    print(f"{len(CASES)} cases, {PATH.stat().st_size} bytes, PyTorch {torch.__version__}")


def write(stored: dict[str, np.ndarray]) -> None:
    """One JSON index and one vector of float64 (integers and truth values are exact in it), since a zip member costs
    400 bytes."""
    index, values, position = {}, [], 0
    for name, array in stored.items():
        if name.endswith("/text"):
            index[name] = str(array)
            continue
        index[name] = [position, array.dtype.name, list(array.shape)]
        values.append(array.astype(np.float64).reshape(-1))
        position += array.size
    np.savez_compressed(PATH, index=np.array(json.dumps(index)), values=np.concatenate(values))


if __name__ == "__main__":
    main()
