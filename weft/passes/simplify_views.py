"""simplify_views: views, copies and casts that change nothing, and scatters into what is overwritten whole,
are left out."""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, Value
from weft.passes.rebuild import rebuild


def simplify_views(graph: Graph) -> Graph:
    """The graph without views, copies and casts whose result equals their source."""
    views = UnneededViews(graph)

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        source = views.source(node, Node(node.op, args, tuple([v.type for v in node.outputs])))
        return None if source is None else (source,)

    return rebuild(graph, rewrite, lambda node: views.source(node, node) is not None)


class UnneededViews:
    """Nodes of a graph whose result equals an argument."""

    def __init__(self, graph: Graph) -> None:
        operators = graph.block.operators()
        self._identities = {op for op in operators if op.identity is not None}
        # A view with strides of its own speaks of bytes: the copy below it decides where they lie.
        self._laid_out: set[Operand] = set()
        if any(op.view is not None and op.view.is_free for op in operators):
            self._laid_out.update(n.args[0] for n in graph.walk() if n.op.view is not None and n.op.view.is_free)

    def source(self, node: Node, now: Node) -> Value | None:
        """The argument that equals the result of a node of the graph, as it is by now; None where there is none."""
        if node.op not in self._identities or node.outputs[0] in self._laid_out:
            return None
        assert node.op.identity is not None
        at = node.op.identity(*[a.type if type(a) is Value else a for a in now.args])
        source = None if at is None else now.args[at]
        return source if type(source) is Value and source.type is now.outputs[0].type else None
