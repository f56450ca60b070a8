"""Unbacked sizes across a cut: what one half of a program finds while it runs (a `u` symbol) is bound on entry
(an `s`) to the half that goes on."""

from __future__ import annotations

from collections.abc import Collection

from weft.ir.graph import Graph
from weft.passes.resized import Resized
from weft.passes.unbacked import mentioned
from weft.types import dims
from weft.types.dims import Dim


def bind_on_entry(graph: Graph, found: Collection[str]) -> tuple[Graph, dict[str, str]]:
    """The graph with fresh `s` symbols in place of those in `found`, and which stands for which:
    new name -> found name."""
    used = sorted(set(mentioned(graph.block)).intersection(found))
    if not used:
        return graph, {}
    names = {name: graph.env.fresh("s") for name in used}
    renamed: dict[str, Dim] = dict(names)
    block = Resized(lambda d: dims.substitute(d, renamed)).block(graph.block)
    return Graph(graph.name, block, graph.env, graph.writes), {str(new): old for old, new in names.items()}
