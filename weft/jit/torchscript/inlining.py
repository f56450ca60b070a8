"""Copies of graphs, and graphs with the bodies of the functions that they call in place of the calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from weft.ir.copies import Copy, Values
from weft.ir.graph import Graph, Node, Operand, Value
from weft.jit.errors import Inlined
from weft.jit.program import Program
from weft.ops.op import OPS
from weft.support.errors import ArgumentError
from weft.support.locations import Location
from weft.types.tensor_type import ClassType


def clone(graph: Graph) -> Graph:
    """An equal graph of nodes of its own."""
    return Graph(graph.name, Copy().block(graph.block), graph.env, graph.writes)


def inlined(program: Program) -> tuple[Graph, Program]:
    """The graph without calls of other programs, and the program that it belongs to, which has what they refer to."""
    assert program.graph is not None
    whole = dataclasses.replace(
        program, functions={}, captured={}, python={}, code=None, recording_code=None, last_plan=None
    )
    block = _Inlining(whole, program, {}).block(program.graph.block)
    whole.graph = Graph(program.graph.name, block, program.graph.env)
    return whole.graph, whole


class _Inlining(Copy):
    """A copy of one program's nodes for `whole`, which gets what they refer to; calls become what they call."""

    def __init__(self, whole: Program, program: Program, values: Values) -> None:
        super().__init__(values)
        self.whole, self.program = whole, program

    def put(self, node: Node, nodes: list[Node]) -> None:
        """Append a node, or those of the program that it calls."""
        called = self._called(node)
        if called is None:
            return super().put(node, nodes)
        program, args = called
        assert program.graph is not None
        bindings = dict(zip(program.graph.params, map(self.operand, args), strict=True))
        inner, first = _Inlining(self.whole, program, bindings), len(nodes)
        for one in program.graph.nodes:
            inner.put(one, nodes)
        if node.where is not None:
            _note_call(nodes[first:], node.where)
        self.values[node.output] = inner.operand(program.graph.results[0])
        return None

    def _called(self, node: Node) -> tuple[Program, tuple[Operand, ...]] | None:
        """The program that a node calls, with the arguments; None for any other node."""
        if node.op is _CALL:
            return self.program.functions[node.args[0]], node.args[1]
        if node.op is _METHOD:
            callee = self.program.functions.get(f"{_class_of(node.args[0])}.{node.args[1]}")
            return None if callee is None else (callee, (node.args[0], *node.args[2]))
        return None

    def args_of(self, node: Node) -> tuple[Operand, ...]:
        """The arguments, with the names under which the whole program knows what they name."""
        whole = self.whole
        if node.op is _ATTRIBUTE and node.args[0] is None:
            return (None, _renamed(whole.captured, node.args[1], self.program.captured[node.args[1]]), node.args[2])
        if node.op is _OBJECT:
            return (_renamed(whole.captured, node.args[0], self.program.captured[node.args[0]]), node.args[1])
        if node.op is _ENTER:
            return (_renamed(whole.functions, node.args[0], self.program.functions[node.args[0]]), node.args[1])
        if node.op is _PYTHON:
            return (_renamed(whole.python, node.args[0], self.program.python[node.args[0]]), *node.args[1:])
        return node.args


_CALL, _METHOD, _ATTRIBUTE, _PYTHON, _OBJECT, _ENTER = (
    OPS[f"prim::{n}"] for n in ("CallFunction", "CallMethod", "GetAttr", "PythonOp", "CreateObject", "Enter")
)


def _class_of(operand: Operand) -> str:
    """The name of the type of an object."""
    kind = operand.type if isinstance(operand, Value) else None
    return kind.name if isinstance(kind, ClassType) else ""


def _renamed(table: dict[str, Any], name: str, value: Any) -> str:
    key = next((k for k, v in table.items() if v is value), None)
    count, key = (0, name) if key is None else (0, key)
    while key in table and table[key] is not value:
        count += 1
        key = f"{name}_{count}"
    table[key] = value
    return key


def _note_call(nodes: Sequence[Node], where: Location) -> None:
    """Let the lines of nodes lead on to the line of the call that they come from."""
    for node in nodes:
        if node.where is not None:
            node.where = Inlined.called(node.where, where)
        for block in node.blocks:
            _note_call(block.nodes, where)


def inlined_among(graph: Graph, functions: Sequence[Graph]) -> Graph:
    """The graph with the bodies of those that it calls by name, if they are among `functions`. Raises ArgumentError for
    a function that calls itself.
    """
    programs = {g.name: Program(g.name, graph=g) for g in functions}
    for program in (*programs.values(), top := Program(graph.name, graph=graph)):
        assert program.graph is not None
        program.functions = programs
    _refuse_recursion(graph, {g.name: g for g in functions}, ())
    return inlined(top)[0]


def _refuse_recursion(graph: Graph, functions: Mapping[str, Graph], above: tuple[str, ...]) -> None:
    for node in graph.walk():
        name = node.args[0] if node.op is _CALL else None
        if name is None:
            continue
        if name in above or name not in functions:
            raise ArgumentError(
                f"inline: @{graph.name} calls {name}, which "
                + ("calls itself" if name in above else "is not among the graphs of the text")
            )
        _refuse_recursion(functions[name], functions, (*above, name))
