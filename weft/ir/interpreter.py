"""The interpreter: runs a graph on NumPy arrays, node by node, If and Loop included. The reference for native code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.structure import IF, LOOP
from weft.ops import compute
from weft.support.errors import WeftError
from weft.types import dims
from weft.types.dims import Expr

Values = dict[Value, Any]


def interpret(graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int] | None = None) -> list[Any]:
    """The graph's results for `inputs` (ndarrays and numbers, in the order of its parameters); inputs are not changed.

    symbols: values of the graph's symbols; those that are bare dims of a parameter are taken from the inputs when missing.
    """
    values: Values = dict(zip(graph.params, inputs))
    known = dict(symbols or {})
    for p, x in zip(graph.params, inputs):
        bind_symbols(p, x, known)
    run_block(graph.block, values, known)
    return [resolve(r, values, known) for r in graph.results]


def bind_symbols(param: Value, array: Any, known: dict[str, int]) -> None:
    """Learn the symbols that are dims of a parameter from the array passed for it."""
    if not isinstance(array, np.ndarray):
        return
    declared = getattr(param.type, "dims", None) or ()
    for d, n in zip(declared, array.shape):
        if isinstance(d, Expr) and d.symbol_name is not None:
            known.setdefault(d.symbol_name, n)


def run_block(block: Block, values: Values, symbols: Mapping[str, int]) -> None:
    """Run a block's nodes; `values` gains their results."""
    for node in block.nodes:
        run_node(node, values, symbols)


def run_node(node: Node, values: Values, symbols: Mapping[str, int]) -> None:
    """Run one node."""
    if node.op is IF:
        outputs = _run_if(node, values, symbols)
    elif node.op is LOOP:
        outputs = _run_loop(node, values, symbols)
    else:
        outputs = _results(node, _evaluate(node, tuple(resolve(a, values, symbols) for a in node.args)))
    values.update(zip(node.outputs, outputs))


def _evaluate(node: Node, args: tuple[Any, ...]) -> Any:
    try:
        if node.outputs and not hasattr(node.outputs[0].type, "dtype"):
            return evaluate_number(node, args)
        return compute.evaluate(node.op, args)
    except WeftError as error:
        if node.where is not None and not str(error).startswith(str(node.where)):
            raise type(error)(f"{node.where}: {error}") from None
        raise


def evaluate_number(node: Node, args: tuple[Any, ...]) -> Any:
    """A node on Python numbers: the same entry, on 0-dim float64 (or int64, bool) values."""
    value = compute.evaluate(node.op, args)
    return value.item() if isinstance(value, np.ndarray) else value


def _results(node: Node, value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def resolve(operand: Operand, values: Values, symbols: Mapping[str, int]) -> Any:
    """An operand's value: Values looked up, symbolic integers evaluated."""
    kind = type(operand)
    if kind is Value:
        return values[operand]
    if kind is tuple:
        return tuple([resolve(o, values, symbols) for o in operand])
    if kind is Expr:
        return dims.evaluate(operand, symbols)
    return operand


def _truth(value: Any) -> bool:
    return bool(value.item() if isinstance(value, np.ndarray) else value)


def _run_if(node: Node, values: Values, symbols: Mapping[str, int]) -> tuple[Any, ...]:
    block = node.blocks[0] if _truth(resolve(node.args[0], values, symbols)) else node.blocks[1]
    scope = dict(values)
    run_block(block, scope, symbols)
    return tuple(resolve(r, scope, symbols) for r in block.results)


def _run_loop(node: Node, values: Values, symbols: Mapping[str, int]) -> tuple[Any, ...]:
    trip, condition, carried, xs, reverse = (resolve(a, values, symbols) for a in node.args)
    trip = int(trip.item() if isinstance(trip, np.ndarray) else trip)
    going = _truth(condition)
    block = node.blocks[0]
    count = len(carried)
    stacked: list[list[Any]] = [[] for _ in range(len(block.results) - 1 - count)]
    step = 0
    while step < trip and going:
        at = trip - 1 - step if reverse else step
        scope = dict(values)
        scope.update(zip(block.params, (at, *carried, *(x[at] for x in xs))))
        run_block(block, scope, symbols)
        going_value, *rest = (resolve(r, scope, symbols) for r in block.results)
        going, carried = _truth(going_value), tuple(rest[:count])
        for rows, y in zip(stacked, rest[count:]):
            rows.append(y)
        step += 1
    return (*carried, *(_stack(node, i, count, rows, reverse, symbols) for i, rows in enumerate(stacked)))


def _stack(node: Node, i: int, count: int, rows: list[Any], reverse: bool, symbols: Mapping[str, int]) -> Any:
    if reverse:
        rows = rows[::-1]
    if rows:
        return np.stack([np.asarray(r) for r in rows])
    declared: Any = node.outputs[count + i].type
    shape = tuple(dims.evaluate(d, symbols) if isinstance(d, Expr) else d for d in declared.dims[1:])
    return np.empty((0, *shape), declared.dtype.numpy)
