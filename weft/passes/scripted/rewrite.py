"""rewrite: walk a program's blocks in order and put other nodes in place of some. Nodes are appended as they stand: no
two equal ones become one, since a write may lie between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weft.ir.copies import Copy, Values, fitted, fitted_block
from weft.ir.graph import Block, Graph, Node, Operand, Value, map_operand, values_in
from weft.ops.op import Op
from weft.support.locations import Location
from weft.types.tensor_type import Type


class Emitter:
    """Where the nodes of one block go. `where` is the line that new ones get."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.where: Location | None = None

    def emit(self, op: Op, args: tuple[Operand, ...], *types: Type, blocks: tuple[Block, ...] = ()) -> Node:
        """Append a node."""
        node = Node(op, args, types, blocks, self.where)
        self.nodes.append(node)
        return node


# Given a node with its arguments mapped and its blocks rewritten: what stands for its results, or None to keep it.
Visit = Callable[[Emitter, Node], "tuple[Operand, ...] | None"]


def rewrite(
    graph: Graph, visit: Visit, enter: Callable[[Node], None] = lambda node: None,
    same: Callable[[Value, Value], None] = lambda old, new: None,
) -> Graph:
    """The graph with what `visit` puts in place of nodes; the same object where it changes nothing.

    `enter` is told of a node before its blocks are walked, `same` of each value that takes the place of another
    (Memory.same, for a pass that asks what is written).
    """
    walk = Walk(visit, enter, same)
    block = walk.block(graph.block, {})
    return graph if block is graph.block else Graph(graph.name, block, graph.env, graph.writes)


class Walk:
    """One walk through a graph's blocks."""

    def __init__(
        self, visit: Visit, enter: Callable[[Node], None], same: Callable[[Value, Value], None]
    ) -> None:
        self.visit, self.enter, self.same = visit, enter, same

    def block(self, block: Block, values: Values) -> Block:
        """The block, rewritten; itself where nothing in it changes. `values` has what stands for values outside."""
        emitter, inner = Emitter(), dict(values)
        for node in block.nodes:
            self._node(emitter, node, inner)
        return fitted_block(block, emitter.nodes, tuple(map_operand(r, inner) for r in block.results))

    def _node(self, emitter: Emitter, node: Node, values: Values) -> None:
        args = tuple(map_operand(a, values) for a in node.args)
        self.enter(node)
        blocks = tuple(self.block(b, values) for b in node.blocks)
        current = fitted(node, args, blocks)
        if current is not node:
            self._stand_for(node, current.outputs)
        emitter.where = node.where
        replacements = self.visit(emitter, current)
        if replacements is None:
            emitter.nodes.append(current)
            if current is not node:
                values.update(zip(node.outputs, current.outputs, strict=True))
            return
        self._stand_for(node, replacements)
        for old, new in zip(node.outputs, replacements, strict=True):
            values[old] = new
            if isinstance(new, Value) and old.name and not new.name:
                new.name = old.name

    def _stand_for(self, node: Node, replacements: Iterable[Operand]) -> None:
        for old, new in zip(node.outputs, replacements, strict=True):
            if isinstance(new, Value):
                self.same(old, new)


def spliced(emitter: Emitter, block: Block, params: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """Append copies of a block's nodes, with operands for its parameters. Returns what stands for its results."""
    copy = Copy(dict(zip(block.params, params, strict=True)))
    emitter.nodes += map(copy.node, block.nodes)
    return tuple(map(copy.operand, block.results))


def readers(graph: Graph) -> dict[Value, list[Node | None]]:
    """Who reads each value; None stands for a result of a block."""
    by_value: dict[Value, list[Node | None]] = {}

    def visit(block: Block) -> None:
        for node in block.nodes:
            for value in node.inputs():
                by_value.setdefault(value, []).append(node)
            for inner in node.blocks:
                visit(inner)
        for value in values_in(block.results):
            by_value.setdefault(value, []).append(None)

    visit(graph.block)
    return by_value
