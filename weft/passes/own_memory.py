"""own_memory: what a branch or a loop is given, and what its blocks yield, lies row-major in memory of its own, where
it is a view that lies otherwise. Native control flow moves whole buffers; without this pass it would be left to NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, Value, values_in
from weft.ops.packet import aten
from weft.passes.rebuild import rebuild


def own_memory(graph: Graph) -> Graph:
    """The graph with a copy of each such view, which its other readers read too."""
    crossing = {v.node for node in graph.walk() if node.blocks for v in _crossing(node) if _may_lie_otherwise(v)}
    if not crossing:
        return graph

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
        outputs = builder.emit_like(node, args).outputs
        return tuple([builder.operand(aten.clone(builder.handle(v))) for v in outputs])

    return rebuild(graph, rewrite, crossing.__contains__)


def _crossing(node: Node) -> Iterator[Value]:
    yield from node.inputs()
    for block in node.blocks:
        yield from values_in(block.results)


def _may_lie_otherwise(value: Value) -> bool:
    """Whether a value is a view that is not all of its source in the same order."""
    while value.node is not None and value.node.op.view is not None:
        if not value.node.op.view.keeps_order:
            return True
        value = value.node.inputs()[0]
    return False
