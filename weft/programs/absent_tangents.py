"""Gradients where nothing comes in for some of the results: what depends on those tangents alone takes no part in sums.

Zeros in their place would be right but for numbers that are infinite or NaN, which they make NaN of, and for histories:
a gradient would be a function of what only an absent one depends on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, Value, values_in
from weft.ir.opaque import WHERE_REACHED
from weft.ops.packet import aten
from weft.passes.dce import dce
from weft.passes.rebuild import rebuild
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import TensorType

_SUM = aten.add.Tensor.op


def without_tangents(graph: Graph, tangents: Sequence[Value], absent: Collection[int]) -> Graph:
    """A graph of gradients, linear in its `tangents`, of which some are absent: by their numbers. What takes such a
    value otherwise than in a sum goes on taking zeros; parameters and results stay in their places. Hooks that wait
    for such a value alone do not run."""
    depending, nothing = set(tangents), {tangents[i] for i in absent}
    staying: dict[Node, int] = {}  # of sums, the summand that is there; of hooks that do not run, what they are given
    for node in graph.nodes:
        taken = [v for v in node.needs() if v in depending]
        if not taken:
            continue
        depending.update(node.outputs)
        if node.op is WHERE_REACHED and nothing.issuperset(values_in(node.args[2])):
            staying[node] = 1
            if node.args[1] in nothing:
                nothing.update(node.outputs)
            continue
        if nothing.issuperset(taken):
            nothing.update(node.outputs)
        elif node.op is _SUM and not nothing.isdisjoint(taken) and _is_plain(graph.env, node):
            staying[node] = 1 if node.args[0] in nothing else 0
    if not staying:
        return graph

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return (args[staying[node]],)

    return dce(rebuild(graph, rewrite, lambda node: node in staying))


def _is_plain(env: ShapeEnv, node: Node) -> bool:
    """Whether a sum is of two gradients of one type, by what is known of sizes."""
    a, b, alpha = node.args
    if not isinstance(a, Value) or not isinstance(b, Value) or alpha != 1:
        return False
    first, second = a.type, b.type
    if not isinstance(first, TensorType) or not isinstance(second, TensorType) or first.dtype is not second.dtype:
        return first == second
    if first.dims is None or second.dims is None:
        return first == second
    return len(first.dims) == len(second.dims) and all(map(env.equal, first.shape, second.shape))
