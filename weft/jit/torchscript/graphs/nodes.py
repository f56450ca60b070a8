"""Nodes, values and blocks of a graph as users read and change them, by PyTorch's names."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from weft.ir import graph as core
from weft.ir.kinds import type_of_immediate
from weft.ir.printer import immediate_text
from weft.jit.torchscript.graphs import edits
from weft.jit.torchscript.graphs.changes import Changes, Shown
from weft.jit.torchscript.matching import constant_of, matches, type_of_operand
from weft.jit.torchscript.symbol import Symbol
from weft.support.errors import ArgumentError
from weft.types.tensor_type import TENSOR, Type

if TYPE_CHECKING:
    from weft.jit.torchscript.graph import Graph

T = TypeVar("T")


class Listed(list[T]):
    """What a graph has several of. `next` goes through it, as through PyTorch's iterators."""

    taken = 0

    def __next__(self) -> T:
        if self.taken >= len(self):
            raise StopIteration
        self.taken += 1
        return self[self.taken - 1]

    def __iter__(self) -> Iterator[T]:
        return itertools.islice(super().__iter__(), self.taken, None)


class Value(Shown):
    """A value of a graph: a result of a node, or a parameter of a block."""

    def type(self) -> Type:
        """Its type."""
        return self._shown.type  # type: ignore[no-any-return]

    def node(self) -> Node:
        """The node that it is a result of; for a parameter a node prim::Param, whose results are the parameters."""
        return self._graph._border(self) if self._shown.node is None else Node(self._graph, self._shown.node)

    def debugName(self) -> str:
        """Its name in the text of the graph, without the sign."""
        return self._graph._names().get(self._shown, self._shown.name or "?")

    def setDebugName(self, name: str) -> None:
        """Give it a name in the text."""
        self._graph._change()
        self._shown.name = name

    def setType(self, kind: Type) -> Value:
        """Say what its type is."""
        self._graph._change()
        self._shown.type = kind
        return self

    def toIValue(self) -> Any:
        """The value, where it is known while compiling; else None."""
        return None

    def uses(self) -> Listed[Use]:
        """The nodes that take it, each with the place among its inputs."""
        uses = edits.uses_of(self._graph.ir, self._shown)
        return Listed(Use(Node(self._graph, n) if n is not None else self._graph.return_node(), i) for n, i in uses)

    def replaceAllUsesWith(self, other: Value) -> None:
        """Let everything that takes this value take another one."""
        self._graph._change()
        edits.replace_uses(self._graph.ir, self._shown, other._operand())

    def _operand(self) -> core.Operand:
        return self._shown

    def __repr__(self) -> str:
        return f"%{self.debugName()} : {self.type()}"


@dataclasses.dataclass(frozen=True)
class Use:
    """One place where a value is taken."""

    user: Node
    offset: int


class Constant(Value):
    """A number, text or None that stands among the arguments of a node, seen as the result of a node prim::Constant."""

    def __init__(self, graph: Graph, value: Any) -> None:
        super().__init__(graph, [value])

    def type(self) -> Type:
        value = self._shown[0]
        return type_of_operand(value) if isinstance(value, tuple) else type_of_immediate(value)

    def node(self) -> Node:
        return ConstantNode(self._graph, self._shown)

    def debugName(self) -> str:
        value = self._shown[0]
        return "[...]" if isinstance(value, tuple) else immediate_text(value)

    def toIValue(self) -> Any:
        """The value."""
        return constant_of(self._shown[0])

    def _operand(self) -> core.Operand:
        return self._shown[0]

    def __repr__(self) -> str:
        return self.debugName()


