"""CapturedGraph: a captured backward as its user sees it: text, inputs, file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from weft.compiled_autograd.program import Program
from weft.ir.graph import Graph, Value
from weft.ir.printer import name_values, print_graph
from weft.types.tensor_type import TENSOR


class CapturedGraph:
    """A backward call as a graph of opaque calls. `graph` is the program in weft's notation, without a size,
    dtype or number of any call.

    origins: the nodes of the walk in the order in which they ran, "MulBackward0 (NodeCall 2)".
    calls: beside `graph.nodes`, of which of them each call is; empty where the graph did not come from a walk.
    """

    def __init__(self, graph: Graph, calls: Sequence[str] = ()) -> None:
        self.graph, self.calls = graph, tuple(calls)
        self.origins = tuple(dict.fromkeys(calls))

    @property
    def tensor_inputs(self) -> tuple[Value, ...]:
        """The tensors that the graph takes and reads, in order: seeds and saved tensors, each once."""
        read = {v for node in self.graph.walk() for v in node.reads()}
        return tuple([p for p in self.graph.params if p.type is TENSOR and p in read])

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of all inputs: tensors `t*`, sizes `s*`, numbers of inlined programs `n*`, integers `i*`,
        floats `f*`, and hooks, nodes and leaves `o*`."""
        names = name_values(self.graph)
        return tuple([names[p] for p in self.graph.params])

    def explain(self) -> str:
        """Each call of the graph with the node that it is of, and the line of the node's forward."""
        rows = [
            (node.op.name, self.calls[i] if self.calls else "", str(node.where or ""))
            for i, node in enumerate(self.graph.nodes)
        ]
        widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
        return "\n".join(f"{a:{widths[0]}}  {b:{widths[1]}}  {c}".rstrip() for a, b, c in rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph as text; `weft.ir.load(path)` reads it back. Raises OSError."""
        Path(path).write_text(print_graph(self.graph), encoding="utf-8")

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run the graph node by node on the list of its inputs, as `interpret(graph)` does: a compiler that gives the
        graph back as it is has it interpreted. The list is emptied, so that inputs die after their last use."""
        return self._interpreted(inputs)

    @cached_property
    def _interpreted(self) -> Program:
        return Program(self.graph)

    def __weft_compile__(self, backend: str | None) -> Program:
        """What `weft.compile(graph)` gives: a callable of the list of inputs."""
        from weft.compiled_autograd.specialize import NativePart  # deferred: brings in the compiler

        return Program(self.graph, partial(NativePart, backend=backend))

    def __str__(self) -> str:
        return print_graph(self.graph)

    def __repr__(self) -> str:
        return f"<captured backward of {len(self.graph.nodes)} calls>"
