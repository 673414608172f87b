"""Writes a cluster of roots as one `kernel.nest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gradopt.dialects.kernel import AccumulateOp, GemmOp, IndexOp, MapOp, NestOp, ReadOp, ReduceOp, WriteOp, YieldOp
from gradopt.ir.attributes import AffineMapAttr, Attribute, DenseElementsAttr
from gradopt.ir.builder import Builder, make_operation
from gradopt.ir.locations import UNKNOWN_LOCATION, AnyLocation, fuse_all
from gradopt.ir.operation import Block, Operation, new_region
from gradopt.ir.sizes import Size, SizeExpression, named_size
from gradopt.ir.types import INDEX, FloatType, TensorType, Type, tensor
from gradopt.ir.values import Value
from gradopt.lowering.fuse.cluster import Cluster, Root
from gradopt.lowering.fuse.expression import Apply, Graph, IndexValue, Literal, Load, Node
from gradopt.lowering.fuse.index import index_names, substitute

__all__ = ["NestWriter", "Schedule"]

HEAVY_ENOUGH_TO_KEEP = 8  # what costs more is kept in the row's scratch between stages instead of being computed again


@dataclass
class Schedule:
    """How a cluster's domain becomes loops: names and sizes of the outer and inner dimensions, renamed variables, grain, and layout."""

    outer: list[tuple[str, Size]]
    inner: list[tuple[str, Size]]
    renaming: dict[str, Size]
    grain: Size
    inner_names: frozenset[str] = frozenset()  # every inner variable, the joined ones too
    interchange: bool = False
    keep_rows: bool = True  # whether a row of scratch may be kept


@dataclass
class Slots:
    """The buffers of a nest: inputs, outputs (with their types) and scratch rows, and the block arguments that stand for them."""

    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    scratch: list[tuple[Type, Size]] = field(default_factory=list)


