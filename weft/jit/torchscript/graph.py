"""Graphs as users read and change them. They show a graph of weft.ir; graphs/nodes.py has their parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from weft.ir import graph as core
from weft.ir.printer import name_values
from weft.ir.verifier import verify
from weft.jit.program import Program
from weft.jit.torchscript.graphs import edits
from weft.jit.torchscript.graphs.nodes import Block, BorderNode, Constant, Listed, Node, Value
from weft.jit.torchscript.inlining import clone, inlined
from weft.support.errors import StateError
from weft.types.tensor_type import TENSOR, Type


class Graph:
    """A program as a graph. `str(graph)` is its text; `weft.jit.parse_ir` reads it."""

    def __init__(self, shown: core.Graph, program: Program | None = None, runs: bool = False) -> None:
        """runs: whether the program runs this very graph, which nobody may change then."""
        self._ir, self._program, self._runs = shown, program, runs
        self._known_names: dict[core.Value, str] | None = None
        self._created: dict[core.Node, list[core.Node]] = {}  # nodes that stand nowhere yet, with those that go along
        self._insert_at: core.Node | core.Block | None = None

    @property
    def ir(self) -> core.Graph:
        """The graph as weft.ir and the passes have it."""
        return self._ir

    @property
    def program(self) -> Program | None:
        """What the graph refers to by name, if it belongs to a program."""
        return self._program

    def nodes(self) -> Listed[Node]:
        """The nodes of the top block, in order."""
        return self.block().nodes()

    def inputs(self) -> Listed[Value]:
        """The parameters."""
        return self.block().inputs()

    def outputs(self) -> Listed[Value]:
        """The results."""
        return self.block().outputs()

    def block(self) -> Block:
        """The top block."""
        return Block(self, self._ir.block)

    def walk(self) -> Listed[Node]:
        """Every node, those of inner blocks behind their owner."""
        return Listed(Node(self, n) for n in self._ir.walk())

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind, or None."""
        return self.block().findNode(kind, recurse)

    def findAllNodes(self, kind: str, recurse: bool = True) -> Listed[Node]:
        """Every node of a kind (`aten::relu`); with recurse=False those of the top block."""
        return self.block().findAllNodes(kind, recurse)

    def replace(self, shown: core.Graph) -> None:
        """Show another graph from here on: what an analysis or a pass made of this one."""
        self._ir, self._known_names = shown, None

    def copy(self) -> Graph:
        """An equal graph of nodes of its own."""
        return Graph(clone(self._ir), self._program)

    def lint(self) -> None:
        """Raises VerifyError if the graph breaks a rule of the graph language."""
        verify(self._ir)

    def inlined(self) -> Graph:
        """The graph with the calls of other scripted functions replaced by their bodies."""
        return self if self._program is None else Graph(*inlined(dataclasses.replace(self._program, graph=self._ir)))

    # ---- changes
    def create(self, kind: str, inputs: Sequence[Any] = (), outputs: int = 1) -> Node:
        """A node that stands nowhere yet: `graph.insertNode(graph.create("aten::relu", [x]))`. Inputs are values, and
        numbers, texts and None as they are. prim::If has as many results as `outputs` says, and `addBlock` gives it
        its blocks. Raises ArgumentError for an operator that there is not, and for arguments that it does not take.
        """
        self._change()
        nodes, results = edits.new_nodes(kind, [self._operand(v) for v in inputs], outputs)
        owner = next(n for n in nodes if any(v in n.outputs for v in results)) if results else nodes[-1]
        self._created[owner] = nodes
        return Node(self, owner)

    def insertNode(self, node: Node) -> Node:
        """Put a node that `create` made where `setInsertPoint` says; at the end if it said nothing."""
        where = self._insert_at
        if isinstance(where, core.Node):
            return self._put(node, *edits.place_of(self._ir, where))
        return Block(self, self._ir.block if where is None else where).appendNode(node)

    def appendNode(self, node: Node) -> Node:
        """Put a node that `create` made at the end of the top block."""
        return self.block().appendNode(node)

    def prependNode(self, node: Node) -> Node:
        """Put a node that `create` made at the beginning of the top block."""
        return self.block().prependNode(node)

    def insert(self, kind: str, inputs: Sequence[Any] = ()) -> Value:
        """`insertNode` of what `create` makes; its result."""
        return self.insertNode(self.create(kind, inputs)).output()

    def insertConstant(self, value: Any) -> Value:
        """A number, text, None or list of them as a value: constants stand among the arguments of the nodes that take
        them.
        """
        return Constant(self, self._operand(value))

    def setInsertPoint(self, place: Node | Block) -> None:
        """Where `insertNode` puts nodes: before a node, or at the end of a block."""
        self._insert_at = place._shown

    def addInput(self, name: str = "", kind: Type = TENSOR) -> Value:
        """One more parameter, a tensor if nothing else is said."""
        self._change()
        value = core.Value(kind, name)
        self._ir.block.params = (*self._ir.block.params, value)
        return Value(self, value)

    def eraseInput(self, i: int) -> None:
        """One parameter less. Raises StateError if something uses it."""
        self._change()
        params = self._ir.block.params
        if next(edits.uses_of(self._ir, params[i]), None) is not None:
            raise StateError(f"eraseInput: %{self.inputs()[i].debugName()} is used; replaceAllUsesWith first")
        self._ir.block.params = (*params[:i], *params[i + 1 :])

    def registerOutput(self, value: Value) -> int:
        """One more result; its place."""
        return self.block().registerOutput(value)

    def eraseOutput(self, i: int) -> None:
        """One result less."""
        self.block().eraseOutput(i)

    def param_node(self) -> BorderNode:
        """The node whose results are the parameters."""
        return self.block().paramNode()

    def return_node(self) -> BorderNode:
        """The node whose inputs are the results."""
        return self.block().returnNode()

    def _change(self) -> None:
        """Called before each change. Raises StateError for a graph that runs."""
        if self._runs:
            raise StateError("this graph is the one that runs; change a copy: graph.copy()")
        self._known_names = None

    def _put(self, node: Node, block: core.Block, at: int) -> Node:
        nodes = self._created.pop(node._shown, None)
        if nodes is None:
            raise StateError(f"{node.kind()} stands in the graph; moveBefore and moveAfter move it")
        self._change()
        edits.put(block, at, nodes)
        return node

    def _move(self, node: core.Node, other: core.Node, offset: int) -> None:
        self._change()
        edits.place_of(self._ir, other)
        block, at = edits.place_of(self._ir, node)
        block.nodes = (*block.nodes[:at], *block.nodes[at + 1 :])
        block, at = edits.place_of(self._ir, other)
        edits.put(block, at + offset, [node])

    def _block(self, block: core.Block) -> Block:
        return Block(self, block)

    def _owner(self, block: core.Block) -> core.Node | None:
        """The node that a block belongs to, one that stands nowhere yet included; None for the top block."""
        waiting = (n for nodes in self._created.values() for n in nodes)
        inside = (n for node in waiting for n in (node, *(m for b in node.blocks for m in b.walk())))
        return next((n for n in (*self._ir.walk(), *inside) if any(b is block for b in n.blocks)), None)

    def _operand(self, operand: Any) -> core.Operand:
        """A value, or a constant, as an operand."""
        if isinstance(operand, Value):
            return operand._operand()
        return tuple(map(self._operand, operand)) if isinstance(operand, (list, tuple)) else operand

    def _border(self, param: Value) -> BorderNode:
        """The prim::Param of the block that has this parameter."""
        owner = next(b for b in edits.blocks_of(self._ir.block) if param._shown in b.params)
        return BorderNode(self, owner, "Param")

    def _names(self) -> dict[core.Value, str]:
        if self._known_names is None:
            self._known_names = name_values(self._ir)
        return self._known_names

    def _value(self, operand: core.Operand) -> Value:
        return Value(self, operand) if isinstance(operand, core.Value) else Constant(self, operand)

    def __str__(self) -> str:
        return str(self._ir)

    __repr__ = __str__
