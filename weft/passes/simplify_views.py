"""simplify_views: views, copies and casts that change nothing, and scatters into what is overwritten whole,
are left out."""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, Value
from weft.passes.rebuild import rebuild


def simplify_views(graph: Graph) -> Graph:
    """The graph without views, copies and casts whose result equals their source."""
    operators = graph.block.operators()
    identities = {op for op in operators if op.identity is not None}
    if not identities:
        return graph
    # A view with strides of its own speaks of bytes: the copy below it decides where they lie.
    laid_out: set[Operand] = set()
    if any(op.view is not None and op.view.is_free for op in operators):
        laid_out.update(n.args[0] for n in graph.walk() if n.op.view is not None and n.op.view.is_free)

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        return _source(node, args)

    def wants(node: Node) -> bool:
        return (
            node.op in identities and node.outputs[0] not in laid_out and _source(node, node.args) is not None
        )

    return rebuild(graph, rewrite, wants)


def _source(node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    """The argument that is the same as the node's result; None where there is no such argument."""
    assert node.op.identity is not None
    at = node.op.identity(*[a.type if type(a) is Value else a for a in args])
    if at is None or type(args[at]) is not Value or args[at].type is not node.outputs[0].type:
        return None
    return (args[at],)
