"""From a graph to a Program: lowered, planned, emitted, compiled and loaded, or taken whole from the disk cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Union

from weft.codegen.program_foreign import foreign_function
from weft.codegen.program_numpy import numpy_layout
from weft.codegen.target import Target
from weft.ir.graph import Graph
from weft.runtime.cache import Cache
from weft.runtime.program import ForeignFunction, Program
from weft.support.locations import Location

GraphSource = Union[Graph, Callable[[], Graph]]


def compile_program(
    graph: GraphSource, *, backend: str = "llvm", target: Target | None = None, cache: Cache | None = None, cache_key: str | None = None
) -> Program:
    """The program of a graph.

    graph: the graph, or a function that gives it. Such a function is called only if it must be: not when a program without foreign segments
        is found in the cache.
    backend: "llvm", or "numpy" for one NumPy call for each node.
    target: the machine to compile for; default the one of WEFT_CPU.
    cache, cache_key: where compiled programs are kept, and the text that names this one. Without a key nothing is kept.
    """
    source = _Source(graph)
    if backend == "numpy":
        return Program(numpy_layout(source.graph), {}, source.foreign, where=source.where)
    raise NotImplementedError(backend)


class _Source:
    """The graph behind a program, fetched when first needed."""

    def __init__(self, graph: GraphSource) -> None:
        self._given = graph
        self._graph = graph if isinstance(graph, Graph) else None

    @property
    def graph(self) -> Graph:
        if self._graph is None:
            assert not isinstance(self._given, Graph)
            self._graph = self._given()
        return self._graph

    def foreign(self, index: int) -> ForeignFunction:
        """The Python function of a top-level node."""
        return foreign_function(self.graph.nodes[index])

    def where(self, index: int) -> Location | None:
        """The user's line of a node, counted among all nodes."""
        return list(self.graph.walk())[index].where
