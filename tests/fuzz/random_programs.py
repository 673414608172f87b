"""Random programs of `hl` ops: one function @f of float tensors, made step by step from a seed.

Sizes 0 and 1 and ranks 0 to 4 occur. A program is smooth where no step has a kink or a jump, so that central differences make
sense; values stay moderate, because what could grow goes through tanh.
"""

from __future__ import annotations

import random_array_steps  # noqa: F401  (registers its steps)
import random_network_steps  # noqa: F401
from gradopt.ir.operation import Operation
from random_generator import Generator


def program(seed: int, element: str = "f64", *, steps: int = 6, smooth: bool = False) -> Operation:
    """A module with a random function @f."""
    return Generator(seed, element, steps, smooth).module