class Node(Changes):
    """One operator call."""

    def kind(self) -> Symbol:
        """The operator's name without its overload: `aten::relu`."""
        schema = self._shown.op.schema
        return Symbol(f"{schema.namespace}::{schema.base}")

    def inputs(self) -> Listed[Value]:
        """One for each argument of the schema; lists that are written out are spread."""
        return Listed(self._graph._value(operand) for operand in edits.flat(self._shown.args))

    def outputs(self) -> Listed[Value]:
        """Its results."""
        return Listed(Value(self._graph, v) for v in self._shown.outputs)

    def input(self) -> Value:
        """Its only input. Raises ArgumentError if there are more, or none."""
        return _only(self.inputs(), f"{self.kind()} has %d inputs")

    def output(self) -> Value:
        """Its only result. Raises ArgumentError if there are more, or none."""
        return _only(self.outputs(), f"{self.kind()} has %d results")

    def inputsAt(self, i: int) -> Value:
        """An input by its place."""
        return self.inputs()[i]

    def outputsAt(self, i: int) -> Value:
        """A result by its place."""
        return self.outputs()[i]

    def inputsSize(self) -> int:
        """How many inputs there are."""
        return len(self.inputs())

    def outputsSize(self) -> int:
        """How many results there are."""
        return len(self.outputs())

    def blocks(self) -> Listed[Block]:
        """The bodies of prim::If and prim::Loop."""
        return Listed(Block(self._graph, b) for b in self._shown.blocks)

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind in its blocks, or None."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> Listed[Node]:
        """Every node of a kind in its blocks."""
        return Listed(n for b in self.blocks() for n in b.findAllNodes(kind, recurse))

    def matches(self, schema: str, const: Collection[str] = ()) -> bool:
        """Whether it calls this operator with arguments of these types, those in `const` known while compiling."""
        return matches(self._shown, schema, const)

    def get(self, name: str) -> Any:
        """The value of an argument that is known while compiling, else None. Raises ArgumentError with the names."""
        return constant_of(self._argument(name))

    def is_constant(self, name: str) -> bool:
        """Whether an argument is known while compiling."""
        return not core.values_in(self._argument(name))

    def named_input(self, name: str) -> Value:
        """An argument by its name. Raises ArgumentError that lists the names."""
        return self._graph._value(self._argument(name))

    def _argument(self, name: str) -> core.Operand:
        try:
            return self._shown.arg(name)
        except KeyError as problem:
            raise ArgumentError(str(problem.args[0])) from None

    def schema(self) -> str:
        """The text of the operator's schema."""
        return str(self._shown.op.schema)

    def attributes(self) -> dict[str, Any]:
        """What a node holds besides its inputs: the value of a prim::Constant. What is known of other nodes while
        compiling stands among their inputs; `get` has it by name.
        """
        return {}

    def attributeNames(self) -> list[str]:
        """The names of `attributes()`."""
        return list(self.attributes())

    def hasAttribute(self, name: str) -> bool:
        """Whether `attributes()` has this name."""
        return name in self.attributes()

    def kindOf(self, name: str) -> str:
        """What an attribute, or an argument that is known while compiling, is: "i", "f", "s", "is", "fs", "ss", or
        "ival" for anything else.
        """
        value = self.attributes()[name] if name in self.attributes() else self.get(name)
        parts = {_KIND_LETTERS.get(type(v), "") for v in value} if isinstance(value, list) else set()
        letter = parts.pop() + "s" if len(parts) == 1 else _KIND_LETTERS.get(type(value), "")
        return letter if letter not in ("", "s") or isinstance(value, str) else "ival"

    # ---- changes
    def replaceInput(self, i: int, value: Value) -> Value:
        """Exchange an input; the one that was there is returned."""
        before = self.inputsAt(i)
        self._graph._change()
        edits.replace_input(self._shown, i, value._operand())
        return before

    def replaceInputWith(self, old: Value, new: Value) -> None:
        """Exchange an input wherever it stands among this node's."""
        self._graph._change()
        self._shown.take(tuple(core.map_operand(a, {old._shown: new._operand()}) for a in self._shown.args))

    def replaceAllUsesWith(self, other: Node) -> None:
        """Let everything that takes a result of this node take the other one's."""
        for old, new in zip(self.outputs(), other.outputs(), strict=True):
            old.replaceAllUsesWith(new)

    def source_range(self) -> str:
        """The line of the program: `train.py:12:5`; empty where none is known."""
        where = self._shown.where
        if where is None:
            return ""
        return f"{where.file}:{where.line}" + (f":{where.column}" if where.column else "")

    sourceRange = source_range

    def __repr__(self) -> str:
        return f"<node {self.kind()}>"


_KIND_LETTERS: dict[type, str] = {int: "i", bool: "i", float: "f", str: "s"}


