"""Configuration of `lit tests/lit`.

The same files run inside one process under pytest (see conftest.py): keep RUN lines to what both know."""

import os
import shutil
import sys

import lit.formats

config.name = "gradopt"  # noqa: F821  (lit defines `config`)
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".ir", ".mlir", ".test"]  # noqa: F821
config.excludes = ["Inputs", "Output"]  # noqa: F821
config.test_source_root = os.path.dirname(__file__)  # noqa: F821
config.environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + config.environment["PATH"]  # noqa: F821
for name in ("HOME", "XDG_CACHE_HOME", "GRADOPT_CACHE_DIR"):
    if name in os.environ:
        config.environment[name] = os.environ[name]  # noqa: F821

MLIR_OPT = next(filter(None, map(shutil.which, ("mlir-opt-22", "mlir-opt"))), None)
if MLIR_OPT is not None:
    config.available_features.add("mlir")  # noqa: F821
    config.substitutions.append(  # noqa: F821
        ("%mlir-opt", f"{MLIR_OPT} --allow-unregistered-dialect --mlir-print-op-generic"))
