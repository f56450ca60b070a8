"""dce: leave out nodes whose results nobody reads. Nodes with effects stay (random numbers are functional here: their offsets are inputs)."""

from __future__ import annotations

from weft.ir.graph import Block, Graph, Node, Value, values_in

KEPT = frozenset(("raises", "io", "python"))


def dce(graph: Graph) -> Graph:
    """The graph without dead nodes; values keep their identity."""
    live: set[Value] = set()
    for r in graph.results:
        live.update(values_in(r))
    nodes = _sweep(graph.nodes, live)
    if len(nodes) == len(graph.nodes) and not any(n.blocks for n in nodes):
        return graph
    return Graph(graph.name, Block(graph.params, nodes, graph.results), graph.env, graph.writes)


def _sweep(nodes: tuple[Node, ...], live: set[Value]) -> tuple[Node, ...]:
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.op.effect not in KEPT and not any(v in live for v in node.outputs):
            continue
        live.update(node.reads())
        kept.append(node)
    kept.reverse()
    return tuple(kept)
