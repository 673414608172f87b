"""Runs the StableHLO text of every program in JAX and stores the results beside the text's hash.

Two steps, so that JAX may live in another environment than this project:

    python make_stablehlo_reference.py texts FOLDER    # where gradopt is
    python make_stablehlo_reference.py values FOLDER   # where JAX is; leaves stablehlo_reference.npz here
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from stablehlo_programs import PROGRAMS, program_text


def write_texts(folder: Path) -> None:
    """A file for each program."""
    from gradopt.ir.printer import print_operation
    from gradopt.lowering.export.stablehlo import to_stablehlo

    import gradopt

    for name in PROGRAMS:
        (folder / f"{name}.mlir").write_text(print_operation(to_stablehlo(gradopt.parse(program_text(name))), generic=True))


def write_values(folder: Path) -> None:
    """What XLA's CPU backend computes."""
    import jax
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir

    jax.config.update("jax_enable_x64", True)
    backend, stored = xla_bridge.get_backend("cpu"), dict[str, Any]()
    for name, (_, arguments) in PROGRAMS.items():
        text = (folder / f"{name}.mlir").read_text()
        with mlir.make_ir_context(), ir.Location.unknown():
            devices = xla_client.DeviceList(tuple(jax.devices()[:1]))
            program = backend.compile_and_load(ir.Module.parse(text), devices, xla_client.CompileOptions())
        results = program.execute_sharded([jax.device_put(array) for array in arguments.values()])
        for index, result in enumerate(results.disassemble_into_single_device_arrays()):
            stored[f"{name} {index}"] = np.asarray(result[0])
        stored[f"{name} text"] = hashlib.sha256(text.encode()).hexdigest()
    np.savez_compressed(Path(__file__).with_name("stablehlo_reference.npz"), **stored)


if __name__ == "__main__":
    (write_texts if sys.argv[1] == "texts" else write_values)(Path(sys.argv[2]))
