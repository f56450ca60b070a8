"""scatter_sums: a sum with something scattered into zeros becomes an update of that part only.

The gradient of `x[:, t]` is a tensor of x's size that is zero but for one slice. Summed over t these cost the whole
tensor each time; as `scatter(sum, view(sum) + slice)`, which a kernel does in place, they cost their slices. The rest
gets zeros too, which makes 0.0 of -0.0: they are added once, to what the first part is added to.
"""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, Value, use_counts
from weft.ops.packet import aten
from weft.ops.route import call
from weft.passes.group import is_zeros
from weft.passes.rebuild import rebuild, results_of

_ADD = aten.add.Tensor.op


def scatter_sums(graph: Graph) -> Graph:
    """The graph with `a + scatter(zeros, b)` written as `scatter(a, view(a) + b)` where the scatter
    has no other reader."""
    operators = graph.block.operators()
    if _ADD not in operators or not any(op.scatters is not None for op in operators):
        return graph
    uses = use_counts(graph)

    def part_of(node: Node, args: tuple[Operand, ...]) -> int | None:
        """Which operand of a sum is a part, that is scattered into zeros."""
        if args[2] != 1 or any(type(a) is not Value or a.type is not node.outputs[0].type for a in args[:2]):
            return None
        for i in (1, 0):
            if uses[node.args[i]] == 1 and args[0] is not args[1] and _is_scatter_into_zeros(args[i]):
                return i
        return None

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        i = part_of(node, args)
        if i is None:
            return None
        total, before = args[1 - i], node.args[1 - i].node
        if before is None or before.op is not _ADD or part_of(before, before.args) is None:
            total = _without_negative_zeros(builder, total, uses[node.args[1 - i]] == 1)
        return results_of(builder, _update(builder, total, args[i].node))

    return rebuild(graph, rewrite, lambda node: node.op is _ADD and part_of(node, node.args) is not None)


def _is_scatter_into_zeros(value: Value) -> bool:
    node = value.node
    if node is None or node.op.scatters is None:
        return False
    base, source = node.args[:2]
    return is_zeros(base) and source.type.dtype is base.type.dtype


def _without_negative_zeros(builder: Builder, total: Value, is_read_once: bool) -> Value:
    """What a sum begins with, after zeros were added. Of a part among zeros, to the part."""
    dtype = total.tensor_type.dtype
    if dtype is None or not dtype.is_differentiable:
        return total
    if is_read_once and _is_scatter_into_zeros(total):
        assert total.node is not None
        base, source, *rest = total.node.args
        part = call(total.node.op, (builder.handle(base), aten.add(builder.handle(source), 0), *rest))
        return builder.operand(part)  # type: ignore[no-any-return]
    return builder.operand(aten.add(builder.handle(total), 0))  # type: ignore[no-any-return]


def _update(builder: Builder, total: Value, scatter: Node | None) -> object:
    assert scatter is not None
    view = scatter.op.scatters
    assert view is not None
    base, rest = builder.handle(total), scatter.args[2:]
    shown = call(view, (base, *rest[1:]))[rest[0]] if view.schema.returns_list else call(view, (base, *rest))
    return call(scatter.op, (base, aten.add(shown, builder.handle(scatter.args[1])), *rest))
