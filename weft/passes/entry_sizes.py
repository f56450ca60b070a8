"""Unbacked sizes across a cut: what one half of a program finds while it runs (a `u` symbol) is bound on entry
(an `s`) to the half that goes on."""

from __future__ import annotations

from collections.abc import Collection

from weft.ir.builder import Builder
from weft.ir.graph import Graph
from weft.ir.resized import Resized
from weft.ops.packet import aten
from weft.passes.unbacked import mentioned, symbols_of
from weft.types import dims
from weft.types.dims import Dim, symbol
from weft.types.dtype import int64


def bind_arguments(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """The graph with fresh `s` symbols for the sizes of its parameters that another program found, as in bind_on_entry.
    """
    return bind_on_entry(graph, {s for p in graph.params for s in symbols_of(p.type) if s[0] == "u"})


def bind_on_entry(graph: Graph, symbols: Collection[str]) -> tuple[Graph, dict[str, str]]:
    """The graph with fresh `s` symbols in place of those in `symbols`, and which stands for which:
    new name -> the name that it had."""
    used = sorted(mentioned(graph.block).intersection(symbols))
    if not used:
        return graph, {}
    names = {name: graph.env.fresh("s") for name in used}
    renamed: dict[str, Dim] = dict(names)
    block = Resized(lambda d: dims.substitute(d, renamed)).block(graph.block)
    return Graph(graph.name, block, graph.env, graph.writes), {str(new): old for old, new in names.items()}


def giving_sizes(graph: Graph, results: int, names: tuple[str, ...]) -> Graph:
    """The graph with sizes that it finds while it runs, by name, as results behind the first ones."""
    builder = Builder(graph.name, graph.env)
    builder.params, builder.nodes = list(graph.params), list(graph.nodes)
    with builder.active():
        sizes = [builder.operand(aten.full((), symbol(name), dtype=int64)) for name in names]
    return builder.graph((*graph.results[:results], *sizes, *graph.results[results:]), graph.writes)
