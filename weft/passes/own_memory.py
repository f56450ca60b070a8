"""own_memory: what a branch or a loop is given, and what its blocks yield, lies row-major in memory of its own, where
it is a view that lies otherwise. Native control flow moves whole buffers; without this pass it would be left to NumPy.
What a loop takes rows of may begin anywhere in its source, if its rows lie there one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ir.structure import LOOP
from weft.ops.geometry import contiguous, contiguous_strides
from weft.ops.packet import aten
from weft.passes.alias import Aliases, ProvingEnv, dims_of, view_geometries
from weft.passes.rebuild import rebuild
from weft.types import shape_env
from weft.types.dims import product


def own_memory(graph: Graph) -> Graph:
    """The graph with a copy of each such view, where it crosses the border of a block: other readers read the view, so
    that their bits are what they would be without the block."""
    proving, places = ProvingEnv(graph.env), _Places()
    with shape_env.using(proving):
        if not any(places.is_copied(v, is_rows) for node in graph.walk() for v, is_rows in _crossing(node)):
            return graph

    def copied(builder: Builder, operand: Operand, is_rows: bool = False) -> Operand:
        if type(operand) is tuple:
            return tuple([copied(builder, part, is_rows) for part in operand])
        if type(operand) is not Value or not places.is_copied(operand, is_rows):
            return operand
        return builder.operand(aten.clone(builder.handle(operand)))

    def border(builder: Builder, owner: Node | Block, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        with builder.active(), shape_env.using(proving):
            rows = 3 if isinstance(owner, Node) and owner.op is LOOP else -1
            return tuple([copied(builder, operand, i == rows) for i, operand in enumerate(operands)])

    return rebuild(graph, lambda builder, node, args: None, lambda node: False, border)


def _crossing(node: Node) -> Iterator[tuple[Value, bool]]:
    """The values that cross the border of a node's blocks, and whether a loop takes rows of them."""
    if not node.blocks:
        return
    rows = node.args[3] if node.op is LOOP else ()
    for operand in node.args:
        yield from ((v, operand is rows) for v in values_in(operand))
    for block in node.blocks:
        yield from ((v, False) for v in values_in(block.results))


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


class _Places:
    """Where values lie that are views of others."""

    def __init__(self) -> None:
        self._aliases = Aliases()
        self._seen: set[Value] = set()

    def is_copied(self, value: Value, is_rows: bool) -> bool:
        """Whether a value that crosses a border is to be copied."""
        return not _has_rows_in_order(value) if is_rows else self._is_rearranged(value)

    def _is_rearranged(self, value: Value) -> bool:
        """Whether a value is a view that is not all of its source in the same order. (A view is a copy where strides
        cannot express it.)"""
        views: list[Node] = []
        source = value
        while source not in self._seen and source.node is not None and source.node.op.view is not None:
            self._seen.add(source)
            views.append(source.node)
            source = source.node.args[0]
        for node in reversed(views):
            self._aliases.add_view(node)
        root, place = self._aliases.of(value)
        return root is not value and (place != contiguous(place.dims) or product(place.dims) != product(dims_of(root)))
