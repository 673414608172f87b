"""Where the time of a first call goes: a fresh process with an empty kernel cache, then one with what that left.

    python benchmarks/compile_time.py [program …]        (names in programs/, by default mlp_128x784)

Each column is one process; the rows are seconds. `native` is the whole of making machine code: importing llvmlite, the front end
(text to LLVM IR), LLVM, loading, and the driver, which is made once for all programs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
SCRIPT = """
import json, sys, time
begin = time.perf_counter()
sys.path.insert(0, sys.argv[1])
import numpy as np
numpy_imported = time.perf_counter()
import gradopt
imported = time.perf_counter()
text = open(sys.argv[2]).read()
module = gradopt.parse(text)
parsed = time.perf_counter()
name = next(line.split("@")[1].split("(")[0] for line in text.splitlines() if line.startswith("func.func"))
function = gradopt.compile(module, name + "_value_and_grad")
compiled = time.perf_counter()
arguments = [np.zeros(t.shape, "f4" if t.element.is_float else f"i{t.element.width // 8}") for t in function.argument_types]
function(*arguments)
called = time.perf_counter()
native = function.executable.timings
rows = {"import numpy": numpy_imported - begin, "import gradopt": imported - numpy_imported, "parse": parsed - imported}
rows.update((stage, seconds) for stage, seconds in function.timings.items())
rows.update({"native: " + key: value for key, value in vars(native).items() if isinstance(value, float)})
rows["compile in all"] = compiled - parsed
rows["first call"] = called - compiled
rows["kernels compiled"] = native.compiled
rows["kernels from cache"] = native.from_cache
print(json.dumps(rows))
"""


def process(program: Path, cache: str) -> dict[str, float]:
    """The rows of one fresh process."""
    printed = subprocess.run([sys.executable, "-c", SCRIPT, str(FOLDER), str(program)], check=True, capture_output=True, text=True,
                             env={**os.environ, "GRADOPT_CACHE_DIR": cache}).stdout
    found: dict[str, float] = json.loads(printed)
    return found


def main() -> None:
    """Prints a table for each program."""
    programs = sorted(path.stem for path in (FOLDER / "programs").glob("*.ir"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="program", default=["mlp_128x784"], help=f"of {', '.join(programs)}")
    names = parser.parse_args().names
    for name in names:
        if name not in programs:
            parser.error(f"unknown program {name!r}; there are {', '.join(programs)}")
    for name in names:
        program = FOLDER / "programs" / f"{name}.ir"
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = process(program, cache), process(program, cache)
        print(f"\n| {name} | cold | warm |\n|---|---|---|")
        for row in dict.fromkeys([*cold, *warm]):
            values = (f"{rows.get(row, 0):.3f}" if isinstance(rows.get(row, 0.0), float) else str(rows.get(row)) for rows in (cold, warm))
            print(f"| {row} | {' | '.join(values)} |")


if __name__ == "__main__":
    main()
