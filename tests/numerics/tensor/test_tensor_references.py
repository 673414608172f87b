"""Values and gradients against PyTorch and JAX, stored by `make_references.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import SAMPLES
from tensor_support import STATIC, VJP, close, module_of, random_like, run

with np.load(Path(__file__).with_name("tensor_reference.npz")) as _stored:
    INDEX, NUMBERS = json.loads(str(_stored["index"])), _stored["values"]
BY_LABEL = {sample.label: sample for sample in SAMPLES}


def arrays(label: str, kind: str) -> list[Any]:
    """The stored arrays of a case."""
    found = []
    for position, dtype, shape in INDEX[label][kind]:
        count = int(np.prod(shape, dtype=np.int64))
        found.append(NUMBERS[position : position + count].reshape(shape).astype(dtype))
    return found


def test_there_are_cases() -> None:
    assert len(INDEX) > 150
    assert set(INDEX) <= set(BY_LABEL)


@pytest.mark.parametrize("label", INDEX)
def test_values(label: str) -> None:
    for passes in ("", "decompose"):
        found = run(module_of(BY_LABEL[label], STATIC, "f64", passes), arrays(label, "arrays"))
        for one, two in zip(found, arrays(label, "values"), strict=True):
            close(one, two, f"{label}: {INDEX[label]['library']}, {passes}")


@pytest.mark.parametrize("label", [label for label in INDEX if INDEX[label]["gradients"]])
def test_gradients(label: str) -> None:
    operands, values = arrays(label, "arrays"), arrays(label, "values")
    for passes in (VJP, f"{VJP},decompose"):
        module = module_of(BY_LABEL[label], STATIC, "f64", passes)
        found = run(module, [*operands, *random_like(values, 1)], "f_vjp")[len(values) :]
        for index, (one, two) in enumerate(zip(found, arrays(label, "gradients"), strict=True)):
            close(one, two, f"{label}: {INDEX[label]['library']}, {passes}, gradient {index}", 1e-9)
