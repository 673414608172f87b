"""What `run.py` prints and draws: a table, the targets with held or not held, a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from measure import PEERS, Row

TITLES = {"gradopt": "gradopt ms", "jax": "JAX ms", "torch": "PyTorch ms", "torch.compile": "torch.compile ms"}


def _time(peer: str) -> Callable[[Row], str]:
    return lambda row: f"{row.times[peer]:.3f}" if peer in row.times else row.missing.get(peer, "-")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("program", lambda row: row.name),
    *((title, _time(peer)) for peer, title in TITLES.items()),
    ("best peer / gradopt", lambda row: _number(row.ratio, ".2f")),
    ("difference", lambda row: _number(row.difference, ".0e")),
    ("first process cold s", lambda row: f"{row.cold_process:.2f}"),
    ("its call s", lambda row: f"{row.cold_call:.2f}"),
    ("JAX first call s", lambda row: _number(row.jax_first, ".2f")),
    ("process warm s", lambda row: f"{row.warm_process:.2f}"),
    ("temporaries MB", lambda row: f"{row.temporaries / 1e6:.2f}"),
    ("scratch MB", lambda row: f"{row.scratch / 1e6:.2f}"),
    ("JAX temporaries MB", lambda row: _number(None if row.jax_temporaries is None else row.jax_temporaries / 1e6, ".2f")),
)


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| " + " | ".join(title for title, _ in COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cell(row) for _, cell in COLUMNS) + " |" for row in rows]
    return "\n".join(lines)


def verdicts(rows: Sequence[Row], overhead: float) -> list[tuple[bool, str]]:
    """Each target of the project: whether it is held, and the number that decides."""
    compared = [(row.ratio, row.name) for row in rows if row.ratio is not None]
    found: list[tuple[bool, str]] = []
    if compared:
        least, slowest = min(compared)
        mean = float(np.exp(np.mean(np.log([ratio for ratio, _ in compared]))))
        found.append((least > 1, f"faster than the best peer on every program: at least {least:.2f} times ({slowest})"))
        found.append((mean >= 1.5, f"1.5 times faster in the geometric mean: {mean:.2f} times"))
    memory = [(row.temporaries - row.jax_temporaries, row) for row in rows if row.jax_temporaries is not None]
    if memory:
        excess, row = max(memory, key=lambda entry: entry[0])
        found.append((excess <= 0, f"temporaries at most JAX's on every program: {row.temporaries:,} bytes beside {row.jax_temporaries:,} "
                                   f"where that is least so ({row.name})"))
    late = [row for row in rows if row.jax_first is not None and row.jax_first > 1]
    if late:
        row = max(late, key=lambda row: row.cold_call / (row.jax_first or 1))
        found.append((row.cold_call <= (row.jax_first or 0), "first call with an empty cache at most JAX's where that takes more than 1 s: "
                                                             f"{row.cold_call:.2f} s beside {row.jax_first:.2f} s ({row.name})"))
    others = [row for row in rows if row not in late]
    if others:
        row = max(others, key=lambda row: row.cold_process)
        found.append((row.cold_process <= 3, f"at most 3 s elsewhere, as a whole process: {row.cold_process:.2f} s ({row.name})"))
    if rows:
        row = max(rows, key=lambda row: row.warm_process)
        found.append((row.warm_process <= 1, f"with a filled cache at most 1 s as a whole process: {row.warm_process:.2f} s ({row.name})"))
    found.append((overhead <= 3, f"at most 3 µs for a call with three small arguments: {overhead:.2f} µs"))
    return found


def verdict_text(rows: Sequence[Row], overhead: float) -> str:
    """A line a target."""
    return "\n".join(f"- {'held' if held else 'NOT HELD'}: {text}" for held, text in verdicts(rows, overhead))


def draw(rows: Sequence[Row], path: Path) -> None:
    """Bars of every peer's time over ours."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(11, 4.5), constrained_layout=True)
    peers = [peer for peer in PEERS if any(peer in row.times for row in rows)]
    for offset, peer in enumerate(peers):
        places = np.arange(len(rows)) + (offset - (len(peers) - 1) / 2) * 0.8 / len(peers)
        axes.bar(places, [row.times.get(peer, np.nan) / row.times["gradopt"] for row in rows], 0.8 / len(peers), label=peer)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(yscale="log", ylabel="time / gradopt's time", title="value and gradient, float32, two threads (above 1: gradopt is faster)")
    axes.set_xticks(range(len(rows)), [row.name.replace("_", "\n", 1) for row in rows], fontsize=8)
    axes.legend()
    temporary = path.with_name("." + path.name)
    figure.savefig(temporary, format="png", dpi=110)
    temporary.replace(path)
