"""What a kernel computes, in the words and lines of the source file, read off the locations of the ops that it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradopt.ir.attributes import StringAttr
from gradopt.ir.locations import AnyLocation, CallSiteLocation, FileLocation, FusedLocation, NameLocation, SourceLocation
from gradopt.ir.operation import Operation
from gradopt.lowering.profile.costs import CONTROL, FREE

__all__ = ["Place", "kernel_name", "line_text", "source_lines"]

MOST_NAMES = 4
REDUCTIONS = {"add": "sum", "mul": "prod"}
DERIVATIVE = "autodiff"  # the pass that an adjoint's or a tangent's location is fused by


@dataclass(frozen=True)
class Place:
    """One source of an op: the file and line (None where unknown), the op that stood there, and whether this is its derivative."""

    file: str | None
    line: int | None
    op_name: str
    derivative: bool


def places(location: AnyLocation) -> Iterator[Place]:
    """Every source that a location names; of a call the place in the callee."""
    pending: list[tuple[AnyLocation, str, bool]] = [(location, "", False)]
    while pending:
        where, name, derivative = pending.pop()
        if isinstance(where, SourceLocation):
            where = where.resolve()
        if isinstance(where, FusedLocation):
            derivative = derivative or (isinstance(where.metadata, StringAttr) and where.metadata.value == DERIVATIVE)
            pending += [(part, name, derivative) for part in reversed(where.locations)]
        elif isinstance(where, NameLocation):
            is_adjoint = where.name.startswith("bwd.")
            pending.append((where.child, name or where.name.split(".", 1)[-1], derivative or is_adjoint))
        elif isinstance(where, CallSiteLocation):
            pending.append((where.callee, name, derivative))
        elif isinstance(where, FileLocation):
            yield Place(where.file, where.line, name, derivative)
        else:
            yield Place(None, None, name, derivative)


def computing(op: Operation) -> Iterator[Operation]:
    """The ops inside a kernel that compute something, in order; the op itself where it holds no body of kernels."""
    if op.name != "kernel.nest":
        yield op
        return
    writes: list[Operation] = []
    found = False
    for inner in op.walk():
        name = inner.name.removeprefix("prim.")
        if name == "kernel.write":
            writes.append(inner)
        elif name in ("kernel.gemm", "kernel.reduce", "kernel.accumulate") or (name != inner.name and name != "constant"):
            found = True
            yield inner
    if not found:
        yield from writes


def source_lines(op: Operation) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """(file, line) of what a kernel computes, and of what it computes the derivative of; sorted."""
    lines: tuple[set[tuple[str, int]], set[tuple[str, int]]] = (set(), set())
    for part in computing(op):
        for place in places(part.location):
            if place.file is not None and place.line is not None:
                lines[place.derivative].add((place.file, place.line))
    return sorted(lines[0]), sorted(lines[1])


def line_text(lines: list[tuple[str, int]], file: str | None = None) -> str:
    """`layer.ir:2-4,7`; without the name of `file`."""
    parts = []
    for name in dict.fromkeys(name for name, _ in lines):
        numbers = [line for other, line in lines if other == name]
        runs: list[list[int]] = []
        for line in numbers:
            if runs and runs[-1][1] == line - 1:
                runs[-1][1] = line
            else:
                runs.append([line, line])
        text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
        parts.append(text if name == file else f"{name}:{text}")
    return " ".join(parts)


def kernel_name(op: Operation) -> str:
    """What a kernel computes: `matmul+relu`, `conv2d_input`, `d(softmax)` (a derivative), `copy(split)` (only moves)."""
    if op.name in CONTROL:
        return f"driver ({op.name.split('.', 1)[1]})" if op.name != "func.func" else "driver"
    if op.name != "kernel.nest":
        return op.name.split(".", 1)[1]
    names: dict[str, None] = {}
    moved: dict[str, None] = {}
    for part in computing(op):
        own = _own_names(part)
        for place in places(part.location):
            for name in [place.op_name] if place.op_name else own:
                (names if own else moved).setdefault(f"d({name})" if place.derivative else name)
    chosen = sorted(names or moved, key=lambda name: name.startswith("d("))  # in the order of the body, derivatives last
    text = "+".join(chosen[:MOST_NAMES]) + ("+…" if len(chosen) > MOST_NAMES else "")
    return text if names else f"copy({text})" if moved else "copy"


def _own_names(op: Operation) -> list[str]:
    """What an op of a nest does by itself; nothing for what only moves."""
    if op.name == "kernel.gemm":
        return ["dot"]
    if op.name == "kernel.reduce":
        return list(dict.fromkeys(op.kinds))  # type: ignore[attr-defined]
    if op.name == "kernel.accumulate":
        return [op.kind]  # type: ignore[attr-defined]
    name = op.name.removeprefix("prim.")
    return [] if name in FREE or op.name == "kernel.write" else [name]
