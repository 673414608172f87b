"""How long the autodiff pass takes for each operation, for functions of 1,000 to 100,000 operations: it must not grow.

    python benchmarks/autodiff_scaling.py

Prints processor time, not wall-clock time, so that a busy machine matters less. The promise is at most 60 µs an operation.
"""

from __future__ import annotations

import time

from gradopt.lowering.passes.manager import run_passes

import gradopt


def chain(length: int) -> str:
    """A function of `length` hl operations in a row, each of which reads the one before it."""
    forms = ("hl.sin %v{0}", "hl.multiply %v{0}, %x", "hl.add %v{0}, %x", "hl.tanh %v{0}")
    lines = ["func.func @f(%x: tensor<4xf64>) -> tensor<f64> {", "  %v0 = hl.sin %x : tensor<4xf64>"]
    lines += [f"  %v{number} = {forms[number % 4].format(number - 1)} : tensor<4xf64>" for number in range(1, length)]
    lines += [f"  %t = hl.sum %v{length - 1} : (tensor<4xf64>) -> tensor<f64>", "  return %t : tensor<f64>", "}"]
    return "\n".join(lines)


def measure(length: int, mode: str) -> float:
    """Microseconds an operation, the best of three."""
    best = float("inf")
    for _ in range(3):
        module = gradopt.parse(chain(length))
        start = time.process_time()
        run_passes(module, f"autodiff{{func=f mode={mode}}}", verify_each=False)
        best = min(best, time.process_time() - start)
    return best / length * 1e6


def main() -> None:
    """Prints the table."""
    measure(100, "grad")  # loads the rules
    print(f"{'operations':>10} {'grad':>12} {'jvp':>12}")
    for length in (1_000, 10_000, 100_000):
        print(f"{length:>10} {measure(length, 'grad'):>9.1f} µs {measure(length, 'jvp'):>9.1f} µs")


if __name__ == "__main__":
    main()
