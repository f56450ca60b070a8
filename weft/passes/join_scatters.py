"""join_scatters: a write through a chain of views becomes one write to a part of the memory, and what is overwritten
whole is not copied first.

`x.t()[0].add_(1)` is recorded as `transpose_scatter(x, select_scatter(transpose(x), new, 0, 0))`, which costs two
copies of x. The steps of the chain, joined, say where the new elements lie in x: `as_strided_scatter(x, new, ...)`,
which a kernel does in place where nobody reads the old x. `view_scatter(x, new)` is `view(new)`: nothing of x is left.
"""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.copies import same_operands
from weft.ir.graph import Graph, Node, Operand, Value, use_counts
from weft.ops.geometry import Geometry, contiguous
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.passes.alias import ProvingEnv, dims_of, dtype_of, view_geometries, view_inverted
from weft.passes.rebuild import rebuild
from weft.types import shape_env

_INTO_MEMORY, _VIEW, _PERMUTE = aten.as_strided_scatter.default.op, aten.view.default.op, aten.permute.default.op
Call = tuple[Op, tuple[Operand, ...]]


def join_scatters(graph: Graph) -> Graph:
    """The graph with chains of scatters joined, and scatters of all elements written as views of their source."""
    operators = graph.block.operators()
    if not any(map(_is_scatter, operators)):
        return graph
    proving = ProvingEnv(graph.env)  # (once: what guards settle takes as long as there are guards)
    uses = use_counts(graph)
    laid_out = _laid_out(graph) if any(op.view is not None and op.view.is_free for op in operators) else set()
    scatters = [n for n in graph.walk() if _is_scatter(n.op)]
    inner = {id(n.args[1].node) for n in scatters if _inside(n) is not None and uses[n.args[1]] == 1}

    def better(node: Node, args: tuple[Operand, ...]) -> Call | None:
        base, source = args[:2]
        if id(node) in inner or type(base) is not Value or type(source) is not Value:
            return None
        if dtype_of(base) is not dtype_of(source):
            return None
        with shape_env.using(proving):
            if uses[node.args[1]] == 1 and _inside(node) is not None:
                joined = _joined(node, args)
                if joined is not None:
                    return joined
            return None if node.outputs[0] in laid_out else _whole(node, args)

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        call = better(node, args)
        return None if call is None else builder.emit_raw(*call, (node.outputs[0].type,), (), node.where).outputs

    return rebuild(graph, rewrite, lambda node: _is_scatter(node.op) and better(node, node.args) is not None)


def _is_scatter(op: Op) -> bool:
    return op.scatters is not None


def _laid_out(graph: Graph) -> set[Value]:
    """Values whose bytes a view with strides of its own speaks of: these must lie row-major in memory of their own."""
    bases: set[Value] = set()
    for node in reversed(list(graph.walk())):
        if node.op.view is not None and (node.op.view.is_free or any(v in bases for v in node.outputs)):
            bases.add(node.args[0])
    return bases


# ---- chains
def _inside(node: Node) -> Node | None:
    """The scatter that makes the source of this one, into what this one's view shows of the same base."""
    if node.op.scatters is None or type(node.args[1]) is not Value:
        return None
    inner = node.args[1].node
    if inner is None or inner.op.scatters is None or type(inner.args[0]) is not Value:
        return None
    view, rest, index = view_inverted(node)
    shown = inner.args[0].node
    if shown is None or shown.op is not view or shown.outputs[index] is not inner.args[0]:
        return None
    same = shown.args[0] is node.args[0] and _equal(shown.args[1:], rest)
    return inner if same and dtype_of(inner.args[1]) is dtype_of(node.args[0]) else None


def _equal(a: tuple[Operand, ...], b: tuple[Operand, ...]) -> bool:
    return same_operands(a, b) or all(x is y if type(x) is Value else x == y for x, y in zip(a, b, strict=True))


def _joined(node: Node, args: tuple[Operand, ...]) -> Call | None:
    """One write of the innermost source to where the whole chain looks. (The scatters inside have been emitted as they
    are.)
    """
    base, scatter = args[0], args[1].node
    place: Geometry | None = _geometry(node, contiguous(dims_of(base)))
    source: Operand = args[1]
    while scatter is not None and place is not None:
        place, source = _geometry(scatter, place), scatter.args[1]
        scatter = _inside(scatter)
    if place is None or place.ndim != len(dims_of(source)) or any(type(s) is int and s == 0 for s in place.strides):
        return None
    return _INTO_MEMORY, (base, source, place.dims, place.strides, place.offset)


def _geometry(node: Node, source: Geometry) -> Geometry | None:
    """Where a scatter's view looks, of memory that lies so. What names strides of its own speaks of a row-major value.
    """
    view, rest, index = view_inverted(node)
    if view.view is None or view.view.overlaps or (view.view.is_free and source != contiguous(source.dims)):
        return None
    geometries = view_geometries(view, source, rest)
    return None if geometries is None else geometries[index]


# ---- all elements
def _whole(node: Node, args: tuple[Operand, ...]) -> Call | None:
    """The source, seen from the other side, where the scatter's view shows every element once."""
    base, source = args[:2]
    view = view_inverted(node)[0]
    if view.view is None or view.schema.returns_list:
        return None
    if view.view.keeps_order:
        return _VIEW, (source, dims_of(base))
    layout = contiguous(dims_of(base))
    shown = _geometry(node, layout)
    order = None if shown is None else _order(layout, shown)
    return None if order is None else (_PERMUTE, (source, order))


def _order(layout: Geometry, shown: Geometry) -> tuple[int, ...] | None:
    """For each dim the one of what is shown that walks along it; None where these are not the same dims."""
    if layout.ndim != shown.ndim or shown.offset != 0:
        return None
    left = list(zip(shown.dims, shown.strides, strict=True))
    order = []
    for pair in zip(layout.dims, layout.strides, strict=True):
        if pair not in left:
            return None
        order.append(left.index(pair))
        left[order[-1]] = None  # type: ignore[call-overload]
    return tuple(order)
