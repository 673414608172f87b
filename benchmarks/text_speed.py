"""Times reading, verifying, printing and simplifying flat text beside mlir-opt and xDSL, in one run.

    python benchmarks/text_speed.py [--ops 1000,10000,100000] [--rounds N] [--peer-ops N] [--no-peers]

Three kinds of file, each one function of N tensor operations in the generic form: `s` arith operations with a property, `u`
operations of no known dialect, `p` operations of `prim` (every third repeats the one before it, every fifth is never read).
The numbers are microseconds an operation (processor time; of mlir-opt what it reports), the best of some rounds, taken in turn with
the peers; a ratio is the peer's time over ours. Exit status 1 where a budget is not kept: parse 45, print 10, verify 10, cse 10,
dce 6, and no more than twice as much an operation in the longest file as in the shortest.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BUDGETS = {"parse": 45.0, "print": 10.0, "verify": 10.0, "cse": 10.0, "dce": 6.0}
START_BUDGET = 0.25  # seconds of a whole process for a small file
TYPE = "tensor<8x8xf32>"
SMALL = f"func.func @f(%x: {TYPE}) -> {TYPE} {{\n  %y = hl.relu %x : {TYPE}\n  return %y : {TYPE}\n}}\n"


def flat_text(kind: str, count: int) -> str:
    """A module with one function of `count` operations in a row."""
    lines = ['"builtin.module"() ({', f'  "func.func"() <{{function_type = ({TYPE}, {TYPE}) -> {TYPE}, sym_name = "f"}}> ({{',
             f"  ^bb0(%arg0: {TYPE}, %arg1: {TYPE}):"]
    first, second = "%arg0", "%arg1"
    previous = ""
    for index in range(count):
        verb = ("add", "mul")[index % 2]
        name = {"s": f"arith.{verb}f", "u": f"grad.{verb}", "p": f"prim.{'add' if verb == 'add' else 'mul'}"}[kind]
        properties = " <{fastmath = #arith.fastmath<none>}>" if kind == "s" else ""
        body = f'"{name}"({first}, {second}){properties} : ({TYPE}, {TYPE}) -> {TYPE}'
        if kind == "p" and index % 3 == 2:
            body = previous
        lines.append(f"    %{index} = {body}")
        previous = body
        if not (kind == "p" and index % 5 == 4):
            first, second = f"%{index}", first
    lines += [f'    "func.return"({first}) : ({TYPE}) -> ()', "  }) : () -> ()", "}) : () -> ()\n"]
    return "\n".join(lines)


def timed(step: Callable[[], Any]) -> tuple[float, Any]:
    """(processor seconds, what the step returned). The garbage collector is off meanwhile, as it is for a short-lived tool."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        result = step()
        return time.process_time() - start, result
    finally:
        gc.enable()


def our_times(text: str, kind: str) -> dict[str, float]:
    """Seconds of each step; checks that what is printed is what was read."""
    from gradopt.ir.printer import print_operation
    from gradopt.ir.verifier import verify
    from gradopt.lowering.passes import PassContext
    from gradopt.lowering.simplify.cse import merge_common_subexpressions
    from gradopt.lowering.simplify.dce import DcePass
    from gradopt.parser import parse_module

    times: dict[str, float] = {}
    times["parse"], module = timed(lambda: parse_module(text, "flat.mlir", allow_unregistered=True))
    times["verify"], errors = timed(lambda: verify(module))
    times["print"], printed = timed(lambda: print_operation(module, generic=True))
    if errors or printed != text:
        raise SystemExit(f"a flat file of kind {kind} does not verify and print as it was read")
    times["cse"], merged = timed(lambda: merge_common_subexpressions(module))
    before = sum(1 for _ in module.walk())
    times["dce"], _ = timed(lambda: DcePass().run(module, PassContext()))
    if kind == "p" and not (merged and sum(1 for _ in module.walk()) < before):
        raise SystemExit("cse merged nothing, or dce removed nothing, in a file with repeated and unread operations")
    return times


def mlir_times(path: Path) -> dict[str, float]:
    """mlir-opt's own report: its parser verifies as it goes."""
    command = ["mlir-opt-22", "--allow-unregistered-dialect", "--mlir-print-op-generic", "--mlir-timing", "--mlir-timing-display=list",
               "--pass-pipeline=builtin.module(cse)", str(path), "-o", "/dev/null"]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    steps = {"Parser": "parse", "CSE": "cse", "Output": "print"}
    lines = [line.split() for line in report.splitlines()]
    return {steps[parts[-1]]: float(parts[0]) for parts in lines if parts and parts[-1] in steps}


XDSL = """
import io, json, sys, time
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
context = Context(allow_unregistered=True)
for name, factory in get_all_dialects().items():
    context.register_dialect(name, factory)
text, times = open(sys.argv[1]).read(), {}
def step(name, work):
    start = time.process_time(); result = work(); times[name] = time.process_time() - start; return result
module = step("parse", lambda: Parser(context, text, sys.argv[1]).parse_module())
step("verify", module.verify)
step("print", lambda: Printer(stream=io.StringIO(), print_generic_format=True).print_op(module))
step("cse", lambda: CommonSubexpressionElimination().apply(context, module))
print(json.dumps(times))
"""


