"""Times the programs of `programs/` beside JAX and PyTorch, interleaved in one process, and writes a table and a picture.

    python benchmarks/run.py [--compile] [--output FOLDER] [--budget SECONDS] [name …]

`--compile` adds `torch.compile` (it needs a C++ compiler and minutes). Peers that are not installed are left out, and said so.
Two threads each. The times are lower quartiles; the ratio is the best peer's time over ours.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")
FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import numpy as np  # noqa: E402
from peers import WORKLOADS, Workload, jax_step, torch_step  # noqa: E402


def our_step(name: str, workload: Workload) -> tuple[Callable[[], Any], Any]:
    """Value and gradients by gradopt, and the compiled function."""
    import gradopt

    module = gradopt.parse((FOLDER / "programs" / f"{name}.ir").read_text(), f"{name}.ir")
    function = gradopt.compile(module, "f_value_and_grad", wrt=list(workload.wrt))
    return lambda: function(*workload.arguments), function


def quartile(steps: dict[str, Callable[[], Any]], budget: float) -> dict[str, float]:
    """The lower quartile of each step's times in milliseconds, the steps taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    end = time.perf_counter() + budget * len(steps)
    rounds = 0
    while rounds < 5 or (time.perf_counter() < end and rounds < 2000):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
        rounds += 1
    return {name: 1e3 * sorted(values)[len(values) // 4] for name, values in times.items()}


def largest_difference(ours: Any, theirs: list[np.ndarray]) -> float:
    """The largest difference of a result, relative to the largest number in it."""
    return max(float(np.max(np.abs(a - b)) / (np.max(np.abs(b)) + 1e-30)) for a, b in zip(ours, theirs))


def first_calls(name: str) -> tuple[float, float]:
    """Seconds of a whole process up to its first result: with an empty cache, and again with what that left."""
    script = (f"import sys; sys.path.insert(0, {str(FOLDER)!r})\nimport numpy as np, gradopt\n"
              f"arguments = [np.load({{path!r}}, allow_pickle=False)[k] for k in sorted(np.load({{path!r}}).files)]\n"
              f"text = open({str(FOLDER / 'programs' / (name + '.ir'))!r}).read()\n"
              f"gradopt.compile(text, 'f_value_and_grad', wrt={{wrt}})(*arguments)\n")
    workload = WORKLOADS[name]()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "arguments.npz")
        np.savez(path, **{f"a{i:02d}": argument for i, argument in enumerate(workload.arguments)})
        code = script.format(path=path, wrt=list(workload.wrt))
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "GRADOPT_CACHE_DIR": folder})
            seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1]


def measure(name: str, budget: float, with_compile: bool) -> dict[str, Any]:
    """One row of the table."""
    workload = WORKLOADS[name]()
    step, function = our_step(name, workload)
    steps: dict[str, Callable[[], Any]] = {"gradopt": step}
    row: dict[str, Any] = {"name": name}
    if importlib.util.find_spec("jax"):
        steps["jax"] = jax_step(workload)
        start = time.perf_counter()
        value, gradients = steps["jax"]()
        row["jax first"] = time.perf_counter() - start
        row["difference"] = largest_difference(step(), [np.asarray(part) for part in (value, *gradients)])
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(2)
        steps["torch"] = torch_step(workload)
        if with_compile:
            try:
                compiled = torch_step(workload, compiled=True)
                compiled()
                steps["torch.compile"] = compiled
            except Exception as error:
                print(f"{name}: torch.compile failed: {type(error).__name__}", file=sys.stderr)
    row.update(quartile(steps, budget))
    row["cold"], row["warm"] = first_calls(name)
    row["peak"] = function.peak_bytes(*workload.arguments) / 1e6
    peers = [row[peer] for peer in ("jax", "torch", "torch.compile") if peer in row]
    row["ratio"] = min(peers) / row["gradopt"] if peers else float("nan")
    return row


COLUMNS = (("name", "program", "{}"), ("gradopt", "gradopt ms", "{:.3f}"), ("jax", "JAX ms", "{:.3f}"), ("torch", "PyTorch ms", "{:.3f}"),
           ("torch.compile", "torch.compile ms", "{:.3f}"), ("ratio", "best peer / gradopt", "{:.2f}"),
           ("difference", "difference", "{:.0e}"), ("cold", "first call cold s", "{:.2f}"), ("warm", "warm s", "{:.2f}"),
           ("jax first", "JAX first s", "{:.2f}"), ("peak", "planned MB", "{:.1f}"))


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| " + " | ".join(title for _, title, _ in COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for row in rows:
        lines.append("| " + " | ".join(form.format(row[key]) if key in row else "-" for key, _, form in COLUMNS) + " |")
    ratios = [row["ratio"] for row in rows if row["ratio"] == row["ratio"]]
    if ratios:
        lines.append(f"\nGeometric mean of best peer / gradopt: {float(np.exp(np.mean(np.log(ratios)))):.2f}; least: {min(ratios):.2f}.")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Bars of every peer's time over ours."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(11, 4.5), constrained_layout=True)
    peers = [peer for peer in ("jax", "torch", "torch.compile") if any(peer in row for row in rows)]
    for offset, peer in enumerate(peers):
        places = np.arange(len(rows)) + (offset - (len(peers) - 1) / 2) * 0.8 / len(peers)
        axes.bar(places, [row.get(peer, np.nan) / row["gradopt"] for row in rows], 0.8 / len(peers), label=peer)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(yscale="log", ylabel="time / gradopt's time", title="value and gradient, float32, two threads (above 1: gradopt is faster)")
    axes.set_xticks(range(len(rows)), [row["name"].replace("_", "\n", 1) for row in rows], fontsize=8)
    axes.legend()
    temporary = path.with_name("." + path.name)
    figure.savefig(temporary, format="png", dpi=110)
    temporary.replace(path)


def main() -> None:
    """Runs the programs that are named (all by default)."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    for name in options.names:
        if name not in WORKLOADS:
            parser.error(f"unknown program {name!r}; there are {', '.join(WORKLOADS)}")
    for package in ("jax", "torch"):
        if not importlib.util.find_spec(package):
            print(f"{package} is not installed: left out", file=sys.stderr)
    rows = []
    for name in options.names or WORKLOADS:
        rows.append(measure(name, options.budget, options.compile))
        print(" ".join(f"{key}={form.format(rows[-1][key])}" for key, _, form in COLUMNS if key in rows[-1]), flush=True)
    print("\n" + table(rows))
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "benchmarks.md").write_text(table(rows) + "\n")
        draw(rows, options.output / "benchmarks.png")


if __name__ == "__main__":
    main()
