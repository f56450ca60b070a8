"""Graphs as users read them: nodes, values and blocks by PyTorch's names. They show a graph of weft.ir."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from weft.ir import graph as core
from weft.ir.kinds import type_of_immediate
from weft.ir.printer import immediate_text, name_values
from weft.ir.verifier import verify
from weft.jit.inlining import clone, inlined
from weft.jit.matching import constant_of, matches, type_of_operand
from weft.jit.program import Program
from weft.jit.symbol import Symbol
from weft.support.errors import ArgumentError
from weft.types.tensor_type import Type


class _Shown:
    """Something of a graph. Two that show the same thing are equal."""

    def __init__(self, graph: Graph, shown: Any) -> None:
        self._graph, self._shown = graph, shown

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, _Shown) and self._shown is other._shown

    def __hash__(self) -> int:
        return id(self._shown)


class Value(_Shown):
    """A value of a graph: a result of a node, or a parameter of a block."""

    def type(self) -> Type:
        """Its type."""
        return self._shown.type  # type: ignore[no-any-return]

    def node(self) -> Node | None:
        """The node that it is a result of; None for a parameter."""
        return None if self._shown.node is None else Node(self._graph, self._shown.node)

    def debugName(self) -> str:
        """Its name in the text of the graph, without the sign."""
        return self._graph._names().get(self._shown, self._shown.name or "?")

    def __repr__(self) -> str:
        return f"%{self.debugName()} : {self.type()}"


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

    def __repr__(self) -> str:
        return self.debugName()


class Node(_Shown):
    """One operator call."""

    def kind(self) -> Symbol:
        """The operator's name without its overload: `aten::relu`."""
        schema = self._shown.op.schema
        return Symbol(f"{schema.namespace}::{schema.base}")

    def inputs(self) -> list[Value]:
        """One for each argument of the schema; lists that are written out are spread."""
        found: list[Value] = []
        for operand in self._shown.args:
            has_values = isinstance(operand, tuple) and next(core.values_in(operand), None) is not None
            found += [self._graph._value(part) for part in (operand if has_values else (operand,))]
        return found

    def outputs(self) -> list[Value]:
        """Its results."""
        return [Value(self._graph, v) for v in self._shown.outputs]

    def output(self) -> Value:
        """Its only result."""
        return Value(self._graph, self._shown.output)

    def blocks(self) -> list[Block]:
        """The bodies of prim::If and prim::Loop."""
        return [Block(self._graph, b) for b in self._shown.blocks]

    def matches(self, schema: str, const: Collection[str] = ()) -> bool:
        """Whether it calls this operator with arguments of these types, those in `const` known while compiling."""
        return matches(self._shown, schema, const)

    def get(self, name: str) -> Any:
        """The value of an argument that is known while compiling, else None. Raises ArgumentError with the names."""
        return constant_of(self._argument(name))

    def is_constant(self, name: str) -> bool:
        """Whether an argument is known while compiling."""
        return next(core.values_in(self._argument(name)), None) is None

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
        """Names and values of the arguments that are known while compiling. There is nothing hidden besides."""
        names = [a.name for a in self._shown.op.schema.arguments]
        pairs = zip(names, self._shown.args, strict=False)
        return {n: constant_of(a) for n, a in pairs if next(core.values_in(a), None) is None}

    def source_range(self) -> str:
        """The line of the program: `train.py:12:5`; empty where none is known."""
        where = self._shown.where
        if where is None:
            return ""
        return f"{where.file}:{where.line}" + (f":{where.column}" if where.column else "")

    sourceRange = source_range

    def __repr__(self) -> str:
        return f"<node {self.kind()}>"


class ConstantNode(Node):
    """Where a constant among the arguments comes from."""

    def kind(self) -> Symbol:
        return Symbol("prim::Constant")

    def inputs(self) -> list[Value]:
        return []

    def outputs(self) -> list[Value]:
        return [Constant(self._graph, self._shown[0])]

    def output(self) -> Value:
        return Constant(self._graph, self._shown[0])

    def blocks(self) -> list[Block]:
        return []

    def attributes(self) -> dict[str, Any]:
        return {"value": constant_of(self._shown[0])}

    def schema(self) -> str:
        return "prim::Constant() -> Any"

    def source_range(self) -> str:
        return ""


class Block(_Shown):
    """A sequence of nodes with parameters and results."""

    def nodes(self) -> list[Node]:
        """Its nodes in order."""
        return [Node(self._graph, n) for n in self._shown.nodes]

    def inputs(self) -> list[Value]:
        """Its parameters."""
        return [Value(self._graph, v) for v in self._shown.params]

    def outputs(self) -> list[Value]:
        """Its results."""
        return [self._graph._value(r) for r in self._shown.results]


class Graph:
    """A program as a graph. `str(graph)` is its text; `weft.jit.parse_ir` reads it."""

    def __init__(self, shown: core.Graph, program: Program | None = None) -> None:
        self._ir, self._program = shown, program
        self._known_names: dict[core.Value, str] | None = None

    @property
    def ir(self) -> core.Graph:
        """The graph as weft.ir and the passes have it."""
        return self._ir

    @property
    def program(self) -> Program | None:
        """What the graph refers to by name, if it belongs to a program."""
        return self._program

    def nodes(self) -> list[Node]:
        """The nodes of the top block, in order."""
        return self.block().nodes()

    def inputs(self) -> list[Value]:
        """The parameters."""
        return self.block().inputs()

    def outputs(self) -> list[Value]:
        """The results."""
        return self.block().outputs()

    def block(self) -> Block:
        """The top block."""
        return Block(self, self._ir.block)

    def walk(self) -> list[Node]:
        """Every node, those of inner blocks behind their owner."""
        return [Node(self, n) for n in self._ir.walk()]

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind, or None."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """Every node of a kind (`aten::relu`); with recurse=False those of the top block."""
        return [n for n in (self.walk() if recurse else self.nodes()) if n.kind() == kind]

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
        return self if self._program is None else Graph(*inlined(self._program))

    def _names(self) -> dict[core.Value, str]:
        if self._known_names is None:
            self._known_names = name_values(self._ir)
        return self._known_names

    def _value(self, operand: core.Operand) -> Value:
        return Value(self, operand) if isinstance(operand, core.Value) else Constant(self, operand)

    def __str__(self) -> str:
        return str(self._ir)

    __repr__ = __str__
