"""Which values to keep so that others can be computed again: a minimum cut.

The nodes are the values, with their bytes as capacity; an edge leads from each operand to each result of an operation that may
run
again. The source feeds what cannot be computed again, the sink is every value that is read late. The values in a minimum cut
are the
cheapest set to keep, as in the partitioner of PyTorch's functorch (H. He, "min-cut optimal(*) recomputation", 2022). The cut is
found by augmenting paths along shortest ways (E. Dinic, 1970).
"""

from __future__ import annotations

from collections import deque

__all__ = ["INFINITE", "FlowNetwork"]

INFINITE = 1 << 62


class FlowNetwork:
    """A directed graph with integer capacities."""

    def __init__(self) -> None:
        self.heads: list[list[int]] = []  # node -> its edges; edge e and e ^ 1 are each other's reverse
        self.targets: list[int] = []
        self.capacities: list[int] = []

    def node(self) -> int:
        """A new node."""
        self.heads.append([])
        return len(self.heads) - 1

    def edge(self, source: int, target: int, capacity: int = INFINITE) -> None:
        """A new edge."""
        for start, end, amount in ((source, target, capacity), (target, source, 0)):
            self.heads[start].append(len(self.targets))
            self.targets.append(end)
            self.capacities.append(amount)

    def saturate(self, source: int, sink: int) -> set[int]:
        """Sends as much as possible from source to sink; the nodes that the source still reaches (one side of a minimum cut)."""
        while True:
            levels = self._levels(source)
            if sink not in levels:
                return set(levels)
            position = [0] * len(self.heads)
            while self._augment(source, sink, levels, position):
                pass

    def _levels(self, source: int) -> dict[int, int]:
        """The distance of each node that can be reached over edges with room."""
        levels = {source: 0}
        pending = deque([source])
        while pending:
            node = pending.popleft()
            for edge in self.heads[node]:
                target = self.targets[edge]
                if self.capacities[edge] and target not in levels:
                    levels[target] = levels[node] + 1
                    pending.append(target)
        return levels

    def _augment(self, source: int, sink: int, levels: dict[int, int], position: list[int]) -> bool:
        """Sends flow along one path that climbs the levels; False where there is none left."""
        path: list[int] = []
        node = source
        while node != sink:
            edges = self.heads[node]
            while position[node] < len(edges):
                edge = edges[position[node]]
                target = self.targets[edge]
                if self.capacities[edge] and levels.get(target) == levels[node] + 1:
                    break
                position[node] += 1
            else:
                if not path:
                    return False
                edge = path.pop()
                node = self.targets[edge ^ 1]
                position[node] += 1
                continue
            path.append(edge)
            node = target
        amount = min(self.capacities[edge] for edge in path)
        for edge in path:
            self.capacities[edge] -= amount
            self.capacities[edge ^ 1] += amount
        return True
