"""Derivatives of single samples by every route of reverse mode."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensor_support import STATIC, VJP, Sample, arrays_of, floats, given, module_of, op, run

ROUTES = (VJP, f"{VJP},decompose", f"decompose,{VJP}")


def slopes(sample: Sample) -> list[list[Any]]:
    """The gradients for cotangents of 1 by each route."""
    arrays = arrays_of(sample)
    found = []
    for passes in ROUTES:
        module = module_of(sample, STATIC, "f64", passes)
        primal = run(module_of(sample), arrays)
        seeds = [np.ones_like(each) for each in floats(primal)]
        found.append(run(module, [*arrays, *seeds], "f_vjp")[len(primal) :])
    return found


def unary(name: str, points: list[float], **attributes: Any) -> Sample:
    return op(name, str(len(points)), data={0: given(points)}, **attributes)
