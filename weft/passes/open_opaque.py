"""open_opaque: replace each opaque backward call by its formulas, now that shapes are known."""

from __future__ import annotations

from typing import Any

from weft.ir.builder import Builder, Handle
from weft.ir.graph import Graph, Node, Operand, Value
from weft.ir.opaque import ACCUMULATE, VALIDATE, plan_of_opaque
from weft.ops.backward import flat_gradients
from weft.ops.op import Op
from weft.passes.openings import Openings
from weft.passes.rebuild import results_of, rewrite_operators


def open_opaque(graph: Graph) -> Graph:
    """The graph without autograd:: calls."""
    return rewrite_operators(graph, Openings(_open, lambda: Builder(graph.name, graph.env)), _is_opaque)


def open_views(graph: Graph) -> Graph:
    """The graph with the formulas of views, which say what part of memory a gradient belongs to; and without checks of
    what has a type then."""
    if not any(map(_is_of_view, graph.block.operators())):
        return graph

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        if node.op is not VALIDATE:
            return _open(builder, node, args)
        if type(args[0]) is not Value or not args[0].tensor_type.is_complete:
            return None
        gradients = _open(builder, node, args)  # (opaque calls that read it keep its type: it says what they give)
        return gradients if gradients is not None and gradients[0].type is node.output.type else None

    return rewrite_operators(graph, rewrite, lambda op: op is VALIDATE or _is_of_view(op))


def _is_of_view(op: Op) -> bool:
    plan = plan_of_opaque(op)
    return plan is not None and plan.op.view is not None


def _is_opaque(op: Op) -> bool:
    return op is VALIDATE or op is ACCUMULATE or plan_of_opaque(op) is not None


def _open(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    op = node.op
    if op is VALIDATE or op is ACCUMULATE:
        assert op.decompose is not None
        return results_of(builder, op.decompose(*(builder.handle(a) for a in args)))
    plan = plan_of_opaque(op)
    if plan is None:
        return None
    grads, needs, packed = args
    return tuple([
        _operand(r) for r in flat_gradients(plan, builder.handle(grads), needs, builder.handle(packed))
    ])


def _operand(result: Any) -> Operand:
    if result is None:
        return None
    if not isinstance(result, Handle):
        raise AssertionError(f"a formula returned {type(result).__name__}, not a graph value")
    return result.value
