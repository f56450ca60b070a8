"""cse: of two equal computations the first stands for both, in inner blocks too.

What reads memory is equal only while nothing writes what it reads; what makes memory is merged only where nobody can
tell that two results are one. Random draws, prints and writes are never merged.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from weft.ir.builder import memo_key
from weft.ir.copies import Values, fitted, fitted_block
from weft.ir.graph import Block, Graph, Node, map_operand
from weft.ir.structure import LOOP
from weft.passes.scripted.memory import Memory, Written

_REPEATABLE = frozenset(("pure", "raises"))
Seen = ChainMap[Any, Node]


def eliminate_common_subexpressions(graph: Graph) -> Graph:
    """The graph without computations that were made before; the same object where there are none."""
    block = _Merging(graph).block(graph.block, {}, ChainMap())
    return graph if block is graph.block else Graph(graph.name, block, graph.env, graph.writes)


class _Merging:
    def __init__(self, graph: Graph) -> None:
        self.memory = Memory(graph)
        self.versions: dict[Written, int] = {}
        self.moment = 0  # of what is written, nobody knows where

    def block(self, block: Block, values: Values, seen: Seen) -> Block:
        """The block without what was computed before in it or around it."""
        nodes: list[Node] = []
        for node in block.nodes:
            self._node(node, nodes, values, seen)
        return fitted_block(block, nodes, tuple(map_operand(r, values) for r in block.results))

    def _node(self, node: Node, nodes: list[Node], values: Values, seen: Seen) -> None:
        args = tuple(map_operand(a, values) for a in node.args)
        if node.op is LOOP:
            self._written(node)  # what a loop writes is written before its second step reads it
        blocks = tuple(self.block(b, dict(values), seen.new_child()) for b in node.blocks)
        self._written(node)
        current = fitted(node, args, blocks)
        if not node.blocks and (node.op.observes or node.op.effect) in _REPEATABLE:
            key = (node.op, memo_key(args), tuple(v.type for v in node.outputs), self._state(node))
            earlier = seen.get(key)
            if earlier is not None and self._may_merge(earlier, node):
                values.update(zip(node.outputs, earlier.outputs, strict=True))
                return
            seen.setdefault(key, current)
        for old, new in zip(node.outputs, current.outputs, strict=True):
            self.memory.same(old, new)
        nodes.append(current)
        if current is not node:
            values.update(zip(node.outputs, current.outputs, strict=True))

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
