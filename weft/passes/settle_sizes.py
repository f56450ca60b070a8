"""settle_sizes: sizes that the guards decide are written as what they are, so that every later stage sees one name
for one size: `s2` with the guard `s2 == 1` is 1, with `s2 == s0` it is s0.

What follows asks some questions of structure alone (is this dim 1, are these two equal) and some of the guards.
With one name for each size both have the same answer.
"""

from __future__ import annotations

from weft.ir.graph import Graph
from weft.passes.rebuild import rebuild
from weft.passes.resized import Resized
from weft.passes.unbacked import mentioned
from weft.types.settled import settled_sizes


def settle_sizes(graph: Graph) -> Graph:
    """The graph with what its guards say of its sizes in place of the symbols. A parameter that had `s2` rows and now
    has 1 takes the same arrays as before: the guards are checked before every call."""
    if not any(g.answer and g.relation.op == "==" for g in graph.env.guards.values()):
        return graph
    sizes = settled_sizes(graph.env)
    if sizes.symbols.isdisjoint(mentioned(graph.block)):
        return graph
    resized = Resized(sizes.settle)
    block = resized.block(graph.block)
    if not resized.changed:
        return graph
    settled = Graph(graph.name, block, graph.env, graph.writes)
    return rebuild(settled, lambda builder, node, args: None)  # nodes that differed in the names of sizes become one
