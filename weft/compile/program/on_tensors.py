"""A captured graph run with tensors, node by node, so that its results have histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.ir.graph import Graph, Operand, Value
from weft.ir.opaque import ACCUMULATE, VALIDATE, plan_of_opaque
from weft.ops.backward import Plan, apply_functional
from weft.ops.op import Op
from weft.ops.route import call
from weft.support.errors import StateError
from weft.types import dims
from weft.types.dims import Expr

Results = tuple[Any, ...]


def run_on_tensors(graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
    """The graph's results for tensors and numbers in the order of its parameters.

    Raises StateError for branches and loops, whose blocks have no history outside of a program.
    """
    values: dict[Value, Any] = dict(zip(graph.params, inputs, strict=True))
    for node in graph.nodes:
        if node.blocks:
            where = f" ({node.where})" if node.where is not None else ""
            raise StateError(
                f"create_graph=True through a compiled forward with a branch or a loop{where}: compile the whole step, "
                "the function that calls backward or autograd.grad, instead of the model alone"
            )
        results = evaluate_op(node.op, tuple([_resolved(a, values, symbols) for a in node.args]))
        values.update(zip(node.outputs, results, strict=True))
    return [_resolved(r, values, symbols) for r in graph.results]


def evaluate_op(op: Op, args: tuple[Any, ...]) -> Results:
    """The results of a node: opaque calls by their formulas, others as they are."""
    plan = plan_of_opaque(op)
    if plan is not None:
        return opaque_results(plan, *args)
    out = op.decompose(*args) if op is VALIDATE or op is ACCUMULATE else call(op, args)  # type: ignore[misc]
    return tuple(out) if type(out) in (tuple, list) else (out,)


def opaque_results(plan: Plan, grads: Any, needs: tuple[bool, ...], packed: Any) -> Results:
    """What an opaque call gives: one gradient for each wanted argument, one for each tensor of a list."""
    out: list[Any] = []
    for gradient, is_wanted in zip(apply_functional(plan, grads, needs, packed), needs, strict=True):
        if is_wanted:
            out.extend(gradient if type(gradient) in (tuple, list) else (gradient,))
    return tuple(out)


def _resolved(operand: Operand, values: Mapping[Value, Any], symbols: Mapping[str, int]) -> Any:
    kind = type(operand)
    if kind is Value:
        return values[operand]
    if kind is tuple:
        return tuple([_resolved(o, values, symbols) for o in operand])
    return dims.evaluate(operand, symbols) if kind is Expr else operand
