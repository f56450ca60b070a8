"""Short parts between calls of Python, run formula by formula as the engine would: to enter a native program costs more
than one or two small formulas do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from weft.autograd.node import formula_table
from weft.compiled_autograd.evaluate import evaluate_as
from weft.ir.graph import Node, Value, map_operand
from weft.ir.opaque import VALIDATE, plan_of_opaque
from weft.ops.planned import NOT_PLANNED
from weft.types.tensor_type import NONE

Values = dict[Value, Any]
Take = Callable[[Values], None]  # computes what one node gives
FORMULAS = 2  # in a short part
SMALL = 1 << 14  # elements of a tensor


def is_short(nodes: Sequence[Node]) -> bool:
    """Whether a part has so few formulas, and nothing but what is done around them."""
    return sum(plan_of_opaque(node.op) is not None for node in nodes) <= FORMULAS and not any(n.blocks for n in nodes)


def are_small(inputs: Sequence[Any]) -> bool:
    """Whether arrays are so small that it is not worth a native program to compute with them."""
    return all([type(x) is ndarray and x.size <= SMALL for x in inputs])


def run_by_hand(nodes: Sequence[Node]) -> Callable[[Values], None]:
    """Run nodes one by one, without history."""
    steps = [_step(node) for node in nodes]

    def run(values: Values) -> None:
        for step in steps:
            step(values)

    return run


def _step(node: Node) -> Take:
    plan = plan_of_opaque(node.op)
    if node.op is VALIDATE:
        return _validate(node)
    return _as_any(node) if plan is None or plan.op.tensor_list_positions else _formula(node)


def _as_any(node: Node) -> Take:
    def take(values: Values) -> None:
        results = evaluate_as(node, tuple([map_operand(a, values) for a in node.args]))
        values.update(zip(node.outputs, results, strict=True))

    return take


def _validate(node: Node) -> Take:
    otherwise = _as_any(node)
    gradient, dims, dtype = node.args
    (output,) = node.outputs

    def take(values: Values) -> None:
        g = values[gradient]
        if g.dtype is dtype and g._data.shape == tuple([values[d] if type(d) is Value else d for d in dims]):
            values[output] = g
        else:
            otherwise(values)

    return take


def _formula(node: Node) -> Take:
    otherwise = _as_any(node)
    plan, (grads, needs, packed) = plan_of_opaque(node.op), node.args
    assert plan is not None
    operands, count, tables = (*grads, *packed), len(grads), plan.tables
    places = [(v, i) for v, i in zip(node.outputs, [i for i, n in enumerate(needs) if n], strict=True)]

    def take(values: Values) -> None:
        args = tuple([
            values[a] if type(a) is Value else map_operand(a, values) if type(a) is tuple else a for a in operands
        ])
        table = tables.get((needs, *map(type, args))) or formula_table(plan, needs, count, args)
        results = table.run(args)
        if results is NOT_PLANNED:
            otherwise(values)
            return
        for value, i in places:
            result = results[i]
            if result is None and value.type is not NONE:
                otherwise(values)  # which says so
                return
            values[value] = result

    return take