def _only(values: Sequence[T], problem: str) -> T:
    if len(values) != 1:
        raise ArgumentError(problem % len(values))
    return values[0]


class ConstantNode(Node):
    """Where a constant among the arguments comes from."""

    def kind(self) -> Symbol:
        return Symbol("prim::Constant")

    def inputs(self) -> Listed[Value]:
        return Listed()

    def outputs(self) -> Listed[Value]:
        return Listed([Constant(self._graph, self._shown[0])])

    def blocks(self) -> Listed[Block]:
        return Listed()

    def attributes(self) -> dict[str, Any]:
        return {"value": constant_of(self._shown[0])}

    def schema(self) -> str:
        return "prim::Constant() -> Any"

    def source_range(self) -> str:
        return ""


class BorderNode(ConstantNode):
    """prim::Param, whose results are the parameters of a block, or prim::Return, whose inputs are its results."""

    def __init__(self, graph: Graph, shown: core.Block, kind: str) -> None:
        super().__init__(graph, shown)
        self._kind = Symbol(f"prim::{kind}")

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and isinstance(other, BorderNode) and other._kind is self._kind

    __hash__ = Node.__hash__

    def kind(self) -> Symbol:
        return self._kind

    def inputs(self) -> Listed[Value]:
        return Block(self._graph, self._shown).outputs() if self._kind == "prim::Return" else Listed()

    def outputs(self) -> Listed[Value]:
        return Block(self._graph, self._shown).inputs() if self._kind == "prim::Param" else Listed()

    def attributes(self) -> dict[str, Any]:
        return {}

    def schema(self) -> str:
        return f"{self._kind}(...)"


class Block(Shown):
    """A sequence of nodes with parameters and results."""

    def nodes(self) -> Listed[Node]:
        """Its nodes in order."""
        return Listed(Node(self._graph, n) for n in self._shown.nodes)

    def inputs(self) -> Listed[Value]:
        """Its parameters."""
        return Listed(Value(self._graph, v) for v in self._shown.params)

    def outputs(self) -> Listed[Value]:
        """Its results."""
        return Listed(self._graph._value(r) for r in self._shown.results)

    def paramNode(self) -> BorderNode:
        """The node whose results are the parameters."""
        return BorderNode(self._graph, self._shown, "Param")

    def returnNode(self) -> BorderNode:
        """The node whose inputs are the results."""
        return BorderNode(self._graph, self._shown, "Return")

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind, or None."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> Listed[Node]:
        """Every node of a kind (`aten::relu`), those of inner blocks too."""
        nodes = self._shown.walk() if recurse else self._shown.nodes
        return Listed(n for n in (Node(self._graph, m) for m in nodes) if n.kind() == kind)

    def appendNode(self, node: Node) -> Node:
        """Put a node, which `graph.create` made, at the end."""
        return self._graph._put(node, self._shown, len(self._shown.nodes))

    def prependNode(self, node: Node) -> Node:
        """Put a node, which `graph.create` made, at the beginning."""
        return self._graph._put(node, self._shown, 0)

    def owningNode(self) -> Node | None:
        """The node that it is a block of; None for the top block of a graph."""
        owner = self._graph._owner(self._shown)
        return None if owner is None else Node(self._graph, owner)

    def addInputToBlock(self, name: str = "") -> Value:
        """One more parameter: of a loop's block the index, then the carried values in order."""
        self._graph._change()
        owner = self._graph._owner(self._shown)
        param = core.Value(TENSOR if owner is None else edits.type_of_param(owner, len(self._shown.params)), name)
        self._shown.params = (*self._shown.params, param)
        return Value(self._graph, param)

    def registerOutput(self, value: Value) -> int:
        """One more result; its place. A result of the node that the block belongs to is of its type."""
        self._graph._change()
        self._shown.results = (*self._shown.results, value._operand())
        owner = self._graph._owner(self._shown)
        if owner is not None:
            edits.settle_results(owner)
        return len(self._shown.results) - 1

    def eraseOutput(self, i: int) -> None:
        """One result less."""
        self._graph._change()
        self._shown.results = (*self._shown.results[:i], *self._shown.results[i + 1 :])


