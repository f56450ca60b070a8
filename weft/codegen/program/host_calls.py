"""Host calls: a node of the graph as a Python function over arrays and numbers, with NumPy doing the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.ir.evaluate import ArrayEvaluator, resolve
from weft.ir.graph import Node, Value
from weft.ops import array as _rule_runner  # noqa: F401  # lets evaluate run decompositions
from weft.ops.compute import evaluate_in_program, evaluate_numbers
from weft.ops.op import Op
from weft.ops.rules import Pointwise
from weft.runtime.program import HostFunction

NUMBERS = (int, float, bool)


def host_function(node: Node) -> HostFunction:
    """`f(values of node.needs(), symbols) -> values of its outputs`."""
    inputs = node.needs()
    if node.blocks:
        return _block_function(node, inputs)

    def run(values: Sequence[Any], symbols: Mapping[str, int]) -> Sequence[Any]:
        scope = dict(zip(inputs, values, strict=True))
        result = evaluate_node(node.op, tuple([resolve(a, scope, symbols) for a in node.args]))
        return result if isinstance(result, (tuple, list)) else (result,)

    return run


def _block_function(node: Node, inputs: tuple[Value, ...]) -> HostFunction:
    def run(values: Sequence[Any], symbols: Mapping[str, int]) -> Sequence[Any]:
        scope = dict(zip(inputs, values, strict=True))
        ArrayEvaluator(symbols).evaluate_node(node, scope)
        return [scope[output] for output in node.outputs]

    return run


def evaluate_node(op: Op, args: tuple[Any, ...]) -> Any:
    """The operator's value; of numbers alone, a number, computed as Python does (64 bits)."""
    if op.host:
        return op.kernel(*args)  # type: ignore[misc]
    if op.scalar is not None and isinstance(op.type, Pointwise) and all(isinstance(a, NUMBERS) for a in args):
        return evaluate_numbers(op, args)
    return evaluate_in_program(op, args)
