"""The ops that PyTorch does not have in this form, against slow loops written from their definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from neural_samples import SAMPLES, Sample
from neural_support import argument_types, arrays_for, evaluate, parsed, run


def pixel(index: int, size: int, border: str) -> int | None:
    """Which pixel stands for a position outside, found by walking; None: the border value."""
    if border == "constant":
        return index if 0 <= index < size else None
    if border == "replicate":
        return min(max(index, 0), size - 1)
    while not 0 <= index < size:
        if border == "wrap":
            index += size if index < 0 else -size
        elif border == "reflect":
            index = -index - 1 if index < 0 else 2 * size - 1 - index
        else:
            index = -index if index < 0 else 2 * size - 2 - index
    return index


def keys(distance: float) -> float:
    """Keys' cubic kernel with a = -0.75."""
    d, a = abs(distance), -0.75
    if d <= 1:
        return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1
    return a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a if d < 2 else 0.0


def weights(coordinate: float, imode: str) -> dict[int, float]:
    """position -> weight."""
    base = math.floor(coordinate)
    if imode == "nearest":
        return {math.floor(coordinate + 0.5): 1.0}
    if imode == "linear":
        return {base: 1 - (coordinate - base), base + 1: coordinate - base}
    return {base + offset: keys(coordinate - base - offset) for offset in (-1, 0, 1, 2)}


def warp(image: np.ndarray, matrix: np.ndarray, shape: tuple[int, ...], imode: str, border: str, value: float) -> np.ndarray:
    """One point at a time, images [N, H, W, C]."""
    out = np.zeros(shape)
    for n, i, j in np.ndindex(shape[:3]):
        mapped = matrix[n] @ np.array([j, i, 1.0])
        u, v = mapped[:2] / (mapped[2] if len(mapped) == 3 else 1.0)
        for (row, a), (column, b) in itertools.product(weights(v, imode).items(), weights(u, imode).items()):
            y, x = pixel(row, image.shape[1], border), pixel(column, image.shape[2], border)
            out[n, i, j] += a * b * (value if y is None or x is None else image[n, y, x])
    return out


def attribute(sample: Sample, name: str, default: str) -> str:
    head = sample.text.split(" : ")[0]
    return head.split(f'{name} = "')[1].split('"')[0] if f"{name} =" in head else default


WARPS = [sample for sample in SAMPLES if sample.name.startswith("hl.warp")]


@pytest.mark.parametrize("sample", WARPS, ids=lambda sample: sample.text.split(" : ")[0])
def test_warp(sample: Sample) -> None:
    module = parsed(sample)
    image, matrix = arrays_for(sample, module)
    [found] = run(module, [image, matrix])
    order = (0, 2, 3, 1) if attribute(sample, "format", "NHWC") == "NCHW" else (0, 1, 2, 3)
    found, image = found.transpose(order), image.transpose(order)
    value = 0.5 if "border_value" in sample.text else 0.0
    how = attribute(sample, "imode", "linear"), attribute(sample, "border_mode", "replicate")
    expected = warp(image, matrix, found.shape, *how, value)
    np.testing.assert_allclose(found, expected, 1e-12, 1e-12)


@pytest.mark.parametrize("border", ["replicate", "reflect", "reflect_101", "wrap", "constant"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_borders_far_outside(border: str, size: int) -> None:
    """Each pixel that a shift of up to three sizes reaches, also for images of one pixel."""
    count = 6 * size + 1
    text = (f'hl.warp_affine %0, %1 {{imode = "nearest", border_mode = "{border}", border_value = -1.0}} : '
            f"(tensor<1x1x{size}x1xf64>, tensor<1x2x3xf64>) -> (tensor<1x1x{count}x1xf64>)")
    [found] = evaluate(text, np.arange(float(size)).reshape(1, 1, size, 1), np.array([[[1.0, 0, -3 * size], [0, 1, 0]]]))
    if border == "reflect_101" and size == 1:
        expected = [0] * count
    else:
        places = [pixel(index - 3 * size, size, border) for index in range(count)]
        expected = [-1 if place is None else place for place in places]
    np.testing.assert_array_equal(found.reshape(-1), expected)


QUANTIZERS = [sample for sample in SAMPLES if sample.name == "hl.fake_quantize"]


@pytest.mark.parametrize("sample", QUANTIZERS, ids=lambda sample: sample.text.split(" : ")[0])
def test_fake_quantize(sample: Sample) -> None:
    module = parsed(sample)
    operands = arrays_for(sample, module)
    x, found = operands[0], run(module, operands)[0]
    head = sample.text.split(" : ")[0]
    largest = 2 ** (int(head.split("bits = ")[1].split(",")[0]) - 1) - 1
    for place in np.ndindex(x.shape):
        if len(argument_types(module)) == 2:
            step = float(operands[1]) if operands[1].ndim == 0 else operands[1][place[-1]]
        else:
            values = x[:, place[1]] if "axis = 1" in head else x
            step = float(np.abs(values).max()) / largest
        level = min(max(round(x[place] / step), -largest), largest)  # Python rounds halves to even, too
        assert found[place] == pytest.approx(level * step, rel=1e-12)


def threefry(key: tuple[int, int], low: int, high: int) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds on Python integers (Salmon et al. 2011)."""
    mask = 0xFFFFFFFF
    words = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = (low + words[0]) & mask, (high + words[1]) & mask
    for turn in range(20):
        shift = (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]
        a = (a + b) & mask
        b = ((b << shift | b >> (32 - shift)) & mask) ^ a
        if turn % 4 == 3:
            group = turn // 4 + 1
            a, b = (a + words[group % 3]) & mask, (b + words[(group + 1) % 3] + group) & mask
    return a, b


def test_threefry_known_answer() -> None:
    """The known answers of the Random123 distribution for 20 rounds."""
    assert threefry((0, 0), 0, 0) == (0x6B200159, 0x99BA4EFE)
    assert threefry((0x13198A2E, 0x03707344), 0x243F6A88, 0x85A308D3) == (0xC4923A9C, 0x483DF7A0)


def test_dropout() -> None:
    rate, count = 0.3, 37
    text = f"hl.dropout %0, %1 {{rate = {rate}}} : (tensor<{count}xf64>, tensor<2xui32>) -> (tensor<{count}xf64>)"
    x = np.linspace(1.0, 2.0, count)
    [found] = evaluate(text, x, np.array([0xDEADBEEF, 42], np.uint32))
    words = [threefry((0xDEADBEEF, 42), index // 2, 0)[index % 2] for index in range(count)]
    expected = [value / (1 - rate) if word >= round(rate * 2 ** 32) else 0.0 for value, word in zip(x, words)]
    np.testing.assert_allclose(found, expected, 1e-15)
