"""What eager mode would have freed of the graph that a program stands for: which runs of its backward it would
refuse. Nodes that save something are bits of a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.dependencies import age
from weft.autograd.engine import Walk
from weft.autograd.node import Node
from weft.tensor.tensor import Tensor

Graphs = Sequence[Mapping[Node, None]]  # for each output its node, and those behind it


def bits_of(saves: Iterable[Node]) -> dict[Node, int]:
    """A bit for each node that saves something."""
    return {node: 1 << i for i, node in enumerate(saves)}


def sum_of_bits(numbers: Iterable[int]) -> int:
    """The bits that are in any of some numbers."""
    return reduce(or_, numbers, 0)


class Saving:
    """The nodes behind a program's outputs that save something, and which receivers each leads to. own: that of each
    output, if it does; behind: those that its gradient may go through."""

    def __init__(self, graphs: Graphs, bits: Mapping[Node, int], receivers: Sequence[Tensor]) -> None:
        places = {id(receiver): 1 << i for i, receiver in enumerate(receivers)}
        leads: dict[Node, int] = {}
        for node in _oldest_first(graphs):
            leads[node] = places.get(id(node.variable), 0) if isinstance(node, AccumulateGrad) else 0
            for edge in node.edges:
                leads[node] |= 0 if edge is None else leads.get(edge[0], 0)
        self._leads = [(bit, leads[node]) for node, bit in bits.items()]
        self.own = [bits.get(next(iter(graph)), 0) for graph in graphs]
        self.behind = [sum([bits.get(n, 0) for n in graph]) for graph in graphs]
        self.all = sum_of_bits(self.behind)
        self._frees: dict[tuple[int, tuple[bool, ...]], int] = {}

    def is_open(self, output: int, leads: Iterable[int]) -> bool:
        """Whether an output has a way to one of the receivers it leads to on which nothing is saved."""
        mine = self.behind[output]
        covered = sum_of_bits([to for bit, to in self._leads if bit & mine])
        return any([not covered & 1 << receiver for receiver in leads])

    def frees(self, output: int, needs: tuple[bool, ...]) -> int:
        """The nodes that a run from an output to some of the receivers frees."""
        key = output, needs
        if key not in self._frees:
            wanted, mine = sum([1 << i for i, is_needed in enumerate(needs) if is_needed]), self.behind[output]
            self._frees[key] = sum([bit for bit, to in self._leads if bit & mine and to & wanted])
        return self._frees[key]


class Freed:
    """The nodes that are freed of one call's graph, which the parts of its backward have in common."""

    def __init__(self) -> None:
        self.bits = 0

    def before(self, walk: Walk | None) -> int:
        """Those that were freed before a backward call: one part of it may run a node that another part ran in it."""
        return self.bits & ~(0 if walk is None else walk.notes.get(self, 0))

    def add(self, bits: int, walk: Walk | None) -> None:
        """A backward call has freed some."""
        if walk is not None:
            walk.notes[self] = walk.notes.get(self, 0) | (bits & ~self.bits)
        self.bits |= bits


def saving_down_to(end: Node, graphs: Graphs, bits: Mapping[Node, int]) -> tuple[int, ...]:
    """For each output, the nodes that save something on its ways to another node."""
    on_ways: set[Node] = set()
    for node in _oldest_first(graphs):
        if any([edge is not None and (edge[0] is end or edge[0] in on_ways) for edge in node.edges]):
            on_ways.add(node)
    return tuple([sum([bits.get(n, 0) for n in graph if n in on_ways]) for graph in graphs])


def _oldest_first(graphs: Graphs) -> list[Node]:
    return sorted({n for graph in graphs for n in graph}, key=age)
