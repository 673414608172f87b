"""The options of `gradopt`."""

from __future__ import annotations

from gradopt.tools.options import Option

__all__ = ["DESCRIPTION", "MARKER", "OPTIONS", "USAGE"]

USAGE = "gradopt [options] [file | -]"
DESCRIPTION = ("Reads MLIR-like text (a file, or standard input for `-` or no file), runs passes on it, prints it. "
               "Exit status: 0; 1 for what is wrong with the input; 2 for what is wrong with the command line; 3 for an internal "
               "error (a reproducer file is left).")
MARKER = "// -----"

_PASSES = "Passes"
_INPUT = "Input"
_OUTPUT = "Output"
_LOOK = "Looking at what happens"
_INFORMATION = "Information"

OPTIONS: tuple[Option, ...] = (
    Option("--pass",
           "the passes to run, e.g. autodiff{func=f wrt=0,1},decompose,builtin.module(func.func(cse)); may be repeated",
           "PIPELINE", ("-p", "--passes", "--pass-pipeline"), repeats=True, group=_PASSES, empty=True),
    Option("--verify-each", "verify after each pass (on by default)", default=True, group=_PASSES),
    Option("--dump-pass-pipeline", "print the pipeline with all options to standard error", group=_PASSES),
    Option("--run-reproducer", "take the pipeline from the mlir_reproducer section of the input", group=_PASSES),
    Option("--debug-counter", "let through only some actions of a kind: cse-skip=3,cse-count=1", "LIST",
           ("--mlir-debug-counter",), group=_PASSES),
    Option("--split-input-file", f"treat each part between lines `{MARKER}` as a file of its own", "MARKER",
           optional=True, implied=MARKER, group=_INPUT, empty=True),
    Option("--allow-unregistered-dialect", "keep operations of unknown dialects as they are", group=_INPUT),
    Option("--no-implicit-module", "require a top-level module in the input", group=_INPUT),
    Option("--verify-diagnostics", "check diagnostics against the `// expected-error {{…}}` comments of the input",
           "KIND", choices=("all", "only-expected"), optional=True, implied="all", group=_INPUT),
    Option("--output", "write to a file (only when all went well; the old one is never lost)", "FILE", ("-o",),
           group=_OUTPUT),
    Option("--emit", "what to print", "FORM", choices=("mlir", "stablehlo", "python", "numba", "asm", "dot", "json"), default="mlir",
           group=_OUTPUT),
    Option("--print-op-generic", "print in MLIR's generic form", aliases=("--mlir-print-op-generic",), group=_OUTPUT),
    Option("--print-debuginfo", "print locations", aliases=("--mlir-print-debuginfo",), group=_OUTPUT),
    Option("--elide-elements-larger", "print dense elements of more than N elements as dense_resource<__elided__>", "N",
           ("--elide-elementsattrs-if-larger", "--mlir-elide-elementsattrs-if-larger"), group=_OUTPUT, minimum=0),
    Option("--print-hex-larger", "print dense elements of more than N elements in hex (100 by default; -1: never)", "N",
           ("--mlir-print-elementsattrs-with-hex-if-larger",), group=_OUTPUT, minimum=-1),
    Option("--print-value-users", "print the users of each value behind its operation", aliases=("--mlir-print-value-users",),
           group=_OUTPUT),
    Option("--print-skip-regions", "print {...} for each region", aliases=("--mlir-print-skip-regions",), group=_OUTPUT),
    Option("--use-nameloc-as-prefix", "name values after their loc(\"name\")", aliases=("--mlir-use-nameloc-as-prefix",),
           group=_OUTPUT),
    Option("--print-local-scope", "print locations and attributes in place, without aliases",
           aliases=("--mlir-print-local-scope",), group=_OUTPUT),
    Option("--print-op-on-diagnostic", "add the operation in generic form to errors about it",
           aliases=("--mlir-print-op-on-diagnostic",), group=_OUTPUT),
    Option("--print-stacktrace-on-diagnostic", "add to errors where in gradopt they come from",
           aliases=("--mlir-print-stacktrace-on-diagnostic",), group=_OUTPUT),
    Option("--output-split-marker", "what to print between the parts of a split file", "MARKER", default=MARKER,
           group=_OUTPUT, empty=True),
    Option("--verify-roundtrip", "check that what is printed reads back in and prints the same", group=_OUTPUT),
    Option("--view-op-graph", "print the data flow as dot text (the same as --emit=dot)", group=_OUTPUT),
    Option("--color", "colour diagnostics", "WHEN", choices=("auto", "always", "never"), default="auto", optional=True,
           implied="always", group=_OUTPUT),
    Option("--print-ir-before", "print the IR before these passes", "PASSES", ("--mlir-print-ir-before",), group=_LOOK),
    Option("--print-ir-after", "print the IR after these passes", "PASSES", ("--mlir-print-ir-after",), group=_LOOK),
    Option("--print-ir-before-all", "print the IR before each pass", aliases=("--mlir-print-ir-before-all",),
           group=_LOOK),
    Option("--print-ir-after-all", "print the IR after each pass", aliases=("--mlir-print-ir-after-all",), group=_LOOK),
    Option("--print-ir-after-change", "with the above: only where the pass changed something",
           aliases=("--mlir-print-ir-after-change",), group=_LOOK),
    Option("--print-ir-after-failure", "print the IR after a pass that failed",
           aliases=("--mlir-print-ir-after-failure",), group=_LOOK),
    Option("--print-ir-module-scope", "print the whole module also for passes on a part of it",
           aliases=("--mlir-print-ir-module-scope",), group=_LOOK),
    Option("--print-ir-tree-dir", "write the printed IR to files in this folder", "DIRECTORY",
           ("--mlir-print-ir-tree-dir",), group=_LOOK),
    Option("--timing", "report how long each part took", "FORM", ("--mlir-timing",), choices=("tree", "list", "json"),
           optional=True, implied="tree", group=_LOOK),
    Option("--pass-statistics", "report what each pass counted", aliases=("--mlir-pass-statistics",), group=_LOOK),
    Option("--crash-reproducer", "where to leave the input and the pipeline if something fails", "FILE",
           ("--mlir-pass-pipeline-crash-reproducer",), group=_LOOK),
    Option("--shrink", "be the test of a reducer: print nothing, exit with 0 for an internal error (or one that says TEXT), else with 1",
           "TEXT", optional=True, implied="", empty=True, group=_LOOK),
    Option("--generate-reproducer", "write a reproducer also when nothing fails", "FILE",
           ("--mlir-generate-reproducer",), group=_LOOK),
    Option("--list-passes", "list the passes", group=_INFORMATION),
    Option("--help-pass", "what a pass does, with an example and its options", "NAME", group=_INFORMATION),
    Option("--show-dialects", "list the dialects and their operations", group=_INFORMATION),
    Option("--help-op", "what an operation means, its operands and attributes", "NAME", group=_INFORMATION),
    Option("--completion", "print a completion script", "SHELL", choices=("bash", "zsh", "fish"), group=_INFORMATION),
    Option("--version", "print the version", group=_INFORMATION),
    Option("--help", "print this text", aliases=("-h",), group=_INFORMATION),
)
