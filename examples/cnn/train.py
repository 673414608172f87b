"""Trains the network of cnn.ir on 1,437 handwritten digits and tries it on the 360 that were held out."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import gradopt

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))
from training import Array, Digits, draw, picture_path, report, train  # noqa: E402

NAMES = ["k1", "g1", "b1", "k2", "g2", "b2", "w", "b"]
BATCH = 60


def initial_parameters(seed: int = 1) -> list[Array]:
    """He's initialisation (2015) for the kernels; norms start as the identity."""
    generator = np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        inputs = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        return (generator.standard_normal(shape) * np.sqrt(2 / inputs)).astype(np.float32)

    def ones(size: int) -> Array:
        return np.ones(size, np.float32)

    return [normal(16, 1, 3, 3), ones(16), 0 * ones(16), normal(32, 16, 3, 3), ones(32), 0 * ones(32), normal(128, 10),
            0 * ones(10)]


def main() -> None:
    """Compiles, trains, reports, draws cnn.png."""
    picture = picture_path(__doc__, FOLDER / "cnn.png")
    module = gradopt.parse((FOLDER / "cnn.ir").read_text(), "cnn.ir")
    start = time.perf_counter()
    value_and_grad = gradopt.compile(module, "loss_value_and_grad", wrt=NAMES)
    predict = gradopt.compile(module, "predict")
    print(f"compiled in {time.perf_counter() - start:.2f} s")
    digits = Digits.load()
    result = train(value_and_grad, predict, initial_parameters(), digits, batch=BATCH, epochs=40, rate=1e-2, shape=(1, 8, 8))
    draw(result, digits, picture, "cnn.ir")
    report(result, picture, 0.97)


if __name__ == "__main__":
    main()
