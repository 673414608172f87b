"""Products that need no memory of their own: what follows them in the nest is written over them."""

from __future__ import annotations

from collections.abc import Sequence

from gradopt.ir.types import TensorType
from gradopt.ir.values import Value
from gradopt.lowering.fuse.cluster import Cluster

__all__ = ["in_place"]


def in_place(cluster: Cluster, written: Sequence[Value]) -> Value | None:
    """The value of a cluster that its product, which nothing outside reads, may be computed in the memory of: one that is written in the
    last stage, element by element where the product's element stood.

    Within a stage a point's loads come before its stores and are made once, so the product is read before it is written over."""
    assert cluster.gemm is not None
    product = cluster.gemm.value
    loads = {id(load): load for root in cluster.roots for load in root.loads if load.value is product}
    if len(loads) != 1:  # read at two places, or under a guard beside without one: the second load could come after the store
        return None
    load, = loads.values()
    last = max(root.level for root in cluster.roots)
    for root in cluster.roots:
        if (root.kind == "map" and root.value in written and root.level == last and root.domain == cluster.domain
                and root.position == load.position and load.guard is None and _same_storage(root.value, product)):
            return root.value
    return None


def _same_storage(left: Value, right: Value) -> bool:
    """True for tensors of the same element type and sizes."""
    return (isinstance(left.type, TensorType) and isinstance(right.type, TensorType) and left.type.element is right.type.element
            and list(left.type.dims) == list(right.type.dims))
