"""`kernel.nest` as the source of a kernel.

The text depends on what the nest does only: names are numbered as they come, so that equal loops are compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from gradopt.dialects.kernel import AccumulateOp, GemmOp, IndexOp, MapOp, NestOp, ReadOp, ReduceOp, WriteOp, YieldOp
from gradopt.ir.operation import Block, Operation
from gradopt.ir.sizes import Size, product
from gradopt.ir.types import FloatType, TensorType
from gradopt.ir.values import Value
from gradopt.lowering.codegen.accumulators import COMBINE, Accumulators
from gradopt.lowering.codegen.gemm import write_gemm
from gradopt.lowering.codegen.indices import index_text, map_expression
from gradopt.lowering.codegen.long_sums import is_long_sum, sum_axis, sum_type
from gradopt.lowering.codegen.scalars import ACCUMULATE, identity_text, literal_text, scalar_expression, value_type

__all__ = ["nest_source", "scratch_bytes"]

SCRATCH_ALIGNMENT = 64
SHORT_LOOP, SHORT_SUM = 64, 100  # turns: LLVM unrolls such a loop before its vectoriser sees it, unless it is told not to
FEWEST_VECTORS = 8  # elements that are worth a vector; loops of no multiple of it are vectorised from twice as many


def _row_bytes(size: Size, element_bytes: int) -> int:
    assert isinstance(size, int)
    return -(-size * element_bytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


def _is_short(stage: Operation) -> bool:
    """True for a stage whose innermost loop is better vectorised than unrolled."""
    size, most = stage.inner[-1], SHORT_SUM if isinstance(stage, ReduceOp) else SHORT_LOOP  # type: ignore[attr-defined]
    return isinstance(size, int) and FEWEST_VECTORS <= size <= most and (size % FEWEST_VECTORS == 0 or size > 2 * FEWEST_VECTORS)


class NestSource:
    """Writes one nest."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[Value, str] = {}
        self.counter = 0
        self.offset = 0  # bytes of scratch so far
        self.regions = 0  # scratch regions so far
        block = op.regions[0].block
        self.block = block
        inputs, outputs = len(op.operands), len(op.results)
        arguments = block.arguments
        self.buffers = arguments[: inputs + outputs]
        kept = len(op.scratch)  # type: ignore[attr-defined]
        self.scratch = arguments[inputs + outputs: inputs + outputs + kept]
        outer = len(op.outer)  # type: ignore[attr-defined]
        rest = arguments[inputs + outputs + kept:]
        self.outer, self.parameters = rest[:outer], rest[outer:]
        self.parameter_names = dict(zip(op.parameters, (f"p{i}" for i in range(len(self.parameters)))))  # type: ignore[attr-defined]
        self.part_depth = 0  # where the sums of a block are declared
        self.accumulators = Accumulators(self)

    # --- text

    def line(self, text: str) -> None:
        """Adds a line at the present depth."""
        self.lines.append("    " * self.depth + text)

    def fresh(self) -> str:
        """A new variable."""
        self.counter += 1
        return f"v{self.counter}"

    def size(self, size: Size) -> str:
        """A size of the nest: a number or an expression over parameters."""
        return index_text(size, self.parameter_names)

    def text(self) -> str:
        """The whole kernel."""
        self._prologue()
        stages = [inner for inner in self.block.operations if isinstance(inner, (MapOp, ReduceOp))]
        loops = [inner for inner in self.block.operations if not isinstance(inner, (GemmOp, YieldOp))]
        if any(map(_is_short, stages)):
            self.line("keep_loops()")
        for inner in self.block.operations:
            if isinstance(inner, GemmOp):
                write_gemm(self, inner)
        if loops:
            self.accumulators.begin()
            if self.op.interchange and stages:  # type: ignore[attr-defined]
                self._interchanged()
            else:
                self._rows()
            self.accumulators.end()
        self.line("return 0")
        return "def kernel(lo, hi, context):\n" + "\n".join(self.lines) + "\n"

    def _prologue(self) -> None:
        for slot, buffer in enumerate(self.buffers):
            type = buffer.type
            assert isinstance(type, TensorType)
            self.names[buffer] = f"b{slot}"
            self.line(f"b{slot} = pointer_{type.element.text}(context, {slot})")
        for number, argument in enumerate(self.parameters):
            self.names[argument] = f"p{number}"
            self.line(f"p{number} = parameter(context, {number})")
        for argument, size in zip(self.scratch, self.op.scratch):  # type: ignore[attr-defined]
            type = argument.type
            assert isinstance(type, TensorType)
            self.names[argument] = self.scratch_row(value_type(type.element), size)

    def scratch_row(self, kind: str, size: Size) -> str:
        """A new row of the worker's scratch."""
        name = f"s{self.regions}"
        self.line(f"{name} = scratch_{kind}(context, {self.offset}, {self.regions})")
        self.offset += _row_bytes(size, 8 if kind.endswith("64") else 1 if kind == "i1" else 4)
        self.regions += 1
        return name

    # --- loops

    def _decode_outer(self, point: str) -> None:
        """The outer indices of a point."""
        sizes = list(self.op.outer)  # type: ignore[attr-defined]
        if len(sizes) == 1:
            self.names[self.outer[0]] = point
            return
        rest = point
        for axis in range(len(sizes) - 1, -1, -1):
            name = f"o{axis}"
            self.names[self.outer[axis]] = name
            if axis == 0:
                self.line(f"{name} = {rest}")
            else:
                self.line(f"{name} = index_modulo({rest}, {self.size(sizes[axis])})")
                if axis > 1 or len(sizes) > 1:
                    self.line(f"r{axis} = index_divide({rest}, {self.size(sizes[axis])})")
                    rest = f"r{axis}"

    def _rows(self) -> None:
        totals = self.accumulators
        if totals.parts:
            self.line(f"for first in range(lo, hi, {totals.step}):")
            self.depth += 1
            totals.begin_block()
        self.line(f"for o in range(first, minimum(first + {totals.step}, hi)):" if totals.parts else "for o in range(lo, hi):")
        self.depth += 1
        self._decode_outer("o")
        self._statements(self.block)
        self.depth -= 1
        if totals.parts:
            totals.end_block()
            self.depth -= 1

    def _statements(self, block: Block) -> None:
        for inner in block.operations:
            if isinstance(inner, (MapOp, ReduceOp)):
                self._stage(inner)
            elif not isinstance(inner, (GemmOp, YieldOp)):
                self._statement(inner)

    def _stage(self, stage: Operation) -> None:
        body = stage.regions[0].block
        kinds = stage.kinds if isinstance(stage, ReduceOp) else ()
        terminator = body.last
        assert terminator is not None
        types = [value_type(output.type.element) for output in stage.results]  # type: ignore[attr-defined]
        blocked = is_long_sum(kinds, types, list(stage.inner))  # type: ignore[attr-defined]
        totals, parts = [], {}
        for kind, type, output, value in zip(kinds, types, stage.results, terminator.operands):
            total = self._begin_total(kind, output, value)
            if blocked and kind == "sum" and type in ("f32", "f64"):
                parts[total] = type
                self.line(f"{total}_all = f64(0.0)")
            totals.append(total)
        depth = self.depth
        self._inner_loops(stage, parts)
        self._statements(body)
        for kind, total, value in zip(kinds, totals, terminator.operands):
            self._combine(kind, total, value, body)
        if parts:
            self.depth = self.part_depth
            for total in parts:
                self.line(f"{total}_all = add({total}_all, f64({total}))")
        self.depth = depth
        for total, type in parts.items():
            self.line(f"{total} = {type}({total}_all)")

    def _inner_loops(self, stage: Operation, parts: Mapping[str, str] = MappingProxyType({})) -> None:
        """Opens the loops of a stage; `parts`: sums, with their types, that begin anew with each block of elements."""
        sizes = list(stage.inner)  # type: ignore[attr-defined]
        cut, step = sum_axis(sizes) if parts else (-1, 1)
        for axis, (argument, size) in enumerate(zip(stage.regions[0].block.arguments, sizes)):
            name, extent = f"i{self.depth}", self.size(size)
            first, last = "0", extent
            self.names[argument] = name
            if axis == cut and step > 1:
                first, last = f"{name}_first", f"minimum({name}_first + {step}, {extent})"
                self.line(f"for {first} in range(0, {extent}, {step}):")
                self.depth += 1
                self._begin_parts(parts)
            self.line(f"for {name} in range({first}, {last}):")
            self.depth += 1
            if axis == cut and step == 1:
                self._begin_parts(parts)

    def _begin_parts(self, parts: Mapping[str, str]) -> None:
        self.part_depth = self.depth
        for total, type in parts.items():
            self.line(f"{total} = {type}(0.0)")

    def _begin_total(self, kind: str, output: Value, value: Value) -> str:
        type = output.type
        assert isinstance(type, TensorType)
        name = self.fresh()
        self.names[output] = name
        if kind.startswith("arg_"):
            self.line(f"{name} = 0")
            self.line(f"{name}_seen = i1(0)")
            self.line(f"{name}_best = {literal_text(0, value.type.element)}")  # type: ignore[attr-defined]
        else:
            self.line(f"{name} = {identity_text(kind, type.element)}")
        return name

    def _combine(self, kind: str, total: str, value: Value, body: Block) -> None:
        if not kind.startswith("arg_"):
            self.line(f"{total} = {ACCUMULATE[kind]}({total}, {self.names[value]})")
            return
        element = value.type.element  # type: ignore[attr-defined]
        new = self.names[value]
        better = f"{'gt' if kind == 'arg_max' else 'lt'}({new}, {total}_best)"
        if isinstance(element, FloatType):  # the first NaN wins and stays
            better = f"bit_and(bit_not(is_nan({total}_best)), bit_or({better}, is_nan({new})))"
        self.line(f"if {total}_seen:")
        self.line(f"    {total}_take = {better}")
        self.line("else:")
        self.line(f"    {total}_take = i1(1)")
        self.line(f"if {total}_take:")
        self.line(f"    {total}_best = {new}")
        self.line(f"    {total} = {self._flat_inner(body)}")
        self.line(f"    {total}_seen = i1(1)")

    def _flat_inner(self, body: Block) -> str:
        stage = body.parent.parent if body.parent is not None else None
        assert stage is not None
        sizes = list(stage.inner)  # type: ignore[attr-defined]
        strides = [product(sizes[axis + 1:]) for axis in range(len(sizes))]
        return " + ".join(f"{self.names[argument]} * {self.size(stride)}" for argument, stride in zip(body.arguments, strides))

    # --- interchanged: the loop over consecutive points is innermost

    def _interchanged(self) -> None:
        sizes = list(self.op.outer)  # type: ignore[attr-defined]
        stages = [inner for inner in self.block.operations if isinstance(inner, ReduceOp)]
        totals: dict[Value, str] = {}
        kinds: dict[Value, str] = {}  # the types of the totals
        for stage in stages:
            for kind, output in zip(stage.kinds, stage.results):
                kinds[output] = sum_type(kind, value_type(output.type.element), product(list(stage.inner)))  # type: ignore[attr-defined]
                totals[output] = self.scratch_row(kinds[output], self.op.grain[0])  # type: ignore[attr-defined]
        self.line("begin = lo")
        self.line("while begin < hi:")
        self.depth += 1
        last = self.size(sizes[-1])
        row = "begin" if len(sizes) == 1 else f"index_modulo(begin, {last})"
        self.line(f"first = {row}")
        self.line(f"end = minimum({last}, first + hi - begin)")
        if len(sizes) > 1:
            self.line(f"lead = index_divide(begin, {last})")
            self._decode_lead(sizes)
        self.names[self.outer[-1]] = "c"
        for stage in stages:
            self._interchanged_stage(stage, totals, kinds)
        self.line("for c in range(first, end):")
        self.depth += 1
        for inner in self.block.operations:
            if isinstance(inner, ReduceOp):
                self._load_totals(inner, totals, kinds)
            elif not isinstance(inner, YieldOp):
                self._statement(inner)
        self.depth -= 1
        self.line("begin = begin + end - first")
        self.depth -= 1

    def _decode_lead(self, sizes: Sequence[Size]) -> None:
        rest = "lead"
        for axis in range(len(sizes) - 2, -1, -1):
            name = f"o{axis}"
            self.names[self.outer[axis]] = name
            if axis == 0:
                self.line(f"{name} = {rest}")
            else:
                self.line(f"{name} = index_modulo({rest}, {self.size(sizes[axis])})")
                self.line(f"r{axis} = index_divide({rest}, {self.size(sizes[axis])})")
                rest = f"r{axis}"

    def _interchanged_stage(self, stage: ReduceOp, totals: dict[Value, str], kinds: dict[Value, str]) -> None:
        body = stage.regions[0].block
        self.line("for c in range(first, end):")
        for kind, output in zip(stage.kinds, stage.results):
            identity = identity_text(kind, output.type.element)  # type: ignore[attr-defined]
            self.line(f"    store({totals[output]}, c - first, {self._converted(identity, output, kinds)})")
        self._inner_loops(stage)
        self.line("for c in range(first, end):")
        self.depth += 1
        for inner in self.block.operations:  # what the stage needs of its point
            if inner is stage:
                break
            if isinstance(inner, ReduceOp):
                self._load_totals(inner, totals, kinds)
            elif not isinstance(inner, (AccumulateOp, WriteOp)):
                self._statement(inner)
        self._statements(body)
        assert body.last is not None
        for kind, output, value in zip(stage.kinds, stage.results, body.last.operands):
            scratch = totals[output]
            combined = f"{COMBINE[kind]}(load({scratch}, c - first), {self._converted(self.names[value], output, kinds)})"
            self.line(f"store({scratch}, c - first, {combined})")
        self.depth -= 1 + len(stage.inner)

    def _load_totals(self, stage: ReduceOp, totals: dict[Value, str], kinds: dict[Value, str]) -> None:
        """The results of a stage at the point c."""
        for output in stage.results:
            self.names[output] = name = self.fresh()
            text, kind = f"load({totals[output]}, c - first)", value_type(output.type.element)  # type: ignore[attr-defined]
            self.line(f"{name} = {text if kind == kinds[output] else f'{kind}({text})'}")

    @staticmethod
    def _converted(text: str, output: Value, kinds: dict[Value, str]) -> str:
        """A value of an output's type in the type of its total."""
        kind = kinds[output]
        return text if kind == value_type(output.type.element) else f"{kind}({text})"  # type: ignore[attr-defined]

    # --- statements

    def position(self, op: Operation, indices: Sequence[Value]) -> str:
        """Where an access stands."""
        dims = op.map.body.split(")", 1)[0].count("d")  # type: ignore[attr-defined]
        names = {f"d{number}" if number < dims else f"s{number - dims}": self.names[value] for number, value in enumerate(indices)}
        return index_text(map_expression(op.map), names)  # type: ignore[attr-defined]

    def _statement(self, op: Operation) -> None:
        if isinstance(op, WriteOp):
            self.line(f"store({self.names[op.buffer]}, {self.position(op, op.indices)}, {self.names[op.value]})")
            return
        if isinstance(op, AccumulateOp):
            self.accumulators.accumulate(op)
            return
        name = self.fresh()
        if isinstance(op, ReadOp):
            self._read(op, name)
        elif isinstance(op, IndexOp):
            self.line(f"{name} = {self.position(op, op.indices)}")
        else:
            self.line(f"{name} = {scalar_expression(op, [self.names[operand] for operand in op.operands])}")
        self.names[op.results[0]] = name

    def _read(self, op: ReadOp, name: str) -> None:
        access = f"load({self.names[op.buffer]}, {self.position(op, op.indices)})"
        if not op.guarded:
            self.line(f"{name} = {access}")
            return
        element = op.buffer.type.element  # type: ignore[attr-defined]
        assert op.guard is not None
        zero = "0.0" if isinstance(element, FloatType) else "0"
        self.line(f"{name} = {value_type(element)}({zero})")
        self.line(f"if {self.names[op.guard]}:")
        self.line(f"    {name} = {access}")


def nest_source(op: NestOp | Operation) -> tuple[str, int]:
    """The kernel's source and the bytes of scratch it needs."""
    writer = NestSource(op)
    text = writer.text()
    return text, writer.offset


def scratch_bytes(op: Operation) -> int:
    """The scratch that a nest needs."""
    return nest_source(op)[1]