def xdsl_times(path: Path) -> dict[str, float]:
    """xDSL in a process of its own, import not counted."""
    report = subprocess.run([sys.executable, "-c", XDSL, str(path)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(report.stdout)
    return found


def best(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The least time of each step."""
    return {step: min(times[step] for times in rounds if step in times) for times in rounds[:1] for step in times}


def start_time(folder: Path, rounds: int) -> float:
    """Seconds of `gradopt --pass=canonicalize,cse small.ir` as a process, the best of some."""
    path = folder / "small.ir"
    path.write_text(SMALL)
    command = [sys.executable, "-m", "gradopt.tools.gradopt", "--pass=canonicalize,cse", str(path)]
    times = []
    for _ in range(rounds + 2):  # the first one may have to make the parser's tables
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


def row(label: str, times: dict[str, float], count: int, peer_of: dict[str, float] | None) -> str:
    """One line of the table: microseconds an operation, for a peer also the ratio."""
    cells = []
    for step in BUDGETS:
        if step not in times:
            cells.append(f"{'-':>16}")
            continue
        cost = f"{1e6 * times[step] / count:.1f}"
        ratio = f"({times[step] / peer_of[step]:.2f}x)" if peer_of is not None and peer_of[step] else ""
        cells.append(f"{cost:>7} {ratio:<8}")
    return f"{label:<22}" + "".join(cells)


def measure(kind: str, count: int, arguments: argparse.Namespace, folder: Path) -> tuple[dict[str, float], list[str]]:
    """(our times, lines of the table) for one file."""
    text = flat_text(kind, count)
    path = folder / f"{kind}{count}.mlir"
    path.write_text(text)
    peers: dict[str, Callable[[Path], dict[str, float]]] = {}
    if not arguments.no_peers and kind != "p" and shutil.which("mlir-opt-22"):
        peers["mlir-opt-22"] = mlir_times
    if not arguments.no_peers and kind != "p" and count <= arguments.peer_ops and importlib.util.find_spec("xdsl"):
        peers["xDSL"] = xdsl_times
    ours: list[dict[str, float]] = []
    theirs: dict[str, list[dict[str, float]]] = {name: [] for name in peers}
    for turn in range(arguments.rounds):
        ours.append(our_times(text, kind))
        for name, run in peers.items():
            if name != "xDSL" or turn == 0:  # seconds a round
                theirs[name].append(run(path))
    mine = best(ours)
    lines = [row(f"{kind} {count:>7} gradopt", mine, count, None)]
    lines += [row(f"{'':>9} {name}", best(rounds), count, mine) for name, rounds in theirs.items()]
    return mine, lines


def failures(costs: dict[tuple[str, int], dict[str, float]], counts: list[int]) -> list[str]:
    """What is over budget, in words."""
    found = []
    for (kind, count), times in costs.items():
        for step, budget in BUDGETS.items():
            cost = 1e6 * times[step] / count
            if count >= 10_000 and cost > budget:
                found.append(f"{step} of {kind} {count}: {cost:.1f} µs an operation, budget {budget:.0f}")
    shortest, longest = min(counts), max(counts)
    for kind in {kind for kind, _ in costs}:
        for step in ("parse", "verify", "print"):
            near, far = costs[kind, shortest][step] / shortest, costs[kind, longest][step] / longest
            if far > 2 * near and 1e6 * far > BUDGETS[step] / 2:
                found.append(f"{step} of {kind} is not linear: {1e6 * near:.1f} µs an operation at {shortest}, "
                             f"{1e6 * far:.1f} at {longest}")
    return found


def main() -> int:
    """Prints the table; 1 where a budget is not kept."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    reader.add_argument("--ops", default="1000,10000,100000", help="lengths of the files")
    reader.add_argument("--rounds", type=int, default=3)
    reader.add_argument("--peer-ops", type=int, default=10_000, help="the longest file for xDSL (about a millisecond an op)")
    reader.add_argument("--no-peers", action="store_true")
    arguments = reader.parse_args()
    counts = [int(part) for part in arguments.ops.split(",")]
    for name, present in (("mlir-opt-22", shutil.which("mlir-opt-22")), ("xdsl", importlib.util.find_spec("xdsl"))):
        if not present and not arguments.no_peers:
            print(f"{name} is not installed: left out")
    print(f"{'µs an operation':<22}" + "".join(f"{step:>7}{'':9}" for step in BUDGETS))
    costs: dict[tuple[str, int], dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        our_times(flat_text("p", 100), "p")  # imports, and the parser's tables
        for kind in "sup":
            for count in counts:
                costs[kind, count], lines = measure(kind, count, arguments, folder)
                print("\n".join(lines), flush=True)
        seconds = start_time(folder, arguments.rounds)
    print(f"gradopt --pass=canonicalize,cse on a small file, as a process: {seconds:.2f} s (budget {START_BUDGET} s)")
    over = failures(costs, counts)
    if seconds > START_BUDGET:
        over.append(f"start: {seconds:.2f} s")
    for line in over:
        print(f"over budget: {line}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
