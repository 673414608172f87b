"""Times the programs of `programs/` beside JAX and PyTorch, interleaved in one process, and writes a table and a picture.

    python benchmarks/run.py [--output FOLDER] [--seconds N] [--rest N] [--compile-seconds N] [name …]

Two threads each; how it is measured stands in docs/performance.md. Peers that are not installed are left out, and said so.
`torch.compile` takes part where there is a C++ compiler; a program that it does not compile within the limit says so in the table.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
from pathlib import Path

THREADS = "2"
os.environ.setdefault("OMP_NUM_THREADS", THREADS)
os.environ.setdefault("GRADOPT_NUM_THREADS", os.environ["OMP_NUM_THREADS"])
sys.path.insert(0, str(Path(__file__).parent))

from measure import Row, call_overhead, measure  # noqa: E402
from peers import WORKLOADS  # noqa: E402
from report import draw, table, verdict_text  # noqa: E402


def progress(text: str) -> None:
    """Replaces the line on a terminal; elsewhere nothing."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def main() -> None:
    """Runs the programs that are named (all by default)."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--seconds", type=float, default=6.0, help="timed steps of a program, all peers together")
    parser.add_argument("--rest", type=float, default=0.02, help="seconds of sleep before each turn of a step")
    parser.add_argument("--compile-seconds", type=float, default=40.0, help="limit for torch.compile on a program; 0 leaves it out")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    for name in options.names:
        if name not in WORKLOADS:
            parser.error(f"unknown program {name!r}; there are {', '.join(WORKLOADS)}")
    for package in ("jax", "torch"):
        if not importlib.util.find_spec(package):
            print(f"{package} is not installed: left out", file=sys.stderr)
    compile_seconds = options.compile_seconds
    if compile_seconds and not (shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++") or shutil.which("clang++")):
        print("there is no C++ compiler: torch.compile is left out", file=sys.stderr)
        compile_seconds = 0.0
    names = options.names or list(WORKLOADS)
    rows: list[Row] = []
    for number, name in enumerate(names, 1):
        label = f"[{number}/{len(names)}] {name}"
        row = measure(name, options.seconds, options.rest, compile_seconds, lambda what, label=label: progress(f"{label}: {what}"))
        rows.append(row)
        progress("")
        print(f"{label}: " + ", ".join([*(f"{peer} {value:.3f} ms" for peer, value in row.times.items()),
                                        *(f"{peer} {why}" for peer, why in row.missing.items())]), flush=True)
    text = table(rows) + "\n\n" + verdict_text(rows, call_overhead())
    print("\n" + text)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "benchmarks.md").write_text(text + "\n", encoding="utf-8")
        draw(rows, options.output / "benchmarks.png")
        print(f"\n{options.output / 'benchmarks.md'} and {options.output / 'benchmarks.png'} are written")


if __name__ == "__main__":
    main()
