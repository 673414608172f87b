"""Trains the network of mlp.ir on 1,437 handwritten digits and tries it on the 360 that were held out."""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

import gradopt

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))
from training import Digits, draw, picture_path, report, train  # noqa: E402

LAYERS = (64, 128, 64, 10)
BATCH = 60


def main() -> None:
    """Compiles, trains, reports, draws digits.png."""
    picture = picture_path(__doc__, FOLDER / "digits.png")
    module = gradopt.parse((FOLDER / "mlp.ir").read_text(), "mlp.ir")
    start = time.perf_counter()
    value_and_grad = gradopt.compile(module, "loss_value_and_grad", wrt=["w1", "b1", "w2", "b2", "w3", "b3"])
    predict = gradopt.compile(module, "predict")
    print(f"compiled in {time.perf_counter() - start:.2f} s")
    generator = np.random.default_rng(1)
    parameters = []
    for before, after in pairwise(LAYERS):
        parameters.append((generator.standard_normal((before, after)) * np.sqrt(2 / before)).astype(np.float32))
        parameters.append(np.zeros(after, np.float32))
    digits = Digits.load()
    result = train(value_and_grad, predict, parameters, digits, batch=BATCH, epochs=40, rate=3e-3, shape=(64,))
    draw(result, digits, picture, "mlp.ir")
    report(result, picture, 0.97)


if __name__ == "__main__":
    main()
