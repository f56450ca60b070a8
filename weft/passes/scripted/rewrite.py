"""rewrite: walk a program's blocks in order and put other nodes in place of some. Nodes are appended as they stand: no
two equal ones become one, since a write may lie between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weft.ir.graph import Block, Graph, Node, Operand, Value, map_operand
from weft.ops.op import Op
from weft.support.locations import Location
from weft.types.tensor_type import Type

Values = dict[Value, Operand]


class Emitter:
    """Where the nodes of one block go. `where` is the line that new ones get."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.where: Location | None = None

    def emit(self, op: Op, args: tuple[Operand, ...], *types: Type, blocks: tuple[Block, ...] = ()) -> Node:
        """Append a node."""
        made = Node(op, args, types, blocks, self.where)
        self.nodes.append(made)
        return made


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
        emitter, changed = Emitter(), False
        inner = dict(values)
        for node in block.nodes:
            changed |= self._node(emitter, node, inner)
        results = tuple(map_operand(r, inner) for r in block.results)
        if not changed and same_operands(results, block.results):
            return block
        return Block(block.params, tuple(emitter.nodes), results)

    def _node(self, emitter: Emitter, node: Node, values: Values) -> bool:
        args = tuple(map_operand(a, values) for a in node.args)
        self.enter(node)
        blocks = tuple(self.block(b, values) for b in node.blocks)
        is_same = same_operands(args, node.args) and all(a is b for a, b in zip(blocks, node.blocks, strict=True))
        current = node if is_same else remade(node, args, blocks)
        if not is_same:
            self._stand_for(node, current.outputs)
        emitter.where = node.where
        found = self.visit(emitter, current)
        if found is None:
            emitter.nodes.append(current)
            if not is_same:
                values.update(zip(node.outputs, current.outputs, strict=True))
            return not is_same
        self._stand_for(node, found)
        for old, new in zip(node.outputs, found, strict=True):
            values[old] = new
            if isinstance(new, Value) and old.name and not new.name:
                new.name = old.name
        return True

    def _stand_for(self, node: Node, found: Iterable[Operand]) -> None:
        for old, new in zip(node.outputs, found, strict=True):
            if isinstance(new, Value):
                self.same(old, new)


def remade(node: Node, args: tuple[Operand, ...], blocks: tuple[Block, ...]) -> Node:
    """The node with other arguments and blocks; its results have the types and names that they had."""
    made = Node(node.op, args, tuple(v.type for v in node.outputs), blocks, node.where)
    for old, new in zip(node.outputs, made.outputs, strict=True):
        new.name = old.name
    return made


def same_operands(a: Iterable[Operand], b: Iterable[Operand]) -> bool:
    """Whether two sequences hold the same values, through tuples."""
    return all(
        x is y or (type(x) is tuple and type(y) is tuple and len(x) == len(y) and same_operands(x, y))
        for x, y in zip(a, b, strict=True)
    )


def spliced(emitter: Emitter, block: Block, params: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """Append copies of a block's nodes, with operands for its parameters. Returns what stands for its results."""
    values: Values = dict(zip(block.params, params, strict=True))
    for node in block.nodes:
        emitter.nodes.append(copied(node, values))
    return tuple(map_operand(r, values) for r in block.results)


def copied(node: Node, values: Values) -> Node:
    """A copy of a node with what is in its blocks; `values` gains its results."""
    args = tuple(map_operand(a, values) for a in node.args)
    made = remade(node, args, tuple(copied_block(b, values) for b in node.blocks))
    values.update(zip(node.outputs, made.outputs, strict=True))
    return made


def copied_block(block: Block, values: Values) -> Block:
    """A copy of a block."""
    inner = dict(values)
    params = tuple(Value(p.type, p.name) for p in block.params)
    inner.update(zip(block.params, params, strict=True))
    nodes = tuple(copied(n, inner) for n in block.nodes)
    return Block(params, nodes, tuple(map_operand(r, inner) for r in block.results))
