"""Turns a cluster's domain into loops: which dimensions are outer, how large a chunk is, and which loop is innermost."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.ir.sizes import Size, ceildiv, multiply, product
from gradopt.lowering.fuse.cluster import Cluster, variables
from gradopt.lowering.fuse.collapse import collapse
from gradopt.lowering.fuse.expression import Apply, Graph, IndexValue, Load, Node
from gradopt.lowering.fuse.index import index_names, split_linear, substitute
from gradopt.lowering.fuse.nest import Schedule

__all__ = ["chunk_count", "make_schedule"]

CHUNK_WORK = 1 << 15  # elements (weighted) in a chunk at least: about ten microseconds
MOST_CHUNKS = 64
FEW_CHUNKS = 8  # fewer chunks than this are of the same size, so that no thread waits long for the last one
MOST_PARTIALS = 16  # chunks of a nest that accumulates: each has a row of partial results
INTERCHANGED_BLOCK = 256  # consecutive points that an interchanged nest keeps in scratch at most,
MOST_INTERCHANGED_ROW = 1024  # but a whole row of this size: its chunks read memory from end to end
FEWEST_INTERCHANGED = 8  # consecutive points that are worth a loop of their own
MOST_KEPT_ELEMENTS = 1 << 17
FEWEST_PRODUCT_ROWS, MOST_PRODUCT_ROWS = 64, 128  # in a chunk of a product: more make packing cheaper, but four chunks share the work
GEMM_CHUNK_FLOPS = 1 << 21  # a chunk of a product has as many at least,
GEMM_HALVED_FLOPS = 1 << 19  # but from here on there are two: in a loop the other thread is awake, and half the step is saved


def make_schedule(graph: Graph, cluster: Cluster) -> Schedule:
    """The loops of a cluster. A function of its shape only, never of the number of threads."""
    names, sizes = variables(len(cluster.domain)), list(cluster.domain)
    indices = _indices(graph, cluster)
    if cluster.gemm is not None:
        return _gemm_schedule(cluster, names, sizes, indices)
    split = cluster.split
    if split is None:
        kept, kept_sizes, renaming = collapse(names, sizes, indices)
        split = len(kept) if len(kept) <= 1 else len(kept) - 1
    else:
        kept, kept_sizes, renaming = collapse(names, sizes, indices, [split])
        split = sum(1 for name in kept if name in names[:split])
    outer, inner = list(zip(kept[:split], kept_sizes[:split])), list(zip(kept[split:], kept_sizes[split:]))
    inner_names = frozenset(names[cluster.split:] if cluster.split is not None else kept[split:])
    if cluster.split is None:
        inner_names = frozenset(name for name in names if name in kept[split:])
        inner_names |= _joined_into(names, kept, split)
    interchange = bool(inner) and _prefers_interchange(cluster, indices, outer, inner, renaming)
    grain = _grain(cluster, outer, inner, interchange)
    return Schedule(outer, inner, renaming, grain, inner_names, interchange, _keeps_rows(inner))


def _keeps_rows(inner: Sequence[tuple[str, Size]]) -> bool:
    """Whether a row fits scratch, whose size must be known."""
    row = product([size for _, size in inner])
    return isinstance(row, int) and row <= MOST_KEPT_ELEMENTS


def _joined_into(names: Sequence[str], kept: Sequence[str], split: int) -> frozenset[str]:
    """The variables that were joined into an inner one: those between the last outer and the inner ones."""
    if split >= len(kept):
        return frozenset()
    last_outer = names.index(kept[split - 1]) if split else -1
    return frozenset(names[last_outer + 1:])


def _indices(graph: Graph, cluster: Cluster) -> list[Size]:
    """Every index expression that the nest will contain."""
    found: list[Size] = [root.position for root in cluster.roots]
    seen: set[int] = set()
    pending: list[Node | None] = [root.node for root in cluster.roots]
    while pending:
        node = pending.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Load):
            found.append(node.position)
            pending.append(node.guard)
            pending += [graph.atoms[name] for name in index_names(node.position) if name in graph.atoms]
        elif isinstance(node, IndexValue):
            found.append(node.index)
            pending += [graph.atoms[name] for name in index_names(node.index) if name in graph.atoms]
        elif isinstance(node, Apply):
            pending += node.operands
    return found


def _strides_badly(index: Size, name: str, renaming: dict[str, Size]) -> bool:
    """True for an access whose place is not the same or the next one at the next turn of a loop."""
    split = split_linear(substitute(index, renaming), (name,))
    return split is None or split[0][name] not in (0, 1)


def _is_narrow(size: Size) -> bool:
    return isinstance(size, int) and size < FEWEST_INTERCHANGED


def _prefers_interchange(cluster: Cluster, indices: list[Size], outer: list[tuple[str, Size]],
                         inner: list[tuple[str, Size]], renaming: dict[str, Size]) -> bool:
    """True for reductions whose operands are contiguous along the outer points rather than along the inner ones."""
    whole = [root for root in cluster.roots if root.kind != "map" or len(root.domain) == len(cluster.domain)]
    if not outer or _is_narrow(outer[-1][1]) or any(root.kind != "row" or root.combine.startswith("arg_") for root in whole):
        return False
    loops = {name for name, _ in inner}
    accesses = [index for index in indices if index_names(substitute(index, renaming)) & loops]
    bad_outer = sum(1 for index in accesses if _strides_badly(index, outer[-1][0], renaming))
    bad_inner = sum(1 for index in accesses if _strides_badly(index, inner[-1][0], renaming))
    return bad_inner > bad_outer


def _weight(cluster: Cluster) -> int:
    return max(1, min(sum(root.node.weight for root in cluster.roots if root.node is not None), 200) // 4)


def _grain(cluster: Cluster, outer: list[tuple[str, Size]], inner: list[tuple[str, Size]], interchange: bool) -> Size:
    rows, width = product([size for _, size in outer]), product([size for _, size in inner])
    accumulates = any(root.kind in ("columns", "all") for root in cluster.roots)
    most = MOST_PARTIALS if accumulates else MOST_CHUNKS
    per_row = width if isinstance(width, int) else 256
    least = max(1, CHUNK_WORK // max(per_row * _weight(cluster), 1))
    if interchange:
        enough = rows // MOST_CHUNKS if isinstance(rows, int) else 0  # whole cache lines, where there are points enough
        grain = max(16, min(INTERCHANGED_BLOCK, max(least, min(enough, 64))))
        row = outer[-1][1]
        if isinstance(row, int) and isinstance(rows, int) and row <= MOST_INTERCHANGED_ROW and rows // row >= FEW_CHUNKS:
            return -(-grain // row) * row
        return grain
    if isinstance(rows, int):
        grain = max(least, -(-rows // most), 1)
        chunks = -(-rows // grain)
        return -(-rows // chunks) if 1 < chunks < FEW_CHUNKS else grain
    from gradopt.ir.sizes import add

    return add(ceildiv(rows, most), least)


def _gemm_schedule(cluster: Cluster, names: list[str], sizes: list[Size], indices: list[Size]) -> Schedule:
    """Rows of the product in blocks; whole matrices where there are several."""
    split = cluster.split
    assert split is not None and cluster.gemm is not None
    _, _, attributes = cluster.gemm.gemm_plan  # type: ignore[attr-defined]
    batch, (m, n, k) = product(attributes["batch"]), attributes["sizes"]
    kept, kept_sizes, renaming = collapse(names, sizes, indices, [split])
    position = sum(1 for name in kept if name in names[:split])
    outer, inner = list(zip(kept[:position], kept_sizes[:position])), list(zip(kept[position:], kept_sizes[position:]))
    grain = _gemm_grain(batch, m, n, k, any(root.kind in ("columns", "all") for root in cluster.roots))
    return Schedule(outer, inner, renaming, grain, frozenset(names[split:]), False, _keeps_rows(inner))


def _gemm_grain(batch: Size, m: Size, n: Size, k: Size, accumulates: bool) -> Size:
    flops = product([2, m, n, k])
    most = MOST_PARTIALS if accumulates else 32
    if batch != 1:
        if not isinstance(batch, int) or not isinstance(m, int):
            return multiply(m, ceildiv(batch, most))
        per_chunk = max(1, GEMM_CHUNK_FLOPS // max(int(flops), 1)) if isinstance(flops, int) else 1
        return m * max(per_chunk, -(-batch // most))
    if isinstance(m, int) and isinstance(flops, int):
        wanted = max(FEWEST_PRODUCT_ROWS, min(m // 4, MOST_PRODUCT_ROWS))
        chunks = max(1, min(flops // GEMM_CHUNK_FLOPS, most, -(-m // wanted)))
        if chunks == 1 and flops >= GEMM_HALVED_FLOPS and m >= 16:
            chunks = 2
        if chunks > 1 and chunks % 2:
            chunks += 1  # an even number keeps two threads busy to the end
        rows = -(-m // chunks)
        return max(1, -(-rows // 8) * 8 if rows >= 32 else rows)
    from gradopt.ir.sizes import add

    return add(ceildiv(m, 8), 32)


def chunk_count(schedule: Schedule) -> Size:
    """How many chunks the outer points make."""
    rows = product([size for _, size in schedule.outer])
    if isinstance(rows, int) and isinstance(schedule.grain, int):
        return -(-rows // schedule.grain)
    return ceildiv(rows, schedule.grain)
