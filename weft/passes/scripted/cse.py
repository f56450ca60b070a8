"""cse: of two equal computations the first stands for both, in inner blocks too.

What reads memory is equal only while nothing writes what it reads; what makes memory is merged only where nobody can
tell that two results are one. Random draws, prints and writes are never merged.
"""

from __future__ import annotations

from weft.ir.builder import REPEATABLE, Builder
from weft.ir.graph import Graph, Node, Operand
from weft.ir.structure import LOOP
from weft.passes.rebuild import rebuild
from weft.passes.scripted.memory import Memory, Written


def eliminate_common_subexpressions(graph: Graph) -> Graph:
    """The graph without computations that were made before; the same object where there are none."""
    merging = _Merging(graph)
    return rebuild(graph, merging.earlier, keep_order=True, enter=merging.enter, same=merging.memory.same)


class _Merging:
    def __init__(self, graph: Graph) -> None:
        self.memory = Memory(graph)
        self.versions: dict[Written, int] = {}
        self.moment = 0  # of what is written, nobody knows where

    def enter(self, node: Node) -> None:
        """What a loop writes is written before its second step reads it."""
        if node.op is LOOP:
            self._written(node)

    def earlier(self, builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        """The results of an equal computation before."""
        self._written(node)
        if node.blocks or (node.op.observes or node.op.effect) not in REPEATABLE:
            return None
        equal = builder.remember(node, (tuple([v.type for v in node.outputs]), self._state(node)))
        return equal.outputs if equal is not None and self._may_merge(equal, node) else None

    def _may_merge(self, earlier: Node, node: Node) -> bool:
        is_view = node.op.view is not None
        return all(
            self.memory.may_merge(a, b, is_view) for a, b in zip(earlier.outputs, node.outputs, strict=True)
        )

    def _state(self, node: Node) -> tuple[int, ...]:
        """How often what a node reads has been written."""
        return (self.moment, *(self.versions.get(c, 0) for c in self.memory.read_by(node)))

    def _written(self, node: Node) -> None:
        written = self.memory.writes(node)
        if written is None:
            self.moment += 1
        for one in written or ():
            self.versions[one] = self.versions.get(one, 0) + 1
