"""settle_sizes: sizes that the guards decide are written as what they are, so that every later stage sees one name
for one size: `s2` with the guard `s2 == 1` is 1, with `s2 == s0` it is s0.

What follows asks some questions of structure alone (is this dim 1, are these two equal) and some of the guards.
With one name for each size both have the same answer.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Value
from weft.ir.resized import Resized
from weft.passes.unbacked import mentioned
from weft.types.dims import Dim, Expr
from weft.types.settled import settled_sizes

Source = Callable[[Node, Node], Value | None]


def settle_sizes(graph: Graph, source: Source | None = None) -> Graph:
    """The graph with what its guards say of its sizes in place of the symbols. A parameter that had `s2` rows and now
    has 1 takes the same arrays as before: the guards are checked before every call.

    source: what stands for a node's result, if it can be left out now that its sizes are settled; given the node as it
    was and as it is.
    """
    if not any(g.answer and g.relation.op == "==" for g in graph.env.guards.values()):
        return graph
    sizes = settled_sizes(graph.env)
    if sizes.symbols.isdisjoint(mentioned(graph.block)):
        return graph
    copy = _MergingCopy(sizes.settle, Builder(graph.name, graph.env), source)
    block = copy.block(graph.block)
    return Graph(graph.name, block, graph.env, graph.writes) if copy.changed else graph


class _MergingCopy(Resized):
    """Copies blocks. Nodes that differed in the names of sizes become one, as a builder has it."""

    def __init__(self, size: Callable[[Expr], Dim], builder: Builder, source: Source | None) -> None:
        super().__init__(size)
        self.builder, self.source = builder, source

    def block(self, block: Block) -> Block:
        """A copy of a block and of those inside it, whose nodes may be equal to nodes around it."""
        outer = self.builder
        with outer.inner() as self.builder:
            copy = super().block(block)
        self.builder = outer
        return copy

    def put(self, node: Node, nodes: list[Node]) -> None:
        """Append what becomes of a node, if it is not there yet."""
        copy = self.node(node)
        source = None if self.source is None else self.source(node, copy)
        if source is not None:
            self.values[node.outputs[0]] = source
            return
        adopted = copy if copy.blocks else self.builder.adopt(copy)
        if adopted is copy:
            nodes.append(copy)
        else:
            self.values.update(zip(node.outputs, adopted.outputs, strict=True))
