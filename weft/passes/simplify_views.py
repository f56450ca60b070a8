"""simplify_views: views, copies and casts that change nothing, and scatters into what is overwritten whole,
are left out."""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, Value
from weft.passes.rebuild import rewrite_operators


def simplify_views(graph: Graph) -> Graph:
    """The graph without views, copies and casts whose result equals their source."""
    # A view with strides of its own speaks of bytes: the copy below it decides where they lie.
    laid_out = {n.args[0] for n in graph.walk() if n.op.view is not None and n.op.view.is_free}

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        return None if node.outputs[0] in laid_out else _simplified(node, args)

    return rewrite_operators(graph, rewrite, lambda op: op.identity is not None)


def _simplified(node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    assert node.op.identity is not None
    at = node.op.identity(*[a.type if type(a) is Value else a for a in args])
    if at is None or type(args[at]) is not Value or args[at].type is not node.outputs[0].type:
        return None
    return (args[at],)
