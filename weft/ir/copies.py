"""Copies of nodes and blocks: over other operands, itself where nothing is another, or whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any

from weft.ir.graph import Block, Node, Operand, Value, map_operand
from weft.types.tensor_type import Type

Values = dict[Value, Operand]


def same_operands(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two sequences hold the same objects, through tuples."""
    if a is b:
        return True
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        if x is not y and not (type(x) is tuple and type(y) is tuple and same_operands(x, y)):
            return False
    return True


def stand_for(old: Iterable[Value], new: Iterable[Value], values: Values) -> None:
    """Note which values take the places of others, in order, and give them their names."""
    for before, after in zip(old, new, strict=True):
        after.name = before.name
        values[before] = after


def remade(node: Node, args: tuple[Operand, ...], blocks: tuple[Block, ...] = ()) -> Node:
    """The node with other arguments and blocks; its results have the types and names that they had."""
    copy = Node(node.op, args, tuple([v.type for v in node.outputs]), blocks, node.where)
    stand_for(node.outputs, copy.outputs, {})
    return copy


def fitted(node: Node, args: tuple[Operand, ...], blocks: tuple[Block, ...] = ()) -> Node:
    """The node over these arguments and blocks: itself where they are its own."""
    return node if same_operands(args, node.args) and same_operands(blocks, node.blocks) else remade(node, args, blocks)


def fitted_block(block: Block, nodes: Sequence[Node], results: tuple[Operand, ...]) -> Block:
    """The block of these nodes and results: itself where they are its own."""
    is_same = len(nodes) == len(block.nodes) and all(map(is_, nodes, block.nodes))
    return block if is_same and same_operands(results, block.results) else Block(block.params, tuple(nodes), results)


class Copy:
    """Copies nodes and blocks. values: what stands for values from outside; it gains those that are copied."""

    def __init__(self, values: Values | None = None) -> None:
        self.values: Values = {} if values is None else values

    def block(self, block: Block) -> Block:
        """A copy of a block and of those inside it."""
        params = tuple([Value(self.type_of(p), p.name) for p in block.params])
        self.values.update(zip(block.params, params, strict=True))
        nodes: list[Node] = []
        for node in block.nodes:
            self.put(node, nodes)
        return Block(params, tuple(nodes), tuple([self.operand(r) for r in block.results]))

    def put(self, node: Node, nodes: list[Node]) -> None:
        """Append what becomes of a node."""
        nodes.append(self.node(node))

    def node(self, node: Node) -> Node:
        """A copy of a node with what is in its blocks."""
        args = tuple([self.operand(a) for a in self.args_of(node)])
        types = tuple([self.type_of(v) for v in node.outputs])
        copy = Node(node.op, args, types, tuple([self.block(b) for b in node.blocks]), node.where)
        stand_for(node.outputs, copy.outputs, self.values)
        return copy

    def args_of(self, node: Node) -> tuple[Operand, ...]:
        """The arguments that its copy has, before they are mapped."""
        return node.args

    def operand(self, operand: Operand) -> Operand:
        """What stands for an operand."""
        return map_operand(operand, self.values)

    def type_of(self, value: Value) -> Type:
        """The type of what stands for a value that is made inside."""
        return value.type
