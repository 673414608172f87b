"""Several kernels that call outside themselves, loaded together: each must read its own constants.

A relocation against a shared offset table once gave alpha = 0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gradopt.lowering.native.executable import Executable
from gradopt.lowering.native.program import Argument, KernelSource, Program, Result, Run

SOURCE = """def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    out = pointer_f32(context, 1)
    for z in range(0, {count}):
        store(out, {start} + z, f32(0.0))
    sgemm(context, 0, 0, 4, 4, 4, f32({alpha}), x, 4, x, 4, f32(0.0), offset(out, {start}), 4)
    return 0
"""


@pytest.mark.parametrize("front_end", ["direct", "numba"])
def test_each_kernel_reads_its_own_constants(front_end: str, tmp_path: Path) -> None:
    alphas = [1.5, -2.0, 3.25, 0.125, 7.0]
    kernels = [KernelSource(f"k{i}", SOURCE.format(count=600, start=600 * i, alpha=alpha)) for i, alpha in enumerate(alphas)]
    size = 600 * len(alphas)
    program = Program(
        "several",
        kernels,
        [],
        [Argument("f32", (4, 4)), Result("f32", (size,))],
        [Run(i, 1, 1, (0, 1)) for i in range(len(alphas))],
    )
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    for _ in range(2):  # compiled, then from the cache
        out = Executable(program, front_end=front_end, cache_folder=tmp_path)(x).reshape(len(alphas), 600)
        for row, alpha in zip(out, alphas, strict=True):
            np.testing.assert_allclose(row[:16].reshape(4, 4), np.float32(alpha) * (x @ x), rtol=1e-6)
            assert not row[16:].any()
