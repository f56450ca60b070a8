"""A graph as kernels: group, build nests, emit each distinct nest once.
`lower_graph` is the compiler's way from nodes to calls."""

from __future__ import annotations

from weft.codegen.emit import Module
from weft.codegen.lower import (  # noqa: F401  # enter their lowerings
    accumulate,
    alignments,
    attention,
    checks,
    convolution,
    distances,
    fourier,
    gather,
    masks,
    matrices,
    orderings,
    product,
    scan,
    scatter,
)
from weft.codegen.lower.lowering import GENERAL, Lowering
from weft.codegen.lower.move import lower_copy, lower_scatter
from weft.codegen.target import Target
from weft.ir.graph import Graph
from weft.loops.kernel import LoweredGraph


def lower_graph(graph: Graph, module: Module, target: Target, with_text: bool = False) -> LoweredGraph:
    """Lower a graph; functions are written to `module`. `with_text` keeps each kernel's readable loops."""
    return Lowering(graph, module, target, with_text).block(graph.block)


GENERAL[:] = [lower_copy, lower_scatter]
