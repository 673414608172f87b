"""Writing kernels by hand: lines of the language of kernels, with slots, sizes and scratch numbered as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from gradopt.dialects.constraints import tensor_type
from gradopt.ir.sizes import Size, ceildiv, multiply, product
from gradopt.ir.types import F32, FloatType, TensorType, Type, tensor
from gradopt.ir.values import Value
from gradopt.lowering.codegen.library import Launch
from gradopt.lowering.codegen.scalars import value_type

__all__ = ["Source", "accumulation_element", "blocks", "dims_of", "element_of", "temporary"]

ALIGNMENT = 64


def dims_of(value: Value) -> tuple[Size, ...]:
    """The sizes of a tensor value."""
    return tuple(tensor_type(value).dims)


def element_of(value: Value) -> Type:
    """The element type of a tensor value."""
    return tensor_type(value).element


def accumulation_element(element: Type) -> Type:
    """f32 for 16-bit floats, else the element type itself."""
    return F32 if isinstance(element, FloatType) and element.width == 16 else element


def temporary(dims: Sequence[Size], element: Type) -> Value:
    """Memory that lives between the launches of one op."""
    return Value(tensor(list(dims), element))


def blocks(size: Size, most: int, least: int) -> Size:
    """The size of a block so that there are at most `most` blocks of at least `least`."""
    if isinstance(size, int):
        return max(-(-size // most), least, 1)
    from gradopt.ir.sizes import add

    return add(ceildiv(size, most), least)


class Source:
    """One kernel under construction: `launch` gives it with its operands and parameters."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.operands: list[Value] = []
        self.parameters: list[Size] = []
        self.depth = 1
        self.scratch_bytes = 0
        self.regions = 0

    # --- what the kernel sees

    def pointer(self, value: Value, same_as: str | None = None) -> str:
        """A variable that points to the elements of a value (`same_as`: a pointer whose memory it shares)."""
        if value in self.operands:
            return f"b{self.operands.index(value)}"
        slot = len(self.operands)
        self.operands.append(value)
        group = "" if same_as is None else f", {same_as.removeprefix('b')}"
        type = value.type
        assert isinstance(type, TensorType)
        self.line(f"b{slot} = pointer_{type.element.text}(context, {slot}{group})")
        return f"b{slot}"

    def size(self, size: Size) -> str:
        """A size: a number, or a variable that holds a parameter. Call it before the first loop."""
        if isinstance(size, int):
            return str(size) if size >= 0 else f"({size})"
        return f"p{self.parameters.index(size)}" if size in self.parameters else self.parameter(size)

    def parameter(self, size: Size) -> str:
        """A variable that holds a size, known or not: so that one kernel serves all sizes. Call it before the first loop."""
        number = len(self.parameters)
        self.parameters.append(size)
        self.line(f"p{number} = parameter(context, {number})")
        return f"p{number}"

    def scratch(self, element: str, count: int) -> str:
        """A variable that points to `count` elements of the thread's scratch, apart from all others."""
        name = f"s{self.regions}"
        self.line(f"{name} = scratch_{element}(context, {self.scratch_bytes}, {self.regions})")
        width = 1 if element in ("i1", "i8", "ui8") else int(element.lstrip("uibf")) // 8
        self.scratch_bytes += -(-count * width // ALIGNMENT) * ALIGNMENT
        self.regions += 1
        return name

    # --- text

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append("    " * self.depth + text)

    def add(self, text: str) -> None:
        """Adds lines, which may be indented among themselves and as a whole."""
        rows = [row for row in text.split("\n") if row.strip()]
        margin = min((len(row) - len(row.lstrip()) for row in rows), default=0)
        for row in rows:
            self.line(row[margin:].rstrip())

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head:` and, indented, what is added inside the `with`."""
        self.line(head + ":")
        self.depth += 1
        yield
        self.depth -= 1

    def loop(self, variable: str, end: str, begin: str = "0") -> AbstractContextManager[None]:
        """`for variable in range(begin, end):` as a `with` block."""
        return self.block(f"for {variable} in range({begin}, {end})")

    @contextmanager
    def steps(self, variable: str, end: str, step: str) -> Iterator[None]:
        """A loop that goes on from the variable's value by steps of `step` while it is below `end`."""
        with self.block(f"while {variable} < {end}"):
            yield
            self.line(f"{variable} = {variable} + {step}")

    def launch(self, extent: Size, grain: Size, vectorise: bool = True) -> Launch:
        """The finished kernel."""
        text = "def kernel(lo, hi, context):\n" + "\n".join(self.lines) + "\n    return 0\n"
        return Launch(text, extent, grain, self.operands, self.parameters, self.scratch_bytes, vectorise)


def literal(value: float | int, element: Type) -> str:
    """A number of a kernel's value type for an element type."""
    kind = value_type(element)
    if kind == "i1":
        return f"i1({int(bool(value))})"
    if kind in ("f32", "f64"):
        from gradopt.lowering.codegen.scalars import float_text

        return float_text(float(value), kind)
    return f"{kind}({int(value)})"


def volume(dims: Sequence[Size]) -> Size:
    """The number of elements of a shape."""
    return product(list(dims))


def times(*sizes: Size) -> Size:
    """The product of sizes."""
    total: Size = 1
    for size in sizes:
        total = multiply(total, size)
    return total
