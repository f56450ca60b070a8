"""own_memory: what a branch or a loop is given, and what its blocks yield, lies row-major in memory of its own, where
it is a view that lies otherwise. Native control flow moves whole buffers; without this pass it would be left to NumPy.
What a loop takes rows of may begin anywhere in its source, if its rows lie there one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, Value, values_in
from weft.ir.structure import LOOP
from weft.ops.geometry import contiguous, contiguous_strides
from weft.ops.packet import aten
from weft.passes.alias import ProvingEnv, dims_of, view_geometries
from weft.passes.rebuild import rebuild
from weft.types import shape_env


def own_memory(graph: Graph) -> Graph:
    """The graph with a copy of each such view, which its other readers read too."""
    with shape_env.using(ProvingEnv(graph.env)):
        crossing = {v.node for node in graph.walk() if node.blocks for v in _crossing(node) if _may_lie_otherwise(v)}
    if not crossing:
        return graph

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
        outputs = builder.emit_like(node, args).outputs
        return tuple([builder.operand(aten.clone(builder.handle(v))) for v in outputs])

    return rebuild(graph, rewrite, crossing.__contains__)


def _crossing(node: Node) -> Iterator[Value]:
    if node.op is LOOP:
        trip, condition, carried, xs, _ = node.args
        yield from values_in((trip, condition, carried))
        yield from (v for v in xs if not _has_rows_in_order(v))
    else:
        yield from node.inputs()
    for block in node.blocks:
        yield from values_in(block.results)


def _has_rows_in_order(value: Value) -> bool:
    """Whether a value is row-major memory of its own, or a part of such a value that lies in one piece."""
    while value.node is not None and value.node.op.view is not None:
        node, view = value.node, value.node.op.view
        if not view.keeps_order:
            shown = view_geometries(node.op, contiguous(dims_of(node.args[0])), node.args[1:])
            place = None if shown is None else shown[value.index]
            if place is None or view.is_free or place.strides != contiguous_strides(place.dims):
                return False
        value = node.args[0]
    return True


def _may_lie_otherwise(value: Value) -> bool:
    """Whether a value is a view that is not all of its source in the same order."""
    while value.node is not None and value.node.op.view is not None:
        if not value.node.op.view.keeps_order:
            return True
        value = value.node.inputs()[0]
    return False