class NestWriter:
    """Builds the nest of one cluster. `storage` maps stored values to the values that hold them in the new block; `written` lists what
    this nest writes; the cluster's product is computed in the memory of `shared` (one of them), if that is given."""

    def __init__(self, graph: Graph, cluster: Cluster, schedule: Schedule, written: Sequence[Value],
                 accumulated: dict[Root, Value], storage: Callable[[Value], Value], location: AnyLocation,
                 shared: Value | None = None) -> None:
        self.graph, self.cluster, self.schedule = graph, cluster, schedule
        self.storage, self.location = storage, location
        self.written, self.accumulated, self.shared = list(written), accumulated, shared
        self.made = {root.value: root for root in cluster.roots}
        self.inner_names = schedule.inner_names
        self.loop_names = frozenset(name for name, _ in (*schedule.outer, *schedule.inner))
        self.parameters: list[str] = []
        self.scalars: dict[Value, Value] = {}  # row root -> its scalar
        self.kept: dict[int, int] = {}  # id(node) -> scratch slot
        self.keep: set[int] = set()  # nodes to keep when they are computed
        self.outer_memo: dict[int, Value] = {}
        self.inner_memo: dict[int, Value] = {}
        self.flushed: set[Value] = set()  # written map roots whose element may be read back in later stages

    # --- the nest as a whole

    def write(self, builder: Builder) -> tuple[Operation, list[Value]]:
        """Inserts the nest; returns it and the stored values (old ones) that its results hold, in order."""
        slots = self._slots()
        outputs = [*self.written, *self.accumulated.values()]
        names = [name for name, _ in self.schedule.outer]
        types: list[Type] = [value.type for value in [*slots.inputs, *outputs]]
        region = new_region(types)
        self.block = region.block
        count = len(slots.inputs)
        self.buffers: dict[Value, Value] = dict(zip(slots.inputs, self.block.arguments))
        self.targets: dict[Value, Value] = dict(zip(outputs, self.block.arguments[count:]))
        if self.cluster.gemm is not None and self.shared is not None:
            self.targets[self.cluster.gemm.value] = self.targets[self.shared]
        self.scratch_arguments: list[Value] = []
        self.scratch_sizes: list[Size] = []
        self.variables: dict[str, Value] = {}
        index_arguments = {name: self.block.add_argument(INDEX, name) for name in names}
        self.variables.update(index_arguments)
        self.outer = Builder(self.block, location=self.location)
        self._body()
        self.outer.insert(make_operation(YieldOp, [], {}, ()))
        self._declare_sizes()
        self._order_arguments(len(types))
        inputs = [self.storage(value) for value in slots.inputs]
        op = builder.create(NestOp, inputs, [value.type for value in outputs], [region],
                            outer=tuple(size for _, size in self.schedule.outer), grain=(self.schedule.grain,),
                            parameters=tuple(self.parameters), scratch=tuple(self.scratch_sizes),
                            interchange=self.schedule.interchange)
        op.location = self.location
        return op, outputs

    def _order_arguments(self, buffers: int) -> None:
        """Block arguments in their fixed order: buffers, scratch, outer indices, parameters."""
        arguments = self.block.arguments
        parameters = [self.variables[name] for name in self.parameters]
        ordered = [*arguments[:buffers], *self.scratch_arguments, *(self.variables[name] for name, _ in self.schedule.outer),
                   *parameters]
        self.block.arguments = ordered  # type: ignore[assignment]
        for position, argument in enumerate(ordered):
            argument.index = position  # type: ignore[attr-defined]

    def _declare_sizes(self) -> None:
        """Every named size that the loops, the product or the partial results mention becomes a parameter."""
        sizes: list[Size] = [size for _, size in (*self.schedule.outer, *self.schedule.inner)]
        if self.cluster.gemm is not None:
            for group in self.gemm_operands(self.cluster.gemm)[2].values():
                sizes += group
        for partial in self.accumulated.values():
            assert isinstance(partial.type, TensorType)
            sizes += partial.type.dims[1:]
        for size in sizes:
            for name in sorted(index_names(size)):
                self._name_value(name)

    def _slots(self) -> Slots:
        """The inputs: every value that a load of this cluster takes from memory."""
        slots = Slots()
        seen: set[Value] = set()
        own = set(self.made)
        for root in self.cluster.roots:
            for load in root.loads:
                if load.value not in own and load.value not in seen:
                    seen.add(load.value)
                    slots.inputs.append(load.value)
            if root.dot is not None:
                for value in self.gemm_operands(root)[:2]:
                    if value not in seen:
                        seen.add(value)
                        slots.inputs.append(value)
        return slots

    def gemm_operands(self, root: Root) -> tuple[Value, Value, dict[str, tuple[Size, ...]]]:
        """The stored values behind a product's operands and the attributes of `kernel.gemm`."""
        return root.gemm_plan  # type: ignore[attr-defined,no-any-return]

    def _body(self) -> None:
        cluster = self.cluster
        if cluster.gemm is not None:
            lhs, rhs, attributes = self.gemm_operands(cluster.gemm)
            self.outer.insert(make_operation(GemmOp, [self.buffers[lhs], self.buffers[rhs], self.targets[cluster.gemm.value]],
                                             attributes, (), location=cluster.gemm.dot.location if cluster.gemm.dot else self.location))
        stages = max((root.level for root in cluster.roots), default=0) + 1
        self._plan_kept(stages)
        for level in range(stages):
            self._stage([root for root in cluster.roots if root.level == level and root.kind != "gemm"])

    # --- stages

    def _is_inner(self, root: Root) -> bool:
        """True if the root has one value an inner point."""
        return bool(self.schedule.inner) and (root.kind != "map" or len(root.domain) == len(self.cluster.domain))

    def _stage(self, roots: list[Root]) -> None:
        inner = [root for root in roots if self._is_inner(root) and (root.kind != "map" or root.value in self.targets)]
        if inner:
            self._inner_stage(inner)
        for root in roots:
            if not self._is_inner(root) and root.kind in ("row", "all", "columns"):
                self._accumulate_outer(root)
            elif not self._is_inner(root) and root.value in self.targets:
                self._store(self.outer, self.emit(root.node), root)  # type: ignore[arg-type]
        for root in roots:  # a row reduction whose scalar others read from memory
            if root.kind == "row" and root.value in self.targets:
                self._store(self.outer, self.scalars[root.value], root)

    def _inner_stage(self, roots: list[Root]) -> None:
        reductions = [root for root in roots if root.kind in ("row", "all")]
        region = new_region([INDEX] * len(self.schedule.inner), [name for name, _ in self.schedule.inner])
        for argument, (name, _) in zip(region.block.arguments, self.schedule.inner):
            self.variables[name] = argument
        self.inner = Builder(region.block, location=self.location)
        self.inner_memo = {}
        written: list[Root] = []
        yielded: list[Value] = []
        for root in roots:
            assert root.node is not None
            value = self.emit(root.node)
            if root in reductions:
                yielded.append(value)
            elif root.kind == "columns":
                self._accumulate(self.inner, value, root, root.position)
            elif root.value in self.targets:
                self._store(self.inner, value, root)
                written.append(root)
        self.inner.insert(make_operation(YieldOp, yielded, {}, ()))
        sizes = tuple(size for _, size in self.schedule.inner)
        if reductions:
            types = [tensor((), root.value.type.element) for root in reductions]  # type: ignore[attr-defined]
            op = self.outer.create(ReduceOp, [], types, [region], inner=sizes, kinds=[root.combine for root in reductions])
            op.location = fuse_all([place_of(root) for root in reductions], "fuse")
            for root, scalar in zip(reductions, op.results):
                if root.kind == "row":
                    self.scalars[root.value] = scalar
                else:
                    self._accumulate(self.outer, scalar, root, 0)
        else:
            self.outer.create(MapOp, [], (), [region], inner=sizes)
        self.flushed.update(root.value for root in written)

    def _accumulate_outer(self, root: Root) -> None:
        """A reduction in a nest without inner dimensions: each point adds to the chunk."""
        assert root.node is not None
        value = self.emit(root.node)
        if root.kind == "row":
            self.scalars[root.value] = value
        else:
            self._accumulate(self.outer, value, root, root.position if root.kind == "columns" else 0)

    def _accumulate(self, builder: Builder, value: Value, root: Root, position: Size) -> None:
        buffer = self.targets[self.accumulated[root]]
        mapping, operands = self._map(position)
        builder.insert(make_operation(AccumulateOp, [value, buffer, *operands], {"map": mapping, "kind": root.combine}, (),
                                      location=place_of(root)))

    def _store(self, builder: Builder, value: Value, root: Root) -> None:
        mapping, operands = self._map(root.position)
        builder.insert(make_operation(WriteOp, [value, self.targets[root.value], *operands], {"map": mapping}, (), location=place_of(root)))

    # --- what is kept between stages

    def _plan_kept(self, stages: int) -> None:
        """Marks the heavy inner nodes that a later stage computes again."""
        if not self.schedule.keep_rows or not self.inner_names or self.schedule.interchange:
            return
        seen: set[int] = set()
        for level in range(stages):
            fresh: set[int] = set()
            pending: list[Node | None] = [root.node for root in self.cluster.roots
                       if root.level == level and root.node is not None and self._is_inner(root)
                       and (root.kind != "map" or root.value in self.targets)]
            while pending:
                node = pending.pop()
                if node is None or id(node) in fresh or not (node.names & self.inner_names):
                    continue
                fresh.add(id(node))
                if isinstance(node, Apply):
                    if id(node) in seen and node.weight >= HEAVY_ENOUGH_TO_KEEP:
                        self.keep.add(id(node))
                        continue
                    pending += node.operands
                elif isinstance(node, Load):
                    made = self.made.get(node.value)
                    if made is not None and made.kind == "map" and made.node is not None:
                        pending.append(made.node)
            seen |= fresh

    def _keep(self, node: Node, value: Value) -> None:
        slot = len(self.scratch_arguments)
        type = value.type
        assert isinstance(type, TensorType)
        row = [size for _, size in self.schedule.inner]
        from gradopt.ir.sizes import product

        argument = Block([tensor([product(row)], type.element)]).arguments[0]
        argument.owner = self.block
        argument.name = f"kept{slot}"
        self.scratch_arguments.append(argument)
        self.scratch_sizes.append(product(row))
        self.kept[id(node)] = slot
        mapping, operands = self._map(self._row_position())
        self.inner.insert(make_operation(WriteOp, [value, argument, *operands], {"map": mapping}, ()))

    def _row_position(self) -> Size:
        """The position of the inner point within a row."""
        from gradopt.lowering.fuse.index import linearize

        return linearize([named_size(name) for name, _ in self.schedule.inner], [size for _, size in self.schedule.inner])

    # --- scalars

    def emit(self, node: Node) -> Value:
        """The scalar of a node, at the outermost level that can compute it."""
        inner = bool(node.names & self.inner_names)
        memo = self.inner_memo if inner else self.outer_memo
        value = memo.get(id(node))
        if value is None:
            builder = self.inner if inner else self.outer
            value = self._emit(node, builder)
            memo[id(node)] = value
            if inner and id(node) in self.keep and id(node) not in self.kept:
                self._keep(node, value)
        return value

    def _emit(self, node: Node, builder: Builder) -> Value:
        slot = self.kept.get(id(node))
        if slot is not None:
            return self._read(builder, self.scratch_arguments[slot], self._row_position(), None)
        if isinstance(node, Literal):
            return _constant(builder, node)
        if isinstance(node, IndexValue):
            mapping, operands = self._map(node.index)
            return builder.insert(make_operation(IndexOp, operands, {"map": mapping})).results[0]
        if isinstance(node, Load):
            made = self.made.get(node.value)
            if made is not None and made.kind == "row":
                return self.scalars[node.value]
            if made is not None and made.kind == "map" and node.value not in self.flushed:
                assert made.node is not None
                return self.emit(made.node)
            buffer = self.targets[node.value] if made is not None else self.buffers[node.value]
            guard = self.emit(node.guard) if node.guard is not None else None
            return self._read(builder, buffer, node.position, guard)
        assert isinstance(node, Apply)
        operands = [self.emit(operand) for operand in node.operands]
        op = node.cls(operands, [tensor((), node.element)], node.properties, None, (), (), node.location)
        return builder.insert(op).results[0]

    def _read(self, builder: Builder, buffer: Value, position: Size, guard: Value | None) -> Value:
        mapping, operands = self._map(position)
        values = [buffer, *([guard] if guard is not None else []), *operands]
        return builder.insert(make_operation(ReadOp, values, {"map": mapping, "guarded": guard is not None})).results[0]

    def _map(self, index: Size) -> tuple[Attribute, list[Value]]:
        """An index expression as an affine map and the values of its dimensions."""
        index = substitute(index, self.schedule.renaming)
        found = sorted(index_names(index))
        moving = [name for name in found if name in self.graph.atoms or name in self.loop_names]
        sizes = [name for name in found if name not in moving]  # an index may be multiplied by a symbol, not by a dimension
        names = moving + sizes
        operands = [self._name_value(name) for name in names]
        renamed = {name: named_size(f"d{position}") for position, name in enumerate(moving)}
        renamed.update({name: named_size(f"s{position}") for position, name in enumerate(sizes)})
        # two steps, so that a new name never meets an old one
        temporary = {name: named_size(f"t{position}") for position, name in enumerate(names)}
        text = substitute(substitute(index, temporary), {f"t{position}": renamed[name] for position, name in enumerate(names)})
        dims = ", ".join(f"d{position}" for position in range(len(moving)))
        symbols = f"[{', '.join(f's{position}' for position in range(len(sizes)))}]" if sizes else ""
        return AffineMapAttr(f"({dims}){symbols} -> ({text})"), operands

    def _name_value(self, name: str) -> Value:
        node = self.graph.atoms.get(name)
        if node is not None:
            return self.emit(node)
        value = self.variables.get(name)
        if value is None:
            self.parameters.append(name)
            value = self.variables[name] = self.block.add_argument(INDEX, name if name.isidentifier() else None)
        return value


def place_of(root: Root) -> AnyLocation:
    """The location of the op whose value a root is."""
    op = root.value.defining_op
    return UNKNOWN_LOCATION if op is None else op.location


def _constant(builder: Builder, node: Literal) -> Value:
    element = node.element
    width = element.storage_bytes
    bits = node.bits if isinstance(element, FloatType) else node.bits & ((1 << 8 * width) - 1)
    value = DenseElementsAttr(tensor((), element), bits.to_bytes(width, "little"), True)
    constant: Value = builder.prim.constant(value=value)
    return constant


def is_static(sizes: Sequence[Size]) -> bool:
    """True if every size is a number."""
    return not any(isinstance(size, SizeExpression) for size in sizes)
