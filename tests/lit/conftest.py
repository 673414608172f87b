"""Makes pytest collect the lit tests: each file is one test, run inside this process (see runner.py)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SUFFIXES = {".ir", ".mlir", ".test"}


def _load_runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gradopt_lit_runner", Path(__file__).with_name("runner.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNER = _load_runner()


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.Collector | None:
    """Test files by their ending; folders `Inputs` and `Output` hold none."""
    if file_path.suffix in SUFFIXES and not {"Inputs", "Output"} & set(file_path.parts):
        collector: pytest.Collector = LitFile.from_parent(parent, path=file_path)
        return collector
    return None


class LitFailure(Exception):
    """A RUN line did not succeed."""


class LitFile(pytest.File):
    """A test file."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item a file."""
        yield LitItem.from_parent(self, name=self.path.name)


class LitItem(pytest.Item):
    """The RUN lines of a file."""

    def runtest(self) -> None:
        """Runs them; a missing feature skips, XFAIL turns the result round."""
        script = RUNNER.read_script(self.path)
        if not script.lines:
            raise LitFailure(f"{self.path} has no RUN line")
        missing = sorted(set(script.requires) - RUNNER.features())
        if missing:
            pytest.skip(f"needs {', '.join(missing)}")
        if set(script.unsupported) & RUNNER.features():
            pytest.skip("unsupported here")
        report = RUNNER.run_script(self.path, script)
        if script.fails and report is None:
            raise LitFailure(f"{self.path} was expected to fail (XFAIL), but passed")
        if report is not None and not script.fails:
            raise LitFailure(report)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        """The report alone for a failed line, the traceback for a mistake in the runner."""
        if isinstance(excinfo.value, LitFailure):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test is."""
        return self.path, 0, f"lit: {self.path.name}"
