"""Graphs from text, and functions from graphs."""

from __future__ import annotations

from weft.ir.parser import parse_verified
from weft.jit.functions import ScriptFunction
from weft.jit.program import Parameter, Program
from weft.jit.torchscript.graph import Graph
from weft.jit.torchscript.graphs.stored_graphs import read_stored_graph
from weft.types.tensor_type import tuple_of


def parse_ir(text: str) -> Graph:
    """The graph of a text in weft's notation (`graph @name(%x: Tensor) { ... }`) or TorchScript's (`graph(%x :
    Tensor): ...`).

    Raises ParseError with line and column, also for a graph that breaks a rule.
    """
    if text.lstrip().startswith("graph("):
        program = read_stored_graph(text)
        assert program.graph is not None
        return Graph(program.graph, program)
    return Graph(parse_verified(text))


def create_function_from_graph(name: str, graph: Graph) -> ScriptFunction:
    """A function that runs a graph. Several results come as a tuple."""
    names = [v.debugName() for v in graph.inputs()]
    parameters = tuple(
        Parameter(n if n.isidentifier() else f"x{i}", v.type())
        for i, (n, v) in enumerate(zip(names, graph.inputs(), strict=True))
    )
    types = [v.type() for v in graph.outputs()]
    returns = types[0] if len(types) == 1 else tuple_of(*types)
    origin = graph.program or Program(name)
    return ScriptFunction(
        Program(name, parameters, returns, graph.ir, origin.functions, origin.captured, origin.python)
    )
