"""`kernel.nest` as the source of a kernel.

The text depends on what the nest does only: names are numbered as they come, so that equal loops are compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from gradopt.dialects.kernel import AccumulateOp, GemmOp, IndexOp, MapOp, NestOp, ReadOp, ReduceOp, WriteOp, YieldOp
from gradopt.ir.attributes import AffineMapAttr
from gradopt.ir.operation import Block, Operation
from gradopt.ir.sizes import Size, SizeExpression, parse_size, product
from gradopt.ir.types import FloatType, TensorType
from gradopt.ir.values import Value
from gradopt.lowering.codegen.scalars import ACCUMULATE, identity_text, literal_text, scalar_expression, value_type

__all__ = ["nest_source", "scratch_bytes"]

SCRATCH_ALIGNMENT = 64


@lru_cache(maxsize=4096)
def map_expression(mapping: AffineMapAttr) -> Size:
    """The result of an affine map of one result, in the names d0, d1, …"""
    return parse_size(mapping.body.split("->", 1)[1].strip().removeprefix("(").removesuffix(")"))


def index_text(index: Size, names: dict[str, str]) -> str:
    """An index expression over variables."""
    if not isinstance(index, SizeExpression):
        return str(index)
    text = ""
    for monomial, coefficient in index.terms:
        factors = [_atom_text(atom, names) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.append(str(abs(coefficient)))
        sign = (" - " if coefficient < 0 else " + ") if text else ("0 - " if coefficient < 0 else "")
        text += sign + " * ".join(factors)
    return text or "0"


def _atom_text(atom: object, names: dict[str, str]) -> str:
    if isinstance(atom, str):
        return names[atom]
    assert isinstance(atom, tuple)
    kind, inner, divisor = atom
    if _may_be_negative(inner):
        function = "floor_divide" if kind == "floordiv" else "modulo"
    else:
        function = "index_divide" if kind == "floordiv" else "index_modulo"
    return f"{function}({index_text(inner, names)}, {index_text(divisor, names)})"


def _may_be_negative(index: Size) -> bool:
    """True unless a sum has no negative term (loop variables and sizes are >= 0), nor any quotient or rest in it."""
    work = [index]
    while work:
        size = work.pop()
        if isinstance(size, SizeExpression):
            if any(coefficient < 0 for _, coefficient in size.terms):
                return True
            work += [atom[1] for monomial, _ in size.terms for atom in monomial if not isinstance(atom, str)]
        elif not isinstance(size, int) or size < 0:
            return True
    return False


def _row_bytes(size: Size, element_bytes: int) -> int:
    assert isinstance(size, int)
    return -(-size * element_bytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


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
        self.accumulators: dict[Operation, str] = {}

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
        for inner in self.block.operations:
            if isinstance(inner, GemmOp):
                self._gemm(inner)
        if loops:
            self._begin_accumulators()
            if self.op.interchange and stages:  # type: ignore[attr-defined]
                self._interchanged()
            else:
                self._rows()
            self._end_accumulators()
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
            self.names[argument] = self._scratch_row(value_type(type.element), size)

    def _scratch_row(self, kind: str, size: Size) -> str:
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
        self.line("for o in range(lo, hi):")
        self.depth += 1
        self._decode_outer("o")
        self._statements(self.block)
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
        totals = []
        terminator = body.last
        assert terminator is not None
        for kind, output, value in zip(kinds, stage.results, terminator.operands):
            totals.append(self._begin_total(kind, output, value))
        self._inner_loops(stage)
        self._statements(body)
        for kind, total, value in zip(kinds, totals, terminator.operands):
            self._combine(kind, total, value, body)
        self.depth -= len(stage.inner)  # type: ignore[attr-defined]

    def _inner_loops(self, stage: Operation) -> None:
        body = stage.regions[0].block
        for argument, size in zip(body.arguments, stage.inner):  # type: ignore[attr-defined]
            name = f"i{self.depth}"
            self.names[argument] = name
            self.line(f"for {name} in range(0, {self.size(size)}):")
            self.depth += 1

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
        for stage in stages:
            for output in stage.results:
                totals[output] = self._scratch_row(value_type(output.type.element), self.op.grain[0])  # type: ignore[attr-defined]
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
            self._interchanged_stage(stage, totals)
        self.line("for c in range(first, end):")
        self.depth += 1
        for total, scratch in totals.items():
            name = self.fresh()
            self.line(f"{name} = load({scratch}, c - first)")
            self.names[total] = name
        for inner in self.block.operations:
            if not isinstance(inner, (ReduceOp, YieldOp)):
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

    def _interchanged_stage(self, stage: ReduceOp, totals: dict[Value, str]) -> None:
        body = stage.regions[0].block
        self.line("for c in range(first, end):")
        for kind, output in zip(stage.kinds, stage.results):
            self.line(f"    store({totals[output]}, c - first, {identity_text(kind, output.type.element)})")  # type: ignore[attr-defined]
        self._inner_loops(stage)
        self.line("for c in range(first, end):")
        self.depth += 1
        for inner in self.block.operations:  # what the stage needs of its point
            if inner is stage:
                break
            if not isinstance(inner, (ReduceOp, AccumulateOp, WriteOp)):
                self._statement(inner)
        self._statements(body)
        assert body.last is not None
        for kind, output, value in zip(stage.kinds, stage.results, body.last.operands):
            scratch = totals[output]
            combined = f"{_COMBINE[kind]}(load({scratch}, c - first), {self.names[value]})"
            self.line(f"store({scratch}, c - first, {combined})")
        self.depth -= 1 + len(stage.inner)

    # --- accumulation over a chunk

    def _begin_accumulators(self) -> None:
        for op in self._accumulations():
            type = op.buffer.type
            assert isinstance(type, TensorType)
            identity = identity_text(op.kind, type.element)
            row = product(type.dims[1:])
            if op.parent is self.block and row == 1:
                name = self.fresh()
                self.accumulators[op] = name
                self.line(f"{name} = {identity}")
            else:
                base = self.fresh()
                self.accumulators[op] = base
                self.line(f"{base} = chunk(context) * {self.size(row)}")
                self.line(f"for z in range(0, {self.size(row)}):")
                self.line(f"    store({self.names[op.buffer]}, {base} + z, {identity})")

    def _end_accumulators(self) -> None:
        for op in self._accumulations():
            type = op.buffer.type
            assert isinstance(type, TensorType)
            if op.parent is self.block and product(type.dims[1:]) == 1:
                self.line(f"store({self.names[op.buffer]}, chunk(context), {self.accumulators[op]})")

    def _accumulations(self) -> list[AccumulateOp]:
        found = []
        for inner in self.block.operations:
            if isinstance(inner, AccumulateOp):
                found.append(inner)
            for region in inner.regions:
                found += [deep for deep in region.block.operations if isinstance(deep, AccumulateOp)]
        return found

    # --- statements

    def _position(self, op: Operation, indices: Sequence[Value]) -> str:
        dims = op.map.body.split(")", 1)[0].count("d")  # type: ignore[attr-defined]
        names = {f"d{number}" if number < dims else f"s{number - dims}": self.names[value] for number, value in enumerate(indices)}
        return index_text(map_expression(op.map), names)  # type: ignore[attr-defined]

    def _statement(self, op: Operation) -> None:
        if isinstance(op, WriteOp):
            self.line(f"store({self.names[op.buffer]}, {self._position(op, op.indices)}, {self.names[op.value]})")
            return
        if isinstance(op, AccumulateOp):
            self._accumulate(op)
            return
        name = self.fresh()
        if isinstance(op, ReadOp):
            self._read(op, name)
        elif isinstance(op, IndexOp):
            self.line(f"{name} = {self._position(op, op.indices)}")
        else:
            self.line(f"{name} = {scalar_expression(op, [self.names[operand] for operand in op.operands])}")
        self.names[op.results[0]] = name

    def _read(self, op: ReadOp, name: str) -> None:
        access = f"load({self.names[op.buffer]}, {self._position(op, op.indices)})"
        if not op.guarded:
            self.line(f"{name} = {access}")
            return
        element = op.buffer.type.element  # type: ignore[attr-defined]
        assert op.guard is not None
        zero = "0.0" if isinstance(element, FloatType) else "0"
        self.line(f"{name} = {value_type(element)}({zero})")
        self.line(f"if {self.names[op.guard]}:")
        self.line(f"    {name} = {access}")

    def _accumulate(self, op: AccumulateOp) -> None:
        type = op.buffer.type
        assert isinstance(type, TensorType)
        name, value = self.accumulators[op], self.names[op.value]
        if op.parent is self.block and product(type.dims[1:]) == 1:
            self.line(f"{name} = {ACCUMULATE[op.kind]}({name}, {value})")
            return
        buffer, place = self.names[op.buffer], f"{name} + {self._position(op, op.indices)}"
        self.line(f"store({buffer}, {place}, {_COMBINE[op.kind]}(load({buffer}, {place}), {value}))")

    # --- matrix products

    def _gemm(self, op: GemmOp) -> None:
        m, n, k = op.sizes
        kind = value_type(op.out.type.element)  # type: ignore[attr-defined]
        function = "sgemm" if kind == "f32" else "dgemm"
        lhs, rhs, out = (self.names[value] for value in (op.lhs, op.rhs, op.out))
        transpose_left, lda = (0, op.lhs_strides[0]) if op.lhs_strides[1] == 1 else (1, op.lhs_strides[1])
        transpose_right, ldb = (0, op.rhs_strides[0]) if op.rhs_strides[1] == 1 else (1, op.rhs_strides[1])
        size = self.size
        left, right = (size(offset) for offset in op.offsets)

        def call(rows: str, left: str, right: str, result: str) -> str:
            return (f"{function}(context, {transpose_left}, {transpose_right}, {rows}, {size(n)}, {size(k)}, {kind}(1.0), "
                    f"offset({lhs}, {left}), {size(lda)}, offset({rhs}, {right}), {size(ldb)}, {kind}(0.0), "
                    f"offset({out}, {result}), {size(n)})")

        if not op.batch:
            self.line(call("hi - lo", f"{left} + lo * {size(op.lhs_strides[0])}", right, f"lo * {size(n)}"))
            return
        self.line(f"for m in range(index_divide(lo, {size(m)}), index_divide(hi, {size(m)})):")
        self.depth += 1
        rest = "m"
        for axis in range(len(op.batch) - 1, -1, -1):
            number = rest
            if axis:
                self.line(f"m{axis} = index_modulo({rest}, {size(op.batch[axis])})")
                self.line(f"q{axis} = index_divide({rest}, {size(op.batch[axis])})")
                number, rest = f"m{axis}", f"q{axis}"
            left += f" + {number} * {size(op.lhs_batch[axis])}"
            right += f" + {number} * {size(op.rhs_batch[axis])}"
        self.line(call(size(m), left, right, f"m * {size(product([m, n]))}"))
        self.depth -= 1


# how partial results in memory are combined, elementwise (no reduction over a vector's lanes)
_COMBINE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "and": "bit_and", "or": "bit_or"}


def nest_source(op: NestOp | Operation) -> tuple[str, int]:
    """The kernel's source and the bytes of scratch it needs."""
    writer = NestSource(op)
    text = writer.text()
    return text, writer.offset


def scratch_bytes(op: Operation) -> int:
    """The scratch that a nest needs."""
    return nest_source(op)[1]
