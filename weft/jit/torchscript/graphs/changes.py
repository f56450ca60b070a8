"""What users change about a node: where it stands, its results, and the blocks of prim::If and prim::Loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.ir import graph as core
from weft.jit.torchscript.graphs import edits
from weft.types.tensor_type import TENSOR

if TYPE_CHECKING:
    from weft.jit.torchscript.graph import Graph
    from weft.jit.torchscript.graphs.nodes import Block, Node, Value


class Shown:
    """Something of a graph. Two that show the same thing are equal."""

    def __init__(self, graph: Graph, shown: Any) -> None:
        self._graph, self._shown = graph, shown

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Shown) and self._shown is other._shown

    def __hash__(self) -> int:
        return id(self._shown)


class Changes(Shown):
    """The part of a node that changes the graph."""

    def insertBefore(self, other: Node) -> Node:
        """Put this node, which `graph.create` made, before another one."""
        return self._insert(other, 0)

    def insertAfter(self, other: Node) -> Node:
        """Put this node, which `graph.create` made, behind another one."""
        return self._insert(other, 1)

    def moveBefore(self, other: Node) -> None:
        """Take this node from where it stands, and put it before another one."""
        self._graph._move(self._shown, other._shown, 0)

    def moveAfter(self, other: Node) -> None:
        """Take this node from where it stands, and put it behind another one."""
        self._graph._move(self._shown, other._shown, 1)

    def _insert(self, other: Node, offset: int) -> Node:
        block, at = edits.place_of(self._graph.ir, other._shown)
        return self._graph._put(self, block, at + offset)  # type: ignore[arg-type]

    def destroy(self) -> None:
        """Take the node out. Raises StateError if something still uses a result of it."""
        self._graph._change()
        edits.take_out(self._graph.ir, self._shown)

    def owningBlock(self) -> Block:
        """The block that it stands in. Raises StateError for a node that stands nowhere."""
        return self._graph._block(edits.place_of(self._graph.ir, self._shown)[0])

    def addBlock(self) -> Block:
        """One more block, for prim::If and prim::Loop; without parameters, nodes and results."""
        self._graph._change()
        block = core.Block()
        self._shown.blocks = (*self._shown.blocks, block)
        return self._graph._block(block)

    def eraseBlock(self, i: int) -> None:
        """One block less."""
        self._graph._change()
        self._shown.blocks = (*self._shown.blocks[:i], *self._shown.blocks[i + 1 :])

    def addInput(self, value: Value) -> Value:
        """One more element of the list that the node takes: another carried value of prim::Loop, another element of
        prim::ListConstruct. Raises ArgumentError for a node with a fixed number of inputs.
        """
        self._graph._change()
        edits.add_input(self._shown, value._operand())
        return value

    def addOutput(self) -> Value:
        """One more result, a tensor until a block says what it is."""
        self._graph._change()
        output = core.Value(TENSOR, "", self._shown, len(self._shown.outputs))
        self._shown.outputs = (*self._shown.outputs, output)
        edits.settle_results(self._shown)
        return self._graph._value(output)

    def eraseOutput(self, i: int) -> None:
        """One result less. Raises StateError if something uses it."""
        self._graph._change()
        edits.take_out_result(self._graph.ir, self._shown, i)
