"""Library kernels: ops that are not loop nests. `LIBRARY[op name](op)` gives the launches, in order.

A rule is registered with `@library("prim.scatter")` in one of the modules of `MODULES`; it writes its kernels with `Source`
(source.py). Kernels cut their work by a function of the shape alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size
from gradopt.ir.values import Value

__all__ = ["LIBRARY", "Launch", "library"]


@dataclass
class Launch:
    """One run of a kernel over `extent` points in chunks of `grain`; `operands` are the values in the slots (inputs, results, and
    temporaries: values that belong to no op). Without `vectorise`, LLVM leaves the loops as they are: for kernels whose hot loops are
    written in vectors, which compile in half the time then."""

    source: str
    extent: Size
    grain: Size
    operands: Sequence[Value]
    parameters: Sequence[Size] = field(default_factory=list)
    scratch_bytes: int = 0
    vectorise: bool = True


Rule = Callable[[Operation], list[Launch]]

MODULES: dict[str, tuple[str, ...]] = {
    "scatter": ("prim.scatter", "prim.scatter_nd"),
    "cumulative": ("prim.cumulative",),
    "sort": ("prim.sort",),
    "random_bits": ("prim.random_bits",),
    "factor": ("prim.cholesky", "prim.triangular_solve"),
    "solver": ("kernel.solve", "kernel.inverse", "kernel.det"),
    "fold": ("prim.fold",),
    "convolution": ("prim.conv",),
    "attention": ("kernel.attention",),
    "pooling": ("kernel.max_pool2d", "kernel.max_pool2d_backward"),
    "attention_backward": ("kernel.attention_backward",),
    "convolution_ops": ("hl.conv1d", "hl.conv2d", "hl.conv3d", "hl.conv2d_transpose", "bwd.conv1d_input", "bwd.conv2d_input",
                        "bwd.conv3d_input", "bwd.conv1d_weight", "bwd.conv2d_weight", "bwd.conv3d_weight"),
}
"""The ops that the modules of this package have kernels for; a module is imported when one of its ops is met."""


class _Table(Mapping[str, Rule]):
    """The rules by op name, imported on demand."""

    def __init__(self) -> None:
        self.rules: dict[str, Rule] = {}
        self.module_of = {name: module for module, names in MODULES.items() for name in names}

    def __getitem__(self, name: str) -> Rule:
        if name not in self.rules and name in self.module_of:
            importlib.import_module(f"{__name__}.{self.module_of[name]}")
        return self.rules[name]

    def __contains__(self, name: object) -> bool:
        return name in self.rules or name in self.module_of

    def __iter__(self) -> Iterator[str]:
        return iter({**self.module_of, **self.rules})

    def __len__(self) -> int:
        return len({**self.module_of, **self.rules})


LIBRARY = _Table()


def library(*names: str) -> Callable[[Rule], Rule]:
    """Registers the launches of ops."""
    def register(rule: Rule) -> Rule:
        LIBRARY.rules.update(dict.fromkeys(names, rule))
        return rule
    return register
