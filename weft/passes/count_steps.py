"""count_steps: where a tensor says how many steps a loop makes, the number becomes a size that the program finds, as
the size of what nonzero gives is. Then what the loop stacks and goes over lies in memory of a known size, and native
code runs it.

Such are the loops of the backward of weft.while_loop: an earlier loop has counted the steps.
"""

from __future__ import annotations

from weft.ir.graph import Graph, Node, Operand, Value
from weft.ir.structure import LOOP, STEPS
from weft.passes.scripted.rewrite import Emitter, remade, rewrite
from weft.types import dtype as dt
from weft.types.dims import Expr
from weft.types.tensor_type import TensorType, tensor_type


def count_steps(graph: Graph) -> Graph:
    """The graph with sizes in place of tensors as trip counts of loops over rows. Loops within blocks stay: a size is
    found once in a run.
    """
    if not graph.env.has_unbacked or not any(_length(n) is not None for n in graph.nodes):
        return graph
    depth = 0
    known: set[tuple[Value, Expr]] = set()

    def enter(node: Node) -> None:
        nonlocal depth
        depth += 1

    def counted(emitter: Emitter, node: Node) -> tuple[Operand, ...] | None:
        nonlocal depth
        depth -= 1
        length = None if depth else _length(node)
        if length is None:
            return None
        trip = node.args[0]
        if (trip, length) not in known:
            known.add((trip, length))
            emitter.emit(STEPS, (trip,), tensor_type(dt.bool_, (length, 0)))
        made = remade(node, (length, *node.args[1:]), node.blocks)
        emitter.nodes.append(made)
        return made.outputs

    return rewrite(graph, counted, enter)


def _length(node: Node) -> Expr | None:
    """The size of a loop's rows, if it is the number in a 0-dim tensor."""
    if node.op is not LOOP or not isinstance(node.args[0], Value) or not isinstance(node.args[0].type, TensorType):
        return None
    rows = (*node.args[3], *node.outputs[len(node.args[2]) :])
    length = rows[0].tensor_type.shape[0] if rows else None
    return length if isinstance(length, Expr) and (length.symbol_name or "")[:1] == "u" else None
