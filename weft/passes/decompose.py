"""decompose: open every operator that is given in terms of others, until only those remain that a back end computes."""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand
from weft.ops.op import Op
from weft.passes.rebuild import results_of, rewrite_operators


def decompose(graph: Graph, keep: Callable[[Op], bool] = lambda op: False) -> Graph:
    """The graph with decompositions opened (operators to `keep` stay whole)."""
    while True:
        opened = rewrite_operators(graph, _open, lambda op: op.decompose is not None and not keep(op))
        if opened is graph:
            return graph
        graph = opened


def _open(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
    assert node.op.decompose is not None
    return results_of(builder, node.op.decompose(*(builder.handle(a) for a in args)))
