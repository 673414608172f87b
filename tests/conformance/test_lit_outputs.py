"""What every RUN line of every lit test prints as IR, printed generically: a fixed point of this project and of `mlir-opt`."""

from __future__ import annotations

from pathlib import Path

import pytest
import runner
from gradopt.tools.gradopt_options import OPTIONS
from gradopt.tools.options import UsageError, parse_arguments
from mlir_support import generic, mlir_opt, run_mlir_opt

LIT = Path(__file__).resolve().parents[1] / "lit"
MARKER = "// -----"
PATHS = sorted(path for path in LIT.rglob("*") if path.suffix in (".ir", ".mlir", ".test"))
# options under which something else than IR is printed, and options that only change how IR is spelt (or where it goes)
NO_IR = ("help", "version", "list_passes", "help_pass", "show_dialects", "help_op", "completion", "verify_diagnostics", "view_op_graph")
SPELLING = ("--print-value-users", "--print-skip-regions", "--print-local-scope", "--use-nameloc-as-prefix", "--print-hex-larger", "--output", "-o",
            "--output-split-marker")


def prints_ir(words: list[str]) -> bool:
    """Whether a `gradopt` command prints IR to a file or to standard output."""
    try:
        options, _ = parse_arguments(OPTIONS, words[1:])
    except UsageError:
        return False
    return options["emit"] == "mlir" and not any(options[name] for name in NO_IR)


def plain(words: list[str]) -> list[str]:
    """The command without the options of spelling."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name not in SPELLING:
            kept.append(word)
        elif not equals and name in ("-o", "--output"):
            next(rest)
    return kept


def printed_modules(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The generic text with locations of each module that a RUN line of a test prints, equal ones once. The lines run as they are, so
    that a line finds the files of the one before; each `gradopt` command among them runs once more for its generic text."""
    texts: dict[str, None] = {}
    run_command = runner.run_command

    def record(words: list[str], given: str, folder: str) -> runner.Outcome:
        if words[:1] == ["gradopt"] and prints_ir(words):
            outcome = run_command([*plain(words), "--print-op-generic", "--print-debuginfo", f"--output-split-marker={MARKER}"], given, folder)
            if outcome.status == 0:
                texts.update(dict.fromkeys(part.strip("\n") for part in outcome.output.split(MARKER + "\n")))
        return run_command(words, given, folder)

    monkeypatch.setattr(runner, "run_command", record)
    assert runner.run_script(path, runner.read_script(path)) is None
    texts.pop("", None)
    return list(texts)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(LIT)))
def test_outputs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    located = printed_modules(path, monkeypatch)
    for debug_info, texts in ((True, located), (False, [generic(text).strip("\n") for text in located])):
        for text in texts:
            assert generic(text, debug_info).strip("\n") == text
        if texts and mlir_opt() is not None:
            options = ["--mlir-print-debuginfo"] if debug_info else []
            status, output, errors = run_mlir_opt(f"\n{MARKER}\n".join(texts), "--split-input-file", f"--output-split-marker={MARKER}",
                                                  *options)
            assert status == 0, errors
            assert [part.strip("\n") for part in output.split(MARKER)] == texts
