"""Groups roots into clusters: one loop nest each.

A cluster iterates over a domain of sizes (without the 1s); its first `split` dimensions are the outer ones. Roots that fit:

    map      one value a point of the domain, or (row) one a point of the outer dimensions
    row      a reduction over the inner dimensions: a scalar for each outer point, ready for what follows in the same nest
    columns  a reduction over the outer dimensions: accumulated chunk by chunk, combined by a later cluster
    all      a reduction over everything: likewise
    gemm     a matrix product, computed block by block before the rows of the block are visited

Clusters run in the order in which they were opened. A root joins an open cluster if all that it reads is stored before that cluster, or
is made in it at the very same point.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gradopt.ir.operation import Operation
from gradopt.ir.sizes import Size
from gradopt.ir.values import Value
from gradopt.lowering.fuse.expression import Apply, Graph, IndexValue, Load, Node
from gradopt.lowering.fuse.index import index_names

__all__ = ["Cluster", "Root", "variables"]

MOST_ROOTS = 24  # roots in one nest
MOST_WEIGHT = 600  # and what they cost together: larger loops only compile slowly


def variables(count: int) -> list[str]:
    """The names of the loop variables of a domain."""
    return [f"d{axis}" for axis in range(count)]


@dataclass(eq=False)
class Root:
    """A value that is computed by a loop nest. `node` is its element (for reductions: what is combined) in the variables of `domain`."""

    value: Value
    kind: str
    domain: tuple[Size, ...]
    split: int | None
    node: Node | None
    combine: str = ""
    position: Size = 0  # where the element of the current point stands in the value's buffer
    dot: Operation | None = None
    loads: list[Load] = field(default_factory=list)
    cluster: Cluster | None = None
    level: int = 0  # how many rounds of row reductions come before it
    stored: bool = True  # whether it has memory (decided when all clusters are known)


@dataclass(eq=False)
class Cluster:
    """Roots that share one nest."""

    order: int
    domain: tuple[Size, ...]
    split: int | None = None
    roots: list[Root] = field(default_factory=list)
    weight: int = 0
    gemm: Root | None = None

    @property
    def is_open(self) -> bool:
        """True while another root may join."""
        return len(self.roots) < MOST_ROOTS and self.weight < MOST_WEIGHT


def collect_loads(graph: Graph, node: Node) -> list[Load]:
    """Every load that a node depends on, through guards and loaded indices; without recursion."""
    found: list[Load] = []
    seen: set[int] = set()
    pending: list[Node] = [node]
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Load):
            found.append(current)
            pending += [graph.atoms[name] for name in index_names(current.position) if name in graph.atoms]
            if current.guard is not None:
                pending.append(current.guard)
        elif isinstance(current, Apply):
            pending += current.operands
        elif isinstance(current, IndexValue):
            pending += [graph.atoms[name] for name in index_names(current.index) if name in graph.atoms]
    return found


class Clustering:
    """Puts roots into clusters, in the order of the program."""

    def __init__(self) -> None:
        self.order = 0
        self.clusters: list[Cluster] = []
        self._by_domain: dict[tuple[Size, ...], list[Cluster]] = {}
        self._ready: dict[Value, int] = {}  # stored value -> order of what makes it
        self._made: dict[Value, Root] = {}

    def extern(self, results: tuple[Value, ...]) -> int:
        """Takes the next place in the order for a library kernel."""
        self.order += 1
        for value in results:
            self._ready[value] = self.order
        return self.order

    def ready(self, value: Value) -> int:
        """When a stored value is there (0: from the start)."""
        return self._ready.get(value, 0)

    def add(self, root: Root) -> Cluster:
        """Puts a root into the best open cluster, or opens one."""
        cluster = self._find(root)
        if cluster is None:
            self.order += 1
            cluster = Cluster(self.order, root.domain)
            self.clusters.append(cluster)
            self._by_domain.setdefault(root.domain, []).append(cluster)
        root.cluster = cluster
        cluster.roots.append(root)
        cluster.weight += root.node.weight if root.node is not None else 0
        if root.split is not None:
            cluster.split = root.split
        if root.kind == "gemm":
            cluster.gemm = root
        root.level = self._level(root, cluster)
        self._ready[root.value] = cluster.order
        self._made[root.value] = root
        return cluster

    def _find(self, root: Root) -> Cluster | None:
        if root.kind == "gemm":
            return None
        needed = max((self._ready.get(load.value, 0) for load in root.loads), default=0)
        candidates = self._by_domain.get(root.domain, [])[-6:]
        if root.kind == "map":  # a row value joins the cluster that makes what it reads
            makers = {id(made.cluster): made.cluster for load in root.loads if (made := self._made.get(load.value)) is not None}
            candidates = candidates + [c for c in makers.values() if c is not None and c.domain != root.domain]
        best: Cluster | None = None
        for cluster in reversed(candidates):
            if cluster.order >= needed and cluster.is_open and self._fits(root, cluster) and (
                    best is None or cluster.order < best.order) and self._related(root, cluster):
                best = cluster
        return best

    def _fits(self, root: Root, cluster: Cluster) -> bool:
        if root.domain == cluster.domain:
            if root.split is not None and cluster.split is not None and root.split != cluster.split:
                return False
            if root.split is not None and cluster.split is None and cluster.gemm is not None:
                return False
        elif root.kind != "map" or cluster.split is None or root.domain != cluster.domain[: cluster.split]:
            return False
        for load in root.loads:
            made = self._made.get(load.value)
            if made is None or made.cluster is not cluster:
                continue
            if made.kind in ("columns", "all") or load.position != made.position or load.guard is not None:
                return False
            if made.kind == "map" and len(made.domain) > len(root.domain):
                return False
        return True

    def _related(self, root: Root, cluster: Cluster) -> bool:
        """True if joining saves a read: the cluster makes or reads something that the root reads."""
        if any(self._ready.get(load.value, 0) == cluster.order for load in root.loads):
            return True
        if root.domain != cluster.domain:
            return False
        mine = {id(load.value) for load in root.loads}
        return any(id(load.value) in mine for other in cluster.roots for load in other.loads) or not mine

    def _level(self, root: Root, cluster: Cluster) -> int:
        level = 0
        for load in root.loads:
            made = self._made.get(load.value)
            if made is not None and made.cluster is cluster:
                level = max(level, made.level + (1 if made.kind == "row" else 0))
        return level


def squeezed(sizes: list[Size] | tuple[Size, ...]) -> tuple[Size, ...]:
    """The sizes without the 1s."""
    return tuple(size for size in sizes if size != 1)


def spread_index(sizes: tuple[Size, ...] | list[Size], names: list[Size]) -> list[Size]:
    """An index for `sizes` from the variables of its squeezed domain: 0 where the size is 1."""
    following = iter(names)
    return [0 if size == 1 else next(following) for size in sizes]
