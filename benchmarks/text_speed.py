"""Speed of the text: microseconds an operation to parse, verify, print, cse and dce flat files, beside mlir-opt and xDSL as ratios.

    python benchmarks/text_speed.py [--sizes 1000,10000,100000]

Three kinds of file: `s` generic text with a property (arith, as mlir-opt knows it), `u` generic text of operations that nobody knows,
`p` this project's pretty form. The budgets are those of the project: parse 45, print 10, verify 10, cse 10, dce 6.
"""

from __future__ import annotations

import argparse
import gc
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TYPE = "tensor<4xf32>"
BUDGETS = {"parse": 45.0, "verify": 10.0, "print": 10.0, "cse": 10.0, "dce": 6.0}
REPEATS = 3


def flat_file(kind: str, count: int) -> str:
    """A function of `count` additions and multiplications, each of the two values before it."""
    if kind == "p":
        head = [f"func.func @f(%v0: {TYPE}, %v1: {TYPE}) -> {TYPE} {{"]
        body = [f"  %v{i + 2} = prim.{('mul', 'add')[i % 2]} %v{i + 1}, %v{i} : {TYPE}" for i in range(count)]
        return "\n".join([*head, *body, f"  return %v{count + 1} : {TYPE}", "}", ""])
    names = ("arith.mulf", "arith.addf") if kind == "s" else ("grad.mul", "grad.add")
    properties = " <{fastmath = #arith.fastmath<none>}>" if kind == "s" else ""
    head = [f'"func.func"() <{{function_type = ({TYPE}, {TYPE}) -> {TYPE}, sym_name = "f"}}> ({{', f"^bb0(%v0: {TYPE}, %v1: {TYPE}):"]
    body = [f'  %v{i + 2} = "{names[i % 2]}"(%v{i + 1}, %v{i}){properties} : ({TYPE}, {TYPE}) -> {TYPE}' for i in range(count)]
    return "\n".join([*head, *body, f'  "func.return"(%v{count + 1}) : ({TYPE}) -> ()', "}) : () -> ()", ""])


def timed(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> tuple[float, Any]:
    """(seconds of processor time, what the call returns): other programs on the machine do not count."""
    start = time.process_time()
    result = call(*arguments, **keywords)
    return time.process_time() - start, result


def measure_ours(kind: str, text: str) -> dict[str, float]:
    """The least time of each step over some runs, in seconds."""
    from gradopt.ir.printer import print_operation
    from gradopt.ir.verifier import verify
    from gradopt.lowering.passes import PassManager, build_pipeline
    from gradopt.parser import parse_module

    best: dict[str, float] = {}
    for _ in range(REPEATS):
        gc.collect()
        steps: dict[str, float] = {}
        steps["parse"], module = timed(parse_module, text, allow_unregistered=True)
        steps["verify"], errors = timed(verify, module)
        assert not errors
        steps["print"], _ = timed(print_operation, module, generic=kind != "p")
        for name in ("cse", "dce"):
            # the pass alone: verification has a row of its own, and mlir-opt times it apart as well
            steps[name], _ = timed(PassManager(build_pipeline(name), verify_each=False).run, module)
        best = {name: min(value, best.get(name, value)) for name, value in steps.items()}
    return best


def measure_mlir(text: str, folder: Path) -> dict[str, float] | None:
    """What mlir-opt reports of itself (its parser verifies as well), or None where it is not installed."""
    tool = shutil.which("mlir-opt-22") or shutil.which("mlir-opt")
    if tool is None:
        return None
    path = folder / "flat.mlir"
    path.write_text(text)
    best: dict[str, float] = {}
    for _ in range(REPEATS):
        process = subprocess.run([tool, "--allow-unregistered-dialect", "--mlir-print-op-generic", "--cse", "--mlir-timing",
                                  "--mlir-timing-display=list", str(path), "-o", str(folder / "out.mlir")],
                                 capture_output=True, text=True, check=True)
        for label, name in (("Parser", "parse"), ("Output", "print"), ("CSE", "cse")):
            found = re.search(rf"([0-9.]+) \([^)]*\)\s+{label}\n", process.stderr)
            if found is not None:
                best[name] = min(float(found[1]), best.get(name, float(found[1])))
    return best


def measure_xdsl(text: str) -> dict[str, float] | None:
    """xDSL's parser, verifier and printer, or None where it is not installed."""
    try:
        from io import StringIO

        from xdsl.context import Context
        from xdsl.dialects.arith import Arith
        from xdsl.dialects.builtin import Builtin
        from xdsl.dialects.func import Func
        from xdsl.parser import Parser
        from xdsl.printer import Printer
    except ImportError:
        return None
    context = Context(allow_unregistered=True)
    for dialect in (Builtin, Func, Arith):
        context.load_dialect(dialect)
    steps: dict[str, float] = {}
    steps["parse"], module = timed(Parser(context, text).parse_module)
    steps["verify"], _ = timed(module.verify)
    steps["print"], _ = timed(Printer(stream=StringIO(), print_generic_format=True).print_op, module)
    return steps


def main() -> int:
    """Prints the table; the exit status is 1 if a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    missed = []
    print(f"{'file':>10} {'step':>7} {'us/op':>8} {'budget':>7} {'x mlir-opt':>11} {'x xDSL':>8}")
    with tempfile.TemporaryDirectory() as folder:
        measure_ours("p", flat_file("p", 10))  # imports
        for kind in "sup":
            for size in sizes:
                text = flat_file(kind, size)
                ours = measure_ours(kind, text)
                generic = text if kind != "p" else flat_file("s", size)
                mlir = measure_mlir(generic, Path(folder)) or {}
                xdsl = measure_xdsl(generic) or {} if size <= 10_000 else {}
                for step, seconds in ours.items():
                    each = seconds / size * 1e6
                    ratios = [f"{seconds / peer[step]:.2f}" if peer.get(step) else "-" for peer in (mlir, xdsl)]
                    print(f"{kind}{size:>9} {step:>7} {each:>8.1f} {BUDGETS[step]:>7.0f} {ratios[0]:>11} {ratios[1]:>8}", flush=True)
                    if each > BUDGETS[step]:
                        missed.append(f"{kind}{size} {step}")
    print("all within their budgets" if not missed else f"over the budget: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
