"""Writes a block anew: a nest for each cluster of roots, between the operations that stay whole."""

from __future__ import annotations

from gradopt.ir.builder import Builder, make_operation
from gradopt.ir.locations import fuse_all
from gradopt.ir.operation import Block, Operation
from gradopt.ir.sizes import Size
from gradopt.ir.types import tensor
from gradopt.ir.values import Value
from gradopt.lowering.fuse.block_roots import BlockRoots, Extern
from gradopt.lowering.fuse.cluster import Cluster, Root
from gradopt.lowering.fuse.fill import fill_elements, needs_no_memory
from gradopt.lowering.fuse.in_place import in_place
from gradopt.lowering.fuse.index import substitute
from gradopt.lowering.fuse.nest import NestWriter, place_of
from gradopt.lowering.fuse.roots import ALIASES, is_large_constant, storage_base
from gradopt.lowering.fuse.schedule import chunk_count, make_schedule

__all__ = ["rewrite_block"]


def rewrite_block(roots: BlockRoots) -> None:
    """Replaces the operations of the block by kernels."""
    _Rewriter(roots).run()


class _Rewriter:
    """The new block while it is written."""

    def __init__(self, roots: BlockRoots) -> None:
        self.roots = roots
        self.readers = self._readers()
        whole = [*(extern.op for extern in roots.externs), roots.operations[-1]]
        self.outside = {storage_base(operand) for op in whole for operand in op.operands}  # what is read outside nests
        self.chunk_numbers: dict[str, Size] = {}
        self.new: dict[Value, Value] = {}
        self.target = Block()
        self.builder = Builder(self.target)

    def run(self) -> None:
        """Writes everything, in order, and puts it in the place of the old operations."""
        items: list[Cluster | Extern] = sorted([*self.roots.clustering.clusters, *self.roots.externs], key=lambda item: item.order)
        for item in items:
            if isinstance(item, Extern):
                self._write_extern(item.op)
            else:
                self._write_cluster(item)
        terminator = self.roots.operations[-1]
        operands = [self.storage(operand) for operand in terminator.operands]
        for op in reversed(self.roots.operations):
            if op is not terminator:
                op.detach()
        terminator.operands = operands
        for op in reversed(self.roots.operations[:-1]):
            op.drop_references()
        for op in list(self.target.operations):
            op.detach()
            self.roots.block.insert_before(terminator, op)

    def _readers(self) -> dict[Value, set[int]]:
        """The orders of the clusters that read each stored value from another cluster, or through a product."""
        readers: dict[Value, set[int]] = {}
        for cluster in self.roots.clustering.clusters:
            for root in cluster.roots:
                for load in root.loads:
                    readers.setdefault(load.value, set()).add(cluster.order)
                if root.dot is not None:
                    for value in root.gemm_plan[:2]:  # type: ignore[attr-defined]
                        readers.setdefault(value, set()).add(-cluster.order)
        return readers

    def _write_cluster(self, cluster: Cluster) -> None:
        cluster.domain = tuple(substitute(size, self.chunk_numbers) for size in cluster.domain)
        written: list[Value] = []
        accumulated: dict[Root, Value] = {}
        for root in cluster.roots:
            if root in self.roots.partials:
                accumulated[root] = self.roots.partials[root][0]
            elif root.kind == "gemm" or root.value in self.roots.stored.hard or self.readers.get(root.value, set()) - {cluster.order}:
                written.append(root.value)
        schedule = make_schedule(self.roots.graph, cluster)
        schedule.outer = [(name, substitute(size, self.chunk_numbers)) for name, size in schedule.outer]
        schedule.inner = [(name, substitute(size, self.chunk_numbers)) for name, size in schedule.inner]
        for root, partial in accumulated.items():
            number = chunk_count(schedule)
            self.chunk_numbers[self.roots.partials[root][1]] = number
            row = self.roots.partial_dims[partial][1:]
            partial.type = tensor([number, *row], partial.type.element)  # type: ignore[attr-defined]
        location = fuse_all([place_of(root) for root in cluster.roots], "fuse")
        shared = in_place(cluster, written) if cluster.gemm is not None and self._is_local(cluster) else None
        if shared is not None:
            written = [value for value in written if value is not cluster.gemm.value]  # type: ignore[union-attr]
        writer = NestWriter(self.roots.graph, cluster, schedule, written, accumulated, self.storage, location, shared)
        op, outputs = writer.write(self.builder)
        for old, new in zip(outputs, op.results):
            new.name = old.name
            self.new[old] = new

    def _is_local(self, cluster: Cluster) -> bool:
        """True if nothing but the nest of its product reads what the product gives."""
        assert cluster.gemm is not None
        value = cluster.gemm.value
        return value not in self.outside and not self.readers.get(value, set()) - {cluster.order}

    def _write_extern(self, op: Operation) -> None:
        operands = [self._fill(operand) if needs_no_memory(op, position) else self.storage(operand)
                    for position, operand in enumerate(op.operands)]
        regions = list(op.regions)
        op.regions = ()
        copy = type(op)(operands, op.result_types, op.properties, op.attributes, regions, (), op.location)
        self.builder.insert(copy)
        for old, new in zip(op.results, copy.results):
            new.name = old.name
            self.new[old] = new

    def _fill(self, value: Value) -> Value:
        """A splat constant that gets no memory, for a kernel that writes the fill by itself."""
        return self.new[value] if value in self.new else self.builder.prim.constant(value=fill_elements(value))

    def storage(self, value: Value) -> Value:
        """The value of the new block that holds an old one; aliases and constants are written when they are first needed."""
        found = self.new.get(value)
        if found is not None:
            return found
        op = value.defining_op
        if op is None:
            return value
        if op.name in ALIASES and op.name != "prim.barrier":
            made = make_operation(type(op), [self.storage(op.operands[0]), *op.operands[1:]], {}, [value.type], location=op.location)
            made.properties = op.properties
        else:
            assert is_large_constant(op), f"'{op.name}' op is read but not stored"
            made = make_operation(type(op), [], {"value": op.value}, location=op.location)  # type: ignore[attr-defined]
        self.builder.insert(made)
        made.results[0].name = value.name
        self.new[value] = made.results[0]
        return made.results[0]
