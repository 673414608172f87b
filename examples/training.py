"""What the examples share: scikit-learn's handwritten digits, Adam in NumPy, a progress bar, and the pictures."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray


def picture_path(description: str | None, default: Path) -> Path:
    """Where the picture goes: what the command line says, or the default. Ends the program for a place where there can be none."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("picture", nargs="?", type=Path, default=default, help=f"the PNG to write ({default.name} beside this script)")
    picture: Path = parser.parse_args().picture
    if picture.suffix.lower() != ".png" or not picture.parent.is_dir():
        parser.error(f"picture '{picture}': expected a name that ends in .png, in a folder that is there")
    return picture


@dataclass
class Digits:
    """1,797 images of 8x8 pixels in [0, 1], shuffled once; every fifth is held out."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array

    @classmethod
    def load(cls, seed: int = 0) -> Digits:
        """The digits that ship inside scikit-learn."""
        from sklearn.datasets import load_digits

        data = load_digits()
        order = np.random.default_rng(seed).permutation(len(data.target))
        images = (data.images[order] / 16).astype(np.float32)
        labels = data.target[order].astype(np.int32)
        held_out = np.arange(len(labels)) % 5 == 0
        return cls(images[~held_out], labels[~held_out], images[held_out], labels[held_out])


@dataclass
class Adam:
    """Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), with the step size falling to zero as a cosine."""

    parameters: list[Array]
    rate: float
    steps: int
    moments: list[tuple[Array, Array]] = field(init=False)
    step: int = 0

    def __post_init__(self) -> None:
        self.moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self.parameters]

    def update(self, gradients: Sequence[Array]) -> None:
        """One step down the gradient, in place."""
        self.step += 1
        rate = self.rate * 0.5 * (1 + np.cos(np.pi * min(self.step / self.steps, 1)))
        scale = np.float32(rate * np.sqrt(1 - 0.999**self.step) / (1 - 0.9**self.step))
        for parameter, gradient, (first, second) in zip(self.parameters, gradients, self.moments):
            first += np.float32(0.1) * (gradient - first)
            second += np.float32(0.001) * (gradient * gradient - second)
            parameter -= scale * first / (np.sqrt(second) + np.float32(1e-8))


@dataclass
class Result:
    """How a training went."""

    losses: list[float]
    predictions: Array
    accuracy: float
    seconds: float


def in_batches(function: Callable[..., Array], images: Array, batch: int, *rest: Array) -> Array:
    """`function(batch of images, …)` over all images; the last batch is filled up with zeros."""
    out = []
    for start in range(0, len(images), batch):
        part = images[start:start + batch]
        padded = np.zeros((batch, *images.shape[1:]), images.dtype)
        padded[: len(part)] = part
        out.append(function(padded, *rest)[: len(part)])
    return np.concatenate(out)


def train(value_and_grad: Callable[..., Any], predict: Callable[..., Array], parameters: list[Array], digits: Digits, *,
          batch: int, epochs: int, rate: float, shape: tuple[int, ...], seed: int = 0) -> Result:
    """Trains `parameters` in place. `value_and_grad(images, labels, *parameters)` gives the loss and a gradient a parameter."""
    from tqdm import tqdm

    images = digits.train_images.reshape(-1, *shape)
    held_out = digits.test_images.reshape(-1, *shape)
    per_epoch = len(images) // batch
    optimiser = Adam(parameters, rate, epochs * per_epoch)
    generator = np.random.default_rng(seed)
    losses: list[float] = []
    start = time.perf_counter()
    with tqdm(total=epochs * per_epoch, unit="step", desc="training") as bar:
        for _ in range(epochs):
            order = generator.permutation(len(images))
            for step in range(per_epoch):
                chosen = order[step * batch:(step + 1) * batch]
                loss, *gradients = value_and_grad(np.ascontiguousarray(images[chosen]), digits.train_labels[chosen], *parameters)
                optimiser.update(gradients)
                losses.append(float(loss))
                bar.update()
            bar.set_postfix(loss=f"{np.mean(losses[-per_epoch:]):.4f}")
    seconds = time.perf_counter() - start
    predictions = in_batches(predict, held_out, batch, *parameters)
    accuracy = float(np.mean(predictions == digits.test_labels))
    return Result(losses, predictions, accuracy, seconds)


def draw(result: Result, digits: Digits, path: Path, title: str) -> None:
    """A PNG with the loss curve and some held-out digits with their predictions (wrong ones in red, first)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(11, 4.5), constrained_layout=True)
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.1))
    axes = left.subplots()
    axes.plot(result.losses, color="#9ecae1", linewidth=0.6, label="each step")
    window = max(len(result.losses) // 50, 1)
    smooth = np.convolve(result.losses, np.ones(window) / window, mode="valid")
    axes.plot(np.arange(len(smooth)) + window - 1, smooth, color="#08519c", label=f"mean of {window} steps")
    axes.set(xlabel="step", ylabel="loss", yscale="log", title=f"{title}: {100 * result.accuracy:.1f} % of the held-out digits right")
    axes.legend()
    wrong = np.flatnonzero(result.predictions != digits.test_labels)
    order = np.concatenate([wrong, np.flatnonzero(result.predictions == digits.test_labels)])[:24]
    for place, index in zip(right.subplots(4, 6).ravel(), order):
        place.imshow(digits.test_images[index], cmap="gray_r")
        right_answer = result.predictions[index] == digits.test_labels[index]
        place.set_title(str(int(result.predictions[index])), color="black" if right_answer else "red", fontsize=10)
        place.axis("off")
    right.suptitle("predictions (red: wrong)")
    temporary = path.with_name("." + path.name)
    figure.savefig(temporary, format="png", dpi=110)
    temporary.replace(path)
    pyplot.close(figure)


def report(result: Result, path: Path, bound: float) -> None:
    """Prints how it went. Raises SystemExit where the accuracy is below `bound`."""
    print(f"loss {result.losses[0]:.3f} -> {np.mean(result.losses[-20:]):.4f} in {len(result.losses)} steps, {result.seconds:.1f} s "
          f"({1e6 * result.seconds / len(result.losses):.0f} us a step)")
    print(f"held-out digits recognised: {100 * result.accuracy:.2f} %  (picture: {path})")
    if result.accuracy < bound:
        raise SystemExit(f"expected at least {100 * bound:.0f} %")
