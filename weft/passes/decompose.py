"""decompose: open every operator that is given in terms of others, until only those remain that a back end computes."""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand
from weft.passes.rebuild import rebuild, results_of


def decompose(graph: Graph, keep: frozenset[str] = frozenset()) -> Graph:
    """The graph with decompositions opened (those named in `keep` stay whole)."""
    while True:
        opened = rebuild(graph, lambda b, n, a: _open(b, n, a, keep))
        if opened is graph:
            return graph
        graph = opened


def _open(builder: Builder, node: Node, args: tuple[Operand, ...], keep: frozenset[str]) -> tuple[Operand, ...] | None:
    op = node.op
    if op.decompose is None or op.name in keep:
        return None
    return results_of(builder, op.decompose(*(builder.handle(a) for a in args)))
