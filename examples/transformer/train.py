"""Trains the transformer of transformer.ir on 1,437 handwritten digits, rows as tokens, and tries it on the 360 held out."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import gradopt

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))
from training import Array, Digits, draw, picture_path, report, train  # noqa: E402

BATCH = 60
BLOCK = {"g": (32,), "h": (32,), "p": (32, 96), "o": (32, 32), "s": (32,), "t": (32,), "u": (32, 64), "a": (64,), "d": (64, 32),
         "c": (32,)}
SHAPES = {"e": (8, 32), "place": (8, 32), **{f"{name}{block}": shape for block in (1, 2) for name, shape in BLOCK.items()},
          "w": (32, 10)}


def initial_parameters(seed: int = 1) -> list[Array]:
    """Glorot and Bengio's initialisation (2010) for matrices; norms start as the identity, shifts at 0."""
    generator = np.random.default_rng(seed)
    parameters = []
    for name, shape in SHAPES.items():
        if len(shape) == 2:
            parameters.append((generator.standard_normal(shape) * np.sqrt(2 / sum(shape))).astype(np.float32))
        else:
            parameters.append(np.full(shape, 1.0 if name[0] in "gs" else 0.0, np.float32))
    return parameters


def main() -> None:
    """Compiles, trains, reports, draws transformer.png."""
    picture = picture_path(__doc__, FOLDER / "transformer.png")
    module = gradopt.parse((FOLDER / "transformer.ir").read_text(), "transformer.ir")
    start = time.perf_counter()
    value_and_grad = gradopt.compile(module, "loss_value_and_grad", wrt=list(SHAPES))
    predict = gradopt.compile(module, "predict")
    print(f"compiled in {time.perf_counter() - start:.2f} s")
    digits = Digits.load()
    result = train(value_and_grad, predict, initial_parameters(), digits, batch=BATCH, epochs=40, rate=3e-3, shape=(8, 8))
    draw(result, digits, picture, "transformer.ir")
    report(result, picture, 0.95)


if __name__ == "__main__":
    main()
