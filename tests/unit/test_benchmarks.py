"""The benchmarks' report: the table, and targets that are held and not held. Nothing here measures."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
MODULES = ("peers", "measure", "report")


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`benchmarks/report.py`, and nothing of that folder left behind."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("report")
    for name in MODULES:
        sys.modules.pop(name, None)


def good_row(name: str, **changes: Any) -> Any:
    """A row that holds every target."""
    row = sys.modules["measure"].Row(name, times={"gradopt": 1.0, "jax": 2.0, "torch": 3.0}, missing={"torch.compile": "over 40 s"},
                                     difference=1e-7, cold_process=2.0, cold_call=1.5, warm_process=0.8, jax_first=1.6, temporaries=100,
                                     jax_temporaries=100)
    for field, value in changes.items():
        setattr(row, field, value)
    return row


def test_table_says_why_a_peer_is_missing(report: ModuleType) -> None:
    head, line, *rows = report.table([good_row("a"), good_row("b", jax_first=None, jax_temporaries=None)]).splitlines()
    assert head.startswith("| program | gradopt ms | JAX ms | PyTorch ms | torch.compile ms | best peer / gradopt |") and set(line) == {"|", "-"}
    assert rows[0].startswith("| a | 1.000 | 2.000 | 3.000 | over 40 s | 2.00 | 1e-07 |") and rows[1].count(" - |") == 2


def test_all_targets_held(report: ModuleType) -> None:
    text = report.verdict_text([good_row("a"), good_row("b", jax_first=0.5, cold_process=3.0)], 0.5)
    assert text.count("- held: ") == 7 and "NOT HELD" not in text


@pytest.mark.parametrize(("changes", "overhead", "broken"), [
    ({"times": {"gradopt": 1.0, "jax": 0.9}}, 1.0, ["faster than the best peer on every program: at least 0.90 times (a)",
                                                     "1.5 times faster in the geometric mean: 1.34 times"]),
    ({"temporaries": 101}, 1.0, ["101 bytes beside 100"]),
    ({"cold_call": 1.7}, 1.0, ["first call with an empty cache at most JAX's where that takes more than 1 s: 1.70 s beside 1.60 s (a)"]),
    ({"jax_first": 0.9, "cold_process": 3.1}, 1.0, ["at most 3 s elsewhere, as a whole process: 3.10 s (a)"]),
    ({"warm_process": 1.01}, 1.0, ["at most 1 s as a whole process: 1.01 s (a)"]),
    ({}, 3.1, ["at most 3 µs for a call with three small arguments: 3.10 µs"]),
])
def test_a_target_that_is_not_held(report: ModuleType, changes: dict[str, Any], overhead: float, broken: list[str]) -> None:
    wrong = [text for held, text in report.verdicts([good_row("a", **changes), good_row("b")], overhead) if not held]
    assert len(wrong) == len(broken) and all(part in text for part, text in zip(broken, wrong))


def test_a_time_limit_ends_what_runs_on(report: ModuleType) -> None:
    measure = sys.modules["measure"]
    with pytest.raises(measure.OverTime, match="over 0 s"), measure.time_limit(0.01):
        while True:
            pass
    with measure.time_limit(60):
        done = True
    assert done


def test_steps_take_turns(report: ModuleType) -> None:
    order: list[str] = []
    times = sys.modules["measure"].lower_quartiles({name: (lambda name=name: order.append(name)) for name in "ab"}, 0.0, 0.0)
    turns = [name for position, name in enumerate(order) if not position or order[position - 1] != name]
    assert turns == ["a", "b"] * 5 and set(times) == {"a", "b"} and all(value >= 0 for value in times.values())
