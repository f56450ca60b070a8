"""The cheapest cut of a network between a source and a sink (Dinic's algorithm: shortest augmenting paths, level by
level). Source: E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation",
1970; that the least cut is as large as the greatest flow: Ford and Fulkerson, 1956."""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 62


class Network:
    """Vertices by number, edges with capacities. 0 is the source, 1 the sink."""

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        # of each vertex, numbers of edges; an edge and its reverse differ in bit 0
        self._edges: list[list[int]] = [[], []]
        self._ends: list[int] = []
        self._left: list[int] = []

    def vertex(self) -> int:
        """A new vertex."""
        self._edges.append([])
        return len(self._edges) - 1

    def connect(self, start: int, end: int, capacity: int) -> None:
        """A new edge."""
        for a, b, c in ((start, end, capacity), (end, start, 0)):
            self._edges[a].append(len(self._ends))
            self._ends.append(b)
            self._left.append(c)

    def behind_cut(self) -> set[int]:
        """The vertices on the sink's side of the cheapest cut; of several, of that with the fewest such vertices."""
        while (levels := self._levels()) is not None:
            self._saturate(levels)
        sink_side = {self.SINK}
        queue = deque(sink_side)
        while queue:
            vertex = queue.popleft()
            for edge in self._edges[vertex]:  # its reverse leads here
                start = self._ends[edge]
                if self._left[edge ^ 1] and start not in sink_side:
                    sink_side.add(start)
                    queue.append(start)
        return sink_side

    def _levels(self) -> list[int] | None:
        """How far each vertex is from the source, along edges with capacity left; None if the sink is out of reach."""
        levels = [-1] * len(self._edges)
        levels[self.SOURCE] = 0
        queue = deque((self.SOURCE,))
        while queue:
            vertex = queue.popleft()
            for edge in self._edges[vertex]:
                end = self._ends[edge]
                if self._left[edge] and levels[end] < 0:
                    levels[end] = levels[vertex] + 1
                    queue.append(end)
        return None if levels[self.SINK] < 0 else levels

    def _saturate(self, levels: list[int]) -> None:
        """Send what goes along shortest paths. (Without recursion: paths are as long as programs.)"""
        at = [0] * len(self._edges)
        path: list[int] = []
        vertex = self.SOURCE
        while True:
            if vertex == self.SINK:
                flow = min(self._left[e] for e in path)
                for e in path:
                    self._left[e] -= flow
                    self._left[e ^ 1] += flow
                full = next(i for i, e in enumerate(path) if not self._left[e])
                vertex = self._ends[path[full] ^ 1]
                del path[full:]
            elif at[vertex] < len(self._edges[vertex]):
                edge = self._edges[vertex][at[vertex]]
                if self._left[edge] and levels[self._ends[edge]] == levels[vertex] + 1:
                    path.append(edge)
                    vertex = self._ends[edge]
                else:
                    at[vertex] += 1
            elif path:
                vertex = self._ends[path.pop() ^ 1]
                at[vertex] += 1
            else:
                return
